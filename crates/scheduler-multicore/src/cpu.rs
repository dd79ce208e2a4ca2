//! The CPU as a driver: pools in host memory, kernels in this process, tasks on a scheduler's lanes.

use std::{any::Any, num::NonZero, sync::Arc as Shared};

use codegen_core::{Artifact, Caps, DTypeSet, Transcendental, host::HostModule};
use device_runtime::{
    After, BoundHandle, CopyInTask, CopyOutTask, CopyTask, Driver, DriverError, EventHandle, FillTask,
    HostTask, KernelArgs, KernelHandle, LaunchTask, Mark, ModuleHandle, PoolHandle, PoolId, StreamHandle,
    StreamStrategy,
};
use tnode::{DType, HostArray};

use crate::{
    event::EventState,
    inline::Inline,
    lane::{Lane, Scheduler},
    multicore::Multicore,
    pages::ALIGNMENT,
    raw::{Bound, Kernel, Memory, Work},
    spare::Spare,
    sync::{Arc, OnceLock, Ordering, atomic::AtomicUsize},
    task::Task,
};

/// The most threads that kernels may be split over.
pub const MAX_THREADS: usize = 1024;

/// What may be chosen about a CPU device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Threads that kernels may be split over, the stream's own included; by default as many as the machine has. Less than
    /// 1 counts as 1, more than [`MAX_THREADS`] as [`MAX_THREADS`].
    pub threads: usize,
    /// Tasks that may wait in a stream's queue before whoever adds one has to wait; the worker may hold as many again.
    pub queue_capacity: usize,
    /// Bytes that pools may occupy together; no limit by default.
    pub memory_limit: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        Config { threads, queue_capacity: 1024, memory_limit: None }
    }
}

/// A CPU device. One process may have several, which reach each other's pools and wait for each other's events.
#[derive(Debug)]
pub struct Cpu<S: Scheduler> {
    scheduler: S,
    caps: Caps,
    memory_limit: Option<usize>,
    strategy: OnceLock<StreamStrategy>,
    used: Arc<AtomicUsize>,
}

impl Cpu<Multicore> {
    /// A device with a worker thread per stream.
    pub fn multicore(config: Config) -> Cpu<Multicore> {
        Cpu::new(Multicore::new(&config), config.memory_limit)
    }
}

impl Cpu<Inline> {
    /// A device that runs everything on the caller's thread; of the configuration only the memory limit matters.
    pub fn inline(config: Config) -> Cpu<Inline> {
        Cpu::new(Inline, config.memory_limit)
    }
}

impl<S: Scheduler> Cpu<S> {
    /// A device with a scheduler; `memory_limit` as in [`Config`].
    pub fn new(scheduler: S, memory_limit: Option<usize>) -> Cpu<S> {
        Cpu {
            caps: caps(&scheduler),
            scheduler,
            memory_limit,
            strategy: OnceLock::new(),
            used: Arc::default(),
        }
    }

    /// Memory for a pool, within the limit.
    fn allocate(&self, bytes: usize) -> Result<Shared<Memory>, DriverError> {
        let limit = self.memory_limit.unwrap_or(usize::MAX);
        let refused = || DriverError::OutOfMemory { requested: bytes, used: self.used_memory() };
        Memory::zeroed(bytes, &self.used, limit).ok_or_else(refused)
    }

    /// Memory that another device of the process exported, or a host array's.
    fn reach(&self, handle: &PoolHandle) -> Result<Shared<Memory>, DriverError> {
        let unreachable =
            DriverError::NoPeerAccess { driver: self.name().to_owned(), what: "memory of others" };
        match handle.share::<Memory>() {
            Ok(memory) => Ok(memory),
            Err(_) => handle.share::<HostArray>().ok().and_then(Memory::of_host).ok_or(unreachable),
        }
    }
}

