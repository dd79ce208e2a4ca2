//! The CPU as a driver: pools in host memory, kernels in this process, tasks in the queues of a scheduler.

use std::{any::Any, num::NonZero, sync::Arc as Shared};

use codegen_core::{Artifact, Caps};
use device_runtime::{
    BoundHandle, CopyInTask, CopyOutTask, CopyTask, Driver, DriverDescription, DriverError, EventHandle,
    FillTask, HostAccessTask, HostTask, KernelArgs, KernelHandle, KernelTimer, LaunchTask, Launched, Mark,
    MemoryBudget, PoolHandle, PoolId, SequenceHandle, SequenceTask, StreamHandle, StreamStrategy, WaitKind,
};
use tnode::{DType, HostArray};

use crate::{
    event::EventState,
    event_free_list::EventFreeList,
    inline::Inline,
    multicore::Multicore,
    pages::ALIGNMENT,
    raw::{BoundCode, HostAccess, HostKernel, KernelSequence, MemoryTask, PoolMemory, SequenceLaunch},
    scheduler::{Scheduler, StreamQueue},
    sync::Arc,
    task::QueuedTask,
};

/// Largest number of threads that [`CpuConfig::threads`] may ask for.
pub const MAX_THREADS: usize = 1024;

/// The fewest kernels that are one task. Its event is a task of its own, which a kernel has with it.
const MIN_SEQUENCE: usize = 4;

/// Options of a CPU device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuConfig {
    /// Number of threads that a kernel may be split over, including the thread that runs it; by default the
    /// machine's available parallelism. Clamped to `1..=MAX_THREADS`.
    pub threads: usize,
    /// Number of tasks that may wait in a stream's queue before a producer blocks. The stream's worker may
    /// hold the same number in addition. At least 1.
    pub queue_capacity: usize,
    /// Limit on the total size of the device's pools, in bytes; `None` by default.
    pub memory_limit: Option<usize>,
}

impl Default for CpuConfig {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        CpuConfig { threads, queue_capacity: 1024, memory_limit: None }
    }
}

/// A CPU device. The devices of one process can access each other's pools and wait for each other's events.
#[derive(Debug)]
pub struct Cpu<S: Scheduler> {
    scheduler: S,
    description: DriverDescription,
    memory: MemoryBudget,
}

impl Cpu<Multicore> {
    /// A device with a worker thread per stream.
    pub fn multicore(config: CpuConfig) -> Cpu<Multicore> {
        Cpu::new(Multicore::new(&config), config.memory_limit)
    }
}

impl Cpu<Inline> {
    /// A device that runs every task on the thread that submits it. Uses only the memory limit of `config`.
    pub fn inline(config: CpuConfig) -> Cpu<Inline> {
        Cpu::new(Inline, config.memory_limit)
    }
}

impl<S: Scheduler> Cpu<S> {
    /// A device with the given scheduler; see [`CpuConfig::memory_limit`].
    pub fn new(scheduler: S, memory_limit: Option<usize>) -> Cpu<S> {
        Cpu {
            description: describe(&scheduler, memory_limit),
            scheduler,
            memory: MemoryBudget::new(memory_limit),
        }
    }

    /// The memory behind a handle that another device of the process exported, or behind a host array's
    /// handle.
    fn imported(&self, handle: &PoolHandle) -> Result<Shared<PoolMemory>, DriverError> {
        let unreachable =
            DriverError::NoPeerAccess { driver: self.name().to_owned(), what: "memory of others" };
        match handle.share::<PoolMemory>() {
            Ok(memory) => Ok(memory),
            Err(_) => handle.share::<HostArray>().ok().and_then(PoolMemory::of_host).ok_or(unreachable),
        }
    }
}

fn describe(scheduler: &impl Scheduler, memory_limit: Option<usize>) -> DriverDescription {
    let limit = memory_limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let properties = vec![
        ("architecture", std::env::consts::ARCH.to_owned()),
        ("threads", scheduler.threads().to_string()),
        ("alignment_bytes", ALIGNMENT.to_string()),
        ("memory_limit_bytes", limit),
    ];
    DriverDescription { name: scheduler.name().to_owned(), caps: caps(scheduler), properties }
}

/// The capabilities of CPU codegens, as far as the runtime uses them.
fn caps(scheduler: &impl Scheduler) -> Caps {
    Caps {
        arithmetic: DType::ALL.into_iter().collect(),
        vector_bytes: 16,
        vector_registers: 16,
        l2_bytes: 1 << 20,
        threads: scheduler.threads(),
        alignment: ALIGNMENT,
        ..Caps::host(scheduler.name())
    }
}

/// A stream: its queue, and its events.
struct Stream<Q> {
    queue: Q,
    events: EventFreeList,
    /// An event that has been reached. It stands for the end of each task that its producer ran. Any thread
    /// gets the event from the producer, after the task, and therefore sees the effects of the task.
    done: Arc<EventState>,
}

