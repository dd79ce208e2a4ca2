//! Memory of pools: ranges of slabs, which are buffers of the device.
//!
//! A kernel binds whole slabs, and only a few of them. Therefore pools share slabs, as long as a slab is
//! small enough to be bound. The first slab is small, and each further slab is as large as all slabs before
//! it together, up to [`MAX_SHARED_SLAB_BYTES`]. So a program has few slabs whatever its size, and reserves
//! at most about twice the memory it needs. A larger pool has a slab of its own.
//!
//! A [`PoolMemory`] is a range of a slab that is released with its last reference; pending tasks hold
//! references. One empty slab is kept for the next pool, further ones are released to the platform.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use device_runtime::{DriverError, MemoryBudget, MemoryRange, MemoryReservation, PoolId};
use wgpu::{BufferDescriptor, BufferUsages};

use crate::{
    caps::{alignment, largest_pool},
    free_list::FreeList,
    gpu::{Gpu, GpuError, lock},
};

/// Size of the first slab, in bytes.
const FIRST_SLAB_BYTES: usize = 4 << 20;

/// Maximum size in bytes of a slab that pools share: every device can bind this size.
const MAX_SHARED_SLAB_BYTES: usize = 128 << 20;

/// A buffer that several pools may share.
#[derive(Debug)]
pub(crate) struct Slab {
    /// The slab's number; never reused.
    pub(crate) id: u32,
    pub(crate) buffer: wgpu::Buffer,
    bytes: usize,
}

pub(crate) struct SlabAllocator {
    gpu: Arc<Gpu>,
    alignment: usize,
    /// Size of the largest pool, in bytes.
    largest: usize,
    /// The account of the pools' requested sizes.
    budget: MemoryBudget,
    table: Mutex<SlabTable>,
}

#[derive(Default)]
struct SlabTable {
    next: u32,
    slabs: BTreeMap<u32, (Arc<Slab>, FreeList)>,
}

/// The memory of a pool: a range of a slab.
pub(crate) struct PoolMemory {
    slabs: Arc<SlabAllocator>,
    pub(crate) slab: Arc<Slab>,
    /// Offset in the slab, in bytes.
    pub(crate) offset: usize,
    /// Requested size in bytes; the padding up to the alignment belongs to no other pool.
    pub(crate) bytes: usize,
    _reservation: MemoryReservation,
}

impl SlabAllocator {
    pub(crate) fn new(gpu: Arc<Gpu>, limit: Option<usize>) -> Arc<SlabAllocator> {
        let (alignment, largest) = (alignment(&gpu.limits), largest_pool(&gpu.limits));
        let (budget, table) = (MemoryBudget::new(limit), Mutex::default());
        Arc::new(SlabAllocator { gpu, alignment, largest, budget, table })
    }

    /// Total size of pools in bytes, including freed pools that pending tasks use.
    pub(crate) fn used(&self) -> usize {
        self.budget.used()
    }

    /// Total size of slabs in bytes, which the platform counts as used.
    pub(crate) fn reserved(&self) -> usize {
        lock(&self.table).slabs.values().map(|(slab, _)| slab.bytes).sum()
    }

    /// Allocates memory for a pool. Its contents are zeros, or bytes of earlier pools.
    ///
    /// # Errors
    ///
    /// [`DriverError::PoolTooLarge`], [`DriverError::OutOfMemory`], [`DriverError::Lost`].
    pub(crate) fn allocate(
        self: &Arc<Self>,
        pool: PoolId,
        bytes: usize,
    ) -> Result<Arc<PoolMemory>, DriverError> {
        self.gpu.check_alive()?;
        if bytes > self.largest {
            return Err(DriverError::PoolTooLarge { pool, bytes, limit: self.largest });
        }
        let reservation = self.budget.reserve(bytes)?;
        match self.place(self.rounded(bytes)) {
            Ok((slab, offset)) => {
                let slabs = Arc::clone(self);
                Ok(Arc::new(PoolMemory { slabs, slab, offset, bytes, _reservation: reservation }))
            }
            Err(error) => {
                drop(reservation);
                Err(error.driver_error("allocating memory", bytes, self.used()))
            }
        }
    }

    /// Size of the largest pool, in bytes.
    pub(crate) fn largest(&self) -> usize {
        self.largest
    }

    /// Allocates memory of at most [`SlabAllocator::largest`] bytes in a slab that no pool shares.
    ///
    /// # Errors
    ///
    /// [`DriverError::OutOfMemory`], [`DriverError::Lost`].
    pub(crate) fn allocate_apart(self: &Arc<Self>, bytes: usize) -> Result<Arc<PoolMemory>, DriverError> {
        let reservation = self.budget.reserve(bytes)?;
        let mut table = lock(&self.table);
        let id = table.next;
        table.next += 1;
        drop(table);
        let slab = self.slab(id, self.rounded(bytes));
        let slab = slab.map_err(|error| error.driver_error("allocating memory", bytes, self.used()))?;
        Ok(Arc::new(PoolMemory {
            slabs: Arc::clone(self),
            slab,
            offset: 0,
            bytes,
            _reservation: reservation,
        }))
    }

