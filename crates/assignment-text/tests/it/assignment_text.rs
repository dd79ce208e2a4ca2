//! Programs written as assignment text, run by the interpreter and compared with plain Rust.

use crate::program;

use assignment_text::parse;
use lowered_ir::ir::Numerics;
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use program::{Machine, f32s, node, values};
use tnode::{DType, MemoryMode, Reason, TensorNode};

/// Runs `text` with the given inputs, as it is and optimized, and returns the values of `output`.
fn run(text: &str, inputs: &[(&TensorNode, &[f64])], output: &TensorNode) -> Vec<f64> {
    let mut nodes: Vec<TensorNode> = inputs.iter().map(|(node, _)| (*node).clone()).collect();
    nodes.push(output.clone());
    let kept = Reason::new("the test reads it");
    output.update_memory_mode(MemoryMode::Materialized, kept).expect("nobody else decided");
    let assignments = parse(text, &nodes).unwrap_or_else(|error| panic!("{error}"));
    let mut machine = Machine::new(&assignments);
    machine.lowered.routine.numerics = Numerics::Strict;
    let optimized = optimize(machine.lowered.routine.clone(), &OptimizeSettings::default());
    let found = run_once(&mut machine, inputs, output);
    machine.lowered.routine = optimized.unwrap_or_else(|error| panic!("{error}")).routine;
    assert_eq!(run_once(&mut machine, inputs, output), found, "{text}");
    found
}

