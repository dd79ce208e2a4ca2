//! The device as a [`Driver`].

use std::{any::Any, fmt, sync::Arc};

use codegen_core::{Artifact, Payload};
use device_runtime::{
    BoundHandle, CopyInTask, CopyOutTask, CopyTask, DeviceAccessTask, Driver, DriverDescription, DriverError,
    EventHandle, FillTask, KernelArgs, KernelHandle, KernelTimer, LaunchTask, MemoryBudget, PolledStream,
    PoolHandle, PoolId, SequenceHandle, SequenceTask, StreamHandle, StreamRegistry, StreamStrategy, WaitKind,
    check_owner,
};

use crate::{
    Result,
    api::{DeviceMemory, MemoryRegion},
    caps::{self, ALIGNMENT, DeviceAttributes},
    cubin::CubinCache,
    event::Event,
    kernel::{BoundFunction, CodeLoader, LoadedKernel},
    nccl::NcclCall,
    open::{self, CudaConfig, CudaOpenError, DeviceInfo, OpenedDevice},
    sequence::{MIN_KERNELS, Sequence},
    shared_state::{DRIVER_NAME, SharedState},
    stream::Stream,
};

mod memory; // allocations

/// Maximum number of suggested streams: more make no kernel faster.
const MAX_STREAMS: usize = 8;

/// An NVIDIA GPU. One process may open several devices. Devices of one position share a context, and are lost
/// together.
pub struct CudaDevice {
    info: DeviceInfo,
    attributes: DeviceAttributes,
    description: DriverDescription,
    /// The CUDA version of the driver.
    cuda: (u32, u32),
    shared: Arc<SharedState>,
    cache: Option<CubinCache>,
    memory: MemoryBudget,
    streams: StreamRegistry<Stream>,
}

impl CudaDevice {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// [`CudaOpenError`]: there is no driver, the driver is too old or fails to open the device, there is no such
    /// device (the error lists the machine's devices), or the device is too old.
    pub fn open(config: &CudaConfig) -> Result<CudaDevice, CudaOpenError> {
        let opened = open::open(config.ordinal)?;
        tracing::debug!(device = %opened.info, target = opened.target, cuda = ?opened.cuda, "opened");
        let folder = config.code_folder.as_deref();
        let cache = folder.and_then(|folder| CubinCache::new(folder, config.assembler.as_deref()));
        Ok(CudaDevice {
            description: describe(&opened, config.memory_limit, cache.is_some()),
            info: opened.info,
            attributes: opened.attributes,
            cuda: opened.cuda,
            shared: SharedState::new(opened.context),
            cache,
            memory: MemoryBudget::new(config.memory_limit),
            streams: StreamRegistry::default(),
        })
    }

    /// The device's name, position, compute capability and memory size.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// The newest PTX version that the driver accepts: major and minor.
    pub fn language(&self) -> (u32, u32) {
        caps::language(self.cuda)
    }

    fn stream<'a>(&self, handle: &'a StreamHandle) -> Result<&'a Arc<Stream>> {
        self.streams.get(&self.shared, handle)
    }

    fn event<'a>(&self, handle: &'a EventHandle) -> Result<&'a Event> {
        let event: &Event = handle.get()?;
        self.check_own(&event.stream.shared, "event")?;
        Ok(event)
    }

    fn bound<'a>(&self, task: &'a LaunchTask<'_>) -> Result<&'a Arc<BoundFunction>> {
        let DeviceOwned { shared, value: bound } = task.kernel().get::<DeviceOwned<Arc<BoundFunction>>>()?;
        self.check_own(shared, "bound kernel")?;
        Ok(bound)
    }

    fn check_own(&self, shared: &Arc<SharedState>, what: &'static str) -> Result<()> {
        check_owner(shared, &self.shared, what)
    }

    fn unreachable(&self) -> DriverError {
        DriverError::NoPeerAccess { driver: self.name().to_owned(), what: "memory of others" }
    }
}

