//! A driver that runs nothing, for tests of code that uses a driver, and as a template for new drivers.
//!
//! It makes handles and counts memory. Memory has no contents: copies to the host leave zeros.

use codegen_core::{Artifact, Caps};
use tnode::{DType, HostArray};

use crate::{
    BoundHandle, CopyInTask, CopyOutTask, CopyTask, Driver, DriverDescription, DriverError, EventHandle,
    FillTask, KernelArgs, KernelHandle, LaunchTask, MemoryBudget, MemoryReservation, PoolHandle, PoolId,
    SequenceHandle, SequenceTask, StreamHandle, StreamStrategy, WaitKind,
};
/// A device that accepts every task and runs none.
#[derive(Debug)]
pub struct NullDevice {
    description: DriverDescription,
    memory: MemoryBudget,
}

impl NullDevice {
    /// A device without pools, whose capabilities are all element types and no vectors.
    pub fn new() -> NullDevice {
        let caps = Caps { arithmetic: DType::ALL.into_iter().collect(), ..Caps::host("null") };
        let properties = vec![("runs", "nothing".to_owned())];
        let description = DriverDescription { name: "null".to_owned(), caps, properties };
        NullDevice { description, memory: MemoryBudget::new(None) }
    }
}

impl Default for NullDevice {
    fn default() -> Self {
        NullDevice::new()
    }
}

/// A pool without memory, which only counts.
struct NullPool {
    _reservation: MemoryReservation,
}

/// A stream, represented by its name.
struct NullStream(String);
/// An event, which is done from the beginning.
struct NullEvent;
/// A kernel, bound or not, or a sequence of kernels.
struct NullKernel;

#[allow(unsafe_code, reason = "implements `Driver`, which is unsafe to implement")]
// SAFETY: there is no memory that a task could access.
unsafe impl Driver for NullDevice {
    fn description(&self) -> &DriverDescription {
        &self.description
    }

    fn suggested_num_streams(&self, _strategy: StreamStrategy) -> usize {
        1
    }

    fn used_memory(&self) -> usize {
        self.memory.used()
    }

    fn debug_info(&self, stream: &StreamHandle) -> String {
        stream
            .get::<NullStream>()
            .map_or_else(|error| error.to_string(), |stream| format!("{}: idle", stream.0))
    }

    fn alloc_pool(&self, _pool: PoolId, bytes: usize) -> Result<PoolHandle, DriverError> {
        Ok(PoolHandle::new(NullPool { _reservation: self.memory.reserve(bytes)? }))
    }

    /// Imports host arrays. Their memory does not count as the device's.
    fn import(&self, memory: &PoolHandle) -> Result<PoolHandle, DriverError> {
        let unreachable = DriverError::NoPeerAccess { driver: "null".to_owned(), what: "memory of others" };
        memory.get::<HostArray>().map_err(|_| unreachable)?;
        Ok(PoolHandle::new(NullPool { _reservation: self.memory.reserve(0)? }))
    }

    fn new_stream(&self, name: &str) -> Result<StreamHandle, DriverError> {
        Ok(StreamHandle::new(NullStream(name.to_owned())))
    }

    fn drop_stream(&self, _stream: StreamHandle) {}

    fn reset_stream(&self, stream: &StreamHandle) -> Result<(), DriverError> {
        stream.get::<NullStream>().map(drop)
    }

    fn is_idle(&self, _stream: &StreamHandle) -> bool {
        true
    }

    fn load(&self, artifact: &Artifact) -> Result<Vec<KernelHandle>, DriverError> {
        Ok(artifact.kernels().iter().map(|_| KernelHandle::new(NullKernel)).collect())
    }

    fn bind(&self, args: &KernelArgs<'_>) -> Result<BoundHandle, DriverError> {
        args.kernel().get::<NullKernel>()?;
        args.ranges().iter().try_for_each(|range| range.memory().get::<NullPool>().map(drop))?;
        Ok(BoundHandle::new(NullKernel))
    }

    fn launch(&self, stream: &StreamHandle, task: LaunchTask<'_>) -> Result<(), DriverError> {
        stream.get::<NullStream>()?;
        task.kernel().get::<NullKernel>().map(drop)
    }

    fn sequence(&self, kernels: &[BoundHandle]) -> Result<Option<SequenceHandle>, DriverError> {
        kernels.iter().try_for_each(|kernel| kernel.get::<NullKernel>().map(drop))?;
        Ok((!kernels.is_empty()).then(|| SequenceHandle::new(NullKernel)))
    }

    fn launch_sequence(&self, stream: &StreamHandle, task: SequenceTask<'_>) -> Result<bool, DriverError> {
        stream.get::<NullStream>()?;
        task.sequence().get::<NullKernel>().map(|_| true)
    }

    fn memset_zero(&self, stream: &StreamHandle, task: FillTask) -> Result<(), DriverError> {
        stream.get::<NullStream>()?;
        task.dst().memory().get::<NullPool>().map(drop)
    }

    fn copy_in(&self, stream: &StreamHandle, task: CopyInTask) -> Result<(), DriverError> {
        stream.get::<NullStream>()?;
        task.dst().memory().get::<NullPool>().map(drop)
    }

    fn copy_out(&self, stream: &StreamHandle, task: CopyOutTask) -> Result<(), DriverError> {
        stream.get::<NullStream>()?;
        task.src().memory().get::<NullPool>().map(drop)
    }

    fn copy(&self, stream: &StreamHandle, task: CopyTask) -> Result<(), DriverError> {
        stream.get::<NullStream>()?;
        task.src().memory().get::<NullPool>()?;
        task.dst().memory().get::<NullPool>().map(drop)
    }

    fn record(&self, stream: &StreamHandle) -> Result<EventHandle, DriverError> {
        stream.get::<NullStream>()?;
        Ok(EventHandle::new(NullEvent))
    }

    fn wait(&self, stream: &StreamHandle, event: &EventHandle, _after: WaitKind) -> Result<(), DriverError> {
        stream.get::<NullStream>()?;
        event.get::<NullEvent>().map(drop)
    }

    fn is_done(&self, event: &EventHandle) -> Result<bool, DriverError> {
        event.get::<NullEvent>().map(|_| true)
    }

    fn sync(&self, event: &EventHandle) -> Result<(), DriverError> {
        event.get::<NullEvent>().map(drop)
    }
}
