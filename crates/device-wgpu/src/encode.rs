//! Encodes a batch of commands as one command buffer and submits it.
//!
//! * Adjacent launches form one compute pass. Their parameter tables are stored one after the other in one
//!   uniform buffer, which is written before the submission.
//! * All uploads of a batch go through one buffer, which the host fills beforehand. All read-backs go through
//!   another buffer, which is mapped when the batch is done.
//! * WebGPU copies whole words, and never within one buffer. Copies within a slab go through a bounce buffer.
//!   A range that begins or ends inside a word is merged with the word's other bytes by a small kernel
//!   (`merge.wgsl`).

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use device_runtime::KernelTimer;
use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, CommandEncoder, ComputePass, ComputePassDescriptor, MapMode,
    SubmissionIndex,
};

use crate::{
    command::Command,
    gpu::GpuError,
    grid,
    kernel::{BoundPipeline, KernelText, PreparedPipeline},
    shared_state::SharedState,
    slab::MemoryRegion,
    staging::{ReadbackBuffer, UploadBuffer},
    timing::BatchTimer,
};

/// Size in bytes of the buffer that holds the parameter tables of a batch.
pub(crate) const TABLES_BYTES: usize = 256 << 10;

const MERGE: &str = include_str!("merge.wgsl");

/// The maximum number of bytes that a command takes in the buffer of parameter tables.
pub(crate) fn table_room(command: &Command, alignment: usize) -> usize {
    // A copy may need a merge kernel, whose table takes 16 bytes.
    let copy = 16usize.next_multiple_of(alignment);
    match command {
        Command::Launch(bound, ..) => {
            bound.assembled.table_bytes.next_multiple_of(alignment) + 2 * bound.packed.len() * copy
        }
        Command::Zero(_) | Command::CopyIn(..) | Command::CopyOut(..) | Command::Copy(..) => copy,
    }
}

/// A submitted batch.
#[derive(Debug)]
pub(crate) struct SubmittedBatch {
    pub(crate) index: SubmissionIndex,
    progress: Arc<BatchProgress>,
    readbacks: Option<ReadbackBuffer>,
    timer: Option<BatchTimer>,
}

/// The completion state of a batch, which callbacks of wgpu update.
#[derive(Debug)]
struct BatchProgress {
    /// The number of outstanding callbacks.
    awaited: AtomicUsize,
    is_mapped: AtomicBool,
}

impl SubmittedBatch {
    /// Whether the device has executed the batch and its read-backs are mapped.
    pub(crate) fn is_done(&self) -> bool {
        // Acquire: pairs with the release of the last callback.
        self.progress.awaited.load(Ordering::Acquire) == 0
    }

    /// Copies the read-backs of a completed batch into their host arrays.
    ///
    /// # Errors
    ///
    /// An error if the memory could not be mapped.
    pub(crate) fn complete(self, shared: &SharedState) -> Result<(), GpuError> {
        let is_mapped = self.progress.is_mapped.load(Ordering::Acquire);
        let Some(readbacks) = self.readbacks else { return Ok(()) };
        if !is_mapped {
            return Err(GpuError::Rejected("the memory read back could not be mapped".to_owned()));
        }
        let times = readbacks.complete()?;
        if let Some(timer) = self.timer {
            timer.finish(&shared.clock, &times);
        }
        Ok(())
    }
}

/// Encodes and submits commands in order. If one of them is rejected, none is executed.
pub(crate) fn submit(shared: &SharedState, commands: &[Command]) -> Result<SubmittedBatch, GpuError> {
    shared.gpu.checked(|| {
        let mut encoding = BatchEncoder::new(shared, commands)?;
        commands.iter().try_for_each(|command| encoding.add(command))?;
        encoding.submit()
    })
}

/// A command buffer under construction.
struct BatchEncoder<'a> {
    shared: &'a SharedState,
    /// The compute pass that the next launch joins. It ends before the encoder records anything else.
    pass: Option<ComputePass<'static>>,
    encoder: CommandEncoder,
    /// The batch's parameter tables, each aligned as dynamic offsets must be.
    tables: Vec<u8>,
    uploads: Option<UploadBuffer>,
    readbacks: Option<ReadbackBuffer>,
    timer: Option<BatchTimer>,
}

