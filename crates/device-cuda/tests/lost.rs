//! A lost device: unfinished tasks fail, nothing hangs, and no outdated value is returned.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[path = "driver/support/mod.rs"]
mod support;

use std::{slice::from_ref, sync::Arc, thread};

use codegen_core::{Access, KernelCall, Slot};
use device_cuda::{CudaConfig, CudaDevice};
use device_runtime::{Driver, DriverError, PoolId, RunError};
use lowered_ir::ir::NodeRef;
use support::*;

fn is_lost(error: &RunError) -> bool {
    match error {
        RunError::Driver { source: DriverError::Lost { .. }, .. } => true,
        other => other.failure().is_some_and(|failure| failure.message().contains("is lost")),
    }
}

/// A routine of a good kernel and one that accesses an invalid address.
fn straying(x: &tnode::TensorNode) -> Arc<codegen_core::Code> {
    let kernels = [count("good"), stray("stray")];
    let calls =
        (0..2).map(|kernel| KernelCall { kernel, args: vec![Slot::Node(NodeRef(0))], bindings: vec![] });
    many_kernels("work", from_ref(x), &[], artifact(&kernels), calls.collect(), vec![])
}

fn fails_everything() {
    let driver = open(&CudaConfig::default());
    let device = device(&driver);
    let (x, y) = (node("x", 1), node("y", 1));
    let root = context(&device).init_from_host(&x, array(&[1])).unwrap();
    let context = root.init_from_host(&y, array(&[5])).unwrap();
    drop(root);
    let other = context.on_stream(&device.new_stream().unwrap()).unwrap();
    let before = context.stream().all_work().unwrap();
    before.sync().unwrap();
    let good =
        context.link(&code("good", &[(&y, Access::ReadWrite)], &[], 1, &count("c").body), from_ref(&y));
    let good = good.unwrap();
    let routine = context.link(&straying(&x), from_ref(&x)).unwrap();
    let pending = routine.run(&[]).unwrap();
    let waiter = thread::spawn({
        let pending = pending.clone();
        move || pending.sync()
    });
    let error = waiter.join().unwrap().unwrap_err();
    assert!(is_lost(&error), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered (seen by cuda:0:0, where `good`, `stray` ran or waited)"),
        "{text}"
    );
    assert_eq!(pending.sync().unwrap_err().to_string(), text);
    assert!(pending.is_done() && before.sync().is_ok(), "what was done before is done");
    for error in [
        routine.run(&[]).unwrap_err(),
        good.run(&[]).unwrap_err(),
        other.to_host(&y).unwrap_err(),
        context.to_host(&x).unwrap_err(),
        context.from_host(&y, array(&[2])).unwrap_err(),
        context.init_from_host(&node("z", 1), array(&[2])).unwrap_err(),
        other.stream().sync().unwrap_err(),
        other.stream().all_work().unwrap_err(),
        device.new_stream().unwrap_err(),
        context.stream().reset().unwrap_err(),
        context.link(&straying(&y), from_ref(&y)).unwrap_err(),
    ] {
        assert!(is_lost(&error), "{error}");
    }
    assert!(context.stream().debug_info().contains("device lost: cu"), "{}", context.stream().debug_info());
    let again = CudaDevice::open(&CudaConfig::default()).unwrap_err();
    assert!(again.to_string().contains("drop everything that was made for the lost device first"), "{again}");
    drop((routine, good, context, other, pending, before));
    assert_eq!(driver.used_memory(), 0, "the runtime holds nothing, and no task is pending");
    drop((device, driver));

    // Once everything is dropped, the device can be opened again.
    let fresh = open(&CudaConfig::default());
    fresh.alloc_pool(PoolId(1), 4).unwrap();
    assert!(fresh.new_stream("cuda:0:0").is_ok());
}

#[test]
fn an_illegal_access_fails_everything_and_nothing_hangs() {
    on_fake("", fails_everything);
}

#[test]
fn an_illegal_access_without_pools() {
    on_fake("pools=0 seed=5", fails_everything);
}

#[test]
fn readers_on_other_streams_get_the_error() {
    on_fake("seed=3", || {
        let driver = open(&CudaConfig::default());
        let device = device(&driver);
        let x = node("x", 1);
        let first = context(&device).init_from_host(&x, array(&[1])).unwrap();
        let second = first.on_stream(&device.new_stream().unwrap()).unwrap();
        let routine = first.link(&straying(&x), from_ref(&x)).unwrap();
        drop(routine.run(&[]).unwrap());
        let error = second.to_host(&x).unwrap_err();
        assert!(is_lost(&error), "{error}");
        assert!(error.to_string().contains("`x`"), "{error}");
    });
}

/// The loss does not affect another device.
#[test]
fn a_lost_device_concerns_no_other() {
    on_fake("devices=2", || {
        let (first, second) =
            (open(&CudaConfig::default()), open(&CudaConfig { ordinal: 1, ..CudaConfig::default() }));
        let (first, second) =
            (device(&first), device_runtime::Device::new(Arc::clone(second.driver()) as Arc<_>, 1));
        let x = node("x", 1);
        let one = context(&first).init_from_host(&x, array(&[1])).unwrap();
        let two = context(&second).init_from_host(&x, array(&[2])).unwrap();
        drop(one.link(&straying(&x), from_ref(&x)).unwrap().run(&[]).unwrap());
        assert!(is_lost(&one.to_host(&x).unwrap_err()));
        let transfer = two.device_to_device(&x, device_runtime::MergeBufferUse::No, &one);
        assert!(is_lost(&transfer.err().unwrap()));
        assert_eq!(values(&two, &x), [2]);
    });
}
