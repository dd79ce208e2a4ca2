//! Scans over time: their values are those of the same repetition, bit for bit, on every backend of the host,
//! and their code does not grow with the number of steps.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::fmt::Write;

use arrayjit::{Backend, Settings, settings::NumericClass};
use lowered_ir::ir::walk;
use random_programs::{Choices, bytes_of_seed, effort::seeds};

/// Programs with `LOOP` in the place of `scan` or `repeat`, each with the nodes whose values count. Lines
/// with `FILL` are for `repeat` alone.
const PROGRAMS: [(&str, &[&str], &str); 9] = [
    (
        "a recurrent network",
        &["h"],
        "param x f32[6,4,16] := normal(1), w f32[16,24] := normal(2) * 0.2, u f32[24,24] := normal(3) * 0.2
         node h f32[7,4,24]
         FILL h[s,b,j] := 0
         h[0,b,j] := 0
         LOOP t in 0..6 {
             a[b,j] :+= x[t,b,i] * w[i,j]
             r[b,j] :+= h[t,b,i] * u[i,j]
             h[t + 1, b, j] := tanh(a[b,j] + r[b,j])
         }
         keep h",
    ),
    (
        "a long short-term memory",
        &["h", "c", "sum"],
        "size d = 16
         param x f32[5,3,d] := normal(1), w f32[d,4,d] := normal(2) * 0.2, u f32[d,4,d] := normal(3) * 0.2
         h[b,j] := 0 where b < 3, j < d
         c[b,j] := 0 where b < 3, j < d
         sum[b,j] := 0 where b < 3, j < d
         LOOP t in 0..5 {
             g[b,k,j] :+= x[t,b,i] * w[i,k,j]
             g[b,k,j] += h[b,i] * u[i,k,j]
             c[b,j] := sigmoid(g[b,1,j]) * c[b,j] + sigmoid(g[b,0,j]) * tanh(g[b,2,j])
             h[b,j] := sigmoid(g[b,3,j]) * tanh(c[b,j])
             sum[b,j] += h[b,j] * h[b,j]
         }
         keep h, c, sum",
    ),
    (
        "a wave equation",
        &["u", "seen"],
        "param v f32[12,20] := uniform(1) * 0.3
         node u f32[12,20], old f32[12,20], seen f32[9]
         u[i,j] := normal(2, i, j)
         old[i,j] := u[i,j]
         FILL seen[i] := 0
         LOOP t in 0..9 {
             l[i,j] := pad(u, 0)[i - 1, j] + pad(u, 0)[i + 1, j] + pad(u, 0)[i, j - 1] + pad(u, 0)[i, j + 1] - 4 * u[i,j]
             new[i,j] := 2 * u[i,j] - old[i,j] + v[i,j] * l[i,j]
             old[i,j] := u[i,j]
             u[i,j] := new[i,j]
             seen[t] := u[3, 4 + t]
         }
         keep u, seen",
    ),
    (
        "a loop that goes backwards",
        &["y"],
        "param x f32[8,10] := normal(1)
         node y f32[9,10]
         FILL y[s,i] := 0
         y[8,i] := 0
         LOOP t in 0..8 { y[7 - t, i] := 0.5 * y[8 - t, i] + x[7 - t, i] }
         keep y",
    ),
    (
        "bounds, values and random numbers of the letter",
        &["y", "z"],
        "param x f32[9,9] := normal(1)
         node y f32[9,9], z f32[9]
         y[i,j] := 0
         z[i] := 0
         LOOP t in 0..9 {
             s[i] :+= x[i,k] where k <= t
             y[t,i] += s[i] * f32(t) + uniform(7, t, i) * normal(8, t)
             z[j] += y[t,j] where j <= t
         }
         keep y, z",
    ),
    (
        "functions and a repetition",
        &["y"],
        "param x f32[4,3,10] := normal(1), w f32[10,10] := normal(2) * 0.3
         node y f32[5,3,10]
         def cell(h[..,i], x[..,i], w[i,j]) -> y[..,j] {
             s[..,j] :+= h[..,i] * w[i,j]
             y[..,j] := softmax(s[..,j] + x[..,j])
         }
         FILL y[s,b,i] := 0
         y[0,b,i] := 0.1
         LOOP t in 0..4 {
             p[0][b,i] := y[t,b,i]
             repeat l in 0..2 { p[l + 1][b,j] := cell(p[l][b,i], x[t,b,i], w[i,j]) }
             y[t + 1, b, i] := p[2][b,i]
         }
         keep y",
    ),
    (
        "loops in loops",
        &["y", "n"],
        "param x f32[4,5,6] := normal(1)
         y[i] := 0 where i < 6
         n := 0
         LOOP t in 0..4 {
             s[i] := 0 where i < 6
             LOOP k in 0..5 {
                 s[i] := s[i] * 0.5 + x[t,k,i]
                 n := n + t * k
             }
             y[i] := tanh(y[i] + s[i])
         }
         keep y, n",
    ),
    (
        "the gradient of a recurrent network",
        &["loss", "w.grad", "u.grad"],
        "param x f32[4,3,6] := normal(1), w f32[6,8] := normal(2) * 0.4, u f32[8,8] := normal(3) * 0.4
         h[b,j] := 0 where b < 3, j < 8
         LOOP t in 0..4 {
             a[b,j] :+= x[t,b,i] * w[i,j]
             a[b,j] += h[b,i] * u[i,j]
             h[b,j] := tanh(a[b,j]) * (1 + 0.1 * t) + 0.01 * uniform(5, t, b, j)
         }
         loss :+= h[b,j] * h[b,j]
         grad loss by w, u
         keep loss, w.grad, u.grad",
    ),
    (
        "gathers, scatters and integers",
        &["count", "picked"],
        "param ids i32[6,4] := 2, table f32[8,5] := normal(1)
         node count i32[8], picked f32[6,5]
         count[k] := 0
         picked[t,i] := 0
         LOOP t in 0..6 {
             count[ids[t,b] + t] += 1 + b
             picked[t,i] += table[ids[t,b] + t, i]
         }
         keep count, picked",
    ),
];

