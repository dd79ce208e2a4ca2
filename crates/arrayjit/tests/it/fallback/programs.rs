//! Programs with statements that fall back, on every fallback, compared with the same programs undivided.

use arrayjit::settings::{FallbackSetting, NumericClass};
use arrayjit::{Backend, Caps, DType, TensorNode};
use codegen_core::Workgroups;

use super::rejecting::{array, context, kept, rejecting, settings, typed, values, with_caps, with_text};

const FALLBACKS: [FallbackSetting; 3] =
    [FallbackSetting::Multicore, FallbackSetting::Inline, FallbackSetting::Interpreter];

fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| f64::from(rng.i32(-256..=256)) / 64.0).collect()
}

/// A node without a requested memory mode.
fn inner(name: &str, dims: &[usize]) -> TensorNode {
    TensorNode::builder(name).dims(dims.iter().copied()).build().unwrap()
}

/// Runs `text` divided, where kernels with `rejected` in their text fall back, and undivided, several times;
/// compares the bits of `seen` after each run. Returns the positions of the statements that fell back.
#[track_caller]
fn same(
    text: &str,
    rejected: &'static str,
    nodes: &dyn Fn() -> Vec<TensorNode>,
    given: &[(usize, Vec<f64>)],
    seen: &[usize],
    bindings: &[i64],
) -> Vec<usize> {
    let mut positions = Vec::new();
    for class in [NumericClass::Fast, NumericClass::Strict] {
        for (own, to) in ["inline", "multicore", "interpreter"].into_iter().zip(FALLBACKS) {
            let mut settings = settings(to);
            settings.numerics = class;
            // Both sides have the same schedule, so that their bits are comparable.
            let partial = rejecting(own, settings.clone(), with_text(rejected));
            let whole = Backend::open_with(own, &settings).unwrap();
            let [found, expected] = [&partial, &whole].map(|backend| {
                let nodes = nodes();
                let given: Vec<(&TensorNode, &[f64])> =
                    given.iter().map(|(at, values)| (&nodes[*at], values.as_slice())).collect();
                let code = backend.compile(text, &nodes).unwrap_or_else(|e| panic!("{e}"));
                if backend.name() == "partial" {
                    positions = code.fallbacks().iter().map(|f| f.statements.start).collect();
                    assert!(!positions.is_empty(), "nothing fell back");
                }
                let routine = code.link(&context(backend, &given)).unwrap();
                assert!(routine.outputs().iter().chain(routine.inputs()).all(|node| nodes.contains(node)));
                let mut found = vec![format!("{:?} {:?}", names(routine.inputs()), names(routine.outputs()))];
                for _ in 0..3 {
                    routine.run(bindings).unwrap().sync().unwrap();
                    found.extend(seen.iter().map(|&at| {
                        format!(
                            "{} {:?}",
                            nodes[at].name(),
                            routine.context().to_host(&nodes[at]).unwrap().bytes()
                        )
                    }));
                }
                found
            });
            assert_eq!(found, expected, "{own} and {to:?}, {class:?}");
        }
    }
    positions
}

fn names(nodes: &[TensorNode]) -> Vec<String> {
    nodes.iter().map(TensorNode::name).collect()
}

/// A layer, its hyperbolic tangent, the mean of the squares, and an update in place.
const LAYER: &str = "
    h[b,o] :+= x[b,i] * w[i,o]
    a[b,o] := tanh(h[b,o])
    loss :+= a[b,o] * a[b,o]
    w[i,o] += x[b,i] * a[b,o] * -0.125
";

fn layer() -> Vec<TensorNode> {
    vec![kept("x", &[5, 40]), kept("w", &[40, 7]), kept("h", &[5, 7]), kept("a", &[5, 7]), kept("loss", &[])]
}

fn layer_values() -> Vec<(usize, Vec<f64>)> {
    vec![(0, numbers(1, 200)), (1, numbers(2, 280))]
}

#[test]
fn a_statement_in_the_middle() {
    let found = same(LAYER, "tanh", &layer, &layer_values(), &[1, 2, 3, 4], &[]);
    assert!(found.len() == 1 && found[0] > 0, "{found:?}");
}

#[test]
fn a_statement_in_the_middle_between_nodes_that_live_for_one_run() {
    let nodes = || {
        vec![
            kept("x", &[5, 40]),
            kept("w", &[40, 7]),
            inner("h", &[5, 7]),
            inner("a", &[5, 7]),
            kept("loss", &[]),
        ]
    };
    same(LAYER, "tanh", &nodes, &layer_values(), &[1, 4], &[]);
}

