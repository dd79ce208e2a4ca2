//! Dependencies between routines of one context, and long chains of contexts.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use codegen_core::Access::{Read, ReadWrite, Write};
use device_runtime::{Context, LinkedRoutine};
use scheduler_multicore::{Cpu, CpuConfig};
use support::*;
use tnode::TensorNode;

fn link(context: &Context, name: &str, uses: &[(&TensorNode, codegen_core::Access)]) -> LinkedRoutine {
    let nodes: Vec<_> = uses.iter().map(|(node, _)| (*node).clone()).collect();
    context.link(&code(name, uses, &[], |_, _| ()), &nodes).unwrap()
}

fn described(routine: &LinkedRoutine) -> Vec<String> {
    let describe = |d: &device_runtime::Dependency| {
        format!("{:?} of {} behind {}", d.hazard, d.node.name(), d.routine())
    };
    routine.dependencies().iter().map(describe).collect()
}

#[test]
fn dependencies_are_the_conflicts_with_what_was_linked_before() {
    let device = device(Cpu::inline(CpuConfig::default()));
    let (x, y) = (node("x", 1), node("y", 1));
    let set = link(&context(&device), "set", &[(&x, Write)]);
    let copy = link(set.context(), "copy", &[(&x, Read), (&y, Write)]);
    let reset = link(copy.context(), "reset", &[(&x, Write)]);
    let sum = link(reset.context(), "sum", &[(&y, ReadWrite)]);
    let apart = link(copy.context(), "apart", &[(&y, Read)]);
    assert_eq!(described(&set), [""; 0]);
    assert_eq!(described(&copy), ["ReadAfterWrite of x behind set"]);
    assert_eq!(described(&reset), ["WriteAfterWrite of x behind set", "WriteAfterRead of x behind copy"]);
    assert_eq!(described(&sum), ["ReadAfterWrite of y behind copy"]);
    assert_eq!(
        described(&apart),
        ["ReadAfterWrite of y behind copy"],
        "a sibling was linked later, elsewhere"
    );
    assert_eq!([&set, &copy, &reset, &sum].map(LinkedRoutine::can_run), [true, false, false, false]);
    drop(set.run(&[]).unwrap());
    assert_eq!([&copy, &reset, &sum].map(LinkedRoutine::can_run), [true, false, false]);
    drop(copy.run(&[]).unwrap());
    assert_eq!([&reset, &sum, &apart].map(LinkedRoutine::can_run), [true, true, true]);
}

#[test]
fn a_long_chain_of_contexts_is_dropped_like_a_short_one() {
    let device = device(Cpu::inline(CpuConfig::default()));
    let x = node("x", 1);
    let first = context(&device).init_from_host(&x, array(&[3])).unwrap();
    let stream = first.stream().clone();
    let last = (0..200_000).fold(first, |context, _| context.on_stream(&stream).unwrap());
    assert_eq!(values(&last, &x), [3]);
    drop(last);
    assert_eq!(device.memory().live_bytes, 0);
}
