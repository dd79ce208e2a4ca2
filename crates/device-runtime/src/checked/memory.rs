//! Memory of a driver with its size, and ranges that lie in it.

use std::{fmt, sync::Arc};

use tnode::HostArray;

use crate::{
    driver::{Driver, Location, PoolHandle, PoolId},
    error::{DriverError, Result},
};

/// A driver's memory with its size. The driver guarantees that the size is right.
#[derive(Debug)]
pub(crate) struct PoolMemory {
    id: PoolId,
    handle: PoolHandle,
    bytes: usize,
    is_writable: bool,
}

/// Memory, with its size, that a driver exported to other drivers of the process, or a host array for drivers
/// to read.
#[derive(Clone, Debug)]
pub struct SharedMemory {
    handle: PoolHandle,
    bytes: usize,
    is_writable: bool,
}

impl SharedMemory {
    /// A host array, which drivers with access to host memory read in place. No task may write it.
    pub fn of_host(array: Arc<HostArray>) -> SharedMemory {
        let bytes = array.size_bytes();
        SharedMemory { handle: PoolHandle::of_host(array), bytes, is_writable: false }
    }
}

impl PoolMemory {
    /// Allocates a pool.
    pub(crate) fn allocate(driver: &(impl Driver + ?Sized), id: PoolId, bytes: usize) -> Result<PoolMemory> {
        let handle = driver.alloc_pool(id, bytes)?;
        Ok(PoolMemory { id, handle, bytes, is_writable: true })
    }

    /// Makes a pool of a host array's memory if the driver supports that; else returns the array.
    pub(crate) fn adopt(
        driver: &(impl Driver + ?Sized),
        id: impl FnOnce() -> PoolId,
        array: Box<HostArray>,
    ) -> Result<PoolMemory, Box<HostArray>> {
        let bytes = array.size_bytes();
        let handle = driver.adopt(array)?;
        Ok(PoolMemory { id: id(), handle, bytes, is_writable: true })
    }

    /// Exports the memory, if the driver supports that.
    pub(crate) fn export(&self, driver: &(impl Driver + ?Sized)) -> Result<SharedMemory> {
        let handle = driver.export(&self.handle)?;
        Ok(SharedMemory { handle, bytes: self.bytes, is_writable: self.is_writable })
    }

    /// Imports memory, if the driver can access it.
    pub(crate) fn import(
        driver: &(impl Driver + ?Sized),
        id: PoolId,
        memory: &SharedMemory,
    ) -> Result<PoolMemory> {
        let handle = driver.import(&memory.handle)?;
        Ok(PoolMemory { id, handle, bytes: memory.bytes, is_writable: memory.is_writable })
    }

    pub(crate) fn id(&self) -> PoolId {
        self.id
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The range of all bytes.
    pub(crate) fn whole(&self) -> MemoryRange {
        let (pool, memory) = (self.id, self.handle.clone());
        MemoryRange { pool, memory, offset: 0, bytes: self.bytes, is_writable: self.is_writable }
    }

    /// The range `offset..offset + bytes`.
    ///
    /// # Errors
    ///
    /// [`DriverError::OutOfBounds`].
    pub(crate) fn range(&self, offset: usize, bytes: usize) -> Result<MemoryRange> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            let (what, size) = (self.id.to_string(), self.bytes);
            return Err(DriverError::OutOfBounds { what, offset, bytes, size });
        }
        let (pool, memory, is_writable) = (self.id, self.handle.clone(), self.is_writable);
        Ok(MemoryRange { pool, memory, offset, bytes, is_writable })
    }
}

/// A range of bytes in memory of a driver. The range keeps the memory alive.
#[derive(Clone, Debug)]
pub struct MemoryRange {
    pool: PoolId,
    memory: PoolHandle,
    offset: usize,
    bytes: usize,
    is_writable: bool,
}

impl MemoryRange {
    /// The driver's handle of the memory.
    pub fn memory(&self) -> &PoolHandle {
        &self.memory
    }

    /// Offset in the memory, in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Size of the range, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The pool's number, and the offset of the range in it.
    pub fn location(&self) -> Location {
        Location { pool: self.pool, offset: self.offset }
    }

    /// Whether tasks may write the range: a host array that a driver uses in place is only read.
    pub(crate) fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Whether the ranges have a byte in common.
    pub fn overlaps(&self, other: &MemoryRange) -> bool {
        let apart = self.offset + self.bytes <= other.offset || other.offset + other.bytes <= self.offset;
        self.bytes > 0 && other.bytes > 0 && !apart && self.memory.is_same(&other.memory)
    }

    /// The first `bytes` bytes of the range.
    ///
    /// # Errors
    ///
    /// [`DriverError::OutOfBounds`] if the range is shorter.
    pub(crate) fn first(&self, bytes: usize) -> Result<MemoryRange> {
        if bytes > self.bytes {
            let (what, offset, size) = (self.to_string(), 0, self.bytes);
            return Err(DriverError::OutOfBounds { what, offset, bytes, size });
        }
        Ok(MemoryRange { bytes, ..self.clone() })
    }

    /// The first `bytes` bytes of the range, or all of it if it is shorter.
    pub(crate) fn up_to(self, bytes: usize) -> MemoryRange {
        MemoryRange { bytes: bytes.min(self.bytes), ..self }
    }

    /// # Errors
    ///
    /// [`DriverError::ReadOnly`] if tasks may not write the range.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.is_writable { Ok(()) } else { Err(DriverError::ReadOnly { pool: self.pool }) }
    }
}

impl fmt::Display for MemoryRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {}", self.bytes, self.location())
    }
}
