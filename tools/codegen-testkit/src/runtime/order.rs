//! Tasks of streams: order, events, queues, waking.

use std::{
    slice::from_ref,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use codegen_core::{Access, Launch};
use device_runtime::{DriverError, RunError, Stream};

use super::{DriverFactory, Setup, four_threads, hand_made::*, open};

/// A thousand tasks of one stream, each noting its number.
pub fn tasks_of_a_stream_run_in_order(make: DriverFactory<'_>) {
    let device = open(make, &four_threads());
    let x = node("x", 1);
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    let code = code("note", &[(&x, Access::Write)], &[symbol("i", 1000)], move |args, bindings| {
        write(&mut args[0])[0] = bindings[0];
        seen.lock().unwrap().push(bindings[0]);
    });
    let routine = context(&device).link(&code, from_ref(&x)).unwrap();
    (0..1000).for_each(|i| drop(routine.run(&[i]).unwrap()));
    assert_eq!(values(routine.context(), &x), [999]);
    assert_eq!(*log.lock().unwrap(), (0..1000).collect::<Vec<_>>());
}

/// An event wakes all waiting threads, and each of them sees the values.
pub fn many_threads_wait_for_one_event(make: DriverFactory<'_>) {
    let device = open(make, &four_threads());
    let x = node("x", 1);
    let code = code("slow", &[(&x, Access::Write)], &[], |args, _| {
        thread::sleep(Duration::from_millis(5));
        write(&mut args[0])[0] = 7;
    });
    let routine = context(&device).link(&code, from_ref(&x)).unwrap();
    let event = routine.run(&[]).unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                event.sync().unwrap();
                assert!(event.is_done());
                assert_eq!(values(routine.context(), &x), [7]);
            });
        }
    });
}

/// Four threads fill one stream faster than it runs.
pub fn a_hundred_thousand_tasks_pass_a_small_queue(make: DriverFactory<'_>) {
    let device = open(make, &Setup { threads: 2, queue_capacity: 16, ..Setup::default() });
    let x = node("x", 1);
    let context = context(&device).init_from_host(&x, array(&[0])).unwrap();
    let code = code("count", &[(&x, Access::ReadWrite)], &[], |args, _| write(&mut args[0])[0] += 1);
    let routine = context.link(&code, from_ref(&x)).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25_000).for_each(|_| drop(routine.run(&[]).unwrap())));
        }
    });
    assert_eq!(values(&context, &x), [100_000]);
}

/// Tasks arrive when workers are about to go to sleep.
pub fn sleeping_and_waking_loses_nothing(make: DriverFactory<'_>) {
    let device = open(make, &four_threads());
    let x = node("x", 1);
    let context = context(&device).init_from_host(&x, array(&[0])).unwrap();
    let code = code("count", &[(&x, Access::ReadWrite)], &[], |args, _| write(&mut args[0])[0] += 1);
    let contexts = [context.clone(), context.on_stream(&device.new_stream().unwrap()).unwrap()];
    let routines = contexts.map(|context| context.link(&code, from_ref(&x)).unwrap());
    thread::scope(|scope| {
        for id in 0..3u64 {
            let routines = &routines;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(id);
                for _ in 0..600 {
                    let event = routines[random.usize(..2)].run(&[]).unwrap();
                    if random.usize(..2) == 0 {
                        event.sync().unwrap();
                    }
                    // About the time after which a worker goes to sleep.
                    thread::sleep(Duration::from_micros(random.u64(..50)));
                }
            });
        }
    });
    assert_eq!(values(&context, &x), [1800]);
}

/// A task that would wait for itself is an error, and the stream continues.
pub fn a_task_cannot_wait_for_itself(make: DriverFactory<'_>) {
    let device = open(make, &Setup { queue_capacity: 4, ..four_threads() });
    let x = node("x", 1);
    let own = Arc::new(Mutex::new(None::<Stream>));
    let results = Arc::new(Mutex::new(Vec::new()));
    let (stream, seen) = (Arc::clone(&own), Arc::clone(&results));
    let code = code("knot", &[(&x, Access::Write)], &[], move |_, _| {
        let stream = stream.lock().unwrap().clone().unwrap();
        // Either the first submission is rejected, or waiting for the event is, or the queue fills.
        let mut event = stream.all_work();
        let waited = event.as_ref().map_or(Ok(()), |event| event.sync());
        for _ in 0..8 {
            event = event.and_then(|_| stream.all_work());
        }
        seen.lock().unwrap().extend([waited.err(), event.err()]);
    });
    let routine = context(&device).link(&code, from_ref(&x)).unwrap();
    *own.lock().unwrap() = Some(routine.context().stream().clone());
    routine.run(&[]).unwrap().sync().unwrap();
    let errors: Vec<_> = results.lock().unwrap().drain(..).flatten().collect();
    let is_self_wait =
        |e: &RunError| matches!(e, RunError::Driver { source: DriverError::SelfWait { .. }, .. });
    assert!(!errors.is_empty() && errors.iter().all(is_self_wait), "{errors:?}");
    own.lock().unwrap().take();
    assert_eq!(values(routine.context(), &x), [0], "the stream goes on");
}

/// Adds one to each element of its range, and checks its scratch memory.
#[allow(unsafe_code, reason = "a native kernel")]
unsafe extern "C" fn add_one(args: *const *mut u8, _: *const i64, scratch: *mut u8, begin: u64, end: u64) {
    assert!((scratch as usize).is_multiple_of(64) && !scratch.is_null());
    // SAFETY: the ABI gives one parameter of at least `end` elements, and 64 bytes of scratch.
    unsafe {
        scratch.write_bytes(0xff, 64);
        let x = (*args).cast::<i64>();
        (begin..end).for_each(|i| *x.add(i as usize) += 1);
    }
}

/// Splittable kernels run each iteration once, however they are split.
pub fn native_kernels_cover_their_range_once(make: DriverFactory<'_>) {
    for (extent, grain) in [(1, 1), (7, 1), (1000, 3), (100_000, 1000), (100_000, 1 << 40)] {
        let device = open(make, &four_threads());
        let x = node("x", extent as usize);
        let context = context(&device).init_from_host(&x, array(&vec![0; extent as usize])).unwrap();
        let launch = Launch { extent, grain, threads: 1, end: None };
        // SAFETY: the function accesses only its range of the parameter and its scratch memory; it is never
        // unloaded.
        #[allow(unsafe_code, reason = "a native kernel")]
        let code = unsafe { native("add_one", &[(&x, Access::ReadWrite)], launch, 64, add_one) };
        let streams: Vec<Stream> = (0..3).map(|_| device.new_stream().unwrap()).collect();
        for i in 0..60 {
            let context = context.on_stream(&streams[i % 3]).unwrap();
            drop(context.link(&code, from_ref(&x)).unwrap().run(&[]).unwrap());
        }
        assert!(values(&context, &x).iter().all(|value| *value == 60), "extent {extent}, grain {grain}");
    }
}
