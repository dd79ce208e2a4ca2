//! No call inside a task blocks its thread, so tasks do not deadlock: a call that would block fails.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::{
    slice::from_ref,
    sync::{Arc, Barrier, Mutex, mpsc},
    thread,
    time::Duration,
};

use codegen_core::Access;
use device_runtime::{Context, Device, DriverError, Event, Host, LinkedRoutine, RunError, Stream};
use scheduler_multicore::{Cpu, CpuConfig};
use support::*;

/// Fails the test if `body` takes more than half a minute. Nothing else would end a deadlock.
fn within_reason(body: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let thread = thread::spawn(move || {
        body();
        done.send(()).unwrap();
    });
    if finished.recv_timeout(Duration::from_secs(30)) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("deadlock");
    }
    thread.join().unwrap();
}

fn is_self_wait(error: &RunError) -> bool {
    matches!(error, RunError::Driver { source: DriverError::SelfWait { .. }, .. })
}

/// A routine that runs `body` on a stream of its own.
fn task(device: &Device, body: impl Fn() + Send + Sync + 'static) -> LinkedRoutine {
    let x = node("x", 1);
    let code = code("task", &[(&x, Access::Write)], &[], move |_, _| body());
    context(device).link(&code, from_ref(&x)).unwrap()
}

type Later<T> = Arc<Mutex<Option<T>>>;

fn take<T: Clone>(later: &Later<T>) -> T {
    later.lock().unwrap().clone().unwrap()
}

#[test]
fn tasks_that_fill_each_others_queues_are_rejected() {
    within_reason(|| {
        let device =
            device(Cpu::multicore(CpuConfig { queue_capacity: 4, threads: 2, ..CpuConfig::default() }));
        let streams: [Later<Stream>; 2] = Default::default();
        let started = Arc::new(Barrier::new(2));
        let rejected = Arc::new(Mutex::new(Vec::new()));
        let routines = [0, 1].map(|own| {
            let (other, started, rejected) =
                (Arc::clone(&streams[1 - own]), Arc::clone(&started), Arc::clone(&rejected));
            task(&device, move || {
                // Both tasks run from here on, so neither queue is emptied until they return.
                started.wait();
                let other = take(&other);
                let error = (0..20).find_map(|_| other.all_work().err());
                rejected.lock().unwrap().push(error);
                started.wait();
            })
        });
        for (stream, routine) in streams.iter().zip(&routines) {
            *stream.lock().unwrap() = Some(routine.context().stream().clone());
        }
        let events = routines.each_ref().map(|routine| routine.run(&[]).unwrap());
        events.iter().for_each(|event| event.sync().unwrap());
        let rejected = rejected.lock().unwrap();
        assert!(rejected.len() == 2 && rejected.iter().flatten().filter(|e| is_self_wait(e)).count() == 2);
    });
}

#[test]
fn tasks_that_wait_for_each_others_events_are_rejected() {
    within_reason(|| {
        let device = device(Cpu::multicore(CpuConfig { threads: 2, ..CpuConfig::default() }));
        let events: [Later<Event>; 2] = Default::default();
        let (ready, started) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(2)));
        let answers = Arc::new(Mutex::new(Vec::new()));
        let routines = [0, 1].map(|own| {
            let (other, ready, started, answers) = (
                Arc::clone(&events[1 - own]),
                Arc::clone(&ready),
                Arc::clone(&started),
                Arc::clone(&answers),
            );
            task(&device, move || {
                ready.wait();
                let answer = take(&other).sync();
                started.wait();
                answers.lock().unwrap().push(answer);
            })
        });
        for (event, routine) in events.iter().zip(&routines) {
            *event.lock().unwrap() = Some(routine.run(&[]).unwrap());
        }
        ready.wait();
        device.sync().unwrap();
        let answers = answers.lock().unwrap();
        assert!(
            answers.len() == 2 && answers.iter().all(|a| a.as_ref().is_err_and(is_self_wait)),
            "{answers:?}"
        );
    });
}

