//! Memory of pools: parts of slabs, which are buffers of the device.
//!
//! A kernel binds whole slabs, and few, so pools share slabs as long as a slab is small enough to be bound. Slabs double: the first is
//! small, and each further one is as large as all before it together, up to [`MOST_SHARED`]; so a program has few slabs
//! whatever its size, and no more than about twice the memory it needs. A pool larger than that has a slab of its own.
//!
//! A [`Memory`] is a share of a slab that goes back with its last owner; pending tasks are owners. One empty slab is kept for the next
//! pool, the others are given back to the platform.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use device_runtime::{DriverError, MemoryRange, PoolId};
use wgpu::{BufferDescriptor, BufferUsages};

use crate::{
    caps::{alignment, largest_pool},
    free_list::FreeList,
    gpu::{Gpu, Objection, lock},
};

/// The first slab.
const FIRST: usize = 4 << 20;

/// The largest slab that pools share: what every device binds.
const MOST_SHARED: usize = 128 << 20;

/// A buffer of the device.
#[derive(Debug)]
pub(crate) struct Slab {
    /// Its number; never reused.
    pub(crate) id: u32,
    pub(crate) buffer: wgpu::Buffer,
    bytes: usize,
}

/// The slabs of a device.
pub(crate) struct Slabs {
    gpu: Arc<Gpu>,
    alignment: usize,
    /// Bytes of the largest pool.
    largest: usize,
    /// Bytes that pools may have together.
    limit: usize,
    /// Bytes that pools have, as they were asked for.
    used: AtomicUsize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u32,
    slabs: BTreeMap<u32, (Arc<Slab>, FreeList)>,
}

/// A pool's memory: part of a slab.
pub(crate) struct Memory {
    slabs: Arc<Slabs>,
    pub(crate) slab: Arc<Slab>,
    /// Bytes from the slab's beginning.
    pub(crate) offset: usize,
    /// Bytes asked for; up to the next multiple of the alignment nobody else has any.
    pub(crate) bytes: usize,
}

