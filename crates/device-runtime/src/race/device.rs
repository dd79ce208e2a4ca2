//! The driver whose tasks do nothing but access memory.

#![allow(unsafe_code, reason = "implements the unsafe methods of `Driver`; does nothing unsafe in them")]

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, Mutex},
};

use codegen_core::{Access, Artifact, Caps, KernelAbi};
use tnode::HostArray;

use super::world::{Mark, MemoryId, Touch, World};
use crate::{
    check,
    driver::{
        After, BoundHandle, Driver, EventHandle, HostLanding, KernelHandle, Location, ModuleHandle,
        PoolHandle, PoolId, SequenceHandle, StreamHandle, StreamStrategy,
    },
    error::DriverError,
    null::NullDevice,
    pool::lock,
};

/// What devices of a world know of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peers {
    /// They wait for each other's events.
    pub(super) events: bool,
    /// They reach each other's pools.
    pub(super) memory: bool,
}

/// A device of a world.
#[derive(Debug)]
pub(super) struct Machine {
    world: World,
    number: usize,
    peers: Peers,
    /// For what has nothing to do with order.
    null: NullDevice,
    pools: Mutex<BTreeMap<PoolId, Pool>>,
}

#[derive(Clone, Copy, Debug)]
struct Pool {
    memory: MemoryId,
    bytes: usize,
    imported: bool,
}

/// A stream, by its number in the world.
struct Stream(usize);
/// An event and the device it is of.
struct Event(usize, Mark);
/// How the kernels of a module are called.
struct Module(Vec<KernelAbi>);
struct Kernel(KernelAbi);
/// Kernels that are launched together, or one by one if chance wants it.
struct Sequence(Vec<BoundHandle>);
/// A kernel's name, and what it accesses.
struct Bound(String, Vec<Touch>);

impl Machine {
    pub(super) fn new(world: &World, number: usize, peers: Peers) -> Machine {
        Machine { world: world.clone(), number, peers, null: NullDevice::new(), pools: Mutex::default() }
    }

    fn pool(&self, pool: PoolId) -> Result<Pool, DriverError> {
        lock(&self.pools).get(&pool).copied().ok_or(DriverError::NoSuchPool { pool })
    }

    fn touch(&self, at: Location, bytes: usize, writes: bool) -> Result<Touch, DriverError> {
        let pool = self.pool(at.pool)?;
        let range = at.offset..at.offset + bytes;
        if range.end > pool.bytes {
            let what = at.pool.to_string();
            return Err(DriverError::OutOfBounds { what, offset: at.offset, bytes, size: pool.bytes });
        }
        assert!(!(writes && pool.imported), "memory of others is not written");
        Ok(Touch { memory: pool.memory, range, writes })
    }

    fn task(&self, stream: &StreamHandle, name: &str, touches: &[Touch]) -> Result<(), DriverError> {
        self.world.lock().task(stream.get::<Stream>()?.0, name, touches);
        Ok(())
    }

    fn refusal(&self, what: &'static str) -> DriverError {
        DriverError::NoPeerAccess { driver: self.name().to_owned(), what }
    }
}

fn whole(array: &HostArray, offset: usize, bytes: usize) -> Range<usize> {
    assert!(offset + bytes <= array.size_bytes(), "a copy leaves its array");
    offset..offset + bytes
}

impl Driver for Machine {
    fn name(&self) -> &str {
        "race"
    }

    fn caps(&self) -> &Caps {
        self.null.caps()
    }

    fn static_properties(&self) -> Vec<(&'static str, String)> {
        vec![("number", self.number.to_string())]
    }

    fn initialize(&self, strategy: StreamStrategy) {
        self.null.initialize(strategy);
    }

    fn is_initialized(&self) -> bool {
        self.null.is_initialized()
    }

    fn suggested_num_streams(&self) -> usize {
        1
    }

    fn used_memory(&self) -> usize {
        lock(&self.pools).values().filter(|pool| !pool.imported).map(|pool| pool.bytes).sum()
    }

    fn debug_info(&self, _stream: &StreamHandle) -> String {
        String::new()
    }

    fn alloc_pool(&self, pool: PoolId, bytes: usize) -> Result<(), DriverError> {
        let memory = self.world.lock().memory(format!("{pool} of device {}", self.number));
        lock(&self.pools).insert(pool, Pool { memory, bytes, imported: false });
        Ok(())
    }

    fn free_pool(&self, pool: PoolId) {
        lock(&self.pools).remove(&pool);
    }

    fn export(&self, pool: PoolId) -> Result<PoolHandle, DriverError> {
        if !self.peers.memory {
            return Err(self.refusal("its pools"));
        }
        Ok(PoolHandle::new(self.pool(pool)?))
    }

