//! Whole steps of training: forward, backward, update.

use digits::network;

use super::contractions::product_flops;
use crate::{
    case::{Case, Check, Init, Node, Operation, Traffic},
    product::{product, transposed},
};

pub(super) fn all() -> Vec<Case> {
    let digits = digits_step("digits_step", network::TRAIN);
    let digits = digits.by_hand(digits_step("digits_step_by_hand", DIGITS_BY_HAND));
    vec![mlp_step("mlp_step_128x784x256x10", [128, 784, 256, 10]), digits]
}

/// The learning rate of [`mlp_step`].
const RATE: f64 = 0.01;

/// A perceptron of two layers learns given targets: mean squared error, gradient descent. Weights have the
/// small initial values of real networks, so that values stay in the normal range over many steps.
fn mlp_step(name: &'static str, [batch, inputs, hidden, outputs]: [usize; 4]) -> Case {
    let scale = 1.0 / (batch * outputs) as f64;
    let text = format!(
        "h[b,j] :+= x[b,i] * w1[i,j]
        a[b,j] := relu(h[b,j] + b1[j])
        z[b,k] :+= a[b,j] * w2[j,k]
        d[b,k] := z[b,k] + b2[k] - t[b,k]
        loss :+= d[b,k] * d[b,k] * {scale}
        dz[b,k] := d[b,k] * {}
        dw2[j,k] :+= a[b,j] * dz[b,k]
        db2[k] :+= dz[b,k]
        da[b,j] :+= dz[b,k] * w2[j,k]
        dh[b,j] := relu_gate(a[b,j], da[b,j])
        dw1[i,j] :+= x[b,i] * dh[b,j]
        db1[j] :+= dh[b,j]
        w1[i,j] -= {RATE} * dw1[i,j]
        b1[j] -= {RATE} * db1[j]
        w2[j,k] -= {RATE} * dw2[j,k]
        b2[k] -= {RATE} * db2[k]",
        2.0 * scale
    );
    let small = |fan_in: usize| Init::Within(1.0 / (fan_in as f32).sqrt());
    let nodes = vec![
        Node::input("x", &[batch, inputs]),
        Node::input("t", &[batch, outputs]),
        Node::with("w1", &[inputs, hidden], small(inputs)),
        Node::with("b1", &[hidden], small(inputs)),
        Node::with("w2", &[hidden, outputs], small(hidden)),
        Node::with("b2", &[outputs], small(hidden)),
        Node::intermediate("h", &[batch, hidden]),
        Node::intermediate("a", &[batch, hidden]),
        Node::intermediate("z", &[batch, outputs]),
        Node::intermediate("d", &[batch, outputs]),
        Node::intermediate("dz", &[batch, outputs]),
        Node::intermediate("dw2", &[hidden, outputs]),
        Node::intermediate("db2", &[outputs]),
        Node::intermediate("da", &[batch, hidden]),
        Node::intermediate("dh", &[batch, hidden]),
        Node::intermediate("dw1", &[inputs, hidden]),
        Node::intermediate("db1", &[hidden]),
        Node::written("loss", &[]),
    ];
    let products =
        2.0 * product_flops([batch, inputs, hidden]) + 3.0 * product_flops([batch, hidden, outputs]);
    let updates = 2.0 * (hidden * (inputs + outputs + 1) + outputs) as f64;
    let elementwise = (5 * batch * hidden + 7 * batch * outputs) as f64;
    Case::new(name, Operation::MlpStep, &text, nodes)
        .updating(&["w1", "b1", "w2", "b2"])
        .flops(products + updates + elementwise)
        .formulas(move |values| mlp_values(values, [batch, inputs, hidden, outputs]))
}

