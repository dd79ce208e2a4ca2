//! Scans that end early: their values and gradients are those of the steps before the end.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit::Backend;
use random_programs::{Choices, bytes_of_seed, effort::seeds};

use crate::recurrences::{backends, random_program, values};
use crate::scan_gradients::compare;

/// Programs with `LOOP` in the place of a scan's head, and `ONLY` before what a condition needs; each with
/// its steps, its condition and the nodes whose values count, the first of which counts the steps.
const PROGRAMS: [(&str, usize, &str, &[&str], &str); 4] = [
    (
        "iterations of Newton's method",
        12,
        "error > 1e-3",
        &["n", "x", "error"],
        "param a f32[5] := uniform(1) + 0.5
         x[i] := a[i]
         n := 0
         ONLY error := 1
         LOOP {
             y[i] := 0.5 * (x[i] + a[i] / x[i])
             error :max= abs(y[i] - x[i])
             x[i] := y[i]
             n += 1
         }
         keep n, x, error",
    ),
    (
        "the gradient of a recurrent network with an axis for the steps",
        9,
        "total < 12.5",
        &["n", "h", "total", "w.grad", "x.grad"],
        "param x f32[9,4,16] := normal(1), w f32[16,16] := normal(2) * 0.2
         node h f32[10,4,16]
         h[s,b,j] := 0
         n := 0
         total := 0
         LOOP {
             a[b,j] :+= h[t,b,i] * w[i,j]
             h[t + 1,b,j] := tanh(a[b,j] + x[t,b,j])
             total += h[t + 1,b,j] * h[t + 1,b,j] * 0.1
             n += 1
         }
         grad total by w, x
         keep n, h, total, w.grad, x.grad",
    ),
    (
        "scatters, sums with an axis for the steps, detached values and a loop in the loop",
        7,
        "and(n < 4, sum < 1000)",
        &["n", "count", "y", "sum", "v", "x.grad"],
        "param ids i32[7,4] := 2, x f32[7,8] := normal(1)
         node count i32[12], y f32[7,3], sum f32, v f32[8]
         count[k] := 0
         y[s,k] := 1
         sum := 0
         n := 0
         v[i] := x[0,i]
         LOOP {
             count[ids[t,b] + t] += 1 + b
             y[t,k] += x[t,i] * x[t,i + k] where i < 4
             d[i] := v[i] * 0.5
             detach d
             scan s in 0..2 { v[i] := 0.5 * v[i] + d[i] * x[t,i] }
             sum += y[t,k]
             sum += v[i] * v[i]
             n += 1
         }
         grad sum by x
         keep n, count, y, sum, v, x.grad",
    ),
    (
        "functions and values of the letter",
        6,
        "t < 3",
        &["n", "z", "last"],
        "param w f32[10,10] := normal(2) * 0.3
         z[i] := 0.1 where i < 10
         ONLY last[i] := 0 where i < 10
         n := 0
         LOOP {
             s[j] :+= z[i] * w[i,j]
             last[j] := softmax(s[j])
             z[j] := last[j] + 0.1 * t
             n += 1
         }
         keep n, z, last",
    ),
];

#[test]
fn scans_that_end_early_have_the_values_of_the_steps_before() {
    for (what, steps, condition, nodes, text) in PROGRAMS {
        for (name, backend) in backends() {
            let ended =
                text.replace("ONLY ", "").replace("LOOP", &format!("scan t in 0..{steps} while {condition}"));
            let ended = values(&backend, &ended, nodes);
            let done = f64::from_bits(ended[0][0]) as usize;
            assert!((1..steps).contains(&done), "{what}: {done} of {steps} steps");
            let lines = text.lines().filter(|line| !line.contains("ONLY")).map(|line| format!("{line}\n"));
            let whole = lines.collect::<String>().replace("LOOP", &format!("scan t in 0..{done}"));
            let compared = compare(&name, [&ended, &values(&backend, &whole, nodes)]);
            compared.unwrap_or_else(|why| panic!("{what} on {name}: {why}"));
        }
    }
}

