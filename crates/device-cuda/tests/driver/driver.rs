//! The driver itself: copies of any bytes, launches, waits, memory, rejected inputs, failures.
#![allow(clippy::unwrap_used, reason = "tests may panic")]
#![allow(unsafe_code, reason = "each test hands its tasks to one stream, or waits in between")]

use std::sync::Mutex;

use crate::support::*;
use codegen_core::{Artifact, host::HostModule};
use codegen_testkit::gpu_runtime::{
    copy_in, copy_out, launch, launches_keep_their_bindings, memory_that_pending_tasks_use_is_waited_for,
    readback, waits_order_streams_without_waiting,
};
use device_cuda::CudaConfig;
use device_runtime::{BoundKernel, Driver, DriverError, Location, PoolId, RunError, StreamHandle, WaitKind};

fn stream(driver: &Direct, id: u32) -> StreamHandle {
    driver.new_stream(&format!("cuda:0:{id}")).unwrap()
}

fn try_launch(
    driver: &Direct,
    stream: &StreamHandle,
    bound: &BoundKernel,
    bindings: &[i64],
) -> Result<(), DriverError> {
    // SAFETY: the tasks of a test are on one stream, or ordered by waits; bindings are in range.
    unsafe { driver.launch(stream, bound, bindings) }
}

fn bind(driver: &Direct, kernel: Kernel, args: &[Location]) -> Result<BoundKernel, DriverError> {
    let module = driver.load(&artifact(&[kernel]))?;
    driver.bind(&module.kernel(0).unwrap(), args)
}

