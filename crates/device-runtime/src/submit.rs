//! The hand-over of tasks to a driver, ordered against everything that uses the same buffers.
//!
//! This is the one module of the runtime that makes [tasks](crate::checked), whose constructors ask that
//! conflicting tasks be ordered, and here they are. Invariants relied on: every task on a node's memory, or a
//! merge buffer's, passes through [`submit`] with the uses it makes of it; a routine's temporaries are used
//! by its own stream alone, whose order suffices.
//!
//! New memory of nodes counts as zeros. It is filled with them here, in front of its first task, unless that
//! task overwrites all of it.
#![allow(unsafe_code, reason = "vouches for the order that tasks stand for")]

use std::sync::{Arc, MutexGuard};

use codegen_core::Access;
use smallvec::SmallVec;
use tnode::HostArray;

use crate::{
    checked::{
        BoundKernel, BoundSequence, CopyInTask, CopyOutTask, CopyTask, FillTask, HostReadback, LaunchTask,
        MemoryRange, SequenceTask,
    },
    driver::{Driver, Mark, StreamHandle},
    error::{DriverError, Error},
    event::Event,
    hazard::{Hazard, Hazards, Wait, Waits, failure_of},
    order::{Scope, kept},
    pool::Buffer,
    stream::Stream,
};

/// A buffer and what a task does with it.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) access: Access,
    /// It is the source of a merge.
    pub(crate) merged: bool,
}

impl Use {
    pub(crate) fn new(buffer: &Arc<Buffer>, access: Access) -> Use {
        Use { buffer: Arc::clone(buffer), access, merged: false }
    }

    /// The use of a merge's source.
    pub(crate) fn merged(buffer: &Arc<Buffer>) -> Use {
        Use { buffer: Arc::clone(buffer), access: Access::Read, merged: true }
    }
}

/// Uses in the order in which their locks are taken; no buffer is in it twice.
pub(crate) fn in_order(mut uses: Vec<Use>) -> Vec<Use> {
    uses.sort_by_key(|used| used.buffer.order());
    uses
}

/// What is handed over.
pub(crate) enum Task<'a> {
    /// Kernels in order, with the values of the routine's symbols, which are within their ranges.
    Run(&'a Kernels, &'a [i64]),
    /// Filling memory with zeros.
    Zero(&'a MemoryRange),
    /// Filling memory from a host array.
    CopyIn(&'a MemoryRange, &'a Arc<HostArray>),
    /// Copying memory to a host array.
    CopyOut(&'a MemoryRange, &'a HostReadback),
    /// Copying to the first from the second.
    Copy(&'a MemoryRange, &'a MemoryRange),
}

/// One kernel of a routine, ready to launch.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) kernel: BoundKernel,
    /// For each of its static indices, the position of the routine's symbol.
    pub(crate) bindings: Vec<usize>,
}

/// The kernels of a routine in order, ready to launch.
#[derive(Debug)]
pub(crate) struct Kernels {
    calls: Vec<Call>,
    /// All of them, where the driver launches them together.
    sequence: Option<BoundSequence>,
}

impl Kernels {
    /// # Errors
    ///
    /// The loss of the device.
    pub(crate) fn new(driver: &dyn Driver, calls: Vec<Call>) -> Result<Kernels, DriverError> {
        let kernels: SmallVec<[BoundKernel; 8]> = calls.iter().map(|call| call.kernel.clone()).collect();
        Ok(Kernels { sequence: BoundSequence::new(driver, &kernels)?, calls })
    }

