//! Memory of a device: allocations that count themselves, and parts of them.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use device_runtime::{DriverError, MemoryRange};

use super::{CallError, Context};

/// An allocation. It is freed with its last share, so whoever has tasks pending keeps one.
pub(crate) struct Memory {
    pub(super) context: Arc<Context>,
    address: u64,
    /// Bytes asked for.
    pub(crate) bytes: usize,
    /// Bytes of all allocations of the device.
    used: Arc<AtomicUsize>,
}

impl Memory {
    /// Allocates, once `used` has been raised by as many bytes; it is lowered when the memory is freed, or if there is none.
    pub(crate) fn new(
        context: &Arc<Context>,
        bytes: usize,
        used: &Arc<AtomicUsize>,
    ) -> Result<Memory, CallError> {
        let address = allocate(context, bytes.max(1)).inspect_err(|_| {
            used.fetch_sub(bytes, Ordering::Relaxed);
        })?;
        Ok(Memory { context: Arc::clone(context), address, bytes, used: Arc::clone(used) })
    }

    /// Whether another device's tasks reach this memory; they do from now on, if they can.
    pub(crate) fn is_reached_by(&self, context: &Context) -> Result<bool, CallError> {
        context.reach(&self.context)
    }
}

/// Memory that every stream may use at once.
fn allocate(context: &Context, bytes: usize) -> Result<u64, CallError> {
    context.enter()?;
    let api = context.api;
    let Some(pool) = context.pool else {
        // SAFETY: a place for the address; the context is current.
        return api.number(|api, address| unsafe { api.cuMemAlloc_v2(address, bytes) });
    };
    let address = api.number(|api, address| {
        // SAFETY: a place for the address; pool and stream live as long as the context.
        unsafe { api.cuMemAllocFromPoolAsync(address, bytes, pool, context.home) }
    })?;
    // The memory is there for other streams from here on. Nothing else is on this stream, so that takes no time.
    // SAFETY: the stream lives as long as the context.
    unsafe { api.cuStreamSynchronize(context.home)? };
    Ok(address)
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
        let Context { api, home, pool, .. } = *self.context;
        // What fails here fails because the device is lost, and the driver has taken the memory back.
        let _ = self.context.enter();
        // SAFETY: allocated by `new`; the tasks that used it are done, since each kept a share until then.
        let _ = unsafe {
            match pool {
                Some(_) => api.cuMemFreeAsync(self.address, home),
                None => api.cuMemFree_v2(self.address),
            }
        };
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of device {}", self.bytes, self.context.gpu.ordinal)
    }
}

/// Part of an allocation, which it keeps alive.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    memory: Arc<Memory>,
    offset: usize,
    bytes: usize,
}

impl Region {
    /// # Errors
    ///
    /// Memory of another driver.
    pub(crate) fn new(range: &MemoryRange) -> Result<Region, DriverError> {
        Ok(Region { memory: range.memory().share()?, offset: range.offset(), bytes: range.bytes() })
    }

    /// All of a memory.
    pub(crate) fn whole(memory: Arc<Memory>) -> Region {
        let bytes = memory.bytes;
        Region { memory, offset: 0, bytes }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The bytes from `offset` on, as many as there are up to `bytes`.
    pub(crate) fn part(&self, offset: usize, bytes: usize) -> Region {
        let offset = offset.min(self.bytes);
        let bytes = bytes.min(self.bytes - offset);
        Region { memory: Arc::clone(&self.memory), offset: self.offset + offset, bytes }
    }

    /// Where it begins, for tasks. It stays in the crate.
    pub(crate) fn address(&self) -> u64 {
        self.memory.address + self.offset as u64
    }
}
