//! Threads with small stacks compile, run and drop the deepest programs, and so do threads whose stacks just
//! suffice.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::thread;

use arrayjit::{Backend, BatchMember, HostArray, Settings, TensorNode};

/// A stack that is too small for deep programs, and one a little larger than what `with_enough` asks for.
const STACK_BYTES: [usize; 2] = [128 << 10, (4 << 20) + (128 << 10)];

const BACKENDS: &[&str] =
    if cfg!(feature = "cranelift") { &["inline", "multicore", "interpreter"] } else { &["interpreter"] };

fn on_small_stacks(body: impl FnOnce() + Clone + Send + 'static) {
    for bytes in STACK_BYTES {
        thread::Builder::new().stack_size(bytes).spawn(body.clone()).unwrap().join().unwrap();
    }
}

fn node(name: &str) -> TensorNode {
    TensorNode::builder(name).dims([2]).build().unwrap()
}

/// Runs a text that computes `y` from `x`, whose elements are 4.
fn values(backend: &str, text: &str) -> Vec<f64> {
    let backend = Backend::open_with(backend, &Settings::default()).unwrap();
    let (x, y) = (node("x"), node("y"));
    let fours = HostArray::from_slice(&[4f32; 2], [2]).unwrap();
    let context = backend.context().unwrap().init_from_host(&x, &fours).unwrap();
    let compiled = backend.compile(text, [&x, &y]).unwrap();
    let batch = backend.compile_batch(&[BatchMember::text(text, [&x, &y])], |_, _| true).unwrap();
    let routine = compiled.link(&context).unwrap();
    drop(compiled.clone());
    routine.run(&[]).unwrap().sync().unwrap();
    drop(batch.link(&context).unwrap());
    routine.context().to_host(&y).unwrap().values()
}

#[test]
fn nested_functions() {
    for backend in BACKENDS {
        on_small_stacks(move || {
            let text = format!("y[i] := {}x[i]{}", "abs(".repeat(97), ")".repeat(97));
            assert_eq!(values(backend, &text), [4.0, 4.0]);
            let text = format!("y[i] := {}x[i]{}", "sin(".repeat(97), ")".repeat(97));
            assert!(values(backend, &text).iter().all(|y| y.abs() < 1.0));
            let text = format!("y[i] := {}x[i]{}", "(1 + ".repeat(90), ")".repeat(90));
            assert_eq!(values(backend, &text), [94.0, 94.0]);
        });
    }
}

/// Inlined nodes make expressions as deep as the IR allows.
#[test]
fn chains_of_virtual_nodes() {
    on_small_stacks(|| {
        let backend = Backend::open_with("interpreter", &Settings::default()).unwrap();
        let nodes: Vec<TensorNode> = (0..200).map(|at| node(&format!("n{at}"))).collect();
        let steps = (1..200).map(|at| format!("n{at}[i] := tanh(n{}[i] + 1)", at - 1));
        let text = steps.collect::<Vec<_>>().join("; ");
        let fours = HostArray::from_slice(&[4f32; 2], [2]).unwrap();
        let context = backend.context().unwrap().init_from_host(&nodes[0], &fours).unwrap();
        let routine = backend.compile(&text, &nodes).unwrap().link(&context).unwrap();
        routine.run(&[]).unwrap().sync().unwrap();
        assert!(routine.context().to_host(&nodes[199]).unwrap().values().iter().all(|y| *y > 0.9));
    });
}

/// Texts of any depth are rejected with an error.
#[test]
fn texts_that_are_too_deep() {
    on_small_stacks(|| {
        let backend = Backend::open_with("interpreter", &Settings::default()).unwrap();
        let (x, y) = (node("x"), node("y"));
        for text in
            [format!("y[i] := {}x[i]", "-".repeat(100_000)), format!("y[i] := {}", "(".repeat(100_000))]
        {
            assert!(backend.compile(&text, [&x, &y]).is_err());
        }
    });
}
