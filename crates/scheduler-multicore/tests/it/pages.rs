//! Large memory is on huge pages, where the system has them. The test has a process of its own, since it
//! reads the mappings of the whole process.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{
    fs,
    slice::from_ref,
    sync::atomic::{AtomicUsize, Ordering},
};

use codegen_core::{Access, Launch};
use codegen_testkit::in_own_process;
use scheduler_multicore::{Cpu, CpuConfig};

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
        let huge = field(&mapping, "AnonHugePages:");
        println!("{what}: {huge}");
        assert!(never() || !huge.trim().starts_with("0 "), "the {what} has huge pages: {mapping}");
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

/// Whether the system is configured to ignore advice and provide no huge pages.
fn never() -> bool {
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    setting.is_ok_and(|setting| setting.contains("[never]"))
}
