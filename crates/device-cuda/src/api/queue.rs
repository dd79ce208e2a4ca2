//! A CUDA stream with the resources of its tasks, which it keeps until the tasks are done.
//!
//! Tasks are *open* until [`TaskQueue::close`] records an event after them. When that event is reached, the
//! tasks are done: their resources are released, and their copies to the host fill the host arrays.

use std::{
    any::Any,
    collections::VecDeque,
    fmt, ptr,
    sync::{Arc, PoisonError},
};

use cudarc::driver::sys::{CUevent, CUevent_flags, CUstream};
use device_runtime::{HostReadback, KernelTimer, LaunchSize};
use smallvec::SmallVec;

use super::{
    CallError, Communicator, Context, Exchange, Graph, Grid, KernelLaunch, MemoryRegion, StagingRange,
    timing::{DeviceClock, TimedLaunch},
};

/// A resource of a task: memory or code, kept alive.
pub(crate) type Resource = Arc<dyn Any + Send + Sync>;

/// Values that the caller attached to a recorded event; usually one.
pub(crate) type Completions<E> = SmallVec<[E; 1]>;

/// An event of the driver, recorded in a stream.
pub(crate) struct RecordedEvent {
    context: Arc<Context>,
    raw: CUevent,
    purpose: EventPurpose,
}

/// Whether the driver keeps the time at which it reached an event, which makes the event slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventPurpose {
    Order,
    Time,
}

// SAFETY: the driver accepts calls from any thread, and the fields do not change.
unsafe impl Send for RecordedEvent {}
// SAFETY: as above.
unsafe impl Sync for RecordedEvent {}

impl RecordedEvent {
    /// Makes an event, or reuses a free one. The context must be current.
    pub(super) fn new(context: &Arc<Context>, purpose: EventPurpose) -> Result<RecordedEvent, CallError> {
        let found = context.free_events.lock().unwrap_or_else(PoisonError::into_inner).of(purpose).pop();
        let raw = match found {
            Some(raw) => raw,
            None => {
                let mut raw = ptr::null_mut();
                let flags = match purpose {
                    EventPurpose::Order => CUevent_flags::CU_EVENT_DISABLE_TIMING,
                    EventPurpose::Time => CUevent_flags::CU_EVENT_DEFAULT,
                };
                // SAFETY: a valid place for the handle; the context is current.
                unsafe { context.api.cuEventCreate(&raw mut raw, flags as u32)? };
                raw
            }
        };
        Ok(RecordedEvent { context: Arc::clone(context), raw, purpose })
    }

    /// Records the event in a stream of its context, which must be current.
    fn record(&self, stream: CUstream) -> Result<(), CallError> {
        // SAFETY: both exist and belong to one context.
        unsafe { self.context.api.cuEventRecord(self.raw, stream) }
    }

    /// The milliseconds from an earlier event to this one. Both keep times and are reached; the context must
    /// be current.
    pub(super) fn milliseconds_since(&self, earlier: &RecordedEvent) -> Result<f32, CallError> {
        // SAFETY: a valid place for the number; both events exist as long as their values.
        self.context.api.number(|api, time| unsafe { api.cuEventElapsedTime(time, earlier.raw, self.raw) })
    }

    /// Whether all tasks before the event are done. The context must be current.
    fn is_done(&self) -> Result<bool, CallError> {
        // SAFETY: the event exists as long as this value.
        match unsafe { self.context.api.cuEventQuery(self.raw) } {
            Err(error) if error.name == "CUDA_ERROR_NOT_READY" => Ok(false),
            answer => answer.map(|()| true),
        }
    }

    /// Waits until all tasks before the event are done.
    pub(crate) fn sync(&self) -> Result<(), CallError> {
        self.context.enter()?;
        // SAFETY: the event exists as long as this value.
        unsafe { self.context.api.cuEventSynchronize(self.raw) }
    }
}

