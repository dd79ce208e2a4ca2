//! A context shares its table of nodes with the context that it extends: in a chain, each takes memory only
//! for the nodes that it adds. This program has only one test, since it counts the memory of the whole
//! process.
#![allow(unsafe_code, reason = "wraps the system's allocator to count")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[path = "it/support/mod.rs"]
mod support;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

use codegen_core::Access;
use device_runtime::Context;
use scheduler_multicore::{Config, Cpu};
use support::*;

struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, base: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`, and `base` is the system's.
        unsafe { System.dealloc(base, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The size in bytes of a chain of `length` contexts. In each of them a routine reads a node that all
/// contexts have and writes a node of its own.
fn chain(first: &Context, length: usize) -> usize {
    let x = first.nodes().remove(0);
    let nodes: Vec<_> = (0..length).map(|at| node(&format!("y{at}"), 1)).collect();
    let copy = code("copy", &[(&x, Access::Read), (&nodes[0], Access::Write)], &[], |_, _| ());
    let before = LIVE_BYTES.load(Ordering::Relaxed);
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
    LIVE_BYTES.load(Ordering::Relaxed) - before
}

#[test]
fn chained_contexts_take_memory_for_what_they_add() {
    let device = device(Cpu::inline(Config::default()));
    let first = context(&device).init_from_host(&node("x", 1), &array(&[1])).unwrap();
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    let [short, long] = [500, 5000].map(|length| chain(&first, length));
    eprintln!("500 contexts: {short} bytes, 5,000 contexts: {long} bytes");
    assert!(long < 5000 * 8192, "{long}");
    assert!(long < short * 15, "{short}, {long}");
    device.sync().unwrap();
    // Dropping the last owner frees the shared tables, whatever the length of the chain.
    assert!(LIVE_BYTES.load(Ordering::Relaxed) < before + (1 << 20));
}
