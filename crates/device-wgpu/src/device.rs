//! The device as a [`Driver`].

use std::{any::Any, fmt, sync::Arc, time::Instant};

use codegen_core::{Artifact, Payload};
use device_runtime::{
    BoundHandle, CallTime, CopyInTask, CopyOutTask, CopyTask, Driver, DriverDescription, DriverError,
    EventHandle, FillTask, KernelArgs, KernelHandle, KernelTimer, LaunchTask, PolledStream, PoolHandle,
    PoolId, StreamHandle, StreamRegistry, StreamStrategy, WaitKind, check_owner,
};
use wgpu::Limits;

use crate::{
    adapter::{self, AdapterChoice, AdapterInfo, WgpuOpenError},
    caps::{caps, largest_pool},
    command::Command,
    event::Event,
    gpu::Gpu,
    kernel::{BoundPipeline, LoadedKernel},
    shared_state::SharedState,
    slab::{MemoryRegion, SlabAllocator},
    stream::Stream,
    timing::can_time,
};

/// Options of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WgpuConfig {
    /// The choice of the adapter; by default any.
    pub adapter: AdapterChoice,
    /// Limit on the total size of the device's pools, in bytes; `None` by default.
    pub memory_limit: Option<usize>,
    /// Lowers the adapter's limit on the size in bytes of a binding, and so of a pool. A value above that
    /// limit has no effect.
    pub binding_bytes: Option<u64>,
    /// Lowers the adapter's limit on the number of buffers per kernel. A value above that limit has no
    /// effect. Browsers offer about eight buffers.
    pub storage_buffers: Option<u32>,
    /// Lowers the adapter's limit on the number of workgroups in one dimension. A value above that limit has
    /// no effect.
    pub groups_per_dimension: Option<u32>,
}

impl WgpuConfig {
    fn lower(&self, limits: &mut Limits) {
        let WgpuConfig { binding_bytes, storage_buffers, groups_per_dimension, .. } = self;
        lower_to(&mut limits.max_storage_buffer_binding_size, *binding_bytes);
        lower_to(&mut limits.max_storage_buffers_per_shader_stage, *storage_buffers);
        lower_to(&mut limits.max_compute_workgroups_per_dimension, *groups_per_dimension);
    }
}

fn lower_to<N: Ord + Copy>(limit: &mut N, wanted: Option<N>) {
    *limit = wanted.map_or(*limit, |wanted| wanted.min(*limit));
}

/// A device of an adapter. One process may have several, even of one adapter; they share nothing.
pub struct WgpuDevice {
    adapter: AdapterInfo,
    description: DriverDescription,
    pub(crate) shared: Arc<SharedState>,
    slabs: Arc<SlabAllocator>,
    streams: StreamRegistry<Stream>,
}

impl WgpuDevice {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// [`WgpuOpenError`]: no adapter matches (the error lists the machine's adapters), the adapter's limits are
    /// too low, or the platform fails to open it.
    pub fn open(config: &WgpuConfig) -> Result<WgpuDevice, WgpuOpenError> {
        WgpuDevice::open_with(config, |_| ())
    }

    /// Opens a device. `override_limits` may change the limits that this crate assumes, so that tests can
    /// make tasks that the device rejects.
    pub(crate) fn open_with(
        config: &WgpuConfig,
        override_limits: impl FnOnce(&mut Limits),
    ) -> Result<WgpuDevice, WgpuOpenError> {
        let opened = adapter::open(&config.adapter, |limits| config.lower(limits))?;
        let mut gpu = Gpu::new(&opened);
        override_limits(&mut gpu.limits);
        let gpu = Arc::new(gpu);
        let adapter = opened.info;
        let shared = SharedState::new(Arc::clone(&gpu)).map_err(|error| WgpuOpenError::Rejected {
            adapter: Box::new(adapter.clone()),
            message: error.driver_error("allocating tables", 0, 0).to_string(),
        })?;
        Ok(WgpuDevice {
            description: describe(&adapter, &gpu, config.memory_limit),
            adapter,
            slabs: SlabAllocator::new(gpu, config.memory_limit),
            shared: Arc::new(shared),
            streams: StreamRegistry::default(),
        })
    }

    /// The adapter on which the device was opened.
    pub fn adapter(&self) -> &AdapterInfo {
        &self.adapter
    }

    /// Whether the device computes on the CPU, so that its speed says nothing about a GPU.
    pub fn is_software(&self) -> bool {
        self.adapter.is_software()
    }

