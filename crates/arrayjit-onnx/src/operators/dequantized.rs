//! Products of dequantized operands, which a load puts in place of the operators of the file
//! ([`crate::dequantized`]): the operands of both `DequantizeLinear`, then the others of the operator.
//!
//! In class strict, results have the bits of the operators of the file.

use tnode::DType;

use super::{
    context::{Lowered, NodeContext},
    contract::product,
    elementwise::combined,
    integer_product::{Quantized, integer_convolution, integer_product},
    operator::{Operator, internal_op},
    window::convolved,
};
use crate::{
    error::{OnnxError, Result},
    host::{HostValue, floats_of, reversed},
    shape::{access, letter, letters},
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    internal_op("Conv", dequantized_convolution),
    internal_op("Gemm", dequantized_gemm).sized(),
    internal_op("MatMul", dequantized_product).sized(),
];

/// The operands of a product: integers, scales and zero points. Scales and zero points of the right one may
/// run along an axis.
struct Dequantized {
    left: Quantized,
    left_scale: Value,
    right: Quantized,
    right_scale: Value,
}

/// The longest sums of the greatest products that fit i32.
const MOST_EXACT: usize = 33_025;

impl Dequantized {
    fn of(cx: &NodeContext<'_>) -> Result<Dequantized> {
        let quantized = |first| -> Result<Quantized> {
            Ok(Quantized { values: cx.value(first)?, zero: Some(cx.value(first + 2)?) })
        };
        Ok(Dequantized {
            left: quantized(0)?,
            left_scale: cx.value(1)?,
            right: quantized(3)?,
            right_scale: cx.value(4)?,
        })
    }

    /// The numbers of the operands. Scales of the right one run along an axis.
    fn numbers(&self, cx: &mut NodeContext<'_>, axis: usize) -> Result<[Value; 2]> {
        let left = dequantized(cx, &self.left, &self.left_scale, 0, "left")?;
        Ok([left, dequantized(cx, &self.right, &self.right_scale, axis, "right")?])
    }

    /// Sums of products of integers in f32, plus a bias; scales and bias run along an axis of the result.
    fn scaled(
        &self,
        cx: &mut NodeContext<'_>,
        sum: &Value,
        axis: usize,
        bias: Option<&Value>,
    ) -> Result<Value> {
        let element = cx.bind(sum)?.whole();
        let scales = [&self.left_scale, &self.right_scale].map(|scale| along(cx, scale, axis));
        let [left, right] = scales;
        let (left, right) = (left?, right?);
        let bias = match bias {
            Some(bias) if bias.rank() == sum.rank() => format!(" + {}", cx.bind(bias)?.broadcast(sum.rank())),
            Some(bias) => format!(" + {}", along(cx, bias, axis)?),
            None => String::new(),
        };
        let y = access("y", letters(sum.rank()));
        cx.emit(DType::F32, sum.extents(), &format!("{y} := f32({element}) * ({left} * {right}){bias}"))
    }
}

/// The only element, or the element at the position along an axis of the result.
fn along(cx: &mut NodeContext<'_>, value: &Value, axis: usize) -> Result<String> {
    let operand = cx.bind(value)?;
    match (value.num_elements(), value.rank()) {
        (1, rank) => Ok(operand.at(&vec!["0".to_owned(); rank])),
        (_, 1) => Ok(operand.at(&[letter(axis)])),
        _ => Err(OnnxError::Invalid(format!("{:?} does not fit an axis", value.shape()))),
    }
}

/// The product of two dequantized matrices.
fn dequantized_product(cx: &mut NodeContext<'_>) -> Lowered {
    let operands = Dequantized::of(cx)?;
    let is_exact = operands.left.values.shape().last().is_some_and(|&depth| depth <= MOST_EXACT);
    let exact = match is_exact && !cx.is_strict() {
        true => integer_product(cx, &operands.left, &operands.right)?,
        false => None,
    };
    match exact {
        Some(sum) => Ok(vec![operands.scaled(cx, &sum, sum.rank() - 1, None)?]),
        None => {
            let axis = operands.right.values.rank().saturating_sub(1);
            let [left, right] = operands.numbers(cx, axis)?;
            Ok(vec![product(cx, &left, &right, DType::F32)?])
        }
    }
}

