//! Submits tasks to a driver, ordered against all tasks that use the same buffers.
//!
//! This is the only module of the runtime that makes [tasks](crate::checked), whose constructors require that
//! conflicting tasks are ordered. Invariants relied on: every task on the memory of a node or of a merge
//! buffer passes through [`submit`] with its uses of that memory; only the routine's own stream uses a
//! routine's temporaries, and its order suffices.
//!
//! New memory of nodes counts as zeros. This module fills it with zeros before its first task, unless that
//! task overwrites all of it.
#![allow(unsafe_code, reason = "vouches for the order that tasks stand for")]

use std::sync::{Arc, MutexGuard};

use codegen_core::{Access, Binding};
use smallvec::SmallVec;
use tnode::HostArray;

use crate::{
    checked::{
        BoundKernel, BoundSequence, CopyInTask, CopyOutTask, CopyTask, DeviceAccessTask, DeviceOperation,
        FillTask, HostAccessTask, HostFunction, HostReadback, LaunchTask, MemoryRange, SequenceTask,
    },
    driver::{Driver, Launched, Mark, StreamHandle},
    error::{DriverError, Failure, Result, RunError},
    event::Event,
    hazard::{Hazard, Hazards, Wait, Waits, failure_of},
    order::{Scope, wait_enabled},
    pool::Buffer,
    stream::Stream,
    timing::RunTimes,
};

/// A buffer and a task's access to it.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) access: Access,
    /// Whether the buffer is the source of a merge.
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

/// Sorts uses into the order in which their locks are taken; no buffer occurs twice.
pub(crate) fn in_order(mut uses: Vec<Use>) -> Vec<Use> {
    uses.sort_by_key(|used| used.buffer.order());
    uses
}

