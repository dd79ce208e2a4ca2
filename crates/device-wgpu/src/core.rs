//! What all streams of a device share.

use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

use wgpu::{BufferDescriptor, BufferUsages};

use crate::{
    encode::TABLES_BYTES,
    gpu::{Gpu, Objection, lock},
    kernel::Pipelines,
    timing::Timings,
};

/// A device, its pipelines, and the buffer of its kernels' tables.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) pipelines: Pipelines,
    /// The tables of the batch that is submitted next; written in front of each submission.
    pub(crate) tables: wgpu::Buffer,
    pub(crate) timings: Timings,
    submitting: Mutex<()>,
    submissions: AtomicU64,
}

impl Core {
    pub(crate) fn new(gpu: Arc<Gpu>) -> Result<Core, Objection> {
        let descriptor = BufferDescriptor {
            label: Some("tables"),
            size: TABLES_BYTES as u64,
            usage: BufferUsages::UNIFORM | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        };
        let tables = gpu.checked(|| Ok(gpu.device.create_buffer(&descriptor)))?;
        let timings = Timings::new(&gpu);
        let (pipelines, submitting, submissions) =
            (Pipelines::default(), Mutex::default(), AtomicU64::new(0));
        Ok(Core { gpu, pipelines, tables, timings, submitting, submissions })
    }

    /// Held while a batch's tables are written and its commands submitted: one step to all other batches.
    pub(crate) fn submitting(&self) -> MutexGuard<'_, ()> {
        self.submissions.fetch_add(1, Ordering::Relaxed);
        lock(&self.submitting)
    }

    /// How many batches were submitted.
    pub(crate) fn submissions(&self) -> u64 {
        self.submissions.load(Ordering::Relaxed)
    }
}
