//! Several devices of one process access each other's pools and host arrays in place, and their streams wait
//! for each other's events, with any combination of schedulers.
#![allow(clippy::unwrap_used, reason = "tests may panic")]
#![allow(unsafe_code, reason = "calls the driver as the runtime does")]

use crate::support;

use std::{
    sync::{Arc, Barrier, Mutex},
    time::Duration,
};

use codegen_core::{Access, Artifact, Param, host::HostModule};
use device_runtime::{
    BoundKernel, Device, DirectDriver, Driver, DriverError, EventHandle, HostReadback, Location, NullDevice,
    PoolHandle, PoolId, SharedMemory, StreamHandle, WaitKind,
};
use scheduler_multicore::{Cpu, CpuConfig};
use support::{Body, abi, array, body, node, read, write};
use tnode::{DType, HostArray};

/// Any driver, called without the runtime.
type Direct = DirectDriver<dyn Driver>;

fn multicore() -> Direct {
    DirectDriver::new(Arc::new(Cpu::multicore(CpuConfig { threads: 2, ..CpuConfig::default() })))
}

fn inline() -> Direct {
    DirectDriver::new(Arc::new(Cpu::inline(CpuConfig::default())))
}

/// Every pair of devices of the same and of different kinds.
fn pairs() -> [[Direct; 2]; 4] {
    [[multicore(), multicore()], [multicore(), inline()], [inline(), multicore()], [inline(), inline()]]
}

fn start(pool: u32) -> Location {
    Location { pool: PoolId(pool), offset: 0 }
}

fn bind(
    driver: &Direct,
    accesses: &[Access],
    body: Body,
    at: &[Location],
) -> Result<BoundKernel, DriverError> {
    let params = accesses.iter().map(|&access| Param::Node { access, bytes: 24 }).collect();
    let artifact = Artifact::host(HostModule::interpreted(vec![(body, abi("kernel", params))]));
    let module = driver.load(&artifact).unwrap();
    driver.bind(&module.kernel(0).unwrap(), at)
}

fn launch(driver: &Direct, stream: &StreamHandle, kernel: &BoundKernel) -> EventHandle {
    // SAFETY: the tests order conflicting tasks by streams and waits.
    unsafe { driver.launch(stream, kernel, &[]).unwrap() };
    driver.record(stream).unwrap()
}

/// The first three integers of a pool.
fn read_back(driver: &Direct, stream: &StreamHandle, pool: u32) -> Vec<i64> {
    let readback = HostReadback::new(HostArray::zeros(DType::I64, [3]).unwrap());
    // SAFETY: the stream's order and its waits suffice.
    unsafe { driver.copy_out(stream, start(pool), &readback).unwrap() };
    driver.sync(&driver.record(stream).unwrap()).unwrap();
    readback.take().unwrap().as_slice().unwrap().to_vec()
}

#[test]
fn a_device_reads_and_writes_what_another_exports() {
    for [first, second] in pairs() {
        let names = format!("{} exports to {}", first.name(), second.name());
        first.alloc_pool(PoolId(1), 64).unwrap();
        second.import(PoolId(7), &first.export(PoolId(1)).unwrap()).unwrap();
        assert_eq!(
            (first.used_memory(), second.used_memory()),
            (64, 0),
            "{names}: counted where it was allocated"
        );
        let streams = [first.new_stream("a").unwrap(), second.new_stream("b").unwrap()];

        let gate = Arc::new(Barrier::new(if first.name() == "inline" { 1 } else { 2 }));
        let passed = Arc::clone(&gate);
        let fill = body(move |args, _| {
            passed.wait();
            write(&mut args[0]).copy_from_slice(&[1, 2, 3]);
        });
        let fill = bind(&first, &[Access::Write], fill, &[start(1)]).unwrap();
        let filled = launch(&first, &streams[0], &fill);

        // An inline device waits in the call itself, so another thread opens the gate.
        let opener = (first.name() != "inline").then(|| {
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(2));
                gate.wait()
            })
        });
        second.wait(&streams[1], &filled, WaitKind::Data).unwrap();
        let double = body(|args, _| write(&mut args[0]).iter_mut().for_each(|value| *value *= 2));
        let double = bind(&second, &[Access::ReadWrite], double, &[start(7)]).unwrap();
        let doubled = launch(&second, &streams[1], &double);
        first.wait(&streams[0], &doubled, WaitKind::Data).unwrap();
        assert_eq!(read_back(&first, &streams[0], 1), [2, 4, 6], "{names}");
        opener.map(|thread| thread.join().unwrap());

        // Copy from the first device's pool to a pool of the second.
        second.alloc_pool(PoolId(8), 24).unwrap();
        // SAFETY: the stream has waited for all earlier tasks.
        unsafe { second.copy(&streams[1], start(8), start(7), 24).unwrap() };
        assert_eq!(read_back(&second, &streams[1], 8), [2, 4, 6], "{names}");

        first.free_pool(PoolId(1));
        assert_eq!(first.used_memory(), 64, "{names}: the second device still refers to the memory");
        assert_eq!(read_back(&second, &streams[1], 7), [2, 4, 6], "{names}: the memory is kept alive");
        drop((fill, double));
        second.free_pool(PoolId(7));
        second.free_pool(PoolId(8));
        assert_eq!((first.used_memory(), second.used_memory()), (0, 0), "{names}");
        streams.into_iter().zip([&first, &second]).for_each(|(stream, driver)| driver.drop_stream(stream));
    }
}

