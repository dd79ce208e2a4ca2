//! Memory of a device: allocations, and regions of them.

use std::{fmt, sync::Arc};

use device_runtime::{MemoryRange, MemoryReservation};

use super::{CallError, Context};

use crate::Result;

/// An allocation. It is freed with its last reference; pending tasks hold references.
pub(crate) struct DeviceMemory {
    pub(super) context: Arc<Context>,
    address: u64,
    /// Requested size, in bytes.
    pub(crate) bytes: usize,
    _reservation: MemoryReservation,
}

impl DeviceMemory {
    /// Allocates `bytes` bytes, for which the caller made the reservation.
    pub(crate) fn new(
        context: &Arc<Context>,
        bytes: usize,
        reservation: MemoryReservation,
    ) -> Result<DeviceMemory, CallError> {
        let address = allocate(context, bytes.max(1))?;
        Ok(DeviceMemory { context: Arc::clone(context), address, bytes, _reservation: reservation })
    }

    /// Enables access of another device's tasks to this memory; returns whether that is possible.
    pub(crate) fn enable_access_from(&self, context: &Context) -> Result<bool, CallError> {
        context.enable_access(&self.context)
    }
}

/// Allocates memory that every stream may use at once.
fn allocate(context: &Context, bytes: usize) -> Result<u64, CallError> {
    context.enter()?;
    let api = context.api;
    let Some(pool) = context.pool else {
        // SAFETY: a valid place for the address; the context is current.
        return api.number(|api, address| unsafe { api.cuMemAlloc_v2(address, bytes) });
    };
    let address = api.number(|api, address| {
        // SAFETY: a valid place for the address; pool and stream exist as long as the context.
        unsafe { api.cuMemAllocFromPoolAsync(address, bytes, pool, context.allocation_stream) }
    })?;
    // After synchronization, other streams may use the memory. Synchronization takes almost no time, since
    // this stream has no tasks except allocations.
    // SAFETY: the stream exists as long as the context.
    unsafe { api.cuStreamSynchronize(context.allocation_stream)? };
    Ok(address)
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let Context { api, allocation_stream, pool, .. } = *self.context;
        // Errors are ignored: they mean that the device is lost, and that the driver has freed the memory.
        let _ = self.context.enter();
        // SAFETY: allocated by `new`; the tasks that used it are done, since each kept a reference until
        // then.
        let _ = unsafe {
            match pool {
                Some(_) => api.cuMemFreeAsync(self.address, allocation_stream),
                None => api.cuMemFree_v2(self.address),
            }
        };
    }
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of device {}", self.bytes, self.context.gpu.ordinal)
    }
}

/// A region of an allocation. It keeps the allocation alive.
#[derive(Clone, Debug)]
pub(crate) struct MemoryRegion {
    memory: Arc<DeviceMemory>,
    offset: usize,
    bytes: usize,
}

impl MemoryRegion {
    /// # Errors
    ///
    /// [`DriverError::ForeignHandle`] for memory of another driver.
    pub(crate) fn new(range: &MemoryRange) -> Result<MemoryRegion> {
        Ok(MemoryRegion { memory: range.memory().share()?, offset: range.offset(), bytes: range.bytes() })
    }

    /// The region of a whole allocation.
    pub(crate) fn whole(memory: Arc<DeviceMemory>) -> MemoryRegion {
        let bytes = memory.bytes;
        MemoryRegion { memory, offset: 0, bytes }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn memory(&self) -> &Arc<DeviceMemory> {
        &self.memory
    }

    /// The bytes from `offset` on, at most `bytes`.
    pub(crate) fn subregion(&self, offset: usize, bytes: usize) -> MemoryRegion {
        let offset = offset.min(self.bytes);
        let bytes = bytes.min(self.bytes - offset);
        MemoryRegion { memory: Arc::clone(&self.memory), offset: self.offset + offset, bytes }
    }

    /// The address of the region, for tasks. It is not exposed outside of the crate.
    pub(crate) fn address(&self) -> u64 {
        self.memory.address + self.offset as u64
    }
}
