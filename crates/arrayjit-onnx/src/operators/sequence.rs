//! Layers of sequence models: rotary positions, caches, causal convolutions, linear attention.

use tnode::DType;

use super::{
    context::{Lowered, NodeContext, Operand},
    elementwise::combined,
    layout::concatenated,
    operator::{Operator, op},
    reduce::wide,
};
use crate::{
    error::{OnnxError, Result},
    host::float,
    shape::{access, axis, dims, letter, letters},
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("CausalConvWithState", 27, causal_convolution),
    op("LinearAttention", 27, linear_attention),
    op("RotaryEmbedding", 23, rotary),
    op("SwiGLU", 28, swiglu),
    op("TensorScatter", 24, cache_update),
];

fn swiglu(cx: &mut NodeContext<'_>) -> Lowered {
    let (gate, x) = (cx.value(0)?, cx.value(1)?);
    if gate.shape() != x.shape() {
        return Err(OnnxError::operand(1, format!("expected the shape {:?}", gate.shape())));
    }
    let alpha = float(DType::F32, f64::from(cx.float_or("alpha", 1.0)?));
    let (dtype, wide) = (gate.dtype(), wide(gate.dtype()));
    let expression = format!("{dtype}(silu({wide}({{x}}), {alpha}) * {wide}({{z}}))");
    Ok(vec![combined(cx, &gate, &x, dtype, &expression)?])
}

/// Rotates pairs of elements of each head by the angle of its position; elements behind them stay.
fn rotary(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let (batch, count, positions, size, is_packed) = match x.shape() {
        &[batch, count, positions, size] => (batch, count, positions, size, false),
        &[batch, positions, width] => {
            let count = cx.count("num_heads", 0)?;
            (batch, count, positions, width / count, true)
        }
        other => return Err(OnnxError::operand(0, format!("expected 3 or 4 axes, found {other:?}"))),
    };
    let rotated = match usize::try_from(cx.int_or("rotary_embedding_dim", 0)?) {
        Ok(0) => size,
        Ok(rotated) if rotated <= size => rotated,
        _ => return Err(OnnxError::attribute("rotary_embedding_dim", format!("at most {size}"))),
    };
    let half = rotated / 2;
    let split_shape = match is_packed {
        true => [batch, positions, count, size],
        false => [batch, count, positions, size],
    };
    let split = cx.reshaped(&x, &split_shape)?;
    let source = cx.bind_array(&split)?;
    let ids = cx.optional(3);
    let row = match &ids {
        Some(ids) if ids.shape() == [batch, positions] => {
            vec![cx.bind_array(ids)?.at(&["b".into(), "t".into()])]
        }
        Some(_) => return Err(OnnxError::operand(3, format!("expected the shape [{batch}, {positions}]"))),
        None => vec!["b".into(), "t".into()],
    };
    let (dtype, wide) = (x.dtype(), wide(x.dtype()));
    let mut tables = Vec::new();
    for at in [1, 2] {
        let table = cx.value(at)?;
        let fits = table.rank() == row.len() + 1 && table.shape().last() == Some(&half);
        if !fits || ids.is_none() && table.shape() != [batch, positions, half] {
            let problem = format!("{:?} does not fit {:?} with {half} angles", table.shape(), x.shape());
            return Err(OnnxError::operand(at, problem));
        }
        let (table, row) = (cx.bind_array(&table)?, row.clone());
        tables.push(move |letter: &str| {
            format!("{wide}({})", table.at(&[row.clone(), vec![letter.to_owned()]].concat()))
        });
    }
    let [cos, sin] = tables.as_slice() else { return Err(OnnxError::operand(1, "it is missing")) };
    let index = |inner: &str| match is_packed {
        true => ["b", "t", "h", inner].map(str::to_owned),
        false => ["b", "h", "t", inner].map(str::to_owned),
    };
    let x_at = |inner: &str| format!("{wide}({})", source.at(&index(inner)));
    let rest = size - 2 * half;
    let text = match cx.int_or("interleaved", 0)? {
        // The halves and the rest are parts of one axis.
        0 => {
            let part = |a: &str, b: &str, sign: &str, letter: &str| {
                format!("{dtype}({} * {} {sign} {} * {})", x_at(a), cos(letter), x_at(b), sin(letter))
            };
            let first = part("i", &format!("i + {half}"), "-", "i");
            let second = part(&format!("j + {half}"), "j", "+", "j");
            let ranges = format!("i < {half}, j < {half}");
            match rest {
                0 => format!("{} := {first}, {second} where {ranges}", access("y", index("i^j"))),
                _ => {
                    let kept = source.at(&index(&format!("l + {}", 2 * half)));
                    let y = access("y", index("i^j^l"));
                    format!("{y} := {first}, {second}, {kept} where {ranges}, l < {rest}")
                }
            }
        }
        _ => {
            let part = |to: &str, other: &str, sign: &str| {
                let value =
                    format!("{dtype}({} * {} {sign} {} * {})", x_at(to), cos("k"), x_at(other), sin("k"));
                format!("{} := {value} where k < {half}\n", access("y", index(to)))
            };
            let whole = access("y", index("i"));
            let kept = format!("{whole} := {}\n", source.at(&index("i")));
            kept + &part("2*k", "2*k + 1", "-") + &part("2*k + 1", "2*k", "+")
        }
    };
    let y = cx.emit(dtype, &split_shape, &text)?;
    Ok(vec![cx.reshaped(&y, x.shape())?])
}

