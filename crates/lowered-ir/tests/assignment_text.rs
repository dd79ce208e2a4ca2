//! Programs written as assignment text, run by the interpreter and compared with plain Rust.

mod program;

use lowered_ir::assign::text::parse;
use program::{Machine, f32s, node, values};
use tnode::{DType, TensorNode};

/// Runs `text` with the given inputs and returns what `output` holds.
fn run(text: &str, inputs: &[(&TensorNode, &[f64])], output: &TensorNode) -> Vec<f64> {
    let mut nodes: Vec<TensorNode> = inputs.iter().map(|(node, _)| (*node).clone()).collect();
    nodes.push(output.clone());
    let assignments = parse(text, &nodes).unwrap_or_else(|error| panic!("{error}"));
    let mut machine = Machine::new(&assignments);
    for (node, values) in inputs {
        machine.set(node, values);
    }
    machine.run(&[]);
    machine.get(output)
}

#[test]
fn matmul() {
    let (a, b, c) = (f32s("a", &[3, 4]), f32s("b", &[4, 2]), f32s("c", &[3, 2]));
    let (x, y) = (values(12, 1), values(8, 2));
    let found = run("c[m,n] :+= a[m,k] * b[k,n]", &[(&a, &x), (&b, &y)], &c);
    let expected: Vec<f64> =
        (0..6).map(|at| (0..4).map(|k| x[at / 2 * 4 + k] * y[k * 2 + at % 2]).sum()).collect();
    assert_eq!(found, expected);
}

#[test]
fn transpose_diagonal_outer_product() {
    let (a, t) = (f32s("a", &[2, 3]), f32s("t", &[3, 2]));
    assert_eq!(run("t[j,i] := a[i,j]", &[(&a, &[1., 2., 3., 4., 5., 6.])], &t), [1., 4., 2., 5., 3., 6.]);
    let (s, d) = (f32s("s", &[2, 2]), f32s("d", &[2]));
    assert_eq!(run("d[i] := s[i,i]", &[(&s, &[1., 2., 3., 4.])], &d), [1., 4.]);
    assert_eq!(run("s[i,j] := 0; s[i,i] := d[i]", &[(&d, &[5., 6.])], &s), [5., 0., 0., 6.]);
    let (u, v) = (f32s("u", &[2]), f32s("v", &[3]));
    let outer = run("a[i,j] := u[i] * v[j]", &[(&u, &[2., 3.]), (&v, &[1., 10., 100.])], &a);
    assert_eq!(outer, [2., 20., 200., 3., 30., 300.]);
}

#[test]
fn convolution_with_zeros_outside() {
    let (x, w, y) = (f32s("x", &[6]), f32s("w", &[3]), f32s("y", &[6]));
    let (xs, ws) = (values(6, 3), values(3, 5));
    let at = |i: usize, k: usize| (i + k).checked_sub(1).and_then(|p| xs.get(p)).copied().unwrap_or(0.0);
    let expected: Vec<f64> = (0..6).map(|i| (0..3).map(|k| at(i, k) * ws[k]).sum()).collect();
    assert_eq!(run("y[i] :+= pad(x, 0)[i + k - 1] * w[k]", &[(&x, &xs), (&w, &ws)], &y), expected);
}

#[test]
fn strided_max_pool() {
    let (x, y) = (f32s("x", &[2, 4, 6]), f32s("y", &[2, 2, 3]));
    let xs = values(48, 4);
    let window = |c: usize, oh: usize, ow: usize| {
        let at = |kh, kw| xs[c * 24 + (2 * oh + kh) * 6 + 2 * ow + kw];
        [at(0, 0), at(0, 1), at(1, 0), at(1, 1)].into_iter().fold(f64::NEG_INFINITY, f64::max)
    };
    let expected: Vec<f64> = (0..12).map(|i| window(i / 6, i / 3 % 2, i % 3)).collect();
    let text = "y[c,oh,ow] :max= x[c, 2*oh+kh, 2*ow+kw] where kh < 2, kw < 2";
    assert_eq!(run(text, &[(&x, &xs)], &y), expected);
}

#[test]
fn softmax_in_statements() {
    let (x, m) = (f32s("x", &[2, 5]), f32s("m", &[2]));
    let (e, z, p) = (f32s("e", &[2, 5]), f32s("z", &[2]), f32s("p", &[2, 5]));
    let text = "
        m[b] :max= x[b,i]               # the maximum, against overflow
        e[b,i] := exp(x[b,i] - m[b])
        z[b] :+= e[b,i]                 // the normaliser
        p[b,i] := e[b,i] / z[b]";
    let xs = values(10, 6);
    let nodes = [(&x, &xs[..]), (&m, &[0.0; 2]), (&e, &[0.0; 10]), (&z, &[0.0; 2])];
    let found = run(text, &nodes, &p);
    for (row, xs) in found.chunks(5).zip(xs.chunks(5)) {
        let sum: f64 = xs.iter().map(|x| x.exp()).sum();
        for (p, x) in row.iter().zip(xs) {
            assert!((p - x.exp() / sum).abs() < 1e-6, "{p} {x}");
        }
    }
}

#[test]
fn one_hot_by_comparing_an_index() {
    let (label, y) = (node("label", DType::I32, &[3]), f32s("y", &[3, 4]));
    let found = run("y[b,k] := k == label[b]", &[(&label, &[2., 0., 3.])], &y);
    assert_eq!(found, [0., 0., 1., 0., 1., 0., 0., 0., 0., 0., 0., 1.]);
    let (x, pick) = (f32s("x", &[3, 4]), f32s("pick", &[3]));
    let xs = values(12, 7);
    let found = run("pick[b] :+= (k == label[b]) * x[b,k]", &[(&label, &[2., 0., 3.]), (&x, &xs)], &pick);
    assert_eq!(found, [xs[2], xs[4], xs[11]]);
}

#[test]
fn slices_by_a_binding() {
    let (x, y) = (f32s("x", &[10, 2]), f32s("y", &[3, 2]));
    let assignments = parse("y[b,i] := x[3*@step + b, i]", &[x.clone(), y.clone()]).unwrap();
    let mut machine = Machine::new(&assignments);
    let symbols = &machine.lowered.routine.symbols;
    assert_eq!(
        (symbols[0].name.as_str(), symbols[0].range),
        ("step", 3),
        "the last partial slice is left out"
    );
    let xs = values(20, 8);
    machine.set(&x, &xs);
    for step in 0..3 {
        machine.run(&[step]);
        assert_eq!(machine.get(&y), &xs[6 * step as usize..][..6]);
    }
}
