//! Attention with several heads, masks and a cache of keys and values.
//!
//! The letters of the statements are: `b` the element of the batch, `g` the head of keys and values, `e` the
//! head of queries among those that share `g`, `i` the query, `j` the key, `c` an element of a query or key,
//! `d` an element of a value. Without a mask the statements are those of the prelude's `attention` and
//! `causal_attention`, which the compiler fuses.

use tnode::DType;

use super::{
    context::{Lowered, NodeContext, Operand},
    layout::concatenated,
    operator::{Operator, op},
    reduce::wide,
};
use crate::{
    error::{OnnxError, Result},
    host::float,
    shape::{access, dims},
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("Attention", 23, attention),
    Operator { domain: "ai.onnx.preview", ..op("FlexAttention", 1, flexible) },
];

/// The sizes of an attention.
#[derive(Clone, Copy)]
pub(super) struct Heads {
    batch: usize,
    /// Heads of keys and values.
    shared: usize,
    /// Heads of queries for each head of keys and values.
    group: usize,
    queries: usize,
    keys: usize,
    size: usize,
    value_size: usize,
    /// Whether heads and their elements are one axis, the last.
    is_packed: bool,
}

impl Heads {
    fn of(cx: &NodeContext<'_>, [q, k, v]: [&Value; 3]) -> Result<Heads> {
        let wrong = || {
            let shapes = format!("{:?}, {:?} and {:?}", q.shape(), k.shape(), v.shape());
            OnnxError::operand(0, format!("queries, keys and values {shapes} do not fit"))
        };
        let (heads, batches) = match (q.shape(), k.shape(), v.shape()) {
            (&[batch, queries, width], &[kb, keys, key_width], &[vb, values, value_width]) => {
                let (all, shared) = (cx.count("q_num_heads", 0)?, cx.count("kv_num_heads", 0)?);
                let fits = width.is_multiple_of(all)
                    && width / all * shared == key_width
                    && value_width.is_multiple_of(shared)
                    && keys == values;
                let (size, value_size, group) = (width / all, value_width / shared, all / shared);
                let heads = Heads { batch, shared, group, queries, keys, size, value_size, is_packed: true };
                ((fits && all.is_multiple_of(shared)).then_some(heads), [kb, vb])
            }
            (
                &[batch, all, queries, size],
                &[kb, shared, keys, key_size],
                &[vb, others, values, value_size],
            ) => {
                let fits = size == key_size && shared == others && keys == values && shared > 0;
                let group = all / shared.max(1);
                let heads = Heads { batch, shared, group, queries, keys, size, value_size, is_packed: false };
                ((fits && all.is_multiple_of(shared.max(1))).then_some(heads), [kb, vb])
            }
            _ => return Err(wrong()),
        };
        let heads = heads.ok_or_else(wrong)?;
        let is_empty = [heads.batch, heads.queries, heads.keys, heads.size, heads.value_size].contains(&0);
        if is_empty || batches != [heads.batch; 2] {
            return Err(wrong());
        }
        Ok(heads)
    }

    fn all(&self) -> usize {
        self.shared * self.group
    }

    /// The head of queries as an index.
    fn head(&self) -> String {
        self.sum(&[("g", self.group), ("e", 1)])
    }

    /// A sum of multiples of letters; there is no `e` if each head of keys has one head of queries.
    fn sum(&self, terms: &[(&str, usize)]) -> String {
        let own = terms.iter().filter(|(name, _)| *name != "e" || self.group > 1);
        own.map(|(name, factor)| if *factor == 1 { (*name).to_owned() } else { format!("{factor}*{name}") })
            .collect::<Vec<_>>()
            .join(" + ")
    }

    /// An access of a temporary with an axis for each of these letters behind the batch and the heads.
    fn at(&self, name: &str, rest: &[&str]) -> String {
        let front = if self.group > 1 { ["b", "g", "e"].as_slice() } else { &["b", "g"] };
        access(name, front.iter().chain(rest).map(|&letter| letter.to_owned()).collect::<Vec<_>>())
    }

    /// The type and axes of a temporary with axes of these sizes behind the batch and the heads.
    fn declared(&self, name: &str, dtype: DType, rest: &[usize]) -> String {
        let front = if self.group > 1 {
            vec![self.batch, self.shared, self.group]
        } else {
            vec![self.batch, self.shared]
        };
        format!("node {name} {dtype}[{}]\n", dims(&[&front, rest].concat()))
    }