/// A cache with new elements from a position on, which each element of the batch has for itself.
fn cache_update(cx: &mut NodeContext<'_>) -> Lowered {
    let (cache, update) = (cx.value(0)?, cx.value(1)?);
    let at = axis(cx.int_or("axis", -2)?, cache.rank())?;
    let is_circular = match cx.text_or("mode", "linear")? {
        "linear" => false,
        "circular" => true,
        _ => return Err(OnnxError::attribute("mode", "linear or circular")),
    };
    let mut expected = cache.shape().to_vec();
    let (length, new) = (expected[at], update.shape().get(at).copied().unwrap_or(0));
    expected[at] = new;
    if at == 0 || update.shape() != expected || new > length || new == 0 {
        let problem = format!("{:?} does not fit {:?}", update.shape(), cache.shape());
        return Err(OnnxError::operand(1, problem));
    }
    let old = cx.bind_array(&cache)?.whole();
    let source = cx.bind_array(&update)?;
    let start = match cx.optional(2) {
        Some(start) if start.shape() == [cache.shape()[0]] => {
            format!("i32({})", cx.bind_array(&start)?.at(&[letter(0)]))
        }
        Some(_) => return Err(OnnxError::operand(2, format!("expected the shape [{}]", cache.shape()[0]))),
        None => "0".into(),
    };
    // The distance of an element of the cache to the first new one.
    let distance = match is_circular {
        true => format!("({} - {start} % {length} + {length}) % {length}", letter(at)),
        false => format!("{} - {start}", letter(at)),
    };
    let is_new = format!("and({distance} >= 0, {distance} < {new})");
    let mut index = letters(cache.rank());
    index[at] = format!("where({is_new}, {distance}, 0)");
    let y = access("y", letters(cache.rank()));
    let text = format!(
        "{y} := where({is_new}, {}, {old}){}",
        source.at(&index),
        crate::shape::clause(cache.shape())
    );
    Ok(vec![cx.emit(cache.dtype(), cache.shape(), &text)?])
}