impl<'a> BatchEncoder<'a> {
    fn new(shared: &'a SharedState, commands: &[Command]) -> Result<BatchEncoder<'a>, GpuError> {
        let gpu = &shared.gpu;
        let is_timed = |command: &&Command| matches!(command, Command::Launch(_, _, Some(_)));
        let timed = commands.iter().filter(is_timed).count();
        Ok(BatchEncoder {
            shared,
            encoder: gpu
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("batch") }),
            pass: None,
            tables: Vec::new(),
            uploads: UploadBuffer::new(gpu, commands)?,
            readbacks: ReadbackBuffer::new(gpu, commands, timed),
            timer: BatchTimer::new(gpu, timed),
        })
    }

    fn add(&mut self, command: &Command) -> Result<(), GpuError> {
        match command {
            Command::Launch(bound, indices, timer) => {
                let Some(grid) = bound.grid else { return Ok(()) };
                bound.packed.iter().try_for_each(|region| self.copy(&region.packed, &region.home))?;
                let words = bound.offsets.iter().chain(indices).copied();
                let at = self.table(&bound.assembled, words);
                self.dispatch(bound, at, grid, timer.as_ref());
                let mut written = bound.packed.iter().filter(|region| region.is_written);
                written.try_for_each(|region| self.copy(&region.home, &region.packed))?;
            }
            Command::Zero(region) if region.is_whole_words() => {
                let (begin, bytes) = words(region);
                self.outside_passes().clear_buffer(&region.slab().buffer, begin, Some(bytes));
            }
            Command::Zero(region) => {
                let zeros = self.scratch(region.bytes);
                self.merge(region, &zeros, 0)?;
            }
            Command::CopyIn(region, task) => {
                let uploads = self.uploads.as_mut().expect("there is room for every upload of the batch");
                let (at, buffer) = (uploads.add(task.src()), uploads.buffer.clone());
                self.put(region, &buffer, at)?;
            }
            Command::CopyOut(region, readback) => {
                let readbacks =
                    self.readbacks.as_mut().expect("there is room for every read-back of the batch");
                let (at, buffer) = (readbacks.add(region, readback), readbacks.buffer.clone());
                let (begin, bytes) = enclosing_words(region);
                let slab = &region.slab().buffer;
                self.outside_passes().copy_buffer_to_buffer(slab, begin, &buffer, at as u64, bytes);
            }
            Command::Copy(to, from) => self.copy(to, from)?,
        }
        Ok(())
    }

    /// Copies directly if the ranges are whole words of different slabs, else through a bounce buffer.
    fn copy(&mut self, to: &MemoryRegion, from: &MemoryRegion) -> Result<(), GpuError> {
        let (begin, bytes) = enclosing_words(from);
        let (source, slab) = (&from.slab().buffer, &to.slab().buffer);
        if to.slab().id != from.slab().id && to.is_whole_words() && from.begin().is_multiple_of(4) {
            let (at, bytes) = words(to);
            self.outside_passes().copy_buffer_to_buffer(source, begin, slab, at, bytes);
            return Ok(());
        }
        let bounce = self.scratch(bytes as usize);
        self.outside_passes().copy_buffer_to_buffer(source, begin, &bounce, 0, bytes);
        self.put(to, &bounce, from.begin() % 4)
    }

    /// Copies from byte `at` of a buffer that is not a slab.
    fn put(&mut self, to: &MemoryRegion, from: &Buffer, at: usize) -> Result<(), GpuError> {
        if !to.is_whole_words() || !at.is_multiple_of(4) {
            return self.merge(to, from, at);
        }
        let (begin, bytes) = words(to);
        let slab = &to.slab().buffer;
        self.outside_passes().copy_buffer_to_buffer(from, at as u64, slab, begin, bytes);
        Ok(())
    }

    /// Copies from byte `at` of a buffer that is not a slab, and preserves the other bytes of the first and
    /// the last word written.
    fn merge(&mut self, to: &MemoryRegion, from: &Buffer, at: usize) -> Result<(), GpuError> {
        let SharedState { gpu, pipelines, tables, .. } = self.shared;
        let text = KernelText { name: "merge", wgsl: MERGE, words: 3 };
        let assembled = pipelines.assemble(gpu, tables, &text, &[&to.slab().buffer, from])?;
        let (_, bytes) = enclosing_words(to);
        let limit = gpu.limits.max_compute_workgroups_per_dimension;
        let groups = (bytes / 4).div_ceil(64);
        let grid =
            grid::split("merge", groups, limit).map_err(|error| GpuError::Rejected(error.to_string()))?;
        let table = self.table(&assembled, [to.begin(), at, to.bytes].map(|word| word as u32).into_iter());
        self.run("merge", &assembled, table, grid.unwrap_or([1; 3]));
        Ok(())
    }

    /// Appends a kernel's parameter table and returns its offset.
    fn table(&mut self, kernel: &PreparedPipeline, words: impl Iterator<Item = u32>) -> u32 {
        let alignment = self.shared.gpu.limits.min_uniform_buffer_offset_alignment as usize;
        self.tables.resize(self.tables.len().next_multiple_of(alignment), 0);
        let at = self.tables.len();
        self.tables.extend(words.flat_map(u32::to_le_bytes));
        self.tables.resize(at + kernel.table_bytes, 0);
        at as u32
    }

    /// Dispatches a kernel of a routine, whose time `timer` records.
    fn dispatch(&mut self, bound: &BoundPipeline, table: u32, grid: [u32; 3], timer: Option<&KernelTimer>) {
        let (name, kernel) = (&*bound.name, &bound.assembled);
        let (Some(timer), Some(timers)) = (timer, &mut self.timer) else {
            return self.run(name, kernel, table, grid);
        };
        self.pass = None;
        let descriptor =
            ComputePassDescriptor { label: Some(name), timestamp_writes: Some(timers.next(timer)) };
        let pass = self.encoder.begin_compute_pass(&descriptor).forget_lifetime();
        self.pass = Some(pass);
        self.run(name, kernel, table, grid);
        self.pass = None;
    }

    fn run(&mut self, name: &str, kernel: &PreparedPipeline, table: u32, [x, y, z]: [u32; 3]) {
        let pass = self.pass.get_or_insert_with(|| {
            let descriptor = ComputePassDescriptor { label: Some(name), timestamp_writes: None };
            self.encoder.begin_compute_pass(&descriptor).forget_lifetime()
        });
        pass.set_pipeline(&kernel.pipeline);
        pass.set_bind_group(0, &kernel.group, &[table]);
        pass.dispatch_workgroups(x, y, z);
    }

    /// The encoder, for commands outside of compute passes.
    fn outside_passes(&mut self) -> &mut CommandEncoder {
        self.pass = None;
        &mut self.encoder
    }

    /// A new buffer of zeros.
    fn scratch(&self, bytes: usize) -> Buffer {
        self.shared.gpu.device.create_buffer(&BufferDescriptor {
            label: Some("bounce"),
            size: bytes.next_multiple_of(4) as u64,
            usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    }

    fn submit(mut self) -> Result<SubmittedBatch, GpuError> {
        let gpu = &self.shared.gpu;
        self.pass = None;
        if let (Some(timer), Some(readbacks)) = (&self.timer, &self.readbacks) {
            timer.resolve(&mut self.encoder, readbacks);
        }
        if let Some(uploads) = self.uploads {
            uploads.finish();
        }
        let progress = track(&self.encoder, self.readbacks.as_ref());
        let commands = self.encoder.finish();
        // Another batch must not write its tables between these tables and the submission of their commands.
        let submitting = self.shared.submitting();
        if !self.tables.is_empty() {
            gpu.queue.write_buffer(&self.shared.tables, 0, &self.tables);
        }
        let index = gpu.queue.submit([commands]);
        drop(submitting);
        Ok(SubmittedBatch { index, progress, readbacks: self.readbacks, timer: self.timer })
    }
}

/// Registers callbacks for the completion of a batch and the mapping of its read-backs.
fn track(encoder: &CommandEncoder, readbacks: Option<&ReadbackBuffer>) -> Arc<BatchProgress> {
    let awaited = 1 + usize::from(readbacks.is_some());
    let progress = BatchProgress { awaited: AtomicUsize::new(awaited), is_mapped: AtomicBool::new(false) };
    let progress = Arc::new(progress);
    if let Some(readbacks) = readbacks {
        let progress_handle = Arc::clone(&progress);
        encoder.map_buffer_on_submit(&readbacks.buffer, MapMode::Read, .., move |result| {
            progress_handle.is_mapped.store(result.is_ok(), Ordering::Release);
            progress_handle.awaited.fetch_sub(1, Ordering::Release);
        });
    }
    let progress_handle = Arc::clone(&progress);
    encoder.on_submitted_work_done(move || {
        progress_handle.awaited.fetch_sub(1, Ordering::Release);
    });
    progress
}

/// The offset and size, in bytes, of a range in its slab. The size is rounded up to whole words; the padding
/// belongs to no node.
fn words(region: &MemoryRegion) -> (u64, u64) {
    (region.begin() as u64, region.bytes.next_multiple_of(4) as u64)
}

/// The offset and size, in bytes, of the words in a slab that overlap a range.
pub(crate) fn enclosing_words(region: &MemoryRegion) -> (u64, u64) {
    let begin = region.begin() - region.begin() % 4;
    let end = (region.begin() + region.bytes).next_multiple_of(4);
    (begin as u64, (end - begin) as u64)
}
