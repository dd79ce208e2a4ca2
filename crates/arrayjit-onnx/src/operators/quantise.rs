//! Quantised integers: exact integer arithmetic, with operands widened before products.

use tnode::DType;

use super::{Operator, contract::product, elementwise::combined, op};
use crate::{
    context::{Lowered, NodeContext, Operand, Statement},
    error::NodeProblem,
    shape::{access, axis, letter, letters},
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("DequantizeLinear", 10, dequantize),
    op("DynamicQuantizeLinear", 11, dynamic),
    op("MatMulInteger", 10, integer_product),
    op("QLinearMatMul", 10, quantised_product),
    op("QuantizeLinear", 10, quantize),
];

/// The lowest and the highest value of an integer type of at most 16 bits.
fn limits(dtype: DType) -> Result<(i64, i64), NodeProblem> {
    match dtype {
        DType::U8 => Ok((0, 255)),
        DType::I8 => Ok((-128, 127)),
        DType::U16 => Ok((0, 65535)),
        other => Err(NodeProblem::Unsupported(format!("quantisation to {other}"))),
    }
}

/// A scale or a zero point at the letters of an operand of that shape: one for all elements, one for each
/// element of an axis, or one for each block of elements of an axis.
fn per_axis(
    cx: &mut NodeContext<'_, '_, '_>,
    operand: &Operand,
    shape: &[usize],
    at: usize,
) -> Result<String, NodeProblem> {
    if operand.shape.iter().product::<usize>() == 1 {
        return Ok(operand.at(&vec!["0".to_owned(); operand.shape.len()]));
    }
    let block = cx.int_or("block_size", 0)?;
    let axis = axis(cx.int_or("axis", 1)?, shape.len())?;
    if block == 0 && operand.shape == [shape[axis]] {
        return Ok(operand.at(&[letter(axis)]));
    }
    match block {
        0 => Err(NodeProblem::operand(at, format!("{:?} does not fit {shape:?}", operand.shape))),
        _ => Err(NodeProblem::Unsupported("quantisation by blocks".into())),
    }
}

fn quantize(cx: &mut NodeContext<'_, '_, '_>) -> Lowered {
    let (x, scale) = (cx.value(0)?, cx.value(1)?);
    let zero = cx.optional(2);
    let dtype = match &zero {
        Some(zero) => zero.dtype(),
        None => cx.dtype_attribute("output_dtype")?.unwrap_or(DType::U8),
    };
    let (low, high) = limits(dtype)?;
    let mut statement = Statement::default();
    let element = cx.bind_array(&mut statement, &x)?.whole();
    let scale = cx.bind_array(&mut statement, &scale)?;
    let scale = per_axis(cx, &scale, x.shape(), 1)?;
    let offset = match zero {
        Some(zero) => {
            let zero = cx.bind_array(&mut statement, &zero)?;
            format!(" + i32({})", per_axis(cx, &zero, x.shape(), 2)?)
        }
        None => String::new(),
    };
    let y = access("y", &letters(x.rank()));
    let value = format!("i32(round_even(f32({element}) / f32({scale}))){offset}");
    let text = format!("{y} := {dtype}(min(max({value}, {low}), {high}))");
    Ok(vec![cx.emit(&statement, dtype, x.shape(), &text)?])
}

fn dequantize(cx: &mut NodeContext<'_, '_, '_>) -> Lowered {
    let (x, scale) = (cx.value(0)?, cx.value(1)?);
    let dtype = scale.dtype();
    let wide = if x.dtype().is_float() { DType::F32 } else { DType::I32 };
    let mut statement = Statement::default();
    let element = cx.bind_array(&mut statement, &x)?.whole();
    let scale = cx.bind_array(&mut statement, &scale)?;
    let scale = per_axis(cx, &scale, x.shape(), 1)?;
    let offset = match cx.optional(2) {
        Some(zero) => {
            let zero = cx.bind_array(&mut statement, &zero)?;
            format!(" - {wide}({})", per_axis(cx, &zero, x.shape(), 2)?)
        }
        None => String::new(),
    };
    let y = access("y", &letters(x.rank()));
    let text = format!("{y} := {dtype}({wide}({element}){offset}) * {scale}");
    Ok(vec![cx.emit(&statement, dtype, x.shape(), &text)?])
}

/// Quantises to u8 by the range of the values, which includes 0.
fn dynamic(cx: &mut NodeContext<'_, '_, '_>) -> Lowered {
    let x = cx.value(0)?;
    let mut statement = Statement::default();
    let element = cx.bind_array(&mut statement, &x)?.whole();
    let y = access("y", &letters(x.rank()));
    let text = format!(
        "low :min= {element}\nhigh :max= {element}\n\
         scale := (max(high, 0) - min(low, 0)) / 255\n\
         zero := u8(min(max(round_even(-min(low, 0) / scale), 0), 255))\n\
         {y} := u8(min(max(i32(round_even({element} / scale)) + i32(zero), 0), 255))"
    );
    let results = [("y", DType::U8, x.shape()), ("scale", DType::F32, &[]), ("zero", DType::U8, &[])];
    Ok(cx.emit_all(&statement, results, &text)?.to_vec())
}

/// The operand in i32 without its zero point: one for all elements, or one for each row or column.
fn centred(
    cx: &mut NodeContext<'_, '_, '_>,
    x: &Value,
    zero: Option<Value>,
    is_left: bool,
) -> Result<Value, NodeProblem> {
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

fn integer_product(cx: &mut NodeContext<'_, '_, '_>) -> Lowered {
    let (x, z) = (cx.value(0)?, cx.value(1)?);
    let (x_zero, z_zero) = (cx.optional(2), cx.optional(3));
    let left = centred(cx, &x, x_zero, true)?;
    let right = centred(cx, &z, z_zero, false)?;
    Ok(vec![product(cx, &left, &right, DType::I32)?])
}

/// The operands are: a, its scale and zero point, b with both, and both of the result.
fn quantised_product(cx: &mut NodeContext<'_, '_, '_>) -> Lowered {
    let (x, z) = (cx.value(0)?, cx.value(3)?);
    let (x_zero, z_zero, y_zero) = (cx.value(2)?, cx.value(5)?, cx.value(7)?);
    let left = centred(cx, &x, Some(x_zero), true)?;
    let right = centred(cx, &z, Some(z_zero), false)?;
    let sum = product(cx, &left, &right, DType::I32)?;
    let (low, high) = limits(y_zero.dtype())?;
    let mut statement = Statement::default();
    let element = cx.bind_array(&mut statement, &sum)?.whole();
    let mut numbers = Vec::new();
    for at in [1, 4, 6, 7] {
        let value = cx.value(at)?;
        if value.num_elements() != 1 {
            return Err(NodeProblem::Unsupported("a scale for each row or column".into()));
        }
        numbers.push(cx.bind(&mut statement, &value)?.broadcast(0));
    }
    let [a, b, c, zero] = numbers.as_slice() else { return Err(NodeProblem::operand(1, "it is missing")) };
    let (dtype, y) = (y_zero.dtype(), access("y", &letters(sum.rank())));
    let value = format!("i32(round_even(f32({element}) * (f32({a}) * f32({b}) / f32({c})))) + i32({zero})");
    let text = format!("{y} := {dtype}(min(max({value}, {low}), {high}))");
    Ok(vec![cx.emit(&statement, dtype, sum.shape(), &text)?])
}
