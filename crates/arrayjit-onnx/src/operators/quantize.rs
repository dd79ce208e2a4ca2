//! Quantized integers: exact integer arithmetic, with operands widened before products.

use tnode::DType;

use super::{
    context::{Lowered, NodeContext},
    contract::product,
    elementwise::{clamped, combined},
    integer_product::{Quantized, integer_convolution as exact_convolution, integer_product},
    operator::{Operator, op},
    window::convolved,
};
use crate::{
    error::{OnnxError, Result},
    extents::Extents,
    narrow::Narrow,
    shape::{access, axis, letter, letters},
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("ConvInteger", 10, integer_convolution),
    op("DequantizeLinear", 10, dequantize).sized(),
    op("DynamicQuantizeLinear", 11, dynamic).sized(),
    op("MatMulInteger", 10, multiplied).sized(),
    op("QLinearConv", 10, quantized_convolution),
    op("QLinearMatMul", 10, quantized_product),
    op("QuantizeLinear", 10, quantize).sized(),
];

/// The lowest and the highest value of an integer type of at most 16 bits.
fn limits(dtype: DType) -> Result<(i64, i64)> {
    match dtype {
        DType::U8 => Ok((0, 255)),
        DType::I8 => Ok((-128, 127)),
        DType::U16 => Ok((0, 65535)),
        other => Err(OnnxError::Case(format!("quantization to {other}"))),
    }
}

/// A scale or a zero point, bound to a statement.
struct Scale {
    /// The value at the letters of the array that it belongs to.
    text: String,
    dtype: DType,
}

/// The scale or zero point of an operand for an array of that shape: one for all elements, one for each
/// element of an axis, or one for each block of elements of an axis.
fn scale(cx: &mut NodeContext<'_>, at: usize, shape: &[usize]) -> Result<Scale> {
    let value = cx.value(at)?;
    let dtype = value.dtype();
    if value.num_elements() == 1 {
        let operand = cx.bind(&value)?;
        return Ok(Scale { text: operand.at(&vec!["0".to_owned(); value.rank()]), dtype });
    }
    let block = usize::try_from(cx.int_or("block_size", 0)?).unwrap_or(0);
    let axis = axis(cx.int_or("axis", 1)?, shape.len())?;
    if block == 0 && value.shape() == [shape[axis]] {
        return Ok(Scale { text: cx.bind_array(&value)?.at(&[letter(axis)]), dtype });
    }
    let mut blocks = shape.to_vec();
    blocks[axis] = shape[axis].div_ceil(block.max(1));
    if block == 0 || value.shape() != blocks {
        return Err(OnnxError::operand(at, format!("{:?} does not fit {shape:?}", value.shape())));
    }
    let positions: Vec<usize> = (0..shape[axis]).map(|position| position / block).collect();
    let repeated = cx.taken(&value, axis, &positions)?;
    Ok(Scale { text: cx.bind_array(&repeated)?.whole(), dtype })
}

pub(super) fn quantize(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let zero = cx.optional(2);
    let (dtype, narrow) = match &zero {
        Some(zero) => (zero.dtype(), cx.narrow(2)),
        None => {
            (cx.dtype_attribute("output_dtype")?.unwrap_or(DType::U8), cx.narrow_attribute("output_dtype")?)
        }
    };
    let element = cx.bind_array(&x)?.whole();
    let scale_text = scale(cx, 1, x.shape())?.text;
    let zero = match zero {
        Some(_) => Some(scale(cx, 2, x.shape())?.text),
        None => None,
    };
    let quotient = format!("f32({element}) / f32({scale_text})");
    let y = access("y", letters(x.rank()));
    let value = match (narrow, dtype.is_float()) {
        (Some(Narrow::Float4), _) => Narrow::Float4.rounded(&quotient, true),
        (_, true) => {
            let zero = zero.map(|zero| format!(" + f32({zero})")).unwrap_or_default();
            let quotient = format!("{quotient}{zero}");
            match cx.int_or("saturate", 1)? {
                0 => quotient,
                _ => clamped(dtype, &quotient),
            }
        }
        (narrow, false) => {
            let (low, high) = narrow.map_or_else(|| limits(dtype), |narrow| Ok(narrow.limits()))?;
            rounded(&quotient, zero.as_deref(), low, high)
        }
    };
    Ok(vec![cx.emit(dtype, x.extents(), &format!("{y} := {dtype}({value})"))?])
}