    /// Size of the largest pool in bytes, for [`device_runtime::Device::with_pool_cap`]: the size of the
    /// largest binding.
    pub fn pool_cap(&self) -> usize {
        largest_pool(&self.shared.gpu.limits)
    }

    /// Destroys the device, as if it were lost: unfinished and later tasks fail.
    pub fn destroy(&self) {
        self.shared.gpu.lose("it was destroyed");
        self.shared.gpu.device.destroy();
    }

    /// The number of batches submitted so far.
    pub fn submissions(&self) -> u64 {
        self.shared.submissions()
    }

    fn stream<'a>(&self, handle: &'a StreamHandle) -> Result<&'a Arc<Stream>, DriverError> {
        self.streams.get(&self.shared, handle)
    }

    fn event<'a>(&self, handle: &'a EventHandle) -> Result<&'a Arc<Event>, DriverError> {
        let event: &Arc<Event> = handle.get()?;
        self.check_own(&event.stream.shared, "event")?;
        Ok(event)
    }

    fn check_own(&self, shared: &Arc<SharedState>, what: &'static str) -> Result<(), DriverError> {
        check_owner(shared, &self.shared, what)
    }
}

fn describe(adapter: &AdapterInfo, gpu: &Gpu, memory_limit: Option<usize>) -> DriverDescription {
    let caps = caps(&gpu.limits, gpu.device.features());
    let properties = vec![
        ("adapter", adapter.name.clone()),
        ("adapter_kind", adapter.kind.to_string()),
        ("software", adapter.is_software().to_string()),
        ("interface", adapter.backend.clone()),
        ("driver", adapter.driver.clone()),
        ("has_clock", can_time(gpu).to_string()),
        ("alignment_bytes", caps.alignment.to_string()),
        ("largest_pool_bytes", largest_pool(&gpu.limits).to_string()),
        ("buffers_per_kernel", gpu.limits.max_storage_buffers_per_shader_stage.to_string()),
        ("memory_limit_bytes", memory_limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string())),
    ];
    DriverDescription { name: "wgpu".to_owned(), caps, properties }
}

impl fmt::Debug for WgpuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WgpuDevice")
            .field("adapter", &self.adapter.to_string())
            .field("memory", &self.slabs)
            .field("pipelines", &self.shared.pipelines)
            .finish()
    }
}

/// A bound kernel, and the device on which it is bound.
struct DeviceBinding {
    shared: Arc<SharedState>,
    bound: Arc<BoundPipeline>,
}

#[allow(unsafe_code, reason = "implements `Driver`, which is unsafe to implement")]
// SAFETY: wgpu's interface is safe for any order of tasks and any kernel: memory of the process is reached
// only through it.
unsafe impl Driver for WgpuDevice {
    fn description(&self) -> &DriverDescription {
        &self.description
    }

    /// Returns 1 for every strategy, since the device has one queue.
    fn suggested_num_streams(&self, _strategy: StreamStrategy) -> usize {
        1
    }

    fn used_memory(&self) -> usize {
        // Completed tasks keep their memory until their batch is retired.
        self.streams.advance_all();
        self.slabs.used()
    }

    fn debug_info(&self, stream: &StreamHandle) -> String {
        let info = |stream: &Arc<Stream>| format!("{stream}; {:?}; {:?}", self.slabs, self.shared.pipelines);
        self.stream(stream).map_or_else(|error| error.to_string(), info)
    }

    fn alloc_pool(&self, pool: PoolId, bytes: usize) -> Result<PoolHandle, DriverError> {
        let memory = self.slabs.allocate(pool, bytes).or_else(|error| {
            if !matches!(error, DriverError::OutOfMemory { .. }) {
                return Err(error);
            }
            // Unfinished tasks may keep freed memory alive: wait for them and try again.
            self.streams.drain_all();
            self.slabs.allocate(pool, bytes)
        })?;
        Ok(PoolHandle::from(memory as Arc<dyn Any + Send + Sync>))
    }

    fn new_stream(&self, name: &str) -> Result<StreamHandle, DriverError> {
        self.shared.gpu.check_alive()?;
        let stream = Stream::new(name, &self.shared);
        self.streams.insert(&stream);
        Ok(StreamHandle::new(stream))
    }

    fn drop_stream(&self, stream: StreamHandle) {
        self.streams.drop_stream(&self.shared, &stream);
    }

    fn reset_stream(&self, stream: &StreamHandle) -> Result<(), DriverError> {
        self.streams.reset_stream(&self.shared, stream)
    }