fn run_once(machine: &mut Machine, inputs: &[(&TensorNode, &[f64])], output: &TensorNode) -> Vec<f64> {
    machine.clear();
    for (node, values) in inputs {
        if machine.lowered.nodes.contains(node) {
            machine.set(node, values);
        }
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
        z[b] :+= e[b,i]                 // the normalizer
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
fn equal_ranges_of_a_letter_are_one() {
    let y = f32s("y", &[4]);
    assert_eq!(run("y[i] := 0; y[i] := 1 where i < 2, i < 2", &[], &y), [1.0, 1.0, 0.0, 0.0]);
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

#[test]
fn a_training_step() {
    let (x, t, w) = (f32s("x", &[8, 3]), f32s("t", &[8]), f32s("w", &[3]));
    let (err, g, v, loss) = (f32s("err", &[4]), f32s("g", &[3]), f32s("v", &[3]), f32s("loss", &[]));
    let text = "
        err[b] :+= x[4*@step + b, i] * w[i]
        err[b] -= t[4*@step + b]
        loss :+= err[b] * err[b] / 4
        g[i] :+= x[4*@step + b, i] * err[b]
        v[i] := 0.5 * v[i] + g[i]
        w[i] -= 0.25 * v[i]";
    let nodes = [&x, &t, &w, &err, &g, &v, &loss].map(TensorNode::clone);
    let mut machine = Machine::new(&parse(text, &nodes).unwrap());
    let (xs, ts) = (values(24, 1), values(8, 2));
    let (mut ws, mut vs) = (values(3, 3), vec![0.0; 3]);
    for (node, values) in [(&x, &xs), (&t, &ts), (&w, &ws)] {
        machine.set(node, values);
    }
    for step in [0, 1, 0] {
        machine.run(&[step as i64]);
        let rows: Vec<usize> = (4 * step..4 * step + 4).collect();
        let error = |b: usize| (0..3).map(|i| xs[3 * b + i] * ws[i]).sum::<f64>() - ts[b];
        let errors: Vec<f64> = rows.iter().map(|&b| error(b)).collect();
        let expected_loss: f64 = errors.iter().map(|e| e * e / 4.0).sum();
        assert!((machine.get(&loss)[0] - expected_loss).abs() < 1e-4 * expected_loss);
        for i in 0..3 {
            let g: f64 = rows.iter().zip(&errors).map(|(&b, e)| xs[3 * b + i] * e).sum();
            vs[i] = 0.5 * vs[i] + g;
        }
        (0..3).for_each(|i| ws[i] -= 0.25 * vs[i]);
        let found = machine.get(&w);
        assert!(
            found.iter().zip(&ws).all(|(a, b)| (a - b).abs() < 1e-4 * b.abs().max(1.0)),
            "{found:?} {ws:?}"
        );
    }
}

#[test]
fn padded_nodes_are_read_in_their_margins() {
    let padding = tnode::Padding::new([(1, 1)], Some(0.0));
    let x = TensorNode::builder("x").dims([4]).padding(padding).build().unwrap();
    let (w, y) = (f32s("w", &[3]), f32s("y", &[4]));
    let found =
        run("y[i] :+= x[i + k - 1] * w[k]", &[(&x, &[0., 1., 2., 3., 4., 0.]), (&w, &[1., 10., 100.])], &y);
    assert_eq!(found, [210., 321., 432., 43.]);
    // A fill does not change the margins.
    let filled = run("x[i] := 7", &[], &x);
    assert_eq!(filled, [0., 7., 7., 7., 7., 0.]);
    let summed = run("x[i] :+= w[k]", &[(&w, &[1., 2., 3.])], &x);
    assert_eq!(summed, [0., 6., 6., 6., 6., 0.]);
}

#[test]
fn the_merge_buffer_is_read() {
    let g = f32s("g", &[3]);
    let assignments = parse("g[i] += g.merge[i]", std::slice::from_ref(&g)).unwrap();
    let mut machine = Machine::new(&assignments);
    assert_eq!(machine.merge, Some(g.clone()));
    machine.set(&g, &[1., 2., 3.]);
    machine.set_merge(DType::F32, &[10., 20., 30.]);
    machine.run(&[]);
    assert_eq!(machine.get(&g), [11., 22., 33.]);
}

#[test]
fn every_accumulation() {
    let (x, y) = (f32s("x", &[3]), f32s("y", &[]));
    let xs = [0.5, -2.0, 4.0];
    let of = |text: &str| run(text, &[(&x, &xs)], &y)[0];
    assert_eq!(of("y :+= x[i]"), 2.5);
    assert_eq!(of("y :-= x[i]"), -2.5);
    assert_eq!(of("y :*= x[i]"), -4.0);
    assert_eq!(of("y :/= x[i]"), -0.25);
    assert_eq!(of("y :max= x[i]"), 4.0);
    assert_eq!(of("y :min= x[i]"), -2.0);
    assert_eq!(of("y :or= x[i]"), 1.0);
    assert_eq!(of("y :and= x[i] > 0"), 0.0);
    assert_eq!(of("y := 3; y += x[i]"), 5.5);
    assert_eq!(of("y[] := 3\n y[] -= x[i]"), 0.5);
    assert_eq!(of("y := 2; y pow= 3"), 8.0);
    assert_eq!(of("y := 2; y relu_gate= 3"), 3.0);
    assert_eq!(of("y := 0.25; y max= x[i]"), 4.0);
}

#[test]
fn types_promote_and_numbers_adapt() {
    let (i, u, y) = (node("i", DType::I32, &[3]), node("u", DType::U8, &[3]), f32s("y", &[3]));
    let h = node("h", DType::F16, &[3]);
    let inputs: [(&TensorNode, &[f64]); 3] =
        [(&i, &[7., -7., 3.]), (&u, &[200., 100., 1.]), (&h, &[1., 2., 3.])];
    let of = |text: &str| run(text, &inputs, &y);
    assert_eq!(of("y[k] := i[k] / 2"), [3., -3., 1.], "integers divide as integers");
    assert_eq!(of("y[k] := i[k] / 2.0"), [3.5, -3.5, 1.5], "a fraction makes it a float");
    assert_eq!(of("y[k] := f32(i[k]) / 2"), [3.5, -3.5, 1.5]);
    assert_eq!(of("y[k] := u[k] + u[k]"), [144., 200., 2.], "bytes wrap");
    assert_eq!(of("y[k] := u[k] + i[k]"), [207., 93., 4.]);
    assert_eq!(
        of("y[k] := h[k] * 0.1 == 0.1"),
        [1., 0., 0.],
        "numbers are rounded to the other operand's type"
    );
    assert_eq!(of("y[k] := (i[k] > 0) + (u[k] > 150)"), [2., 0., 1.], "truths add up");
    assert_eq!(of("y[k] := 1 / 4"), [0.25; 3], "numbers alone have the type of the target");
    assert_eq!(of("y[k] := where(k < 1, 2*k + 5, -1)"), [5., -1., -1.]);
    assert_eq!(of("y[k] := where(i[k], h[k], 9)"), [1., 2., 3.]);
    assert_eq!(of("i[k] := 2.75; y[k] := i[k]"), [2.; 3], "what is stored is converted");
    assert_eq!(of("y[k] := fma(h[k], 2, 1)"), [3., 5., 7.]);
    assert_eq!(of("y[k] := not(i[k] - 3)"), [0., 0., 1.]);
    assert_eq!(of("y[k] := sqrt(16) + k"), [4., 5., 6.]);
    assert_eq!(of("y[k] := max(-inf, min(i[k], 5)) % 4"), [1., -3., 3.]);
    assert_eq!(of("y[k] := bit_xor(i[k], 1)"), [6., -8., 2.]);
}

#[test]
fn what_is_already_one_operation_needs_no_virtual_node() {
    let (a, b, y) = (f32s("a", &[3]), f32s("b", &[3]), f32s("y", &[3]));
    let nodes = [a, b, y];
    let virtual_nodes = |text: &str| {
        let assignments = parse(text, &nodes).unwrap_or_else(|error| panic!("{error}"));
        assignments.nodes().len() - nodes.len()
    };
    assert_eq!(virtual_nodes("y[i] := a[i] * b[i] "), 0);
    assert_eq!(virtual_nodes("y[i] := where(2*i < 3, 1, 2); y[i] := a[i]; y[i] += b[i]"), 1);
    assert_eq!(virtual_nodes("y[i] := fma(a[i], -2, b[i])"), 0);
    assert_eq!(virtual_nodes("y[i] := relu(a[i]*2 + b[i])"), 2);
}

#[test]
fn statements_may_be_broken_at_operators_and_in_brackets() {
    let (a, y) = (f32s("a", &[4]), f32s("y", &[4]));
    let text = "y[i] := a[i]
          + 2 *
          max(a[i],
              1)  # the rest
          where i < 2;; y[i] *= 2 where i < 2 // done
        ";
    assert_eq!(run(&format!("y[i] := 0\n{text}"), &[(&a, &[1., 2., 3., 4.])], &y), [6., 12., 0., 0.]);
}
