//! Calls of one session from several threads: answers of their own, code that is compiled once, and calls of
//! known shapes that wait for no compilation.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{
    num::NonZero,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use arrayjit_onnx::{Backend, HostArray, InferenceSession, proto::GraphProto};
use arrayjit_tensor::Settings;

use crate::build::*;

const THREADS: usize = 6;

/// Sessions on streams with workers, and on the threads of the callers.
fn sessions(graph: &GraphProto) -> [InferenceSession; 2] {
    let mut settings = Settings::default();
    settings.threads = 2;
    let backends = [Backend::open_with("multicore", &settings).unwrap(), Backend::open("inline").unwrap()];
    backends.map(|backend| {
        let session = load(graph.clone()).unwrap().session(&backend).unwrap();
        session.set_concurrent_runs(NonZero::new(3).unwrap());
        session
    })
}

fn on_threads(calls: usize, call: impl Fn(usize, usize) + Sync) {
    let call = &call;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || (0..calls).for_each(|number| call(thread, number)));
        }
    });
}

fn filled(value: f32, rows: usize) -> HostArray {
    floats(&vec![value; rows * 3], &[rows, 3])
}

#[test]
fn every_call_gets_its_own_answer_for_every_shape() {
    let nodes = vec![node("doubled = MatMul x w"), node("y = Add doubled one")];
    let graph = constant(graph(&["x"], &["y"], nodes), "one", &floats(&[1.0], &[1]));
    let w = floats(&[2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 2.0], &[3, 3]);
    for session in sessions(&constant(graph, "w", &w)) {
        on_threads(60, |thread, number| {
            let (value, rows) = ((thread * 100 + number) as f32, 1 + (thread + number) % 4);
            let outputs = session.run(&[("x", &filled(value, rows))]).unwrap();
            assert_eq!(outputs[0].values(), vec![f64::from(2.0 * value + 1.0); rows * 3]);
        });
    }
}

#[test]
fn calls_that_decide_on_the_host_get_their_own_answers() {
    // The number of results is decided by the values, and so is the branch.
    let nodes = vec![
        node("found = NonZero x"),
        node("turned = Transpose found"),
        node("picked = GatherND x turned"),
        node("y = Add picked picked"),
    ];
    for session in sessions(&graph(&["x"], &["y"], nodes)) {
        on_threads(40, |thread, number| {
            let (value, count) = ((thread * 100 + number + 1) as f32, (thread + number) % 5);
            let x: Vec<f32> = (0..5).map(|at| if at < count { value } else { 0.0 }).collect();
            let outputs = session.run(&[("x", &floats(&x, &[5]))]).unwrap();
            assert_eq!(outputs[0].values(), vec![f64::from(2.0 * value); count]);
        });
    }
    let mut then_branch = graph(&[], &["a"], vec![node("a = Add x x")]);
    then_branch.name = "then".into();
    let else_branch = graph(&[], &["b"], vec![node("b = Sub x x")]);
    let choice = subgraph(node("y = If positive"), "then_branch", then_branch);
    let choice = subgraph(choice, "else_branch", else_branch);
    let sum = int(node("sum = ReduceSum x"), "keepdims", 0);
    let nodes = vec![sum, node("positive = Greater sum zero"), choice];
    for session in sessions(&constant(graph(&["x"], &["y"], nodes), "zero", &floats(&[0.0], &[]))) {
        on_threads(40, |thread, number| {
            let value = (thread * 100 + number + 1) as f32 * if number % 2 == 0 { 1.0 } else { -1.0 };
            let outputs = session.run(&[("x", &filled(value, 2))]).unwrap();
            assert_eq!(outputs[0].values(), [f64::from((2.0 * value).max(0.0)); 6]);
        });
    }
}

/// A model that takes long to compile and not to run.
fn long(layers: usize) -> GraphProto {
    let mut nodes = vec![node("x0 = Relu x")];
    for at in 0..layers {
        let text = format!("p{at} = MatMul x{at} w\ns{at} = Softmax p{at}\nx{} = Add s{at} x{at}", at + 1);
        nodes.extend(text.lines().map(node));
    }
    nodes.push(node(&format!("y = Relu x{layers}")));
    constant(graph(&["x"], &["y"], nodes), "w", &floats(&[0.25; 9], &[3, 3]))
}

#[test]
fn a_new_shape_is_compiled_once_and_nobody_else_waits() {
    let [session, _] = sessions(&long(60));
    session.run(&[("x", &filled(1.0, 1))]).unwrap();
    let is_compiled = AtomicBool::new(false);
    let (beside, ready) = (AtomicUsize::new(0), Barrier::new(3));
    thread::scope(|scope| {
        scope.spawn(|| {
            ready.wait();
            while !is_compiled.load(Ordering::Relaxed) {
                session.run(&[("x", &filled(1.0, 1))]).unwrap();
                beside.fetch_add(1, Ordering::Relaxed);
            }
        });
        let new_shape = || {
            ready.wait();
            let start = Instant::now();
            session.run(&[("x", &filled(1.0, 2))]).unwrap();
            is_compiled.store(true, Ordering::Relaxed);
            start.elapsed()
        };
        let others = [scope.spawn(new_shape), scope.spawn(new_shape)];
        let took: Vec<Duration> = others.map(|other| other.join().unwrap()).into();
        assert!(took.iter().all(|took| *took > Duration::from_millis(1)), "{took:?}");
    });
    let beside = beside.into_inner();
    assert!(beside > 3, "{beside} calls of a known shape while another was compiled");
}