    fn is_idle(&self, stream: &StreamHandle) -> bool {
        self.streams.is_idle(&self.shared, stream)
    }

    fn load(&self, artifact: &Artifact) -> Result<Vec<KernelHandle>, DriverError> {
        let Payload::Shader(code) = artifact.payload() else {
            return Err(DriverError::unsupported_payload(self.name(), artifact));
        };
        let kernels = artifact.kernels().iter().enumerate();
        let kernels = kernels.map(|(index, abi)| {
            KernelHandle::new(LoadedKernel { code: Arc::clone(code), index, abi: abi.clone() })
        });
        Ok(kernels.collect())
    }

    fn bind(&self, args: &KernelArgs<'_>) -> Result<BoundHandle, DriverError> {
        let kernel: &LoadedKernel = args.kernel().get()?;
        let regions = args.ranges().iter().map(MemoryRegion::new).collect::<Result<_, _>>()?;
        let SharedState { gpu, pipelines, tables, .. } = &*self.shared;
        gpu.check_alive()?;
        let bound = Arc::new(BoundPipeline::new(gpu, pipelines, tables, &self.slabs, kernel, regions)?);
        Ok(BoundHandle::new(DeviceBinding { shared: Arc::clone(&self.shared), bound }))
    }

    fn launch(&self, stream: &StreamHandle, task: LaunchTask<'_>) -> Result<(), DriverError> {
        let DeviceBinding { shared, bound } = task.kernel().get()?;
        self.check_own(shared, "bound kernel")?;
        self.stream(stream)?.push(Command::launch(Arc::clone(bound), task.bindings(), None)?)
    }

    fn launch_timed(
        &self,
        stream: &StreamHandle,
        task: LaunchTask<'_>,
        timer: KernelTimer,
    ) -> Result<bool, DriverError> {
        let DeviceBinding { shared, bound } = task.kernel().get()?;
        self.check_own(shared, "bound kernel")?;
        if !can_time(&self.shared.gpu) {
            return Ok(false);
        }
        let command = Command::launch(Arc::clone(bound), task.bindings(), Some(timer.clone()))?;
        if command.is_empty() {
            let now = Instant::now();
            timer.record(CallTime { begin: now, end: now, size: None });
        }
        self.stream(stream)?.push(command)?;
        Ok(true)
    }

    fn memset_zero(&self, stream: &StreamHandle, task: FillTask) -> Result<(), DriverError> {
        self.stream(stream)?.push(Command::Zero(MemoryRegion::new(task.dst())?))
    }

    fn copy_in(&self, stream: &StreamHandle, task: CopyInTask) -> Result<(), DriverError> {
        self.stream(stream)?.push(Command::CopyIn(MemoryRegion::new(task.dst())?, task))
    }

    fn copy_out(&self, stream: &StreamHandle, task: CopyOutTask) -> Result<(), DriverError> {
        self.stream(stream)?.push(Command::CopyOut(MemoryRegion::new(task.src())?, task.dst().clone()))
    }

    fn copy(&self, stream: &StreamHandle, task: CopyTask) -> Result<(), DriverError> {
        self.stream(stream)?
            .push(Command::Copy(MemoryRegion::new(task.dst())?, MemoryRegion::new(task.src())?))
    }

    fn record(&self, stream: &StreamHandle) -> Result<EventHandle, DriverError> {
        Ok(EventHandle::new(self.stream(stream)?.record()?))
    }

    fn wait(&self, stream: &StreamHandle, event: &EventHandle, after: WaitKind) -> Result<(), DriverError> {
        let (stream, event) = (self.stream(stream)?, self.event(event)?);
        self.shared.gpu.check_alive()?;
        if Arc::ptr_eq(stream, &event.stream) {
            return Ok(());
        }
        event.stream.submit_up_to(event);
        if let (WaitKind::Data, Some(Err(error))) = (after, event.outcome()) {
            stream.propagate_failure(error);
        }
        Ok(())
    }

    fn is_done(&self, event: &EventHandle) -> Result<bool, DriverError> {
        let event = self.event(event)?;
        if event.outcome().is_none() {
            event.stream.advance();
        }
        event.outcome().map_or(Ok(false), |outcome| outcome.clone().map(|()| true))
    }

    fn sync(&self, event: &EventHandle) -> Result<(), DriverError> {
        let event = self.event(event)?;
        event.stream.sync(event)
    }
}
