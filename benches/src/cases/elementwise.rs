//! Chains of elementwise operations, each of which is one pass over memory.

use crate::case::{Case, Init, Node, Operation};

pub(super) fn all() -> Vec<Case> {
    let (small, large) = (1 << 14, 1 << 22);
    vec![
        axpy_relu("axpy_relu_16k", small),
        axpy_relu("axpy_relu_4m", large),
        gelu("gelu_16k", small),
        gelu("gelu_4m", large),
        adam("adam_4m", large),
    ]
}

fn map(name: &'static str, operation: Operation, text: &str, n: usize) -> Case {
    Case::new(name, operation, text, vec![Node::input("x", &[n]), Node::written("y", &[n])])
}

/// `y = 2 relu(1.5 x + 0.5)`.
fn axpy_relu(name: &'static str, n: usize) -> Case {
    map(name, Operation::AxpyRelu, "y[i] := relu(1.5 * x[i] + 0.5) * 2", n)
        .flops(4.0 * n as f64)
        .formula(|inputs| inputs[0].iter().map(|x| (1.5 * x + 0.5).max(0.0) * 2.0).collect())
}

/// The Gaussian error linear unit, in its approximation by the hyperbolic tangent.
fn gelu(name: &'static str, n: usize) -> Case {
    let text = "y[i] := 0.5 * x[i] * (1 + tanh(0.7978845608 * (x[i] + 0.044715 * x[i] * x[i] * x[i])))";
    map(name, Operation::Gelu, text, n).flops(9.0 * n as f64).formula(|inputs| {
        let root = (2.0 / std::f64::consts::PI).sqrt();
        let value = |x: &f64| 0.5 * x * (1.0 + (root * (x + 0.044715 * x.powi(3))).tanh());
        inputs[0].iter().map(value).collect()
    })
}

/// The first step of Adam with rate 0.001: parameter and both moments are updated. The bias corrections of
/// the moments are constants of the program, since they are the same for all elements.
fn adam(name: &'static str, n: usize) -> Case {
    let text = "m[i] := 0.9 * m[i] + 0.1 * g[i]
        v[i] := 0.999 * v[i] + 0.001 * (g[i] * g[i])
        p[i] -= 0.01 * m[i] / (sqrt(v[i]) * 31.622777 + 0.00000001)";
    let nodes = vec![
        Node::input("p", &[n]),
        Node::with("m", &[n], Init::Random),
        Node::with("v", &[n], Init::Positive),
        Node::input("g", &[n]),
    ];
    let case = Case::new(name, Operation::Adam, text, nodes).updating(&["p", "m", "v"]);
    case.flops(12.0 * n as f64).formulas(|inputs| {
        let [p, m, v, g] = [0, 1, 2, 3].map(|i| inputs[i].iter());
        let m: Vec<f64> = m.zip(g.clone()).map(|(m, g)| 0.9 * m + 0.1 * g).collect();
        let v: Vec<f64> = v.zip(g).map(|(v, g)| 0.999 * v + 0.001 * g * g).collect();
        let unbiased = m.iter().zip(&v).map(|(m, v)| (m / 0.1, v / 0.001));
        let p = p.zip(unbiased).map(|(p, (m, v))| p - 0.001 * m / (v.sqrt() + 1e-8)).collect();
        vec![p, m, v]
    })
}