/// A convolution of each channel with the elements before, which continues that of the elements of `past`.
fn causal_convolution(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, filters) = (cx.value(0)?, cx.value(1)?);
    let (&[batch, channels, length], &[rows, 1, size]) = (x.shape(), filters.shape()) else {
        return Err(OnnxError::operand(1, "expected inputs of three axes and filters [channels, 1, size]"));
    };
    if rows != channels || size == 0 {
        return Err(OnnxError::operand(1, format!("{:?} does not fit {:?}", filters.shape(), x.shape())));
    }
    let dtype = x.dtype();
    let past = match cx.optional(3) {
        Some(past) if past.shape() == [batch, channels, size - 1] => past,
        Some(_) => {
            return Err(OnnxError::operand(
                3,
                format!("expected the shape [{batch}, {channels}, {}]", size - 1),
            ));
        }
        None => cx.filled(dtype, &[batch, channels, size - 1], &format!("{dtype}(0)"))?,
    };
    let whole = if size == 1 { x.clone() } else { concatenated(cx, &[past, x.clone()], 2)? };
    let state: Vec<usize> = (length..length + size - 1).collect();
    let state = match state.is_empty() {
        true => cx.empty(dtype, &[batch, channels, 0])?,
        false => cx.taken(&whole, 2, &state)?,
    };
    let wide = wide(dtype);
    let source = cx.bind_array(&whole)?.at(&["b".into(), "c".into(), "t + k".into()]);
    let filter = cx.bind_array(&filters)?.at(&["c".into(), "0".into(), "k".into()]);
    let bias = match cx.optional(2) {
        Some(bias) => format!(" + {wide}({})", cx.bind_array(&bias)?.at(&["c".into()])),
        None => String::new(),
    };
    let activated = match cx.text_or("activation", "none")? {
        "none" => "a[b,c,t]",
        "silu" | "swish" => "silu(a[b,c,t])",
        _ => return Err(OnnxError::attribute("activation", "none, silu or swish")),
    };
    let shape = dims(&[batch, channels, length]);
    let text = format!(
        "node s {wide}[{shape}], a {wide}[{shape}]\n\
         s[b,c,t] :+= {wide}({source}) * {wide}({filter}) where t < {length}, k < {size}\n\
         a[b,c,t] := s[b,c,t]{bias}\ny[b,c,t] := {dtype}({activated})"
    );
    Ok(vec![cx.emit(dtype, x.shape(), &text)?, state])
}

/// The operands of a linear attention, with heads packed in the last axis.
struct LinearAttention {
    batch: usize,
    steps: usize,
    /// Heads of keys and values, and heads of queries for each of them.
    shared: usize,
    group: usize,
    key_size: usize,
    value_size: usize,
    query: Operand,
    key: Operand,
    value: Operand,
    decay: Option<Operand>,
    beta: Option<Operand>,
}

impl LinearAttention {
    fn of(cx: &mut NodeContext<'_>) -> Result<LinearAttention> {
        let (all, shared) = (cx.count("q_num_heads", 0)?, cx.count("kv_num_heads", 0)?);
        let (q, k, v) = (cx.value(0)?, cx.value(1)?, cx.value(2)?);
        let wrong = || OnnxError::operand(0, "queries, keys and values do not fit");
        let (&[batch, steps, width], &[kb, kt, key_width], &[vb, vt, value_width]) =
            (q.shape(), k.shape(), v.shape())
        else {
            return Err(wrong());
        };
        let (key_size, value_size, group) = (width / all, value_width / shared, all / shared);
        let fits = [kb, vb] == [batch; 2]
            && [kt, vt] == [steps; 2]
            && key_size * all == width
            && key_size * shared == key_width
            && value_size * shared == value_width
            && group * shared == all;
        if !fits || steps == 0 {
            return Err(wrong());
        }
        let (needs_decay, needs_beta) = match cx.text_or("update_rule", "gated_delta")? {
            "linear" => (false, false),
            "gated" => (true, false),
            "delta" => (false, true),
            "gated_delta" => (true, true),
            _ => return Err(OnnxError::attribute("update_rule", "linear, gated, delta or gated_delta")),
        };
        let mut gate = |at: usize, is_needed: bool, widths: [usize; 2]| {
            if !is_needed {
                return Ok(None);
            }
            let value = cx.value(at)?;
            match value.shape() {
                &[b, t, width] if [b, t] == [batch, steps] && widths.contains(&width) => {
                    cx.bind_array(&value).map(Some)
                }
                other => Err(OnnxError::operand(at, format!("{other:?} does not fit"))),
            }
        };
        let decay = gate(4, needs_decay, [shared * key_size, shared])?;
        let beta = gate(5, needs_beta, [shared, 1])?;
        let [query, key, value] = [&q, &k, &v].map(|value| cx.bind_array(value));
        let (query, key, value) = (query?, key?, value?);
        Ok(LinearAttention {
            batch,
            steps,
            shared,
            group,
            key_size,
            value_size,
            query,
            key,
            value,
            decay,
            beta,
        })
    }