/// A task to submit.
pub(crate) enum MemoryTask<'a> {
    /// Run kernels in order, with the values of the routine's symbols, which are within their ranges.
    Run(&'a Kernels, &'a [i64]),
    /// The same, with the time of each kernel.
    RunTimed(&'a Kernels, &'a [i64], &'a Arc<RunTimes>),
    /// Fill memory with zeros.
    Zero(&'a MemoryRange),
    /// Copy a host array to memory.
    CopyIn(&'a MemoryRange, &'a Arc<HostArray>),
    /// Copy memory to a host array.
    CopyOut(&'a MemoryRange, &'a HostReadback),
    /// Copy to the first range from the second.
    Copy(&'a MemoryRange, &'a MemoryRange),
    /// Call a function of the user, which has that name, with these ranges.
    HostAccess(&'a str, &'a [MemoryRange], &'a HostFunction),
    /// Carry out an operation of the driver, which has that name, on these ranges.
    DeviceAccess(&'a str, &'a [MemoryRange], &'a DeviceOperation),
}

/// One kernel of a routine, ready to launch.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) kernel: BoundKernel,
    /// What gives each static index of the kernel its value.
    pub(crate) bindings: Vec<Binding>,
}

impl Call {
    /// The values of the kernel's static indices, from those of the routine's symbols.
    fn values(&self, symbols: &[i64]) -> SmallVec<[i64; 8]> {
        self.bindings.iter().map(|binding| binding.value(symbols)).collect()
    }
}

/// The kernels of a routine in order, ready to launch.
#[derive(Debug)]
pub(crate) struct Kernels {
    calls: Vec<Call>,
    /// All of them as one sequence, if the driver launches them together.
    sequence: Option<BoundSequence>,
}

impl Kernels {
    /// # Errors
    ///
    /// Errors of the driver, such as a lost device.
    pub(crate) fn new(driver: &dyn Driver, calls: Vec<Call>) -> Result<Kernels> {
        let kernels: SmallVec<[BoundKernel; 8]> = calls.iter().map(|call| call.kernel.clone()).collect();
        Ok(Kernels { sequence: BoundSequence::new(driver, &kernels)?, calls })
    }

    /// The number of kernel calls.
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Submits all kernels one by one, with a timer for each. If the driver cannot time them, submits them
    /// without. Sets `begun` once the driver has accepted one.
    fn launch_timed(
        &self,
        driver: &dyn Driver,
        stream: &StreamHandle,
        symbols: &[i64],
        times: &Arc<RunTimes>,
        begun: &mut bool,
    ) -> Result<Launched> {
        for (at, call) in self.calls.iter().enumerate() {
            let bindings = call.values(symbols);
            // SAFETY: `submit` made the stream wait for all tasks that conflict with the routine's uses.
            // These are all memory that its kernels access, except temporaries, which no other stream uses.
            let task = unsafe { LaunchTask::new(&call.kernel, &bindings)? };
            if driver.launch_timed(stream, task, times.timer(at))? {
                *begun = true;
            } else if at == 0 {
                return self.launch(driver, stream, symbols, begun);
            } else {
                // SAFETY: as above; the driver has not submitted the kernel.
                let task = unsafe { LaunchTask::new(&call.kernel, &bindings)? };
                driver.launch(stream, task)?;
            }
        }
        Ok(Launched::Unrecorded)
    }

    /// Submits all kernels, together or one by one. Sets `begun` once the driver has accepted one.
    fn launch(
        &self,
        driver: &dyn Driver,
        stream: &StreamHandle,
        symbols: &[i64],
        begun: &mut bool,
    ) -> Result<Launched> {
        if let Some(sequence) = &self.sequence {
            let bindings: SmallVec<[i64; 32]> =
                self.calls.iter().flat_map(|call| call.values(symbols)).collect();
            // SAFETY: `submit` made the stream wait for all tasks that conflict with the routine's uses.
            // These are all memory that its kernels access, except temporaries, which no other stream uses.
            let task = unsafe { SequenceTask::new(sequence, &bindings)? };
            if driver.launch_sequence(stream, task)? {
                *begun = true;
                return Ok(Launched::Unrecorded);
            }
        }
        let Some((last, calls)) = self.calls.split_last() else { return Ok(Launched::Unrecorded) };
        for call in calls {
            let bindings = call.values(symbols);
            // SAFETY: as above; nothing of the sequence was submitted.
            let task = unsafe { LaunchTask::new(&call.kernel, &bindings)? };
            driver.launch(stream, task)?;
            *begun = true;
        }
        let bindings = last.values(symbols);
        // SAFETY: as above.
        let task = unsafe { LaunchTask::new(&last.kernel, &bindings)? };
        let launched = driver.launch_recorded(stream, task)?;
        *begun = true;
        Ok(launched)
    }
}

type Tables<'a> = SmallVec<[MutexGuard<'a, Hazards>; 32]>;

/// Submits a task to a stream after all conflicting tasks. `uses` are all the memory that it accesses, except
/// temporaries, [in order](in_order); `name` is the user's name for the task.
///
/// # Errors
///
/// [`RunError::Poisoned`] for a read of a buffer whose writer failed, and errors of the driver. If the task
/// was submitted only in part, its outputs are poisoned.
pub(crate) fn submit(
    stream: &Stream,
    uses: &[Use],
    name: impl Fn() -> String,
    task: &MemoryTask<'_>,
) -> Result<Event, RunError> {
    // Both lists are filled in place, since they are large: moving them would take longer than filling them.
    let (mut tables, mut waits) = (Tables::new(), Waits::new());
    loop {
        lock_tables(uses, &mut tables).map_err(RunError::driver(&name))?;
        collect_waits(stream, uses, &mut tables, &mut waits)?;
        let Some(stranger) = enqueue(stream, &waits).map_err(RunError::driver(&name))? else {
            fill_unwritten(stream, uses, &mut tables, &name, task)?;
            return submit_locked(stream, uses, &mut tables, name, task);
        };
        // The buffers are unlocked while the caller waits. Uses that other threads submit meanwhile are
        // considered in the next iteration.
        tables.clear();
        wait_here(stranger).map_err(RunError::driver(&name))?;
        waits.clear();
    }
}

/// Locks the tables of all uses.
fn lock_tables<'a>(uses: &'a [Use], tables: &mut Tables<'a>) -> Result<()> {
    for used in uses {
        tables.push(used.buffer.table()?);
    }
    Ok(())
}

/// Collects the events for which the task must wait.
fn collect_waits(
    stream: &Stream,
    uses: &[Use],
    tables: &mut Tables<'_>,
    waits: &mut Waits,
) -> Result<(), RunError> {
    for (table, used) in tables.iter_mut().zip(uses) {
        let first = waits.len();
        table
            .collect_waits(&Event::poll, stream.key(), used.access, waits)
            .map_err(|failure| RunError::Poisoned { node: used.buffer.name(), failure })?;
        if cfg!(test) {
            let all = waits.drain(first..).collect::<Vec<_>>();
            waits.extend(all.into_iter().filter(|wait| wait_enabled(wait.hazard, scope(stream, used, wait))));
        }
        for wait in &waits[first..] {
            tracing::trace!(
                node = %used.buffer.name(), hazard = ?wait.hazard, stream = %stream.name(),
                behind = %wait.event.stream_name(), "waits"
            );
        }
    }
    Ok(())
}

