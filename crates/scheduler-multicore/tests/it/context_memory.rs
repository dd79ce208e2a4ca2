//! A context shares its table of nodes with the context that it extends: in a chain, each context takes
//! memory only for the nodes that it adds. The test has a process of its own, since it counts the memory of
//! the whole process.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use codegen_core::Access;
use codegen_testkit::in_own_process;
use device_runtime::Context;
use scheduler_multicore::{Cpu, CpuConfig};

use crate::counting_allocator::live_bytes;
use crate::support::*;

/// The size in bytes of a chain of `length` contexts. In each of them a routine reads a node that all
/// contexts have and writes a node of its own.
fn chain(first: &Context, length: usize) -> usize {
    let x = first.nodes().remove(0);
    let nodes: Vec<_> = (0..length).map(|at| node(&format!("y{at}"), 1)).collect();
    let copy = code("copy", &[(&x, Access::Read), (&nodes[0], Access::Write)], &[], |_, _| ());
    let before = live_bytes();
    let mut context = first.clone();
    for node in &nodes {
        context = context.link(&copy, &[x.clone(), node.clone()]).unwrap().context().clone();
    }
    assert!(nodes.iter().all(|node| context.contains(node)) && context.nodes().len() == length + 1);
    let mut parents = 0;
    let mut at = &context;
    while let Some(parent) = at.parent() {
        (at, parents) = (parent, parents + 1);
    }
    assert!(parents >= length, "a child sees its parents");
    live_bytes() - before
}

#[test]
fn chained_contexts_take_memory_for_what_they_add() {
    if !in_own_process("context_memory::chained_contexts_take_memory_for_what_they_add") {
        return;
    }
    let device = device(Cpu::inline(CpuConfig::default()));
    let first = context(&device).init_from_host(&node("x", 1), array(&[1])).unwrap();
    let before = live_bytes();
    let [short, long] = [500, 5000].map(|length| chain(&first, length));
    eprintln!("500 contexts: {short} bytes, 5,000 contexts: {long} bytes");
    assert!(long < 5000 * 8192, "{long}");
    assert!(long < short * 15, "{short}, {long}");
    device.sync().unwrap();
    // Dropping the last owner frees the shared tables, whatever the length of the chain.
    assert!(live_bytes() < before + (1 << 20));
}
