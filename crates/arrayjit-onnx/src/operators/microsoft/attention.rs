//! Attention with its projections, caches and rotary positions.

use tnode::{DType, HostArray};

use super::{
    super::{contract::product, elementwise::combined, layout::concatenated},
    ms, only,
};
use crate::{
    error::{OnnxError, Result},
    host::{HostValue, float, ints_of},
    ir::Attribute,
    operators::{
        context::{Affine, Lowered, NodeContext},
        operator::Operator,
    },
    value::Value,
};

pub(in crate::operators) static OPERATORS: &[Operator] = &[
    ms("Attention", |cx| {
        let (x, weights) = (cx.value(0)?, cx.value(1)?);
        let y = product(cx, &x, &weights, x.dtype())?;
        let y = match cx.optional(2) {
            Some(bias) => combined(cx, &y, &bias, y.dtype(), "{x} + {z}")?,
            None => y,
        };
        projected(cx, y, [3, 4, 5])
    }),
    ms("GroupQueryAttention", grouped),
    ms("MultiHeadAttention", multi_head),
    ms("RotaryEmbedding", |cx| {
        let (x, positions) = (cx.value(0)?, cx.value(1)?);
        let is_interleaved = cx.int_or("interleaved", 0)?;
        let positions = match (positions.shape(), x.shape()) {
            // The position of the first element.
            (&[1], &[batch, length, _] | &[batch, _, length, _]) => {
                let first = cx.bind_array(&positions)?.at(&["0".into()]);
                cx.emit(DType::I64, &[batch, length], &format!("y[i0,i1] := i64({first}) + i1"))?
            }
            _ => positions,
        };
        Ok(vec![rotated(cx, x, positions, [2, 3], is_interleaved)?])
    }),
];

/// The width of the values in a product that has queries, keys and values, and attention of these parts.
/// `operands` are the positions of the mask, of the cache of keys and values, and of the bias of scores.
pub(super) fn projected(cx: &mut NodeContext<'_>, y: Value, operands: [usize; 3]) -> Lowered {
    let [mask, cache, bias] = operands.map(|at| cx.optional(at));
    if cx.int_or("do_rotary", 0)? != 0 || cx.int_or("past_present_share_buffer", 0)? != 0 {
        return Err(OnnxError::Case("rotary positions or shared caches".into()));
    }
    let heads = cx.count("num_heads", 0)?;
    let &[_, _, width] = y.shape() else { return Err(expected_axes(0, "three", &y)) };
    let widths = cx.ints("qkv_hidden_sizes")?.unwrap_or_else(|| vec![(width / 3) as i64; 3]);
    let [q, k, v] = split(cx, &y, &widths)?;
    let past = match cache {
        Some(cache) => {
            if cache.rank() != 5 || cache.shape()[0] != 2 {
                return Err(expected_axes(operands[1], "five, the first of size 2", &cache));
            }
            let attributes = [("axis", Attribute::Int(0)), ("num_outputs", Attribute::Int(2))];
            let halves = cx.apply("Split", attributes, vec![Some(cache)], 2)?;
            let shape = halves[0].shape()[1..].to_vec();
            [Some(cx.reshaped(&halves[0], &shape)?), Some(cx.reshaped(&halves[1], &shape)?)]
        }
        None => [None, None],
    };
    let mask = added(cx, mask, bias, [&q, &k], past[0].as_ref())?;
    let wants_cache = cx.wants(1);
    let attributes = attributes(cx, [heads, heads], "unidirectional")?;
    let operands = [vec![Some(q), Some(k), Some(v), mask], past.to_vec()].concat();
    let results = cx.apply("Attention", attributes, operands, if wants_cache { 3 } else { 1 })?;
    if !wants_cache {
        return Ok(results);
    }
    let mut both = Vec::new();
    for half in &results[1..3] {
        both.push(cx.reshaped(half, &[&[1], half.shape()].concat())?);
    }
    let both = concatenated(cx, &both, 0)?;
    Ok(vec![results[0].clone(), both])
}