/// What any CPU does through its codegens, as far as the runtime has to know.
fn caps(scheduler: &impl Scheduler) -> Caps {
    let all: DTypeSet = DType::ALL.into_iter().collect();
    Caps {
        target: scheduler.name().to_owned(),
        storage: all,
        arithmetic: all,
        transcendental: Transcendental::Expanded,
        vector_bytes: 16,
        vector_registers: 16,
        contractions: DTypeSet::EMPTY,
        fma: true,
        l1_bytes: 32 << 10,
        l2_bytes: 1 << 20,
        threads: scheduler.threads(),
        alignment: ALIGNMENT,
        index: DType::I64,
        workgroups: None,
    }
}

/// A stream: its lane, and its events that may serve again.
struct Stream<L>(L, Spare);

impl<L: Lane> Stream<L> {
    /// Takes work unless the stream has failed.
    fn submit(&self, work: Work) -> Result<(), DriverError> {
        match self.0.state().failure() {
            Some(failure) => Err(DriverError::Failed(failure)),
            None => self.0.submit(Task::work(work)),
        }
    }

    fn record(&self) -> Result<Arc<EventState>, DriverError> {
        let event = self.1.event(self.0.state());
        self.0.submit(Task::signal(Arc::clone(&event)))?;
        Ok(event)
    }
}

/// A loaded artifact: its kernels, each with the ABI that it was made with.
struct Module(HostModule);