/// The text of a number that is rounded, moved by a zero point, and clamped. It is clamped before it is
/// converted, because it may be beyond the integers.
fn rounded(number: &str, zero: Option<&str>, low: i64, high: i64) -> String {
    let Some(zero) = zero else { return format!("i32(min(max(round_even({number}), {low}), {high}))") };
    let [low, high] = [low, high].map(|limit| format!("f32({limit} - i32({zero}))"));
    format!("i32(min(max(round_even({number}), {low}), {high})) + i32({zero})")
}

pub(super) fn dequantize(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let wide = if x.dtype().is_float() { DType::F32 } else { DType::I32 };
    let element = cx.bind_array(&x)?.whole();
    let by = scale(cx, 1, x.shape())?;
    let dtype = cx.dtype_attribute("output_dtype")?.unwrap_or(by.dtype);
    let offset = match cx.optional(2) {
        Some(_) => format!(" - {wide}({})", scale(cx, 2, x.shape())?.text),
        None => String::new(),
    };
    let y = access("y", letters(x.rank()));
    let text = format!("{y} := {dtype}(f32({wide}({element}){offset}) * f32({}))", by.text);
    Ok(vec![cx.emit(dtype, x.extents(), &text)?])
}

/// Quantizes to u8 by the range of the values, which includes 0.
fn dynamic(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let element = cx.bind_array(&x)?.whole();
    let y = access("y", letters(x.rank()));
    let text = format!(
        "low :min= {element}\nhigh :max= {element}\n\
         scale := (max(high, 0) - min(low, 0)) / 255\n\
         zero := u8(min(max(round_even(-min(low, 0) / scale), 0), 255))\n\
         {y} := u8(min(max(i32(round_even({element} / scale)) + i32(zero), 0), 255))"
    );
    let scalar = Extents::default();
    let results =
        [("y", DType::U8, x.extents()), ("scale", DType::F32, scalar.clone()), ("zero", DType::U8, scalar)];
    Ok(cx.emit_extents(results, &text)?.to_vec())
}

/// The operand in i32 without its zero point: one for all elements, or one for each row or column.
fn centered(cx: &mut NodeContext<'_>, x: &Value, zero: Option<Value>, is_left: bool) -> Result<Value> {
    let wide = cx.cast(x, DType::I32)?;
    let Some(zero) = zero else { return Ok(wide) };
    let zero = cx.cast(&zero, DType::I32)?;
    let zero = match (zero.rank(), is_left) {
        (1, true) if zero.num_elements() > 1 => cx.reshaped(&zero, &[zero.num_elements(), 1])?,
        _ => zero,
    };
    let zero = if zero.num_elements() == 1 { cx.reshaped(&zero, &[])? } else { zero };
    combined(cx, &wide, &zero, DType::I32, "{x} - {z}")
}

fn multiplied(cx: &mut NodeContext<'_>) -> Lowered {
    let left = Quantized { values: cx.value(0)?, zero: cx.optional(2) };
    let right = Quantized { values: cx.value(1)?, zero: cx.optional(3) };
    Ok(vec![centered_product(cx, &left, &right)?])
}

/// The product in i32 of two operands without their zero points.
fn centered_product(cx: &mut NodeContext<'_>, left: &Quantized, right: &Quantized) -> Result<Value> {
    if let Some(product) = integer_product(cx, left, right)? {
        return Ok(product);
    }
    let left = centered(cx, &left.values, left.zero.clone(), true)?;
    let right = centered(cx, &right.values, right.zero.clone(), false)?;
    product(cx, &left, &right, DType::I32)
}

fn integer_convolution(cx: &mut NodeContext<'_>) -> Lowered {
    let image = Quantized { values: cx.value(0)?, zero: cx.optional(2) };
    let filters = Quantized { values: cx.value(1)?, zero: cx.optional(3) };
    Ok(vec![centered_convolution(cx, &image, &filters, None)?])
}