    /// Hands all kernels over, together or one by one.
    fn launch(
        &self,
        driver: &dyn Driver,
        stream: &StreamHandle,
        symbols: &[i64],
        begun: &mut bool,
    ) -> Result<(), DriverError> {
        let values = |call: &Call| call.bindings.iter().map(|&at| symbols[at]).collect::<SmallVec<[_; 8]>>();
        if let Some(sequence) = &self.sequence {
            let bindings: SmallVec<[i64; 32]> = self.calls.iter().flat_map(values).collect();
            // SAFETY: `submit` made the stream wait for all that conflicts with the routine's uses, which are
            // all memory that its kernels touch, but for temporaries, which no other stream has.
            let task = unsafe { SequenceTask::new(sequence, &bindings)? };
            if driver.launch_sequence(stream, task)? {
                *begun = true;
                return Ok(());
            }
        }
        for call in &self.calls {
            let bindings = values(call);
            // SAFETY: as above; of the sequence nothing was enqueued.
            let task = unsafe { LaunchTask::new(&call.kernel, &bindings)? };
            driver.launch(stream, task)?;
            *begun = true;
        }
        Ok(())
    }
}

type Tables<'a> = SmallVec<[MutexGuard<'a, Hazards>; 32]>;

/// Hands a task to a stream behind everything it conflicts with. `uses` are all the memory it touches, but
/// for temporaries, [in order](in_order); `name` is the user's for the task.
///
/// # Errors
///
/// [`Error::Poisoned`] for a read of a buffer whose writer failed, and the driver's refusal. If the task was
/// handed over in part, what it writes is poisoned.
pub(crate) fn submit(
    stream: &Stream,
    uses: &[Use],
    name: impl Fn() -> String,
    task: &Task<'_>,
) -> Result<Event, Error> {
    loop {
        let mut tables = tables(uses).map_err(Error::driver(&name))?;
        let waits = waits(stream, uses, &mut tables)?;
        let Some(stranger) = enqueue(stream, &waits).map_err(Error::driver(&name))? else {
            fill_unwritten(stream, uses, &mut tables)?;
            return hand_over_between(stream, uses, &mut tables, name, task);
        };
        // Nobody else is kept from these buffers while the caller waits; what they do meanwhile is looked at
        // anew.
        drop(tables);
        wait_here(stranger).map_err(Error::driver(&name))?;
    }
}

/// The tables of everything that is used.
fn tables<'a>(uses: &'a [Use]) -> Result<Tables<'a>, DriverError> {
    uses.iter().map(|used| used.buffer.table()).collect()
}

/// The events that the task waits for.
fn waits(stream: &Stream, uses: &[Use], tables: &mut Tables<'_>) -> Result<Waits, Error> {
    let mut waits = Waits::new();
    for (table, used) in tables.iter_mut().zip(uses) {
        let first = waits.len();
        table
            .before(&Event::poll, stream.key(), used.access, &mut waits)
            .map_err(|failure| Error::Poisoned { node: used.buffer.name(), failure })?;
        if cfg!(test) {
            let all = waits.drain(first..).collect::<Vec<_>>();
            waits.extend(all.into_iter().filter(|wait| kept(wait.hazard, scope(stream, used, wait))));
        }
        for wait in &waits[first..] {
            tracing::trace!(
                node = %used.buffer.name(), hazard = ?wait.hazard, stream = %stream.name(),
                behind = %wait.event.stream_name(), "waits"
            );
        }
    }
    Ok(waits)
}

fn scope(stream: &Stream, used: &Use, wait: &Wait) -> Scope {
    match (used.merged, wait.event.device() == stream.device()) {
        (true, _) => Scope::Merge,
        (false, true) => Scope::Stream,
        (false, false) => Scope::Device,
    }
}

/// Makes the stream wait. An event that only the host can wait for comes back.
fn enqueue<'w>(stream: &Stream, waits: &'w Waits) -> Result<Option<&'w Event>, DriverError> {
    for wait in waits {
        match stream.wait(&wait.event, wait.hazard.after()) {
            Err(DriverError::ForeignHandle { .. }) => return Ok(Some(&wait.event)),
            other => other?,
        }
    }
    Ok(None)
}

/// Waits on the caller's thread. A failure is found again in the table of the buffer, if it matters.
fn wait_here(event: &Event) -> Result<(), DriverError> {
    let waited = event.device().driver().sync(event.handle());
    match event.poll() {
        Ok(false) => waited,
        _ => Ok(()),
    }
}