impl Slabs {
    pub(crate) fn new(gpu: Arc<Gpu>, limit: Option<usize>) -> Arc<Slabs> {
        let (alignment, largest) = (alignment(&gpu.limits), largest_pool(&gpu.limits));
        let (used, table) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Slabs { gpu, alignment, largest, limit: limit.unwrap_or(usize::MAX), used, table })
    }

    /// Bytes that pools have, those that pending tasks hold included.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes of the slabs, which the platform sees as taken.
    pub(crate) fn reserved(&self) -> usize {
        lock(&self.table).slabs.values().map(|(slab, _)| slab.bytes).sum()
    }

    /// Memory for a pool; all zeros, or what other pools left.
    ///
    /// # Errors
    ///
    /// [`DriverError::PoolTooLarge`], [`DriverError::OutOfMemory`], [`DriverError::Lost`].
    pub(crate) fn allocate(self: &Arc<Self>, pool: PoolId, bytes: usize) -> Result<Arc<Memory>, DriverError> {
        self.gpu.alive()?;
        if bytes > self.largest {
            return Err(DriverError::PoolTooLarge { pool, bytes, limit: self.largest });
        }
        let within = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .map_err(|used| DriverError::OutOfMemory { requested: bytes, used })?;
        match self.place(self.rounded(bytes)) {
            Ok((slab, offset)) => Ok(Arc::new(Memory { slabs: Arc::clone(self), slab, offset, bytes })),
            Err(objection) => {
                let used = self.used.fetch_sub(bytes, Ordering::Relaxed) - bytes;
                Err(objection.driver_error("allocating memory", bytes, used))
            }
        }
    }

    /// At least one alignment, so that every pool has a place of its own.
    fn rounded(&self, bytes: usize) -> usize {
        bytes.max(1).next_multiple_of(self.alignment)
    }

    /// Room in a slab there is, or in a new one.
    fn place(&self, bytes: usize) -> Result<(Arc<Slab>, usize), Objection> {
        let mut table = lock(&self.table);
        for (slab, free) in table.slabs.values_mut() {
            if let Some(offset) = free.take(bytes) {
                return Ok((Arc::clone(slab), offset));
            }
        }
        let slab = self.new_slab(&mut table, bytes)?;
        let mut free = FreeList::new(slab.bytes);
        let offset = free.take(bytes).expect("a new slab holds what it was made for");
        table.slabs.insert(slab.id, (Arc::clone(&slab), free));
        Ok((slab, offset))
    }

    /// A slab of a generous size, or if there is no room for that, of as much as is needed.
    fn new_slab(&self, table: &mut Table, needed: usize) -> Result<Arc<Slab>, Objection> {
        let before: usize = table.slabs.values().map(|(slab, _)| slab.bytes).sum();
        let shared = MOST_SHARED.min(self.largest);
        let generous = before.clamp(FIRST.min(shared), shared).max(needed);
        let id = table.next;
        table.next += 1;
        let buffer = match self.buffer(generous) {
            Err(Objection::OutOfMemory) if generous > needed => return self.slab(id, needed),
            buffer => buffer?,
        };
        Ok(Arc::new(Slab { id, buffer, bytes: generous }))
    }

    fn slab(&self, id: u32, bytes: usize) -> Result<Arc<Slab>, Objection> {
        Ok(Arc::new(Slab { id, buffer: self.buffer(bytes)?, bytes }))
    }

    fn buffer(&self, bytes: usize) -> Result<wgpu::Buffer, Objection> {
        let descriptor = BufferDescriptor {
            label: Some("slab"),
            size: bytes as u64,
            usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        };
        self.gpu.checked(|| Ok(self.gpu.device.create_buffer(&descriptor)))
    }

    /// Takes a memory's place back; an empty slab goes with it if there is another empty one.
    fn give_back(&self, memory: &Memory) {
        self.used.fetch_sub(memory.bytes, Ordering::Relaxed);
        let mut table = lock(&self.table);
        let id = memory.slab.id;
        let Some((_, free)) = table.slabs.get_mut(&id) else { return };
        free.give(memory.offset, self.rounded(memory.bytes));
        let is_empty = free.is_whole();
        let empty = table.slabs.values().filter(|(_, free)| free.is_whole()).count();
        let superfluous = is_empty && (memory.slab.bytes > MOST_SHARED || empty > 1);
        let dropped = superfluous.then(|| table.slabs.remove(&id));
        drop(table);
        // Given back to the platform outside of the lock.
        drop(dropped);
    }
}

impl fmt::Debug for Slabs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in use of {}", self.used(), self.reserved())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.slabs.give_back(self);
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {} of slab {}", self.bytes, self.offset, self.slab.id)
    }
}

/// Part of a pool's memory, which it keeps alive.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    memory: Arc<Memory>,
    /// Bytes from the pool's beginning.
    offset: usize,
    pub(crate) bytes: usize,
}

impl Region {
    /// # Errors
    ///
    /// Memory of another driver.
    pub(crate) fn new(range: &MemoryRange) -> Result<Region, DriverError> {
        Ok(Region { memory: range.memory().share()?, offset: range.offset(), bytes: range.bytes() })
    }

    pub(crate) fn slab(&self) -> &Arc<Slab> {
        &self.memory.slab
    }

    /// Bytes from the slab's beginning.
    pub(crate) fn begin(&self) -> usize {
        self.memory.offset + self.offset
    }

    /// Whether it is whole words, or would be if it went on into bytes that nobody has.
    pub(crate) fn is_whole_words(&self) -> bool {
        let is_last = self.offset + self.bytes == self.memory.bytes;
        self.begin().is_multiple_of(4) && (self.bytes.is_multiple_of(4) || is_last)
    }
}