fn describe(opened: &OpenedDevice, memory_limit: Option<usize>, has_cache: bool) -> DriverDescription {
    let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let OpenedDevice { info, attributes, .. } = opened;
    let caps = caps::caps(attributes, opened.target);
    let properties = vec![
        ("device", info.name.clone()),
        ("ordinal", info.ordinal.to_string()),
        ("compute_capability", version(attributes.capability)),
        ("target", caps.target.clone()),
        ("cuda", version(opened.cuda)),
        ("ptx", version(caps::language(opened.cuda))),
        ("memory_bytes", info.memory_bytes.to_string()),
        ("multiprocessors", attributes.multiprocessors.to_string()),
        ("threads_per_block", attributes.threads.to_string()),
        ("registers_per_block", attributes.registers.to_string()),
        ("shared_bytes_per_block", attributes.max_shared.to_string()),
        ("l2_bytes", attributes.l2.to_string()),
        ("async_engines", attributes.async_engines.to_string()),
        ("memory_pools", attributes.pools.to_string()),
        ("keeps_machine_code", has_cache.to_string()),
        ("alignment_bytes", ALIGNMENT.to_string()),
        ("memory_limit_bytes", memory_limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string())),
    ];
    DriverDescription { name: DRIVER_NAME.to_owned(), caps, properties }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        // A stream and its pending events refer to each other; draining breaks the cycle.
        self.streams.drain_all();
    }
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaDevice")
            .field("device", &self.info.to_string())
            .field("memory", &self.memory)
            .field("staging", &self.shared.staging)
            .finish_non_exhaustive()
    }
}

/// A value of this driver behind a handle, and the device to which it belongs.
struct DeviceOwned<T> {
    shared: Arc<SharedState>,
    value: T,
}

#[allow(unsafe_code, reason = "implements `Driver`, which is unsafe to implement")]
// SAFETY: `api` is a safe interface: kernels and copies access only memory of the device, in the order of
// their stream, which keeps the resources of its tasks alive until they are done.
unsafe impl Driver for CudaDevice {
    fn description(&self) -> &DriverDescription {
        &self.description
    }

    fn suggested_num_streams(&self, strategy: StreamStrategy) -> usize {
        match strategy {
            StreamStrategy::OnlyDevicesParallel => 1,
            // Copies have two directions, so a third engine would have no stream of its own to serve.
            StreamStrategy::ForParallelCopying => 1 + self.attributes.async_engines.clamp(1, 2),
            StreamStrategy::MostParallelStreams => self.attributes.multiprocessors.clamp(1, MAX_STREAMS),
        }
    }

    fn used_memory(&self) -> usize {
        // Completed tasks keep their memory until they are retired.
        self.streams.advance_all();
        self.memory.used()
    }

    fn debug_info(&self, stream: &StreamHandle) -> String {
        let info = |stream: &Arc<Stream>| format!("{stream}; {:?}; {:?}", self.memory, self.shared.staging);
        self.stream(stream).map_or_else(|error| error.to_string(), info)
    }

    fn alloc_pool(&self, _pool: PoolId, bytes: usize) -> Result<PoolHandle> {
        Ok(PoolHandle::from(self.find_room(bytes)? as Arc<dyn Any + Send + Sync>))
    }

    fn export(&self, memory: &PoolHandle) -> Result<PoolHandle> {
        memory.get::<DeviceMemory>().map(|_| memory.clone())
    }

    fn import(&self, memory: &PoolHandle) -> Result<PoolHandle> {
        let reached = memory.get::<DeviceMemory>().map_err(|_| self.unreachable())?;
        self.shared.check_alive()?;
        let reached = reached.enable_access_from(&self.shared.context);
        if !reached.map_err(|error| self.shared.platform(error))? {
            return Err(self.unreachable());
        }
        Ok(memory.clone())
    }

    fn new_stream(&self, name: &str) -> Result<StreamHandle> {
        self.shared.check_alive()?;
        let stream = Stream::new(name, &self.shared)?;
        self.streams.insert(&stream);
        Ok(StreamHandle::new(stream))
    }

    fn drop_stream(&self, stream: StreamHandle) {
        self.streams.drop_stream(&self.shared, &stream);
    }

    fn reset_stream(&self, stream: &StreamHandle) -> Result<()> {
        self.streams.reset_stream(&self.shared, stream)
    }

    fn is_idle(&self, stream: &StreamHandle) -> bool {
        self.streams.is_idle(&self.shared, stream)
    }

    fn load(&self, artifact: &Artifact) -> Result<Vec<KernelHandle>> {
        let Payload::Ptx(code) = artifact.payload() else {
            return Err(DriverError::unsupported_payload(self.name(), artifact));
        };
        let Self { shared, attributes, cuda, cache, .. } = self;
        let loader = CodeLoader { shared, attributes, cuda: *cuda, cache: cache.as_ref() };
        let kernels = loader.load(artifact, code)?.into_iter();
        let own = |kernel| KernelHandle::new(DeviceOwned { shared: Arc::clone(shared), value: kernel });
        Ok(kernels.map(own).collect())
    }

