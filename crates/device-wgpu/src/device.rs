//! The device as a [`Driver`].

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, OnceLock},
};

use codegen_core::{Artifact, Caps, KernelAbi, Payload, ShaderModule};
use device_runtime::{
    After, BoundHandle, Driver, DriverError, EventHandle, HostLanding, KernelHandle, Location, ModuleHandle,
    PoolId, StreamHandle, StreamId, StreamStrategy,
};
use tnode::HostArray;
use wgpu::Limits;

use crate::{
    adapter::{self, AdapterChoice, AdapterInfo, OpenError},
    caps::{caps, largest_pool},
    command::Command,
    core::Core,
    event::Event,
    gpu::{Gpu, lock},
    kernel::{Bound, Kernel, memory_params},
    slab::{Memory, Region, Slabs},
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
    core: Arc<Core>,
    slabs: Arc<Slabs>,
    memory_limit: Option<usize>,
    strategy: OnceLock<StreamStrategy>,
    pools: Mutex<BTreeMap<PoolId, Arc<Memory>>>,
}

impl WgpuDevice {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: no adapter like that (with a list of those there are), one that is too small, or a platform that refuses.
    pub fn open(config: &Config) -> Result<WgpuDevice, OpenError> {
        let opened = adapter::open(&config.adapter, |limits| config.lower(limits))?;
        let gpu = Arc::new(Gpu::new(&opened));
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
            pools: Mutex::default(),
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

    fn region(&self, at: Location, bytes: usize) -> Result<Region, DriverError> {
        let memory = lock(&self.pools).get(&at.pool).cloned();
        let memory = memory.ok_or(DriverError::NoSuchPool { pool: at.pool })?;
        let size = memory.bytes;
        Region::new(memory, at.offset, bytes).ok_or_else(|| DriverError::OutOfBounds {
            what: at.pool.to_string(),
            offset: at.offset,
            bytes,
            size,
        })
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

#[allow(
    unsafe_code,
    reason = "implements the unsafe methods of `Driver`, which ask for an order of tasks; whatever their order, the platform keeps memory safe"
)]
impl Driver for WgpuDevice {
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
            ("is_software", self.is_software().to_string()),
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
        self.slabs.used()
    }

    fn debug_info(&self, stream: &StreamHandle) -> String {
        let info = |stream: &Arc<Stream>| format!("{stream}; {:?}; {:?}", self.slabs, self.core.pipelines);
        self.stream(stream).map_or_else(|error| error.to_string(), info)
    }

    fn alloc_pool(&self, pool: PoolId, bytes: usize) -> Result<(), DriverError> {
        let memory = self.slabs.allocate(pool, bytes)?;
        lock(&self.pools).insert(pool, memory);
        Ok(())
    }

    fn free_pool(&self, pool: PoolId) {
        let freed = lock(&self.pools).remove(&pool);
        // Freed outside of the lock, since giving memory back may take a while.
        drop(freed);
    }

