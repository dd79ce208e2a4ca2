//! The device as a [`Driver`].

use std::{
    any::Any,
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, OnceLock, Weak},
};

use codegen_core::{Artifact, Caps, KernelAbi, Payload, ShaderModule};
use device_runtime::{
    After, BoundHandle, CopyInTask, CopyOutTask, CopyTask, Driver, DriverError, EventHandle, FillTask,
    KernelArgs, KernelHandle, LaunchTask, ModuleHandle, PoolHandle, PoolId, StreamHandle, StreamStrategy,
};
use wgpu::Limits;

use crate::{
    adapter::{self, AdapterChoice, AdapterInfo, OpenError},
    caps::{caps, largest_pool},
    command::Command,
    core::Core,
    event::Event,
    gpu::{Gpu, lock},
    kernel::{Bound, Kernel},
    slab::{Region, Slabs},
    stream::Stream,
    timing::{KernelTime, can_time},
};

/// What may be chosen about a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Which adapter.
    pub adapter: AdapterChoice,
    /// Bytes that pools may occupy together; no limit by default.
    pub memory_limit: Option<usize>,
    /// The most bytes of one binding, and so of a pool, where the adapter has more.
    pub binding_bytes: Option<u64>,
    /// The most buffers that a kernel may use, where the adapter has more; browsers offer eight or so.
    pub storage_buffers: Option<u32>,
    /// The most workgroups in one dimension, where the adapter has more.
    pub groups_per_dimension: Option<u32>,
}

impl Config {
    fn lower(&self, limits: &mut Limits) {
        let Config { binding_bytes, storage_buffers, groups_per_dimension, .. } = self;
        lower_to(&mut limits.max_storage_buffer_binding_size, *binding_bytes);
        lower_to(&mut limits.max_storage_buffers_per_shader_stage, *storage_buffers);
        lower_to(&mut limits.max_compute_workgroups_per_dimension, *groups_per_dimension);
    }
}

fn lower_to<N: Ord + Copy>(limit: &mut N, wanted: Option<N>) {
    *limit = wanted.map_or(*limit, |wanted| wanted.min(*limit));
}

/// A device of an adapter. One process may have several, of one adapter too; they share nothing.
pub struct WgpuDevice {
    adapter: AdapterInfo,
    caps: Caps,
    pub(crate) core: Arc<Core>,
    slabs: Arc<Slabs>,
    memory_limit: Option<usize>,
    strategy: OnceLock<StreamStrategy>,
    streams: Mutex<Vec<Weak<Stream>>>,
}

impl WgpuDevice {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: no adapter like that (with a list of those there are), one that is too small, or a platform that refuses.
    pub fn open(config: &Config) -> Result<WgpuDevice, OpenError> {
        WgpuDevice::open_with(config, |_| ())
    }

    /// Opens a device. `believe` may change the limits that are believed of it, so that tests make tasks that it refuses.
    pub(crate) fn open_with(
        config: &Config,
        believe: impl FnOnce(&mut Limits),
    ) -> Result<WgpuDevice, OpenError> {
        let opened = adapter::open(&config.adapter, |limits| config.lower(limits))?;
        let mut gpu = Gpu::new(&opened);
        believe(&mut gpu.limits);
        let gpu = Arc::new(gpu);
        let adapter = opened.info;
        let core = Core::new(Arc::clone(&gpu)).map_err(|objection| OpenError::Refused {
            adapter: Box::new(adapter.clone()),
            message: objection.driver_error("allocating tables", 0, 0).to_string(),
        })?;
        Ok(WgpuDevice {
            adapter,
            caps: caps(&gpu.limits, gpu.device.features()),
            slabs: Slabs::new(gpu, config.memory_limit),
            core: Arc::new(core),
            memory_limit: config.memory_limit,
            strategy: OnceLock::new(),
            streams: Mutex::default(),
        })
    }

    /// The adapter it is a device of.
    pub fn adapter(&self) -> &AdapterInfo {
        &self.adapter
    }

    /// Whether it computes on the processor, so that its speed says nothing about a GPU.
    pub fn is_software(&self) -> bool {
        self.adapter.is_software()
    }

    /// Bytes of the largest pool, for [`device_runtime::Device::with_pool_cap`]: what one binding reaches.
    pub fn pool_cap(&self) -> usize {
        largest_pool(&self.core.gpu.limits)
    }

    /// Gives the device back to the platform, as if it were lost: tasks that are not done fail, and all after them.
    pub fn destroy(&self) {
        self.core.gpu.lose("it was given back");
        self.core.gpu.device.destroy();
    }

