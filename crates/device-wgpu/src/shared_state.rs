//! State that all streams of a device share.

use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

use wgpu::{BufferDescriptor, BufferUsages};

use crate::{
    encode::TABLES_BYTES,
    gpu::{Gpu, GpuError, lock},
    kernel::PipelineCache,
    timing::DeviceClock,
};

/// A device, its pipelines, and the buffer of its kernels' parameter tables.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) pipelines: PipelineCache,
    /// The parameter tables of the next batch; written before each submission.
    pub(crate) tables: wgpu::Buffer,
    pub(crate) clock: DeviceClock,
    submitting: Mutex<()>,
    submissions: AtomicU64,
}

impl SharedState {
    pub(crate) fn new(gpu: Arc<Gpu>) -> Result<SharedState, GpuError> {
        let descriptor = BufferDescriptor {
            label: Some("tables"),
            size: TABLES_BYTES as u64,
            usage: BufferUsages::UNIFORM | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        };
        let tables = gpu.checked(|| Ok(gpu.device.create_buffer(&descriptor)))?;
        let clock = DeviceClock::new(&gpu);
        let (pipelines, submitting, submissions) =
            (PipelineCache::default(), Mutex::default(), AtomicU64::new(0));
        Ok(SharedState { gpu, pipelines, tables, clock, submitting, submissions })
    }

    /// Locks the device for a submission: no other batch may write its tables between the moment when a batch
    /// writes its tables and the submission of its commands.
    pub(crate) fn submitting(&self) -> MutexGuard<'_, ()> {
        self.submissions.fetch_add(1, Ordering::Relaxed);
        lock(&self.submitting)
    }

    /// The number of submitted batches.
    pub(crate) fn submissions(&self) -> u64 {
        self.submissions.load(Ordering::Relaxed)
    }
}
