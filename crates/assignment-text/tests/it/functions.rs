//! Sizes, functions and repetitions: the statements to which programs expand, and the values of these.

use crate::program;

use assignment_text::{Program, parse};
use expect_test::{Expect, expect};
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use program::{Machine, f32s, values};
use tnode::{DType, TensorNode};

/// The expanded program. It prints as a program that expands to itself, and so does the program before.
fn expanded(text: &str) -> String {
    let read = |text: &str| Program::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let expand = |program: &Program| program.expand().unwrap_or_else(|error| panic!("{error}")).to_string();
    let program = read(text);
    let printed = program.to_string();
    assert_eq!(read(&printed).to_string(), printed);
    let found = expand(&program);
    assert_eq!(expand(&read(&printed)), found);
    assert_eq!(expand(&read(&found)), found);
    found
}

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&expanded(text));
}

const SOFTMAX: &str = "
    def softmax(x[..,k]) -> y[..,k] {
        m[..] :max= x[..,k]
        e[..,k] := exp(x[..,k] - m[..]); s[..] :+= e[..,k]
        y[..,k] := e[..,k] / s[..]
    }
";

#[test]
fn a_call_uses_the_nodes_of_the_caller() {
    check(
        &format!("{SOFTMAX} p[b,i] := softmax(x[b,i])"),
        expect![[r#"
            softmax.1.m[b] :max= x[b,k]
            softmax.1.e[b,k] := exp(x[b,k] - softmax.1.m[b])
            softmax.1.s[b] :+= softmax.1.e[b,k]
            p[b,k] := softmax.1.e[b,k] / softmax.1.s[b]
        "#]],
    );
}

#[test]
fn other_arguments_become_intermediates() {
    check(
        &format!("{SOFTMAX} p[h,j] := 2 * softmax(s[h,j] / 8)"),
        expect![[r#"
            softmax.1.x[h,j] := s[h,j] / 8
            softmax.1.m[h] :max= softmax.1.x[h,k]
            softmax.1.e[h,k] := exp(softmax.1.x[h,k] - softmax.1.m[h])
            softmax.1.s[h] :+= softmax.1.e[h,k]
            softmax.1.y[h,k] := softmax.1.e[h,k] / softmax.1.s[h]
            p[h,j] := 2 * softmax.1.y[h,j]
        "#]],
    );
    // The letter `k` of the caller is not the letter `k` of the function.
    check(
        &format!("{SOFTMAX} p[k,i] := softmax(x[k,i] * i)"),
        expect![[r#"
        softmax.1.x[k,i] := x[k,i] * i
        softmax.1.m[k1] :max= softmax.1.x[k1,k]
        softmax.1.e[k1,k] := exp(softmax.1.x[k1,k] - softmax.1.m[k1])
        softmax.1.s[k1] :+= softmax.1.e[k1,k]
        p[k1,k] := softmax.1.e[k1,k] / softmax.1.s[k1]
    "#]],
    );
    // A target that the argument reads, and one that is selected by a constraint.
    check(
        &format!("{SOFTMAX} x[b,i] := softmax(x[b,i]); y[i] := softmax(z[i]) where i < 3"),
        expect![[r#"
        softmax.1.m[b] :max= x[b,k]
        softmax.1.e[b,k] := exp(x[b,k] - softmax.1.m[b])
        softmax.1.s[b] :+= softmax.1.e[b,k]
        softmax.1.y[b,k] := softmax.1.e[b,k] / softmax.1.s[b]
        x[b,i] := softmax.1.y[b,i]
        softmax.2.x[i] := z[i] where i < 3
        softmax.2.m :max= softmax.2.x[k]
        softmax.2.e[k] := exp(softmax.2.x[k] - softmax.2.m[])
        softmax.2.s :+= softmax.2.e[k]
        softmax.2.y[k] := softmax.2.e[k] / softmax.2.s[]
        y[i] := softmax.2.y[i] where i < 3
    "#]],
    );
    // A part of a node is used where it is; a diagonal is not.
    check(
        "def total(x[..]) -> s[] { s :+= x[..] / size(..) }
         t := total(x[2,i,j]); t := total(x[i,i,@n]); t := total(i) + total(x[i,0,0]); q := total(t)",
        expect![[r#"
            t :+= x[2,i,j] / (size(i) * size(j))
            total.2.x[i] := x[i,i,@n]
            t :+= total.2.x[i] / size(i)
            total.3.x[i] := i
            total.3.s :+= total.3.x[i] / size(i)
            total.4.s :+= x[i,0,0] / size(i)
            t := total.3.s[] + total.4.s[]
            q :+= t[] / 1
        "#]],
    );
}

#[test]
fn calls_are_expanded_from_the_inside() {
    check(
        "def f(x[i]) -> y[i] { y[i] := g(x[i]) + 1 }
         def g(x[..]) -> z[..] { z[..] := 2 * x[..] }
         a[i] := f(g(b[i])); t :+= f(a[i]) * g(a[i]) + 0 * i",
        expect![[r#"
            g.1.z[i] := 2 * b[i]
            g.2.z[i] := 2 * g.1.z[i]
            a[i] := g.2.z[i] + 1
            g.3.z[i] := 2 * a[i]
            f.2.y[i] := g.3.z[i] + 1
            g.4.z[i] := 2 * a[i]
            t :+= f.2.y[i] * g.4.z[i] + 0 * i
        "#]],
    );
}

#[test]
fn results_have_the_letters_of_arguments_or_targets() {
    let conv = "def conv(x[b,c,h,w], f[o,c,i,j], stride = 1) -> y[b,o,h2,w2] {
                    y[b,o,h2,w2] :+= x[b, c, stride*h2 + i, stride*w2 + j] * f[o,c,i,j]
                }";
    check(
        &format!("{conv} y[b,o,u,v] := conv(x[b,c,i,j], f[o,c,p,q], 2)"),
        expect![[r#"
            y[b,o,h2,w2] :+= x[b,c,2*h2 + i,2*w2 + j] * f[o,c,i,j]
        "#]],
    );
    check(
        &format!("{conv} y[b,o,u] := relu(conv(x[b,c,i,j], f[o,c,p,q])[b, o, 2*u, 0])"),
        expect![[r#"
            conv.1.y[b,o,h2,w2] :+= x[b,c,1*h2 + i,1*w2 + j] * f[o,c,i,j]
            y[b,o,u] := relu(conv.1.y[b,o,2*u,0])
        "#]],
    );
    check(
        "def linear(x[..,i], w[i,o]) -> y[..,o] { y[..,o] :+= x[..,i] * w[i,o] }
         h[b,o] := linear(x[b,k], w[k,o]); t[o,b] := linear(x[b,k], w[k,o])",
        expect![[r#"
            h[b,o] :+= x[b,i] * w[i,o]
            t[o,b] :+= x[b,i] * w[i,o]
        "#]],
    );
}

#[test]
fn functions_write_parameters_and_several_results() {
    check(
        "def momentum(inout w[..], g[..], inout v[..], rate, mu = 0.9) {
             v[..] := mu * v[..] + g[..]
             w[..] -= rate * v[..]
         }
         momentum(w[i,j], g[i,j] / 2, v[i,j], 0.1)
         momentum(b[o], b[o], v2[o], r, mu = 0)
         momentum(s, s_grad, sv, @rate * 0.5)",
        expect![[r#"
            momentum.1.g[i,j] := g[i,j] / 2
            v[i,j] := 0.9 * v[i,j] + momentum.1.g[i,j]
            w[i,j] -= 0.1 * v[i,j]
            momentum.2.g[o] := b[o]
            v2[o] := 0 * v2[o] + momentum.2.g[o]
            b[o] -= r[] * v2[o]
            sv := 0.9 * sv[] + s_grad[]
            s -= @rate * 0.5 * sv[]
        "#]],
    );
    check(
        "def cell(x[b,u], h[b,u]) -> y[b,u], c[b,u] { c[b,u] := x[b,u] * h[b,u]; y[b,u] := tanh(c[b,u]) }
         h1[b,u], c1[b,u] := cell(x[b,u], h0[b,u])
         h[b,u], c[b,u] := cell(x[b,u], h[b,u])",
        expect![[r#"
            c1[b,u] := x[b,u] * h0[b,u]
            h1[b,u] := tanh(c1[b,u])
            c[b,u] := x[b,u] * h[b,u]
            cell.2.y[b,u] := tanh(c[b,u])
            h[b,u] := cell.2.y[b,u]
        "#]],
    );
}

#[test]
fn rows_are_named_and_letters_differ() {
    check(
        "def outer(x[..p..], y[..q..]) -> z[..p..,..q..] { z[..p..,..q..] := x[..p..] * y[..q..] }
         z[a,b,c] := outer(u[a,b], v[c])
         z[a,b,c,d] := outer(u[a,b], u[c,d])",
        expect![[r#"
            z[a,b,c] := u[a,b] * v[c]
            z[a,b,c,d] := u[a,b] * u[c,d]
        "#]],
    );
    check(
        "def dropout(x[..], seed, step, keep = 0.9) -> y[..] {
             y[..] := where(uniform(seed, step, ..) < keep, x[..] / keep, 0)
         }
         y[b,i] := dropout(x[b,i], 7, @step)",
        expect![[r#"
            y[b,i] := where(uniform(7, @step, b, i) < 0.9, x[b,i] / 0.9, 0)
        "#]],
    );
}

#[test]
fn sizes_are_numbers() {
    check(
        "size d = 6, half = d / 2
         y[i] := x[i + half] * d - size(i) where i < half
         y[half - 1] := d % 4
         y := uniform(d)
         def f(x[i]) -> y[i] { y[i] := x[i] * half }
         y[i] := f(x[d*i]) where i < d
         def g(x[i], half) -> y[i] { y[i] := x[i] * half where i < half }
         y[i] := g(x[i], 2)",
        expect![[r#"
            y[i] := x[i + 3] * 6 - size(i) where i < 3
            y[3 - 1] := 6 % 4
            y := uniform(6)
            f.1.x[i] := x[6*i] where i < 6
            f.1.y[i] := f.1.x[i] * 3
            y[i] := f.1.y[i] where i < 6
            y[i] := x[i] * 2 where i < 2
        "#]],
    );
}

#[test]
fn repetitions_are_unrolled() {
    check(
        "size layers = 2
         repeat l in 0..layers {
             h[l + 1][b,o] :+= h[l][b,i] * w[l][i,o]
             repeat k in l..2 { t[l,k][] := l * k }
         }
         repeat l in 3..3 { y := 1 }
         y[b,o] := h[layers][b,o]",
        expect![[r#"
            h.1[b,o] :+= h.0[b,i] * w.0[i,o]
            t.0.0 := 0 * 0
            t.0.1 := 0 * 1
            h.2[b,o] :+= h.1[b,i] * w.1[i,o]
            t.1.1 := 1 * 1
            y[b,o] := h.2[b,o]
        "#]],
    );
    check(
        "def mlp(x[..,i], n) -> y[..,i] {
             h[0][..,i] := x[..,i]
             repeat l in 0..n { h[l + 1][..,i] := relu(h[l][..,i]) }
             y[..,i] := h[n][..,i]
         }
         y[b,i] := mlp(x[b,i], 2)",
        expect![[r#"
            mlp.1.h.0[b,i] := x[b,i]
            mlp.1.h.1[b,i] := relu(mlp.1.h.0[b,i])
            mlp.1.h.2[b,i] := relu(mlp.1.h.1[b,i])
            y[b,i] := mlp.1.h.2[b,i]
        "#]],
    );
}

#[test]
fn expanded_programs_compute() {
    let (w, g, v) = (f32s("w", &[2, 3]), f32s("g", &[2, 3]), f32s("v", &[2, 3]));
    let text = "
        def momentum(inout w[..], g[..], inout v[..], rate, mu = 0.5) {
            v[..] := mu * v[..] + g[..]
            w[..] -= rate * v[..]
        }
        size steps
        repeat step in 0..steps { momentum(w[i,j], g[i,j], v[i,j], 0.25 * (step + 1)) }";
    let program = Program::parse(text).and_then(|program| program.bind("steps", 3));
    let nodes = [w.clone(), g.clone(), v.clone()];
    let assignments = program.and_then(|program| program.assignments(&nodes));
    let mut machine = Machine::new(&assignments.unwrap_or_else(|error| panic!("{error}")));
    let (mut ws, gs, mut vs) = (values(6, 1), values(6, 2), values(6, 3));
    for (node, values) in [(&w, &ws), (&g, &gs), (&v, &vs)] {
        machine.set(node, values);
    }
    machine.run(&[]);
    for step in 0..3 {
        for at in 0..6 {
            vs[at] = 0.5 * vs[at] + gs[at];
            ws[at] -= 0.25 * f64::from(step + 1) * vs[at];
        }
    }
    assert_eq!((machine.get(&w), machine.get(&v)), (ws, vs));
}

#[test]
fn families_are_nodes_with_numbers() {
    let family = |name: &str, at: &str| {
        let node = TensorNode::builder([name, at]).dims([2, 2]).dtype(DType::F32);
        node.build().expect("small")
    };
    let (w0, w1, y) = (family("w", "0"), family("w", "1"), f32s("y", &[2]));
    let text = "y[l] := 0 * l\n repeat l in 0..2 { y[l] += w[l][i,j] * size(j) }";
    let assignments = parse(text, &[w0.clone(), w1.clone(), y.clone()]);
    let mut machine = Machine::new(&assignments.unwrap_or_else(|error| panic!("{error}")));
    machine.set(&w0, &[1., 2., 3., 4.]);
    machine.set(&w1, &[5., 6., 7., 8.]);
    machine.run(&[]);
    assert_eq!(machine.get(&y), [20., 52.]);
}

/// Runs a program over `f32` inputs, as it is and optimized, and returns the values of `output`.
fn run(text: &str, inputs: &[(&TensorNode, &[f64])], output: &TensorNode) -> Vec<f64> {
    let mut nodes: Vec<TensorNode> = inputs.iter().map(|(node, _)| (*node).clone()).collect();
    nodes.push(output.clone());
    let assignments = parse(text, &nodes).unwrap_or_else(|error| panic!("{error}"));
    let mut machine = Machine::new(&assignments);
    let once = |machine: &mut Machine| {
        machine.clear();
        inputs.iter().for_each(|(node, values)| machine.set(node, values));
        machine.run(&[]);
        machine.get(output)
    };
    let found = once(&mut machine);
    let optimized = optimize(machine.lowered.routine.clone(), &OptimizeSettings::default());
    machine.lowered.routine = optimized.unwrap_or_else(|error| panic!("{error}")).routine;
    assert_close(&once(&mut machine), &found);
    found
}

fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{found} {expected}");
    }
}

fn softmax_of(row: &[f64]) -> Vec<f64> {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
    row.iter().map(|x| (x - max).exp() / sum).collect()
}

#[test]
fn attention_from_functions() {
    let text = format!(
        "{SOFTMAX}
         def attention(q[..,i,d], k[..,j,d], v[..,j,e], scale) -> y[..,i,e] {{
             s[..,i,j] :+= q[..,i,d] * k[..,j,d]
             p[..,i,j] := softmax(s[..,i,j] / scale)
             y[..,i,e] :+= p[..,i,j] * v[..,j,e]
         }}
         o[b,t,e] := attention(q[b,t,d], k[b,u,d], v[b,u,e], 2)"
    );
    let (batch, length, depth) = (2, 4, 3);
    let (q, k) = (f32s("q", &[batch, length, depth]), f32s("k", &[batch, length, depth]));
    let (v, o) = (f32s("v", &[batch, length, depth]), f32s("o", &[batch, length, depth]));
    let count = batch * length * depth;
    let (qs, ks, vs) = (values(count, 1), values(count, 2), values(count, 3));
    let found = run(&text, &[(&q, &qs), (&k, &ks), (&v, &vs)], &o);
    let at = |values: &[f64], b: usize, t: usize, d: usize| values[(b * length + t) * depth + d];
    let mut expected = Vec::new();
    for b in 0..batch {
        for t in 0..length {
            let dot = |u: usize| (0..depth).map(|d| at(&qs, b, t, d) * at(&ks, b, u, d)).sum::<f64>() / 2.0;
            let weights = softmax_of(&(0..length).map(dot).collect::<Vec<_>>());
            expected
                .extend((0..depth).map(|e| (0..length).map(|u| weights[u] * at(&vs, b, u, e)).sum::<f64>()));
        }
    }
    assert_close(&found, &expected);
}

#[test]
fn normalization_and_optimizers_from_functions() {
    let text = "
        def layer_norm(x[..,k], gain[k], bias[k], eps = 1e-5) -> y[..,k] {
            mean[..] :+= x[..,k] / size(k)
            var[..] :+= (x[..,k] - mean[..]) * (x[..,k] - mean[..]) / size(k)
            y[..,k] := gain[k] * (x[..,k] - mean[..]) * recip_sqrt(var[..] + eps) + bias[k]
        }
        y[b,i] := 2 * layer_norm(x[b,i] * 3, g[i], c[i], eps = 0.25)";
    let (x, g, c, y) = (f32s("x", &[3, 4]), f32s("g", &[4]), f32s("c", &[4]), f32s("y", &[3, 4]));
    let (xs, gs, cs) = (values(12, 1), values(4, 2), values(4, 3));
    let found = run(text, &[(&x, &xs), (&g, &gs), (&c, &cs)], &y);
    let mut expected = Vec::new();
    for row in xs.chunks(4) {
        let row: Vec<f64> = row.iter().map(|x| 3.0 * x).collect();
        let mean = row.iter().sum::<f64>() / 4.0;
        let var = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4.0;
        let scale = 1.0 / (var + 0.25).sqrt();
        expected.extend((0..4).map(|i| 2.0 * (gs[i] * (row[i] - mean) * scale + cs[i])));
    }
    assert_close(&found, &expected);

    // A function within a repetition writes members of families.
    let text = "
        def linear(x[..,i], w[i,o]) -> y[..,o] { y[..,o] :+= x[..,i] * w[i,o] }
        h[0][b,i] := x[b,i]
        repeat l in 0..3 { h[l + 1][b,o] := relu(linear(h[l][b,i], w[i,o])) }
        y[b,o] := h[3][b,o]";
    let w = f32s("w", &[4, 4]);
    let ws = values(16, 5);
    let found = run(text, &[(&x, &xs), (&w, &ws)], &y);
    let mut h = xs;
    for _ in 0..3 {
        let layer = |row: &[f64], o: usize| (0..4).map(|i| row[i] * ws[4 * i + o]).sum::<f64>().max(0.0);
        h = h.chunks(4).flat_map(|row| (0..4).map(|o| layer(row, o)).collect::<Vec<_>>()).collect();
    }
    assert_close(&found, &h);
}

/// The nodes of a family have sizes and slices like other nodes, in functions too.
#[test]
fn sizes_and_slices_of_members_of_a_family() {
    check(
        "size d = 3
         repeat l in 0..2 { param w[l] f32[d + l, 2] }
         def scaled(x[i]) -> y[i] { repeat l in 0..2 { h[l][i] := x[i] / size(h[l], 0) }; y[i] := h[0][i] + h[1][i] }
         row := slice(w[0], @b)
         repeat l in 0..2 { z[l][i] := w[l][i,0] * size(w[l], 1) where i < size(w[l], 0) - 1 }
         s[i] := scaled(row[i])
         keep z[0], z[1], s",
        expect![[r#"
            param w.0 f32[3,2]
            param w.1 f32[4,2]
            row := slice(w.0, @b)
            z.0[i] := w.0[i,0] * size(w.0, 1) where i < size(w.0, 0) - 1
            z.1[i] := w.1[i,0] * size(w.1, 1) where i < size(w.1, 0) - 1
            scaled.1.h.0[i] := row[i] / size(scaled.1.h.0, 0)
            scaled.1.h.1[i] := row[i] / size(scaled.1.h.1, 0)
            s[i] := scaled.1.h.0[i] + scaled.1.h.1[i]
            keep z.0
            keep z.1
            keep s
        "#]],
    );
}

#[test]
fn errors_about_sizes_of_families() {
    let error = |text: &str, expected: Expect| {
        let error = parse(text, &[f32s("w", &[4, 2])]).map(|_| ()).expect_err("rejected");
        expected.assert_eq(&error.to_string());
    };
    error(
        "y := size(w[l], 0); keep y",
        expect![[r#"
        line 1, column 13: `l` has no known value, but these brackets select a node of a family, as in `w[2]` and `w[2][i,j]`; the indices of one node stand in one pair of brackets
        1 | y := size(w[l], 0); keep y
          |             ^"#]],
    );
    error(
        "y := size(w[0], 0); keep y",
        expect![[r#"
        line 1, column 6: unknown node `w.0`; expected w
        1 | y := size(w[0], 0); keep y
          |      ^^^^^^^^^^^^^"#]],
    );
    error(
        "y := size(w[0]); keep y",
        expect![[r#"
        line 1, column 15: expected `,` and the number of an axis, found `)`
        1 | y := size(w[0]); keep y
          |               ^"#]],
    );
    error(
        "repeat l in 0..2 { y := slice(w[l - 1], @b) }",
        expect![[r#"
            line 1, column 33: nodes of the family `w` are numbered from 0, found -1
            1 | repeat l in 0..2 { y := slice(w[l - 1], @b) }
              |                                 ^^^^^
            for `l` = 0, line 1, column 1
            1 | repeat l in 0..2 { y := slice(w[l - 1], @b) }
              | ^^^^^^^^^^^^^^^^"#]],
    );
}

#[test]
fn letters_of_the_caller_differ_from_the_names_of_functions() {
    // A scalar parameter, a letter of a repetition, and nodes of the functions have the names of letters.
    check(
        "def add(x[..], t) -> y[..] {
            repeat l in 1..2 { u[l][..] := x[..] * l + t }
            a := 2
            y[..] := u[1][..] * a
         }
         def twice(x[..], t, u) -> y[..] { y[..] := add(x[..], t) + add(t * x[..], u) }
         z[t,l,u,a] := twice(x[t,l,u,a], 3, 4)",
        expect![[r#"
            add.1.u.1[t1,l1,u1,a1] := x[t1,l1,u1,a1] * 1 + 3
            add.1.a := 2
            add.1.y[t1,l1,u1,a1] := add.1.u.1[t1,l1,u1,a1] * add.1.a[]
            add.2.x[t1,l,u1,a] := 3 * x[t1,l,u1,a]
            add.2.u.1[t1,l1,u1,a1] := add.2.x[t1,l1,u1,a1] * 1 + 4
            add.2.a := 2
            add.2.y[t1,l1,u1,a1] := add.2.u.1[t1,l1,u1,a1] * add.2.a[]
            z[t1,l,u1,a] := add.1.y[t1,l,u1,a] + add.2.y[t1,l,u1,a]
        "#]],
    );
    // A letter with the name of a size of the program, which the function called reads.
    check(
        "size n = 3
         def scaled(x[..]) -> y[..] { y[..] := x[..] * n }
         def rows(x[..,n]) -> y[..,n] { y[..,n] := scaled(x[..,n]) }
         z[i,j] := rows(x[i,j])",
        expect![[r#"
            z[i,n1] := x[i,n1] * 3
        "#]],
    );
    check(
        "def low(x[..]) -> y[..] { y[..] := max(x[..], -inf) }
         z[inf] := low(x[inf])",
        expect![[r#"
            z[inf1] := max(x[inf1], -inf)
        "#]],
    );
}

#[test]
fn sizes_in_scalar_arguments_are_those_of_the_caller() {
    check(
        "def mean(x[..,i], n = size(i)) -> y[..] { y[..] :+= x[..,i] / n }
         def all(x[..], n = size(..)) -> y[] { y := n; y += x[..] }
         def nested(x[k,..], n = 2, m = n) -> y[k] { y[k] := mean(x[k,..], m * size(..)) }
         a[i] := mean(2 * x[i,j], size(i))
         b[i] := mean(x[i,j], size(i))
         c[i] := mean(x[i,j])
         d := all(x[i,j])
         e[i] := nested(x[i,j])",
        expect![[r#"
            mean.1.x[i,j] := 2 * x[i,j]
            a[i1] :+= mean.1.x[i1,i] / size(mean.1.x, 0)
            b[i1] :+= x[i1,i] / size(x, 0)
            c[i1] :+= x[i1,i] / size(x, 1)
            d := size(x, 0) * size(x, 1)
            d += x[i,j]
            e[k] :+= x[k,i] / (2 * size(x, 1))
        "#]],
    );
    let error = parse(
        "def mean(x[..,i], n) -> y[..] { y[..] :+= x[..,i] / n }
         y[j] := mean(x[j,k], size(i)) * z[i]",
        &[f32s("x", &[4, 6]), f32s("y", &[4]), f32s("z", &[4])],
    );
    expect![[r#"
        line 2, column 31: parameter `n` of function `mean` has the size of the letter `i`, which no argument has; expected the size of an axis, as in `size(x, 0)`
        2 |          y[j] := mean(x[j,k], size(i)) * z[i]
          |                               ^^^^^^^"#]].assert_eq(&error.map(|_| ()).expect_err("rejected").to_string());
}

#[test]
fn nodes_of_a_function_differ_from_those_of_the_program() {
    check(
        "def twice(x[..]) -> y[..] { z[..] := x[..]; y[..] := z[..] * 2 }
         twice.1.z[i] := x[i]
         param twice.3.y f32[8]
         y[i] := twice(x[i]) + twice(twice.1.z[i]) + twice.3.y[i]",
        expect![[r#"
            param twice.3.y f32[8]
            twice.1.z[i] := x[i]
            twice.2.z[i] := x[i]
            twice.2.y[i] := twice.2.z[i] * 2
            twice.4.z[i] := twice.1.z[i]
            twice.4.y[i] := twice.4.z[i] * 2
            y[i] := twice.2.y[i] + twice.4.y[i] + twice.3.y[i]
        "#]],
    );
}
