//! The gradient of a scan is a scan in the other direction. Its values are those of the gradient of the same
//! repetition, bit for bit but for the signs of zeros, and its code does not grow with the number of steps.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit::{Backend, Settings, WarningKind};
use lowered_ir::ir::walk;
use random_programs::{Choices, bytes_of_seed, effort::seeds};

use crate::recurrences::{as_scan, backends, random_program, values};

/// Programs with `LOOP` in the place of `scan` or `repeat`, each with the nodes whose values count. Lines
/// with `FILL` are for `repeat` alone.
const PROGRAMS: [(&str, &[&str], &str); 13] = [
    (
        "an array with an axis for the steps",
        &["loss", "w.grad", "u.grad", "x.grad"],
        "param x f32[6,4,16] := normal(1), w f32[16,24] := normal(2) * 0.2, u f32[24,24] := normal(3) * 0.2
         node h f32[7,4,24]
         FILL h[s,b,j] := 0
         h[0,b,j] := 0
         LOOP t in 0..6 {
             a[b,j] :+= x[t,b,i] * w[i,j]
             r[b,j] :+= h[t,b,i] * u[i,j]
             h[t + 1, b, j] := tanh(a[b,j] + r[b,j])
         }
         loss :+= h[6,b,j] * h[6,b,j]
         grad loss by w, u, x
         keep loss, w.grad, u.grad, x.grad",
    ),
    (
        "nodes that each step overwrites",
        &["loss", "x.grad", "w.grad", "u.grad", "h0.grad"],
        "size d = 16
         param x f32[5,3,d] := normal(1), w f32[d,4,d] := normal(2) * 0.2, u f32[d,4,d] := normal(3) * 0.2
         param h0 f32[3,d] := normal(4)
         h[b,j] := h0[b,j]
         c[b,j] := 0 where b < 3, j < d
         LOOP t in 0..5 {
             g[b,k,j] :+= x[t,b,i] * w[i,k,j]
             g[b,k,j] += h[b,i] * u[i,k,j]
             c[b,j] := sigmoid(g[b,1,j]) * c[b,j] + sigmoid(g[b,0,j]) * tanh(g[b,2,j])
             h[b,j] := sigmoid(g[b,3,j]) * tanh(c[b,j])
         }
         loss :+= h[b,j] * h[b,j]
         grad loss by x, w, u, h0
         keep loss, x.grad, w.grad, u.grad, h0.grad",
    ),
    (
        "the misfit of a wave by its velocity",
        &["loss", "v.grad", "start.grad"],
        "param v f32[12,20] := uniform(1) * 0.3, start f32[12,20] := normal(2), seen f32[9,12] := normal(3)
         node u f32[12,20], old f32[12,20]
         u[i,j] := start[i,j]
         old[i,j] := u[i,j]
         loss := 0
         LOOP t in 0..9 {
             l[i,j] := pad(u, 0)[i - 1, j] + pad(u, 0)[i + 1, j] + pad(u, 0)[i, j - 1] + pad(u, 0)[i, j + 1] - 4 * u[i,j]
             new[i,j] := 2 * u[i,j] - old[i,j] + v[i,j] * l[i,j]
             old[i,j] := u[i,j]
             u[i,j] := new[i,j]
             miss[i] := u[i,10] - seen[t,i]
             loss += miss[i] * miss[i]
         }
         grad loss by v, start
         keep loss, v.grad, start.grad",
    ),
    (
        "a loop that goes backwards",
        &["loss", "x.grad"],
        "param x f32[8,10] := normal(1)
         node y f32[9,10]
         FILL y[s,i] := 0
         y[8,i] := 0
         LOOP t in 0..8 { y[7 - t, i] := 0.5 * y[8 - t, i] * x[7 - t, i] + x[7 - t, i] }
         loss :+= y[t,i] * y[t,i]
         grad loss by x
         keep loss, x.grad",
    ),
    (
        "bounds and values of the letter",
        &["loss", "x.grad"],
        "param x f32[9,9] := normal(1)
         node y f32[9,9], z f32[9]
         y[i,j] := 0
         z[i] := 0
         LOOP t in 0..9 {
             s[i] :+= x[i,k] * x[i,k] where k <= t
             y[t,i] += s[i] * f32(t)
             z[j] += y[t,j] * z[j] + s[j] where j <= t
         }
         loss :+= z[j] * y[i,j]
         grad loss by x
         keep loss, x.grad",
    ),
    (
        "an attention to the steps before",
        &["loss", "x.grad", "w.grad"],
        "param x f32[7,6] := normal(1), w f32[6,6] := normal(2) * 0.4
         node h f32[8,6], score f32[8]
         h[s,i] := 0
         h[0,i] := x[0,i]
         LOOP t in 0..7 {
             q[j] :+= h[t,i] * w[i,j]
             score[s] :+= q[i] * h[s,i] where s <= t
             m[i] :+= tanh(score[s]) * h[s,i] where s <= t
             h[t + 1, i] := 0.5 * m[i] + x[t,i]
         }
         loss :+= h[7,i] * h[7,i]
         grad loss by x, w
         keep loss, x.grad, w.grad",
    ),
    (
        "greatest values with ties, and products",
        &["loss", "x.grad"],
        "param x f32[6,5] := normal(1)
         best[i] := 0 where i < 5
         all[i] := 1 where i < 5
         LOOP t in 0..6 {
             best[i] max= relu(x[t,i])
             top :max= relu(best[i])
             all[i] *= 1 + 0.1 * top * x[t,i]
             p :*= 1 + 0.1 * all[i]
             best[i] := best[i] * 0.9 + 0.01 * p
         }
         loss :+= best[i] * all[i]
         grad loss by x
         keep loss, x.grad",
    ),
    (
        "gathers and integers",
        &["loss", "table.grad"],
        "param ids i32[6,4] := 2, table f32[8,5] := normal(1)
         node count i32[8], sum f32[5], seen f32[8]
         count[k] := 0
         sum[i] := 1 where i < 5
         seen[k] := 0
         LOOP t in 0..6 {
             count[ids[t,b] + t] += 1 + b
             picked[b,i] := table[ids[t,b] + t, i]
             sum[i] := 0.5 * sum[i]
             sum[i] += picked[b,i] * picked[b,i]
             seen[ids[t,b]] += sum[i] * count[b + 2]
         }
         loss :+= sum[i] * sum[i]
         loss += seen[k] * seen[k]
         grad loss by table
         keep loss, table.grad",
    ),
    (
        "parts that are overwritten, detached values and values behind the loop",
        &["loss", "x.grad"],
        "param x f32[6,8] := normal(1)
         node y f32[8], z f32[8]
         y[i] := x[0,i]
         z[i] := 0
         LOOP t in 0..6 {
             y[t + 1] := y[t] * x[t,t]
             d[i] := z[i] * y[i]
             detach d
             z[i] := 0.1 * d[i] + x[t,i] * y[i]
             last[i] := tanh(y[i] * z[i])
             z[i] += 0.1 * last[i] * last[i]
         }
         loss :+= last[i] * z[i] * x[5,i]
         grad loss by x
         keep loss, x.grad",
    ),
    (
        "functions, normalization and updates behind the gradient",
        &["loss", "w"],
        "param x f32[4,3,10] := normal(1), w f32[10,10] := normal(2) * 0.3
         node y f32[5,3,10]
         def cell(h[..,i], x[..,i], w[i,j]) -> y[..,j] {
             s[..,j] :+= h[..,i] * w[i,j]
             y[..,j] := softmax(s[..,j] + x[..,j])
         }
         FILL y[s,b,i] := 0
         y[0,b,i] := 0.1
         LOOP t in 0..4 { y[t + 1, b, j] := cell(y[t,b,i], x[t,b,i], w[i,j]) }
         loss :+= y[4,b,i] * x[0,b,i]
         grad loss by w
         w[i,j] -= 0.1 * w.grad[i,j]
         keep loss, w",
    ),
    (
        "two scans, and inputs that change between them",
        &["loss", "x.grad"],
        "param x f32[5,7] := normal(1)
         node m f32[7]
         c[i] := x[0,i]
         m[i] := 0.3
         LOOP t in 0..5 { c[i] := tanh(c[i] * m[i] + x[t,i]) }
         m[i] := c[i]
         LOOP t in 0..5 { c[i] := sin(c[i] * m[i] + x[4 - t, i]) }
         m[i] := 2
         loss :+= c[i] * m[i]
         grad loss by x
         keep loss, x.grad",
    ),
    (
        "a gradient of a gradient",
        &["loss", "w.grad", "second", "x.grad"],
        "param x f32[6,4] := normal(1), w f32[4,4] := normal(2) * 0.4
         h[i] := 0 where i < 4
         LOOP t in 0..6 {
             s[j] :+= h[i] * w[i,j]
             h[j] := tanh(s[j] + x[t,j])
         }
         loss :+= h[j] * h[j]
         grad loss by w
         second :+= w.grad[i,j] * w.grad[i,j]
         grad second by x
         keep loss, w.grad, second, x.grad",
    ),
    (
        "loops in loops, and random numbers of the letter",
        &["loss", "x.grad"],
        "param x f32[4,5,6] := normal(1)
         y[i] := 0 where i < 6
         LOOP t in 0..4 {
             s[i] := 0 where i < 6
             LOOP k in 0..5 { s[i] := tanh(s[i] * 0.5 + x[t,k,i] * uniform(5, t, i)) }
             y[i] := tanh(y[i] + s[i])
         }
         loss :+= y[i] * y[i]
         grad loss by x
         keep loss, x.grad",
    ),
];

