//! A million tasks leave no memory behind. The test has a process of its own, since it counts the memory of
//! the whole process.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{slice::from_ref, thread};

use codegen_core::Access;
use codegen_testkit::in_own_process;
use device_runtime::LinkedRoutine;
use scheduler_multicore::{Cpu, CpuConfig};

use crate::counting_allocator::live_bytes;
use crate::support::*;

const STREAMS: usize = 8;

/// Runs per stream. A run has four tasks: a kernel and its event, and two more events.
const RUNS: usize = 1_000_000 / 4 / STREAMS;

/// Schedules runs of all routines in turn, by two threads, and waits for them.
fn run(routines: &[LinkedRoutine], times: usize) {
    thread::scope(|scope| {
        for half in routines.chunks(STREAMS / 2) {
            scope.spawn(move || {
                for routine in (0..times).flat_map(|_| half) {
                    drop(routine.run(&[]).unwrap());
                    (0..2).for_each(|_| drop(routine.context().stream().all_work().unwrap()));
                }
            });
        }
    });
    routines.iter().for_each(|routine| routine.context().stream().sync().unwrap());
}

#[test]
fn a_million_tasks_through_eight_streams_leave_no_memory_behind() {
    if !in_own_process("growth::a_million_tasks_through_eight_streams_leave_no_memory_behind") {
        return;
    }
    let device = device(Cpu::multicore(CpuConfig { threads: 2, queue_capacity: 64, ..CpuConfig::default() }));
    let nodes: Vec<_> = (0..STREAMS).map(|i| node(&format!("x{i}"), 1)).collect();
    let routines: Vec<_> = nodes
        .iter()
        .map(|x| {
            let code = code("count", &[(x, Access::ReadWrite)], &[], |args, _| write(&mut args[0])[0] += 1);
            context(&device).init_from_host(x, array(&[0])).unwrap().link(&code, from_ref(x)).unwrap()
        })
        .collect();
    // Queues, tables and thread-locals grow to their final sizes.
    run(&routines, RUNS / 10);
    let before = live_bytes();
    run(&routines, RUNS - RUNS / 10);
    let grown = live_bytes().saturating_sub(before);
    // A queue may still reach a new maximum depth; a leak of one byte per task would be 900,000 bytes.
    assert!(grown < 100_000, "{grown} bytes more than after the first tenth");
    for (node, routine) in nodes.iter().zip(&routines) {
        assert_eq!(values(routine.context(), node), [RUNS as i64]);
    }
}