    /// Rounds a size up to the alignment. An empty pool takes as many bytes as the alignment, so that every
    /// pool has an address of its own.
    pub(crate) fn rounded(&self, bytes: usize) -> usize {
        bytes.max(1).next_multiple_of(self.alignment)
    }

    /// Allocates a range in an existing slab, or in a new one.
    fn place(&self, bytes: usize) -> Result<(Arc<Slab>, usize), GpuError> {
        let mut table = lock(&self.table);
        for (slab, free) in table.slabs.values_mut() {
            if let Some(offset) = free.allocate(bytes) {
                return Ok((Arc::clone(slab), offset));
            }
        }
        let slab = self.new_slab(&mut table, bytes)?;
        let mut free = FreeList::new(slab.bytes);
        let offset = free.allocate(bytes).expect("a new slab holds what it was made for");
        table.slabs.insert(slab.id, (Arc::clone(&slab), free));
        Ok((slab, offset))
    }

    /// Creates a slab of the planned size, or, if the platform has not enough memory, of the needed size.
    fn new_slab(&self, table: &mut SlabTable, needed: usize) -> Result<Arc<Slab>, GpuError> {
        let before: usize = table.slabs.values().map(|(slab, _)| slab.bytes).sum();
        let shared = MAX_SHARED_SLAB_BYTES.min(self.largest);
        let generous = before.clamp(FIRST_SLAB_BYTES.min(shared), shared).max(needed);
        let id = table.next;
        table.next += 1;
        let buffer = match self.buffer(generous) {
            Err(GpuError::OutOfMemory) if generous > needed => return self.slab(id, needed),
            buffer => buffer?,
        };
        Ok(Arc::new(Slab { id, buffer, bytes: generous }))
    }

    fn slab(&self, id: u32, bytes: usize) -> Result<Arc<Slab>, GpuError> {
        Ok(Arc::new(Slab { id, buffer: self.buffer(bytes)?, bytes }))
    }

    fn buffer(&self, bytes: usize) -> Result<wgpu::Buffer, GpuError> {
        let descriptor = BufferDescriptor {
            label: Some("slab"),
            size: bytes as u64,
            usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        };
        self.gpu.checked(|| Ok(self.gpu.device.create_buffer(&descriptor)))
    }

    /// Releases a pool's range, and its slab too if that is empty and not kept for later pools.
    fn release(&self, memory: &PoolMemory) {
        let mut table = lock(&self.table);
        let id = memory.slab.id;
        // Memory apart from the pools is not in the table, and goes with its slab.
        let Some((_, free)) = table.slabs.get_mut(&id) else { return };
        free.release(memory.offset, self.rounded(memory.bytes));
        let is_empty = free.is_whole();
        let empty = table.slabs.values().filter(|(_, free)| free.is_whole()).count();
        let superfluous = is_empty && (memory.slab.bytes > MAX_SHARED_SLAB_BYTES || empty > 1);
        let dropped = superfluous.then(|| table.slabs.remove(&id));
        drop(table);
        // The slab is released to the platform outside of the lock.
        drop(dropped);
    }
}

impl fmt::Debug for SlabAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in use of {}", self.used(), self.reserved())
    }
}

impl Drop for PoolMemory {
    fn drop(&mut self) {
        self.slabs.release(self);
    }
}

impl fmt::Debug for PoolMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {} of slab {}", self.bytes, self.offset, self.slab.id)
    }
}

/// A range of a pool's memory. It keeps the memory alive.
#[derive(Clone, Debug)]
pub(crate) struct MemoryRegion {
    memory: Arc<PoolMemory>,
    /// Offset in the pool, in bytes.
    offset: usize,
    pub(crate) bytes: usize,
}

impl MemoryRegion {
    /// # Errors
    ///
    /// [`DriverError::ForeignHandle`] for memory of another driver.
    pub(crate) fn new(range: &MemoryRange) -> Result<MemoryRegion, DriverError> {
        Ok(MemoryRegion { memory: range.memory().share()?, offset: range.offset(), bytes: range.bytes() })
    }

    /// A range of memory that the caller has allocated.
    pub(crate) fn within(memory: &Arc<PoolMemory>, offset: usize, bytes: usize) -> MemoryRegion {
        MemoryRegion { memory: Arc::clone(memory), offset, bytes }
    }

    /// Whether both are the same bytes.
    pub(crate) fn is_same(&self, other: &MemoryRegion) -> bool {
        let place = |region: &MemoryRegion| (region.slab().id, region.begin(), region.bytes);
        place(self) == place(other)
    }

    pub(crate) fn slab(&self) -> &Arc<Slab> {
        &self.memory.slab
    }

    /// Offset in the slab, in bytes.
    pub(crate) fn begin(&self) -> usize {
        self.memory.offset + self.offset
    }

    /// Whether the range consists of whole words, or of whole words once the pool's padding is added.
    pub(crate) fn is_whole_words(&self) -> bool {
        let is_last = self.offset + self.bytes == self.memory.bytes;
        self.begin().is_multiple_of(4) && (self.bytes.is_multiple_of(4) || is_last)
    }
}
