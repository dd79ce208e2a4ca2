//! A user's program, which names only items of `arrayjit`.

use std::io::Cursor;

use arrayjit::assign::{AccumOp, builder};
use arrayjit::indexing::StaticSymbol;
use arrayjit::ir::{BinaryOp, UnaryOp};
use arrayjit::text;
use arrayjit::{
    Backend, Context, DType, HostArray, MemoryMode, Reason, Registry, Routine, RunError, Settings, Sharing,
    TensorNode, npy, safetensors, torch,
};

fn backend() -> Backend {
    Backend::open_with("inline", &Settings::default()).expect("it is in every build")
}

fn node(name: &str, dims: &[usize]) -> TensorNode {
    TensorNode::builder(name).dims(dims.iter().copied()).build().expect("a small node")
}

/// Requests memory for a node.
fn keep(node: &TensorNode) {
    let reason = Reason::new("the test reads it");
    node.update_memory_mode(MemoryMode::Materialized, reason).expect("nothing is decided yet");
}

fn array(values: &[f32], dims: &[usize]) -> HostArray {
    HostArray::from_slice(values, dims.iter().copied()).expect("as many values as the sizes say")
}

fn values(routine: &Routine, node: &TensorNode) -> Vec<f64> {
    routine.context().to_host(node).expect("in the context").values()
}

#[test]
fn assignments_are_parsed_built_and_joined() {
    let [a, b, c, d] = [("a", [2, 2]), ("b", [2, 2]), ("c", [2, 2]), ("d", [2, 2])].map(|(n, s)| node(n, &s));
    keep(&d);
    let built =
        builder::einsum("m,k; k,n => m,n", &c, AccumOp::Add, BinaryOp::Mul, [&a, &b]).expect("it fits");
    let parsed = text::parse("d[i,j] := c[j,i] + 1", &[c.clone(), d.clone()]).expect("a valid text");
    let rest = builder::unary(&b, UnaryOp::Neg, &d).expect("it fits");
    let backend = backend();
    let code = backend.compile_assignments(&built.then(parsed).then(rest).named("joined")).expect("valid");
    let context = backend.context().expect("a stream");
    let context = context.init_from_host(&a, array(&[1., 2., 3., 4.], &[2, 2])).expect("memory");
    let context = context.init_from_host(&b, array(&[1., 0., 1., 1.], &[2, 2])).expect("memory");
    let routine = code.link(&context).expect("all nodes are there");
    routine.run(&[]).expect("scheduled");
    assert_eq!(values(&routine, &d), [4.0, 8.0, 3.0, 5.0]);
    assert_eq!(values(&routine, &b), [-4.0, -8.0, -3.0, -5.0]);
    assert_eq!(routine.name(), "joined");
}

#[test]
fn files_of_arrays_are_read_and_written() {
    let array = array(&[1., 2., 3.], &[3]);
    let mut archive = Cursor::new(Vec::new());
    npy::write_npz([("w", &array)], &mut archive).expect("memory");
    assert_eq!(npy::read_npz(archive).expect("what was written")["w"], array);
    let bytes = safetensors::write([("w", &array)]).expect("memory");
    assert_eq!(safetensors::read(&bytes).expect("what was written")["w"], array);
    assert!(torch::read(&bytes).is_err());
}

#[test]
fn registries_and_sharing_have_names() {
    let registry = Registry::new();
    let x = TensorNode::builder("x").dims([2]).mode(MemoryMode::OnDevice(Sharing::Shared));
    let x = x.build_in(&registry).expect("a small node");
    assert_eq!(registry.nodes(), std::slice::from_ref(&x));
}

/// `first` writes the node that `second` reads, at the row that a symbol selects.
fn two_routines(backend: &Backend) -> (Routine, Routine, [TensorNode; 3]) {
    let [x, y, z] = [("x", vec![3, 2]), ("y", vec![2]), ("z", vec![2])].map(|(name, dims)| node(name, &dims));
    [&y, &z].into_iter().for_each(keep);
    let row = StaticSymbol::ranged("row", 3);
    let first = backend.compile_assignments(&builder::slice(&y, &x, &row).named("first")).expect("valid");
    let second = backend.compile_named("second", "z[i] := y[i] * 2", [&y, &z]).expect("valid");
    let context: Context = backend.context().expect("a stream");
    let context = context.init_from_host(&x, array(&[1., 2., 3., 4., 5., 6.], &[3, 2])).expect("memory");
    let first = first.link(&context).expect("all nodes are there");
    let second = second.link(first.context()).expect("all nodes are there");
    (first, second, [x, y, z])
}

#[test]
fn routines_know_what_comes_before_and_are_scheduled_as_tasks() {
    let (first, second, [_, y, z]) = two_routines(&backend());
    assert!(first.dependencies().is_empty() && first.can_run());
    let behind: Vec<_> = second.dependencies().iter().map(|d| (d.node.clone(), d.routine())).collect();
    assert_eq!(behind, [(y, "first")]);
    assert!(!second.can_run(), "`first` has not run");
    let task = first.schedule(&[2]).expect("a value in range");
    assert!(matches!(first.schedule(&[3]), Err(RunError::BindingRange { .. })));
    assert!(!second.can_run(), "a task is not a run");
    let then = second.schedule(&[]).expect("no symbols");
    let both = task.append(move || then.run());
    both.run().expect("scheduled");
    assert!(second.can_run());
    assert_eq!(values(&second, &z), [10.0, 12.0]);
    both.run().expect("any number of times");
}

#[test]
fn an_array_without_margins_goes_into_a_padded_node() {
    let backend = backend();
    let padding = arrayjit::Padding::new([(1, 1)], Some(0.0));
    let x =
        TensorNode::builder("x").dims([4]).padding(padding).dtype(DType::F32).build().expect("a small node");
    let y = node("y", &[4]);
    let code = backend.compile("y[i] :+= x[i + k - 1] where k < 3", [&x, &y]).expect("valid");
    let image = array(&[1., 2., 3., 4.], &[4]);
    let context = backend.context().expect("a stream");
    let error = context.init_from_host(&x, &image).map(|_| ()).expect_err("it lacks margins");
    assert!(error.to_string().contains("`HostArray::with_margins_of`"), "{error}");
    let context = context.init_from_host(&x, image.with_margins_of(&x).expect("it fits")).expect("memory");
    let routine = code.link(&context).expect("all nodes are there");
    routine.run(&[]).expect("scheduled");
    assert_eq!(values(&routine, &y), [3.0, 6.0, 9.0, 7.0]);
    assert_eq!(values(&routine, &x), [1.0, 2.0, 3.0, 4.0], "without the margins");
    let other = context.from_host(&x, array(&[0.; 5], &[5])).map(|_| ()).expect_err("another size");
    assert!(!other.to_string().contains("margins"), "{other}");
}
