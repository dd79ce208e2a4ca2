//! Functions of quantized integers: products of integers, and other operators on the numbers that the
//! integers stand for.

use tnode::DType;

use super::{
    super::elementwise::combined,
    attention::projected,
    channels_last::{channels_first, channels_last},
    ms, only, transposed,
};
use crate::{
    error::{OnnxError, Result},
    host::float,
    ir::Attribute,
    operators::{
        context::{Lowered, NodeContext},
        operator::Operator,
        quantize::{dequantize, quantize},
    },
    value::Value,
};

pub(in crate::operators) static OPERATORS: &[Operator] = &[
    ms("DequantizeLinear", dequantize).sized(),
    ms("DynamicQuantizeMatMul", |cx| {
        let x = cx.value(0)?;
        let [x, scale, zero] = cx
            .apply("DynamicQuantizeLinear", [], vec![Some(x)], 3)?
            .try_into()
            .map_err(|_| OnnxError::overflow())?;
        let weights = [Some(cx.value(1)?), cx.optional(3)];
        let weight_scale = cx.value(2)?;
        let y = scaled(cx, [Some(x), Some(zero)], weights, [&scale, &weight_scale])?;
        biased(cx, y, 4)
    })
    .sized(),
    ms("DynamicQuantizeLSTM", recurrent),
    ms("MatMulIntegerToFloat", |cx| {
        let (left, right) = ([Some(cx.value(0)?), cx.optional(4)], [Some(cx.value(1)?), cx.optional(5)]);
        let scales = [cx.value(2)?, cx.value(3)?];
        let y = scaled(cx, left, right, [&scales[0], &scales[1]])?;
        biased(cx, y, 6)
    })
    .sized(),
    ms("QAttention", |cx| {
        let (left, right) = ([Some(cx.value(0)?), cx.optional(6)], [Some(cx.value(1)?), cx.optional(7)]);
        let scales = [cx.value(3)?, cx.value(4)?];
        let y = scaled(cx, left, right, [&scales[0], &scales[1]])?;
        let y = only(biased(cx, y, 2)?)?;
        // It has no bias of scores.
        projected(cx, y, [5, 8, usize::MAX])
    }),
    ms("QGemm", gemm),
    ms("QLinearAdd", |cx| pair(cx, "{x} + {z}")),
    ms("QLinearAveragePool", |cx| {
        let names = ["auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"];
        pooled(cx, "AveragePool", &names)
    }),
    ms("QLinearConcat", |cx| {
        let mut parts = Vec::new();
        for at in (2..cx.inputs()).step_by(3) {
            parts.push(Some(dequantized(cx, at)?));
        }
        let attributes = cx.copied(&["axis"]);
        let y = only(cx.apply("Concat", attributes, parts, 1)?)?;
        quantized(cx, y, 0)
    }),
    ms("QLinearGlobalAveragePool", |cx| pooled(cx, "GlobalAveragePool", &[])),
    ms("QLinearLeakyRelu", |cx| {
        let attributes = cx.copied(&["alpha"]);
        one(cx, "LeakyRelu", attributes)
    }),
    ms("QLinearMul", |cx| pair(cx, "{x} * {z}")),
    ms("QLinearSigmoid", |cx| one(cx, "Sigmoid", Vec::new())),
    ms("QLinearSoftmax", |cx| {
        let attributes = cx.copied(&["axis"]);
        one(cx, "Softmax", attributes)
    }),
    ms("QLinearWhere", |cx| {
        let operands = vec![Some(cx.value(0)?), Some(dequantized(cx, 1)?), Some(dequantized(cx, 4)?)];
        let y = only(cx.apply("Where", [], operands, 1)?)?;
        quantized(cx, y, 7)
    }),
    ms("QuantizeLinear", quantize).sized(),
];

/// The numbers that the integers of an operand stand for; its scale and zero point follow it.
fn dequantized(cx: &mut NodeContext<'_>, at: usize) -> Result<Value> {
    let operands = vec![Some(cx.value(at)?), Some(cx.value(at + 1)?), cx.optional(at + 2)];
    only(cx.apply("DequantizeLinear", [], operands, 1)?)
}

/// The integers of numbers, with the scale that is operand `at` and the zero point behind it.
fn quantized(cx: &mut NodeContext<'_>, x: Value, at: usize) -> Lowered {
    let operands = vec![Some(x), Some(cx.value(at)?), cx.optional(at + 1)];
    cx.apply("QuantizeLinear", [], operands, 1)
}

/// An expression of the elements `{x}` and `{z}` of two operands.
fn pair(cx: &mut NodeContext<'_>, expression: &str) -> Lowered {
    let (x, z) = (dequantized(cx, 0)?, dequantized(cx, 3)?);
    let y = combined(cx, &x, &z, x.dtype(), expression)?;
    quantized(cx, y, 6)
}