/// Many small copies at once, and one that exceeds a stream's staging memory: staging ranges are not reused
/// too early.
#[test]
fn copies_of_all_sizes_are_on_their_way_at_once() {
    let notes = on_device(|| {
        let driver = open(&CudaConfig::default());
        let (first, second) = (stream(&driver, 0), stream(&driver, 1));
        let large = (20 << 20) + 7;
        driver.alloc_pool(PoolId(1), large).unwrap();
        driver.alloc_pool(PoolId(2), 4096 * 16).unwrap();
        let pattern: Vec<u8> =
            (0..large as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        copy_in(&driver, &first, at(1, 0), &pattern);
        let mut readbacks = Vec::new();
        for i in 0..4096u32 {
            let place = at(2, i as usize * 16);
            copy_in(&driver, &second, place, &[i.to_le_bytes(), (!i).to_le_bytes()].concat());
            let readback = readback(8);
            // SAFETY: ordered after the copy before it, on one stream.
            unsafe { driver.copy_out(&second, place, &readback).unwrap() };
            readbacks.push(readback);
        }
        let event = driver.record(&second).unwrap();
        assert!(copy_out(&driver, &first, at(1, 0), large) == pattern);
        driver.sync(&event).unwrap();
        for (i, readback) in (0u32..).zip(&readbacks) {
            assert_eq!(readback.take().unwrap().bytes(), [i.to_le_bytes(), (!i).to_le_bytes()].concat());
        }
    });
    let Some(notes) = notes else { return };
    assert!(notes.count("pin 4194304") <= 6, "four of the one stream and few of the other");
}

#[test]
fn a_thousand_launches_keep_their_bindings() {
    let notes = on_device(|| launches_keep_their_bindings(&Cuda, &open(&CudaConfig::default())));
    let Some(notes) = notes else { return };
    assert_eq!(
        (notes.count("launch k_set 1 64 0"), notes.count("module ptx"), notes.count("unload")),
        (1000, 1, 1)
    );
    assert!((1..=8).contains(&notes.count("event 2")), "events serve again, and keep no time");
    assert_eq!(notes.count("event "), notes.count("event 2"));
}

#[test]
fn waits_order_streams_in_every_order() {
    for seed in 2..8 {
        on_fake(&format!("seed={seed}"), || waits_order_streams_without_waiting(&Cuda));
    }
}

#[test]
fn waits_order_streams_that_run_at_once() {
    on_fake("order=eager", || waits_order_streams_without_waiting(&Cuda));
}

#[test]
fn memory_without_pools_is_waited_for() {
    on_fake("pools=0", || memory_that_pending_tasks_use_is_waited_for(&Cuda));
}

/// The resources of every kind of task stay alive until the task is done, whatever is freed meanwhile.
fn tasks_own_what_they_use() {
    let driver = open(&CudaConfig::default());
    let stream = stream(&driver, 0);
    for _ in 0..20 {
        (1..=3).for_each(|pool| driver.alloc_pool(PoolId(pool), 64).unwrap());
        let readback = readback(4);
        copy_in(&driver, &stream, at(1, 0), &[1, 2, 3, 4]);
        // SAFETY: all tasks are on one stream.
        unsafe {
            driver.memset_zero(&stream, at(3, 0), 64).unwrap();
            driver.copy(&stream, at(2, 8), at(1, 0), 4).unwrap();
            driver.copy_out(&stream, at(2, 8), &readback).unwrap();
        }
        (1..=3).for_each(|pool| driver.free_pool(PoolId(pool)));
        driver.sync(&driver.record(&stream).unwrap()).unwrap();
        assert_eq!(readback.take().unwrap().bytes(), [1, 2, 3, 4]);
    }
    assert_eq!(driver.used_memory(), 0);
}

#[test]
fn memory_that_is_freed_outlives_the_tasks_that_use_it() {
    on_device(tasks_own_what_they_use);
    on_fake("pools=0", tasks_own_what_they_use);
}

#[test]
fn a_device_that_is_full_says_so_and_leaves_nothing_allocated() {
    let notes = on_fake("memory=5000", || {
        let driver = open(&CudaConfig::default());
        driver.alloc_pool(PoolId(1), 3000).unwrap();
        let error = driver.alloc_pool(PoolId(2), 3000).unwrap_err();
        assert_eq!(error.to_string(), "out of device memory: 3000 bytes requested, 3000 in use");
        assert_eq!(driver.used_memory(), 3000);
        driver.free_pool(PoolId(1));
        driver.alloc_pool(PoolId(2), 5000).unwrap();
        assert_eq!(driver.used_memory(), 5000);
        assert_eq!(
            driver.alloc_pool(PoolId(3), usize::MAX).unwrap_err(),
            DriverError::OutOfMemory { requested: usize::MAX, used: 5000 }
        );
    });
    let Some(notes) = notes else { return };
    assert_eq!((notes.count("allocate"), notes.count("free")), (2, 2));
}

#[test]
fn tasks_that_nobody_looks_at_let_go_of_what_they_used() {
    on_fake("order=eager", || {
        let driver = open(&CudaConfig::default());
        let stream = stream(&driver, 0);
        for _ in 0..3 {
            driver.alloc_pool(PoolId(1), 4).unwrap();
            let bound = bind(&driver, count("count"), &[at(1, 0)]).unwrap();
            (0..1000).for_each(|_| launch(&driver, &stream, &bound, &[]));
            driver.free_pool(PoolId(1));
            drop(bound);
            assert_eq!(driver.used_memory(), 0);
        }
        let info = driver.debug_info(&stream);
        assert!(info.starts_with("cuda:0:0: 0 tasks since the last event, 0 events pending"), "{info}");
        driver.alloc_pool(PoolId(1), 4).unwrap();
        let bound = bind(&driver, count("count"), &[at(1, 0)]).unwrap();
        (0..1000).for_each(|_| launch(&driver, &stream, &bound, &[]));
        let info = driver.debug_info(&stream);
        assert!(info.starts_with("cuda:0:0: 232 tasks since the last event, 0 events pending"), "{info}");
    });
}

#[test]
fn mismatched_inputs_are_rejected() {
    on_device(|| {
        let driver = open(&CudaConfig::default());
        driver.alloc_pool(PoolId(1), 1024).unwrap();
        let host = Artifact::host(HostModule::interpreted(vec![]));
        let error = driver.load(&host).unwrap_err();
        assert_eq!(error.to_string(), "device `cuda` does not load host artifacts");
        let stream = stream(&driver, 0);
        let module = driver.load(&artifact(&[count("count")])).unwrap();
        assert_eq!(module.kernel(1).unwrap_err(), DriverError::NoSuchEntry { index: 1, kernels: 1 });
        let empty = driver.load(&artifact(&[])).unwrap();
        assert_eq!(empty.kernel(0).unwrap_err(), DriverError::NoSuchEntry { index: 0, kernels: 0 });
        let other = open(&CudaConfig::default());
        let count = module.kernel(0).unwrap();
        other.alloc_pool(PoolId(1), 1024).unwrap();
        assert_eq!(
            other.bind(&count, &[at(1, 0)]).unwrap_err(),
            DriverError::ForeignHandle { what: "kernel" }
        );
        assert!(
            driver
                .host_task(
                    &stream,
                    device_runtime::HostTask { name: "f".to_owned(), run: Box::new(|| Ok(())) }
                )
                .is_err()
        );
    });
}

#[test]
fn a_failed_task_fails_what_comes_after_it_on_its_stream() {
    on_fake("", || {
        let driver = open(&CudaConfig::default());
        (1..=2).for_each(|pool| driver.alloc_pool(PoolId(pool), 4).unwrap());
        let streams: Vec<_> = (0..4).map(|id| stream(&driver, id)).collect();
        let good = bind(&driver, count("good"), &[at(1, 0)]).unwrap();
        let bad = bind(&driver, count("rejected"), &[at(2, 0)]).unwrap();
        copy_in(&driver, &streams[0], at(1, 0), &[0; 4]);
        let before = driver.record(&streams[0]).unwrap();
        launch(&driver, &streams[0], &good, &[]);
        let error = try_launch(&driver, &streams[0], &bad, &[]).unwrap_err();
        let DriverError::Failed(failure) = &error else { panic!("{error}") };
        assert_eq!((failure.stream(), failure.task()), ("cuda:0:0", "rejected"));
        assert_eq!(
            failure.message(),
            "cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701): too many resources requested for launch"
        );
        let event = driver.record(&streams[0]).unwrap();
        assert_eq!(try_launch(&driver, &streams[0], &good, &[]), Err(error.clone()));
        assert!(driver.debug_info(&streams[0]).contains("`rejected` failed on cuda:0:0"));

        // Order is preserved after a failure: the launch before the event is done before this one begins.
        driver.wait(&streams[2], &event, WaitKind::Order).unwrap();
        assert!(driver.is_done(&event) != Ok(true), "it is not done, or done by failing");
        assert_eq!(copy_out(&driver, &streams[2], at(1, 0), 4), [1, 0, 0, 0]);
        assert_eq!(driver.sync(&before), Ok(()));
        assert_eq!(driver.sync(&event), Err(error.clone()));
        assert_eq!(driver.is_done(&event), Err(error.clone()));
        driver.wait(&streams[1], &event, WaitKind::Data).unwrap();
        assert_eq!(
            try_launch(&driver, &streams[1], &good, &[]),
            Err(error.clone()),
            "it builds on a failure"
        );
        let readback = readback(4);
        // SAFETY: no task is submitted.
        assert_eq!(unsafe { driver.copy_out(&streams[1], at(1, 0), &readback) }, Err(error.clone()));
        // SAFETY: no task is submitted.
        assert_eq!(unsafe { driver.memset_zero(&streams[1], at(1, 0), 0) }, Err(error.clone()));
        assert_eq!(driver.is_done(&driver.record(&streams[1]).unwrap()), Err(error));

        driver.reset_stream(&streams[0]).unwrap();
        driver.reset_stream(&streams[1]).unwrap();
        launch(&driver, &streams[0], &good, &[]);
        driver.wait(&streams[1], &driver.record(&streams[0]).unwrap(), WaitKind::Data).unwrap();
        assert_eq!(copy_out(&driver, &streams[1], at(1, 0), 4), [2, 0, 0, 0]);
    });
}

/// An event with only a wait before it, and an event after a failure, are reached no sooner than the tasks
/// before them.
fn events_keep_order() {
    let driver = open(&CudaConfig::default());
    let streams: Vec<_> = (0..3).map(|id| stream(&driver, id)).collect();
    driver.alloc_pool(PoolId(1), 4).unwrap();
    let good = bind(&driver, count("good"), &[at(1, 0)]).unwrap();
    let bad = bind(&driver, count("rejected"), &[at(1, 0)]).unwrap();
    copy_in(&driver, &streams[0], at(1, 0), &[0; 4]);
    let launch_many = || (0..50).for_each(|_| launch(&driver, &streams[0], &good, &[]));
    launch_many();
    driver.wait(&streams[1], &driver.record(&streams[0]).unwrap(), WaitKind::Data).unwrap();
    let waited = driver.record(&streams[1]).unwrap();
    driver.wait(&streams[2], &waited, WaitKind::Data).unwrap();
    assert_eq!(copy_out(&driver, &streams[2], at(1, 0), 4), [50, 0, 0, 0]);

    launch_many();
    assert!(try_launch(&driver, &streams[0], &bad, &[]).is_err());
    driver.wait(&streams[2], &driver.record(&streams[0]).unwrap(), WaitKind::Order).unwrap();
    assert_eq!(copy_out(&driver, &streams[2], at(1, 0), 4), [100, 0, 0, 0]);
}

#[test]
fn events_behind_waits_and_failures_keep_the_order() {
    for seed in 1..4 {
        on_fake(&format!("seed={seed}"), events_keep_order);
    }
}

/// Each thread has a stream, and all threads poll everything all the time.
fn threads_use_one_device() {
    let driver = open(&CudaConfig::default());
    let events = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for id in 1..=4 {
            let (driver, events) = (&driver, &events);
            scope.spawn(move || {
                let stream = stream(driver, id);
                driver.alloc_pool(PoolId(id), 4).unwrap();
                let bound = bind(driver, count("count"), &[at(id, 0)]).unwrap();
                copy_in(driver, &stream, at(id, 0), &[0; 4]);
                for round in 1..=25u8 {
                    launch(driver, &stream, &bound, &[]);
                    let event = driver.record(&stream).unwrap();
                    let seen = events.lock().unwrap().last().cloned();
                    events.lock().unwrap().push(event);
                    if let Some(seen) = seen {
                        driver.wait(&stream, &seen, WaitKind::Data).unwrap();
                        driver.sync(&seen).unwrap();
                    }
                    assert_eq!(copy_out(driver, &stream, at(id, 0), 4), [round, 0, 0, 0]);
                    assert!(driver.used_memory() >= 4);
                }
                driver.free_pool(PoolId(id));
                drop(bound);
                driver.drop_stream(stream);
            });
        }
    });
    let events = events.into_inner().unwrap();
    assert!(events.len() == 100 && events.iter().all(|event| driver.is_done(event).unwrap()));
    assert_eq!(driver.used_memory(), 0);
}

