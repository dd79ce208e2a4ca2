//! Products of matrices, and sums of products in Einstein's notation.

use arrayjit_tensor::{
    TensorOperand,
    low_level::{NamedAxes, contracted, numbered},
};
use tnode::DType;

use super::{
    context::{Lowered, NodeContext},
    elementwise::combined,
    operator::{Operator, op},
};
use crate::{
    error::{OnnxError, Result},
    host::{float, floats_of},
    shape::broadcast,
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("Det", 11, determinant),
    op("Einsum", 12, einsum).sized(),
    op("Gemm", 7, gemm).sized(),
    op("MatMul", 1, |cx| {
        let (x, z) = (cx.value(0)?, cx.value(1)?);
        let dtype = x.dtype();
        Ok(vec![product(cx, &x, &z, dtype)?])
    })
    .sized(),
];

/// The product of matrices, as NumPy's `matmul`: axes in front broadcast, and vectors get an axis.
pub(super) fn product(cx: &mut NodeContext<'_>, x: &Value, z: &Value, dtype: DType) -> Result<Value> {
    if x.rank() == 0 || z.rank() == 0 {
        return Err(OnnxError::operand(0, "expected one axis or more"));
    }
    let (left, right) = (x.shape().to_vec(), z.shape().to_vec());
    let [is_row, is_column] = [left.len() == 1, right.len() == 1];
    let front = |shape: &[usize]| shape[..shape.len().saturating_sub(2)].to_vec();
    let batch = broadcast(&front(&left), &front(&right))?;
    let inner = left.last().copied().unwrap_or(1);
    if inner != right[right.len().saturating_sub(2)] {
        return Err(OnnxError::operand(1, format!("matrices {left:?} and {right:?} do not fit")));
    }
    let rows = (!is_row).then(|| left[left.len() - 2]);
    let columns = (!is_column).then(|| right[right.len() - 1]);
    let shape: Vec<usize> = batch.into_iter().chain(rows).chain(columns).collect();
    if inner == 0 && !shape.contains(&0) {
        return cx.filled(dtype, &shape, &format!("{dtype}(0)"));
    }
    cx.operation([x, z], dtype, &shape, |[x, z]| x.matmul(z))
}

pub(super) fn gemm(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, z, bias) = (cx.value(0)?, cx.value(1)?, cx.optional(2));
    if x.rank() != 2 || z.rank() != 2 {
        return Err(OnnxError::operand(0, "expected matrices"));
    }
    let sum = gemm_of_rows(cx, &x, &z)?;
    Ok(vec![scaled(cx, &sum, bias.as_ref())?])
}

/// The product of a Gemm, neither scaled nor added to its bias. Only the first operand may have more than two
/// axes, unless it is turned: all but the last are rows.
pub(super) fn gemm_of_rows(cx: &mut NodeContext<'_>, x: &Value, z: &Value) -> Result<Value> {
    let is_turned = [cx.int_or("transA", 0)? != 0, cx.int_or("transB", 0)? != 0];
    let ([rows @ .., inner], &[b0, b1]) = (x.shape(), z.shape()) else {
        return Err(OnnxError::operand(0, "expected matrices"));
    };
    let (rows, inner) = match (is_turned[0], rows) {
        (true, &[depth]) => (vec![*inner], depth),
        _ => (rows.to_vec(), *inner),
    };
    let (depth, columns) = if is_turned[1] { (b1, b0) } else { (b0, b1) };
    if inner != depth {
        return Err(OnnxError::operand(
            1,
            format!("matrices {:?} and {:?} do not fit", x.shape(), z.shape()),
        ));
    }
    let dtype = x.dtype();
    let names = numbered("m", rows.len()).join(" ");
    let shape = [rows, vec![columns]].concat();
    if inner == 0 {
        return cx.filled(dtype, &shape, &format!("{dtype}(0)"));
    }
    let a = if is_turned[0] { format!("k {names}") } else { format!("{names} k") };
    let b = if is_turned[1] { "n k" } else { "k n" };
    cx.operation([x, z], dtype, &shape, |[x, z]| x.einsum(&format!("{a}, {b} -> {names} n"), z))
}

/// The product of a Gemm times its factor, plus the bias times its own.
pub(super) fn scaled(cx: &mut NodeContext<'_>, sum: &Value, bias: Option<&Value>) -> Result<Value> {
    let dtype = sum.dtype();
    let number = |value: f32| match dtype.is_float() {
        true => float(DType::F32, f64::from(value)),
        false => format!("{value:.0}"),
    };
    let (alpha, beta) = (cx.float_or("alpha", 1.0)?, cx.float_or("beta", 1.0)?);
    let scaled = |name: &str, scale: f32| match scale {
        1.0 => name.to_owned(),
        _ => format!("{name} * {}", number(scale)),
    };
    match bias {
        Some(bias) => {
            let expression = format!("{} + {}", scaled("{x}", alpha), scaled("{z}", beta));
            combined(cx, sum, bias, dtype, &expression)
        }
        None if alpha == 1.0 => Ok(sum.clone()),
        None => cx.mapped(sum, dtype, &scaled("{}", alpha)),
    }
}

