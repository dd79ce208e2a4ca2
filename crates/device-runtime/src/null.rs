//! The driver that runs nothing: to test what stands on a driver, and to copy when you write one.
//!
//! It makes handles, counts memory and checks what it is told; values never exist, so what is copied out is zeros.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock},
};

use codegen_core::{Artifact, Caps, DTypeSet, KernelAbi, Transcendental};
use tnode::{DType, HostArray};

use crate::{
    check,
    driver::{
        After, BoundHandle, Driver, EventHandle, HostLanding, KernelHandle, Location, ModuleHandle, PoolId,
        SequenceHandle, StreamHandle, StreamStrategy,
    },
    error::DriverError,
    pool::lock,
};

/// A device without memory or processors that accepts everything.
#[derive(Debug)]
pub struct NullDevice {
    caps: Caps,
    strategy: OnceLock<StreamStrategy>,
    /// Sizes in bytes.
    pools: Mutex<BTreeMap<PoolId, usize>>,
}

impl NullDevice {
    /// A device with no pools, whose capabilities are all element types and no vectors.
    pub fn new() -> NullDevice {
        let all: DTypeSet = DType::ALL.into_iter().collect();
        let caps = Caps {
            target: "null".to_owned(),
            storage: all,
            arithmetic: all,
            transcendental: Transcendental::Expanded,
            vector_bytes: 0,
            vector_registers: 0,
            contractions: DTypeSet::EMPTY,
            fma: true,
            l1_bytes: 32 << 10,
            l2_bytes: 1 << 20,
            threads: 1,
            alignment: 64,
            index: DType::I64,
            workgroups: None,
        };
        NullDevice { caps, strategy: OnceLock::new(), pools: Mutex::default() }
    }

    fn check_range(&self, at: Location, bytes: usize) -> Result<(), DriverError> {
        let size = *lock(&self.pools).get(&at.pool).ok_or(DriverError::NoSuchPool { pool: at.pool })?;
        if at.offset.checked_add(bytes).is_some_and(|end| end <= size) {
            return Ok(());
        }
        Err(DriverError::OutOfBounds { what: at.pool.to_string(), offset: at.offset, bytes, size })
    }
}

impl Default for NullDevice {
    fn default() -> Self {
        NullDevice::new()
    }
}

/// A stream: its name.
struct Stream(String);
/// An event, done from the beginning.
struct Event;
/// A module: how its kernels are called.
struct Module(Vec<KernelAbi>);
/// A kernel, bound or not: how it is called.
struct Kernel(KernelAbi);
/// Kernels that are launched together: the name of the first, and how many bindings all of them take.
struct Sequence(String, usize);

