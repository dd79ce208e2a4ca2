//! Operations on each row of a matrix: softmax, layer normalisation, attention.

use super::contractions::product_flops;
use crate::{
    case::{Case, Node, Operation},
    product::{product, transposed},
};

pub(super) fn all() -> Vec<Case> {
    vec![
        softmax("softmax_1024x1024", 1024, 1024),
        layer_norm("layernorm_1024x1024", 1024, 1024),
        attention("attention_8x256x64", 8, 256, 64),
    ]
}

/// Softmax of each row.
pub(super) fn softmax(name: &'static str, rows: usize, columns: usize) -> Case {
    let text = "top[r] :max= x[r,c]
        e[r,c] := exp(x[r,c] - top[r])
        sum[r] :+= e[r,c]
        y[r,c] := e[r,c] / sum[r]";
    let nodes = vec![
        Node::input("x", &[rows, columns]),
        Node::intermediate("top", &[rows]),
        Node::intermediate("e", &[rows, columns]),
        Node::intermediate("sum", &[rows]),
        Node::written("y", &[rows, columns]),
    ];
    Case::new(name, Operation::Softmax, text, nodes)
        .flops(5.0 * (rows * columns) as f64)
        .formula(move |inputs| inputs[0].chunks_exact(columns).flat_map(softmax_row).collect())
}

pub(super) fn softmax_row(row: &[f64]) -> Vec<f64> {
    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exps: Vec<f64> = row.iter().map(|x| (x - top).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.iter().map(|e| e / sum).collect()
}

/// Each row minus its mean over its standard deviation, scaled and shifted by column.
pub(super) fn layer_norm(name: &'static str, rows: usize, columns: usize) -> Case {
    let text = format!(
        "sum[r] :+= x[r,c]
        mean[r] := sum[r] / {columns}
        squares[r] :+= (x[r,c] - mean[r]) * (x[r,c] - mean[r])
        inverse[r] := recip_sqrt(squares[r] / {columns} + 0.00001)
        y[r,c] := (x[r,c] - mean[r]) * inverse[r] * scale[c] + shift[c]"
    );
    let mut nodes = vec![
        Node::input("x", &[rows, columns]),
        Node::input("scale", &[columns]),
        Node::input("shift", &[columns]),
        Node::written("y", &[rows, columns]),
    ];
    nodes.extend(["sum", "mean", "squares", "inverse"].map(|name| Node::intermediate(name, &[rows])));
    Case::new(name, Operation::LayerNorm, &text, nodes).flops(8.0 * (rows * columns) as f64).formula(
        move |inputs| {
            let rows = inputs[0].chunks_exact(columns);
            rows.flat_map(|row| layer_norm_row(row, &inputs[1], &inputs[2])).collect()
        },
    )
}

pub(super) fn layer_norm_row(row: &[f64], scale: &[f64], shift: &[f64]) -> Vec<f64> {
    let count = row.len() as f64;
    let mean = row.iter().sum::<f64>() / count;
    let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let deviation = (variance + 1e-5).sqrt();
    let by_column = scale.iter().zip(shift);
    row.iter().zip(by_column).map(|(x, (scale, shift))| (x - mean) / deviation * scale + shift).collect()
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
    let (values, scores) = ([heads, positions, features], [heads, positions, positions]);
    let nodes = vec![
        Node::input("q", &values),
        Node::input("k", &values),
        Node::input("v", &values),
        Node::intermediate("s", &scores),
        Node::intermediate("top", &[heads, positions]),
        Node::intermediate("e", &scores),
        Node::intermediate("sum", &[heads, positions]),
        Node::intermediate("o", &values),
        Node::written("y", &values),
    ];
    let products = 2.0 * heads as f64 * product_flops([positions, features, positions]);
    Case::new(name, Operation::Attention, &text, nodes)
        .flops(products + 5.0 * (heads * positions * positions) as f64)
        .formula(move |inputs| {
            let size = positions * features;
            let heads =
                (0..inputs[0].len() / size).map(|head| [0, 1, 2].map(|i| &inputs[i][head * size..][..size]));
            heads.flat_map(|qkv| attention_head(qkv, positions, features)).collect()
        })
}

fn attention_head([q, k, v]: [&[f64]; 3], positions: usize, features: usize) -> Vec<f64> {
    let mut scores = product(q, &transposed(k, features), [positions, features, positions]);
    scores.iter_mut().for_each(|score| *score /= (features as f64).sqrt());
    let weights: Vec<f64> = scores.chunks_exact(positions).flat_map(softmax_row).collect();
    product(&weights, v, [positions, positions, features])
}
