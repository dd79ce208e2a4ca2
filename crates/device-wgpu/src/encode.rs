//! Commands to one command buffer: what a batch becomes when it is submitted.
//!
//! * Launches that follow each other are one compute pass; each has its table at a place of its own in one uniform buffer, which is
//!   written in front of the submission.
//! * Uploads go through one buffer that is filled at once, read-backs through one that is mapped when the batch is done.
//! * WebGPU copies whole words, and never within one buffer. Copies within a slab go through a bounce buffer. A range that ends or
//!   begins inside a word that others share is merged by a small kernel (`merge.wgsl`).

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, CommandEncoder, ComputePass, ComputePassDescriptor, MapMode,
    SubmissionIndex,
};

use crate::{
    command::Command,
    core::Core,
    gpu::Objection,
    grid,
    kernel::{Assembled, Text},
    slab::Region,
    staging::{Landings, Uploads},
    timing::Timer,
};

/// Bytes of the buffer that holds the tables of a batch.
pub(crate) const TABLES_BYTES: usize = 256 << 10;

const MERGE: &str = include_str!("merge.wgsl");

/// Bytes of the tables' buffer that a command takes at most.
pub(crate) fn table_room(command: &Command, alignment: usize) -> usize {
    let bytes = match command {
        Command::Launch(bound, _) => bound.assembled.table_bytes,
        // For a merge.
        Command::Zero(_) | Command::CopyIn(..) | Command::CopyOut(..) | Command::Copy(..) => 16,
    };
    bytes.next_multiple_of(alignment)
}

/// A batch on its way.
#[derive(Debug)]
pub(crate) struct Submitted {
    pub(crate) index: SubmissionIndex,
    progress: Arc<Progress>,
    landings: Option<Landings>,
    timer: Option<Timer>,
}

/// What the platform has told of a batch.
#[derive(Debug)]
struct Progress {
    /// Answers that are still to come.
    awaited: AtomicUsize,
    is_mapped: AtomicBool,
}

impl Submitted {
    /// Whether the device is done with it and its read-backs can be looked at.
    pub(crate) fn is_done(&self) -> bool {
        // Acquire: pairs with the release of whoever told last.
        self.progress.awaited.load(Ordering::Acquire) == 0
    }

    /// Hands out what the batch read back, once it is done.
    ///
    /// # Errors
    ///
    /// Where the platform does not give the memory.
    pub(crate) fn land(self, core: &Core) -> Result<(), Objection> {
        let is_mapped = self.progress.is_mapped.load(Ordering::Acquire);
        let Some(landings) = self.landings else { return Ok(()) };
        if !is_mapped {
            return Err(Objection::Refused("the memory read back could not be mapped".to_owned()));
        }
        let times = landings.land()?;
        if let Some(timer) = self.timer {
            core.timings.add(timer, &times);
        }
        Ok(())
    }
}

/// Encodes and submits commands, in order; nothing of them happens if one is refused.
pub(crate) fn submit(core: &Core, commands: &[Command]) -> Result<Submitted, Objection> {
    core.gpu.checked(|| {
        let mut encoding = Encoding::new(core, commands)?;
        commands.iter().try_for_each(|command| encoding.add(command))?;
        encoding.submit()
    })
}

/// A command buffer in the making.
struct Encoding<'a> {
    core: &'a Core,
    /// The compute pass that the next launch joins. It ends before the encoder does anything else.
    pass: Option<ComputePass<'static>>,
    encoder: CommandEncoder,
    /// The batch's tables, each at a multiple of the alignment of dynamic offsets.
    tables: Vec<u8>,
    uploads: Option<Uploads>,
    landings: Option<Landings>,
    timer: Option<Timer>,
}