    fn query(&self, q: &Operand) -> String {
        let Heads { group, size, .. } = self;
        let index = match self.is_packed {
            true => {
                ["b".into(), "i".into(), self.sum(&[("g", group * size), ("e", *size), ("c", 1)])].to_vec()
            }
            false => ["b".into(), self.head(), "i".into(), "c".into()].to_vec(),
        };
        q.at(&index)
    }

    fn key(&self, k: &Operand) -> String {
        self.shared_access(k, "c", self.size)
    }

    fn value(&self, v: &Operand) -> String {
        self.shared_access(v, "d", self.value_size)
    }

    fn shared_access(&self, x: &Operand, letter: &str, size: usize) -> String {
        let index = match x.shape.len() {
            3 => ["b".into(), "j".into(), self.sum(&[("g", size), (letter, 1)])].to_vec(),
            _ => ["b", "g", "j", letter].map(str::to_owned).to_vec(),
        };
        x.at(&index)
    }

    /// The ranges of the letters in front of a statement's own ones.
    fn ranges(&self) -> String {
        let group = if self.group > 1 { format!(", e < {}", self.group) } else { String::new() };
        format!("b < {}, g < {}{group}", self.batch, self.shared)
    }

    /// The index of the result.
    fn result(&self) -> Vec<String> {
        match self.is_packed {
            true => {
                let Heads { group, value_size, .. } = self;
                let last = self.sum(&[("g", group * value_size), ("e", *value_size), ("d", 1)]);
                vec!["b".into(), "i".into(), last]
            }
            false => vec!["b".into(), self.head(), "i".into(), "d".into()],
        }
    }

    fn result_shape(&self) -> Vec<usize> {
        match self.is_packed {
            true => vec![self.batch, self.queries, self.all() * self.value_size],
            false => vec![self.batch, self.all(), self.queries, self.value_size],
        }
    }

    /// The index of an array `[batch, heads, queries, keys]`, and its shape.
    fn score(&self) -> (Vec<String>, Vec<usize>) {
        let index = vec!["b".into(), self.head(), "i".into(), "j".into()];
        (index, vec![self.batch, self.all(), self.queries, self.keys])
    }
}

/// A value with heads as an axis: `[batch, heads, positions, size]`.
fn with_heads(cx: &mut NodeContext<'_>, x: &Value, heads: usize) -> Result<Value> {
    match x.shape() {
        &[batch, positions, width] => {
            let split = cx.reshaped(x, &[batch, positions, heads, width / heads.max(1)])?;
            cx.permuted(&split, &[0, 2, 1, 3])
        }
        _ => Ok(x.clone()),
    }
}

/// Keys or values behind those of the cache.
fn cached(cx: &mut NodeContext<'_>, x: &Value, past: Option<Value>, heads: usize) -> Result<Value> {
    let new = with_heads(cx, x, heads)?;
    let Some(past) = past else { return Ok(new) };
    match (past.shape(), new.shape()) {
        (&[a, b, 0, c], &[d, e, _, f]) if [a, b, c] == [d, e, f] => Ok(new),
        (&[a, b, _, c], &[d, e, _, f]) if [a, b, c] == [d, e, f] => concatenated(cx, &[past, new], 2),
        _ => Err(OnnxError::operand(4, format!("{:?} does not fit {:?}", past.shape(), new.shape()))),
    }
}

/// The keys that each query sees.
struct Mask {
    /// The score from the score `{}`.
    text: String,
    /// The bound of keys by the query that `causal_attention` has, if that is all.
    bound: Option<String>,
    /// The number of valid keys of an element of the batch, if it is given.
    valid: Option<String>,
}

/// The number of valid keys in front of the queries, as text.
fn offset(heads: &Heads, past: usize, valid: Option<&str>) -> String {
    match valid {
        Some(valid) => format!("{valid} - {}", heads.queries),
        None => past.to_string(),
    }
}