#[test]
fn the_first_the_last_and_every_statement() {
    let nodes = || ["x", "y", "z", "v"].map(|name| kept(name, &[300])).to_vec();
    let given = [(0, numbers(3, 300))];
    let seen = [0, 1, 2, 3];
    let first = "y[i] := sqrt(abs(x[i]))\nz[i] := y[i] + y[299 - i]\nv[i] := z[i] * z[299 - i]";
    assert_eq!(same(first, "sqrt", &nodes, &given, &seen, &[]), [0]);
    let last = "y[i] := x[i] * x[i]\nz[i] := y[i] + y[299 - i]\nv[i] := sqrt(z[299 - i])";
    assert_eq!(same(last, "sqrt", &nodes, &given, &seen, &[]).len(), 1);
    let all = "y[i] := sqrt(abs(x[i]))\nz[i] := sqrt(y[299 - i])\nv[i] := sqrt(z[i] + z[299 - i])";
    assert!(same(all, "sqrt", &nodes, &given, &seen, &[]).len() > 1);
}

#[test]
fn back_and_forth() {
    let nodes = || ["x", "y", "z", "v"].map(|name| kept(name, &[50])).to_vec();
    let text = "
        y[i] := sqrt(abs(x[i]))
        z[i] := y[i] + y[49 - i]
        y[i] += sqrt(abs(z[49 - i]))
        v[i] := y[i] - z[i] * y[49 - i]
        x[i] += sqrt(abs(v[49 - i]))
    ";
    assert_eq!(same(text, "sqrt", &nodes, &[(0, numbers(4, 50))], &[0, 1, 2, 3], &[]).len(), 3);
}

/// Both backends write `y`: one writes all of it, the other every second element, and a third statement adds
/// to all elements.
#[test]
fn a_node_that_both_write() {
    let nodes = || vec![kept("x", &[40]), kept("y", &[40]), kept("s", &[])];
    let text = "
        y[i] := x[i] + x[39 - i]
        y[2*i] += sqrt(abs(x[i])) where i < 20
        y[i] += x[i]
        s += y[i]
    ";
    assert_eq!(same(text, "sqrt", &nodes, &[(0, numbers(5, 40)), (2, vec![1.5])], &[1, 2], &[]).len(), 1);
}

/// Elements that the fallback does not write keep their values from the backend.
#[test]
fn a_node_that_the_fallback_writes_in_part() {
    let nodes = || vec![kept("x", &[10]), kept("y", &[30])];
    let text = "y[3*i + 1] += sqrt(abs(x[i])) where i < 10";
    same(text, "sqrt", &nodes, &[(0, numbers(6, 10)), (1, numbers(7, 30))], &[0, 1], &[]);
}

#[test]
fn static_symbols_are_bound_in_every_part() {
    let nodes = || vec![kept("x", &[9, 20]), kept("y", &[20]), kept("z", &[20])];
    let text = "
        y[i] := x[@row, i] + @row
        z[i] := sqrt(abs(x[2*@half, i])) + y[19 - i]
        y[i] += where(i < @row, z[i] * z[19 - i] + @half, 1)
    ";
    for bindings in [[0, 0], [3, 4], [8, 1]] {
        same(text, "sqrt", &nodes, &[(0, numbers(8, 180))], &[1, 2], &bindings);
    }
}

#[test]
fn accumulators_of_the_routine_stay_with_what_uses_them() {
    let nodes = || vec![kept("x", &[4]), kept("y", &[300]), kept("z", &[300])];
    // The compiler hoists expressions that do not depend on `i` out of the loops.
    let text = "y[i] := exp(x[0] * x[1]) * i\nz[i] := sqrt(abs(x[2] * x[3])) * y[299 - i]";
    same(text, "sqrt", &nodes, &[(0, numbers(9, 4))], &[1, 2], &[]);
}

#[test]
fn margins_and_narrow_types_are_copied_as_they_are() {
    let nodes = || {
        let padding = arrayjit::Padding::new([(2, 1)], None);
        let h = TensorNode::builder("h").dims([12]).dtype(DType::Bf16).padding(padding);
        let h = h.mode(arrayjit::MemoryMode::Materialized).build().unwrap();
        vec![kept("x", &[12]), h, typed("b", DType::Bool, &[12]), typed("n", DType::U8, &[12])]
    };
    let text = "
        h[i] := x[i] * 3
        b[i] := sqrt(abs(f32(h[i]))) > 1
        h[i] += where(b[i], 1, 2)
        n[i] := sqrt(abs(f32(h[i])))
        h[i] += f32(n[11 - i])
    ";
    same(text, "sqrt", &nodes, &[(0, numbers(10, 12))], &[1, 2, 3], &[]);
}

/// Nodes without elements need no copies.
#[test]
fn nodes_without_elements() {
    let nodes = || vec![kept("x", &[0]), kept("y", &[0]), kept("s", &[])];
    let text = "s := 2\ny[i] := sqrt(x[i])\ns += y[i]";
    for to in FALLBACKS {
        let partial = rejecting("inline", settings(to), with_text("sqrt"));
        let nodes = nodes();
        let routine = match partial.compile(text, &nodes) {
            Ok(code) => code.link(&context(&partial, &[(&nodes[0], &[])])).unwrap(),
            Err(error) => panic!("{error}"),
        };
        routine.run(&[]).unwrap().sync().unwrap();
        assert_eq!(values(&routine, &nodes[2]), [2.0]);
    }
}

