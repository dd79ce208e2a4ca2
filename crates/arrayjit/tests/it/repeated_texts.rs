//! A text that is compiled again over the same nodes has the code of its first compilation, as long as that
//! code is right.

use std::sync::Arc;

use arrayjit::{Backend, Compiled, HostArray, Settings};
use tnode::{MemoryMode, Reason, TensorNode};

const TEXT: &str = "h[i] := x[i] * 2; y[i] := exp(h[i]) + h[i]";

fn vector(name: &str) -> TensorNode {
    TensorNode::builder(name).dims([3]).build().expect("a valid node")
}

fn backend() -> Backend {
    Backend::open_with("inline", &Settings::default()).expect("the backend opens")
}

fn have_same_code(a: &Compiled, b: &Compiled) -> bool {
    let [mut a, mut b] = [a.codes(), b.codes()];
    matches!((a.next(), b.next()), (Some(a), Some(b)) if Arc::ptr_eq(a, b))
}

fn run(backend: &Backend, code: &Compiled, x: &TensorNode, values: [f32; 3], y: &TensorNode) -> Vec<f64> {
    let values = HostArray::from_slice(&values, [3]).expect("three values");
    let context =
        backend.context().and_then(|context| context.init_from_host(x, &values)).expect("a context");
    let routine = code.link(&context).expect("the code links");
    routine.run(&[]).expect("the routine runs");
    routine.context().to_host(y).expect("the result is in the context").values()
}

#[test]
fn a_repeated_text_has_the_first_code() {
    let (backend, x, y) = (backend(), vector("x"), vector("y"));
    let first = backend.compile(TEXT, [&x, &y]).unwrap();
    let again = backend.compile(TEXT, [&x, &y]).unwrap();
    assert!(have_same_code(&first, &again));
    for values in [[0., 0.5, 1.], [2., -1., 0.]] {
        assert_eq!(run(&backend, &again, &x, values, &y), run(&backend, &first, &x, values, &y));
    }
    let after_runs = backend.compile(TEXT, [&x, &y]).unwrap();
    assert!(have_same_code(&first, &after_runs), "linking only decides what kind of memory the nodes have");
}

#[test]
fn other_names_texts_and_nodes_have_their_own_code() {
    let (backend, x, y, z) = (backend(), vector("x"), vector("y"), vector("y"));
    let first = backend.compile(TEXT, [&x, &y]).unwrap();
    assert!(!have_same_code(&first, &backend.compile_named("other", TEXT, [&x, &y]).unwrap()));
    assert!(!have_same_code(&first, &backend.compile(&format!("{TEXT}\n"), [&x, &y]).unwrap()));
    let other = backend.compile(TEXT, [&x, &z]).unwrap();
    assert!(!have_same_code(&first, &other));
    assert_eq!(run(&backend, &other, &x, [0.; 3], &z), [1.; 3]);
}

#[test]
fn nodes_that_outlive_a_run_are_made_anew() {
    let (backend, x) = (backend(), vector("x"));
    let text = "h[i] := x[i] * 2; y[i] := h[i] * 1; keep y";
    let [first, again] = [(); 2].map(|()| backend.compile(text, [&x]).unwrap());
    assert!(have_same_code(&first, &again));
    for name in ["y", "h"] {
        assert_ne!(first.node(name).unwrap(), again.node(name).unwrap());
    }
    let y = again.node("y").unwrap();
    assert_eq!(run(&backend, &again, &x, [1., 2., 3.], y), [2., 4., 6.]);
    assert_eq!(again.explain(y).unwrap(), first.explain(first.node("y").unwrap()).unwrap());
    let text = "param w f32[3] := 1.5; y[i] := w[i] * 2";
    let [first, again] = [(); 2].map(|()| backend.compile(text, [&vector("y")]).unwrap());
    assert_ne!(first.node("w").unwrap(), again.node("w").unwrap());
}