fn mask(cx: &mut NodeContext<'_>, heads: &Heads, past: usize) -> Result<Mask> {
    let mut text = "{}".to_owned();
    let given = cx.optional(3);
    if let Some(given) = &given {
        let operand = cx.bind_array(given)?;
        let element = mask_element(heads, &operand)?;
        text = match given.dtype() {
            DType::Bool => format!("where({element}, {text}, -inf)"),
            dtype => format!("{text} + {}({element})", wide(dtype)),
        };
    }
    let valid = match cx.optional(6) {
        Some(valid) if valid.shape() == [heads.batch] => {
            Some(format!("i32({})", cx.bind_array(&valid)?.at(&["b".into()])))
        }
        Some(valid) => {
            let problem = format!("expected the shape [{}], found {:?}", heads.batch, valid.shape());
            return Err(OnnxError::operand(6, problem));
        }
        None => None,
    };
    let offset = offset(heads, past, valid.as_deref());
    let is_causal = cx.int_or("is_causal", 0)? != 0;
    let (left, right) = (cx.int_or("left_window_size", -1)?, cx.int_or("right_window_size", -1)?);
    let is_plain = given.is_none() && valid.is_none() && left < 0 && right < 0;
    if is_causal && is_plain {
        let bound = if past == 0 { "j <= i".into() } else { format!("j <= i + {past}") };
        return Ok(Mask { text, bound: Some(bound), valid });
    }
    if is_causal {
        text = format!("where(j <= i + {offset}, {text}, -inf)");
    }
    if left >= 0 {
        text = format!("where(i + {offset} - j <= {left}, {text}, -inf)");
    }
    if right >= 0 {
        text = format!("where(j - i - ({offset}) <= {right}, {text}, -inf)");
    }
    if let Some(valid) = &valid {
        text = format!("where(j < {valid}, {text}, -inf)");
    }
    Ok(Mask { text, bound: None, valid })
}

/// The element of a mask, which is broadcast to the scores and may have fewer keys.
fn mask_element(heads: &Heads, mask: &Operand) -> Result<String> {
    let (index, shape) = heads.score();
    let wrong = || OnnxError::operand(3, format!("a mask {:?} does not fit {shape:?}", mask.shape));
    let missing = shape.len().checked_sub(mask.shape.len()).ok_or_else(wrong)?;
    let mut own = Vec::new();
    let mut is_short = false;
    for (at, &size) in mask.shape.iter().enumerate() {
        let (axis, is_last) = (at + missing, at + 1 == mask.shape.len());
        is_short |= is_last && size < shape[axis];
        match size {
            // Keys that the mask leaves out are not seen, even if it has one key.
            size if is_last && size <= shape[axis] => own.push(index[axis].clone()),
            1 => own.push("0".into()),
            size if size == shape[axis] => own.push(index[axis].clone()),
            _ => return Err(wrong()),
        }
    }
    let outside = if mask.dtype == DType::Bool { "0" } else { "-inf" };
    Ok(if is_short { mask.padded(outside, &own) } else { mask.at(&own) })
}

fn attention(cx: &mut NodeContext<'_>) -> Lowered {
    let (q, k, v) = (cx.value(0)?, cx.value(1)?, cx.value(2)?);
    let mut heads = Heads::of(cx, [&q, &k, &v])?;
    let (past_keys, past_values) = (cx.optional(4), cx.optional(5));
    let past = past_keys.as_ref().and_then(|past| past.shape().get(2).copied()).unwrap_or(0);
    let (mut k, mut v) = (k, v);
    if past_keys.is_some() || past_values.is_some() || cx.wants(1) || cx.wants(2) {
        k = cached(cx, &k, past_keys, heads.shared)?;
        v = cached(cx, &v, past_values, heads.shared)?;
        if k.shape()[2] != v.shape()[2] {
            return Err(OnnxError::operand(5, "expected as many values as keys in the cache"));
        }
        heads.keys = k.shape()[2];
    }
    let mask = mask(cx, &heads, past)?;
    let results = scores_and_values(cx, &heads, [&q, &k, &v], &mask)?;
    let [y, scores] = results;
    Ok(vec![y, k, v, scores])
}

/// The factor of the products of queries and keys.
fn scale(cx: &NodeContext<'_>, size: usize, dtype: DType) -> Result<String> {
    Ok(match cx.float_or("scale", 0.0)? {
        0.0 => float(dtype, 1.0 / (size as f64).sqrt()),
        scale => float(DType::F32, f64::from(scale)),
    })
}

