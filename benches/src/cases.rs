//! The cases. Names are stable: records of earlier runs refer to them.

use crate::{
    case::{Case, Check, Init, Node},
    network,
};

/// Every case, in the order they run.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(
        [("matmul_64", 64), ("matmul_128", 128), ("matmul_256", 256)].map(|(name, n)| matmul(name, n)),
    );
    cases.extend([("matmul_512", 512), ("matmul_1024", 1024)].map(|(name, n)| matmul(name, n)));
    cases.push(axpy_relu("axpy_relu_16k", 1 << 14));
    cases.push(axpy_relu("axpy_relu_4m", 1 << 22));
    cases.push(softmax("softmax_1024x1024", 1024, 1024));
    cases.push(digits_step());
    cases.push(compile_20op());
    cases
}

/// `c = a b`, square, f32.
fn matmul(name: &'static str, n: usize) -> Case {
    let size = n as f64;
    Case {
        name,
        text: "c[m,n] :+= a[m,k] * b[k,n]".into(),
        nodes: vec![Node::input("a", &[n, n]), Node::input("b", &[n, n]), Node::written("c", &[n, n])],
        bindings: vec![],
        output: "c",
        flops: 2.0 * size * size * size,
        bytes: 3.0 * 4.0 * size * size,
        check: Check::Formula(Box::new(move |inputs| naive_matmul(&inputs[0], &inputs[1], n))),
        tolerance: 1e-5,
        is_latency: false,
    }
}

fn naive_matmul(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
    let mut c = vec![0.0; n * n];
    for (row_a, row_c) in a.chunks_exact(n).zip(c.chunks_exact_mut(n)) {
        for (&x, row_b) in row_a.iter().zip(b.chunks_exact(n)) {
            for (sum, &y) in row_c.iter_mut().zip(row_b) {
                *sum += x * y;
            }
        }
    }
    c
}

/// `y = 2 relu(1.5 x + 0.5)`: a fused chain of elementwise operations.
fn axpy_relu(name: &'static str, n: usize) -> Case {
    Case {
        name,
        text: "y[i] := relu(1.5 * x[i] + 0.5) * 2".into(),
        nodes: vec![Node::input("x", &[n]), Node::written("y", &[n])],
        bindings: vec![],
        output: "y",
        flops: 4.0 * n as f64,
        bytes: 8.0 * n as f64,
        check: Check::Formula(Box::new(|inputs| {
            inputs[0].iter().map(|x| (1.5 * x + 0.5).max(0.0) * 2.0).collect()
        })),
        tolerance: 1e-6,
        is_latency: false,
    }
}

/// Softmax of each row.
fn softmax(name: &'static str, rows: usize, columns: usize) -> Case {
    let elements = (rows * columns) as f64;
    Case {
        name,
        text: "top[r] :max= x[r,c]\ne[r,c] := exp(x[r,c] - top[r])\nsum[r] :+= e[r,c]\ny[r,c] := e[r,c] / sum[r]".into(),
        nodes: vec![
            Node::input("x", &[rows, columns]),
            Node::written("top", &[rows]),
            Node::written("e", &[rows, columns]),
            Node::written("sum", &[rows]),
            Node::written("y", &[rows, columns]),
        ],
        bindings: vec![],
        output: "y",
        flops: 5.0 * elements,
        bytes: 8.0 * elements,
        check: Check::Formula(Box::new(move |inputs| inputs[0].chunks_exact(columns).flat_map(softmax_row).collect())),
        tolerance: 1e-5,
        is_latency: false,
    }
}

fn softmax_row(row: &[f64]) -> Vec<f64> {
    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exps: Vec<f64> = row.iter().map(|x| (x - top).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.iter().map(|e| e / sum).collect()
}

/// One training step of the digits example on random images.
fn digits_step() -> Case {
    const TRAIN: usize = 1438;
    let declared = network::declarations(TRAIN, 1, network::BATCH);
    let nodes = declared.into_iter().map(|(name, dims, dtype)| {
        let init = match name {
            "x" | "label" | "w1" | "w2" => Some(Init::Random),
            "b1" | "b2" | "v1" | "v2" | "u1" | "u2" | "loss" => Some(Init::Zeros),
            _ => None,
        };
        Node { name, dims, dtype, init }
    });
    let (batch, hidden) = (network::BATCH as f64, network::HIDDEN as f64);
    let weights = hidden * (network::PIXELS + network::CLASSES) as f64;
    let backward_data = hidden * network::CLASSES as f64;
    Case {
        name: "digits_step",
        text: network::TRAIN.into(),
        nodes: nodes.collect(),
        bindings: vec![3],
        output: "w1",
        flops: 2.0 * batch * (2.0 * weights + backward_data) + 4.0 * weights,
        bytes: 4.0 * (batch * network::PIXELS as f64 + 4.0 * weights),
        check: Check::Interpreter,
        tolerance: 1e-5,
        is_latency: false,
    }
}

/// From the text of twenty operations to the first result.
fn compile_20op() -> Case {
    let mut text = String::from("t0[i] := x[i]\n");
    let ops = ["relu(P) + x[i]", "P * 0.5", "exp(P * 0.1)", "P - x[i]", "max(P, x[i])"];
    for k in 1..20 {
        let body = ops[k % ops.len()].replace('P', &format!("t{}[i]", k - 1));
        text += &format!("t{k}[i] := {body}\n");
    }
    text += "y[i] := t19[i]";
    let mut nodes = vec![Node::input("x", &[1024]), Node::written("y", &[1024])];
    nodes.extend(NAMES.map(|name| Node::written(name, &[1024])));
    Case {
        name: "compile_20op",
        text,
        nodes,
        bindings: vec![],
        output: "y",
        flops: 20.0 * 1024.0,
        bytes: 8.0 * 1024.0,
        check: Check::Interpreter,
        tolerance: 1e-6,
        is_latency: true,
    }
}

const NAMES: [&str; 20] = [
    "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9", "t10", "t11", "t12", "t13", "t14", "t15",
    "t16", "t17", "t18", "t19",
];