/// `Gemm` of two dequantized matrices, of which the right one may be transposed, plus a bias.
fn dequantized_gemm(cx: &mut NodeContext<'_>) -> Lowered {
    let mut operands = Dequantized::of(cx)?;
    if operands.left.values.rank() != 2 || operands.right.values.rank() != 2 {
        return Err(OnnxError::operand(0, "expected matrices"));
    }
    if cx.int_or("transB", 0)? != 0 {
        operands.right.values = transposed(cx, &operands.right.values)?;
    }
    let bias = cx.optional(6);
    let is_exact = operands.left.values.shape()[1] <= MOST_EXACT && !cx.is_strict();
    let fits =
        bias.as_ref().is_none_or(|bias| bias.rank() == 2 || bias.rank() == 1 || bias.num_elements() == 1);
    if is_exact
        && fits
        && let Some(sum) = integer_product(cx, &operands.left, &operands.right)?
    {
        return Ok(vec![operands.scaled(cx, &sum, 1, bias.as_ref())?]);
    }
    let [left, right] = operands.numbers(cx, 1)?;
    let sum = product(cx, &left, &right, DType::F32)?;
    Ok(vec![match bias {
        Some(bias) => combined(cx, &sum, &bias, DType::F32, "{x} + {z}")?,
        None => sum,
    }])
}

/// A matrix whose rows are the columns of another one.
fn transposed(cx: &mut NodeContext<'_>, value: &Value) -> Result<Value> {
    match (value.known(), value.shape()) {
        (Some(known), &[rows, columns]) => {
            cx.reserve(known.dtype(), value.shape())?;
            let array = reversed(&known.array, [rows, 1, columns], &[columns, rows])?;
            Ok(Value::Known(HostValue::new(array, known.is_constant)))
        }
        _ => cx.permuted(value, &[1, 0]),
    }
}

/// The convolution of dequantized operands, plus a bias.
fn dequantized_convolution(cx: &mut NodeContext<'_>) -> Lowered {
    let operands = Dequantized::of(cx)?;
    let bias = cx.optional(6);
    let depth: usize = operands.right.values.shape().iter().skip(1).product();
    if depth <= MOST_EXACT
        && !cx.is_strict()
        && let Some(sum) = integer_convolution(cx, &operands.left, &operands.right, None)?
    {
        return Ok(vec![operands.scaled(cx, &sum, 1, bias.as_ref())?]);
    }
    let [image, filters] = operands.numbers(cx, 0)?;
    Ok(vec![convolved(cx, &image, &filters, bias)?])
}

/// The numbers that an operand stands for. If it has several scales, they run along an axis.
fn dequantized(
    cx: &mut NodeContext<'_>,
    operand: &Quantized,
    scale: &Value,
    axis: usize,
    name: &str,
) -> Result<Value> {
    let values = &operand.values;
    let known = [Some(values), operand.zero.as_ref(), Some(scale)];
    let known = known.map(|value| value.and_then(Value::known).filter(|known| known.is_constant).cloned());
    if let [Some(integers), Some(zero), Some(scale)] = known {
        let inner: usize = values.shape().iter().skip(axis + 1).product();
        return cx.table(format!("dequantized {name}"), || {
            let (zeros, scales) = (zero.ints(), scale.floats());
            let numbers = integers.ints().into_iter().enumerate().map(|(at, value)| {
                let at = at / inner.max(1);
                let (zero, scale) = (zeros[at % zeros.len()], scales[at % scales.len()]);
                f64::from((value - zero) as f32 * scale as f32)
            });
            floats_of(DType::F32, integers.shape(), &numbers.collect::<Vec<_>>())
        });
    }
    let element = cx.bind_array(values)?.whole();
    let zero = match &operand.zero {
        Some(zero) => format!(" - i32({})", along(cx, zero, axis)?),
        None => String::new(),
    };
    let scale = along(cx, scale, axis)?;
    let y = access("y", letters(values.rank()));
    cx.emit(DType::F32, values.extents(), &format!("{y} := f32(i32({element}){zero}) * {scale}"))
}
