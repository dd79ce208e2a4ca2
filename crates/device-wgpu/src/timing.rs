//! Running times of kernels by the device's own clock.
//!
//! While timing is on, each launch is a compute pass of its own with a timestamp at its beginning and end.
//! That costs time between kernels, so timing is off by default.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, CommandEncoder, ComputePassTimestampWrites, Features, QuerySet,
    QuerySetDescriptor, QueryType,
};

use crate::{
    gpu::{Gpu, lock},
    staging::ReadbackBuffer,
};

/// The total running time of one kernel's launches on the device, without the time between launches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KernelTime {
    /// The number of timed launches.
    pub launches: u64,
    /// The total time in nanoseconds of the device's clock.
    pub nanos: f64,
}

/// The times of a device's kernels by name.
#[derive(Debug)]
pub(crate) struct KernelTimings {
    /// Nanoseconds per tick of the device's clock.
    tick: f64,
    is_on: AtomicBool,
    totals: Mutex<BTreeMap<String, KernelTime>>,
}

/// The timestamps of a batch under construction.
#[derive(Debug)]
pub(crate) struct BatchTimer {
    queries: QuerySet,
    /// The buffer to which the device writes the timestamps before they are read back.
    ticks: Buffer,
    /// The kernel's name for each launch.
    names: Vec<String>,
}

impl KernelTimings {
    pub(crate) fn new(gpu: &Gpu) -> KernelTimings {
        let tick = f64::from(gpu.queue.get_timestamp_period());
        KernelTimings { tick, is_on: AtomicBool::new(false), totals: Mutex::default() }
    }

    /// Turns timing on or off for batches submitted from now on.
    pub(crate) fn set(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Removes and returns the times collected since the last call.
    pub(crate) fn take(&self) -> BTreeMap<String, KernelTime> {
        std::mem::take(&mut lock(&self.totals))
    }

    /// A timer for a batch, if timing is on, the device has a clock, and the batch has launches.
    pub(crate) fn timer(&self, gpu: &Gpu, launches: usize) -> Option<BatchTimer> {
        let wanted = self.is_on.load(Ordering::Relaxed) && launches > 0 && can_time(gpu);
        wanted.then(|| BatchTimer {
            queries: gpu.device.create_query_set(&QuerySetDescriptor {
                label: Some("times"),
                ty: QueryType::Timestamp,
                count: 2 * launches as u32,
            }),
            ticks: gpu.device.create_buffer(&BufferDescriptor {
                label: Some("times"),
                size: 16 * launches as u64,
                usage: BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC,
                mapped_at_creation: false,
            }),
            names: Vec::with_capacity(launches),
        })
    }

    /// Adds the running times of a batch's launches, from the ticks at their beginnings and ends.
    pub(crate) fn add(&self, timer: BatchTimer, ticks: &[u64]) {
        let mut totals = lock(&self.totals);
        for (name, pair) in timer.names.into_iter().zip(ticks.chunks_exact(2)) {
            let total = totals.entry(name).or_default();
            total.launches += 1;
            total.nanos += pair[1].saturating_sub(pair[0]) as f64 * self.tick;
        }
    }
}

/// Whether the device has timestamps.
pub(crate) fn can_time(gpu: &Gpu) -> bool {
    gpu.device.features().contains(Features::TIMESTAMP_QUERY)
}

impl BatchTimer {
    /// The timestamps of the next launch, of kernel `name`.
    pub(crate) fn next(&mut self, name: &str) -> ComputePassTimestampWrites<'_> {
        let at = 2 * self.names.len() as u32;
        self.names.push(name.to_owned());
        ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(at),
            end_of_pass_write_index: Some(at + 1),
        }
    }

    /// Records the copy of the timestamps into the read-back buffer.
    pub(crate) fn resolve(&self, encoder: &mut CommandEncoder, readbacks: &ReadbackBuffer) {
        let bytes = 16 * self.names.len() as u64;
        if bytes > 0 {
            encoder.resolve_query_set(&self.queries, 0..2 * self.names.len() as u32, &self.ticks, 0);
            encoder.copy_buffer_to_buffer(&self.ticks, 0, &readbacks.buffer, readbacks.times as u64, bytes);
        }
    }
}
