//! Nodes without elements have no values, and are written, read, linked to and merged like all other nodes.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit::{
    Backend, Context, DType, HostArray, MemoryMode, MergeBufferUse, Padding, Settings, TensorNode,
};

const BACKENDS: &[&str] =
    if cfg!(feature = "cranelift") { &["inline", "multicore", "interpreter"] } else { &["interpreter"] };

fn node(name: &str, dims: &[usize]) -> TensorNode {
    TensorNode::builder(name).dims(dims.iter().copied()).build().unwrap()
}

/// A node of `f32` with margins of one element on each side, which hold 2 between routines.
fn padded(name: &str, dims: &[usize]) -> TensorNode {
    let padding = Padding::new(dims.iter().map(|_| (1, 1)), Some(2.0));
    let node = TensorNode::builder(name).dims(dims.iter().copied()).dtype(DType::F32);
    node.padding(padding).build().unwrap()
}

/// Checks that a node of [`padded`] has no values, and its margins.
fn only_margins(context: &Context, node: &TensorNode) {
    let array = context.to_host(node).unwrap();
    assert_eq!(array.num_values(), 0);
    let margins: Vec<f32> =
        array.bytes().chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(margins, vec![2.0; node.num_elems().unwrap()], "{}", node.name());
}

fn empty(context: &Context, node: &TensorNode) {
    let array = context.to_host(node).unwrap();
    assert_eq!((array.num_values(), array.dims()), (0, &node.dims().unwrap()), "{}", node.name());
}

#[test]
fn a_routine_writes_nodes_without_elements() {
    for name in BACKENDS {
        let backend = Backend::open_with(name, &Settings::default()).unwrap();
        let (x, y, z) = (node("x", &[0, 3]), node("y", &[0, 3]), node("z", &[2, 0]));
        let (sum, total) = (node("sum", &[3]), node("total", &[0]));
        let nodes = [&x, &y, &z, &sum, &total];
        let context = backend.context().unwrap();
        let context = context.init_from_host(&x, HostArray::zeros(x.dtype(), [0, 3]).unwrap()).unwrap();
        // The text has every kind of statement, including updates in place and scatters.
        let text = "y[i,j] := x[i,j] * 2; z[i,j] :+= 1; z[i,j] += 1; total[i] :+= x[i,j]; sum[j] :+= y[i,j]";
        let routine = backend.compile(text, nodes).unwrap().link(&context).unwrap();
        let outputs: Vec<String> = routine.outputs().iter().map(TensorNode::name).collect();
        for written in ["z", "total", "sum"] {
            assert!(outputs.iter().any(|name| name == written), "{name}: {outputs:?}");
        }
        routine.run(&[]).unwrap().sync().unwrap();
        [&z, &total].into_iter().for_each(|node| empty(routine.context(), node));
        assert_eq!(routine.context().to_host(&sum).unwrap().values(), [0.0; 3], "{name}");
    }
}

/// The routine neither writes nor reads the node that `pad` reads, because every index is outside of it.
#[test]
fn a_pad_of_a_node_without_elements_is_its_number() {
    for name in BACKENDS {
        let backend = Backend::open_with(name, &Settings::default()).unwrap();
        let mode = MemoryMode::Materialized;
        let none = TensorNode::builder("none").dims([0, 3]).mode(mode).build().unwrap();
        let y = node("y", &[3]);
        let text = "none[i,j] :+= 1; y[j] :+= pad(none, 0.5)[j - @t, 0] where @t < 3";
        let routine = backend.compile(text, [&none, &y]).unwrap().link(&backend.context().unwrap()).unwrap();
        routine.run(&[1]).unwrap().sync().unwrap();
        assert_eq!(routine.context().to_host(&y).unwrap().values(), [0.5; 3], "{name}");
    }
}

/// Other routines read the node `y` that a first one writes, on the same stream and through the merge buffer
/// of another stream. The text `read` computes `z`, and `check` looks at what a context holds of `y` or `z`.
fn linked_on_and_merged(
    name: &str,
    [y, z]: [&TensorNode; 2],
    read: &str,
    check: impl Fn(&Context, &TensorNode),
) {
    let backend = Backend::open_with(name, &Settings::default()).unwrap();
    let s = node("s", &[3]);
    let write = backend.compile("y[i,j] := i + j", [y]).unwrap();
    let read = backend.compile(read, [y, z]).unwrap();
    let sum = backend.compile("s[j] :+= y[i,j]", [y, &s]).unwrap();
    let add = backend.compile("z[i,j] += y[i,j]", [y, z]).unwrap();
    let merge = backend.compile("y[i,j] += y.merge[i,j]", [y]).unwrap();
    let write = write.link(&backend.context().unwrap()).unwrap();
    assert_eq!(write.outputs(), std::slice::from_ref(y), "{name}");
    write.run(&[]).unwrap().sync().unwrap();
    check(write.context(), y);
    let read = read.link(write.context()).unwrap();
    assert_eq!(read.outputs(), std::slice::from_ref(z), "{name}");
    let sum = sum.link(read.context()).unwrap();
    let add = add.link(sum.context()).unwrap();
    [&read, &sum, &add].into_iter().for_each(|routine| drop(routine.run(&[]).unwrap()));
    check(add.context(), z);
    assert_eq!(add.context().to_host(&s).unwrap().values(), [0.0; 3], "{name}");

    let other = backend.compile("y[i,j] := i", [y]).unwrap().link(&backend.context().unwrap()).unwrap();
    other.run(&[]).unwrap();
    let merged = merge.link(other.context()).unwrap();
    for mode in [MergeBufferUse::No, MergeBufferUse::Copy] {
        merged.context().device_to_device(y, mode, write.context()).unwrap().sync().unwrap();
    }
    merged.run(&[]).unwrap().sync().unwrap();
    check(merged.context(), y);
}

#[test]
fn nodes_without_elements_are_linked_on_and_merged() {
    for name in BACKENDS {
        let nodes = [&node("y", &[0, 3]), &node("z", &[0, 3])];
        linked_on_and_merged(name, nodes, "z[i,j] := y[i,j] + 1", empty);
    }
}

/// A node with margins and without values is treated like all other nodes.
#[test]
fn nodes_of_margins_alone_are_written_linked_on_read_and_merged() {
    for name in BACKENDS {
        let nodes = [&padded("y", &[0, 3]), &padded("z", &[0, 3])];
        linked_on_and_merged(name, nodes, "z[i,j] :+= y[i,j] + 1", only_margins);
    }
}