    /// The statements of a step, from state `a` to state `b`: letters `b` batch, `g` head of keys, `e` head
    /// of queries in it, `c` element of keys, `d` element of values.
    fn step(&self, t: usize, scale: &str, dtype: DType) -> String {
        let LinearAttention { key_size, value_size, group, .. } = self;
        let [batch, at] = ["b".to_owned(), t.to_string()];
        let read = |x: &Operand, inner: String| format!("f32({})", x.at(&[batch.clone(), at.clone(), inner]));
        let key = read(&self.key, format!("{key_size}*g + c"));
        let value = read(&self.value, format!("{value_size}*g + d"));
        let query = read(&self.query, format!("{}*g + {key_size}*e + c", group * key_size));
        let old = format!("state{t}[b,g,c,d]");
        let decayed = match &self.decay {
            Some(decay) if decay.shape[2] == self.shared && *key_size != 1 => {
                format!("{old} * exp({})", read(decay, "g".into()))
            }
            Some(decay) => format!("{old} * exp({})", read(decay, format!("{key_size}*g + c"))),
            None => old,
        };
        let size = dims(&[self.batch, self.shared, *key_size, *value_size]);
        let ranges = format!("b < {}, g < {}, c < {key_size}, d < {value_size}", self.batch, self.shared);
        let mut text = format!(
            "node kept{t} f32[{size}], state{} f32[{size}]\nkept{t}[b,g,c,d] := {decayed} where {ranges}\n",
            t + 1
        );
        let (next, kept) = (format!("state{}[b,g,c,d]", t + 1), format!("kept{t}[b,g,c,d]"));
        match &self.beta {
            Some(beta) => {
                let rate = read(beta, if beta.shape[2] == 1 { "0".into() } else { "g".into() });
                let found = format!("found{t}[b,g,d]");
                text.push_str(&format!(
                    "node found{t} f32[{}]\n{found} :+= {kept} * {key}\n\
                     {next} := {kept} + {rate} * {key} * ({value} - {found}) where {ranges}\n",
                    dims(&[self.batch, self.shared, *value_size])
                ));
            }
            None => text.push_str(&format!("{next} := {kept} + {key} * {value} where {ranges}\n")),
        }
        let sum = format!("sum{t}[b,g,e,d]");
        text + &format!(
            "node sum{t} f32[{}]\n{sum} :+= {query} * {next} where {ranges}, e < {group}\n\
             y[b,{t},{}*g + {value_size}*e + d] := {dtype}({sum} * {scale})\n",
            dims(&[self.batch, self.shared, *group, *value_size]),
            group * value_size
        )
    }
}

/// The steps follow each other in the text, since each needs the state that the one before leaves.
fn linear_attention(cx: &mut NodeContext<'_>) -> Lowered {
    let own = LinearAttention::of(cx)?;
    let state_shape = [own.batch, own.shared, own.key_size, own.value_size];
    let start = match cx.optional(3) {
        Some(past) if past.shape() == state_shape => {
            format!("f32({})", cx.bind_array(&past)?.at(&["b", "g", "c", "d"].map(str::to_owned)))
        }
        Some(_) => return Err(OnnxError::operand(3, format!("expected the shape {state_shape:?}"))),
        None => "0".into(),
    };
    let scale = match cx.float_or("scale", 0.0)? {
        0.0 => float(DType::F32, 1.0 / (own.key_size as f64).sqrt()),
        scale => float(DType::F32, f64::from(scale)),
    };
    let dtype = own.query.dtype;
    let state_type = cx.optional(3).map_or(dtype, |past| past.dtype());
    let mut text = format!(
        "node state0 f32[{}]\nstate0[b,g,c,d] := {start}{}\n",
        dims(&state_shape),
        format_args!(
            " where b < {}, g < {}, c < {}, d < {}",
            own.batch, own.shared, own.key_size, own.value_size
        )
    );
    if own.steps > 1 {
        // Each step stores its part of a result that is there as a whole.
        text.push_str(&format!("y[b,t,w] := 0 where b < {}, t < {}\n", own.batch, own.steps));
    }
    for t in 0..own.steps {
        cx.steps(1)?;
        text.push_str(&own.step(t, &scale, dtype));
    }
    text.push_str(&format!("u[b,g,c,d] := {state_type}(state{}[b,g,c,d])\n", own.steps));
    let shape = [own.batch, own.steps, own.shared * own.group * own.value_size];
    let results = [("y", dtype, shape.as_slice()), ("u", state_type, state_shape.as_slice())];
    let values: [Value; 2] = cx.emit_all(results, &text)?;
    Ok(values.to_vec())
}