#[test]
fn inline_tasks_that_enter_each_others_streams_are_rejected() {
    within_reason(|| {
        let device = device(Cpu::inline(CpuConfig::default()));
        let streams: [Later<Stream>; 2] = Default::default();
        let started = Arc::new(Barrier::new(2));
        let answers = Arc::new(Mutex::new(Vec::new()));
        let routines = [0, 1].map(|own| {
            let (other, started, answers) =
                (Arc::clone(&streams[1 - own]), Arc::clone(&started), Arc::clone(&answers));
            task(&device, move || {
                started.wait();
                let answer = take(&other).all_work();
                started.wait();
                answers.lock().unwrap().push(answer.err());
            })
        });
        for (stream, routine) in streams.iter().zip(&routines) {
            *stream.lock().unwrap() = Some(routine.context().stream().clone());
        }
        thread::scope(|scope| {
            for routine in &routines {
                scope.spawn(|| routine.run(&[]).unwrap());
            }
        });
        let answers = answers.lock().unwrap();
        assert!(answers.len() == 2 && answers.iter().flatten().filter(|e| is_self_wait(e)).count() == 2);
    });
}

#[test]
fn a_task_may_enqueue_elsewhere_and_look_at_events() {
    for device in [device(Cpu::multicore(CpuConfig::default())), device(Cpu::inline(CpuConfig::default()))] {
        within_reason(move || {
            let other = device.new_stream().unwrap();
            let (stream, events) = (other.clone(), Arc::new(Mutex::new(Vec::new())));
            let seen = Arc::clone(&events);
            let routine = task(&device, move || seen.lock().unwrap().push(stream.all_work()));
            routine.run(&[]).unwrap().sync().unwrap();
            let event = events.lock().unwrap().pop().unwrap().unwrap();
            event.sync().unwrap();
            let seen = Arc::new(Mutex::new(None));
            let (event, answer) = (Mutex::new(event), Arc::clone(&seen));
            let waits = task(&device, move || {
                *answer.lock().unwrap() = Some(event.lock().unwrap().sync().is_ok());
            });
            waits.run(&[]).unwrap().sync().unwrap();
            assert_eq!(*seen.lock().unwrap(), Some(true), "an event that is done is not waited for");
        });
    }
}

/// A task that drops the last handle of another stream does not wait for that stream: the stream may wait for
/// the task.
#[test]
fn a_task_may_end_another_stream_that_waits_for_it() {
    within_reason(|| {
        let device = device(Cpu::multicore(CpuConfig { threads: 2, ..CpuConfig::default() }));
        let (last, ready): (Later<Context>, _) = (Later::default(), Arc::new(Barrier::new(2)));
        let (handle, gate) = (Arc::clone(&last), Arc::clone(&ready));
        let routine = task(&device, move || {
            gate.wait();
            drop(handle.lock().unwrap().take());
        });
        let event = routine.run(&[]).unwrap();
        let other = device.new_stream().unwrap();
        other.will_wait_for(&event).unwrap();
        let behind = other.all_work().unwrap();
        *last.lock().unwrap() = Some(Context::new(&other));
        drop(other);
        ready.wait();
        behind.sync().unwrap();
        event.sync().unwrap();
    });
}

/// The thread that submits a task holds a lock of the task's memory. On an inline device the same thread runs
/// the task.
#[test]
fn an_inline_task_cannot_use_what_it_was_given() {
    within_reason(|| {
        let device = device(Cpu::inline(CpuConfig::default()));
        let (x, own): (_, Later<Context>) = (node("x", 1), Later::default());
        let (y, seen) = (x.clone(), Arc::clone(&own));
        let code = code("task", &[(&x, Access::ReadWrite)], &[], move |_, _| {
            let context = take(&seen);
            assert!(is_self_wait(&context.to_host(&y).unwrap_err()));
            assert_eq!((context.pending(&y), context.failure(&y)), (None, None));
            assert!(context.explain(&y).ends_with("a task that uses it is being submitted\n"));
        });
        let context = context(&device).init_from_host(&x, array(&[7])).unwrap();
        *own.lock().unwrap() = Some(context.clone());
        let routine = context.link(&code, from_ref(&x)).unwrap();
        routine.run(&[]).unwrap().sync().unwrap();
        assert_eq!(values(&context, &x), [7]);
        own.lock().unwrap().take();
    });
}