fn scope(stream: &Stream, used: &Use, wait: &Wait) -> Scope {
    match (used.merged, wait.event.device() == stream.device()) {
        (true, _) => Scope::Merge,
        (false, true) => Scope::Stream,
        (false, false) => Scope::Device,
    }
}

/// Makes the stream wait. Returns an event for which only the host can wait.
fn enqueue<'w>(stream: &Stream, waits: &'w Waits) -> Result<Option<&'w Event>> {
    for wait in waits {
        match stream.wait(&wait.event, wait.hazard.wait_kind()) {
            Err(DriverError::ForeignHandle { .. }) => return Ok(Some(&wait.event)),
            other => other?,
        }
    }
    Ok(None)
}

/// Waits on the caller's thread. A relevant failure is found in the table of the buffer afterwards.
fn wait_here(event: &Event) -> Result<()> {
    let waited = event.device().driver().sync(event.handle());
    match event.poll() {
        Ok(false) => waited,
        _ => Ok(()),
    }
}

/// Fills unwritten memory, which counts as zeros, with zeros, unless the task overwrites all of it. No task
/// has used the memory, so there is nothing to wait for.
///
/// # Errors
///
/// [`RunError::Unwritten`] if the task is a run that only reads such memory and the device rejects this.
fn fill_unwritten(
    stream: &Stream,
    uses: &[Use],
    tables: &mut Tables<'_>,
    task_name: impl Fn() -> String,
    task: &MemoryTask<'_>,
) -> Result<(), RunError> {
    let is_run = matches!(task, MemoryTask::Run(..) | MemoryTask::RunTimed(..));
    for (table, used) in tables.iter_mut().zip(uses) {
        if !table.needs_zeros(used.access) {
            continue;
        }
        // A task that also writes the node may begin with zeros, as a sum does.
        if is_run && used.access == Access::Read {
            unwritten_read(stream, used.buffer.name(), task_name())?;
        }
        let name = || format!("zeroing node `{}`", used.buffer.name());
        // A task of another device accesses the memory through that device's import of it.
        let foreign = DriverError::ForeignHandle { what: "memory" };
        let reached = used.buffer.accessible_from(stream.device()).ok_or(foreign);
        let range = reached.map_err(RunError::driver(name))?;
        let fill = [Use::new(&used.buffer, Access::Write)];
        submit_locked(stream, &fill, std::slice::from_mut(table), name, &MemoryTask::Zero(&range))?;
        used.buffer.device.count_zero_fill();
    }
    Ok(())
}

/// Warns of a run that reads values which nothing has written, or rejects it.
fn unwritten_read(stream: &Stream, node: String, task: String) -> Result<(), RunError> {
    if stream.device().rejects_unwritten_reads() {
        return Err(RunError::Unwritten { node, task });
    }
    tracing::warn!(%node, %task, "reads values that nothing has written, which count as zeros");
    Ok(())
}