/// The values of nodes after a run.
pub(crate) fn values(backend: &Backend, text: &str, nodes: &[&str]) -> Vec<Vec<u64>> {
    let compiled = backend.compile(text, [] as [&arrayjit::TensorNode; 0]);
    let compiled = compiled.unwrap_or_else(|error| panic!("{text}\n{error}"));
    let context = backend.initialize(&compiled, &backend.context().unwrap()).unwrap();
    let linked = compiled.link(&context).unwrap_or_else(|error| panic!("{text}\n{error}"));
    linked.run(&[]).unwrap();
    let bits = |node: &&str| {
        let values = linked.context().to_host(compiled.node(node).unwrap()).unwrap().values();
        values.into_iter().map(f64::to_bits).collect()
    };
    nodes.iter().map(bits).collect()
}

pub(crate) fn backends() -> Vec<(String, Backend)> {
    let mut backends = Vec::new();
    for name in ["interpreter", "inline"] {
        for numerics in [NumericClass::Fast, NumericClass::Strict] {
            let mut settings = Settings::default();
            settings.numerics = numerics;
            let backend = Backend::open_with(name, &settings).unwrap();
            backends.push((format!("{name}, {numerics:?}"), backend));
        }
    }
    backends
}

/// The text with scans, whose arrays need no values but those that the steps give them.
pub(crate) fn as_scan(text: &str) -> String {
    text.lines()
        .filter(|line| !line.contains("FILL"))
        .map(|line| line.replace("LOOP", "scan") + "\n")
        .collect()
}

fn check(what: &str, text: &str, nodes: &[&str]) {
    for (name, backend) in backends() {
        let repeated = values(&backend, &text.replace("LOOP", "repeat").replace("FILL ", ""), nodes);
        assert!(repeated.iter().flatten().any(|&bits| bits != 0), "{what}: {repeated:?}");
        let scanned = values(&backend, &as_scan(text), nodes);
        assert_eq!(scanned, repeated, "{what} on {name}\n{text}");
    }
}

#[test]
fn scans_have_the_bits_of_repetitions() {
    for (what, nodes, text) in PROGRAMS {
        check(what, text, nodes);
    }
}

