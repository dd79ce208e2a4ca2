//! Attention: of each position to all positions, to the positions up to its own, and to a cache.

use super::{contractions::product_flops, rows::softmax_row};
use crate::{
    case::{Case, Node, Operation, Traffic},
    product::{product, transposed},
};

/// The positions for which the caches have memory.
const CACHED: usize = 2048;

pub(super) fn all() -> Vec<Case> {
    vec![
        attention("attention_8x256x64", 8, 256, 64),
        causal_attention("causal_attention_8x256x64", false, [8, 256, 64]),
        causal_attention("masked_attention_8x256x64", true, [8, 256, 64]),
        causal_attention("causal_attention_2x1024x64", false, [2, 1024, 64]),
        causal_attention("masked_attention_2x1024x64", true, [2, 1024, 64]),
        cached_attention("cached_attention_8x64x64", [8, 64, 64]),
        cached_attention("cached_attention_8x2048x64", [8, CACHED, 64]),
    ]
}

/// `softmax(q kᵀ / √features) v` of each head. The division by the row sum comes after the second product,
/// where there are fewer elements to divide.
fn attention(name: &'static str, heads: usize, positions: usize, features: usize) -> Case {
    let text = format!(
        "s[h,i,j] :+= q[h,i,d] * k[h,j,d]
        top[h,i] :max= s[h,i,j]
        e[h,i,j] := exp((s[h,i,j] - top[h,i]) * {})
        sum[h,i] :+= e[h,i,j]
        o[h,i,d] :+= e[h,i,j] * v[h,j,d]
        y[h,i,d] := o[h,i,d] / sum[h,i]",
        1.0 / (features as f64).sqrt()
    );
    let sizes = [heads, positions, features];
    let products = 2.0 * heads as f64 * product_flops([positions, features, positions]);
    Case::new(name, Operation::Attention, &text, attention_nodes(sizes))
        .flops(products + 5.0 * (heads * positions * positions) as f64)
        .formula(move |inputs| by_head(inputs, sizes, attention_head))
}

fn attention_nodes([heads, positions, features]: [usize; 3]) -> Vec<Node> {
    let (values, scores) = ([heads, positions, features], [heads, positions, positions]);
    vec![
        Node::input("q", &values),
        Node::input("k", &values),
        Node::input("v", &values),
        Node::intermediate("s", &scores),
        Node::intermediate("top", &[heads, positions]),
        Node::intermediate("e", &scores),
        Node::intermediate("sum", &[heads, positions]),
        Node::intermediate("o", &values),
        Node::written("y", &values),
    ]
}

/// The results of all heads, from `q`, `k` and `v` of each.
fn by_head(
    inputs: &[Vec<f64>],
    [_, positions, features]: [usize; 3],
    head: fn([&[f64]; 3], usize, usize) -> Vec<f64>,
) -> Vec<f64> {
    let size = positions * features;
    let heads = (0..inputs[0].len() / size).map(|at| [0, 1, 2].map(|i| &inputs[i][at * size..][..size]));
    heads.flat_map(|qkv| head(qkv, positions, features)).collect()
}

/// Attention of each position to the positions up to its own: either in loops that end there, or over all
/// positions with weights of 0 for the later ones.
fn causal_attention(name: &'static str, is_masked: bool, sizes: [usize; 3]) -> Case {
    let [heads, positions, features] = sizes;
    let scale = 1.0 / (features as f64).sqrt();
    let text = if is_masked {
        format!(
            "s[h,i,j] :+= q[h,i,d] * k[h,j,d]
            top[h,i] :max= where(j <= i, s[h,i,j], -inf)
            e[h,i,j] := where(j <= i, exp((s[h,i,j] - top[h,i]) * {scale}), 0)
            sum[h,i] :+= e[h,i,j]
            o[h,i,d] :+= e[h,i,j] * v[h,j,d]
            y[h,i,d] := o[h,i,d] / sum[h,i]"
        )
    } else {
        format!(
            "s[h,i,j] :+= q[h,i,d] * k[h,j,d] where j <= i
            top[h,i] :max= s[h,i,j] where j <= i
            e[h,i,j] :+= exp((s[h,i,j] - top[h,i]) * {scale}) where j <= i
            sum[h,i] :+= e[h,i,j] where j <= i
            o[h,i,d] :+= e[h,i,j] * v[h,j,d] where j <= i
            y[h,i,d] := o[h,i,d] / sum[h,i]"
        )
    };
    let products = heads as f64 * product_flops([positions, features, positions]);
    Case::new(name, Operation::CausalAttention, &text, attention_nodes(sizes))
        .flops(products + 2.5 * (heads * positions * positions) as f64)
        .formula(move |inputs| by_head(inputs, sizes, causal_head))
}