    /// Turns timing of kernels on or off for what is submitted from now on. While it is on, launches run one by one.
    ///
    /// # Errors
    ///
    /// [`DriverError::Platform`] where the device has no clock.
    pub fn time_kernels(&self, is_on: bool) -> Result<(), DriverError> {
        if is_on && !can_time(&self.core.gpu) {
            let message = format!("{} has no timestamps", self.adapter);
            return Err(DriverError::Platform { what: "timing kernels", message });
        }
        self.core.timings.set(is_on);
        Ok(())
    }

    /// What each kernel took since the last call, by name, of launches that are done and whose events somebody has seen.
    pub fn take_kernel_times(&self) -> BTreeMap<String, KernelTime> {
        self.core.timings.take()
    }

    /// How many batches of tasks were submitted so far.
    pub fn submissions(&self) -> u64 {
        self.core.submissions()
    }

    /// The streams that somebody holds.
    fn streams(&self) -> Vec<Arc<Stream>> {
        lock(&self.streams).iter().filter_map(Weak::upgrade).collect()
    }

    /// A stream of this device.
    fn stream<'a>(&self, handle: &'a StreamHandle) -> Result<&'a Arc<Stream>, DriverError> {
        let stream: &Arc<Stream> = handle.get()?;
        self.own(&stream.core, "stream")?;
        Ok(stream)
    }

    /// An event of this device.
    fn event<'a>(&self, handle: &'a EventHandle) -> Result<&'a Arc<Event>, DriverError> {
        let event: &Arc<Event> = handle.get()?;
        self.own(&event.stream.core, "event")?;
        Ok(event)
    }

    fn own(&self, core: &Arc<Core>, what: &'static str) -> Result<(), DriverError> {
        if Arc::ptr_eq(core, &self.core) { Ok(()) } else { Err(DriverError::ForeignHandle { what }) }
    }
}

impl fmt::Debug for WgpuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WgpuDevice")
            .field("adapter", &self.adapter.to_string())
            .field("memory", &self.slabs)
            .field("pipelines", &self.core.pipelines)
            .finish()
    }
}

/// A loaded artifact.
struct Module {
    code: Arc<dyn ShaderModule>,
    kernels: Vec<KernelAbi>,
}

/// A kernel with its memory fixed, and the device it is bound on.
struct OwnBound {
    core: Arc<Core>,
    bound: Arc<Bound>,
}

#[allow(unsafe_code, reason = "implements `Driver`, which is unsafe to implement")]
// SAFETY: wgpu's interface is safe, whatever the order of tasks and whatever a kernel does: no memory of the process is reached
// but through it.
unsafe impl Driver for WgpuDevice {
    fn name(&self) -> &str {
        "wgpu"
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn static_properties(&self) -> Vec<(&'static str, String)> {
        let limit = self.memory_limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
        let limits = &self.core.gpu.limits;
        vec![
            ("adapter", self.adapter.name.clone()),
            ("adapter_kind", self.adapter.kind.to_string()),
            ("software", self.is_software().to_string()),
            ("interface", self.adapter.backend.clone()),
            ("driver", self.adapter.driver.clone()),
            ("has_clock", can_time(&self.core.gpu).to_string()),
            ("alignment_bytes", self.caps.alignment.to_string()),
            ("largest_pool_bytes", self.pool_cap().to_string()),
            ("buffers_per_kernel", limits.max_storage_buffers_per_shader_stage.to_string()),
            ("memory_limit_bytes", limit),
        ]
    }

    fn initialize(&self, strategy: StreamStrategy) {
        self.strategy.get_or_init(|| strategy);
    }

    fn is_initialized(&self) -> bool {
        self.strategy.get().is_some()
    }

    /// One under every strategy: the device has one queue.
    fn suggested_num_streams(&self) -> usize {
        1
    }

    fn used_memory(&self) -> usize {
        // What is done holds its memory until somebody looks.
        self.streams().iter().for_each(|stream| stream.advance());
        self.slabs.used()
    }

    fn debug_info(&self, stream: &StreamHandle) -> String {
        let info = |stream: &Arc<Stream>| format!("{stream}; {:?}; {:?}", self.slabs, self.core.pipelines);
        self.stream(stream).map_or_else(|error| error.to_string(), info)
    }

    fn alloc_pool(&self, pool: PoolId, bytes: usize) -> Result<PoolHandle, DriverError> {
        let memory = self.slabs.allocate(pool, bytes).or_else(|error| {
            if !matches!(error, DriverError::OutOfMemory { .. }) {
                return Err(error);
            }
            // Tasks that are not done may hold memory that was freed: there is room after them.
            self.streams().iter().for_each(|stream| stream.drain());
            self.slabs.allocate(pool, bytes)
        })?;
        Ok(PoolHandle::from(memory as Arc<dyn Any + Send + Sync>))
    }

    fn new_stream(&self, name: &str) -> Result<StreamHandle, DriverError> {
        self.core.gpu.alive()?;
        let stream = Stream::new(name, &self.core);
        let mut streams = lock(&self.streams);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(&stream));
        Ok(StreamHandle::new(stream))
    }