/// Compares two results: bit for bit but for the signs of zeros in class strict; in class fast, where a
/// statement of one form may be joined with other statements than in the other form, up to rounding.
pub(crate) fn compare(what: &str, [found, expected]: [&[Vec<u64>]; 2]) -> Result<(), String> {
    let is_equal = |found: f64, expected: f64| match what.contains("Strict") {
        true => found == expected || found.to_bits() == expected.to_bits(),
        false => (found - expected).abs() <= 2e-4 * (expected.abs() + 1.0),
    };
    for (node, (found, expected)) in found.iter().zip(expected).enumerate() {
        for (at, (&found, &expected)) in found.iter().zip(expected).enumerate() {
            let (found, expected) = (f64::from_bits(found), f64::from_bits(expected));
            if !is_equal(found, expected) {
                return Err(format!("node {node} at {at}: {found}, expected {expected}"));
            }
        }
    }
    Ok(())
}

fn check(what: &str, text: &str, nodes: &[&str]) {
    for (name, backend) in backends() {
        let repeated = values(&backend, &text.replace("LOOP", "repeat").replace("FILL ", ""), nodes);
        assert!(repeated.iter().all(|node| node.iter().any(|&bits| bits != 0)), "{what}: {repeated:?}");
        let mut settings = backend.settings().clone();
        settings.scan_gradient_bytes = 1;
        let limited = Backend::open_with(backend.name(), &settings).unwrap();
        let forms = [(&backend, as_scan(text)), (&backend, with_checkpoints(&as_scan(text)))];
        for (backend, scan) in forms.into_iter().chain([(&limited, as_scan(text))]) {
            let scanned = values(backend, &scan, nodes);
            // A gradient of a gradient has the same contributions in another order.
            let class = if what.contains("of a gradient") { "Fast" } else { &name };
            let compared = compare(class, [&scanned, &repeated]);
            compared.unwrap_or_else(|why| panic!("{what} on {name}: {why}\n{scan}"));
        }
    }
}

