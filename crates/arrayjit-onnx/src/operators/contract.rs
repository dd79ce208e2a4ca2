//! Products of matrices, and sums of products in Einstein's notation.

use std::collections::{BTreeMap, BTreeSet};

use tnode::DType;

use super::{
    context::{Lowered, NodeContext},
    elementwise::combined,
    operator::{Operator, op},
    reduce::wide,
};
use crate::{
    error::NodeProblem,
    host::{float, floats_of},
    shape::{access, broadcast},
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("Det", 11, determinant),
    op("Einsum", 12, einsum),
    op("Gemm", 7, gemm),
    op("MatMul", 1, |cx| {
        let (x, z) = (cx.value(0)?, cx.value(1)?);
        let dtype = x.dtype();
        Ok(vec![product(cx, &x, &z, dtype)?])
    }),
];

/// The product of matrices, as NumPy's `matmul`: axes in front broadcast, and vectors get an axis.
pub(super) fn product(
    cx: &mut NodeContext<'_, '_>,
    x: &Value,
    z: &Value,
    dtype: DType,
) -> Result<Value, NodeProblem> {
    if x.rank() == 0 || z.rank() == 0 {
        return Err(NodeProblem::operand(0, "expected one axis or more"));
    }
    let (left, right) = (x.shape().to_vec(), z.shape().to_vec());
    let [is_row, is_column] = [left.len() == 1, right.len() == 1];
    let front = |shape: &[usize]| shape[..shape.len().saturating_sub(2)].to_vec();
    let batch = broadcast(&front(&left), &front(&right))?;
    let inner = left.last().copied().unwrap_or(1);
    if inner != right[right.len().saturating_sub(2)] {
        return Err(NodeProblem::operand(1, format!("matrices {left:?} and {right:?} do not fit")));
    }
    let rows = (!is_row).then(|| left[left.len() - 2]);
    let columns = (!is_column).then(|| right[right.len() - 1]);
    let shape: Vec<usize> = batch.into_iter().chain(rows).chain(columns).collect();
    if inner == 0 && !shape.contains(&0) {
        return cx.filled(dtype, &shape, &format!("{dtype}(0)"));
    }
    cx.operation([x, z], dtype, &shape, |[x, z]| x.matmul(z))
}

/// The statement that sums products of accesses in a type that holds sums.
fn sum_of_products(target: &[String], factors: &[String], dtype: DType) -> String {
    let wide = wide(dtype);
    let y = access("y", target);
    if wide == dtype {
        return format!("{y} :+= {}", factors.join(" * "));
    }
    let factors: Vec<String> = factors.iter().map(|factor| format!("{wide}({factor})")).collect();
    let sum = access("s", target);
    format!("{sum} :+= {}\n{y} := {dtype}({sum})", factors.join(" * "))
}