    fn drop_stream(&self, stream: StreamHandle) {
        if let Ok(stream) = self.stream(&stream) {
            stream.drain();
        }
    }

    fn reset_stream(&self, stream: &StreamHandle) -> Result<(), DriverError> {
        let stream = self.stream(stream)?;
        stream.drain();
        self.core.gpu.alive()?;
        stream.forgive();
        Ok(())
    }

    fn is_idle(&self, stream: &StreamHandle) -> bool {
        self.stream(stream).is_ok_and(|stream| stream.is_idle())
    }

    fn load(&self, artifact: &Artifact) -> Result<ModuleHandle, DriverError> {
        let payload = match artifact.payload() {
            Payload::Shader(code) => {
                let (code, kernels) = (Arc::clone(code), artifact.kernels().to_vec());
                return Ok(ModuleHandle::new(Module { code, kernels }));
            }
            Payload::Host(_) => "host",
            _ => "other",
        };
        Err(DriverError::UnsupportedPayload { driver: self.name().to_owned(), payload: payload.to_owned() })
    }

    fn kernel(&self, module: &ModuleHandle, index: usize) -> Result<KernelHandle, DriverError> {
        let Module { code, kernels } = module.get()?;
        let abi = kernels.get(index).ok_or(DriverError::NoSuchEntry { index, kernels: kernels.len() })?;
        Ok(KernelHandle::new(Kernel { code: Arc::clone(code), index, abi: abi.clone() }))
    }

    fn bind(&self, args: &KernelArgs<'_>) -> Result<BoundHandle, DriverError> {
        let kernel: &Kernel = args.kernel().get()?;
        let regions = args.ranges().iter().map(Region::new).collect::<Result<_, _>>()?;
        let Core { gpu, pipelines, tables, .. } = &*self.core;
        gpu.alive()?;
        let bound = Arc::new(Bound::new(gpu, pipelines, tables, kernel, regions)?);
        Ok(BoundHandle::new(OwnBound { core: Arc::clone(&self.core), bound }))
    }

    fn launch(&self, stream: &StreamHandle, task: LaunchTask<'_>) -> Result<(), DriverError> {
        let OwnBound { core, bound } = task.kernel().get()?;
        self.own(core, "bound kernel")?;
        self.stream(stream)?.push(Command::launch(Arc::clone(bound), task.bindings())?)
    }

    fn memset_zero(&self, stream: &StreamHandle, task: FillTask) -> Result<(), DriverError> {
        self.stream(stream)?.push(Command::Zero(Region::new(task.dst())?))
    }

    fn copy_in(&self, stream: &StreamHandle, task: CopyInTask) -> Result<(), DriverError> {
        self.stream(stream)?.push(Command::CopyIn(Region::new(task.dst())?, task))
    }

    fn copy_out(&self, stream: &StreamHandle, task: CopyOutTask) -> Result<(), DriverError> {
        self.stream(stream)?.push(Command::CopyOut(Region::new(task.src())?, task.dst().clone()))
    }

    fn copy(&self, stream: &StreamHandle, task: CopyTask) -> Result<(), DriverError> {
        self.stream(stream)?.push(Command::Copy(Region::new(task.dst())?, Region::new(task.src())?))
    }

    fn record(&self, stream: &StreamHandle) -> Result<EventHandle, DriverError> {
        Ok(EventHandle::new(self.stream(stream)?.record()?))
    }

    fn wait(&self, stream: &StreamHandle, event: &EventHandle, after: After) -> Result<(), DriverError> {
        let (stream, event) = (self.stream(stream)?, self.event(event)?);
        self.core.gpu.alive()?;
        if Arc::ptr_eq(stream, &event.stream) {
            return Ok(());
        }
        event.stream.settle(event);
        if let (After::Data, Some(Err(error))) = (after, event.outcome()) {
            stream.inherit(error);
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