/// An operator of one operand.
fn one(cx: &mut NodeContext<'_>, name: &'static str, attributes: Vec<(&'static str, Attribute)>) -> Lowered {
    let x = dequantized(cx, 0)?;
    let y = only(cx.apply(name, attributes, vec![Some(x)], 1)?)?;
    quantized(cx, y, 3)
}

/// A layer with quantized matrices. Steps are computed with the numbers that they stand for: inputs and
/// states are not rounded to integers.
fn recurrent(cx: &mut NodeContext<'_>) -> Lowered {
    let mut operands = vec![Some(cx.value(0)?)];
    for (at, scale) in [(1, 8), (2, 10)] {
        let matrix = gate_matrix(cx, at, scale)?;
        operands.push(Some(matrix));
    }
    operands.extend((3..8).map(|at| cx.optional(at)));
    let names = ["activation_alpha", "activation_beta", "activations", "clip", "direction"];
    let attributes = [cx.copied(&names), cx.copied(&["hidden_size", "input_forget"])].concat();
    cx.apply("LSTM", attributes, operands, 3)
}

/// The matrices of all gates in floats, `[directions, gates * hidden, inputs]`, of integers with the last two
/// axes exchanged. A scale and the zero point behind it hold for a direction or for a row.
fn gate_matrix(cx: &mut NodeContext<'_>, at: usize, scale: usize) -> Result<Value> {
    let x = cx.value(at)?;
    let &[directions, _, rows] = x.shape() else { return Err(OnnxError::operand(at, "expected three axes")) };
    let mut factors = Vec::new();
    for factor in [scale, scale + 1] {
        let value = cx.value(factor)?;
        let shape = match *value.shape() {
            [count] | [count, 1] if count == directions => [directions, 1, 1],
            [count, width] if count == directions && width == rows => [directions, 1, rows],
            _ => return Err(OnnxError::operand(factor, "expected a number for each direction or row")),
        };
        factors.push(cx.reshaped(&value, &shape)?);
    }
    let [x, zero] = [cx.cast(&x, DType::I32)?, cx.cast(&factors[1], DType::I32)?];
    let x = combined(cx, &x, &zero, DType::I32, "{x} - {z}")?;
    let x = combined(cx, &x, &factors[0], DType::F32, "f32({x}) * {z}")?;
    cx.permuted(&x, &[0, 2, 1])
}

/// Pooling, with the channels last if the node says so.
fn pooled(cx: &mut NodeContext<'_>, name: &'static str, attributes: &[&'static str]) -> Lowered {
    let x = dequantized(cx, 0)?;
    let is_last = cx.int_or("channels_last", 0)? != 0;
    let x = if is_last { channels_first(cx, &x)? } else { x };
    let y = only(cx.apply(name, cx.copied(attributes), vec![Some(x)], 1)?)?;
    let y = if is_last { channels_last(cx, &y)? } else { y };
    quantized(cx, y, 3)
}

/// The product of two matrices of integers without their zero points, times their scales.
fn scaled(
    cx: &mut NodeContext<'_>,
    [x, x_zero]: [Option<Value>; 2],
    [z, z_zero]: [Option<Value>; 2],
    [x_scale, z_scale]: [&Value; 2],
) -> Result<Value> {
    let sum = only(cx.apply("MatMulInteger", [], vec![x, z, x_zero, z_zero], 1)?)?;
    let scale = combined(cx, x_scale, z_scale, DType::F32, "{x} * {z}")?;
    let scale = if scale.num_elements() == 1 { cx.reshaped(&scale, &[])? } else { scale };
    combined(cx, &sum, &scale, DType::F32, "f32({x}) * {z}")
}

/// The value plus the bias that is operand `at`, if the node has one.
fn biased(cx: &mut NodeContext<'_>, x: Value, at: usize) -> Lowered {
    Ok(vec![match cx.optional(at) {
        Some(bias) => combined(cx, &x, &bias, x.dtype(), "{x} + {z}")?,
        None => x,
    }])
}

/// The product of two matrices, which may be transposed, plus a bias in i32; quantized if the node has a
/// scale for the result.
fn gemm(cx: &mut NodeContext<'_>) -> Lowered {
    let mut matrices = Vec::new();
    for (at, name) in [(0, "transA"), (3, "transB")] {
        let x = cx.value(at)?;
        if x.rank() != 2 {
            return Err(OnnxError::operand(at, "expected a matrix"));
        }
        matrices.push(Some(if cx.int_or(name, 0)? != 0 { transposed(cx, &x)? } else { x }));
    }
    matrices.extend([cx.optional(2), cx.optional(5)]);
    let sum = only(cx.apply("MatMulInteger", [], matrices, 1)?)?;
    let sum = match cx.optional(6) {
        Some(bias) => combined(cx, &sum, &bias, DType::I32, "{x} + {z}")?,
        None => sum,
    };
    let scales = [cx.value(1)?, cx.value(4)?];
    let alpha = float(DType::F32, f64::from(cx.float_or("alpha", 1.0)?));
    let scale = combined(cx, &scales[0], &scales[1], DType::F32, &format!("{{x}} * {{z}} * {alpha}"))?;
    let y = combined(cx, &sum, &scale, DType::F32, "f32({x}) * {z}")?;
    match cx.optional(7) {
        Some(_) => quantized(cx, y, 7),
        None => Ok(vec![y]),
    }
}