/// The weights and biases of both layers after the step, then the loss before it.
fn mlp_values(values: &[Vec<f64>], [batch, inputs, hidden, outputs]: [usize; 4]) -> Vec<Vec<f64>> {
    let [x, t, w1, b1, w2, b2] = [0, 1, 2, 3, 4, 5].map(|i| &values[i]);
    let h = product(x, w1, [batch, inputs, hidden]);
    let a: Vec<f64> = h.iter().zip(b1.iter().cycle()).map(|(h, b)| (h + b).max(0.0)).collect();
    let z = product(&a, w2, [batch, hidden, outputs]);
    let d: Vec<f64> = z.iter().zip(b2.iter().cycle()).zip(t).map(|((z, b), t)| z + b - t).collect();
    let count = d.len() as f64;
    let loss = d.iter().map(|d| d * d).sum::<f64>() / count;
    let dz: Vec<f64> = d.iter().map(|d| 2.0 * d / count).collect();
    let da = product(&dz, &transposed(w2, outputs), [batch, outputs, hidden]);
    let dh: Vec<f64> = da.iter().zip(&a).map(|(da, &a)| if a > 0.0 { *da } else { 0.0 }).collect();
    let dw1 = product(&transposed(x, inputs), &dh, [inputs, batch, hidden]);
    let dw2 = product(&transposed(&a, hidden), &dz, [hidden, batch, outputs]);
    let ones = vec![1.0; batch];
    let (db1, db2) = (product(&ones, &dh, [1, batch, hidden]), product(&ones, &dz, [1, batch, outputs]));
    let step = |w: &[f64], dw: &[f64]| w.iter().zip(dw).map(|(w, dw)| w - RATE * dw).collect();
    vec![step(w1, &dw1), step(b1, &db1), step(w2, &dw2), step(b2, &db2), vec![loss]]
}

/// The training step of the digits example, with gradients that were written by hand.
const DIGITS_BY_HAND: &str = "
h[b,j] :+= x[32*@step + b, i] * w1[i,j] where b < 32
a[b,j] := relu(h[b,j] + b1[j])
z[b,k] :+= a[b,j] * w2[j,k]
y[b,k] := z[b,k] + b2[k]
top[b] :max= y[b,k]
e[b,k] := exp(y[b,k] - top[b])
sum[b] :+= e[b,k]
loss += log(sum[b]) * 0.03125
loss -= (y[b,k] - top[b]) * (k == label[32*@step + b]) * 0.03125

dy[b,k] := (e[b,k] / sum[b] - (k == label[32*@step + b])) * 0.03125
dw2[j,k] :+= a[b,j] * dy[b,k]
db2[k] :+= dy[b,k]
da[b,j] :+= dy[b,k] * w2[j,k]
dh[b,j] := relu_gate(a[b,j], da[b,j])
dw1[i,j] :+= x[32*@step + b, i] * dh[b,j]
db1[j] :+= dh[b,j]

momentum(w1[i,j], dw1[i,j], v1[i,j], 0.1)
momentum(b1[j], db1[j], u1[j], 0.1)
momentum(w2[j,k], dw2[j,k], v2[j,k], 0.1)
momentum(b2[k], db2[k], u2[k], 0.1)
";

/// One training step of the digits example on random images.
fn digits_step(name: &'static str, text: &str) -> Case {
    const TRAIN: usize = 1438;
    let declared = network::declarations(TRAIN, 1);
    let nodes = declared.into_iter().map(|(name, dims, dtype)| {
        let init = match name {
            "x" | "label" | "w1" | "w2" => Some(Init::Random),
            "b1" | "b2" | "v1" | "v2" | "u1" | "u2" | "loss" => Some(Init::Zeros),
            _ => None,
        };
        Node { name: name.into(), dims, dtype, init, mode: None }
    });
    let (batch, hidden) = (network::BATCH as f64, network::HIDDEN as f64);
    let weights = hidden * (network::PIXELS + network::CLASSES) as f64;
    let backward_data = hidden * network::CLASSES as f64;
    Case {
        name,
        operation: None,
        text: text.into(),
        by_hand: None,
        nodes: nodes.collect(),
        bindings: vec![3],
        outputs: vec!["w1".into()],
        flops: 2.0 * batch * (2.0 * weights + backward_data) + 4.0 * weights,
        traffic: Traffic {
            reads: 4.0 * (batch * network::PIXELS as f64 + 2.0 * weights),
            writes: 8.0 * weights,
        },
        check: Check::Interpreter,
        tolerance: 1e-5,
        is_latency: false,
        is_large: false,
    }
}