/// Fills with zeros the memory that counts as zeros and that the task does not overwrite. Nobody has used it,
/// so there is nothing to wait for.
fn fill_unwritten(stream: &Stream, uses: &[Use], tables: &mut Tables<'_>) -> Result<(), Error> {
    for (table, used) in tables.iter_mut().zip(uses) {
        if !table.needs_zeros(used.access) {
            continue;
        }
        let name = || format!("zeroing node `{}`", used.buffer.name());
        // A task of another device reaches the memory in that device's own way.
        let foreign = DriverError::ForeignHandle { what: "memory" };
        let reached = used.buffer.seen_by(stream.device()).ok_or(foreign);
        let range = reached.map_err(Error::driver(name))?;
        let fill = [Use::new(&used.buffer, Access::Write)];
        hand_over_between(stream, &fill, std::slice::from_mut(table), name, &Task::Zero(&range))?;
        used.buffer.device.count_zero_fill();
    }
    Ok(())
}

/// Hands the task over while the tables are held, and enters it there.
fn hand_over_between(
    stream: &Stream,
    uses: &[Use],
    tables: &mut [MutexGuard<'_, Hazards>],
    name: impl Fn() -> String,
    task: &Task<'_>,
) -> Result<Event, Error> {
    let driver = stream.device().driver();
    let shown = tracing::enabled!(target: "arrayjit::timeline", tracing::Level::TRACE);
    if shown {
        let begin = Mark::Begin(name().into());
        driver.mark(stream.handle(), begin).map_err(Error::driver(&name))?;
    }
    let mut begun = false;
    let handed_over = hand_over(driver, stream.handle(), task, &mut begun);
    if shown {
        // Should the end get lost, the timeline shows the task as long as the stream.
        let _ = driver.mark(stream.handle(), Mark::End);
    }
    if !begun {
        handed_over.clone().map_err(Error::driver(&name))?;
    }
    let recorded = driver.record(stream.handle()).map(|handle| stream.event(handle));
    let entered = |used: &&Use| !used.merged || kept(Hazard::WriteAfterRead, Scope::Merge);
    let touched = tables.iter_mut().zip(uses).filter(|(_, used)| entered(used));
    match handed_over.and(recorded.clone()) {
        Ok(event) => {
            touched.for_each(|(table, used)| table.after(used.access, &event));
            Ok(event)
        }
        Err(error) => {
            let failure = failure_of(error.clone(), &stream.name());
            let recorded = recorded.as_ref().ok();
            touched.for_each(|(table, used)| table.after_failure(used.access, recorded, &failure));
            Err(Error::driver(name)(error))
        }
    }
}

/// Hands the parts of a task over; `begun` tells whether any part was accepted.
fn hand_over(
    driver: &dyn Driver,
    stream: &StreamHandle,
    task: &Task<'_>,
    begun: &mut bool,
) -> Result<(), DriverError> {
    match *task {
        Task::Run(kernels, symbols) => return kernels.launch(driver, stream, symbols, begun),
        Task::Zero(dst) => {
            // SAFETY: `submit` ordered this write of the buffer.
            let task = unsafe { FillTask::new(dst.clone())? };
            driver.memset_zero(stream, task)?;
        }
        Task::CopyIn(dst, array) => {
            // SAFETY: `submit` ordered this write of the buffer.
            let task = unsafe { CopyInTask::new(dst.clone(), Arc::clone(array))? };
            driver.copy_in(stream, task)?;
        }
        Task::CopyOut(src, landing) => {
            // SAFETY: `submit` ordered this read of the buffer.
            let task = unsafe { CopyOutTask::new(src.clone(), landing.clone())? };
            driver.copy_out(stream, task)?;
        }
        Task::Copy(dst, src) => {
            // SAFETY: `submit` ordered the write of the first buffer and the read of the second.
            let task = unsafe { CopyTask::new(dst.clone(), src.clone())? };
            driver.copy(stream, task)?;
        }
    }
    *begun = true;
    Ok(())
}
