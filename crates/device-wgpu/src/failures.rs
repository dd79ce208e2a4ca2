//! Tests of tasks that fail after they were submitted. Callers cannot make such tasks, so these tests
//! override the device's limit of workgroups with a larger one.

#![allow(unsafe_code, reason = "the tasks of these tests are ordered by streams and waits")]

use std::sync::Arc;

use codegen_core::{Access, Artifact, CodegenError, Cost, KernelAbi, Launch, Param, Shader, ShaderModule};
use codegen_testkit::gpu::or_skip;
use device_runtime::{
    BoundKernel, DirectDriver, Driver, DriverError, HostReadback, Location, PoolId, StreamHandle, WaitKind,
};
use tnode::{DType, HostArray};

use crate::device::{WgpuConfig, WgpuDevice};

/// More workgroups in one dimension than any device runs.
const MANY: u32 = 1 << 20;

/// A kernel that adds one to a word in each of its workgroups.
#[derive(Debug)]
struct Increment(u32);

impl ShaderModule for Increment {
    fn shader(&self, _: usize, _: &[u32]) -> Result<Shader, CodegenError> {
        let wgsl = "
            @group(0) @binding(0) var<uniform> table: array<vec4<u32>, 1>;
            @group(0) @binding(1) var<storage, read_write> slab: array<u32>;
            @compute @workgroup_size(1) fn main() { slab[table[0].x] += 1u; }";
        Ok(Shader { wgsl: wgsl.to_owned(), groups: self.0.into(), table_words: 1 })
    }
}

fn open(test: &str) -> Option<DirectDriver<WgpuDevice>> {
    let override_limits = |limits: &mut wgpu::Limits| limits.max_compute_workgroups_per_dimension = MANY;
    let opened = WgpuDevice::open_with(&WgpuConfig::default(), override_limits);
    or_skip(test, opened).map(|device| DirectDriver::new(Arc::new(device)))
}

fn at(pool: u32) -> Location {
    Location { pool: PoolId(pool), offset: 0 }
}

/// Binds the kernel to the first word of a pool; if `bad`, with a grid that no device runs.
fn bound(device: &DirectDriver<WgpuDevice>, name: &str, pool: u32, bad: bool) -> BoundKernel {
    let params = vec![Param::Node { access: Access::ReadWrite, bytes: 4 }];
    let launch = Launch { extent: 1, grain: 1, threads: 1, end: None };
    let (scratch_bytes, log, cost) = (0, [].into(), Cost::default());
    let abi = KernelAbi { name: name.to_owned(), params, launch, scratch_bytes, log, cost };
    let code = Increment(if bad { MANY } else { 1 });
    let module = device.load(&Artifact::shaders(Arc::new(code), vec![abi])).unwrap();
    device.bind(&module.kernel(0).unwrap(), &[at(pool)]).unwrap()
}

fn read(device: &DirectDriver<WgpuDevice>, stream: &StreamHandle, pool: u32) -> Result<u32, DriverError> {
    let readback = HostReadback::new(HostArray::zeros(DType::U32, [1]).unwrap());
    // SAFETY: see the module.
    unsafe { device.copy_out(stream, at(pool), &readback)? };
    device.sync(&device.record(stream)?)?;
    Ok(readback.take().unwrap().as_slice::<u32>().unwrap()[0])
}

#[test]
fn a_failed_task_fails_what_comes_after_it_on_its_stream() {
    let Some(device) = open("a_failed_task_fails_what_comes_after_it_on_its_stream") else { return };
    (1..=2).for_each(|pool| device.alloc_pool(PoolId(pool), 4).unwrap());
    let streams: Vec<_> = (0..4).map(|id| device.new_stream(&format!("wgpu:0:{id}")).unwrap()).collect();
    let (good, bad) = (bound(&device, "good", 1, false), bound(&device, "bad", 2, true));
    let launch = |stream: usize, bound| {
        // SAFETY: see the module.
        unsafe { device.launch(&streams[stream], bound, &[]) }
    };
    // Both launches are in one batch, because no event is recorded between them and the stream is not polled.
    launch(0, &good).unwrap();
    launch(0, &bad).unwrap();
    launch(0, &good).unwrap();
    let event = device.record(&streams[0]).unwrap();
    let Err(DriverError::Failed(failure)) = device.sync(&event) else { panic!("the task did not fail") };
    assert_eq!((failure.stream(), failure.task()), ("wgpu:0:0", "bad"));
    assert!(failure.message().contains("dispatch"), "{failure}");

    let failed = DriverError::Failed(failure);
    assert_eq!(launch(0, &good), Err(failed.clone()));
    assert_eq!(device.is_done(&device.record(&streams[0]).unwrap()), Err(failed.clone()));
    device.wait(&streams[1], &event, WaitKind::Data).unwrap();
    assert_eq!(launch(1, &good), Err(failed.clone()), "what builds on it fails with it");
    device.wait(&streams[2], &event, WaitKind::Order).unwrap();
    assert_eq!(
        read(&device, &streams[2], 1),
        Ok(1),
        "what was in front of it was done, what came after it was not"
    );

    device.reset_stream(&streams[0]).unwrap();
    device.reset_stream(&streams[1]).unwrap();
    launch(0, &good).unwrap();
    assert_eq!(read(&device, &streams[0], 1), Ok(2));
    device.wait(&streams[1], &device.record(&streams[0]).unwrap(), WaitKind::Data).unwrap();
    assert_eq!(read(&device, &streams[1], 1), Ok(2));
}

#[test]
fn events_in_front_of_a_failure_are_done() {
    let Some(device) = open("events_in_front_of_a_failure_are_done") else { return };
    (1..=2).for_each(|pool| device.alloc_pool(PoolId(pool), 4).unwrap());
    let stream = device.new_stream("wgpu:0:0").unwrap();
    let (good, bad) = (bound(&device, "good", 1, false), bound(&device, "bad", 2, true));
    let mut events = Vec::new();
    for bound in [&good, &good, &good, &bad, &good] {
        // SAFETY: see the module.
        let launched = unsafe { device.launch(&stream, bound, &[]) };
        events.extend(launched.and_then(|()| device.record(&stream)));
    }
    let outcomes: Vec<bool> = events.iter().map(|event| device.sync(event).is_ok()).collect();
    assert_eq!(outcomes[..4], [true, true, true, false]);
    assert!(outcomes[4..].iter().all(|is_ok| !is_ok));
    device.drop_stream(stream);
    let fresh = device.new_stream("wgpu:0:1").unwrap();
    assert_eq!(read(&device, &fresh, 1), Ok(3));
}