/// The convolution in i32 of two operands without their zero points, plus a bias.
fn centered_convolution(
    cx: &mut NodeContext<'_>,
    image: &Quantized,
    filters: &Quantized,
    bias: Option<Value>,
) -> Result<Value> {
    if let Some(sum) = exact_convolution(cx, image, filters, bias.as_ref())? {
        return Ok(sum);
    }
    let image = centered(cx, &image.values, image.zero.clone(), false)?;
    let filters = centered_filters(cx, &filters.values, filters.zero.clone())?;
    convolved(cx, &image, &filters, bias)
}

/// Filters in i32 without their zero point: one for all, or one for each filter.
fn centered_filters(cx: &mut NodeContext<'_>, filters: &Value, zero: Option<Value>) -> Result<Value> {
    let zero = match zero {
        Some(zero) if zero.num_elements() > 1 => {
            let mut shape = vec![1; filters.rank()];
            shape[0] = zero.num_elements();
            Some(cx.reshaped(&zero, &shape)?)
        }
        other => other,
    };
    centered(cx, filters, zero, false)
}

/// The operands of a quantized product: two arrays and the result, each with its scale and zero point.
const QUANTIZED: [(usize, usize); 3] = [(1, 2), (4, 5), (6, 7)];

/// Rounds sums of products to the type of the result. The scale of the first array may have a value for each
/// row, and that of the second one for each element of `axis`.
fn requantized(cx: &mut NodeContext<'_>, sum: &Value, axis: usize) -> Lowered {
    let [(a, _), (b, _), (c, zero)] = QUANTIZED;
    let dtype = cx.value(zero)?.dtype();
    let (low, high) = limits(dtype)?;
    let element = cx.bind_array(sum)?.whole();
    let row = sum.rank().checked_sub(2).filter(|&row| row != axis);
    let mut texts = Vec::new();
    for (at, along) in [(a, row), (b, Some(axis)), (c, None), (zero, None)] {
        let value = cx.value(at)?;
        let operand = cx.bind(&value)?;
        let fits = |at: &usize| value.num_elements() == sum.shape()[*at] && value.rank() <= 2;
        texts.push(match along.filter(fits) {
            _ if value.num_elements() == 1 => operand.at(&vec!["0".to_owned(); value.rank()]),
            // A column of values for the rows, a row of values for the columns, or no other axis.
            Some(along) => {
                let index = |&size: &usize| if size == 1 { "0".to_owned() } else { letter(along) };
                operand.at(&value.shape().iter().map(index).collect::<Vec<_>>())
            }
            None => {
                return Err(OnnxError::operand(
                    at,
                    format!("{:?} does not fit {:?}", value.shape(), sum.shape()),
                ));
            }
        });
    }
    let [a, b, c, zero] = texts.as_slice() else { return Err(OnnxError::operand(1, "it is missing")) };
    let y = access("y", letters(sum.rank()));
    let number = format!("f32({element}) * (f32({a}) * f32({b}) / f32({c}))");
    let text = format!("{y} := {dtype}({})", rounded(&number, Some(zero), low, high));
    Ok(vec![cx.emit(dtype, sum.extents(), &text)?])
}

fn quantized_product(cx: &mut NodeContext<'_>) -> Lowered {
    let left = Quantized { values: cx.value(0)?, zero: Some(cx.value(2)?) };
    let right = Quantized { values: cx.value(3)?, zero: Some(cx.value(5)?) };
    let sum = centered_product(cx, &left, &right)?;
    let columns = sum.rank().saturating_sub(1);
    requantized(cx, &sum, columns)
}

fn quantized_convolution(cx: &mut NodeContext<'_>) -> Lowered {
    let image = Quantized { values: cx.value(0)?, zero: Some(cx.value(2)?) };
    let filters = Quantized { values: cx.value(3)?, zero: Some(cx.value(5)?) };
    let bias = cx.optional(8);
    let sum = centered_convolution(cx, &image, &filters, bias)?;
    requantized(cx, &sum, 1)
}