#[test]
fn many_threads_use_one_device() {
    on_device(threads_use_one_device);
    on_fake("order=eager pools=0", threads_use_one_device);
}

#[test]
fn events_outlive_their_streams_and_pools() {
    on_device(|| {
        let driver = open(&CudaConfig::default());
        driver.alloc_pool(PoolId(1), 4).unwrap();
        let first = stream(&driver, 0);
        copy_in(&driver, &first, at(1, 0), &[7, 0, 0, 0]);
        let event = driver.record(&first).unwrap();
        driver.drop_stream(first);
        assert!(driver.is_done(&event).unwrap());
        let second = stream(&driver, 1);
        driver.wait(&second, &event, WaitKind::Data).unwrap();
        assert_eq!(copy_out(&driver, &second, at(1, 0), 4), [7, 0, 0, 0]);
        driver.free_pool(PoolId(1));
        // SAFETY: no task is submitted.
        let freed = unsafe { driver.memset_zero(&second, at(1, 0), 4) };
        assert_eq!(freed, Err(DriverError::NoSuchPool { pool: PoolId(1) }));
    });
}

/// Size in bytes of a copy that takes three staging ranges.
const THREE_RANGES: usize = 12 << 20;

/// A context with a node of [`THREE_RANGES`] bytes, whose elements are all 1.
fn with_large_node() -> (device_runtime::Context, tnode::TensorNode) {
    let device = device(&open(&CudaConfig::default()));
    let x = node("x", THREE_RANGES / 4);
    let context = context(&device).init_from_host(&x, large_array(1)).unwrap();
    assert_eq!(context.to_host(&x).unwrap(), large_array(1));
    (context, x)
}

