//! Tasks that touch memory, as drivers get them: checked, and ordered against all that conflict with them.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use tnode::HostArray;

use super::{BoundKernel, BoundSequence, MemoryRange};
use crate::{
    driver::{BoundHandle, SequenceHandle},
    error::DriverError,
    pool::lock,
};

/// A launch of a whole kernel (`0..extent`): one value per static index, each within its range.
#[derive(Debug)]
pub struct LaunchTask<'a> {
    kernel: &'a BoundKernel,
    bindings: &'a [i64],
}

impl<'a> LaunchTask<'a> {
    /// # Errors
    ///
    /// [`DriverError::Arity`] and [`DriverError::BindingRange`].
    ///
    /// # Safety
    ///
    /// The task is handed to a stream of the kernel's driver on which it is [ordered](super#order).
    pub(crate) unsafe fn new(
        kernel: &'a BoundKernel,
        bindings: &'a [i64],
    ) -> Result<LaunchTask<'a>, DriverError> {
        kernel.check(bindings)?;
        Ok(LaunchTask { kernel, bindings })
    }

    /// The kernel, as the driver bound it.
    pub fn kernel(&self) -> &'a BoundHandle {
        self.kernel.handle()
    }

    /// The name of the kernel, for messages.
    pub fn name(&self) -> &'a str {
        self.kernel.name()
    }

    /// The values of its static indices.
    pub fn bindings(&self) -> &'a [i64] {
        self.bindings
    }
}

/// Launches of all kernels of a sequence, each behind the one before.
#[derive(Debug)]
pub struct SequenceTask<'a> {
    sequence: &'a BoundSequence,
    bindings: &'a [i64],
}

impl<'a> SequenceTask<'a> {
    /// `bindings` are the values of the first kernel's static indices, then the second one's, and so on.
    ///
    /// # Errors
    ///
    /// [`DriverError::Arity`] and [`DriverError::BindingRange`].
    ///
    /// # Safety
    ///
    /// As for [`LaunchTask::new`], of each of the kernels.
    pub(crate) unsafe fn new(
        sequence: &'a BoundSequence,
        bindings: &'a [i64],
    ) -> Result<SequenceTask<'a>, DriverError> {
        sequence.check(bindings)?;
        Ok(SequenceTask { sequence, bindings })
    }

    /// The sequence, as the driver made it.
    pub fn sequence(&self) -> &'a SequenceHandle {
        self.sequence.handle()
    }

    /// The values of the first kernel's static indices, then the second one's, and so on.
    pub fn bindings(&self) -> &'a [i64] {
        self.bindings
    }

    /// How many kernels there are.
    pub(crate) fn kernels(&self) -> &'a [BoundKernel] {
        self.sequence.kernels()
    }

    /// The same as one launch per kernel, which are to be handed to the same stream in this order; trailing
    /// ones may be left out.
    pub fn into_launches(self) -> impl Iterator<Item = LaunchTask<'a>> {
        let mut rest = self.bindings;
        self.sequence.kernels().iter().map(move |kernel| {
            let (bindings, behind) = rest.split_at(kernel.static_indices());
            rest = behind;
            LaunchTask { kernel, bindings }
        })
    }
}

/// Filling memory, which is writable, with zeros.
#[derive(Debug)]
pub struct FillTask {
    dst: MemoryRange,
}

impl FillTask {
    /// # Errors
    ///
    /// [`DriverError::ReadOnly`].
    ///
    /// # Safety
    ///
    /// The task is handed to a stream of the range's driver on which it is [ordered](super#order).
    pub(crate) unsafe fn new(dst: MemoryRange) -> Result<FillTask, DriverError> {
        dst.check_writable()?;
        Ok(FillTask { dst })
    }

    /// The memory that is filled.
    pub fn dst(&self) -> &MemoryRange {
        &self.dst
    }

    /// Shortens the task to its first `bytes` bytes, if it has more.
    #[must_use]
    pub fn up_to(self, bytes: usize) -> FillTask {
        FillTask { dst: self.dst.up_to(bytes) }
    }
}

/// Copying a host array to memory, which is writable and as long as the array. The task owns its share of the
/// array.
#[derive(Debug)]
pub struct CopyInTask {
    dst: MemoryRange,
    src: Arc<HostArray>,
}

impl CopyInTask {
    /// # Errors
    ///
    /// [`DriverError::ReadOnly`] and [`DriverError::ArraySize`].
    ///
    /// # Safety
    ///
    /// As for [`FillTask::new`].
    pub(crate) unsafe fn new(dst: MemoryRange, src: Arc<HostArray>) -> Result<CopyInTask, DriverError> {
        dst.check_writable()?;
        check_array(&dst, src.size_bytes())?;
        Ok(CopyInTask { dst, src })
    }

    /// The memory that is written.
    pub fn dst(&self) -> &MemoryRange {
        &self.dst
    }