fn einsum(cx: &mut NodeContext<'_>) -> Lowered {
    let text = cx.text_or("equation", "")?;
    let values = cx.values()?;
    let shapes: Vec<(String, &[usize])> =
        values.iter().enumerate().map(|(at, value)| (format!("operand {at}"), value.shape())).collect();
    let equation = NamedAxes::parse(&text.replace(' ', ""), &shapes);
    let equation = equation.map_err(|problem| OnnxError::Invalid(problem.to_string()))?;
    let (call, shape, dtype) = (cx.call(), equation.shape(), values.first().map_or(DType::F32, Value::dtype));
    if values.iter().any(|value| value.num_elements() == 0) && !shape.contains(&0) {
        return Ok(vec![cx.filled(dtype, shape, &format!("{dtype}(0)"))?]);
    }
    let names = numbered("x", values.len());
    let result = cx.operation_of(&values, dtype, shape, |graph, tensors| {
        let tensors = tensors.iter().map(TensorOperand::argument);
        let inputs: Vec<_> = names.iter().map(String::as_str).zip(tensors).collect();
        contracted(graph, call, &equation, &inputs)
    })?;
    Ok(vec![result])
}

/// The size of square matrices, and the shape of the axes in front of them.
fn square(x: &Value) -> Result<(usize, Vec<usize>)> {
    match x.shape() {
        [outer @ .., rows, columns] if rows == columns => Ok((*rows, outer.to_vec())),
        other => Err(OnnxError::operand(0, format!("expected square matrices, found {other:?}"))),
    }
}

/// The determinants of square matrices, which the host computes in f64.
fn determinant(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let (dtype, (size, shape)) = (x.dtype(), square(&x)?);
    cx.on_host(&[x], move |arrays| {
        let values = arrays.first().map(|array| array.values()).unwrap_or_default();
        let found = match size {
            0 => vec![1.0; shape.iter().product()],
            _ => values
                .chunks_exact(size * size)
                .map(|matrix| eliminate(&mut matrix.to_vec(), size, size))
                .collect(),
        };
        Ok(vec![floats_of(dtype, &shape, &found)?])
    })
}

/// The inverses of square matrices, which the host computes in f64; NaN for singular ones.
pub(super) fn inverse(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let (dtype, shape, (size, _)) = (x.dtype(), x.shape().to_vec(), square(&x)?);
    cx.reserve(DType::F64, &shape)?;
    cx.on_host(&[x], move |arrays| {
        let values = arrays.first().map(|array| array.values()).unwrap_or_default();
        let inverses = values.chunks_exact((size * size).max(1)).flat_map(|matrix| inverted(matrix, size));
        Ok(vec![floats_of(dtype, &shape, &inverses.collect::<Vec<f64>>())?])
    })
}

/// The inverse by elimination of the matrix beside the identity.
fn inverted(matrix: &[f64], size: usize) -> Vec<f64> {
    let mut both = Vec::with_capacity(2 * size * size);
    for (at, row) in matrix.chunks_exact(size).enumerate() {
        both.extend_from_slice(row);
        both.extend((0..size).map(|column| if column == at { 1.0 } else { 0.0 }));
    }
    if eliminate(&mut both, size, 2 * size) == 0.0 {
        return vec![f64::NAN; size * size];
    }
    let rows = both.chunks_exact(2 * size).enumerate();
    rows.flat_map(|(at, row)| row[size..].iter().map(move |value| value / row[at])).collect()
}

/// Eliminates the elements beside the diagonal of a matrix of `size` rows, which are `width` long, and
/// returns the determinant of the first columns. Each column is eliminated by its largest element. If the
/// determinant is 0, the elimination ends early.
fn eliminate(matrix: &mut [f64], size: usize, width: usize) -> f64 {
    let mut product = 1.0;
    for column in 0..size {
        let magnitude = |row: &usize| matrix[row * width + column].abs();
        let best = (column..size).max_by(|a, b| magnitude(a).total_cmp(&magnitude(b))).unwrap_or(column);
        if best != column {
            (0..width).for_each(|at| matrix.swap(column * width + at, best * width + at));
            product = -product;
        }
        let pivot = matrix[column * width + column];
        product *= pivot;
        if pivot == 0.0 {
            return 0.0;
        }
        for row in (0..size).filter(|&row| row != column) {
            let factor = matrix[row * width + column] / pivot;
            for at in column..width {
                matrix[row * width + at] -= factor * matrix[column * width + at];
            }
        }
    }
    product
}
