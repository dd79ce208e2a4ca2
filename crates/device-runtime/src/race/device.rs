//! The driver whose tasks do nothing but access memory.

#![allow(unsafe_code, reason = "implements `Driver`, which is unsafe to implement")]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use codegen_core::{Access, Artifact, Caps, KernelAbi};

use super::world::{Mark, MemoryId, Touch, World};
use crate::{
    check,
    checked::{
        CopyInTask, CopyOutTask, CopyTask, FillTask, KernelArgs, LaunchTask, MemoryRange, SequenceTask,
    },
    driver::{
        After, BoundHandle, Driver, EventHandle, KernelHandle, ModuleHandle, PoolHandle, PoolId,
        SequenceHandle, StreamHandle, StreamStrategy,
    },
    error::DriverError,
    null::NullDevice,
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
    /// Bytes of its own pools.
    used: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Pool {
    memory: MemoryId,
    /// Its bytes, and where they are counted; none where it is somebody else's.
    counted: Option<(usize, Arc<AtomicUsize>)>,
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some((bytes, used)) = &self.counted {
            used.fetch_sub(*bytes, Ordering::Relaxed);
        }
    }
}

/// A stream, by its number in the world.
struct Stream(usize);
/// An event and the device it is of.
struct Event(usize, Mark);
/// How the kernels of a module are called.
struct Module(Vec<KernelAbi>);
struct Kernel(KernelAbi);
/// Kernels that are launched together, or one by one if chance wants it.
struct Sequence;
/// A kernel's name, and what it accesses.
struct Bound(String, Vec<Touch>);

impl Machine {
    pub(super) fn new(world: &World, number: usize, peers: Peers) -> Machine {
        Machine { world: world.clone(), number, peers, null: NullDevice::new(), used: Arc::default() }
    }

    fn touch(range: &MemoryRange, writes: bool) -> Result<Touch, DriverError> {
        let pool: &Pool = range.memory().get()?;
        assert!(!writes || pool.counted.is_some(), "memory of others is not written");
        Ok(Touch { memory: pool.memory, range: range.offset()..range.offset() + range.bytes(), writes })
    }

    fn task(&self, stream: &StreamHandle, name: &str, touches: &[Touch]) -> Result<(), DriverError> {
        self.world.lock().task(stream.get::<Stream>()?.0, name, touches);
        Ok(())
    }

    fn refusal(&self, what: &'static str) -> DriverError {
        DriverError::NoPeerAccess { driver: self.name().to_owned(), what }
    }
}

// SAFETY: there is no memory that anything could touch.
unsafe impl Driver for Machine {
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
        self.used.load(Ordering::Relaxed)
    }

    fn debug_info(&self, _stream: &StreamHandle) -> String {
        String::new()
    }

    fn alloc_pool(&self, pool: PoolId, bytes: usize) -> Result<PoolHandle, DriverError> {
        let memory = self.world.lock().memory(format!("{pool} of device {}", self.number));
        self.used.fetch_add(bytes, Ordering::Relaxed);
        Ok(PoolHandle::new(Pool { memory, counted: Some((bytes, Arc::clone(&self.used))) }))
    }

    fn export(&self, memory: &PoolHandle) -> Result<PoolHandle, DriverError> {
        if self.peers.memory { Ok(memory.clone()) } else { Err(self.refusal("its pools")) }
    }

    fn import(&self, memory: &PoolHandle) -> Result<PoolHandle, DriverError> {
        let Ok(memory) = memory.get::<Pool>() else { return Err(self.refusal("host arrays")) };
        Ok(PoolHandle::new(Pool { memory: memory.memory, counted: None }))
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
        Ok(ModuleHandle::new(Module(artifact.kernels().to_vec())))
    }

    fn kernel(&self, module: &ModuleHandle, index: usize) -> Result<KernelHandle, DriverError> {
        let kernels = &module.get::<Module>()?.0;
        let abi = kernels.get(index).ok_or(DriverError::NoSuchEntry { index, kernels: kernels.len() })?;
        Ok(KernelHandle::new(Kernel(abi.clone())))
    }

    fn bind(&self, args: &KernelArgs<'_>) -> Result<BoundHandle, DriverError> {
        let abi = &args.kernel().get::<Kernel>()?.0;
        let touches = args
            .ranges()
            .iter()
            .zip(check::memory_params(abi))
            .map(|(range, (access, _))| Machine::touch(range, access != Access::Read));
        Ok(BoundHandle::new(Bound(abi.name.clone(), touches.collect::<Result<_, _>>()?)))
    }

    fn launch(&self, stream: &StreamHandle, task: LaunchTask<'_>) -> Result<(), DriverError> {
        let Bound(name, touches) = task.kernel().get()?;
        self.task(stream, name, touches)
    }

    fn sequence(&self, _kernels: &[BoundHandle]) -> Result<Option<SequenceHandle>, DriverError> {
        Ok(Some(SequenceHandle::new(Sequence)))
    }

    fn launch_sequence(&self, stream: &StreamHandle, task: SequenceTask<'_>) -> Result<bool, DriverError> {
        let together = self.world.lock().is_able();
        task.sequence().get::<Sequence>()?;
        for launch in task.into_launches().filter(|_| together) {
            self.launch(stream, launch)?;
        }
        Ok(together)
    }

    fn memset_zero(&self, stream: &StreamHandle, task: FillTask) -> Result<(), DriverError> {
        self.task(stream, "zero", &[Machine::touch(task.dst(), true)?])
    }

    fn copy_in(&self, stream: &StreamHandle, task: CopyInTask) -> Result<(), DriverError> {
        let landed = self.world.lock().landed(task.array());
        let read = landed.map(|memory| Touch { memory, range: 0..task.src().len(), writes: false });
        let write = Machine::touch(task.dst(), true)?;
        self.task(stream, "copy from host", &read.into_iter().chain([write]).collect::<Vec<_>>())
    }

    fn copy_out(&self, stream: &StreamHandle, task: CopyOutTask) -> Result<(), DriverError> {
        let memory = self.world.lock().landing(task.dst());
        let write = Touch { memory, range: 0..task.src().bytes(), writes: true };
        self.task(stream, "copy to host", &[Machine::touch(task.src(), false)?, write])
    }

    fn copy(&self, stream: &StreamHandle, task: CopyTask) -> Result<(), DriverError> {
        self.task(stream, "copy", &[Machine::touch(task.src(), false)?, Machine::touch(task.dst(), true)?])
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
