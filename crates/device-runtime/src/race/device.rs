//! The driver whose tasks only record accesses to memory.

#![allow(unsafe_code, reason = "implements `Driver`, which is unsafe to implement")]

use codegen_core::{Access, Artifact, KernelAbi};

use super::world::{EventPoint, MemoryId, TaskAccess, World};
use crate::{
    check,
    checked::{
        CopyInTask, CopyOutTask, CopyTask, FillTask, KernelArgs, LaunchTask, MemoryRange, SequenceTask,
    },
    driver::{
        BoundHandle, Driver, DriverDescription, EventHandle, KernelHandle, PoolHandle, PoolId,
        SequenceHandle, StreamHandle, StreamStrategy, WaitKind,
    },
    error::{DriverError, Result},
    memory_budget::{MemoryBudget, MemoryReservation},
    null::NullDevice,
};

/// The connections between the devices of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerAccess {
    /// Devices wait for each other's events.
    pub(super) events: bool,
    /// Devices access each other's pools.
    pub(super) memory: bool,
}

/// A device of a world.
#[derive(Debug)]
pub(super) struct RaceDevice {
    world: World,
    number: usize,
    peers: PeerAccess,
    description: DriverDescription,
    /// The account of its own pools.
    pools: MemoryBudget,
}

#[derive(Debug)]
struct RacePool {
    memory: MemoryId,
    /// None for imported memory.
    counted: Option<MemoryReservation>,
}

/// A stream, represented by its number in the world.
struct RaceStream(usize);
/// The number of the event's device, and the event.
struct RaceEvent(usize, EventPoint);
struct RaceKernel(KernelAbi);
/// Kernels that are launched together or, by chance, one by one.
struct RaceSequence;
/// A kernel's name, and its accesses.
struct BoundCall(String, Vec<TaskAccess>);

impl RaceDevice {
    pub(super) fn new(world: &World, number: usize, peers: PeerAccess) -> RaceDevice {
        let caps = NullDevice::new().caps().clone();
        let properties = vec![("number", number.to_string())];
        let description = DriverDescription { name: "race".to_owned(), caps, properties };
        RaceDevice { world: world.clone(), number, peers, description, pools: MemoryBudget::new(None) }
    }

    fn access(range: &MemoryRange, writes: bool) -> Result<TaskAccess> {
        let pool: &RacePool = range.memory().get()?;
        assert!(!writes || pool.counted.is_some(), "memory of others is not written");
        Ok(TaskAccess { memory: pool.memory, range: range.offset()..range.offset() + range.bytes(), writes })
    }

    fn task(&self, stream: &StreamHandle, name: &str, accesses: &[TaskAccess]) -> Result<()> {
        self.world.lock().task(stream.get::<RaceStream>()?.0, name, accesses);
        Ok(())
    }

    fn no_peer_access(&self, what: &'static str) -> DriverError {
        DriverError::NoPeerAccess { driver: self.name().to_owned(), what }
    }
}

// SAFETY: there is no memory that a task could access.
unsafe impl Driver for RaceDevice {
    fn description(&self) -> &DriverDescription {
        &self.description
    }

    fn suggested_num_streams(&self, _strategy: StreamStrategy) -> usize {
        1
    }

    fn used_memory(&self) -> usize {
        self.pools.used()
    }

    fn debug_info(&self, _stream: &StreamHandle) -> String {
        String::new()
    }

    fn alloc_pool(&self, pool: PoolId, bytes: usize) -> Result<PoolHandle> {
        let memory = self.world.lock().memory(format!("{pool} of device {}", self.number));
        Ok(PoolHandle::new(RacePool { memory, counted: Some(self.pools.reserve(bytes)?) }))
    }

    fn export(&self, memory: &PoolHandle) -> Result<PoolHandle> {
        if self.peers.memory { Ok(memory.clone()) } else { Err(self.no_peer_access("its pools")) }
    }

    fn import(&self, memory: &PoolHandle) -> Result<PoolHandle> {
        let Ok(memory) = memory.get::<RacePool>() else { return Err(self.no_peer_access("host arrays")) };
        Ok(PoolHandle::new(RacePool { memory: memory.memory, counted: None }))
    }