fn gemm(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let (x, z) = (cx.value(0)?, cx.value(1)?);
    let is_turned = [cx.int_or("transA", 0)? != 0, cx.int_or("transB", 0)? != 0];
    let (&[a0, a1], &[b0, b1]) = (x.shape(), z.shape()) else {
        return Err(NodeProblem::operand(0, "expected matrices"));
    };
    let (rows, inner) = if is_turned[0] { (a1, a0) } else { (a0, a1) };
    let (depth, columns) = if is_turned[1] { (b1, b0) } else { (b0, b1) };
    if inner != depth {
        return Err(NodeProblem::operand(
            1,
            format!("matrices {:?} and {:?} do not fit", x.shape(), z.shape()),
        ));
    }
    let dtype = x.dtype();
    let shape = [rows, columns];
    let sum = if inner == 0 {
        cx.filled(dtype, &shape, &format!("{dtype}(0)"))?
    } else {
        let names = |is_turned: bool, names: [&'static str; 2]| names[usize::from(is_turned)];
        let (a, b) = (names(is_turned[0], ["m k", "k m"]), names(is_turned[1], ["k n", "n k"]));
        cx.operation([&x, &z], dtype, &shape, |[x, z]| x.einsum(&format!("{a}, {b} -> m n"), z))?
    };
    let number = |value: f32| match dtype.is_float() {
        true => float(DType::F32, f64::from(value)),
        false => format!("{value:.0}"),
    };
    let (alpha, beta) = (cx.float_or("alpha", 1.0)?, cx.float_or("beta", 1.0)?);
    let scaled = |name: &str, scale: f32| match scale {
        1.0 => name.to_owned(),
        _ => format!("{name} * {}", number(scale)),
    };
    match cx.optional(2) {
        Some(bias) => {
            let expression = format!("{} + {}", scaled("{x}", alpha), scaled("{z}", beta));
            Ok(vec![combined(cx, &sum, &bias, dtype, &expression)?])
        }
        None if alpha == 1.0 => Ok(vec![sum]),
        None => Ok(vec![cx.mapped(&sum, dtype, &scaled("{}", alpha))?]),
    }
}

/// The letters of the axes of an operand of an equation; `...` stands for the axes that letters leave.
fn axes_of(part: &str, rank: usize) -> Result<Vec<String>, NodeProblem> {
    let part: String = part.chars().filter(|c| !c.is_whitespace()).collect();
    let wrong = || NodeProblem::attribute("equation", format!("letters for {rank} axes, found `{part}`"));
    // Names sort as the letters do, which is the order of a result that the equation leaves out.
    let names = |text: &str| text.chars().map(|c| format!("a{:07}", u32::from(c))).collect::<Vec<_>>();
    if !part.replacen("...", "", 1).chars().all(char::is_alphabetic) {
        return Err(wrong());
    }
    let Some((front, back)) = part.split_once("...") else {
        let names = names(&part);
        return if names.len() == rank { Ok(names) } else { Err(wrong()) };
    };
    let rest = rank.checked_sub(names(front).len() + names(back).len()).ok_or_else(wrong)?;
    // The axes of `...` are aligned at the last.
    let middle = (0..rest).rev().map(|at| format!("e{at}"));
    Ok(names(front).into_iter().chain(middle).chain(names(back)).collect())
}

fn einsum(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let equation = cx.text_or("equation", "")?;
    let values = cx.values()?;
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation, None),
    };
    let parts: Vec<&str> = left.split(',').collect();
    if parts.len() != values.len() {
        return Err(NodeProblem::attribute("equation", format!("{} operands", values.len())));
    }
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = Vec::new();
    for (part, value) in parts.iter().zip(&values) {
        let axes = axes_of(part, value.rank())?;
        for (name, &size) in axes.iter().zip(value.shape()) {
            let known = sizes.entry(name.clone()).or_insert(size);
            match (*known, size) {
                (a, b) if a == b || b == 1 => {}
                (1, b) => *known = b,
                (a, b) => {
                    return Err(NodeProblem::attribute(
                        "equation",
                        format!("one size of a letter, found {a} and {b}"),
                    ));
                }
            }
        }
        all.push(axes);
    }
    let rest = sizes.keys().filter(|name| name.starts_with('e')).count();
    let target: Vec<String> = match right {
        Some(right) => {
            let plain = right.chars().filter(|c| c.is_alphabetic()).count();
            axes_of(right, plain + if right.contains("...") { rest } else { 0 })?
        }
        None => {
            let count = |name: &String| all.iter().flatten().filter(|other| *other == name).count();
            let once = sizes.keys().filter(|name| name.starts_with('a') && count(name) == 1).cloned();
            (0..rest).rev().map(|at| format!("e{at}")).chain(once).collect()
        }
    };
    let size = |name: &String| {
        sizes
            .get(name)
            .copied()
            .ok_or_else(|| NodeProblem::attribute("equation", "a result with letters of operands"))
    };
    let shape = target.iter().map(size).collect::<Result<Vec<_>, _>>()?;
    if target.iter().collect::<BTreeSet<_>>().len() != target.len() {
        return Err(NodeProblem::attribute("equation", "a result with each letter once"));
    }
    let dtype = values.first().map_or(DType::F32, Value::dtype);
    if values.iter().any(|value| value.num_elements() == 0) && !shape.contains(&0) {
        return Ok(vec![cx.filled(dtype, &shape, &format!("{dtype}(0)"))?]);
    }
    let mut factors = Vec::new();
    for (axes, value) in all.iter().zip(&values) {
        let index = |(name, &own): (&String, &usize)| {
            if own == 1 && sizes.get(name) != Some(&1) { "0".into() } else { name.clone() }
        };
        let index: Vec<String> = axes.iter().zip(value.shape()).map(index).collect();
        factors.push(cx.bind_array(value)?.at(&index));
    }
    let text = sum_of_products(&target, &factors, dtype);
    Ok(vec![cx.emit(dtype, &shape, &text)?])
}

/// The determinants of square matrices, which the host computes in f64.
fn determinant(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let x = cx.value(0)?;
    let [outer @ .., rows, columns] = x.shape() else {
        return Err(NodeProblem::operand(0, "expected two axes or more"));
    };
    if rows != columns {
        return Err(NodeProblem::operand(0, format!("expected square matrices, found {:?}", x.shape())));
    }
    let (dtype, size, shape) = (x.dtype(), *rows, outer.to_vec());
    cx.on_host(&[x], move |arrays| {
        let values = arrays.first().map(|array| array.values()).unwrap_or_default();
        let found = match size {
            0 => vec![1.0; shape.iter().product()],
            _ => values.chunks_exact(size * size).map(|matrix| eliminated(matrix.to_vec(), size)).collect(),
        };
        Ok(vec![floats_of(dtype, &shape, &found)?])
    })
}

/// The determinant by elimination; each column is eliminated by its largest element.
fn eliminated(mut matrix: Vec<f64>, size: usize) -> f64 {
    let mut product = 1.0;
    for column in 0..size {
        let magnitude = |row: &usize| matrix[row * size + column].abs();
        let best = (column..size).max_by(|a, b| magnitude(a).total_cmp(&magnitude(b))).unwrap_or(column);
        if best != column {
            (0..size).for_each(|at| matrix.swap(column * size + at, best * size + at));
            product = -product;
        }
        let pivot = matrix[column * size + column];
        product *= pivot;
        if pivot == 0.0 {
            return 0.0;
        }
        for row in column + 1..size {
            let factor = matrix[row * size + column] / pivot;
            for at in column..size {
                matrix[row * size + at] -= factor * matrix[column * size + at];
            }
        }
    }
    product
}