#[allow(unsafe_code, reason = "implements `Driver`, which is unsafe to implement")]
// SAFETY: memory is `Memory`, which handles and tasks have shares of; lanes run what they are given in order, and a wait keeps
// a lane from going on; an event is reached by the lane it was recorded on.
unsafe impl<S: Scheduler> Driver for Cpu<S> {
    fn name(&self) -> &str {
        self.scheduler.name()
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn static_properties(&self) -> Vec<(&'static str, String)> {
        let limit = self.memory_limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
        vec![
            ("architecture", std::env::consts::ARCH.to_owned()),
            ("threads", self.scheduler.threads().to_string()),
            ("alignment_bytes", ALIGNMENT.to_string()),
            ("memory_limit_bytes", limit),
        ]
    }

    fn initialize(&self, strategy: StreamStrategy) {
        self.strategy.get_or_init(|| strategy);
    }

    fn is_initialized(&self) -> bool {
        self.strategy.get().is_some()
    }

    fn suggested_num_streams(&self) -> usize {
        self.scheduler.suggested_num_streams(self.strategy.get().copied().unwrap_or_default())
    }

    fn used_memory(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn debug_info(&self, stream: &StreamHandle) -> String {
        let info = |stream: &Stream<S::Lane>| stream.0.debug_info();
        stream.get().map_or_else(|error: DriverError| error.to_string(), info)
    }

    fn alloc_pool(&self, _pool: PoolId, bytes: usize) -> Result<PoolHandle, DriverError> {
        Ok(PoolHandle::from(self.allocate(bytes)? as Shared<dyn Any + Send + Sync>))
    }

    fn export(&self, memory: &PoolHandle) -> Result<PoolHandle, DriverError> {
        memory.get::<Memory>().map(|_| memory.clone())
    }

    fn import(&self, memory: &PoolHandle) -> Result<PoolHandle, DriverError> {
        Ok(PoolHandle::from(self.reach(memory)? as Shared<dyn Any + Send + Sync>))
    }

    fn adopt(&self, array: Box<HostArray>) -> Result<PoolHandle, Box<HostArray>> {
        let limit = self.memory_limit.unwrap_or(usize::MAX);
        let memory = Memory::adopted(array, &self.used, limit)?;
        Ok(PoolHandle::from(memory as Shared<dyn Any + Send + Sync>))
    }

    fn new_stream(&self, name: &str) -> Result<StreamHandle, DriverError> {
        Ok(StreamHandle::new(Stream(self.scheduler.open(name)?, Spare::new())))
    }

    fn drop_stream(&self, stream: StreamHandle) {
        if let Ok(stream) = stream.get::<Stream<S::Lane>>() {
            stream.0.close();
        }
    }

    fn reset_stream(&self, stream: &StreamHandle) -> Result<(), DriverError> {
        let stream: &Stream<S::Lane> = stream.get()?;
        let event = stream.record()?;
        // The failure is what the reset is for.
        let _ = event.sync()?;
        stream.0.state().forgive();
        Ok(())
    }

    fn is_idle(&self, stream: &StreamHandle) -> bool {
        stream.get::<Stream<S::Lane>>().is_ok_and(|stream| stream.0.is_idle())
    }

    fn load(&self, artifact: &Artifact) -> Result<ModuleHandle, DriverError> {
        let Some(code) = artifact.host_module() else {
            let (driver, payload) = (self.name().to_owned(), "non-host".to_owned());
            return Err(DriverError::UnsupportedPayload { driver, payload });
        };
        Ok(ModuleHandle::new(Module(code)))
    }

    fn kernel(&self, module: &ModuleHandle, index: usize) -> Result<KernelHandle, DriverError> {
        let Module(code) = module.get()?;
        let abi = code.abis().get(index).ok_or(DriverError::NoSuchEntry { index, kernels: code.len() })?;
        Ok(KernelHandle::new(Kernel { code: code.clone(), index, abi: abi.clone() }))
    }

    fn bind(&self, args: &KernelArgs<'_>) -> Result<BoundHandle, DriverError> {
        Bound::new(args).map(BoundHandle::new)
    }

    fn launch(&self, stream: &StreamHandle, task: LaunchTask<'_>) -> Result<(), DriverError> {
        stream.get::<Stream<S::Lane>>()?.submit(Work::launch(task)?)
    }

    fn memset_zero(&self, stream: &StreamHandle, task: FillTask) -> Result<(), DriverError> {
        let stream: &Stream<S::Lane> = stream.get()?;
        if task.dst().memory().get::<Memory>()?.is_pristine() {
            return Ok(());
        }
        stream.submit(Work::zero(task)?)
    }

    fn copy_in(&self, stream: &StreamHandle, task: CopyInTask) -> Result<(), DriverError> {
        stream.get::<Stream<S::Lane>>()?.submit(Work::copy_in(task)?)
    }

    fn copy_out(&self, stream: &StreamHandle, task: CopyOutTask) -> Result<(), DriverError> {
        stream.get::<Stream<S::Lane>>()?.submit(Work::copy_out(task)?)
    }

    fn copy(&self, stream: &StreamHandle, task: CopyTask) -> Result<(), DriverError> {
        stream.get::<Stream<S::Lane>>()?.submit(Work::copy(task)?)
    }

    fn record(&self, stream: &StreamHandle) -> Result<EventHandle, DriverError> {
        let event: Shared<EventState> = stream.get::<Stream<S::Lane>>()?.record()?;
        Ok(EventHandle::from(event as Shared<dyn Any + Send + Sync>))
    }

    fn wait(&self, stream: &StreamHandle, event: &EventHandle, after: After) -> Result<(), DriverError> {
        let stream: &Stream<S::Lane> = stream.get()?;
        let event: Shared<EventState> = event.share()?;
        // An event that was reached well constrains nothing any more: what its lane did is visible to whoever saw that here.
        if event.lane == *stream.0.state() || event.poll() == Some(Ok(())) {
            return Ok(());
        }
        stream.0.submit(Task::wait(event, after))
    }

    fn host_task(&self, stream: &StreamHandle, task: HostTask) -> Result<(), DriverError> {
        let stream: &Stream<S::Lane> = stream.get()?;
        match stream.0.state().failure() {
            Some(failure) => Err(DriverError::Failed(failure)),
            None => stream.0.submit(Task::host(task)),
        }
    }

    fn mark(&self, stream: &StreamHandle, mark: Mark) -> Result<(), DriverError> {
        stream.get::<Stream<S::Lane>>()?.0.submit(Task::mark(mark))
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
