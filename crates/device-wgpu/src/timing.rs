//! Running times of kernels by the device's own clock.
//!
//! A timed launch is a compute pass of its own with a timestamp at its beginning and end. Timestamps have no
//! relation to the host's clock, so each kernel is placed relative to the end of the kernel that was timed
//! before it.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use device_runtime::{CallTime, KernelTimer};
use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, CommandEncoder, ComputePassTimestampWrites, Features, QuerySet,
    QuerySetDescriptor, QueryType,
};

use crate::{
    gpu::{Gpu, lock},
    staging::ReadbackBuffer,
};

/// Whether the device has timestamps.
pub(crate) fn can_time(gpu: &Gpu) -> bool {
    gpu.device.features().contains(Features::TIMESTAMP_QUERY)
}

/// Translates timestamps of the device to times of the host.
#[derive(Debug)]
pub(crate) struct DeviceClock {
    /// Nanoseconds per tick.
    tick: f64,
    /// The end of the last timed kernel.
    last: Mutex<Option<(u64, Instant)>>,
}

impl DeviceClock {
    pub(crate) fn new(gpu: &Gpu) -> DeviceClock {
        DeviceClock { tick: f64::from(gpu.queue.get_timestamp_period()), last: Mutex::default() }
    }

    /// The time between two timestamps; 0 if they are in the other order.
    fn between(&self, begin: u64, end: u64) -> Duration {
        Duration::from_nanos((end.saturating_sub(begin) as f64 * self.tick) as u64)
    }

    /// The time of a kernel with these timestamps. The first one is assumed to end now.
    fn time(&self, begin: u64, end: u64) -> CallTime {
        let kernel = self.between(begin, end);
        let mut last = lock(&self.last);
        let start = match *last {
            Some((tick, at)) => at + self.between(tick, begin),
            None => {
                let now = Instant::now();
                now.checked_sub(kernel).unwrap_or(now)
            }
        };
        *last = Some((end, start + kernel));
        CallTime { begin: start, end: start + kernel, size: None }
    }
}

/// The timestamps of a batch.
#[derive(Debug)]
pub(crate) struct BatchTimer {
    queries: QuerySet,
    /// The buffer to which the device writes the timestamps before they are read back.
    ticks: Buffer,
    /// The timer of each launch so far.
    timers: Vec<KernelTimer>,
}

impl BatchTimer {
    /// A timer for a batch with so many timed launches; `None` if there are none.
    pub(crate) fn new(gpu: &Gpu, launches: usize) -> Option<BatchTimer> {
        (launches > 0).then(|| BatchTimer {
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
            timers: Vec::with_capacity(launches),
        })
    }

    /// The timestamps of the next launch, whose time goes to `timer`.
    pub(crate) fn next(&mut self, timer: &KernelTimer) -> ComputePassTimestampWrites<'_> {
        let at = 2 * self.timers.len() as u32;
        self.timers.push(timer.clone());
        ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(at),
            end_of_pass_write_index: Some(at + 1),
        }
    }

    /// Records the copy of the timestamps into the read-back buffer.
    pub(crate) fn resolve(&self, encoder: &mut CommandEncoder, readbacks: &ReadbackBuffer) {
        let launches = self.timers.len() as u32;
        if launches > 0 {
            encoder.resolve_query_set(&self.queries, 0..2 * launches, &self.ticks, 0);
            let (to, at) = (&readbacks.buffer, readbacks.times as u64);
            encoder.copy_buffer_to_buffer(&self.ticks, 0, to, at, 16 * u64::from(launches));
        }
    }

    /// Passes the times of the launches to their timers, from the ticks at their beginnings and ends.
    pub(crate) fn finish(&self, clock: &DeviceClock, ticks: &[u64]) {
        for (timer, pair) in self.timers.iter().zip(ticks.chunks_exact(2)) {
            timer.record(clock.time(pair[0], pair[1]));
        }
    }
}