/// A loop over some of: a carried array with an axis for the steps, a carried node, nodes of one step,
/// products, reductions, stencils and bounds.
pub(crate) fn random_program(choices: &mut Choices<'_>) -> String {
    let (steps, d) = (1 + choices.below(5), 1 + choices.below(40));
    let mut text = format!(
        "param x f32[{steps},{d}] := normal(1), w f32[{d},{d}] := normal(2) * 0.3
         node h f32[{steps} + 1, {d}], y f32[{steps},{d}]
         FILL h[t,i] := 0\n h[0,i] := 0.1\n y[t,i] := 0.2\n c[i] := x[0,i] * y[0,i]\n LOOP t in 0..{steps} {{\n"
    );
    let mut known = vec!["h[t,i]", "c[i]", "x[t,i]", "y[t,i]"];
    let names = [("p", "p[i]"), ("q", "q[i]"), ("r", "r[i]"), ("s", "s[i]")];
    for (name, read) in names.into_iter().take(1 + choices.below(4)) {
        let (a, b) = (*choices.pick(&known), *choices.pick(&known));
        let (k, over) = (a.replace('i', "k"), ["", " where k <= i", " where k <= t"]);
        let over = if d < 5 { "" } else { *choices.pick(&over) };
        let statement = match choices.below(6) {
            0 => format!("{name}[i] :+= {k} * w[k,i]{over}"),
            1 => format!("{name}[i] :max= {k} * w[i,k]{over}"),
            2 => format!("{name}[i] := {a} * {b} + tanh({a})"),
            3 => format!("{name}[i] := where({a} > {b}, {a}, 0.5 * t)"),
            4 => format!("{name}[i] := {a} / (1 + abs({b})) + uniform(3, t, i)"),
            _ => format!("{name}[i] :+= {k} where k <= i, i < {d}"),
        };
        let _ = writeln!(text, "{statement}");
        known.push(read);
    }
    let all = known[4..].join(" + ");
    for (target, rest) in [("c[i]", "c[i]"), ("y[t,i]", "c[i]"), ("h[t + 1, i]", all.as_str())] {
        if target.starts_with('h') || choices.chance(2, 3) {
            let (a, b) = (*choices.pick(&known), *choices.pick(&known));
            let _ = writeln!(text, "{target} := 0.5 * {a} - 0.25 * {b} + 0.1 * ({rest})");
        }
    }
    text + "}\n z[i] := c[i] + h[0,i]\n keep h, y, c, z"
}

#[test]
fn random_scans_have_the_bits_of_repetitions() {
    for seed in seeds(12) {
        let bytes = bytes_of_seed(seed, 60);
        check(&format!("seed {seed}"), &random_program(&mut Choices::new(&bytes)), &["h", "y", "c", "z"]);
    }
}

/// Steps with enough work are kernels of their own, which two threads divide.
#[test]
fn steps_on_two_threads_have_the_same_bits() {
    let text = "param x f32[6,64,160] := normal(1), w f32[160,160] := normal(2) * 0.1, u f32[160,160] := normal(3) * 0.1
        node h f32[7,64,160], m f32[64]
        FILL h[s,b,j] := 0
        h[0,b,j] := 0
        m[b] := 0
        scan t in 0..6 {
            a[b,j] :+= x[t,b,i] * w[i,j]
            r[b,j] :+= h[t,b,i] * u[i,j]
            h[t + 1, b, j] := tanh(a[b,j] + r[b,j] + m[63 - b])
            m[b] := 0.5 * m[b] + h[t + 1, b, 0]
        }
        loss :+= h[6,b,j] * h[6,b,j]
        grad loss by w, u
        keep h, m, loss, w.grad, u.grad";
    let nodes = ["h", "m", "loss", "w.grad", "u.grad"];
    let repeated = text.replace("scan", "repeat").replace("FILL ", "");
    let on = |name: &str, threads: usize, text: &str| {
        let mut settings = Settings::default();
        (settings.threads, settings.numerics) = (threads, NumericClass::Strict);
        let backend = Backend::open_with(name, &settings).unwrap();
        let compiled = backend.compile(text, [] as [&arrayjit::TensorNode; 0]).unwrap();
        let calls = compiled.codes().map(|code| code.schedule().calls().len()).sum::<usize>();
        (values(&backend, text, &nodes), calls)
    };
    let (expected, _) = on("inline", 1, &repeated);
    for (name, threads) in [("inline", 1), ("multicore", 2)] {
        let (found, calls) = on(name, threads, &as_scan(text));
        assert!(found == expected, "{name}");
        assert!(calls > 4 * 6, "{calls} calls of six steps forwards and backwards");
    }
}

/// Twenty or two thousand steps are the same statements.
#[test]
fn the_code_of_a_scan_does_not_grow_with_its_steps() {
    let statements = |steps: usize| {
        let text = as_scan(PROGRAMS[1].2).replace("0..5", &format!("0..{steps}"));
        let text = text.replace("f32[5,3,d]", &format!("f32[{steps},3,d]"));
        let compiled = Backend::open("inline").unwrap().compile(&text, [] as [&arrayjit::TensorNode; 0]);
        let compiled = compiled.unwrap();
        let kernels = compiled.codes().flat_map(|code| code.schedule().kernels());
        kernels.map(|kernel| walk::stmts(&kernel.ir().body).count()).sum::<usize>()
    };
    // The product that all steps have in common may be a kernel of its own.
    assert!(statements(20).abs_diff(statements(2000)) < 8);
}