    /// The bytes to write, as many as the range has.
    pub fn src(&self) -> &[u8] {
        // The array was as long when the task was made, and is not changed while it is shared.
        &self.src.bytes()[..self.dst.bytes()]
    }

    #[cfg(test)]
    pub(crate) fn array(&self) -> &Arc<HostArray> {
        &self.src
    }

    /// Shortens the task to its first `bytes` bytes, if it has more.
    #[must_use]
    pub fn up_to(self, bytes: usize) -> CopyInTask {
        CopyInTask { dst: self.dst.up_to(bytes), src: self.src }
    }
}

/// Copying memory to a host array that is as long. The host takes the array after the event behind the task.
#[derive(Debug)]
pub struct CopyOutTask {
    src: MemoryRange,
    dst: HostLanding,
}

impl CopyOutTask {
    /// # Errors
    ///
    /// [`DriverError::ArraySize`].
    ///
    /// # Safety
    ///
    /// As for [`FillTask::new`].
    pub(crate) unsafe fn new(src: MemoryRange, dst: HostLanding) -> Result<CopyOutTask, DriverError> {
        check_array(&src, dst.bytes())?;
        Ok(CopyOutTask { src, dst })
    }

    /// The memory that is read.
    pub fn src(&self) -> &MemoryRange {
        &self.src
    }

    /// Where the bytes arrive, from the array's beginning.
    pub fn dst(&self) -> &HostLanding {
        &self.dst
    }

    /// Shortens the task to its first `bytes` bytes, if it has more.
    #[must_use]
    pub fn up_to(self, bytes: usize) -> CopyOutTask {
        CopyOutTask { src: self.src.up_to(bytes), dst: self.dst }
    }
}

/// Copying memory to other memory of the same length, which is writable and does not overlap it.
#[derive(Debug)]
pub struct CopyTask {
    dst: MemoryRange,
    src: MemoryRange,
}

impl CopyTask {
    /// # Errors
    ///
    /// [`DriverError::ReadOnly`], [`DriverError::CopySize`] and [`DriverError::CopyOverlap`].
    ///
    /// # Safety
    ///
    /// As for [`FillTask::new`], of both ranges.
    pub(crate) unsafe fn new(dst: MemoryRange, src: MemoryRange) -> Result<CopyTask, DriverError> {
        dst.check_writable()?;
        if dst.bytes() != src.bytes() {
            let (to, from) = (dst.location(), src.location());
            return Err(DriverError::CopySize { to, expected: dst.bytes(), from, found: src.bytes() });
        }
        if dst.overlaps(&src) {
            let (to, from, bytes) = (dst.location(), src.location(), dst.bytes());
            return Err(DriverError::CopyOverlap { to, from, bytes });
        }
        Ok(CopyTask { dst, src })
    }

    /// The memory that is written.
    pub fn dst(&self) -> &MemoryRange {
        &self.dst
    }

    /// The memory that is read.
    pub fn src(&self) -> &MemoryRange {
        &self.src
    }

    /// Shortens the task to its first `bytes` bytes, if it has more.
    #[must_use]
    pub fn up_to(self, bytes: usize) -> CopyTask {
        CopyTask { dst: self.dst.up_to(bytes), src: self.src.up_to(bytes) }
    }
}

fn check_array(range: &MemoryRange, array: usize) -> Result<(), DriverError> {
    if range.bytes() == array {
        return Ok(());
    }
    Err(DriverError::ArraySize { at: range.location(), expected: range.bytes(), found: array })
}

/// A host array that a copy from a device arrives in. It keeps its size until the host takes it. Cheap to
/// clone; clones are the same array.
#[derive(Clone)]
pub struct HostLanding {
    array: Arc<Mutex<Option<HostArray>>>,
    bytes: usize,
}

impl HostLanding {
    /// An array to be filled.
    pub fn new(array: HostArray) -> HostLanding {
        let bytes = array.size_bytes();
        HostLanding { array: Arc::new(Mutex::new(Some(array))), bytes }
    }

    /// Bytes of the array.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Lets `fill` write `bytes` bytes from `offset` on, for drivers; not where the array is shorter, or
    /// taken.
    pub fn fill(&self, offset: usize, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        if let Some(array) = &mut *lock(&self.array)
            && let Some(bytes) = array.bytes_mut().get_mut(offset..offset.saturating_add(bytes))
        {
            fill(bytes);
        }
    }

    /// Takes the array, once. Bytes that arrive later are dropped.
    pub fn take(&self) -> Option<HostArray> {
        lock(&self.array).take()
    }

    /// Where the array's bytes are.
    #[cfg(test)]
    pub(crate) fn address(&self) -> Option<usize> {
        lock(&self.array).as_ref().map(|array| array.bytes().as_ptr() as usize)
    }
}

impl fmt::Debug for HostLanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostLanding({} bytes)", self.bytes)
    }
}