impl Drop for RecordedEvent {
    fn drop(&mut self) {
        // The event can be reused at once: a pending wait refers to an earlier recording, and recording the
        // event again does not affect it.
        let mut free = self.context.free_events.lock().unwrap_or_else(PoisonError::into_inner);
        free.of(self.purpose).push(self.raw);
    }
}

/// Events that can be reused. Events are reused because making one takes longer than all other steps of a
/// task.
#[derive(Debug, Default)]
pub(super) struct FreeEvents {
    order: Vec<CUevent>,
    time: Vec<CUevent>,
}

// SAFETY: the driver accepts calls from any thread.
unsafe impl Send for FreeEvents {}

impl FreeEvents {
    fn of(&mut self, purpose: EventPurpose) -> &mut Vec<CUevent> {
        match purpose {
            EventPurpose::Order => &mut self.order,
            EventPurpose::Time => &mut self.time,
        }
    }

    /// Removes all events.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = CUevent> {
        self.order.drain(..).chain(self.time.drain(..))
    }
}

/// A pending copy to a host array.
struct Readback {
    range: StagingRange,
    array: HostReadback,
    /// Offset in the array, in bytes.
    offset: usize,
}

impl Readback {
    /// Fills the array. The task that wrote the staging range must be done.
    fn complete(&self) {
        self.array.fill(self.offset, self.range.bytes(), |bytes| self.range.read(bytes));
    }
}

/// Tasks between two events, with their resources.
#[derive(Default)]
struct TaskGroup {
    /// Whether there is any task, including one without resources.
    any: bool,
    /// One resource per launch and two per copy, so that a group of one task needs no heap allocation.
    resources: SmallVec<[Resource; 2]>,
    uploads: Vec<StagingRange>,
    readbacks: Vec<Readback>,
    timed: Vec<TimedLaunch>,
}

/// A group of tasks with the event after it.
struct ClosedGroup<E> {
    recorded: Arc<RecordedEvent>,
    tasks: TaskGroup,
    completions: Completions<E>,
}

/// A CUDA stream. `E` is a value that the caller attaches to a recorded event and gets back when the event is
/// reached.
pub(crate) struct TaskQueue<E> {
    context: Arc<Context>,
    raw: CUstream,
    open: TaskGroup,
    closed: VecDeque<ClosedGroup<E>>,
    clock: DeviceClock,
}

// SAFETY: the driver accepts calls from any thread.
unsafe impl<E: Send> Send for TaskQueue<E> {}

impl<E> TaskQueue<E> {
    pub(crate) fn new(context: &Arc<Context>) -> Result<TaskQueue<E>, CallError> {
        context.enter()?;
        let raw = context.new_stream()?;
        Ok(TaskQueue {
            context: Arc::clone(context),
            raw,
            open: TaskGroup::default(),
            closed: VecDeque::new(),
            clock: DeviceClock::default(),
        })
    }

    /// Launches a kernel; `resource` owns it and the memory that its parameters point to.
    pub(crate) fn launch(&mut self, launch: KernelLaunch<'_>, resource: Resource) -> Result<(), CallError> {
        self.context.enter()?;
        let KernelLaunch { function, grid: Grid { blocks, threads, shared_bytes }, params } = launch;
        // SAFETY: the driver copies the parameters, whose sizes were checked when the code was loaded, before
        // it returns. The code stays within the memory that they point to, see the module; `resource` keeps
        // that memory and the code alive until the task is done.
        params.with_list(|list| unsafe {
            self.context.api.cuLaunchKernel(
                function.raw(),
                blocks,
                1,
                1,
                threads,
                1,
                1,
                shared_bytes,
                self.raw,
                list,
                ptr::null_mut(),
            )
        })?;
        self.add_resources([resource]);
        Ok(())
    }