/// A producer that waits for room holds a lock of its task's memory, and the running task uses the same
/// memory.
#[test]
fn a_task_does_not_wait_for_the_producer_that_waits_for_it() {
    within_reason(|| {
        let device =
            device(Cpu::multicore(CpuConfig { queue_capacity: 1, threads: 2, ..CpuConfig::default() }));
        let (x, own): (_, Later<Context>) = (node("x", 1), Later::default());
        let (y, seen, started) = (x.clone(), Arc::clone(&own), Arc::new(Barrier::new(2)));
        let gate = Arc::clone(&started);
        let first = Mutex::new(true);
        let code = code("task", &[(&x, Access::ReadWrite)], &[], move |_, _| {
            if std::mem::take(&mut *first.lock().unwrap()) {
                gate.wait();
                // By now the producer sleeps and holds the lock of `x`.
                thread::sleep(Duration::from_millis(50));
                assert!(is_self_wait(&take(&seen).to_host(&y).unwrap_err()));
            }
        });
        let context = context(&device).init_from_host(&x, array(&[7])).unwrap();
        *own.lock().unwrap() = Some(context.clone());
        let routine = context.link(&code, from_ref(&x)).unwrap();
        drop(routine.run(&[]).unwrap());
        started.wait();
        (0..10).for_each(|_| drop(routine.run(&[]).unwrap()));
        assert_eq!(values(&context, &x), [7]);
        own.lock().unwrap().take();
    });
}

/// A reader of a host array holds the array's lock while it waits for the device's values, here for this very
/// task.
#[test]
fn a_task_does_not_wait_for_the_reader_that_waits_for_it() {
    for device in [device(Cpu::multicore(CpuConfig::default())), device(Cpu::inline(CpuConfig::default()))] {
        within_reason(move || {
            let (x, host, is_inline) = (node("x", 1), Host::default(), device.name() == "inline:0");
            host.insert(&x, array(&[7])).unwrap();
            let (own, y, seen) = (host.clone(), x.clone(), Arc::new(Mutex::new(None)));
            let answer = Arc::clone(&seen);
            let code = code("task", &[(&x, Access::ReadWrite)], &[], move |args, _| {
                thread::sleep(Duration::from_millis(50));
                *answer.lock().unwrap() = Some(own.get(&y).map(drop));
                write(&mut args[0])[0] += 1;
            });
            let context = host.init(&context(&device), &x).unwrap();
            drop(context.link(&code, from_ref(&x)).unwrap().run(&[]).unwrap());
            assert_eq!(host.values(&x).unwrap(), [8.0]);
            let answer = seen.lock().unwrap().take().unwrap();
            // An inline task is over before the reader starts.
            assert!(if is_inline { answer.is_ok() } else { is_self_wait(&answer.unwrap_err()) });
        });
    }
}

#[test]
fn a_task_does_not_wait_for_a_link_that_waits_for_its_queue() {
    within_reason(|| {
        let device =
            device(Cpu::multicore(CpuConfig { queue_capacity: 1, threads: 2, ..CpuConfig::default() }));
        let (host, x, y) = (Host::default(), node("x", 1), node("y", 1));
        host.insert(&x, array(&[3])).unwrap();
        let first = host.attach(&context(&device));
        let other = context(&device);
        let (begin, begun) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let (report, reported) = mpsc::channel();
        let set = code("set", &[(&y, Access::Write)], &[], |_, _| ());
        let link_inside = move || {
            begin.send(()).unwrap();
            gone.recv().unwrap();
            report.send(other.link(&set, from_ref(&y)).map(drop)).unwrap();
            Ok(())
        };
        // The event of the task fills the queue, so that the link's copy of `x` has to wait for room.
        let busy = first.stream().schedule_task("links", link_inside).unwrap();
        begun.recv().unwrap();
        let linking = thread::spawn(move || {
            let read = code("read", &[(&x, Access::Read)], &[], |_, _| ());
            first.link(&read, from_ref(&x)).map(drop)
        });
        thread::sleep(Duration::from_millis(100));
        go.send(()).unwrap();
        assert!(is_self_wait(&reported.recv().unwrap().unwrap_err()));
        linking.join().unwrap().unwrap();
        busy.sync().unwrap();
    });
}