fn large_array(value: i32) -> tnode::HostArray {
    array(&vec![value; THREE_RANGES / 4])
}

/// A copy with one submitted range has written a part of its node, so the node has no value.
#[test]
fn a_partly_submitted_copy_poisons_its_node() {
    on_fake("uploads=4", || {
        let (context, x) = with_large_node();
        let copied = context.from_host(&x, large_array(2)).unwrap();
        assert!(copied.sync().unwrap_err().failure().is_some());
        context.stream().reset().unwrap();
        let error = context.to_host(&x).unwrap_err();
        assert!(matches!(error, RunError::Poisoned { .. }), "{error}");
        context.from_host(&x, large_array(3)).unwrap().sync().unwrap();
        assert_eq!(context.to_host(&x).unwrap(), large_array(3));
    });
}

#[test]
fn an_entirely_rejected_copy_leaves_its_node() {
    on_fake("uploads=3", || {
        let (context, x) = with_large_node();
        assert!(context.from_host(&x, large_array(2)).is_err());
        context.stream().reset().unwrap();
        assert_eq!(context.to_host(&x).unwrap(), large_array(1));
    });
}

#[test]
fn a_partly_submitted_read_returns_no_values_and_poisons_nothing() {
    on_fake("downloads=4", || {
        let (context, x) = with_large_node();
        let error = context.to_host(&x).unwrap_err();
        assert!(error.failure().is_some(), "{error}");
        context.stream().reset().unwrap();
        assert_eq!(context.to_host(&x).unwrap(), large_array(1));
    });
}
