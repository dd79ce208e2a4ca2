//! Sums over streams and data-parallel steps equal sums that are computed exactly on the host.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod faults;
mod rounds;
mod sums;

use std::sync::Arc;

use arrayjit::{Backend, Context, Device, HostArray, Settings, TensorNode};
use scheduler_multicore::{Cpu, CpuConfig};

/// A node of `f32`.
fn node(name: &str, dims: &[usize]) -> TensorNode {
    TensorNode::builder(name).dims(dims.iter().copied()).build().unwrap()
}

fn open(backend: &str) -> Backend {
    Backend::open_with(backend, &Settings::default()).unwrap()
}

fn array(values: &[f32], dims: &[usize]) -> HostArray {
    HostArray::from_slice(values, dims.iter().copied()).unwrap()
}

/// Contexts on streams of the backend's device, or of `devices` devices of the same kind in turn.
fn contexts(backend: &Backend, streams: usize, devices: usize) -> Vec<Context> {
    let more = (1..devices).map(|n| Device::new(Arc::new(Cpu::multicore(CpuConfig::default())), n));
    let devices: Vec<Device> = std::iter::once(backend.device().clone()).chain(more).collect();
    (0..streams).map(|n| Context::new(&devices[n % devices.len()].new_stream().unwrap())).collect()
}