fn causal_head([q, k, v]: [&[f64]; 3], positions: usize, features: usize) -> Vec<f64> {
    let mut y = Vec::new();
    for at in 0..positions {
        let (query, before) = (&q[at * features..][..features], (at + 1) * features);
        let score = |key: &[f64]| query.iter().zip(key).map(|(q, k)| q * k).sum::<f64>();
        let scores: Vec<f64> = k[..before].chunks_exact(features).map(score).collect();
        let scaled: Vec<f64> = scores.iter().map(|score| score / (features as f64).sqrt()).collect();
        y.extend(product(&softmax_row(&scaled), &v[..before], [1, at + 1, features]));
    }
    y
}

fn attention_head([q, k, v]: [&[f64]; 3], positions: usize, features: usize) -> Vec<f64> {
    let mut scores = product(q, &transposed(k, features), [positions, features, positions]);
    scores.iter_mut().for_each(|score| *score /= (features as f64).sqrt());
    let weights: Vec<f64> = scores.chunks_exact(positions).flat_map(softmax_row).collect();
    product(&weights, v, [positions, positions, features])
}

/// Attention of one token to the valid positions of caches for [`CACHED`] positions. The number of valid
/// positions is a binding, so all cases have one text, and one routine runs them all.
fn cached_attention(name: &'static str, [heads, valid, features]: [usize; 3]) -> Case {
    let scale = 1.0 / (features as f64).sqrt();
    let text = format!(
        "s[h,t] :+= q[h,d] * k[h,t,d] where t <= @last, @last < {CACHED}
        top[h] :max= s[h,t] where t <= @last
        e[h,t] :+= exp((s[h,t] - top[h]) * {scale}) where t <= @last
        sum[h] :+= e[h,t] where t <= @last
        o[h,d] :+= e[h,t] * v[h,t,d] where t <= @last
        y[h,d] := o[h,d] / sum[h]"
    );
    let nodes = vec![
        Node::input("q", &[heads, features]),
        Node::input("k", &[heads, CACHED, features]),
        Node::input("v", &[heads, CACHED, features]),
        Node::intermediate("s", &[heads, CACHED]),
        Node::intermediate("top", &[heads]),
        Node::intermediate("e", &[heads, CACHED]),
        Node::intermediate("sum", &[heads]),
        Node::intermediate("o", &[heads, features]),
        Node::written("y", &[heads, features]),
    ];
    let elements = (heads * valid * features) as f64;
    let case = Case::new(name, Operation::CausalAttention, &text, nodes)
        .flops(4.0 * elements + 5.0 * (heads * valid) as f64)
        .formula(move |inputs| {
            let of_head = |head: usize| {
                let of = |input: usize| &inputs[input][head * CACHED * features..][..valid * features];
                let query = &inputs[0][head * features..][..features];
                let score = |key: &[f64]| query.iter().zip(key).map(|(q, k)| q * k).sum::<f64>() * scale;
                let scores: Vec<f64> = of(1).chunks_exact(features).map(score).collect();
                product(&softmax_row(&scores), of(2), [1, valid, features])
            };
            (0..heads).flat_map(of_head).collect()
        });
    let traffic = Traffic { reads: 8.0 * elements, ..case.traffic };
    Case { operation: None, bindings: vec![valid as i64 - 1], traffic, ..case }
}