    fn bind(&self, args: &KernelArgs<'_>) -> Result<BoundHandle> {
        let DeviceOwned { shared, value: kernel } = args.kernel().get::<DeviceOwned<Arc<LoadedKernel>>>()?;
        self.check_own(shared, "kernel")?;
        let regions = args.ranges().iter().map(MemoryRegion::new).collect::<Result<_, _>>()?;
        shared.check_alive()?;
        let log = self.log_memory(kernel)?;
        let it = Arc::new(BoundFunction::new(shared, Arc::clone(kernel), regions, log)?);
        Ok(BoundHandle::new(DeviceOwned { shared: Arc::clone(shared), value: it }))
    }

    fn launch(&self, stream: &StreamHandle, task: LaunchTask<'_>) -> Result<()> {
        self.stream(stream)?.launch(self.bound(&task)?, task.bindings(), None)
    }

    fn launch_timed(&self, stream: &StreamHandle, task: LaunchTask<'_>, timer: KernelTimer) -> Result<bool> {
        self.stream(stream)?.launch(self.bound(&task)?, task.bindings(), Some(timer)).map(|()| true)
    }

    fn sequence(&self, kernels: &[BoundHandle]) -> Result<Option<SequenceHandle>> {
        let bound = kernels.iter().map(|kernel| {
            let DeviceOwned { shared, value: bound } = kernel.get::<DeviceOwned<Arc<BoundFunction>>>()?;
            self.check_own(shared, "bound kernel")?;
            Ok(Arc::clone(bound))
        });
        let bound = bound.collect::<Result<Vec<_>>>()?;
        self.shared.check_alive()?;
        if bound.iter().any(|bound| bound.log().is_some()) {
            // A kernel's log must be cleared before each run and copied after it, so kernels that log are
            // launched one by one.
            return Ok(None);
        }
        let own = |it| SequenceHandle::new(DeviceOwned { shared: Arc::clone(&self.shared), value: it });
        Ok((bound.len() >= MIN_KERNELS).then(|| own(Sequence::new(bound))))
    }

    fn launch_sequence(&self, stream: &StreamHandle, task: SequenceTask<'_>) -> Result<bool> {
        let DeviceOwned { shared, value: sequence } = task.sequence().get::<DeviceOwned<Sequence>>()?;
        self.check_own(shared, "sequence of kernels")?;
        self.stream(stream)?.launch_sequence(sequence, task.bindings())
    }

    fn memset_zero(&self, stream: &StreamHandle, task: FillTask) -> Result<()> {
        self.stream(stream)?.zero(&MemoryRegion::new(task.dst())?)
    }

    fn copy_in(&self, stream: &StreamHandle, task: CopyInTask) -> Result<()> {
        self.stream(stream)?.copy_in(&MemoryRegion::new(task.dst())?, task.src())
    }

    fn copy_out(&self, stream: &StreamHandle, task: CopyOutTask) -> Result<()> {
        self.stream(stream)?.copy_out(&MemoryRegion::new(task.src())?, task.dst())
    }

    fn copy(&self, stream: &StreamHandle, task: CopyTask) -> Result<()> {
        self.stream(stream)?.copy(&MemoryRegion::new(task.dst())?, &MemoryRegion::new(task.src())?)
    }

    /// Exchanges values by NCCL, as [`NcclCommunicator`](crate::NcclCommunicator) asks for.
    fn device_access(&self, stream: &StreamHandle, task: DeviceAccessTask) -> Result<()> {
        let call = task.operation::<NcclCall>()?;
        let regions = task.memory().iter().map(MemoryRegion::new).collect::<Result<Vec<_>, _>>()?;
        self.stream(stream)?.exchange(task.name(), &call, &regions)
    }

    fn record(&self, stream: &StreamHandle) -> Result<EventHandle> {
        let event = self.stream(stream)?.record()?;
        Ok(EventHandle::from(event as Arc<dyn Any + Send + Sync>))
    }

    fn wait(&self, stream: &StreamHandle, event: &EventHandle, after: WaitKind) -> Result<()> {
        // The event may belong to another device of this driver.
        self.stream(stream)?.wait(event.get::<Event>()?, after)
    }

    fn is_done(&self, event: &EventHandle) -> Result<bool> {
        let event = self.event(event)?;
        if event.outcome().is_none() {
            event.stream.advance();
        }
        event.outcome().map_or(Ok(false), |outcome| outcome.clone().map(|()| true))
    }

    fn sync(&self, event: &EventHandle) -> Result<()> {
        let event = self.event(event)?;
        event.stream.sync(event)
    }
}
