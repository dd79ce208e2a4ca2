//! Normalizations with the sums in front of them.

use tnode::DType;

use super::{
    super::elementwise::combined,
    channels_last::{channels_first, channels_last},
    ms, only, plus,
};
use crate::{
    error::{OnnxError, Result},
    ir::Attribute,
    operators::{
        context::{Affine, Lowered, NodeContext},
        operator::{Operator, op},
    },
    value::Value,
};

pub(in crate::operators) static OPERATORS: &[Operator] = &[
    ms("EmbedLayerNormalization", embedded),
    ms("GroupNorm", grouped),
    ms("QEmbedLayerNormalization", embedded),
    // onnxruntime puts it into the domain of ai.onnx.
    op("SimplifiedLayerNormalization", 1, |cx| {
        let x = cx.value(0)?;
        let scale = cx.value(1)?;
        Ok(vec![simplified(cx, x, scale, cx.int_or("axis", -1)?, 1e-5)?])
    })
    .sized(),
    ms("SkipLayerNormalization", |cx| {
        let sum = skipped(cx, 4)?;
        let (scale, bias) = (cx.value(2)?, cx.optional(3));
        let attributes = [("axis", Attribute::Int(-1)), epsilon(cx, 1e-12)?];
        let wanted = if cx.wants(1) || cx.wants(2) { 3 } else { 1 };
        let mut results =
            cx.apply("LayerNormalization", attributes, vec![Some(sum.clone()), Some(scale), bias], wanted)?;
        results.resize(3, sum.clone());
        results.push(sum);
        Ok(results)
    })
    .sized(),
    ms("SkipSimplifiedLayerNormalization", |cx| {
        if cx.wants(1) || cx.wants(2) {
            return Err(OnnxError::Case("statistics as results".into()));
        }
        let sum = skipped(cx, 3)?;
        let scale = cx.value(2)?;
        let y = simplified(cx, sum.clone(), scale, -1, 1e-12)?;
        Ok(vec![y, sum.clone(), sum.clone(), sum])
    })
    .sized(),
];

fn epsilon(cx: &NodeContext<'_>, default: f32) -> Result<(&'static str, Attribute)> {
    Ok(("epsilon", Attribute::Float(cx.epsilon(default)?)))
}

/// The sum of the operand, of the one that skips a layer, and of a bias, if the node has one.
fn skipped(cx: &mut NodeContext<'_>, bias: usize) -> Result<Value> {
    cx.value(1)?;
    let sum = plus(cx, 0, 1)?;
    match cx.optional(bias) {
        Some(bias) => combined(cx, &sum, &bias, sum.dtype(), "{x} + {z}"),
        None => Ok(sum),
    }
}

/// Normalization by the root of the mean of squares.
fn simplified(cx: &mut NodeContext<'_>, x: Value, scale: Value, axis: i64, eps: f32) -> Result<Value> {
    if cx.operator() == "SimplifiedLayerNormalization" && cx.wants(1) {
        return Err(OnnxError::Case("statistics as results".into()));
    }
    let attributes = [("axis", Attribute::Int(axis)), epsilon(cx, eps)?];
    only(cx.apply("RMSNormalization", attributes, vec![Some(x), Some(scale)], 1)?)
}

/// Normalizes groups of channels, which are the last axis unless the node says otherwise.
fn grouped(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let is_last = cx.int_or("channels_last", 1)? != 0;
    let x = if is_last { channels_first(cx, &x)? } else { x };
    let groups = cx.int_or("groups", 0)?;
    let attributes = [("num_groups", Attribute::Int(groups)), epsilon(cx, 1e-5)?];
    let operands = vec![Some(x), Some(cx.value(1)?), Some(cx.value(2)?)];
    let y = only(cx.apply("GroupNormalization", attributes, operands, 1)?)?;
    let y = if cx.int_or("activation", 0)? == 1 { cx.mapped(&y, y.dtype(), "silu({})")? } else { y };
    Ok(vec![if is_last { channels_last(cx, &y)? } else { y }])
}

/// The operator whose tables, scale and bias are integers.
const QUANTIZED_EMBEDDING: &str = "QEmbedLayerNormalization";

/// The sum of the embeddings of words, positions and segments, and its normalization.
fn embedded(cx: &mut NodeContext<'_>) -> Lowered {
    let words = cx.value(0)?;
    let &[batch, length] = words.shape() else { return Err(OnnxError::operand(0, "expected two axes")) };
    let mut sum = rows(cx, 2, words)?;
    let positions = match cx.optional(8).filter(|_| cx.operator() != QUANTIZED_EMBEDDING) {
        Some(positions) => rows(cx, 3, positions)?,
        None => {
            let table = cx.value(3)?;
            match table.shape() {
                &[count, width] if count >= length => {
                    let rows =
                        cx.reindexed(&table, &[length, width], &[Affine::letter(0), Affine::letter(1)])?;
                    decoded(cx, rows, 3)?
                }
                other => return Err(OnnxError::operand(3, format!("{other:?} has no {length} positions"))),
            }
        }
    };
    let dtype = sum.dtype();
    sum = combined(cx, &sum, &positions, dtype, "{x} + {z}")?;
    if let (Some(segments), Some(_)) = (cx.optional(1), cx.optional(4)) {
        let segments = rows(cx, 4, segments)?;
        sum = combined(cx, &sum, &segments, dtype, "{x} + {z}")?;
    }
    let attributes = [("axis", Attribute::Int(-1)), epsilon(cx, 1e-12)?];
    let (scale, bias) = (cx.value(5)?, cx.optional(6));
    let scale = decoded(cx, scale, 5)?;
    let bias = bias.map(|bias| decoded(cx, bias, 6)).transpose()?;
    let operands = vec![Some(sum.clone()), Some(scale), bias];
    let y = only(cx.apply("LayerNormalization", attributes, operands, 1)?)?;
    let lengths = match cx.optional(7) {
        Some(mask) if mask.shape() == [batch, length] => {
            let mask = cx.bind_array(&mask)?.whole();
            cx.emit(DType::I32, &[batch], &format!("y[i0] :+= i32({mask})"))?
        }
        Some(_) => return Err(OnnxError::operand(7, format!("expected the shape [{batch}, {length}]"))),
        None => cx.filled(DType::I32, &[batch], "i32(0)")?,
    };
    Ok(vec![y, lengths, sum])
}

/// The rows of the table that is operand `at`, by these numbers.
fn rows(cx: &mut NodeContext<'_>, at: usize, numbers: Value) -> Result<Value> {
    let table = cx.value(at)?;
    let rows = only(cx.apply("Gather", [], vec![Some(table), Some(numbers)], 1)?)?;
    decoded(cx, rows, at)
}

/// The numbers that elements of operand `at` stand for.
fn decoded(cx: &mut NodeContext<'_>, x: Value, at: usize) -> Result<Value> {
    if cx.operator() != QUANTIZED_EMBEDDING {
        return Ok(x);
    }
    let operands = vec![Some(x), Some(cx.value(at + 6)?), cx.optional(at + 11)];
    only(cx.apply("DequantizeLinear", [], operands, 1)?)
}