    fn new_stream(&self, name: &str) -> Result<StreamHandle> {
        let name = format!("{name} of device {}", self.number);
        Ok(StreamHandle::new(RaceStream(self.world.lock().new_stream(&name))))
    }

    fn drop_stream(&self, _stream: StreamHandle) {}

    fn reset_stream(&self, stream: &StreamHandle) -> Result<()> {
        let event = self.record(stream)?;
        self.sync(&event)
    }

    fn is_idle(&self, stream: &StreamHandle) -> bool {
        stream.get::<RaceStream>().is_ok_and(|stream| self.world.lock().is_idle(stream.0))
    }

    fn load(&self, artifact: &Artifact) -> Result<Vec<KernelHandle>> {
        Ok(artifact.kernels().iter().map(|abi| KernelHandle::new(RaceKernel(abi.clone()))).collect())
    }

    fn bind(&self, args: &KernelArgs<'_>) -> Result<BoundHandle> {
        let abi = &args.kernel().get::<RaceKernel>()?.0;
        let accesses = args
            .ranges()
            .iter()
            .zip(check::memory_params(abi))
            .map(|(range, (access, _))| RaceDevice::access(range, access != Access::Read));
        Ok(BoundHandle::new(BoundCall(abi.name.clone(), accesses.collect::<Result<_, _>>()?)))
    }

    fn launch(&self, stream: &StreamHandle, task: LaunchTask<'_>) -> Result<()> {
        let BoundCall(name, accesses) = task.kernel().get()?;
        self.task(stream, name, accesses)
    }

    fn sequence(&self, _kernels: &[BoundHandle]) -> Result<Option<SequenceHandle>> {
        Ok(Some(SequenceHandle::new(RaceSequence)))
    }

    fn launch_sequence(&self, stream: &StreamHandle, task: SequenceTask<'_>) -> Result<bool> {
        let together = self.world.lock().random_choice();
        task.sequence().get::<RaceSequence>()?;
        for launch in task.into_launches().filter(|_| together) {
            self.launch(stream, launch)?;
        }
        Ok(together)
    }

    fn memset_zero(&self, stream: &StreamHandle, task: FillTask) -> Result<()> {
        self.task(stream, "zero", &[RaceDevice::access(task.dst(), true)?])
    }

    fn copy_in(&self, stream: &StreamHandle, task: CopyInTask) -> Result<()> {
        let reused_arrays = self.world.lock().reused_arrays(task.array());
        let read =
            reused_arrays.map(|memory| TaskAccess { memory, range: 0..task.src().len(), writes: false });
        let write = RaceDevice::access(task.dst(), true)?;
        self.task(stream, "copy from host", &read.into_iter().chain([write]).collect::<Vec<_>>())
    }

    fn copy_out(&self, stream: &StreamHandle, task: CopyOutTask) -> Result<()> {
        let memory = self.world.lock().readback(task.dst());
        let write = TaskAccess { memory, range: 0..task.src().bytes(), writes: true };
        self.task(stream, "copy to host", &[RaceDevice::access(task.src(), false)?, write])
    }

    fn copy(&self, stream: &StreamHandle, task: CopyTask) -> Result<()> {
        self.task(
            stream,
            "copy",
            &[RaceDevice::access(task.src(), false)?, RaceDevice::access(task.dst(), true)?],
        )
    }

    fn record(&self, stream: &StreamHandle) -> Result<EventHandle> {
        let mark = self.world.lock().record(stream.get::<RaceStream>()?.0);
        Ok(EventHandle::new(RaceEvent(self.number, mark)))
    }

    fn wait(&self, stream: &StreamHandle, event: &EventHandle, _after: WaitKind) -> Result<()> {
        let RaceEvent(device, mark) = event.get()?;
        if *device != self.number && !self.peers.events {
            return Err(DriverError::ForeignHandle { what: "event" });
        }
        self.world.lock().wait(stream.get::<RaceStream>()?.0, mark);
        Ok(())
    }

    fn is_done(&self, event: &EventHandle) -> Result<bool> {
        Ok(self.world.lock().is_done(&event.get::<RaceEvent>()?.1))
    }

    fn sync(&self, event: &EventHandle) -> Result<()> {
        self.world.lock().sync(&event.get::<RaceEvent>()?.1);
        Ok(())
    }
}