    fn import(&self, pool: PoolId, memory: &PoolHandle) -> Result<(), DriverError> {
        let Ok(memory) = memory.get::<Pool>() else { return Err(self.refusal("host arrays")) };
        lock(&self.pools).insert(pool, Pool { imported: true, ..*memory });
        Ok(())
    }

    fn new_stream(&self, name: &str) -> Result<StreamHandle, DriverError> {
        let name = format!("{name} of device {}", self.number);
        Ok(StreamHandle::new(Stream(self.world.lock().new_stream(&name))))
    }

    fn drop_stream(&self, _stream: StreamHandle) {}

    fn reset_stream(&self, stream: &StreamHandle) -> Result<(), DriverError> {
        let event = self.record(stream)?;
        self.sync(&event)
    }

    fn is_idle(&self, stream: &StreamHandle) -> bool {
        stream.get::<Stream>().is_ok_and(|stream| self.world.lock().is_idle(stream.0))
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
        assert_eq!(check::memory_params(abi).count(), args.len(), "one location per parameter");
        let touches = args
            .iter()
            .zip(check::memory_params(abi))
            .map(|(&at, (access, bytes))| self.touch(at, bytes, access != Access::Read));
        Ok(BoundHandle::new(Bound(abi.name.clone(), touches.collect::<Result<_, _>>()?)))
    }

    unsafe fn launch(
        &self,
        stream: &StreamHandle,
        kernel: &BoundHandle,
        _bindings: &[i64],
    ) -> Result<(), DriverError> {
        let Bound(name, touches) = kernel.get()?;
        self.task(stream, name, touches)
    }

    fn sequence(&self, kernels: &[BoundHandle]) -> Result<Option<SequenceHandle>, DriverError> {
        Ok(Some(SequenceHandle::new(Sequence(kernels.to_vec()))))
    }

    unsafe fn launch_sequence(
        &self,
        stream: &StreamHandle,
        sequence: &SequenceHandle,
        bindings: &[i64],
    ) -> Result<bool, DriverError> {
        let together = self.world.lock().is_able();
        let Sequence(kernels) = sequence.get()?;
        for kernel in kernels.iter().filter(|_| together) {
            // SAFETY: accesses no memory.
            unsafe { self.launch(stream, kernel, bindings)? };
        }
        Ok(together)
    }

    unsafe fn memset_zero(
        &self,
        stream: &StreamHandle,
        dst: Location,
        bytes: usize,
    ) -> Result<(), DriverError> {
        self.task(stream, "zero", &[self.touch(dst, bytes, true)?])
    }

    unsafe fn copy_in(
        &self,
        stream: &StreamHandle,
        dst: Location,
        src: &Arc<HostArray>,
        src_offset: usize,
        bytes: usize,
    ) -> Result<(), DriverError> {
        let range = whole(src, src_offset, bytes);
        let landed = self.world.lock().landed(src);
        let read = landed.map(|memory| Touch { memory, range, writes: false });
        let write = self.touch(dst, bytes, true)?;
        self.task(stream, "copy from host", &read.into_iter().chain([write]).collect::<Vec<_>>())
    }

    unsafe fn copy_out(
        &self,
        stream: &StreamHandle,
        src: Location,
        dst: &HostLanding,
        dst_offset: usize,
        bytes: usize,
    ) -> Result<(), DriverError> {
        let range = whole(&lock(dst), dst_offset, bytes);
        let memory = self.world.lock().landing(dst);
        let write = Touch { memory, range, writes: true };
        self.task(stream, "copy to host", &[self.touch(src, bytes, false)?, write])
    }

    unsafe fn copy(
        &self,
        stream: &StreamHandle,
        dst: Location,
        src: Location,
        bytes: usize,
    ) -> Result<(), DriverError> {
        self.task(stream, "copy", &[self.touch(src, bytes, false)?, self.touch(dst, bytes, true)?])
    }

    fn record(&self, stream: &StreamHandle) -> Result<EventHandle, DriverError> {
        let mark = self.world.lock().record(stream.get::<Stream>()?.0);
        Ok(EventHandle::new(Event(self.number, mark)))
    }

    fn wait(&self, stream: &StreamHandle, event: &EventHandle, _after: After) -> Result<(), DriverError> {
        let Event(device, mark) = event.get()?;
        if *device != self.number && !self.peers.events {
            return Err(DriverError::ForeignHandle { what: "event" });
        }
        self.world.lock().wait(stream.get::<Stream>()?.0, mark);
        Ok(())
    }

    fn is_done(&self, event: &EventHandle) -> Result<bool, DriverError> {
        Ok(self.world.lock().is_done(&event.get::<Event>()?.1))
    }

    fn sync(&self, event: &EventHandle) -> Result<(), DriverError> {
        self.world.lock().sync(&event.get::<Event>()?.1);
        Ok(())
    }
}
