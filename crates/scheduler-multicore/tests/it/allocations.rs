//! Running a routine and waiting for it allocate nothing after the first runs, on any thread. The test has
//! a process of its own, since it counts the allocations of the whole process.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use codegen_core::{Access, Launch};
use codegen_testkit::in_own_process;
use scheduler_multicore::{Cpu, CpuConfig};

use crate::counting_allocator::allocations;
use crate::support::*;

unsafe extern "C" fn nothing(_: *const *mut u8, _: *const i64, _: *mut u8, _: u64, _: u64) {}

#[test]
fn running_a_routine_and_waiting_for_it_allocate_nothing() {
    if !in_own_process("allocations::running_a_routine_and_waiting_for_it_allocate_nothing") {
        return;
    }
    // A kernel that is split into 8 chunks for two threads.
    let split = Launch { extent: 64, grain: 8, threads: 1, end: None };
    let whole = Launch { extent: 1, grain: 1, threads: 1, end: None };
    for (threads, launch) in [(1, whole), (2, whole), (2, split)] {
        let config = CpuConfig { threads, ..CpuConfig::default() };
        for device in [device(Cpu::inline(config.clone())), device(Cpu::multicore(config))] {
            let (x, y) = (node("x", 4), node("y", 4));
            let context = context(&device).init_from_host(&x, array(&[1, 2, 3, 4])).unwrap();
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
                    let before = allocations();
                    run(1000);
                    allocations() - before
                });
                assert_eq!(rounds.min(), Some(0), "{}, {threads} threads, {launch:?}, {how}", device.name());
            }
        }
    }
}