impl<Q: StreamQueue> Stream<Q> {
    fn new(queue: Q) -> Stream<Q> {
        let done = queue.state().event();
        done.reach(None);
        Stream { queue, events: EventFreeList::new(), done }
    }

    /// Submits a task unless the stream has failed.
    fn submit(&self, task: QueuedTask) -> Result<(), DriverError> {
        match self.queue.state().failure() {
            Some(failure) => Err(DriverError::Failed(failure)),
            None => self.queue.submit(task),
        }
    }

    /// Submits a task and records an event after it, unless the stream has failed. The queue is locked once
    /// for both, or the task runs at once and the event needs no place in the queue.
    fn submit_recorded(&self, task: QueuedTask) -> Result<Launched, DriverError> {
        let state = self.queue.state();
        if let Some(failure) = state.failure() {
            return Err(DriverError::Failed(failure));
        }
        match self.queue.try_run(task) {
            Ok(None) => Ok(Launched::Done(event_handle(Arc::clone(&self.done)))),
            Ok(failure) => {
                let event = self.events.event(state);
                event.reach(failure);
                Ok(Launched::Recorded(event_handle(event)))
            }
            Err(task) => {
                let event = self.events.event(state);
                self.queue.enqueue(task.then_signal(Arc::clone(&event)))?;
                Ok(Launched::Recorded(event_handle(event)))
            }
        }
    }

    fn record(&self) -> Result<Arc<EventState>, DriverError> {
        let event = self.events.event(self.queue.state());
        self.queue.submit(QueuedTask::signal(Arc::clone(&event)))?;
        Ok(event)
    }
}

fn event_handle(event: Shared<EventState>) -> EventHandle {
    EventHandle::from(event as Shared<dyn Any + Send + Sync>)
}

#[allow(unsafe_code, reason = "implements `Driver`, which is unsafe to implement")]
// SAFETY: memory is `PoolMemory`, to which handles and tasks hold references; queues run their tasks in
// order, and a wait blocks its queue; an event is reached by the queue on which it was recorded.
unsafe impl<S: Scheduler> Driver for Cpu<S> {
    fn description(&self) -> &DriverDescription {
        &self.description
    }

    fn suggested_num_streams(&self, strategy: StreamStrategy) -> usize {
        self.scheduler.suggested_num_streams(strategy)
    }

    fn used_memory(&self) -> usize {
        self.memory.used()
    }

    fn debug_info(&self, stream: &StreamHandle) -> String {
        let info = |stream: &Stream<S::Queue>| stream.queue.debug_info();
        stream.get().map_or_else(|error: DriverError| error.to_string(), info)
    }

    fn alloc_pool(&self, _pool: PoolId, bytes: usize) -> Result<PoolHandle, DriverError> {
        Ok(PoolHandle::from(PoolMemory::zeroed(bytes, &self.memory)? as Shared<dyn Any + Send + Sync>))
    }

    fn export(&self, memory: &PoolHandle) -> Result<PoolHandle, DriverError> {
        memory.get::<PoolMemory>().map(|_| memory.clone())
    }

    fn import(&self, memory: &PoolHandle) -> Result<PoolHandle, DriverError> {
        Ok(PoolHandle::from(self.imported(memory)? as Shared<dyn Any + Send + Sync>))
    }

    fn adopt(&self, array: Box<HostArray>) -> Result<PoolHandle, Box<HostArray>> {
        let memory = PoolMemory::adopted(array, &self.memory)?;
        Ok(PoolHandle::from(memory as Shared<dyn Any + Send + Sync>))
    }

    fn new_stream(&self, name: &str) -> Result<StreamHandle, DriverError> {
        Ok(StreamHandle::new(Stream::new(self.scheduler.open(name)?)))
    }

    fn drop_stream(&self, stream: StreamHandle) {
        if let Ok(stream) = stream.get::<Stream<S::Queue>>() {
            stream.queue.close();
        }
    }

    fn reset_stream(&self, stream: &StreamHandle) -> Result<(), DriverError> {
        let stream: &Stream<S::Queue> = stream.get()?;
        let event = stream.record()?;
        // A failure of the stream is not an error here, since the next line clears it.
        let _ = event.sync()?;
        stream.queue.state().clear_failure();
        Ok(())
    }

    fn is_idle(&self, stream: &StreamHandle) -> bool {
        stream.get::<Stream<S::Queue>>().is_ok_and(|stream| stream.queue.is_idle())
    }

    fn load(&self, artifact: &Artifact) -> Result<Vec<KernelHandle>, DriverError> {
        let Some(code) = artifact.host_module() else {
            return Err(DriverError::unsupported_payload(self.name(), artifact));
        };
        let kernels = code.abis().iter().enumerate();
        let kernels = kernels.map(|(index, abi)| HostKernel { code: code.clone(), index, abi: abi.clone() });
        Ok(kernels.map(KernelHandle::new).collect())
    }