    /// [`TaskQueue::launch`] between two events, whose times `timer` gets when the tasks are retired.
    pub(crate) fn launch_timed(
        &mut self,
        launch: KernelLaunch<'_>,
        resource: Resource,
        timer: KernelTimer,
        size: LaunchSize,
    ) -> Result<(), CallError> {
        self.context.enter()?;
        let event = || RecordedEvent::new(&self.context, EventPurpose::Time);
        let timed = TimedLaunch { begin: event()?, end: event()?, timer, size };
        timed.begin.record(self.raw)?;
        self.launch(launch, resource)?;
        // The kernel is submitted, so that the launch is a success whatever becomes of the event.
        match timed.end.record(self.raw) {
            Ok(()) => self.open.timed.push(timed),
            Err(error) => tracing::warn!(%error, "a kernel is not timed"),
        }
        Ok(())
    }

    /// Launches a graph; `resource` owns it and everything that its kernels use.
    pub(crate) fn launch_graph(&mut self, graph: &Graph, resource: Resource) -> Result<(), CallError> {
        self.context.enter()?;
        // SAFETY: the reasons for a kernel launch hold for each of its kernels; the graph is instantiated,
        // and `resource` keeps it alive until the task is done.
        unsafe { self.context.api.cuGraphLaunch(graph.exec(), self.raw)? };
        self.add_resources([resource]);
        Ok(())
    }

    /// Fills a region with zeros.
    pub(crate) fn zero(&mut self, dst: &MemoryRegion) -> Result<(), CallError> {
        self.context.enter()?;
        // SAFETY: the region lies within its memory, which the queue keeps alive until the task is done.
        unsafe { self.context.api.cuMemsetD8Async(dst.address(), 0, dst.bytes(), self.raw)? };
        self.add_resources([resource(dst)]);
        Ok(())
    }

    /// Copies a staging range to a region; the shorter of the two determines the size.
    pub(crate) fn upload(&mut self, dst: &MemoryRegion, range: StagingRange) -> Result<(), CallError> {
        self.context.enter()?;
        let bytes = dst.bytes().min(range.bytes());
        let src = range.address().cast_const().cast();
        // SAFETY: both have `bytes` bytes, and the queue keeps both alive until the task is done.
        unsafe { self.context.api.cuMemcpyHtoDAsync_v2(dst.address(), src, bytes, self.raw)? };
        self.open.uploads.push(range);
        self.add_resources([resource(dst)]);
        Ok(())
    }

    /// Copies a region to a staging range. When the copy is done, the range is copied to `array`, from byte
    /// `offset` on.
    pub(crate) fn download(
        &mut self,
        src: &MemoryRegion,
        range: StagingRange,
        array: &HostReadback,
        offset: usize,
    ) -> Result<(), CallError> {
        self.context.enter()?;
        let bytes = src.bytes().min(range.bytes());
        let dst = range.address().cast();
        // SAFETY: both have `bytes` bytes, and the queue keeps both alive until the task is done.
        unsafe { self.context.api.cuMemcpyDtoHAsync_v2(dst, src.address(), bytes, self.raw)? };
        self.open.readbacks.push(Readback { range, array: array.clone(), offset });
        self.add_resources([resource(src)]);
        Ok(())
    }

    /// Copies one region to another; the shorter of the two determines the size. Either region may belong to
    /// another device to which this device has access.
    pub(crate) fn copy(&mut self, dst: &MemoryRegion, src: &MemoryRegion) -> Result<(), CallError> {
        self.context.enter()?;
        let bytes = dst.bytes().min(src.bytes());
        let (to, from) = (&dst.memory().context, &src.memory().context);
        let (dst_address, src_address) = (dst.address(), src.address());
        let api = self.context.api;
        // SAFETY: both have `bytes` bytes, and the queue keeps both alive until the task is done; their
        // contexts exist at least as long.
        unsafe {
            if to.raw == from.raw {
                api.cuMemcpyDtoDAsync_v2(dst_address, src_address, bytes, self.raw)?;
            } else {
                api.cuMemcpyPeerAsync(dst_address, to.raw, src_address, from.raw, bytes, self.raw)?;
            }
        }
        self.add_resources([resource(dst), resource(src)]);
        Ok(())
    }