/// The statements of the scores `s`, capped but without the mask.
fn scores(cx: &NodeContext<'_>, heads: &Heads, [q, k]: [&Operand; 2], clause: &str) -> Result<String> {
    let wide = wide(q.dtype);
    let scaled = heads.at("r", &["i", "c"]);
    let score = heads.at("s", &["i", "j"]);
    let query = format!(
        "{}{}{scaled} := {wide}({}) * {} where {}, i < {}, c < {}\n",
        heads.declared("r", wide, &[heads.queries, heads.size]),
        heads.declared("s", wide, &[heads.queries, heads.keys]),
        heads.query(q),
        scale(cx, heads.size, wide)?,
        heads.ranges(),
        heads.queries,
        heads.size
    );
    Ok(format!("{query}{score} :+= {scaled} * {wide}({}){clause}\n", heads.key(k)))
}

/// The result and, if it is wanted, the array of scores; else the result twice.
fn scores_and_values(
    cx: &mut NodeContext<'_>,
    heads: &Heads,
    [q, k, v]: [&Value; 3],
    mask: &Mask,
) -> Result<[Value; 2]> {
    let (dtype, wide) = (q.dtype(), wide(q.dtype()));
    let operands = [q, k, v].map(|value| cx.bind_array(value));
    let [q, k, v] = operands;
    let (q, k, v) = (q?, k?, v?);
    let wants_scores = cx.wants(3);
    // Scores that nobody sees are not computed, unless they are a result.
    let bound = mask.bound.clone().filter(|_| !wants_scores);
    let clause = bound.as_ref().map(|bound| format!(" where {bound}")).unwrap_or_default();
    let mut masked_text = mask.text.clone();
    if let (Some(bound), true) = (&mask.bound, wants_scores) {
        masked_text = format!("where({bound}, {masked_text}, -inf)");
    }
    let mut text = scores(cx, heads, [&q, &k], &clause)?;
    let raw = heads.at("s", &["i", "j"]);
    let cap = cx.float_or("softcap", 0.0)?;
    let capped = match cap {
        0.0 => raw.clone(),
        cap => {
            let cap = float(DType::F32, f64::from(cap));
            text.push_str(&heads.declared("h", wide, &[heads.queries, heads.keys]));
            let capped = heads.at("h", &["i", "j"]);
            text.push_str(&format!("{capped} {} {cap} * tanh({raw} / {cap}){clause}\n", start(&clause)));
            capped
        }
    };
    let is_masked = masked_text != "{}";
    let masked = if is_masked {
        text.push_str(&heads.declared("t", wide, &[heads.queries, heads.keys]));
        let masked = heads.at("t", &["i", "j"]);
        text.push_str(&format!("{masked} := {}\n", masked_text.replace("{}", &capped)));
        masked
    } else {
        capped.clone()
    };
    let value = format!("{wide}({})", heads.value(&v));
    // Rows of a cache behind the valid ones may be NaN, also where their weights are 0.
    let value = match &mask.valid {
        Some(valid) => format!("where(j < {valid}, {value}, 0)"),
        None => value,
    };
    text.push_str(&weighted_values(heads, &value, &masked, wide, &clause, is_masked));
    let result = access("y", heads.result());
    let total = heads.at("z", &["i"]);
    let mean = format!("{} / {total}", heads.at("o", &["i", "d"]));
    // A query that sees no key has no weights.
    let mean = if is_masked { format!("where({total} == 0, 0, {mean})") } else { mean };
    text.push_str(&format!("{result} := {dtype}({mean})\n"));
    let shape = heads.result_shape();
    if !wants_scores {
        let y = cx.emit(dtype, &shape, &text)?;
        return Ok([y.clone(), y]);
    }
    let shown = match cx.int_or("qk_matmul_output_mode", 0)? {
        0 => raw,
        1 => capped,
        2 => masked,
        3 => {
            let weight = heads.at("p", &["i", "j"]);
            format!("where({total} == 0, 0, {weight} / {total})")
        }
        _ => return Err(OnnxError::attribute("qk_matmul_output_mode", "0 to 3")),
    };
    let (index, score_shape) = heads.score();
    text.push_str(&format!("{} := {dtype}({shown})\n", access("u", &index)));
    cx.emit_all([("y", dtype, &shape), ("u", dtype, &score_shape)], &text)
}

/// The operator that stores a value for each query and key. A clause leaves out some of them.
fn start(clause: &str) -> &'static str {
    if clause.is_empty() { ":=" } else { ":+=" }
}

