//! Running a routine and waiting for it allocate nothing after the first runs, on any thread. This program
//! has only one test, since it counts the allocations of the whole process.
#![allow(unsafe_code, reason = "wraps the system's allocator to count")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[path = "it/support/mod.rs"]
mod support;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

use codegen_core::{Access, Launch};
use scheduler_multicore::{Config, Cpu};
use support::*;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, base: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and `base` is the system's.
        unsafe { System.dealloc(base, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

unsafe extern "C" fn nothing(_: *const *mut u8, _: *const i64, _: *mut u8, _: u64, _: u64) {}

#[test]
fn running_a_routine_and_waiting_for_it_allocate_nothing() {
    // A kernel that is split into 8 chunks for two threads.
    let split = Launch { extent: 64, grain: 8, threads: 1 };
    let whole = Launch { extent: 1, grain: 1, threads: 1 };
    for (threads, launch) in [(1, whole), (2, whole), (2, split)] {
        let config = Config { threads, ..Config::default() };
        for device in [device(Cpu::inline(config.clone())), device(Cpu::multicore(config))] {
            let (x, y) = (node("x", 4), node("y", 4));
            let context = context(&device).init_from_host(&x, &array(&[1, 2, 3, 4])).unwrap();
            let uses = [(&x, Access::Read), (&y, Access::Write)];
            let code = native("nothing", &uses, launch, 4096, nothing);
            let routine = context.link(&code, &[x.clone(), y.clone()]).unwrap();
            let waiting = |times: u32| (0..times).for_each(|_| routine.run(&[]).unwrap().sync().unwrap());
            let ahead = |times: u32| {
                for _ in 0..times / 20 {
                    (0..19).for_each(|_| drop(routine.run(&[]).unwrap()));
                    routine.run(&[]).unwrap().sync().unwrap();
                }
            };
            for (how, run) in [("waiting", &waiting as &dyn Fn(u32)), ("running ahead", &ahead)] {
                (0..10).for_each(|_| run(100));
                // The minimum of several rounds counts, since the test harness's own thread is counted too.
                let rounds = (0..5).map(|_| {
                    let before = ALLOCATIONS.load(Ordering::Relaxed);
                    run(1000);
                    ALLOCATIONS.load(Ordering::Relaxed) - before
                });
                assert_eq!(rounds.min(), Some(0), "{}, {threads} threads, {launch:?}, {how}", device.name());
            }
        }
    }
}
