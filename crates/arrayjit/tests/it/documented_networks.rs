//! The networks of `docs/assignment-text.md`, which declare no intermediate, against loops in Rust.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit::{Backend, HostArray, Program, Settings};

const DOCUMENT: &str = include_str!("../../../../docs/assignment-text.md");

/// The listing with that line.
fn listing(line: &str) -> &'static str {
    let starts = DOCUMENT.match_indices("```assign\n").map(|(at, fence)| &DOCUMENT[at + fence.len()..]);
    let mut listings = starts.map(|rest| rest.split("```").next().unwrap());
    listings.find(|listing| listing.contains(line)).unwrap()
}

/// The arrays of a run by name: those that the text declares, and `y`.
struct NetworkRun {
    nodes: arrayjit::Nodes,
    routine: arrayjit::Routine,
    result: Vec<f64>,
}

impl NetworkRun {
    /// Runs a listing on an input of pseudo-random values.
    fn of(text: &str, sizes: &[(&str, usize)]) -> NetworkRun {
        let bind = |program: Program, &(size, value): &(&str, usize)| program.bind(size, value).unwrap();
        let program = sizes.iter().fold(Program::parse(text).unwrap(), bind);
        let nodes = program.declare().unwrap();
        let backend = Backend::open_with("inline", Settings::default()).unwrap();
        let code = backend.compile_program(&program, &nodes).unwrap();
        let x = nodes.find("x").unwrap();
        let mut rng = fastrand::Rng::with_seed(3);
        let values: Vec<f32> = (0..x.num_elems().unwrap()).map(|_| rng.f32() * 2.0 - 1.0).collect();
        let context = backend.initialise(&code, &backend.context().unwrap()).unwrap();
        let values = HostArray::from_slice(&values, x.dims().unwrap()).unwrap();
        let routine = code.link(&context.init_from_host(x, &values).unwrap()).unwrap();
        routine.run(&[]).unwrap();
        let result = routine.context().to_host(code.node("y").unwrap()).unwrap().values();
        NetworkRun { nodes, routine, result }
    }

    fn get(&self, name: &str) -> Vec<f64> {
        self.routine.context().to_host(self.nodes.find(name).unwrap()).unwrap().values()
    }
}

/// Convolves images of `size` by `size` pixels with kernels of 5 by 5, adds the bias, applies `relu` and
/// takes the maximum of windows of 2 by 2.
fn convolved(x: &[f64], kernels: &[f64], bias: &[f64], channels: usize, size: usize) -> Vec<f64> {
    let (images, outputs) = (x.len() / (channels * size * size), bias.len());
    let (inner, half) = (size - 4, (size - 4) / 2);
    let pixel = |b: usize, o: usize, i: usize, j: usize| {
        let mut sum = bias[o];
        for (c, k, l) in (0..channels).flat_map(|c| (0..25).map(move |at| (c, at / 5, at % 5))) {
            let kernel = kernels[((o * channels + c) * 5 + k) * 5 + l];
            sum += x[((b * channels + c) * size + i + k) * size + j + l] * kernel;
        }
        sum.max(0.0)
    };
    let mut pooled = Vec::new();
    for (b, o) in (0..images).flat_map(|b| (0..outputs).map(move |o| (b, o))) {
        for (i, j) in (0..half).flat_map(|i| (0..half).map(move |j| (i, j))) {
            let window = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(k, l)| pixel(b, o, 2 * i + k, 2 * j + l));
            pooled.push(window.into_iter().fold(0.0, f64::max));
        }
    }
    assert_eq!(inner, 2 * half);
    pooled
}

/// `x · w + bias` for rows of `x`.
fn dense(x: &[f64], w: &[f64], bias: &[f64]) -> Vec<f64> {
    let outputs = bias.len();
    let inputs = w.len() / outputs;
    let element =
        |row: &[f64], j: usize| (0..inputs).map(|i| row[i] * w[i * outputs + j]).sum::<f64>() + bias[j];
    x.chunks(inputs).flat_map(|row| (0..outputs).map(move |j| element(row, j))).collect()
}

fn relu(x: Vec<f64>) -> Vec<f64> {
    x.into_iter().map(|x| x.max(0.0)).collect()
}

fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < 1e-4, "value {at}: found {found}, expected {expected}");
    }
}

#[test]
fn lenet() {
    let run = NetworkRun::of(listing("input x f32[batch, 1, 28, 28]"), &[("batch", 2)]);
    let [x, f1, b1, f2, b2] = ["x", "f1", "b1", "f2", "b2"].map(|name| run.get(name));
    let maps = convolved(&convolved(&x, &f1, &b1, 1, 28), &f2, &b2, 6, 12);
    let layer = |x: &[f64], w: &str, b: &str| dense(x, &run.get(w), &run.get(b));
    let hidden = relu(layer(&relu(layer(&maps, "w3", "b3")), "w4", "b4"));
    assert_close(&run.result, &layer(&hidden, "w5", "b5"));
    assert!(run.result.iter().any(|y| y.abs() > 0.01), "the result is not trivial");
}

/// The rows of `x`, normalised to mean 0 and variance 1.
fn normalised(x: &[f64], d: usize) -> Vec<f64> {
    let row = |row: &[f64]| {
        let mean = row.iter().sum::<f64>() / d as f64;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / d as f64;
        row.iter().map(|x| (x - mean) / (variance + 1e-5).sqrt()).collect::<Vec<f64>>()
    };
    x.chunks(d).flat_map(row).collect()
}

#[test]
fn a_transformer_block() {
    let (time, d, heads) = (6, 16, 2);
    let sizes = [("batch", 1), ("time", time), ("d", d), ("heads", heads)];
    let run = NetworkRun::of(listing("input x f32[batch, time, d]"), &sizes);
    let (x, width) = (run.get("x"), d / heads);
    let project = |name: &str| dense(&normalised(&x, d), &run.get(name), &vec![0.0; d]);
    let [q, key, v] = ["wq", "wk", "wv"].map(project);
    let mut attended = vec![0.0; time * d];
    for (h, t) in (0..heads).flat_map(|h| (0..time).map(move |t| (h, t))) {
        let at = |t: usize, k: usize| t * d + h * width + k;
        let score = |u: usize| (0..width).map(|k| q[at(t, k)] * key[at(u, k)]).sum::<f64>();
        let weights: Vec<f64> = (0..=t).map(|u| (score(u) / (width as f64).sqrt()).exp()).collect();
        let total: f64 = weights.iter().sum();
        for k in 0..width {
            attended[at(t, k)] = (0..=t).map(|u| weights[u] / total * v[at(u, k)]).sum();
        }
    }
    let add = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a + b).collect::<Vec<f64>>();
    let r = add(&dense(&attended, &run.get("wo"), &vec![0.0; d]), &x);
    let gelu = |x: f64| x / 2.0 * (1.0 + (0.79788456 * x * (1.0 + 0.044715 * x * x)).tanh());
    let up = dense(&normalised(&r, d), &run.get("up"), &vec![0.0; 4 * d]);
    let up: Vec<f64> = up.into_iter().map(gelu).collect();
    assert_close(&run.result, &add(&dense(&up, &run.get("down"), &vec![0.0; d]), &r));
}