/// The capabilities that WebGPU guarantees: f32 and 32-bit integers, threads in workgroups.
fn like_a_gpu(caps: &mut Caps) {
    let has = |dtype: &DType| matches!(dtype, DType::F32 | DType::I32 | DType::U32 | DType::Bool);
    caps.arithmetic = DType::ALL.into_iter().filter(has).collect();
    caps.storage = DType::ALL.into_iter().filter(|dtype| has(dtype) || dtype.size_bytes() < 4).collect();
    caps.index = DType::I32;
    caps.workgroups = Some(Workgroups::new(64, 16 << 10));
}

/// Statements in `f64` run on the CPU, although the GPU stores their nodes like any other node.
#[test]
fn a_gpu_without_double_precision() {
    let nodes = [typed("x", DType::F32, &[100]), typed("m", DType::F64, &[]), typed("y", DType::F32, &[100])];
    let text = "m :+= f64(x[i]) / 100\ny[i] := x[i] - f32(m)\ny[i] *= 2\ny[i] += x[99 - i]";
    let gpu = with_caps("interpreter", settings(FallbackSetting::Auto), like_a_gpu, |_| None);
    let code = gpu.compile(text, &nodes).unwrap();
    let whats: Vec<&str> = code.fallbacks().iter().map(|fallback| fallback.what.as_str()).collect();
    assert!(!whats.is_empty() && whats.iter().all(|what| *what == "nodes of f64"), "{whats:?}");
    assert_eq!(code.fallbacks()[0].to, "multicore");
    assert!(code.codes().count() > 1, "y is updated on the device");
    let x = numbers(11, 100);
    let routine = code.link(&context(&gpu, &[(&nodes[0], &x)])).unwrap();
    routine.run(&[]).unwrap().sync().unwrap();
    let mean = x.iter().sum::<f64>() / 100.0;
    assert!((values(&routine, &nodes[1])[0] - mean).abs() < 1e-12);
    for (at, found) in values(&routine, &nodes[2]).into_iter().enumerate() {
        let expected = (x[at] - mean) * 2.0 + x[99 - at];
        assert!((found - expected).abs() < 1e-5, "y[{at}] is {found}, expected {expected}");
    }
}

/// Training of a small network on the workgroups of a GPU that has no `tanh`.
#[test]
fn a_gpu_that_lacks_an_operation() {
    let gpu = with_caps("interpreter", settings(FallbackSetting::Auto), like_a_gpu, with_text("tanh"));
    let [found, expected] = [gpu, Backend::open_with("inline", &settings(FallbackSetting::Auto)).unwrap()]
        .map(|backend| {
            let nodes = layer();
            let code = backend.compile(LAYER, &nodes).unwrap();
            assert_eq!(code.fallbacks().is_empty(), backend.name() == "inline");
            let given = layer_values();
            let given: Vec<(&TensorNode, &[f64])> =
                given.iter().map(|(at, values)| (&nodes[*at], values.as_slice())).collect();
            let routine = code.link(&context(&backend, &given)).unwrap();
            (0..3).for_each(|_| drop(routine.run(&[]).unwrap()));
            [values(&routine, &nodes[1]), values(&routine, &nodes[4])].concat()
        });
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-4 * expected.abs().max(1.0), "{found} is not {expected}");
    }
}

/// Inputs that change between runs are copied again: an optimizer runs in a loop, and one of its statements
/// falls back.
#[test]
fn a_loop_of_runs_whose_inputs_change() {
    let text = "
        g[i] := 2 * (w[i] - data[@batch, i])
        v[i] := 0.9 * v[i] + g[i]
        w[i] -= rate * v[i] / (sqrt(g[i] * g[i]) + 1)
    ";
    let run = |backend: &Backend| {
        let data = kept("data", &[3, 8]);
        let [g, v, w] = ["g", "v", "w"].map(|name| kept(name, &[8]));
        let rate = kept("rate", &[]);
        let nodes = [&data, &g, &v, &w, &rate];
        let code = backend.compile(text, nodes).unwrap();
        let given: [(&TensorNode, &[f64]); 4] =
            [(&data, &numbers(12, 24)), (&v, &[0.0; 8]), (&w, &numbers(13, 8)), (&rate, &[0.0])];
        let routine = code.link(&context(backend, &given)).unwrap();
        let mut found = Vec::new();
        for step in 0..12 {
            let host = array(&rate, &[0.25 / f64::from(step + 1)]);
            let _ = routine.context().from_host(&rate, &host).unwrap();
            routine.run(&[i64::from(step) % 3]).unwrap();
            if step % 4 == 3 {
                let shuffled = array(&data, &numbers(step as u64, 24));
                let _ = routine.context().from_host(&data, &shuffled).unwrap();
            }
            found.push(values(&routine, &w));
        }
        assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "every step moves");
        (found, backend.fallback_count().runs)
    };
    for to in FALLBACKS {
        let (found, runs) = run(&rejecting("multicore", settings(to), with_text("sqrt")));
        let (expected, _) = run(&Backend::open_with("multicore", &settings(FallbackSetting::Auto)).unwrap());
        assert_eq!((found, runs), (expected, 12), "{to:?}");
    }
}