    /// Exchanges values of regions with other ranks; `call` owns the communicator and whatever else the
    /// task needs.
    pub(crate) fn exchange(
        &mut self,
        communicator: &Communicator,
        exchanges: &[Exchange],
        regions: &[MemoryRegion],
        call: Resource,
    ) -> Result<(), CallError> {
        self.context.enter()?;
        communicator.submit(&self.context, self.raw, exchanges, regions)?;
        self.add_resources([call]);
        self.open.resources.extend(regions.iter().map(resource));
        Ok(())
    }

    /// Makes later tasks wait for an event of another stream.
    pub(crate) fn wait(&mut self, recorded: &RecordedEvent) -> Result<(), CallError> {
        self.context.enter()?;
        // SAFETY: both exist; the wait refers to the recorded state from now on, so the event may be reused.
        unsafe { self.context.api.cuStreamWaitEvent(self.raw, recorded.raw, 0)? };
        self.add_resources([]);
        Ok(())
    }

    /// Records an event after the open tasks.
    pub(crate) fn close(&mut self) -> Result<(), CallError> {
        self.context.enter()?;
        let recorded = Arc::new(RecordedEvent::new(&self.context, EventPurpose::Order)?);
        recorded.record(self.raw)?;
        let tasks = std::mem::take(&mut self.open);
        self.closed.push_back(ClosedGroup { recorded, tasks, completions: Completions::new() });
        Ok(())
    }

    /// The last recorded event, with the values attached to it; `None` if all closed groups are retired.
    pub(crate) fn last(&mut self) -> Option<(&Arc<RecordedEvent>, &mut Completions<E>)> {
        self.closed.back_mut().map(|closed| (&closed.recorded, &mut closed.completions))
    }

    /// The first recorded event that is not known to be reached.
    pub(crate) fn first(&self) -> Option<&Arc<RecordedEvent>> {
        self.closed.front().map(|closed| &closed.recorded)
    }

    /// Whether tasks were submitted since the last recorded event.
    pub(crate) fn is_open(&self) -> bool {
        self.open.any
    }

    /// The number of recorded events that are not known to be reached.
    pub(crate) fn len(&self) -> usize {
        self.closed.len()
    }

    /// The resources of tasks that are not known to be done.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Resource> {
        self.closed.iter().map(|closed| &closed.tasks).chain([&self.open]).flat_map(|tasks| &tasks.resources)
    }

    /// Retires the first group of tasks if its event is reached: fills host arrays, records times, releases
    /// resources, and returns the attached values.
    pub(crate) fn retire(&mut self) -> Result<Option<Completions<E>>, CallError> {
        self.context.enter()?;
        let Some(first) = self.closed.front() else { return Ok(None) };
        if !first.recorded.is_done()? {
            return Ok(None);
        }
        let Some(ClosedGroup { tasks, completions, .. }) = self.closed.pop_front() else { return Ok(None) };
        tasks.readbacks.iter().for_each(Readback::complete);
        tasks.timed.into_iter().for_each(|timed| self.clock.record(timed));
        Ok(Some(completions))
    }

    /// Drops all groups, because the device is lost and executes nothing any more. Returns the attached
    /// values.
    pub(crate) fn abandon(&mut self) -> Vec<E> {
        self.open = TaskGroup::default();
        self.closed.drain(..).flat_map(|closed| closed.completions).collect()
    }

    fn add_resources<const N: usize>(&mut self, resources: [Resource; N]) {
        self.open.any = true;
        self.open.resources.extend(resources);
    }
}

fn resource(region: &MemoryRegion) -> Resource {
    Arc::clone(region.memory()) as Resource
}

impl<E> Drop for TaskQueue<E> {
    fn drop(&mut self) {
        // Errors are ignored: a stream that cannot be waited for belongs to a lost context, which executes
        // nothing.
        let _ = self.context.enter();
        // SAFETY: made by `new`, and no other value has it; its tasks are done before their resources are
        // dropped.
        unsafe {
            let _ = self.context.api.cuStreamSynchronize(self.raw);
            let _ = self.context.api.cuStreamDestroy_v2(self.raw);
        }
    }
}

impl<E> fmt::Debug for TaskQueue<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a stream with {} marks", self.len())
    }
}