/// The text with checkpoints in its scans over `t`: in the middle, or before each step.
fn with_checkpoints(text: &str) -> String {
    let (head, rest) = text.split_once("scan t in 0..").unwrap();
    let steps: usize = rest.split_once(' ').unwrap().0.parse().unwrap();
    let every = (2..steps).find(|every| steps.is_multiple_of(*every)).unwrap_or(1);
    let scan = format!("scan t in 0..{steps}");
    format!("{head}{scan}{}", &rest[steps.to_string().len()..])
        .replace(&scan, &format!("{scan} checkpoint every {every}"))
}

#[test]
fn gradients_of_scans_have_the_bits_of_those_of_repetitions() {
    for (what, nodes, text) in PROGRAMS {
        check(what, text, nodes);
    }
}

#[test]
fn gradients_of_random_scans_have_the_bits_of_those_of_repetitions() {
    for seed in seeds(12) {
        let bytes = bytes_of_seed(seed, 60);
        let text = random_program(&mut Choices::new(&bytes)).replace(" + uniform(3, t, i)", "");
        let loss = " loss :+= w[i,j] * x[0,i]\n loss += h[t,i] * h[t,i]\n loss += z[i] * sin(z[i])\n loss += y[t,i] * c[i]\n grad loss by x, w";
        let text = text.replace(" keep h, y, c, z", loss) + "\n keep loss, x.grad, w.grad";
        check(&format!("seed {seed}"), &text, &["loss", "x.grad"]);
    }
}

