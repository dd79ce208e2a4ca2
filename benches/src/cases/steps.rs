//! Whole steps without layers to train: a grid, an update, a small network.

use super::{
    contractions::product_flops,
    parameters::{EARLIER_STEPS, STEPS},
};
use crate::{
    case::{Case, Init, Node, Operation},
    product::product,
};

pub(super) fn all() -> Vec<Case> {
    vec![
        heat("heat_1024_step", 1024),
        adamw("adamw_step", 1 << 22),
        mlp_infer("mlp_infer_1", [784, 256, 256, 10]),
    ]
}

/// The same cases with small arrays.
#[cfg(test)]
pub(super) fn small() -> Vec<Case> {
    vec![heat("heat_small", 17), adamw("adamw_small", 100), mlp_infer("mlp_small", [20, 12, 9, 4])]
}

/// The rate of [`heat`].
const RATE: f64 = 0.2;

/// An explicit step of the heat equation on a square whose edges have the temperature 0.
fn heat(name: &'static str, side: usize) -> Case {
    let text = format!("change[i,j] := laplace(u[i,j])\nu[i,j] += {RATE} * change[i,j]");
    let nodes = vec![Node::input("u", &[side, side])];
    let case = Case::new(name, Operation::Heat, &text, nodes).updating(&["u"]);
    case.flops(7.0 * (side * side) as f64).formula(move |inputs| {
        let u = &inputs[0];
        let at = |i: usize, j: usize| if i < side && j < side { u[i * side + j] } else { 0.0 };
        let next = |at_point: usize| {
            let (i, j) = (at_point / side, at_point % side);
            let around = at(i.wrapping_sub(1), j) + at(i + 1, j) + at(i, j.wrapping_sub(1)) + at(i, j + 1);
            u[at_point] + RATE * (around - 4.0 * u[at_point])
        };
        (0..side * side).map(next).collect()
    })
}

/// The hundredth update of one parameter by AdamW.
fn adamw(name: &'static str, count: usize) -> Case {
    let text = format!("{STEPS}adamw(w[i], g[i], w_m[i], w_v[i], taken)");
    let nodes = vec![
        Node::input("w", &[count]),
        Node::input("g", &[count]),
        Node::with("w_m", &[count], Init::Within(0.1)),
        Node::with("w_v", &[count], Init::Positive),
    ];
    let case = Case::new(name, Operation::AdamW, &text, nodes).updating(&["w", "w_m", "w_v"]);
    Case { bindings: vec![EARLIER_STEPS], ..case }.flops(14.0 * count as f64).formulas(adamw_values)
}

/// The parameter and its means after the update.
fn adamw_values(inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let [w, g, m, v] = [0, 1, 2, 3].map(|i| &inputs[i]);
    let steps = EARLIER_STEPS as i32 + 1;
    let mean = |a: &[f64], beta: f64, b: &dyn Fn(f64) -> f64| -> Vec<f64> {
        a.iter().zip(g).map(|(a, &g)| beta * a + (1.0 - beta) * b(g)).collect()
    };
    let (m, v) = (mean(m, 0.9, &|g| g), mean(v, 0.999, &|g| g * g));
    let [by_m, by_v] = [0.9f64, 0.999].map(|beta| 1.0 - beta.powi(steps));
    let step = |(w, (m, v)): (&f64, (&f64, &f64))| {
        (1.0 - 1e-5) * w - 0.001 * (m / by_m) / ((v / by_v).sqrt() + 1e-8)
    };
    let w = w.iter().zip(m.iter().zip(&v)).map(step).collect();
    vec![w, m, v]
}

/// A perceptron of three layers on one picture.
fn mlp_infer(name: &'static str, [inputs, first, second, outputs]: [usize; 4]) -> Case {
    let text = "h1[b,j] :+= x[b,i] * w1[i,j]
        h2[b,j] :+= relu(h1[b,i] + b1[i]) * w2[i,j]
        y[b,j] :+= relu(h2[b,i] + b2[i]) * w3[i,j]
        y[b,j] += b3[j]";
    let weight =
        |name, dims: [usize; 2]| Node::with(name, &dims, Init::Within(1.0 / (dims[0] as f32).sqrt()));
    let nodes = vec![
        Node::input("x", &[1, inputs]),
        weight("w1", [inputs, first]),
        Node::input("b1", &[first]),
        weight("w2", [first, second]),
        Node::input("b2", &[second]),
        weight("w3", [second, outputs]),
        Node::input("b3", &[outputs]),
        Node::written("y", &[1, outputs]),
    ];
    let sizes = [[1, inputs, first], [1, first, second], [1, second, outputs]];
    let case = Case::new(name, Operation::MlpInfer, text, nodes);
    case.flops(sizes.iter().copied().map(product_flops).sum()).formula(move |values| {
        let [x, w1, b1, w2, b2, w3, b3] = [0, 1, 2, 3, 4, 5, 6].map(|i| &values[i]);
        let dense = |x: &[f64], w: &[f64], b: &[f64], sizes| -> Vec<f64> {
            product(x, w, sizes).iter().zip(b).map(|(h, b)| h + b).collect()
        };
        let relu = |h: Vec<f64>| -> Vec<f64> { h.iter().map(|h| h.max(0.0)).collect() };
        let h1 = relu(dense(x, w1, b1, sizes[0]));
        dense(&relu(dense(&h1, w2, b2, sizes[1])), w3, b3, sizes[2])
    })
}