    fn bind(&self, args: &KernelArgs<'_>) -> Result<BoundHandle, DriverError> {
        BoundCode::new(args).map(BoundHandle::new)
    }

    fn launch(&self, stream: &StreamHandle, task: LaunchTask<'_>) -> Result<(), DriverError> {
        stream.get::<Stream<S::Queue>>()?.submit(QueuedTask::memory(MemoryTask::launch(task)?))
    }

    fn launch_recorded(&self, stream: &StreamHandle, task: LaunchTask<'_>) -> Result<Launched, DriverError> {
        let task = QueuedTask::memory(MemoryTask::launch(task)?);
        stream.get::<Stream<S::Queue>>()?.submit_recorded(task)
    }

    fn launch_timed(
        &self,
        stream: &StreamHandle,
        task: LaunchTask<'_>,
        timer: KernelTimer,
    ) -> Result<bool, DriverError> {
        let task = MemoryTask::launch_timed(task, timer)?;
        stream.get::<Stream<S::Queue>>()?.submit(QueuedTask::memory(task)).map(|()| true)
    }

    fn sequence(&self, kernels: &[BoundHandle]) -> Result<Option<SequenceHandle>, DriverError> {
        if kernels.len() < MIN_SEQUENCE {
            return Ok(None);
        }
        KernelSequence::new(kernels).map(|sequence| Some(SequenceHandle::new(sequence)))
    }

    fn launch_sequence(&self, stream: &StreamHandle, task: SequenceTask<'_>) -> Result<bool, DriverError> {
        let launch = SequenceLaunch::new(&task)?;
        stream.get::<Stream<S::Queue>>()?.submit(QueuedTask::sequence(launch)).map(|()| true)
    }

    fn memset_zero(&self, stream: &StreamHandle, task: FillTask) -> Result<(), DriverError> {
        let stream: &Stream<S::Queue> = stream.get()?;
        if task.dst().memory().get::<PoolMemory>()?.is_pristine() {
            return Ok(());
        }
        stream.submit(QueuedTask::memory(MemoryTask::zero(task)?))
    }

    fn copy_in(&self, stream: &StreamHandle, task: CopyInTask) -> Result<(), DriverError> {
        stream.get::<Stream<S::Queue>>()?.submit(QueuedTask::memory(MemoryTask::copy_in(task)?))
    }

    fn copy_out(&self, stream: &StreamHandle, task: CopyOutTask) -> Result<(), DriverError> {
        stream.get::<Stream<S::Queue>>()?.submit(QueuedTask::memory(MemoryTask::copy_out(task)?))
    }

    fn copy(&self, stream: &StreamHandle, task: CopyTask) -> Result<(), DriverError> {
        stream.get::<Stream<S::Queue>>()?.submit(QueuedTask::memory(MemoryTask::copy(task)?))
    }

    fn record(&self, stream: &StreamHandle) -> Result<EventHandle, DriverError> {
        stream.get::<Stream<S::Queue>>()?.record().map(event_handle)
    }

    fn wait(&self, stream: &StreamHandle, event: &EventHandle, after: WaitKind) -> Result<(), DriverError> {
        let stream: &Stream<S::Queue> = stream.get()?;
        let event: Shared<EventState> = event.share()?;
        // An event that is done without failure needs no wait: this thread now also sees all writes of the
        // tasks before it, and so does the next task.
        if event.queue == *stream.queue.state() || event.poll() == Some(Ok(())) {
            return Ok(());
        }
        stream.queue.submit(QueuedTask::wait(event, after))
    }

    fn host_task(&self, stream: &StreamHandle, task: HostTask) -> Result<(), DriverError> {
        stream.get::<Stream<S::Queue>>()?.submit(QueuedTask::host(task))
    }

    fn host_access(&self, stream: &StreamHandle, task: HostAccessTask) -> Result<(), DriverError> {
        stream.get::<Stream<S::Queue>>()?.submit(QueuedTask::host_access(HostAccess::new(task)?))
    }

    fn mark(&self, stream: &StreamHandle, mark: Mark) -> Result<bool, DriverError> {
        stream.get::<Stream<S::Queue>>()?.queue.submit(QueuedTask::mark(mark)).map(|()| true)
    }

    fn is_done(&self, event: &EventHandle) -> Result<bool, DriverError> {
        match event.get::<EventState>()?.poll() {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(failure)) => Err(DriverError::Failed(failure)),
        }
    }

    fn sync(&self, event: &EventHandle) -> Result<(), DriverError> {
        event.get::<EventState>()?.sync()?.map_err(DriverError::Failed)
    }
}
