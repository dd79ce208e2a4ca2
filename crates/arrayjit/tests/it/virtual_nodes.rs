//! A virtual node's computation is inlined into later routines, as long as that gives the same value.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit::{Backend, CompileError, Context, HostArray, MemoryMode, TensorNode};

const BACKENDS: [&str; 3] = ["interpreter", "inline", "multicore"];

fn node(name: &str, dims: &[usize]) -> TensorNode {
    TensorNode::builder(name).dims(dims.iter().copied()).mode(MemoryMode::Materialized).build().unwrap()
}

fn virtual_node(name: &str, dims: &[usize]) -> TensorNode {
    TensorNode::builder(name).dims(dims.iter().copied()).mode(MemoryMode::Virtual).build().unwrap()
}

fn with(context: Context, node: &TensorNode, values: &[f32]) -> Context {
    let dims = node.dims().unwrap();
    context.init_from_host(node, HostArray::from_slice(values, dims).unwrap()).unwrap()
}

fn message(result: Result<arrayjit::Compiled, CompileError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_virtual_node_is_used_in_the_routine_after() {
    for name in BACKENDS {
        let backend = Backend::open(name).unwrap();
        let (x, t) = (node("x", &[3]), virtual_node("t", &[3]));
        let (y, z) = (node("y", &[3]), node("z", &[2, 3]));
        let first = backend.compile("t[i] := x[i] * x[i] + 1\ny[i] := t[i]", [&x, &t, &y]).unwrap();
        // The second routine names neither `x` nor the computation of `t`.
        let second = backend.compile("z[j,i] := t[i] * (j + 1) where j < 2", [&t, &z]).unwrap();
        assert!(second.nodes().contains(&x), "the input becomes a node of the second routine");
        let context = with(backend.context().unwrap(), &x, &[1., 2., 3.]);
        let first = first.link(&context).unwrap();
        let second = second.link(first.context()).unwrap();
        first.run(&[]).unwrap();
        second.run(&[]).unwrap();
        assert_eq!(second.context().to_host(&y).unwrap().values(), [2., 5., 10.]);
        assert_eq!(second.context().to_host(&z).unwrap().values(), [2., 5., 10., 4., 10., 20.]);
    }
}

#[test]
fn computations_are_carried_through_a_chain_of_routines() {
    for name in BACKENDS {
        let backend = Backend::open(name).unwrap();
        let (x, d, e, y) =
            (node("x", &[2]), virtual_node("d", &[2, 2]), virtual_node("e", &[2, 2]), node("y", &[2, 2]));
        // The first computation is a diagonal with zeros elsewhere, the second reads only a virtual node, and
        // the third adds to values of the second.
        backend.compile("d[i,i] :+= x[i]", [&x, &d]).unwrap();
        backend.compile("e[i,j] := d[j,i] + 10 * i", [&d, &e]).unwrap();
        let last = backend.compile("e[0,j] += 0.5\ny[i,j] := e[i,j]", [&e, &y]).unwrap();
        let context = with(backend.context().unwrap(), &x, &[1., 2.]);
        let last = last.link(&context).unwrap();
        last.run(&[]).unwrap();
        assert_eq!(last.context().to_host(&y).unwrap().values(), [1.5, 0.5, 10., 12.]);
    }
}

#[test]
fn an_input_overwritten_since_is_named() {
    let backend = Backend::open("interpreter").unwrap();
    let (x, t, y) = (node("x", &[3]), virtual_node("t", &[3]), node("y", &[3]));
    backend.compile_named("define", "t[i] := x[i] + 1", [&x, &t]).unwrap();
    backend.compile_named("step", "x[i] := x[i] - t[i]", [&x, &t]).unwrap();
    assert_eq!(
        message(backend.compile_named("late", "y[i] := t[i]", [&t, &y])),
        "line 1, column 9: routine \"late\": node %0 \"t\" is virtual, but cannot be because its input \"x\" was overwritten by routine \"step\" after it was computed; compute it again; specify `MemoryMode::Materialized` for it, or no mode\n\
         1 | y[i] := t[i]\n  |         ^^^^"
    );
    // After a new computation the node can be read again. Overwriting an input before the use in the same
    // routine is rejected as in any routine.
    backend.compile_named("define", "t[i] := x[i] + 1", [&x, &t]).unwrap();
    let early = message(backend.compile_named("early", "x[i] := 0\ny[i] := t[i]", [&x, &t, &y]));
    assert!(early.contains("its input \"x\" is overwritten before its last use"), "{early}");
    assert!(backend.compile("y[i] := t[i]", [&t, &y]).is_ok(), "the rejected routine has changed nothing");
}

#[test]
fn what_belongs_to_one_run_is_not_carried() {
    let backend = Backend::open("interpreter").unwrap();
    let (x, t, y) = (node("x", &[4]), virtual_node("t", &[2]), node("y", &[2]));
    backend.compile_named("window", "t[i] := x[i + @s] where @s < 3", [&x, &t]).unwrap();
    let without = message(backend.compile("y[i] := t[i]", [&t, &y]));
    assert!(
        without.contains("because routine \"window\" computes it from the symbol @s in 0..3, which a run of this routine does not have"),
        "{without}"
    );
    // A later routine with the same symbol binds it.
    let bound = backend.compile("y[i] := t[i] + @s where @s < 3", [&t, &y]).unwrap();
    let routine = bound.link(&with(backend.context().unwrap(), &x, &[1., 2., 3., 4.])).unwrap();
    routine.run(&[2]).unwrap();
    assert_eq!(routine.context().to_host(&y).unwrap().values(), [5., 6.]);

    let (m, u) = (node("m", &[2]), virtual_node("u", &[2]));
    backend.compile_named("receive", "u[i] := m.merge[i] * 2", [&m, &u]).unwrap();
    let merged = message(backend.compile("y[i] := u[i]", [&u, &y]));
    assert!(merged.contains("routine \"receive\" computes it from the merge buffer"), "{merged}");
}

#[test]
fn an_input_that_is_local_to_its_routine_is_named() {
    let backend = Backend::open("interpreter").unwrap();
    let (x, t, y) = (node("x", &[3]), virtual_node("t", &[3]), node("y", &[3]));
    let text = "b[] :+= x[i]\nt[i] := x[i] * b[]\ny[i] := t[i]";
    let open = TensorNode::builder("b").build().unwrap();
    backend.compile_named("first", text, [&x, &open, &t, &y]).unwrap();
    let local = message(backend.compile("y[i] := t[i] + 1", [&t, &y]));
    assert!(
        local.contains("because routine \"first\" computes it from \"b\", which is local to that routine; specify `MemoryMode::Materialized` for \"b\""),
        "{local}"
    );
    // If the input has memory of its own, a later routine can inline the computation.
    let (kept, u) =
        (TensorNode::builder("b").mode(MemoryMode::Materialized).build().unwrap(), virtual_node("t", &[3]));
    let first = backend.compile(text, [&x, &kept, &u, &y]).unwrap();
    let second = backend.compile("y[i] := t[i] + 1", [&u, &y]).unwrap();
    let first = first.link(&with(backend.context().unwrap(), &x, &[1., 2., 3.])).unwrap();
    let second = second.link(first.context()).unwrap();
    first.run(&[]).unwrap();
    second.run(&[]).unwrap();
    assert_eq!(second.context().to_host(&y).unwrap().values(), [7., 13., 19.]);
}

#[test]
fn a_node_of_another_backend_is_not_known_here() {
    let (x, t, y) = (node("x", &[3]), virtual_node("t", &[3]), node("y", &[3]));
    Backend::open("interpreter").unwrap().compile("t[i] := x[i] + 1", [&x, &t]).unwrap();
    let other = message(Backend::open("interpreter").unwrap().compile("y[i] := t[i]", [&t, &y]));
    assert!(other.contains("no statement of this routine computes it"), "{other}");
}

#[test]
fn explanations_tell_what_was_decided_and_why() {
    let backend = Backend::open("interpreter").unwrap();
    let (x, y) = (node("x", &[4]), node("y", &[4, 4]));
    let open = |name| TensorNode::builder(name).dims([4]).build().unwrap();
    let (once, costly, sum) = (open("once"), open("costly"), TensorNode::builder("sum").build().unwrap());
    let text =
        "once[i] := x[i] / 3\ncosty[i] := exp(once[i])\nsum[] :+= costy[i]\ny[i,j] := costy[j] * sum[]";
    let text = text.replace("costy", "costly");
    let compiled = backend.compile(&text, [&x, &once, &costly, &sum, &y]).unwrap();
    let explain = |node| compiled.explain(node).unwrap();
    assert!(
        explain(&once)
            .contains("virtual because it is inlined at every use, since no element is read twice ["),
        "{}",
        explain(&once)
    );
    assert!(
        explain(&costly)
            .contains("never_virtual because each element is read up to 5 times, more than max_visits = 1"),
        "{}",
        explain(&costly)
    );
    assert!(
        explain(&sum).contains("never_virtual because it is computed by a reduction"),
        "{}",
        explain(&sum)
    );
    assert!(explain(&sum).contains("modes.rs:"), "the source is named: {}", explain(&sum));
    assert_eq!(compiled.explain(&node("stranger", &[1])), None);
}