impl<'a> Encoding<'a> {
    fn new(core: &'a Core, commands: &[Command]) -> Result<Encoding<'a>, Objection> {
        let gpu = &core.gpu;
        let launches = commands.iter().filter(|command| matches!(command, Command::Launch(..))).count();
        let timer = core.timings.timer(gpu, launches);
        let times = if timer.is_some() { launches } else { 0 };
        Ok(Encoding {
            core,
            encoder: gpu
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("batch") }),
            pass: None,
            tables: Vec::new(),
            uploads: Uploads::new(gpu, commands)?,
            landings: Landings::new(gpu, commands, times),
            timer,
        })
    }

    fn add(&mut self, command: &Command) -> Result<(), Objection> {
        match command {
            Command::Launch(bound, indices) => {
                let Some(grid) = bound.grid else { return Ok(()) };
                let words = bound.offsets.iter().chain(indices).copied();
                let at = self.table(&bound.assembled, words);
                self.dispatch(&bound.name, &bound.assembled, at, grid);
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
            Command::CopyOut(region, landing) => {
                let landings =
                    self.landings.as_mut().expect("there is room for every read-back of the batch");
                let (at, buffer) = (landings.add(region, landing), landings.buffer.clone());
                let (begin, bytes) = enclosing_words(region);
                let slab = &region.slab().buffer;
                self.outside_passes().copy_buffer_to_buffer(slab, begin, &buffer, at as u64, bytes);
            }
            Command::Copy(to, from) => self.copy(to, from)?,
        }
        Ok(())
    }

    /// Copies between slabs if both ranges are whole words, else through a bounce buffer.
    fn copy(&mut self, to: &Region, from: &Region) -> Result<(), Objection> {
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

    /// Copies from byte `at` of a buffer that is no slab.
    fn put(&mut self, to: &Region, from: &Buffer, at: usize) -> Result<(), Objection> {
        if !to.is_whole_words() || !at.is_multiple_of(4) {
            return self.merge(to, from, at);
        }
        let (begin, bytes) = words(to);
        let slab = &to.slab().buffer;
        self.outside_passes().copy_buffer_to_buffer(from, at as u64, slab, begin, bytes);
        Ok(())
    }

    /// Copies from byte `at` of a buffer that is no slab, leaving the other bytes of the words written as they are.
    fn merge(&mut self, to: &Region, from: &Buffer, at: usize) -> Result<(), Objection> {
        let Core { gpu, pipelines, tables, .. } = self.core;
        let text = Text { name: "merge", wgsl: MERGE, words: 3 };
        let assembled = pipelines.assemble(gpu, tables, &text, &[&to.slab().buffer, from])?;
        let (_, bytes) = enclosing_words(to);
        let limit = gpu.limits.max_compute_workgroups_per_dimension;
        let groups = (bytes / 4).div_ceil(64);
        let grid =
            grid::split("merge", groups, limit).map_err(|error| Objection::Refused(error.to_string()))?;
        let table = self.table(&assembled, [to.begin(), at, to.bytes].map(|word| word as u32).into_iter());
        self.run("merge", &assembled, table, grid.unwrap_or([1; 3]));
        Ok(())
    }

    /// Adds a table and gives its place.
    fn table(&mut self, kernel: &Assembled, words: impl Iterator<Item = u32>) -> u32 {
        let alignment = self.core.gpu.limits.min_uniform_buffer_offset_alignment as usize;
        self.tables.resize(self.tables.len().next_multiple_of(alignment), 0);
        let at = self.tables.len();
        self.tables.extend(words.flat_map(u32::to_le_bytes));
        self.tables.resize(at + kernel.table_bytes, 0);
        at as u32
    }

    /// Runs a kernel of a routine, timed if times are wanted.
    fn dispatch(&mut self, name: &str, kernel: &Assembled, table: u32, grid: [u32; 3]) {
        let Some(timer) = &mut self.timer else { return self.run(name, kernel, table, grid) };
        self.pass = None;
        let descriptor =
            ComputePassDescriptor { label: Some(name), timestamp_writes: Some(timer.next(name)) };
        let pass = self.encoder.begin_compute_pass(&descriptor).forget_lifetime();
        self.pass = Some(pass);
        self.run(name, kernel, table, grid);
        self.pass = None;
    }

    fn run(&mut self, name: &str, kernel: &Assembled, table: u32, [x, y, z]: [u32; 3]) {
        let pass = self.pass.get_or_insert_with(|| {
            let descriptor = ComputePassDescriptor { label: Some(name), timestamp_writes: None };
            self.encoder.begin_compute_pass(&descriptor).forget_lifetime()
        });
        pass.set_pipeline(&kernel.pipeline);
        pass.set_bind_group(0, &kernel.group, &[table]);
        pass.dispatch_workgroups(x, y, z);
    }

    /// The encoder, for what is no launch.
    fn outside_passes(&mut self) -> &mut CommandEncoder {
        self.pass = None;
        &mut self.encoder
    }

    /// A new buffer of zeros.
    fn scratch(&self, bytes: usize) -> Buffer {
        self.core.gpu.device.create_buffer(&BufferDescriptor {
            label: Some("bounce"),
            size: bytes.next_multiple_of(4) as u64,
            usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    }

    fn submit(mut self) -> Result<Submitted, Objection> {
        let gpu = &self.core.gpu;
        self.pass = None;
        if let (Some(timer), Some(landings)) = (&self.timer, &self.landings) {
            timer.resolve(&mut self.encoder, landings);
        }
        if let Some(uploads) = self.uploads {
            uploads.finish();
        }
        let progress = track(&self.encoder, self.landings.as_ref());
        let commands = self.encoder.finish();
        // The tables of another batch must not get between these and their commands.
        let submitting = self.core.submitting();
        if !self.tables.is_empty() {
            gpu.queue.write_buffer(&self.core.tables, 0, &self.tables);
        }
        let index = gpu.queue.submit([commands]);
        drop(submitting);
        Ok(Submitted { index, progress, landings: self.landings, timer: self.timer })
    }
}

/// Asks to be told when a batch is done and its read-backs are mapped.
fn track(encoder: &CommandEncoder, landings: Option<&Landings>) -> Arc<Progress> {
    let awaited = 1 + usize::from(landings.is_some());
    let progress = Progress { awaited: AtomicUsize::new(awaited), is_mapped: AtomicBool::new(false) };
    let progress = Arc::new(progress);
    if let Some(landings) = landings {
        let told = Arc::clone(&progress);
        encoder.map_buffer_on_submit(&landings.buffer, MapMode::Read, .., move |result| {
            told.is_mapped.store(result.is_ok(), Ordering::Release);
            told.awaited.fetch_sub(1, Ordering::Release);
        });
    }
    let told = Arc::clone(&progress);
    encoder.on_submitted_work_done(move || {
        told.awaited.fetch_sub(1, Ordering::Release);
    });
    progress
}

/// A range in its slab that is whole words, or ends with bytes that nobody has.
fn words(region: &Region) -> (u64, u64) {
    (region.begin() as u64, region.bytes.next_multiple_of(4) as u64)
}

/// The words in its slab that a range has bytes of.
pub(crate) fn enclosing_words(region: &Region) -> (u64, u64) {
    let begin = region.begin() - region.begin() % 4;
    let end = (region.begin() + region.bytes).next_multiple_of(4);
    (begin as u64, (end - begin) as u64)
}
