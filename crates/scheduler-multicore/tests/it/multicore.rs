//! Features that only a scheduler with threads has: tasks that wait, full queues, kernels split over idle
//! threads.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::{
    slice::from_ref,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use codegen_core::{Access, Launch};
use device_runtime::{Context, PendingUse};
use scheduler_multicore::{Cpu, CpuConfig};
use support::*;
use tnode::TensorNode;

/// A routine that waits at the barrier and then writes 1 into the node.
fn gated(context: &Context, node: &TensorNode, gate: &Arc<Barrier>) -> device_runtime::LinkedRoutine {
    let gate = Arc::clone(gate);
    let code = code("gated", &[(node, Access::Write)], &[], move |args, _| {
        gate.wait();
        write(&mut args[0])[0] = 1;
    });
    context.link(&code, from_ref(node)).unwrap()
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn events_are_pending_until_their_tasks_are_done() {
    let device = device(Cpu::multicore(CpuConfig::default()));
    let (x, gate) = (node("x", 1), Arc::new(Barrier::new(2)));
    let routine = gated(&context(&device), &x, &gate);
    let first = routine.context().clone();
    let second = first.on_stream(&device.new_stream().unwrap()).unwrap();
    let event = routine.run(&[]).unwrap();
    let copy = code("copy", &[(&x, Access::Read)], &[], |args, _| assert_eq!(read(&args[0])[0], 1));
    let reader = second.link(&copy, from_ref(&x)).unwrap().run(&[]).unwrap();
    assert!(!event.is_done() && !reader.is_done());
    assert!(!first.stream().is_idle() && !second.stream().is_idle());
    let pending = PendingUse { writer: Some(first.stream().name()), readers: vec![second.stream().name()] };
    assert_eq!(first.pending(&x), Some(pending.clone()));
    assert_eq!(second.pending(&x), Some(pending), "both contexts see one buffer");
    gate.wait();
    device.sync().unwrap();
    assert!(event.is_done() && reader.is_done());
    assert_eq!(first.pending(&x), Some(PendingUse::default()));
    eventually("idle streams say so", || first.stream().is_idle() && second.stream().is_idle());
}

#[test]
fn an_explicit_wait_orders_streams_without_blocking_the_host() {
    let device = device(Cpu::multicore(CpuConfig::default()));
    let (x, gate) = (node("x", 1), Arc::new(Barrier::new(2)));
    let routine = gated(&context(&device), &x, &gate);
    let event = routine.run(&[]).unwrap();
    let other = device.new_stream().unwrap();
    other.will_wait_for(&event).unwrap();
    let behind = other.all_work().unwrap();
    assert!(!behind.is_done());
    gate.wait();
    behind.sync().unwrap();
    assert!(event.is_done());
}

#[test]
fn a_full_queue_holds_its_producer_back() {
    let device = device(Cpu::multicore(CpuConfig { queue_capacity: 4, ..CpuConfig::default() }));
    let (x, gate) = (node("x", 1), Arc::new(Barrier::new(2)));
    let routine = gated(&context(&device), &x, &gate);
    routine.run(&[]).unwrap();
    let through = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                drop(routine.context().stream().all_work().unwrap());
                through.fetch_add(1, Ordering::Relaxed);
            }
        });
        eventually("the queue fills", || through.load(Ordering::Relaxed) >= 3);
        thread::sleep(Duration::from_millis(20));
        let passed = through.load(Ordering::Relaxed);
        assert!(passed <= 2 * 4, "{passed} tasks passed a queue of 4 whose worker stands still");
        gate.wait();
    });
    assert_eq!(through.load(Ordering::Relaxed), 100);
}

static OTHER_THREAD: AtomicBool = AtomicBool::new(false);
static FIRST: std::sync::OnceLock<thread::ThreadId> = std::sync::OnceLock::new();

/// Waits a little in each chunk, so that pool workers have time to arrive.
unsafe extern "C" fn slow(_: *const *mut u8, _: *const i64, _: *mut u8, _: u64, _: u64) {
    if *FIRST.get_or_init(|| thread::current().id()) != thread::current().id() {
        OTHER_THREAD.store(true, Ordering::Relaxed);
    }
    thread::sleep(Duration::from_millis(1));
}

#[test]
fn suggestions_follow_the_strategy() {
    use device_runtime::StreamStrategy::*;
    for (strategy, suggested) in [(OnlyDevicesParallel, 1), (ForParallelCopying, 2), (MostParallelStreams, 4)]
    {
        let cpu = Cpu::multicore(CpuConfig { threads: 4, ..CpuConfig::default() });
        let device = device(cpu);
        device.initialize(strategy);
        assert_eq!(device.suggested_num_streams(), suggested);
        assert!(device.driver().static_properties().contains(&("threads", "4".to_owned())));
    }
}

#[test]
fn idle_threads_help_with_a_large_kernel() {
    let device = device(Cpu::multicore(CpuConfig { threads: 3, ..CpuConfig::default() }));
    let x = node("x", 64);
    let launch = Launch { extent: 64, grain: 1, threads: 1, end: None };
    let code = native("slow", &[(&x, Access::Write)], launch, 0, slow);
    let routine = context(&device).link(&code, from_ref(&x)).unwrap();
    for _ in 0..200 {
        routine.run(&[]).unwrap().sync().unwrap();
        if OTHER_THREAD.load(Ordering::Relaxed) {
            return;
        }
    }
    panic!("no pool worker ever arrived");
}

/// Each iteration writes the number of the first iteration of its chunk.
unsafe extern "C" fn chunk(args: *const *mut u8, _: *const i64, _: *mut u8, begin: u64, end: u64) {
    for at in begin..end {
        // SAFETY: the only parameter is a node with one integer per iteration of the kernel.
        unsafe { (*args).cast::<i64>().add(at as usize).write(begin as i64) };
    }
}

#[test]
fn chunks_are_equal_and_no_smaller_than_the_grain_for_any_number_of_threads() {
    for threads in 1..=4 {
        let device = device(Cpu::multicore(CpuConfig { threads, ..CpuConfig::default() }));
        for (extent, grain) in [(1000, 96), (191, 96), (192, 96), (24, 6), (7, 1)] {
            let x = node("x", extent);
            let launch = Launch { extent: extent as u64, grain, threads: 1, end: None };
            let code = native("chunk", &[(&x, Access::Write)], launch, 0, chunk);
            let routine = context(&device).link(&code, from_ref(&x)).unwrap();
            for _ in 0..50 {
                routine.run(&[]).unwrap().sync().unwrap();
                let begins = routine.context().to_host(&x).unwrap().values();
                let mut starts = begins.clone();
                starts.dedup();
                assert!(starts.is_sorted() && starts[0] == 0.0, "{starts:?}");
                let ends = starts[1..].iter().copied().chain([extent as f64]);
                let sizes: Vec<f64> = starts.iter().zip(ends).map(|(begin, end)| end - begin).collect();
                assert!(sizes.iter().all(|&size| size >= grain as f64), "{starts:?}");
                assert!(sizes.iter().all(|&size| (size - sizes[0]).abs() <= 1.0), "{starts:?}");
                assert!(begins.iter().enumerate().all(|(at, &begin)| begin <= at as f64));
                let most = (extent as u64 / grain).min(4 * threads as u64).max(1);
                assert!(starts.len() as u64 <= most, "{starts:?}");
            }
        }
    }
}