/// So many steps would take days.
#[test]
fn steps_behind_the_end_take_no_time() {
    let text = "param w f32[16,16] := normal(1) * 0.3
        x[i] := 1 where i < 16
        n := 0
        scan t in 0..1099511627776 while n < 10 {
            s[j] :+= x[i] * w[i,j]
            x[j] := tanh(s[j])
            n += 1
        }
        keep n, x";
    let whole = text.replace("0..1099511627776 while n < 10", "0..10");
    for name in ["interpreter", "inline", "multicore"] {
        let backend = Backend::open(name).unwrap();
        let [ended, whole] = [text, &whole].map(|text| values(&backend, text, &["n", "x"]));
        assert_eq!(ended, whole, "{name}");
    }
}

#[test]
fn a_scan_whose_condition_is_false_at_first_changes_nothing() {
    let backend = Backend::open("inline").unwrap();
    let text = "x[i] := 3 where i < 4
        n := 0
        low :min= x[i]
        scan t in 0..5 while low < 2 {
            x[i] := x[i] - 1
            low :min= x[i]
            n += 1
        }
        keep x, n";
    let three = 3f64.to_bits();
    assert_eq!(values(&backend, text, &["n", "x"]), [vec![0], vec![three; 4]]);
}

#[test]
fn conditions_and_nodes_that_do_not_fit_are_errors() {
    let backend = Backend::open("inline").unwrap();
    let error = |text: &str| {
        backend.compile(text, [] as [&arrayjit::TensorNode; 0]).map(|_| ()).unwrap_err().to_string()
    };
    let of = |head: &str, body: &str| {
        error(&format!("x[i] := 1 where i < 3\n c := 1\n {head} {{ {body} }}\n keep x"))
    };
    let letter = of("scan t in 0..4 while x[i]", "x[i] := x[i] * 0.5");
    assert!(
        letter.contains("the condition of a scan has letter i; expected a value without axes"),
        "{letter}"
    );
    let call = of("scan t in 0..4 while gelu(c)", "x[i] := x[i] * 0.5");
    assert!(call.contains("the condition of a scan calls gelu; expected a node"), "{call}");
    let open = error("c := 1\n scan t in 0..4 while c < 3 { h[i] := c where i < 3\n c += 1 }\n keep h");
    let fill = "node h has no values where steps behind the end of a scan would write it; \
                expected a fill before the scan, such as `h[i] := 0`";
    assert!(open.contains(fill), "{open}");
}

#[test]
fn random_scans_that_end_early_have_the_values_of_the_steps_before() {
    for seed in seeds(12) {
        let bytes = bytes_of_seed(seed, 60);
        let text = random_program(&mut Choices::new(&bytes)).replace("FILL ", "");
        let (_, rest) = text.split_once("LOOP t in 0..").unwrap();
        let steps: usize = rest.split_once(' ').unwrap().0.parse().unwrap();
        let (nodes, done) = (["h", "y", "c", "z"], steps.div_ceil(2));
        for (name, backend) in backends() {
            let ended =
                text.replace("LOOP t in", "scan t in").replace(" {\n", &format!(" while t < {done} {{\n"));
            let whole = text.replace(&format!("LOOP t in 0..{steps}"), &format!("scan t in 0..{done}"));
            let ended = values(&backend, &ended, &nodes);
            let compared = compare(&name, [&ended, &values(&backend, &whole, &nodes)]);
            compared.unwrap_or_else(|why| panic!("seed {seed} on {name}: {why}\n{text}"));
        }
    }
}

/// An array with an axis for the steps has all values, so the statements that compute it do not run again.
#[test]
fn gradients_with_checkpoints_end_early_too() {
    let text = "param x f64[3] := normal(1)
        node h f64[9,3]
        h[t,i] := 0.4
        c[i] := x[i]
        n := 0
        scan t in 0..8 while n < 5 {
            h[t + 1,i] := 0.5 * h[t,i] + sin(c[i]) * x[i]
            c[i] := tanh(c[i] + h[t,i])
            n += 1
        }
        loss :+= h[t,i] * c[i]
        grad loss by x
        keep loss, x.grad";
    for (name, backend) in backends() {
        let nodes = ["loss", "x.grad"];
        let whole = values(&backend, text, &nodes);
        for every in [1, 2, 4] {
            let divided = text.replace("n < 5", &format!("n < 5 checkpoint every {every}"));
            assert_eq!(values(&backend, &divided, &nodes), whole, "{every} on {name}");
        }
    }
}