/// The statements of the weights `p` of the keys, their total `z`, and the weighted sum `o` of the values.
fn weighted_values(
    heads: &Heads,
    value: &str,
    score: &str,
    wide: DType,
    clause: &str,
    is_masked: bool,
) -> String {
    let [most, total] = ["m", "z"].map(|name| heads.at(name, &["i"]));
    let weight = heads.at("p", &["i", "j"]);
    let sum = heads.at("o", &["i", "d"]);
    let declared = heads.declared("p", wide, &[heads.queries, heads.keys])
        + &heads.declared("o", wide, &[heads.queries, heads.value_size]);
    // The greatest score of a query that sees no key is -inf, whose difference to itself is no number.
    let (guard, level) = match is_masked {
        true => {
            let level = heads.at("n", &["i"]);
            (format!("{level} := where({most} == -inf, 0, {most})\n"), level)
        }
        false => (String::new(), most.clone()),
    };
    let separator = if clause.is_empty() { " where " } else { ", " };
    let set = start(clause);
    format!(
        "{declared}{most} :max= {score}{clause}\n{guard}{weight} {set} exp({score} - {level}){clause}\n\
         {total} :+= {weight}{clause}\n\
         {sum} :+= {weight} * {value}{clause}{separator}d < {}\n",
        heads.value_size
    )
}

/// Attention whose scores and weights subgraphs may change.
fn flexible(cx: &mut NodeContext<'_>) -> Lowered {
    let (q, k, v) = (cx.value(0)?, cx.value(1)?, cx.value(2)?);
    let heads = Heads::of(cx, [&q, &k, &v])?;
    if heads.is_packed {
        return Err(OnnxError::operand(0, "expected four axes"));
    }
    let default = if q.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let precision = cx.dtype_attribute("softmax_precision")?.unwrap_or(default);
    let (index, shape) = heads.score();
    let (query, key) = (cx.bind_array(&q)?, cx.bind_array(&k)?);
    let text = scores(cx, &heads, [&query, &key], "")?;
    let score = heads.at("s", &["i", "j"]);
    let text = format!("{text}{} := {precision}({score})", access("y", &index));
    let scores = cx.emit(precision, &shape, &text)?;
    let scores = modified(cx, "score_mod", scores)?;
    let score = cx.bind_array(&scores)?.at(&crate::shape::letters(4));
    let most = "m[i0,i1,i2]";
    // A query whose scores are all -inf has no weights.
    let text = format!(
        "{most} :max= {score}\nn[i0,i1,i2] := where({most} == -inf, 0, {most})\n\
         e[i0,i1,i2,i3] := exp({score} - n[i0,i1,i2])\nz[i0,i1,i2] :+= e[i0,i1,i2,i3]\n\
         y[i0,i1,i2,i3] := where(z[i0,i1,i2] == 0, 0, e[i0,i1,i2,i3] / z[i0,i1,i2])"
    );
    let weights = cx.emit(precision, &shape, &text)?;
    let weights = modified(cx, "prob_mod", weights)?;
    let weight = cx.bind_array(&weights)?.at(&index);
    let value = cx.bind_array(&v)?;
    let (dtype, wide) = (q.dtype(), wide(q.dtype()));
    let sum = heads.at("o", &["i", "d"]);
    let text = format!(
        "{}{sum} :+= {wide}({weight}) * {wide}({}) where {}\n{} := {dtype}({sum})",
        heads.declared("o", wide, &[heads.queries, heads.value_size]),
        heads.value(&value),
        heads.ranges(),
        access("y", heads.result())
    );
    Ok(vec![cx.emit(dtype, &heads.result_shape(), &text)?])
}

/// The result of the subgraph of an attribute, if the node has it; it keeps the type and shape.
fn modified(cx: &mut NodeContext<'_>, name: &str, value: Value) -> Result<Value> {
    if cx.attribute(name).is_none() {
        return Ok(value);
    }
    let graph = cx.graph(name)?.clone();
    let (dtype, shape) = (value.dtype(), value.shape().to_vec());
    match cx.subgraph(&graph, vec![value])?.as_slice() {
        [result] if result.dtype() == dtype && result.shape() == shape => Ok(result.clone()),
        _ => Err(OnnxError::attribute(name, "a graph that keeps the type and shape of its input")),
    }
}
