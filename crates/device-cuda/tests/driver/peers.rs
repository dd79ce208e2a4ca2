//! Several devices: copies between them, kernels that access another device's memory, and devices that are
//! not connected.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{slice::from_ref, sync::Arc};

use crate::support::*;
use codegen_core::{Access, KernelCall, Slot};
use device_cuda::CudaConfig;
use device_runtime::{Device, Driver, DriverError, MergeBufferUse, NullDevice, PoolId};
use lowered_ir::ir::NodeRef;

fn two() -> [Device; 2] {
    [0, 1].map(|ordinal| {
        let driver = open(&CudaConfig { ordinal, ..CudaConfig::default() });
        Device::new(Arc::clone(driver.driver()) as Arc<_>, ordinal as usize)
    })
}

/// Values are copied to the other device, changed there and copied back, many times.
fn pass_to_and_fro() {
    let [first, second] = two();
    let x = node("x", 1000);
    let start: Vec<i32> = (0..1000).collect();
    let one = context(&first).init_from_host(&x, array(&start)).unwrap();
    let two = context(&second).init_from_device(&x, &one).unwrap();
    let body = read("%r4", 0, "%r3") + "mad.lo.u32 %r4, %r4, 3, 1;\n" + &write(0, "%r3", "%r4");
    let step = code("step", &[(&x, Access::ReadWrite)], &[], 1000, &body);
    let routines = [&one, &two].map(|context| context.link(&step, from_ref(&x)).unwrap());
    let mut model = start;
    for _ in 0..5 {
        for (at, (to, from)) in [(&two, &one), (&one, &two)].into_iter().enumerate() {
            drop(routines[at].run(&[]).unwrap());
            drop(to.device_to_device(&x, MergeBufferUse::No, from).unwrap());
            model.iter_mut().for_each(|value| *value = value.wrapping_mul(3).wrapping_add(1));
        }
    }
    assert_eq!(values(&one, &x), model);
    let memory = first.memory().live_bytes;
    drop((two, routines));
    assert_eq!(first.memory().live_bytes, memory, "the other device's have gone, this one's have not");
}

#[test]
fn connected_devices_copy_from_each_other() {
    let notes = on_fake("devices=2", pass_to_and_fro);
    let Some(notes) = notes else { return };
    assert_eq!(notes.count("left"), 2);
}

#[test]
fn connected_devices_without_pools_copy_from_each_other() {
    on_fake("devices=2 pools=0 seed=4", pass_to_and_fro);
}

#[test]
fn devices_that_are_not_connected_copy_through_the_host() {
    on_fake("devices=2 peers=0", pass_to_and_fro);
}

/// A routine that adds the other device's values, read in place.
fn merge() -> u64 {
    let [first, second] = two();
    let x = node("x", 4);
    let one = context(&first).init_from_host(&x, array(&[1, 2, 3, 4])).unwrap();
    let two = context(&second).init_from_host(&x, array(&[10, 20, 30, 40])).unwrap();
    let body = read("%r4", 0, "%r3") + &read("%r5", 1, "%r3") + "add.u32 %r4, %r4, %r5;\n";
    let params = [(Access::ReadWrite, 16), (Access::Read, 16)];
    let kernel = Kernel::new("merge", &params, 4, &(body + &write(0, "%r3", "%r4"))).with_merge();
    let args = vec![Slot::Node(NodeRef(0)), Slot::Merge(NodeRef(0))];
    let call = KernelCall { kernel: 0, args, bindings: vec![] };
    let code = many_kernels("merge", from_ref(&x), &[], artifact(&[kernel]), vec![call], vec![]);
    let routine = two.link(&code, from_ref(&x)).unwrap();
    for _ in 0..3 {
        let lent = MergeBufferUse::StreamingFor(&routine, &[]);
        drop(two.device_to_device(&x, lent, &one).unwrap());
    }
    assert_eq!(values(&two, &x), [13, 26, 39, 52]);
    second.copied_merges()
}

#[test]
fn kernels_read_the_memory_of_connected_devices() {
    on_fake("devices=2", || assert_eq!(merge(), 0));
    on_fake("devices=2 pools=0", || assert_eq!(merge(), 0));
}

#[test]
fn merges_from_devices_that_are_not_connected_are_copies() {
    on_fake("devices=2 peers=0", || assert_eq!(merge(), 3));
}

#[test]
fn only_memory_that_is_reached_is_imported() {
    on_fake("devices=2 peers=0", || {
        let (first, second) =
            (open(&CudaConfig::default()), open(&CudaConfig { ordinal: 1, ..CudaConfig::default() }));
        let again = open(&CudaConfig::default());
        first.alloc_pool(PoolId(1), 64).unwrap();
        let exported = first.export(PoolId(1)).unwrap();
        let error = second.import(PoolId(1), &exported).unwrap_err();
        assert_eq!(error.to_string(), "device `cuda` does not share memory of others");
        again.import(PoolId(7), &exported).unwrap();
        assert_eq!((first.used_memory(), again.used_memory()), (64, 0));
        first.free_pool(PoolId(1));
        drop(exported);
        assert_eq!(first.used_memory(), 64, "the import has it");
        again.free_pool(PoolId(7));
        assert_eq!(first.used_memory(), 0);
        assert_eq!(first.export(PoolId(1)).unwrap_err(), DriverError::NoSuchPool { pool: PoolId(1) });
        let host = device_runtime::SharedMemory::of_host(Arc::new(array(&[1])));
        assert!(matches!(first.import(PoolId(2), &host), Err(DriverError::NoPeerAccess { .. })));
        let null = NullDevice::new();
        let stream = first.new_stream("cuda:0:0").unwrap();
        let event = null.record(&null.new_stream("null:0:0").unwrap()).unwrap();
        let waited = first.wait(&stream, &event, device_runtime::WaitKind::Data);
        assert_eq!(waited, Err(DriverError::ForeignHandle { what: "event" }));
    });
}
