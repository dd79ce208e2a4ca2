//! Large memory is on huge pages, where the system has them. Tests have processes of their own, since they
//! read the mappings of the whole process.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{
    fs,
    slice::from_ref,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use codegen_core::{Access, Launch};
use codegen_testkit::in_own_process;
use scheduler_multicore::{Cpu, CpuConfig};
use tnode::{HostArray, TensorNode};

use crate::support::*;

const HUGE_PAGE: usize = 2 << 20;

/// The number of 8-byte elements of the node, and of the scratch memory.
const ELEMENTS: usize = 1 << 20;
const BYTES: usize = 8 * ELEMENTS;

static NODE: AtomicUsize = AtomicUsize::new(0);
static SCRATCH: AtomicUsize = AtomicUsize::new(0);

/// A kernel that fills its node and its scratch memory and records their addresses.
unsafe extern "C" fn fill(args: *const *mut u8, _: *const i64, scratch: *mut u8, _: u64, _: u64) {
    // SAFETY: the only parameter is a node of `BYTES` bytes; the scratch memory has the same size.
    unsafe {
        (*args).write_bytes(1, BYTES);
        scratch.write_bytes(1, BYTES);
        NODE.store((*args).addr(), Ordering::Relaxed);
    }
    SCRATCH.store(scratch.addr(), Ordering::Relaxed);
}

#[test]
fn pools_and_scratch_memory_lie_on_huge_pages() {
    if !in_own_process("pages::pools_and_scratch_memory_lie_on_huge_pages") {
        return;
    }
    let device = device(Cpu::inline(CpuConfig::default()));
    let x = node("x", ELEMENTS);
    let launch = Launch { extent: 1, grain: 1, threads: 1, end: None };
    let code = native("fill", &[(&x, Access::Write)], launch, BYTES, fill);
    let routine = context(&device).link(&code, from_ref(&x)).unwrap();
    routine.run(&[]).unwrap().sync().unwrap();
    for (what, base) in [("node", &NODE), ("scratch", &SCRATCH)] {
        let base = base.load(Ordering::Relaxed);
        assert!(base.is_multiple_of(HUGE_PAGE), "the {what} begins at a huge page");
        let mapping = mapping(base);
        assert!(field(&mapping, "VmFlags:").contains(" hg"), "the {what} is advised: {mapping}");
        assert!(has_none() || is_huge(&mapping), "the {what} has huge pages: {mapping}");
    }
}

/// Weights lie one behind the other on small pages of the heap, and none fills a huge page.
#[test]
fn arrays_of_the_heap_that_nodes_take_over_move_to_huge_pages() {
    if !in_own_process("pages::arrays_of_the_heap_that_nodes_take_over_move_to_huge_pages") {
        return;
    }
    let device = device(Cpu::inline(CpuConfig::default()));
    let array = |_| HostArray::from_slice(&vec![1i64; 1 << 16], [1 << 16]).unwrap();
    let arrays: Vec<HostArray> = (0..32).map(array).collect();
    let bases: Vec<usize> = arrays.iter().map(|array| array.bytes().as_ptr().addr()).collect();
    let mut context = context(&device);
    let weights: Vec<TensorNode> = (0..32).map(|at| node(&format!("w{at}"), 1 << 16)).collect();
    for (at, (weight, array)) in weights.iter().zip(arrays).enumerate() {
        context = match at % 2 {
            0 => context.init_from_host(weight, array).unwrap(),
            _ => context.init_shared(weight, Arc::new(array)).unwrap(),
        };
    }
    let huge = bases.iter().filter(|&&base| is_huge(&mapping(base))).count();
    assert!(has_none() || huge > bases.len() / 2, "{huge} arrays are in mappings with huge pages");
    for (weight, base) in weights.iter().zip(bases) {
        let values = context.to_host(weight).unwrap();
        assert!(values.as_slice::<i64>().unwrap().iter().all(|&value| value == 1), "{base:x}");
    }
}

/// The lines of `smaps` about the mapping that holds an address.
fn mapping(address: usize) -> String {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let holds = |line: &str| {
        let (begin, end) = line.split_whitespace().next()?.split_once('-')?;
        let hex = |text| usize::from_str_radix(text, 16).ok();
        Some((hex(begin)?..hex(end)?).contains(&address))
    };
    let lines = maps.lines().skip_while(|line| holds(line) != Some(true));
    let mut lines = lines.take_while(|line| holds(line) != Some(false));
    lines.by_ref().collect::<Vec<_>>().join("\n")
}

/// The rest of the line that begins with a name.
fn field<'a>(mapping: &'a str, name: &str) -> &'a str {
    mapping.lines().find_map(|line| line.strip_prefix(name)).unwrap()
}

fn is_huge(mapping: &str) -> bool {
    !field(mapping, "AnonHugePages:").trim().starts_with("0 ")
}

/// Whether the system gives no huge pages at present, even for large memory that asks for them.
fn has_none() -> bool {
    let mut bytes: Vec<u8> = Vec::with_capacity(8 * HUGE_PAGE);
    let start = bytes.as_ptr().addr().next_multiple_of(HUGE_PAGE);
    let start = bytes.as_mut_ptr().with_addr(start);
    // SAFETY: the advice concerns memory of the vector, and changes no contents.
    unsafe { libc::madvise(start.cast(), 4 * HUGE_PAGE, libc::MADV_HUGEPAGE) };
    bytes.resize(8 * HUGE_PAGE, 1);
    !is_huge(&mapping(start.addr()))
}
