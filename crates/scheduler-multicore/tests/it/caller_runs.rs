//! Callers that wait for an event run the pending tasks before it, and producers run quick tasks themselves.
//! Neither changes the results.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::{
    cell::Cell,
    slice::from_ref,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use codegen_core::{Access, Launch};
use device_runtime::{Context, Device, LinkedRoutine};
use scheduler_multicore::{Cpu, CpuConfig};
use support::*;

fn two_threads() -> Device {
    device(Cpu::multicore(CpuConfig { threads: 2, ..CpuConfig::default() }))
}

/// A routine that records the thread that it runs on.
fn noting(context: &Context, name: &str, threads: &Arc<Mutex<Vec<ThreadId>>>) -> LinkedRoutine {
    let (x, threads) = (node(name, 1), Arc::clone(threads));
    let code = code(name, &[(&x, Access::Write)], &[], move |_, _| {
        threads.lock().unwrap().push(thread::current().id());
    });
    context.link(&code, from_ref(&x)).unwrap()
}

/// Long enough for an idle worker to fall asleep.
fn let_sleep() {
    thread::sleep(Duration::from_millis(1));
}

#[test]
fn a_caller_that_waits_runs_the_tasks_of_a_sleeping_stream() {
    let device = two_threads();
    let threads = Arc::default();
    let routine = noting(&context(&device), "x", &threads);
    for _ in 0..50 {
        let_sleep();
        routine.run(&[]).unwrap().sync().unwrap();
    }
    let threads = threads.lock().unwrap();
    let own = threads.iter().filter(|id| **id == thread::current().id()).count();
    assert_eq!(threads.len(), 50);
    assert!(own > 0, "waking a worker never took longer than one call");
}

thread_local! {
    static IS_CALLER: Cell<bool> = const { Cell::new(false) };
}

/// A compiled, quick routine with a minimum running time in nanoseconds, and the number of its runs on
/// threads other than the caller's.
macro_rules! quick_routine {
    ($device:expr, $nanoseconds:expr) => {{
        static OTHERS: AtomicUsize = AtomicUsize::new(0);
        unsafe extern "C" fn note(_: *const *mut u8, _: *const i64, _: *mut u8, _: u64, _: u64) {
            let start = ($nanoseconds > 0).then(Instant::now);
            while start.is_some_and(|start| start.elapsed() < Duration::from_nanos($nanoseconds)) {}
            if !IS_CALLER.get() {
                OTHERS.fetch_add(1, Ordering::Relaxed);
            }
        }
        IS_CALLER.set(true);
        let x = node("x", 1);
        let launch = Launch { extent: 1, grain: 1, threads: 1, end: None };
        let code = native("note", &[(&x, Access::Write)], launch, 0, note);
        (context(&$device).link(&code, from_ref(&x)).unwrap(), &OTHERS)
    }};
}

#[test]
fn a_producer_runs_a_kernel_itself_that_was_quick() {
    let device = two_threads();
    let (routine, others) = quick_routine!(device, 0);
    // There are many attempts, since on a busy machine the kernel may look slow for a while.
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < Duration::from_secs(60), "the producer never ran the kernel itself");
        routine.run(&[]).unwrap().sync().unwrap();
        let_sleep();
        let before = others.load(Ordering::Relaxed);
        if routine.run(&[]).unwrap().is_done() && others.load(Ordering::Relaxed) == before {
            break;
        }
    }
}

#[test]
fn a_producer_that_runs_ahead_wakes_the_worker() {
    let device = two_threads();
    let (routine, others) = quick_routine!(device, 1000);
    let start = Instant::now();
    while others.load(Ordering::Relaxed) == 0 {
        assert!(start.elapsed() < Duration::from_secs(20));
        (0..100).for_each(|_| drop(routine.run(&[]).unwrap()));
    }
}

#[test]
fn a_caller_stops_at_its_event_and_wakes_the_worker_for_the_rest() {
    let device = two_threads();
    let threads = Arc::default();
    let context = context(&device);
    let routine = noting(&context, "x", &threads);
    for round in 0..200 {
        if round % 2 == 0 {
            let_sleep();
        }
        let first = routine.run(&[]).unwrap();
        let rest: Vec<_> = (0..5).map(|_| routine.run(&[]).unwrap()).collect();
        first.sync().unwrap();
        // Polling runs no tasks, so the worker must run the rest.
        let start = Instant::now();
        while !rest.iter().all(device_runtime::Event::is_done) {
            assert!(start.elapsed() < Duration::from_secs(20), "the rest was forgotten");
            thread::yield_now();
        }
    }
    assert_eq!(threads.lock().unwrap().len(), 1200);
}

#[test]
fn a_panic_on_the_callers_thread_fails_the_stream_and_not_the_caller() {
    let device = two_threads();
    let x = node("x", 1);
    let bad = code("bad", &[(&x, Access::Write)], &[], |_, _| panic!("no luck"));
    for _ in 0..20 {
        let_sleep();
        let routine = context(&device).link(&bad, from_ref(&x)).unwrap();
        let error = routine.run(&[]).unwrap().sync().unwrap_err();
        assert_eq!(error.failure().unwrap().message(), "no luck");
        routine.context().stream().reset().unwrap();
        routine.context().stream().sync().unwrap();
    }
}

#[test]
fn a_stream_closed_while_a_caller_runs_its_tasks_ends_after_the_caller() {
    for _ in 0..50 {
        let device = two_threads();
        let x = node("x", 1);
        let (count, started) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(2)));
        let (counted, gate) = (Arc::clone(&count), Arc::clone(&started));
        let slow = code("slow", &[(&x, Access::Write)], &[], move |_, _| {
            gate.wait();
            thread::sleep(Duration::from_millis(1));
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let_sleep();
        let routine = context(&device).link(&slow, from_ref(&x)).unwrap();
        let event = routine.run(&[]).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| event.sync().unwrap());
            started.wait();
            drop(routine);
            assert_eq!(
                count.load(Ordering::Relaxed),
                1,
                "dropping a stream waits for the thread that runs its tasks"
            );
        });
    }
}