#[test]
fn a_changed_mode_compiles_anew() {
    let (backend, x, y) = (backend(), vector("x"), vector("y"));
    let first = backend.compile(TEXT, [&x, &y]).unwrap();
    let hosted = MemoryMode::Hosted(tnode::Hosted::Volatile);
    x.update_memory_mode(hosted, Reason::new("the host changes it")).unwrap();
    assert!(!have_same_code(&first, &backend.compile(TEXT, [&x, &y]).unwrap()));
}

#[test]
fn a_repeated_text_overwrites_inputs_of_virtual_nodes() {
    let (backend, x, v, y) = (backend(), vector("x"), vector("v"), vector("y"));
    let overwrite = || backend.compile("x[i] := 7", [&x]).unwrap();
    overwrite();
    v.update_memory_mode(MemoryMode::Virtual, Reason::new("a test")).unwrap();
    backend.compile("v[i] := x[i] + 1", [&x, &v]).unwrap();
    backend.compile("y[i] := v[i]", [&v, &y]).unwrap();
    overwrite();
    let error = backend.compile("y[i] := v[i] * 2", [&v, &y]).unwrap_err().to_string();
    assert!(error.contains("input \"x\" was overwritten"), "{error}");
}

#[test]
fn a_text_that_reads_another_routines_virtual_node_compiles_anew() {
    let (backend, x, v, y) = (backend(), vector("x"), vector("v"), vector("y"));
    v.update_memory_mode(MemoryMode::Virtual, Reason::new("a test")).unwrap();
    backend.compile("v[i] := x[i] + 1", [&x, &v]).unwrap();
    let first = backend.compile("y[i] := v[i]", [&v, &y]).unwrap();
    backend.compile("v[i] := x[i] + 2", [&x, &v]).unwrap();
    let again = backend.compile("y[i] := v[i]", [&v, &y]).unwrap();
    assert_eq!(run(&backend, &first, &x, [0.; 3], &y), [1.; 3]);
    assert_eq!(run(&backend, &again, &x, [0.; 3], &y), [2.; 3]);
}

#[test]
fn a_virtual_node_of_the_caller_is_computed_by_the_first_code() {
    let (backend, x, h, y) = (backend(), vector("x"), vector("h"), vector("y"));
    let [first, again] = [(); 2].map(|()| backend.compile(TEXT, [&x, &h, &y]).unwrap());
    assert!(h.mode().known_virtual() && have_same_code(&first, &again));
}

#[test]
fn virtual_nodes_of_a_repeated_text_are_known() {
    let (backend, x, y) = (backend(), vector("x"), vector("y"));
    let twice = [(); 2].map(|()| backend.compile(TEXT, [&x, &y]).unwrap());
    for code in &twice {
        let (h, z) = (code.node("h").unwrap(), vector("z"));
        let reads = backend.compile("z[i] := h[i] + 1", [h, &z]).unwrap();
        assert_eq!(run(&backend, &reads, &x, [1., 2., 3.], &z), [3., 5., 7.]);
    }
}

#[test]
fn the_cache_keeps_no_node_of_the_caller() {
    let (backend, x, y) = (backend(), vector("x"), vector("y"));
    let weak =
        [x.downgrade(), y.downgrade(), backend.compile(TEXT, [&x, &y]).unwrap().nodes()[0].downgrade()];
    drop((x, y));
    // A compilation forgets the computations of nodes that are dropped by then, and with them their inputs.
    for _ in 0..3 {
        backend.compile("z[i] := 1", [&vector("z")]).unwrap();
    }
    assert!(weak.iter().all(|node| node.upgrade().is_none()));
}

#[test]
fn without_a_cache_every_text_compiles() {
    let mut settings = Settings::default();
    settings.code_cache_bytes = 0;
    let backend = Backend::open_with("inline", &settings).unwrap();
    let (x, y) = (vector("x"), vector("y"));
    let [first, again] = [(); 2].map(|()| backend.compile(TEXT, [&x, &y]).unwrap());
    assert!(!have_same_code(&first, &again));
}