/// Submits the task while the tables are locked, and records it there.
fn submit_locked(
    stream: &Stream,
    uses: &[Use],
    tables: &mut [MutexGuard<'_, Hazards>],
    name: impl Fn() -> String,
    task: &MemoryTask<'_>,
) -> Result<Event, RunError> {
    let driver = stream.device().driver();
    let mut is_marked = false;
    if tracing::enabled!(target: "arrayjit::timeline", tracing::Level::TRACE) {
        let begin = Mark::Begin(name().into());
        is_marked = driver.mark(stream.handle(), begin).map_err(RunError::driver(&name))?;
    }
    let mut begun = false;
    let mut submitted = submit_to_driver(driver, stream.handle(), task, &mut begun);
    if is_marked {
        // If the end mark is lost, the timeline shows the task until the end of the stream.
        let _ = driver.mark(stream.handle(), Mark::End);
        // The event of a marked task comes after the end mark.
        submitted = submitted.map(|_| Launched::Unrecorded);
    }
    match submitted {
        Ok(launched) => record(stream, uses, tables, name, launched),
        Err(error) if !begun => Err(RunError::driver(name)(error)),
        Err(error) => {
            let event = driver.record(stream.handle()).map(|handle| stream.event(handle)).ok();
            Err(record_failed(stream, uses, tables, name, error, event))
        }
    }
}

/// Records a task that was submitted in the tables, and returns its event.
fn record(
    stream: &Stream,
    uses: &[Use],
    tables: &mut [MutexGuard<'_, Hazards>],
    name: impl Fn() -> String,
    launched: Launched,
) -> Result<Event, RunError> {
    let handle = match launched {
        Launched::Done(handle) => {
            touched(uses, tables).for_each(|(table, access)| table.record_done(access));
            return Ok(stream.event(handle));
        }
        Launched::Recorded(handle) => Ok(handle),
        Launched::Unrecorded => stream.device().driver().record(stream.handle()),
    };
    match handle.map(|handle| stream.event(handle)) {
        Ok(event) => {
            touched(uses, tables).for_each(|(table, access)| table.record(access, &event));
            Ok(event)
        }
        Err(error) => Err(record_failed(stream, uses, tables, name, error, None)),
    }
}

/// Records a task that was submitted in part, with the error and the event after that part, in the tables.
/// Returns the error of the call.
fn record_failed(
    stream: &Stream,
    uses: &[Use],
    tables: &mut [MutexGuard<'_, Hazards>],
    name: impl Fn() -> String,
    error: DriverError,
    event: Option<Event>,
) -> RunError {
    let failure: Failure = failure_of(error.clone(), &stream.name());
    touched(uses, tables).for_each(|(table, access)| table.record_failed(access, event.as_ref(), &failure));
    RunError::driver(name)(error)
}

/// The tables in which a task is recorded, with its access.
fn touched<'t, 'u, 'g: 't>(
    uses: &'u [Use],
    tables: &'t mut [MutexGuard<'g, Hazards>],
) -> impl Iterator<Item = (&'t mut MutexGuard<'g, Hazards>, Access)> + use<'t, 'u, 'g> {
    let entered = |used: &Use| !used.merged || wait_enabled(Hazard::WriteAfterRead, Scope::Merge);
    let all = tables.iter_mut().zip(uses);
    all.filter(move |(_, used)| entered(used)).map(|(table, used)| (table, used.access))
}

/// Submits the parts of a task; sets `begun` once the driver has accepted one.
fn submit_to_driver(
    driver: &dyn Driver,
    stream: &StreamHandle,
    task: &MemoryTask<'_>,
    begun: &mut bool,
) -> Result<Launched> {
    match *task {
        MemoryTask::Run(kernels, symbols) => return kernels.launch(driver, stream, symbols, begun),
        MemoryTask::RunTimed(kernels, symbols, times) => {
            return kernels.launch_timed(driver, stream, symbols, times, begun);
        }
        MemoryTask::Zero(dst) => {
            // SAFETY: `submit` ordered this write of the buffer.
            let task = unsafe { FillTask::new(dst.clone())? };
            driver.memset_zero(stream, task)?;
        }
        MemoryTask::CopyIn(dst, array) => {
            // SAFETY: `submit` ordered this write of the buffer.
            let task = unsafe { CopyInTask::new(dst.clone(), Arc::clone(array))? };
            driver.copy_in(stream, task)?;
        }
        MemoryTask::CopyOut(src, readback) => {
            // SAFETY: `submit` ordered this read of the buffer.
            let task = unsafe { CopyOutTask::new(src.clone(), readback.clone())? };
            driver.copy_out(stream, task)?;
        }
        MemoryTask::Copy(dst, src) => {
            // SAFETY: `submit` ordered the write of the first buffer and the read of the second.
            let task = unsafe { CopyTask::new(dst.clone(), src.clone())? };
            driver.copy(stream, task)?;
        }
        MemoryTask::HostAccess(name, memory, function) => {
            // SAFETY: `submit` ordered these accesses of the buffers.
            let task = unsafe { HostAccessTask::new(name.to_owned(), memory.to_vec(), function.clone())? };
            driver.host_access(stream, task)?;
        }
        MemoryTask::DeviceAccess(name, memory, operation) => {
            // SAFETY: `submit` ordered these accesses of the buffers.
            let task = unsafe { DeviceAccessTask::new(name.to_owned(), memory.to_vec(), operation.clone())? };
            driver.device_access(stream, task)?;
        }
    }
    *begun = true;
    Ok(Launched::Unrecorded)
}