#[allow(unsafe_code, reason = "implements the unsafe methods of `Driver`; does nothing unsafe in them")]
impl Driver for NullDevice {
    fn name(&self) -> &str {
        "null"
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn static_properties(&self) -> Vec<(&'static str, String)> {
        vec![("runs", "nothing".to_owned())]
    }

    fn initialize(&self, strategy: StreamStrategy) {
        self.strategy.get_or_init(|| strategy);
    }

    fn is_initialized(&self) -> bool {
        self.strategy.get().is_some()
    }

    fn suggested_num_streams(&self) -> usize {
        1
    }

    fn used_memory(&self) -> usize {
        lock(&self.pools).values().sum()
    }

    fn debug_info(&self, stream: &StreamHandle) -> String {
        stream.get::<Stream>().map_or_else(|error| error.to_string(), |stream| format!("{}: idle", stream.0))
    }

    fn alloc_pool(&self, pool: PoolId, bytes: usize) -> Result<(), DriverError> {
        lock(&self.pools).insert(pool, bytes);
        Ok(())
    }

    fn free_pool(&self, pool: PoolId) {
        lock(&self.pools).remove(&pool);
    }

    fn new_stream(&self, name: &str) -> Result<StreamHandle, DriverError> {
        Ok(StreamHandle::new(Stream(name.to_owned())))
    }

    fn drop_stream(&self, _stream: StreamHandle) {}

    fn reset_stream(&self, stream: &StreamHandle) -> Result<(), DriverError> {
        stream.get::<Stream>().map(drop)
    }

    fn is_idle(&self, _stream: &StreamHandle) -> bool {
        true
    }

    fn load(&self, artifact: &Artifact) -> Result<ModuleHandle, DriverError> {
        Ok(ModuleHandle::new(Module(artifact.kernels.clone())))
    }

    fn kernel(&self, module: &ModuleHandle, index: usize) -> Result<KernelHandle, DriverError> {
        let kernels = &module.get::<Module>()?.0;
        let abi = kernels.get(index).ok_or(DriverError::NoSuchEntry { index, kernels: kernels.len() })?;
        Ok(KernelHandle::new(Kernel(abi.clone())))
    }

    fn bind(&self, kernel: &KernelHandle, args: &[Location]) -> Result<BoundHandle, DriverError> {
        let abi = &kernel.get::<Kernel>()?.0;
        check::count(&abi.name, "memory parameters", check::memory_params(abi).count(), args.len())?;
        for (&at, (_, bytes)) in args.iter().zip(check::memory_params(abi)) {
            self.check_range(at, bytes)?;
        }
        Ok(BoundHandle::new(Kernel(abi.clone())))
    }

    unsafe fn launch(
        &self,
        stream: &StreamHandle,
        kernel: &BoundHandle,
        bindings: &[i64],
    ) -> Result<(), DriverError> {
        stream.get::<Stream>()?;
        let Kernel(abi) = kernel.get()?;
        check::count(&abi.name, "bindings", check::static_indices(abi), bindings.len())
    }

    fn sequence(&self, kernels: &[BoundHandle]) -> Result<Option<SequenceHandle>, DriverError> {
        let kernels = kernels.iter().map(BoundHandle::get::<Kernel>).collect::<Result<Vec<_>, _>>()?;
        let bindings = kernels.iter().map(|kernel| check::static_indices(&kernel.0)).sum();
        let first = kernels.first().map(|first| first.0.name.clone());
        Ok(first.map(|first| SequenceHandle::new(Sequence(first, bindings))))
    }

    unsafe fn launch_sequence(
        &self,
        stream: &StreamHandle,
        sequence: &SequenceHandle,
        bindings: &[i64],
    ) -> Result<bool, DriverError> {
        stream.get::<Stream>()?;
        let Sequence(first, expected) = sequence.get()?;
        check::count(first, "bindings", *expected, bindings.len()).map(|()| true)
    }

    unsafe fn memset_zero(
        &self,
        stream: &StreamHandle,
        dst: Location,
        bytes: usize,
    ) -> Result<(), DriverError> {
        stream.get::<Stream>()?;
        self.check_range(dst, bytes)
    }

    unsafe fn copy_in(
        &self,
        stream: &StreamHandle,
        dst: Location,
        src: &Arc<HostArray>,
        src_offset: usize,
        bytes: usize,
    ) -> Result<(), DriverError> {
        stream.get::<Stream>()?;
        check::array_range(src, src_offset, bytes)?;
        self.check_range(dst, bytes)
    }

    unsafe fn copy_out(
        &self,
        stream: &StreamHandle,
        src: Location,
        dst: &HostLanding,
        dst_offset: usize,
        bytes: usize,
    ) -> Result<(), DriverError> {
        stream.get::<Stream>()?;
        check::array_range(&lock(dst), dst_offset, bytes)?;
        self.check_range(src, bytes)
    }

    unsafe fn copy(
        &self,
        stream: &StreamHandle,
        dst: Location,
        src: Location,
        bytes: usize,
    ) -> Result<(), DriverError> {
        stream.get::<Stream>()?;
        self.check_range(src, bytes)?;
        self.check_range(dst, bytes)
    }

    fn record(&self, stream: &StreamHandle) -> Result<EventHandle, DriverError> {
        stream.get::<Stream>()?;
        Ok(EventHandle::new(Event))
    }

    fn wait(&self, stream: &StreamHandle, event: &EventHandle, _after: After) -> Result<(), DriverError> {
        stream.get::<Stream>()?;
        event.get::<Event>().map(drop)
    }

    fn is_done(&self, event: &EventHandle) -> Result<bool, DriverError> {
        event.get::<Event>().map(|_| true)
    }

    fn sync(&self, event: &EventHandle) -> Result<(), DriverError> {
        event.get::<Event>().map(drop)
    }
}