#[test]
fn failures_cross_devices_with_data_and_not_with_order() {
    for [first, second] in pairs() {
        first.alloc_pool(PoolId(1), 24).unwrap();
        let streams = [first.new_stream("first").unwrap(), second.new_stream("second").unwrap()];
        let bad = bind(&first, &[Access::Write], body(|_, _| panic!("no luck")), &[start(1)]).unwrap();
        let event = launch(&first, &streams[0], &bad);
        second.wait(&streams[1], &event, WaitKind::Order).unwrap();
        second.sync(&second.record(&streams[1]).unwrap()).unwrap();
        second.wait(&streams[1], &event, WaitKind::Data).unwrap();
        let error = second.sync(&second.record(&streams[1]).unwrap()).unwrap_err();
        let DriverError::Failed(failure) = error else { panic!("{error}") };
        assert_eq!((failure.stream(), failure.message()), ("first", "no luck"));
        streams.into_iter().zip([&first, &second]).for_each(|(stream, driver)| driver.drop_stream(stream));
    }
}

#[test]
fn a_host_array_is_read_in_place_and_never_written() {
    for driver in [multicore(), inline()] {
        let host = Arc::new(array(&[5, 6, 7]));
        driver.import(PoolId(1), &SharedMemory::of_host(Arc::clone(&host))).unwrap();
        driver.alloc_pool(PoolId(2), 24).unwrap();
        assert_eq!(driver.used_memory(), 24, "the array's bytes are the host's");
        let stream = driver.new_stream("s").unwrap();
        let (address, same) = (host.bytes().as_ptr() as usize, Arc::new(Mutex::new(0)));
        let seen = Arc::clone(&same);
        let sum = body(move |args, _| {
            let (values, at) = (read(&args[0]).to_vec(), read(&args[0]).as_ptr() as usize);
            *seen.lock().unwrap() = at;
            write(&mut args[1]).copy_from_slice(&values.iter().map(|value| value + 1).collect::<Vec<_>>());
        });
        let sum = bind(&driver, &[Access::Read, Access::Write], sum, &[start(1), start(2)]).unwrap();
        launch(&driver, &stream, &sum);
        assert_eq!(read_back(&driver, &stream, 2), [6, 7, 8]);
        assert_eq!(*same.lock().unwrap(), address, "in place");

        let read_only = DriverError::ReadOnly { pool: PoolId(1) };
        for access in [Access::Write, Access::WritePart, Access::ReadWrite] {
            let error = bind(&driver, &[access], body(|_, _| ()), &[start(1)]).unwrap_err();
            assert_eq!(error, read_only);
        }
        let source = Arc::new(array(&[0, 0, 0]));
        // SAFETY: no other task runs meanwhile, and all of these fail.
        let answers = unsafe {
            [
                driver.memset_zero(&stream, start(1), 24),
                driver.copy_in(&stream, start(1), &source),
                driver.copy(&stream, start(1), start(2), 24),
            ]
        };
        assert!(answers.into_iter().all(|answer| answer == Err(read_only.clone())));
        // SAFETY: ordered by the stream.
        unsafe { driver.copy(&stream, start(2), start(1), 24).unwrap() };
        assert_eq!(read_back(&driver, &stream, 2), [5, 6, 7]);
        driver.free_pool(PoolId(1));
        drop(sum);
        assert_eq!(Arc::strong_count(&host), 1, "released with the pool");
        assert_eq!(host.as_slice::<i64>().unwrap(), [5, 6, 7]);
        driver.drop_stream(stream);
    }
}

/// Both devices number their pools from one, and neither accesses the other's pools.
#[test]
fn two_devices_of_one_driver_have_memory_of_their_own() {
    let driver = Arc::new(Cpu::inline(CpuConfig::default()));
    let devices = [0, 1].map(|ordinal| Device::new(Arc::clone(&driver) as Arc<_>, ordinal));
    let nodes = [node("x", 3), node("y", 2)];
    let [first, second] = [0, 1].map(|at| support::context(&devices[at]));
    let first = first.init_from_host(&nodes[0], array(&[1, 2, 3])).unwrap();
    let second = second.init_from_host(&nodes[1], array(&[10, 20])).unwrap();
    assert_eq!(first.location(&nodes[0]), second.location(&nodes[1]));
    assert_eq!(first.to_host(&nodes[0]).unwrap(), array(&[1, 2, 3]));
    drop(second);
    assert_eq!(first.to_host(&nodes[0]).unwrap(), array(&[1, 2, 3]));
    drop(first);
    assert_eq!(driver.used_memory(), 0);
}

#[test]
fn unreachable_memory_is_an_error() {
    let driver = inline();
    assert_eq!(driver.export(PoolId(1)).unwrap_err(), DriverError::NoSuchPool { pool: PoolId(1) });
    let error = driver.driver().import(&PoolHandle::new("somebody else's memory")).unwrap_err();
    assert!(matches!(error, DriverError::NoPeerAccess { .. }), "{error}");
    let null = NullDevice::new();
    assert!(null.export(&null.alloc_pool(PoolId(1), 8).unwrap()).is_err());
    let stream = driver.new_stream("s").unwrap();
    let foreign = null.record(&null.new_stream("n").unwrap()).unwrap();
    let error = driver.wait(&stream, &foreign, WaitKind::Order).unwrap_err();
    assert!(matches!(error, DriverError::ForeignHandle { .. }), "{error}");
}
