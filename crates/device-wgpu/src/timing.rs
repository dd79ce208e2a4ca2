//! How long kernels take on the device, by its own clock.
//!
//! While timing is on, each launch is a compute pass of its own with a time at either end. That costs time between kernels, so it is off
//! unless somebody asks.

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
    staging::Landings,
};

/// What the launches of one kernel took on the device, without what is between them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KernelTime {
    /// How many launches were timed.
    pub launches: u64,
    /// What they took together, in nanoseconds of the device's clock.
    pub nanos: f64,
}

/// The times of a device's kernels by name.
#[derive(Debug)]
pub(crate) struct Timings {
    /// Nanoseconds of a tick of the device's clock.
    tick: f64,
    is_on: AtomicBool,
    totals: Mutex<BTreeMap<String, KernelTime>>,
}

/// The times of a batch's launches in the making.
#[derive(Debug)]
pub(crate) struct Timer {
    queries: QuerySet,
    /// Where the device puts the times before they are read back.
    ticks: Buffer,
    /// The kernel of each launch.
    names: Vec<String>,
}

impl Timings {
    pub(crate) fn new(gpu: &Gpu) -> Timings {
        let tick = f64::from(gpu.queue.get_timestamp_period());
        Timings { tick, is_on: AtomicBool::new(false), totals: Mutex::default() }
    }

    /// Whether from now on launches are timed.
    pub(crate) fn set(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// What was timed since the last call.
    pub(crate) fn take(&self) -> BTreeMap<String, KernelTime> {
        std::mem::take(&mut lock(&self.totals))
    }

    /// Something to time a batch with, if that is wanted and there is anything to time.
    pub(crate) fn timer(&self, gpu: &Gpu, launches: usize) -> Option<Timer> {
        let wanted = self.is_on.load(Ordering::Relaxed) && launches > 0 && can_time(gpu);
        wanted.then(|| Timer {
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

    /// Adds up what a batch's launches took, from the ticks at their beginnings and ends.
    pub(crate) fn add(&self, timer: Timer, ticks: &[u64]) {
        let mut totals = lock(&self.totals);
        for (name, pair) in timer.names.into_iter().zip(ticks.chunks_exact(2)) {
            let total = totals.entry(name).or_default();
            total.launches += 1;
            total.nanos += pair[1].saturating_sub(pair[0]) as f64 * self.tick;
        }
    }
}

/// Whether the device has a clock.
pub(crate) fn can_time(gpu: &Gpu) -> bool {
    gpu.device.features().contains(Features::TIMESTAMP_QUERY)
}

impl Timer {
    /// Where the next launch, of kernel `name`, puts its times.
    pub(crate) fn next(&mut self, name: &str) -> ComputePassTimestampWrites<'_> {
        let at = 2 * self.names.len() as u32;
        self.names.push(name.to_owned());
        ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(at),
            end_of_pass_write_index: Some(at + 1),
        }
    }

    /// Has the times copied to where they are read back.
    pub(crate) fn resolve(&self, encoder: &mut CommandEncoder, landings: &Landings) {
        let bytes = 16 * self.names.len() as u64;
        if bytes > 0 {
            encoder.resolve_query_set(&self.queries, 0..2 * self.names.len() as u32, &self.ticks, 0);
            encoder.copy_buffer_to_buffer(&self.ticks, 0, &landings.buffer, landings.times as u64, bytes);
        }
    }
}
