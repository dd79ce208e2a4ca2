//! A routine that writes all elements of a node without value gives it a value; a routine that writes some
//! elements does not.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit::{Backend, Compiled, HostArray, RunError, Settings, TensorNode};
use codegen_core::{Access, Param};
use device_runtime::Failure;

const N: usize = 1 << 20;

fn node(name: &str, size: usize) -> TensorNode {
    TensorNode::builder(name).dims([size]).mode(arrayjit::MemoryMode::Materialized).build().unwrap()
}

/// The accesses of the kernels to memory, in the order of calls.
fn accesses(compiled: &Compiled) -> Vec<Access> {
    let code = compiled.codes().next().unwrap();
    let calls = code.schedule().calls().iter();
    let params = calls.flat_map(|call| code.artifact().kernels()[call.kernel].params.iter());
    let access = |param: &Param| match param {
        Param::Node { access, .. } => Some(*access),
        Param::MergeBuffer { .. } | Param::StaticIndex { .. } => None,
    };
    params.filter_map(access).filter(|access| *access != Access::Read).collect()
}

#[test]
fn only_what_writes_all_of_a_node_gives_it_a_value() {
    let mut settings = Settings::default();
    settings.threads = 2;
    let backend = Backend::open_with("multicore", &settings).unwrap();
    let (x, y) = (node("x", N), node("y", 2 * N));
    let nodes = [&x, &y];
    let halves = format!("y[i] := exp(x[i]) where i < {N}\ny[i + {N}] := exp(x[i]) - 1 where i < {N}");
    let halves = backend.compile_named("halves", &halves, nodes).unwrap();
    let half = backend.compile_named("half", &format!("y[i] := x[i] where i < {N}"), nodes).unwrap();
    assert_eq!(accesses(&half), [Access::WritePart]);
    assert_eq!(accesses(&halves), [Access::WritePart; 2], "each of two kernels writes one half");

    let context = backend.context().unwrap();
    let context = context.init_from_host(&x, HostArray::from_slice(&vec![0f32; N], [N]).unwrap()).unwrap();
    let half = half.link(&context).unwrap();
    let halves = halves.link(half.context()).unwrap();
    let context = halves.context();
    context.poison(&y, &Failure::new("a stream", "a task", "the test says so")).unwrap();
    let error = half.run(&[]).unwrap_err();
    assert!(matches!(&error, RunError::Poisoned { node, .. } if node == "y"), "{error}");
    assert!(context.to_host(&y).is_err(), "a half is no value");
    halves.run(&[]).unwrap();
    let values = context.to_host(&y).unwrap().values();
    assert_eq!((values[0], values[N - 1], values[N], values[2 * N - 1]), (1.0, 1.0, 0.0, 0.0));
    half.run(&[]).unwrap();
    assert_eq!(context.to_host(&y).unwrap().values()[0], 0.0);
}