/// The attributes of an attention of `ai.onnx` with so many heads of queries and of keys.
fn attributes(
    cx: &NodeContext<'_>,
    heads: [usize; 2],
    causal: &str,
) -> Result<[(&'static str, Attribute); 4]> {
    let is_causal = if causal.is_empty() { 1 } else { cx.int_or(causal, 0)? };
    Ok([
        ("q_num_heads", Attribute::Int(heads[0] as i64)),
        ("kv_num_heads", Attribute::Int(heads[1] as i64)),
        ("is_causal", Attribute::Int(is_causal)),
        ("scale", Attribute::Float(cx.float_or("scale", 0.0)?)),
    ])
}

/// Parts of the last axis with these widths.
pub(super) fn split<const N: usize>(
    cx: &mut NodeContext<'_>,
    x: &Value,
    widths: &[i64],
) -> Result<[Value; N]> {
    let widths = ints_of(DType::I64, &[widths.len()], widths)?;
    let widths = Value::Known(HostValue::new(widths, false));
    let parts = cx.apply("Split", [("axis", Attribute::Int(-1))], vec![Some(x.clone()), Some(widths)], N)?;
    parts.try_into().map_err(|_| OnnxError::Invalid(format!("expected {N} widths")))
}

/// The error of an operand with another number of axes.
pub(super) fn expected_axes(at: usize, expected: &str, found: &Value) -> OnnxError {
    OnnxError::operand(at, format!("expected {expected} axes, found {:?}", found.shape()))
}

/// What is added to the scores: a bias, and a number for each key that a mask hides.
fn added(
    cx: &mut NodeContext<'_>,
    mask: Option<Value>,
    bias: Option<Value>,
    [q, k]: [&Value; 2],
    past: Option<&Value>,
) -> Result<Option<Value>> {
    let Some(mask) = mask else { return Ok(bias) };
    let (dtype, batch, queries) = (q.dtype(), q.shape()[0], q.shape()[1]);
    let keys = k.shape()[k.rank() - 2] + past.map_or(0, |past| past.shape()[2]);
    let hidden = float(DType::F32, f64::from(cx.float_or("mask_filter_value", -10000.0)?));
    let operand = cx.bind_array(&mask)?;
    let (rows, is_seen) = match mask.shape() {
        &[a, b] if [a, b] == [batch, keys] => (1, format!("{} != 0", operand.at(&["b".into(), "j".into()]))),
        &[a, b, c] if [a, b, c] == [batch, queries, keys] => {
            (queries, format!("{} != 0", operand.at(&["b".into(), "i".into(), "j".into()])))
        }
        &[a] if a == batch => (1, format!("j < {}", operand.at(&["b".into()]))),
        &[a] if a == 2 * batch => {
            let (end, start) = (operand.at(&["b".into()]), operand.at(&[format!("b + {batch}")]));
            (1, format!("and(j < {end}, j >= {start})"))
        }
        other => return Err(OnnxError::Case(format!("a mask of shape {other:?}"))),
    };
    let text = format!(
        "y[b,h,i,j] := {dtype}(where({is_seen}, 0, {hidden})) where b < {batch}, h < 1, i < {rows}, j < {keys}"
    );
    let mask = cx.emit(dtype, &[batch, 1, rows, keys], &text)?;
    match bias {
        Some(bias) => Ok(Some(combined(cx, &mask, &bias, dtype, "{x} + {z}")?)),
        None => Ok(Some(mask)),
    }
}

/// The part of an axis of that number, without the axis: of packed queries, keys and values.
pub(super) fn part(cx: &mut NodeContext<'_>, x: &Value, at: i64) -> Result<Value> {
    let &[batch, length, heads, count, size] = x.shape() else {
        return Err(expected_axes(0, "five", x));
    };
    if at >= count as i64 {
        return Err(OnnxError::operand(0, format!("expected more than {count} packed parts")));
    }
    let mut index: Vec<Affine> = [0, 1, 2].map(Affine::letter).to_vec();
    index.extend([Affine { terms: Vec::new(), offset: at }, Affine::letter(3)]);
    let part = cx.reindexed(x, &[batch, length, heads, size], &index)?;
    cx.reshaped(&part, &[batch, length, heads * size])
}

fn multi_head(cx: &mut NodeContext<'_>) -> Lowered {
    let heads = cx.count("num_heads", 0)?;
    let x = cx.value(0)?;
    let [mut q, mut k, mut v] = match (cx.optional(1), cx.optional(2)) {
        (None, _) => [part(cx, &x, 0)?, part(cx, &x, 1)?, part(cx, &x, 2)?],
        (Some(packed), None) => [x, part(cx, &packed, 0)?, part(cx, &packed, 1)?],
        (Some(k), Some(v)) => [x, k, v],
    };
    let past = [cx.optional(6), cx.optional(7)];
    for (at, given, ranks) in [(0, Some(&q), 3..=3), (1, Some(&k), 3..=4), (2, Some(&v), 3..=4)]
        .into_iter()
        .chain([(6, past[0].as_ref(), 4..=4), (7, past[1].as_ref(), 4..=4)])
    {
        if let Some(given) = given.filter(|given| !ranks.contains(&given.rank())) {
            return Err(expected_axes(at, if *ranks.end() == 3 { "three" } else { "four" }, given));
        }
    }
    if let Some(bias) = cx.optional(3) {
        biased(cx, [&mut q, &mut k, &mut v], &bias)?;
    }
    let (mask, bias) = (cx.optional(4), cx.optional(5));
    let mask = added(cx, mask, bias, [&q, &k], past[0].as_ref())?;
    let attributes = attributes(cx, [heads, heads], "unidirectional")?;
    // Keys with heads as an axis come from a cache.
    let is_cached = k.rank() == 4;
    let q = if is_cached { with_heads(cx, &q, heads)? } else { q };
    let wanted = if cx.wants(1) || cx.wants(2) { 3 } else { 1 };
    let operands = [vec![Some(q), Some(k), Some(v), mask], past.to_vec()].concat();
    let mut results = cx.apply("Attention", attributes, operands, wanted)?;
    if is_cached {
        results[0] = without_heads(cx, &results[0])?;
    }
    results.truncate(3);
    Ok(results)
}

/// Adds the parts of a bias to queries, keys and values without an axis of heads; others come from a cache.
pub(super) fn biased(cx: &mut NodeContext<'_>, parts: [&mut Value; 3], bias: &Value) -> Result<()> {
    let width = |x: &Value| if x.rank() == 3 { x.shape()[2] } else { x.shape()[1] * x.shape()[3] };
    let widths = parts.each_ref().map(|x| width(x) as i64);
    let biases: [Value; 3] = split(cx, bias, &widths)?;
    for (x, bias) in parts.into_iter().zip(&biases).filter(|(x, _)| x.rank() == 3) {
        *x = combined(cx, x, bias, x.dtype(), "{x} + {z}")?;
    }
    Ok(())
}

/// `[batch, positions, heads · size]` as `[batch, heads, positions, size]`.
fn with_heads(cx: &mut NodeContext<'_>, x: &Value, heads: usize) -> Result<Value> {
    let &[batch, positions, width] = x.shape() else {
        return Err(OnnxError::operand(0, format!("expected three axes, found {:?}", x.shape())));
    };
    if !width.is_multiple_of(heads) {
        return Err(OnnxError::attribute("num_heads", format!("a divisor of {width}")));
    }
    let split = cx.reshaped(x, &[batch, positions, heads, width / heads])?;
    cx.permuted(&split, &[0, 2, 1, 3])
}

/// Undoes [`with_heads`]: heads and their elements become one axis.
fn without_heads(cx: &mut NodeContext<'_>, x: &Value) -> Result<Value> {
    let rows = cx.permuted(x, &[0, 2, 1, 3])?;
    let &[batch, positions, heads, size] = rows.shape() else { return Err(OnnxError::overflow()) };
    cx.reshaped(&rows, &[batch, positions, heads * size])
}

/// The operand with rotated pairs of elements; operands `tables` have the cosines and sines of each position.
fn rotated(
    cx: &mut NodeContext<'_>,
    x: Value,
    positions: Value,
    tables: [usize; 2],
    is_interleaved: i64,
) -> Result<Value> {
    let (cos, sin) = (cx.value(tables[0])?, cx.value(tables[1])?);
    let angles = cos.shape().last().copied().unwrap_or(0);
    let (heads, part) = (cx.int_or("num_heads", 0)?, cx.int_or("rotary_embedding_dim", 0)?);
    let width = x.shape().last().copied().unwrap_or(0);
    let attributes = [
        ("interleaved", Attribute::Int(is_interleaved)),
        // Without a number of heads, the tables tell the size of one.
        ("num_heads", Attribute::Int(if heads > 0 { heads } else { (width / (2 * angles).max(1)) as i64 })),
        ("rotary_embedding_dim", Attribute::Int(if part > 0 { part } else { 2 * angles as i64 })),
    ];
    let operands = vec![Some(x), Some(cos), Some(sin), Some(positions)];
    only(cx.apply("RotaryEmbedding", attributes, operands, 1)?)
}

/// Attention whose keys and values go into a cache, at a position of their own for each element of the batch.
/// All positions of a run whose number is the total length are a prompt.
fn grouped(cx: &mut NodeContext<'_>) -> Lowered {
    let (all, shared) = (cx.count("num_heads", 0)?, cx.count("kv_num_heads", 0)?);
    for at in [3, 4] {
        if let Some(cache) = cx.optional(at).filter(|cache| cache.rank() != 4) {
            return Err(expected_axes(at, "four", &cache));
        }
    }
    for (at, name) in [(11, "sinks of heads"), (12, "scales of quantized caches")] {
        if cx.optional(at).is_some() {
            return Err(OnnxError::Case(name.into()));
        }
    }
    if cx.int_or("smooth_softmax", 0)? > 0 {
        return Err(OnnxError::Case("the attribute `smooth_softmax`".into()));
    }
    let x = cx.value(0)?;
    let &[batch, queries, width] = x.shape() else {
        return Err(OnnxError::operand(0, "expected three axes"));
    };
    let [q, k, v] = match (cx.optional(1), cx.optional(2)) {
        (Some(k), Some(v)) => [x, k, v],
        _ => {
            let size = width / all.saturating_add(shared.saturating_mul(2));
            split(cx, &x, &[all, shared, shared].map(|heads| (heads * size) as i64))?
        }
    };
    let total = cx.host_ints(6)?.first().and_then(|&total| usize::try_from(total).ok()).unwrap_or(0);
    let (lengths, is_prompt) = (cx.value(5)?, total == queries);
    if lengths.num_elements() != batch {
        return Err(OnnxError::operand(5, format!("expected {batch} lengths")));
    }
    let lengths = cx.reshaped(&lengths, &[batch])?;
    let lengths = cx.mapped(&lengths, DType::I64, "i64({}) + 1")?;
    let start = match is_prompt {
        true => cx.mapped(&lengths, DType::I64, "i64(0)")?,
        false => cx.mapped(&lengths, DType::I64, &format!("{{}} - {queries}"))?,
    };
    let (mut q, mut k) = (with_heads(cx, &q, all)?, with_heads(cx, &k, shared)?);
    let v = with_heads(cx, &v, shared)?;
    if cx.int_or("do_rotary", 0)? != 0 {
        let positions = match cx.optional(9) {
            Some(positions) => positions,
            None => {
                let first = cx.bind_array(&start)?.at(&["i0".into()]);
                // Positions of padding may be before the first one.
                cx.emit(DType::I64, &[batch, queries], &format!("y[i0,i1] := max({first}, 0) + i1"))?
            }
        };
        let is_interleaved = cx.int_or("rotary_interleaved", 0)?;
        q = rotated(cx, q, positions.clone(), [7, 8], is_interleaved)?;
        k = rotated(cx, k, positions, [7, 8], is_interleaved)?;
    }
    let keys = cached(cx, k, 3, &start, total)?;
    let values = cached(cx, v, 4, &start, total)?;
    let mut attributes = attributes(cx, [all, shared], "")?.to_vec();
    attributes.push(("softcap", Attribute::Float(cx.float_or("softcap", 0.0)?)));
    if let window @ 1.. = cx.int_or("local_window_size", -1)? {
        attributes.push(("left_window_size", Attribute::Int(window - 1)));
    }
    let valid = (!is_prompt).then_some(lengths);
    let operands =
        vec![Some(q), Some(keys.clone()), Some(values.clone()), cx.optional(10), None, None, valid];
    let y = only(cx.apply("Attention", attributes, operands, 1)?)?;
    Ok(vec![without_heads(cx, &y)?, keys, values])
}

/// The cache that is operand `at` with the new rows behind its positions, and room for `total` rows.
fn cached(cx: &mut NodeContext<'_>, new: Value, at: usize, start: &Value, total: usize) -> Result<Value> {
    let past = cx.optional(at);
    let before = past.as_ref().and_then(|past| past.shape().get(2).copied()).unwrap_or(0);
    let mut shape = new.shape().to_vec();
    if shape[2] == total && before <= total {
        return Ok(new);
    }
    let past = past.ok_or_else(|| OnnxError::operand(at, "it is missing"))?;
    let more = total.saturating_sub(before);
    let past = match more {
        0 => past,
        _ => {
            shape[2] = more;
            let zeros = Value::Known(HostValue::new(HostArray::zeros(new.dtype(), shape)?, false));
            concatenated(cx, &[past, zeros], 2)?
        }
    };
    only(cx.apply("TensorScatter", [], vec![Some(past), Some(new), Some(start.clone())], 1)?)
}
