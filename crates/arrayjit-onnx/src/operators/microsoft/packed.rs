//! Attention of sequences that stand one behind the other, without padding.

use tnode::DType;

use super::{
    super::contract::product,
    attention::{biased, expected_axes, part, split},
    ms, only,
};
use crate::{
    error::{OnnxError, Result},
    ir::Attribute,
    operators::{
        context::{Lowered, NodeContext},
        elementwise::combined,
        operator::Operator,
    },
    value::Value,
};

pub(in crate::operators) static OPERATORS: &[Operator] = &[
    ms("PackedAttention", |cx| {
        let (x, weights) = (cx.value(0)?, cx.value(1)?);
        let y = product(cx, &x, &weights, x.dtype())?;
        let y = match cx.optional(2) {
            Some(bias) => combined(cx, &y, &bias, y.dtype(), "{x} + {z}")?,
            None => y,
        };
        let &[tokens, width] = y.shape() else { return Err(expected_axes(0, "two", &y)) };
        let y = cx.reshaped(&y, &[1, tokens, width])?;
        let widths = cx.ints("qkv_hidden_sizes")?.unwrap_or_else(|| vec![(width / 3) as i64; 3]);
        let parts = split(cx, &y, &widths)?;
        attended(cx, parts, [4, 5])
    }),
    ms("PackedMultiHeadAttention", |cx| {
        let x = cx.value(0)?;
        let mut parts = match (cx.optional(1), cx.optional(2)) {
            (Some(k), Some(v)) => [one_batch(cx, x, 0, 2)?, one_batch(cx, k, 1, 2)?, one_batch(cx, v, 2, 2)?],
            (None, None) => {
                let x = one_batch(cx, x, 0, 4)?;
                [part(cx, &x, 0)?, part(cx, &x, 1)?, part(cx, &x, 2)?]
            }
            _ => return Err(OnnxError::operand(1, "expected keys and values, or none of them")),
        };
        if let Some(bias) = cx.optional(3) {
            biased(cx, parts.each_mut(), &bias)?;
        }
        attended(cx, parts, [5, 6])
    }),
];

/// Operand `at`, which has `rank` axes, as a batch of one element.
fn one_batch(cx: &mut NodeContext<'_>, x: Value, at: usize, rank: usize) -> Result<Value> {
    if x.rank() != rank {
        return Err(expected_axes(at, if rank == 2 { "two" } else { "four" }, &x));
    }
    let shape = [&[1], x.shape()].concat();
    cx.reshaped(&x, &shape)
}

/// Attention of the tokens of all sequences, which see those of their own one. Operand `ends` has the number
/// of tokens in front of each sequence and all of them, and `bias` what is added to the scores.
fn attended(cx: &mut NodeContext<'_>, [q, k, v]: [Value; 3], [ends, bias]: [usize; 2]) -> Lowered {
    let (heads, tokens) = (cx.count("num_heads", 0)? as i64, q.shape()[1]);
    let mask = mask(cx, tokens, q.dtype(), [ends, bias])?;
    let attributes = [
        ("q_num_heads", Attribute::Int(heads)),
        ("kv_num_heads", Attribute::Int(heads)),
        ("scale", Attribute::Float(cx.float_or("scale", 0.0)?)),
    ];
    let width = v.shape()[2];
    let y = only(cx.apply("Attention", attributes, vec![Some(q), Some(k), Some(v), Some(mask)], 1)?)?;
    Ok(vec![cx.reshaped(&y, &[tokens, width])?])
}

/// What is added to the scores of the tokens: the bias within a sequence, and a large negative number
/// outside.
fn mask(cx: &mut NodeContext<'_>, tokens: usize, dtype: DType, operands: [usize; 2]) -> Result<Value> {
    let ends = cx.value(operands[0])?;
    let &[count] = ends.shape() else { return Err(expected_axes(operands[0], "one", &ends)) };
    let ends = cx.bind_array(&ends)?.name().to_owned();
    // The number of the sequence of each token, from 1.
    let mut numbers =
        format!("node s i32[{tokens}]\ns[t] :+= i32({ends}[k] <= t) where t < {tokens}, k < {count}\n");
    let (shape, added) = match cx.optional(operands[1]) {
        None => (vec![1, tokens, tokens], "0".to_owned()),
        Some(bias) => {
            let &[batch, heads, rows, columns] = bias.shape() else {
                return Err(expected_axes(operands[1], "four", &bias));
            };
            let heads_first = cx.permuted(&bias, &[1, 0, 2, 3])?;
            let flat = cx.reshaped(&heads_first, &[heads, batch * rows * columns])?;
            let flat = cx.bind_array(&flat)?;
            let first = if batch == 1 { "0".to_owned() } else { format!("(s[i] - 1) * {rows}") };
            let element = flat.at(&["h".into(), format!("({first} + p[i]) * {columns} + p[j]")]);
            // The position of each token in its sequence.
            numbers +=
                &format!("node p i32[{tokens}]\np[t] := t - i32({ends}[s[t] - 1]) where t < {tokens}\n");
            (vec![heads, tokens, tokens], element)
        }
    };
    let text = format!(
        "{numbers}y[h,i,j] := {dtype}(where(s[i] == s[j], {added}, -inf)) \
         where h < {}, i < {tokens}, j < {tokens}",
        shape[0]
    );
    cx.emit(dtype, &shape, &text)
}
