//! Launches, waits and memory, by the driver itself.
#![allow(unsafe_code, reason = "each scenario hands its tasks to one stream, or orders them by waits")]

use codegen_core::Access;
use device_runtime::{
    BoundKernel, DirectDriver, Driver, DriverError, Location, PoolId, StreamHandle, WaitKind,
};
use fastrand::Rng;

use super::{Gpu, Store, StoreKernel, Word, copy_in, copy_out, hand_made::at};

/// Submits a kernel. The tasks of a test must be on one stream, or ordered by waits; bindings must be in
/// range.
pub fn launch<D: Driver + ?Sized>(
    driver: &DirectDriver<D>,
    stream: &StreamHandle,
    bound: &BoundKernel,
    bindings: &[i64],
) {
    // SAFETY: the caller's promise.
    unsafe { driver.launch(stream, bound, bindings).unwrap() };
}

fn bind<D: Driver + ?Sized>(
    gpu: &dyn Gpu,
    driver: &DirectDriver<D>,
    kernel: StoreKernel,
    at: Location,
) -> BoundKernel {
    let module = driver.load(&gpu.artifact(&[kernel])).unwrap();
    driver.bind(&module.kernel(0).unwrap(), &[at]).unwrap()
}

/// A kernel that multiplies its only element and adds one.
fn step(name: &str, factor: u32) -> StoreKernel {
    let next = Word::read(0, 0).times(factor).plus(1);
    StoreKernel::new(name, &[(Access::ReadWrite, 4)], 1, vec![Store::new(0, 0, next)])
}

/// A thousand launches of one kernel, each with its own bindings.
pub fn launches_keep_their_bindings<D: Driver + ?Sized>(gpu: &dyn Gpu, driver: &DirectDriver<D>) {
    let stream = driver.new_stream("test").unwrap();
    driver.alloc_pool(PoolId(1), 4000).unwrap();
    let set = vec![Store::new(0, Word::Index(0), Word::Index(1))];
    let kernel = StoreKernel { symbols: 2, ..StoreKernel::new("set", &[(Access::Write, 4000)], 1, set) };
    let bound = bind(gpu, driver, kernel, at(1, 0));
    for i in 0..1000 {
        launch(driver, &stream, &bound, &[i, 3 * i + 1]);
    }
    let found = copy_out(driver, &stream, at(1, 0), 4000);
    let expected: Vec<u8> = (0..1000u32).flat_map(|i| (3 * i + 1).to_le_bytes()).collect();
    assert_eq!(found, expected);
}

/// Each task waits for the one before it, on some stream.
pub fn waits_order_streams_without_waiting(gpu: &dyn Gpu) {
    let Some((driver, _)) = gpu.open(None) else { return };
    let driver = &DirectDriver::new(driver);
    let streams = ["first", "second", "third"].map(|name| driver.new_stream(name).unwrap());
    driver.alloc_pool(PoolId(1), 4).unwrap();
    copy_in(driver, &streams[0], at(1, 0), &[0; 4]);
    let kernels = [step("two", 2), step("three", 3), step("five", 5)];
    let kernels = kernels.map(|kernel| bind(gpu, driver, kernel, at(1, 0)));
    let (mut model, mut random) = (0u32, Rng::with_seed(3));
    let mut last = driver.record(&streams[0]).unwrap();
    for _ in 0..300 {
        let (stream, kernel) = (random.usize(..3), random.usize(..3));
        driver.wait(&streams[stream], &last, WaitKind::Data).unwrap();
        launch(driver, &streams[stream], &kernels[kernel], &[]);
        last = driver.record(&streams[stream]).unwrap();
        model = model.wrapping_mul([2, 3, 5][kernel]).wrapping_add(1);
    }
    driver.wait(&streams[0], &last, WaitKind::Data).unwrap();
    assert_eq!(copy_out(driver, &streams[0], at(1, 0), 4), model.to_le_bytes());
    while !streams.iter().all(|stream| driver.is_idle(stream)) {}
}

/// Events become done although nobody waits for them.
pub fn polling_events_makes_progress(gpu: &dyn Gpu) {
    let Some((driver, _)) = gpu.open(None) else { return };
    let driver = &DirectDriver::new(driver);
    let stream = driver.new_stream("test").unwrap();
    driver.alloc_pool(PoolId(1), 4).unwrap();
    let bound = bind(gpu, driver, step("count", 1), at(1, 0));
    let mut events = Vec::new();
    for _ in 0..40 {
        launch(driver, &stream, &bound, &[]);
        events.push(driver.record(&stream).unwrap());
    }
    while !driver.is_done(&events[39]).unwrap() {
        std::thread::yield_now();
    }
    assert!(events.iter().all(|event| driver.is_done(event).unwrap()));
    assert!(driver.is_done(&driver.record(&stream).unwrap()).unwrap(), "nothing is left to wait for");
}

/// An allocation that does not fit waits for the tasks that use freed memory.
pub fn memory_that_pending_tasks_use_is_waited_for(gpu: &dyn Gpu) {
    let Some((driver, _)) = gpu.open(Some(1000)) else { return };
    let driver = &DirectDriver::new(driver);
    let stream = driver.new_stream("test").unwrap();
    driver.alloc_pool(PoolId(1), 600).unwrap();
    let bound = bind(gpu, driver, step("count", 1), at(1, 0));
    launch(driver, &stream, &bound, &[]);
    driver.free_pool(PoolId(1));
    let error = driver.alloc_pool(PoolId(2), 600).unwrap_err();
    assert!(matches!(error, DriverError::OutOfMemory { used: 600, .. }), "the bound kernel has it: {error}");
    launch(driver, &stream, &bound, &[]);
    drop(bound);
    driver.alloc_pool(PoolId(2), 600).unwrap();
    assert_eq!(driver.used_memory(), 600, "the pending tasks were waited for");
    driver.alloc_pool(PoolId(3), 0).unwrap();
    [2, 3].into_iter().for_each(|pool| driver.free_pool(PoolId(pool)));
    assert_eq!(driver.used_memory(), 0);
    let shown = driver.debug_info(&stream);
    assert!(shown.contains("0 bytes in use"), "{shown}");
}
