//! Allocation, and the contents of new memory.

use std::slice::from_ref;

use codegen_core::{Access, KernelCall, Slot, Temp, TempId};
use device_runtime::{DriverError, RunError};
use lowered_ir::ir::NodeRef;
use tnode::{DType, HostArray, TensorNode};

use super::hand_made::{code, context, context_with, many_kernels, node, values};
use super::{Gpu, Store, StoreKernel, Word};
use crate::runtime::hand_made::padding_comes_back_from;

/// Only a routine itself can access its temporaries.
pub fn temporaries_carry_values_between_kernels(gpu: &dyn Gpu) {
    let Some(device) = gpu.device() else { return };
    let (x, y) = (node("x", 4), node("y", 4));
    let params = [(Access::Read, 16), (Access::Write, 16)];
    let doubled = vec![Store::new(1, Word::Thread, Word::read(0, Word::Thread).times(2))];
    let kernels = ["to_temp", "from_temp"].map(|name| StoreKernel::new(name, &params, 4, doubled.clone()));
    let call = |kernel, from, to| KernelCall { kernel, args: vec![from, to], bindings: vec![] };
    let (x_slot, y_slot, temp) = (Slot::Node(NodeRef(0)), Slot::Node(NodeRef(1)), Slot::Temp(TempId(0)));
    let code = many_kernels(
        "twice",
        &[x.clone(), y.clone()],
        &[],
        gpu.artifact(&kernels),
        vec![call(0, x_slot, temp), call(1, temp, y_slot)],
        vec![Temp { node: NodeRef(0), bytes: 16, offset: 256, live: (0, 1) }],
    );
    let context = context_with(&device, &x, &[1, 2, 3, 4]);
    let routine = context.link(&code, &[x, y.clone()]).unwrap();
    drop(routine.run(&[]).unwrap());
    assert_eq!(values(routine.context(), &y), [4, 8, 12, 16]);
}

/// Reused memory is zeroed.
pub fn a_fresh_output_is_zero_where_nothing_wrote(gpu: &dyn Gpu) {
    let Some(device) = gpu.device() else { return };
    let y = node("y", 3);
    let code = code(gpu, "corner", &[(&y, Access::WritePart)], &[], 1, vec![Store::new(0, 1, 5)]);
    for _ in 0..3 {
        let unread = context(&device).link(&code, from_ref(&y)).unwrap();
        assert_eq!(values(unread.context(), &y), [0, 0, 0]);
        let routine = context(&device).link(&code, from_ref(&y)).unwrap();
        drop(routine.run(&[]).unwrap());
        assert_eq!(values(routine.context(), &y), [0, 5, 0]);
    }
}

/// Memory that the first task overwrites is not zeroed.
pub fn what_the_first_task_overwrites_is_not_zeroed(gpu: &dyn Gpu) {
    let Some((_, device)) = gpu.open(None) else { return };
    let y = node("y", 3);
    let fill = vec![Store::new(0, Word::Thread, 7)];
    let code = code(gpu, "fill", &[(&y, Access::Write)], &[], 3, fill);
    let routine = context(&device).link(&code, from_ref(&y)).unwrap();
    drop(routine.run(&[]).unwrap());
    assert_eq!(values(routine.context(), &y), [7, 7, 7]);
    assert_eq!(device.zero_fills(), 0);
}

/// Margins are transferred to the device and back.
pub fn padding_comes_back(gpu: &dyn Gpu) {
    let Some(device) = gpu.device() else { return };
    padding_comes_back_from(&device);
}

/// Transfers work for every element type and for nodes of any size.
pub fn values_of_every_type_and_length_come_back(gpu: &dyn Gpu) {
    let Some(device) = gpu.device() else { return };
    for dtype in DType::ALL {
        for len in [0, 1, 2, 3, 4, 5, 7, 63, 257] {
            let x = TensorNode::builder("x").dims([len]).dtype(dtype).build().unwrap();
            let mut host = HostArray::zeros(dtype, [len]).unwrap();
            host.bytes_mut().iter_mut().zip(1u8..=255).for_each(|(byte, value)| *byte = value & 1);
            let context = context(&device).init_from_host(&x, &host).unwrap();
            assert_eq!(context.to_host(&x).unwrap().bytes(), host.bytes(), "{len} of {dtype}");
        }
    }
}

/// The runtime releases memory at once, the driver when the tasks that use it are done.
pub fn memory_returns_to_zero_when_tasks_are_done(gpu: &dyn Gpu) {
    let Some((driver, device)) = gpu.open(None) else { return };
    let (x, y) = (node("x", 1000), node("y", 1 << 16));
    let parent = context_with(&device, &x, &[1; 1000]);
    assert_eq!((device.memory().live_bytes, driver.used_memory()), (4000, 4000));
    let uses = [(&x, Access::Read), (&y, Access::Write)];
    let code = code(gpu, "fill", &uses, &[], 1 << 16, vec![Store::new(1, Word::Thread, Word::read(0, 0))]);
    for _ in 0..3 {
        let routine = parent.link(&code, &[x.clone(), y.clone()]).unwrap();
        let event = routine.run(&[]).unwrap();
        drop(routine);
        assert_eq!(device.memory().live_bytes, 4000, "the runtime has forgotten it");
        event.sync().unwrap();
        assert_eq!(driver.used_memory(), 4000);
    }
    drop(parent);
    device.sync().unwrap();
    assert_eq!(driver.used_memory(), 0);
}

/// The error names the node that did not fit, and earlier allocations are freed.
pub fn a_failed_link_leaves_nothing_allocated(gpu: &dyn Gpu) {
    let Some((driver, device)) = gpu.open(Some(1 << 20)) else { return };
    let (x, big, fits) = (node("x", 16), node("big", 1 << 20), node("fits", 1 << 14));
    let context = context_with(&device, &x, &[0; 16]);
    device.sync().unwrap();
    let before = driver.used_memory();
    let fill = |uses: &[_]| code(gpu, "fill", uses, &[], 1, vec![Store::new(0, 0, 1)]);
    let both = fill(&[(&fits, Access::Write), (&big, Access::Write)]);
    let error = context.link(&both, &[fits.clone(), big.clone()]).unwrap_err();
    assert!(matches!(&error, RunError::Driver { source: DriverError::OutOfMemory { .. }, .. }), "{error}");
    assert!(error.to_string().contains("`big`"), "{error}");
    assert_eq!((device.memory().live_bytes, driver.used_memory()), (before, before));
    assert!(context.link(&fill(&[(&fits, Access::Write)]), from_ref(&fits)).is_ok());
}
