//! Operations on each row of a matrix: softmax, layer normalization.

use crate::case::{Case, Node, Operation};

pub(super) fn all() -> Vec<Case> {
    vec![softmax("softmax_1024x1024", 1024, 1024), layer_norm("layernorm_1024x1024", 1024, 1024)]
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