/// Five or five hundred steps are the same statements.
#[test]
fn the_code_of_a_gradient_does_not_grow_with_the_steps() {
    let statements = |steps: usize| {
        let text = as_scan(PROGRAMS[1].2).replace("0..5", &format!("0..{steps}"));
        let text = text.replace("f32[5,3,d]", &format!("f32[{steps},3,d]"));
        let compiled = Backend::open("inline").unwrap().compile(&text, [] as [&arrayjit::TensorNode; 0]);
        let compiled = compiled.unwrap();
        let kernels = compiled.codes().flat_map(|code| code.schedule().kernels());
        kernels.map(|kernel| walk::stmts(&kernel.ir().body).count()).sum::<usize>()
    };
    assert!(statements(500) <= statements(5));
}

/// With checkpoints, 400 steps of a wave store 20 times the values between steps and 20 times those of a
/// step, instead of 400 times.
#[test]
fn checkpoints_save_memory() {
    let (stored, all) = run_wave("", 0);
    let (again, few) = run_wave(" checkpoint every 20", 0);
    compare("Fast", [&again, &stored]).unwrap();
    assert!(few * 5 < all, "{few} bytes with checkpoints, {all} without");
}

/// The wave of [`PROGRAMS`] over some steps.
fn wave(steps: usize, checkpoints: &str) -> String {
    let text = as_scan(PROGRAMS[2].2).replace("0..9", &format!("0..{steps}{checkpoints}"));
    let text = text.replace("f32[9,12]", &format!("f32[{steps},12]"));
    text.replace("uniform(1) * 0.3", "uniform(1) * 0.1")
}

/// The values of a wave over 400 steps, and the most bytes that its run had.
fn run_wave(checkpoints: &str, limit: u64) -> (Vec<Vec<u64>>, usize) {
    let backend = limited(limit);
    let values = values(&backend, &wave(400, checkpoints), &["loss", "v.grad"]);
    (values, backend.device().memory().peak_bytes)
}

fn limited(bytes: u64) -> Backend {
    let mut settings = Settings::default();
    settings.scan_gradient_bytes = bytes;
    Backend::open_with("inline", &settings).unwrap()
}

/// A scan gets checkpoints where the values that its gradient stores exceed the limit, and the best ones.
#[test]
fn a_limit_chooses_checkpoints() {
    let (stored, all) = run_wave("", 0);
    assert_eq!(run_wave("", 100 << 20), (stored.clone(), all), "the limit is above what the scan needs");
    let (again, few) = run_wave("", 60_000);
    compare("Fast", [&again, &stored]).unwrap();
    let fewest = ["10", "16", "20", "25"].map(|every| run_wave(&format!(" checkpoint every {every}"), 0).1);
    assert!(few * 5 < all && fewest.iter().all(|&other| few <= other), "{few} of {all}, others {fewest:?}");
}

#[test]
fn a_limit_that_no_checkpoints_reach_gives_a_warning() {
    let warnings = |text: &str, limit: u64| {
        let compiled = limited(limit).compile(text, [] as [&arrayjit::TensorNode; 0]).unwrap();
        let is_limit =
            |warning: &&arrayjit::Warning| matches!(warning.kind(), WarningKind::ScanGradientBytes { .. });
        compiled
            .warnings()
            .iter()
            .filter(is_limit)
            .map(|warning| warning.kind().to_string())
            .collect::<Vec<_>>()
    };
    let none = Vec::<String>::new();
    assert_eq!(warnings(&wave(400, ""), 60_000), none);
    assert_eq!(warnings(&wave(401, ""), 0), none, "there is no limit");
    assert_eq!(
        warnings(&wave(401, ""), 60_000),
        [
            "the gradient of the scan over t stores at least 404208 bytes of its 401 steps, with the best checkpoints; \
          expected at most 60000 bytes (`scan_gradient_bytes`)"
        ]
    );
}