    fn new_stream(&self, stream: StreamId) -> Result<StreamHandle, DriverError> {
        self.core.gpu.alive()?;
        Ok(StreamHandle::new(Stream::new(stream, &self.core)))
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
        let payload = match &artifact.payload {
            Payload::Shader(code) => {
                let (code, kernels) = (Arc::clone(code), artifact.kernels.clone());
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

    fn bind(&self, kernel: &KernelHandle, args: &[Location]) -> Result<BoundHandle, DriverError> {
        let kernel: &Kernel = kernel.get()?;
        let sizes: Vec<usize> = memory_params(&kernel.abi).map(|(_, bytes)| bytes).collect();
        if sizes.len() != args.len() {
            let (name, expected, found) = (kernel.abi.name.clone(), sizes.len(), args.len());
            return Err(DriverError::Arity { kernel: name, what: "memory parameters", expected, found });
        }
        let regions = args.iter().zip(sizes).map(|(&at, bytes)| self.region(at, bytes));
        let regions = regions.collect::<Result<_, _>>()?;
        let Core { gpu, pipelines, tables, .. } = &*self.core;
        gpu.alive()?;
        let bound = Arc::new(Bound::new(gpu, pipelines, tables, kernel, regions)?);
        Ok(BoundHandle::new(OwnBound { core: Arc::clone(&self.core), bound }))
    }

    unsafe fn launch(
        &self,
        stream: &StreamHandle,
        kernel: &BoundHandle,
        bindings: &[i64],
    ) -> Result<(), DriverError> {
        let OwnBound { core, bound } = kernel.get()?;
        self.own(core, "bound kernel")?;
        self.stream(stream)?.push(Command::launch(Arc::clone(bound), bindings)?)
    }

    unsafe fn memset_zero(
        &self,
        stream: &StreamHandle,
        dst: Location,
        bytes: usize,
    ) -> Result<(), DriverError> {
        let region = self.region(dst, bytes)?;
        self.stream(stream)?.push(Command::Zero(region))
    }

    unsafe fn copy_in(
        &self,
        stream: &StreamHandle,
        dst: Location,
        src: &Arc<HostArray>,
        src_offset: usize,
        bytes: usize,
    ) -> Result<(), DriverError> {
        let region = self.region(dst, bytes)?;
        self.stream(stream)?.push(Command::copy_in(region, Arc::clone(src), src_offset)?)
    }

    unsafe fn copy_out(
        &self,
        stream: &StreamHandle,
        src: Location,
        dst: &HostLanding,
        dst_offset: usize,
        bytes: usize,
    ) -> Result<(), DriverError> {
        let region = self.region(src, bytes)?;
        self.stream(stream)?.push(Command::copy_out(region, Arc::clone(dst), dst_offset)?)
    }

    unsafe fn copy(
        &self,
        stream: &StreamHandle,
        dst: Location,
        src: Location,
        bytes: usize,
    ) -> Result<(), DriverError> {
        let (dst, src) = (self.region(dst, bytes)?, self.region(src, bytes)?);
        self.stream(stream)?.push(Command::copy(dst, src)?)
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

/// Tasks that fail after they were handed over. No caller can make one, so these tests reach inside.
#[cfg(test)]
#[allow(unsafe_code, reason = "the tasks of these tests are ordered by streams and waits")]
mod tests {
    use codegen_core::{Access, CodegenError, Cost, Launch, Param, Shader};

    use super::*;

    /// Adds one to a word.
    #[derive(Debug)]
    struct Increment;

    impl ShaderModule for Increment {
        fn shader(&self, _: usize, _: &[u32]) -> Result<Shader, CodegenError> {
            let wgsl = "
                @group(0) @binding(0) var<uniform> table: array<vec4<u32>, 1>;
                @group(0) @binding(1) var<storage, read_write> slab: array<u32>;
                @compute @workgroup_size(1) fn main() { slab[table[0].x] += 1u; }";
            Ok(Shader { wgsl: wgsl.to_owned(), groups: 1, table_words: 1 })
        }
    }

    fn open() -> Option<WgpuDevice> {
        match WgpuDevice::open(&Config::default()) {
            Ok(device) => Some(device),
            Err(error) => {
                assert!(std::env::var("REQUIRE_GPU_TOOLS").as_deref() != Ok("1"), "{error}");
                eprintln!("skipped: {error}");
                None
            }
        }
    }

    /// The kernel on the first word of a pool, with a grid that no device runs if it is `bad`.
    fn bound(device: &WgpuDevice, name: &str, pool: u32, bad: bool) -> BoundHandle {
        let params = vec![Param::Node { access: Access::ReadWrite, bytes: 4 }];
        let launch = Launch { extent: 1, grain: 1, threads: 1 };
        let (scratch_bytes, log, cost) = (0, [].into(), Cost::default());
        let abi = KernelAbi { name: name.to_owned(), params, launch, scratch_bytes, log, cost };
        let kernel = Kernel { code: Arc::new(Increment), index: 0, abi };
        let region = device.region(Location { pool: PoolId(pool), offset: 0 }, 4).unwrap();
        let Core { gpu, pipelines, tables, .. } = &*device.core;
        let mut bound = Bound::new(gpu, pipelines, tables, &kernel, vec![region]).unwrap();
        if bad {
            bound.grid = Some([u32::MAX, 1, 1]);
        }
        BoundHandle::new(OwnBound { core: Arc::clone(&device.core), bound: Arc::new(bound) })
    }

    fn read(device: &WgpuDevice, stream: &StreamHandle, pool: u32) -> Result<u32, DriverError> {
        let landing = Arc::new(Mutex::new(HostArray::zeros(tnode::DType::U32, [1]).unwrap()));
        // SAFETY: see the module.
        unsafe { device.copy_out(stream, Location { pool: PoolId(pool), offset: 0 }, &landing, 0, 4)? };
        device.sync(&device.record(stream)?)?;
        let landed = lock(&landing).as_slice::<u32>().unwrap()[0];
        Ok(landed)
    }

    #[test]
    fn a_failed_task_fails_what_comes_after_it_on_its_stream() {
        let Some(device) = open() else { return };
        (1..=2).for_each(|pool| device.alloc_pool(PoolId(pool), 4).unwrap());
        let streams: Vec<_> = (0..4).map(|id| device.new_stream(StreamId(id)).unwrap()).collect();
        let (good, bad) = (bound(&device, "good", 1, false), bound(&device, "bad", 2, true));
        let launch = |stream: usize, bound| {
            // SAFETY: see the module.
            unsafe { device.launch(&streams[stream], bound, &[]) }
        };
        // One batch: no event is recorded in between, and the stream is not looked at.
        launch(0, &good).unwrap();
        launch(0, &bad).unwrap();
        launch(0, &good).unwrap();
        let event = device.record(&streams[0]).unwrap();
        let Err(DriverError::Failed(failure)) = device.sync(&event) else { panic!("the task did not fail") };
        assert_eq!((failure.stream(), failure.task()), (StreamId(0), "bad"));
        assert!(failure.message().contains("dispatch"), "{failure}");

        let failed = DriverError::Failed(failure);
        assert_eq!(launch(0, &good), Err(failed.clone()));
        assert_eq!(device.is_done(&device.record(&streams[0]).unwrap()), Err(failed.clone()));
        device.wait(&streams[1], &event, After::Data).unwrap();
        assert_eq!(launch(1, &good), Err(failed.clone()), "what builds on it fails with it");
        device.wait(&streams[2], &event, After::Order).unwrap();
        assert_eq!(
            read(&device, &streams[2], 1),
            Ok(1),
            "what was in front of it was done, what came after it was not"
        );

        device.reset_stream(&streams[0]).unwrap();
        device.reset_stream(&streams[1]).unwrap();
        launch(0, &good).unwrap();
        assert_eq!(read(&device, &streams[0], 1), Ok(2));
        device.wait(&streams[1], &device.record(&streams[0]).unwrap(), After::Data).unwrap();
        assert_eq!(read(&device, &streams[1], 1), Ok(2));
    }

    #[test]
    fn events_in_front_of_a_failure_are_done() {
        let Some(device) = open() else { return };
        (1..=2).for_each(|pool| device.alloc_pool(PoolId(pool), 4).unwrap());
        let stream = device.new_stream(StreamId(0)).unwrap();
        let (good, bad) = (bound(&device, "good", 1, false), bound(&device, "bad", 2, true));
        let mut events = Vec::new();
        for bound in [&good, &good, &good, &bad, &good] {
            // SAFETY: see the module.
            let launched = unsafe { device.launch(&stream, bound, &[]) };
            events.extend(launched.and_then(|()| device.record(&stream)));
        }
        let outcomes: Vec<bool> = events.iter().map(|event| device.sync(event).is_ok()).collect();
        assert_eq!(outcomes[..4], [true, true, true, false]);
        assert!(outcomes[4..].iter().all(|is_ok| !is_ok));
        device.drop_stream(stream);
        let fresh = device.new_stream(StreamId(1)).unwrap();
        assert_eq!(read(&device, &fresh, 1), Ok(3));
    }
}
