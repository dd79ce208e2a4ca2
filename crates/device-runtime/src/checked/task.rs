//! Tasks that access memory, as drivers receive them: checked, and ordered against all conflicting tasks.

use std::{
    any::Any,
    fmt,
    sync::{Arc, Mutex},
};

use tnode::HostArray;

use super::{BoundKernel, BoundSequence, MemoryRange};
use crate::{
    driver::{BoundHandle, SequenceHandle},
    error::{DriverError, Result},
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
    /// The task is submitted to a stream of the kernel's driver on which it is [ordered](super#order).
    pub(crate) unsafe fn new(kernel: &'a BoundKernel, bindings: &'a [i64]) -> Result<LaunchTask<'a>> {
        kernel.check(bindings)?;
        Ok(LaunchTask { kernel, bindings })
    }

    /// The driver's handle of the bound kernel.
    pub fn kernel(&self) -> &'a BoundHandle {
        self.kernel.handle()
    }

    /// The name of the kernel, for messages.
    pub fn name(&self) -> &'a str {
        self.kernel.name()
    }

    /// The values of the static indices.
    pub fn bindings(&self) -> &'a [i64] {
        self.bindings
    }
}

/// Launches of all kernels of a sequence, each after the one before.
#[derive(Debug)]
pub struct SequenceTask<'a> {
    sequence: &'a BoundSequence,
    bindings: &'a [i64],
}

impl<'a> SequenceTask<'a> {
    /// `bindings` has one value per static index, kernel by kernel.
    ///
    /// # Errors
    ///
    /// [`DriverError::Arity`] and [`DriverError::BindingRange`].
    ///
    /// # Safety
    ///
    /// The conditions of [`LaunchTask::new`] hold for each of the kernels.
    pub(crate) unsafe fn new(sequence: &'a BoundSequence, bindings: &'a [i64]) -> Result<SequenceTask<'a>> {
        sequence.check(bindings)?;
        Ok(SequenceTask { sequence, bindings })
    }

    /// The driver's handle of the sequence.
    pub fn sequence(&self) -> &'a SequenceHandle {
        self.sequence.handle()
    }

    /// One value per static index, kernel by kernel.
    pub fn bindings(&self) -> &'a [i64] {
        self.bindings
    }

    pub(crate) fn kernels(&self) -> &'a [BoundKernel] {
        self.sequence.kernels()
    }

    /// The same work as one launch per kernel. The launches must be submitted to the same stream in this
    /// order; trailing ones may be left out.
    pub(crate) fn into_launches(self) -> impl Iterator<Item = LaunchTask<'a>> {
        let mut rest = self.bindings;
        self.sequence.kernels().iter().map(move |kernel| {
            let (bindings, behind) = rest.split_at(kernel.static_indices());
            rest = behind;
            LaunchTask { kernel, bindings }
        })
    }
}

/// A task that fills writable memory with zeros.
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
    /// The task is submitted to a stream of the range's driver on which it is [ordered](super#order).
    pub(crate) unsafe fn new(dst: MemoryRange) -> Result<FillTask> {
        dst.check_writable()?;
        Ok(FillTask { dst })
    }

    /// The range that the task writes.
    pub fn dst(&self) -> &MemoryRange {
        &self.dst
    }

    /// Shortens the task to its first `bytes` bytes, if it has more.
    #[must_use]
    pub fn up_to(self, bytes: usize) -> FillTask {
        FillTask { dst: self.dst.up_to(bytes) }
    }
}

/// A copy of a host array to writable memory of the same size. The task owns a reference to the array.
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
    /// The same as for [`FillTask::new`].
    pub(crate) unsafe fn new(dst: MemoryRange, src: Arc<HostArray>) -> Result<CopyInTask> {
        dst.check_writable()?;
        check_array(&dst, src.size_bytes())?;
        Ok(CopyInTask { dst, src })
    }

    /// The range that the task writes.
    pub fn dst(&self) -> &MemoryRange {
        &self.dst
    }

    /// The source bytes, as many as the destination has.
    pub fn src(&self) -> &[u8] {
        // The sizes were equal when the task was made, and an array does not change while it is shared.
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

/// A copy of memory to a host array of the same size. The host takes the array once an event recorded after
/// the task is done.
#[derive(Debug)]
pub struct CopyOutTask {
    src: MemoryRange,
    dst: HostReadback,
}

impl CopyOutTask {
    /// # Errors
    ///
    /// [`DriverError::ArraySize`].
    ///
    /// # Safety
    ///
    /// The same as for [`FillTask::new`].
    pub(crate) unsafe fn new(src: MemoryRange, dst: HostReadback) -> Result<CopyOutTask> {
        check_array(&src, dst.bytes())?;
        Ok(CopyOutTask { src, dst })
    }

    /// The range that the task reads.
    pub fn src(&self) -> &MemoryRange {
        &self.src
    }

    /// The destination, which is filled from its beginning.
    pub fn dst(&self) -> &HostReadback {
        &self.dst
    }

    /// Shortens the task to its first `bytes` bytes, if it has more.
    #[must_use]
    pub fn up_to(self, bytes: usize) -> CopyOutTask {
        CopyOutTask { src: self.src.up_to(bytes), dst: self.dst }
    }
}

/// A copy of memory to writable memory of the same size that does not overlap it.
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
    /// The condition of [`FillTask::new`] holds for both ranges.
    pub(crate) unsafe fn new(dst: MemoryRange, src: MemoryRange) -> Result<CopyTask> {
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

    /// The range that the task writes.
    pub fn dst(&self) -> &MemoryRange {
        &self.dst
    }

    /// The range that the task reads.
    pub fn src(&self) -> &MemoryRange {
        &self.src
    }

    /// Shortens the task to its first `bytes` bytes, if it has more.
    #[must_use]
    pub fn up_to(self, bytes: usize) -> CopyTask {
        CopyTask { dst: self.dst.up_to(bytes), src: self.src.up_to(bytes) }
    }
}

/// A function of the user, with the memory that it may read and write. Clones are the same function, which
/// runs once.
#[derive(Clone)]
pub(crate) struct HostFunction(Arc<Mutex<Option<BoxedFunction>>>);

type BoxedFunction = Box<dyn FnOnce(&mut [&mut [u8]]) -> Result<(), String> + Send>;

impl HostFunction {
    pub(crate) fn new(
        run: impl FnOnce(&mut [&mut [u8]]) -> Result<(), String> + Send + 'static,
    ) -> HostFunction {
        HostFunction(Arc::new(Mutex::new(Some(Box::new(run)))))
    }

    /// Calls the function, unless a clone has called it.
    pub(crate) fn run(&self, memory: &mut [&mut [u8]]) -> Result<(), String> {
        let run = lock(&self.0).take();
        run.map_or_else(|| Err("the function has run already".to_owned()), |run| run(memory))
    }
}

/// A function of the user on writable ranges of memory that do not overlap. If it returns an error or panics,
/// the stream fails.
pub struct HostAccessTask {
    name: String,
    memory: Vec<MemoryRange>,
    function: HostFunction,
}

impl HostAccessTask {
    /// # Errors
    ///
    /// [`DriverError::ReadOnly`] and [`DriverError::AccessOverlap`].
    ///
    /// # Safety
    ///
    /// The condition of [`FillTask::new`] holds for all ranges.
    pub(crate) unsafe fn new(
        name: String,
        memory: Vec<MemoryRange>,
        function: HostFunction,
    ) -> Result<HostAccessTask> {
        check_apart(&name, &memory)?;
        Ok(HostAccessTask { name, memory, function })
    }

    /// The name of the function, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The ranges that the function may read and write, in the order in which it takes them.
    pub fn memory(&self) -> &[MemoryRange] {
        &self.memory
    }

    /// Calls the function with the bytes of the ranges, in order.
    ///
    /// # Errors
    ///
    /// The message of the function's failure.
    pub fn run(self, memory: &mut [&mut [u8]]) -> Result<(), String> {
        self.function.run(memory)
    }
}

impl fmt::Debug for HostAccessTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostAccessTask({})", self.name)
    }
}

/// An operation of a driver's own on writable ranges of memory that do not overlap.
pub struct DeviceAccessTask {
    name: String,
    memory: Vec<MemoryRange>,
    operation: DeviceOperation,
}

/// An operation that only its driver knows.
pub type DeviceOperation = Arc<dyn Any + Send + Sync>;

impl DeviceAccessTask {
    /// # Errors
    ///
    /// [`DriverError::ReadOnly`] and [`DriverError::AccessOverlap`].
    ///
    /// # Safety
    ///
    /// The condition of [`FillTask::new`] holds for all ranges.
    pub(crate) unsafe fn new(
        name: String,
        memory: Vec<MemoryRange>,
        operation: DeviceOperation,
    ) -> Result<DeviceAccessTask> {
        check_apart(&name, &memory)?;
        Ok(DeviceAccessTask { name, memory, operation })
    }

    /// The name of the operation, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The ranges that the operation may read and write, in its order.
    pub fn memory(&self) -> &[MemoryRange] {
        &self.memory
    }

    /// The operation, if it is of this type.
    ///
    /// # Errors
    ///
    /// [`DriverError::ForeignHandle`] for an operation of another driver.
    pub fn operation<T: Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        let operation = Arc::clone(&self.operation).downcast();
        operation.map_err(|_| DriverError::ForeignHandle { what: "operation" })
    }
}

impl fmt::Debug for DeviceAccessTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceAccessTask({})", self.name)
    }
}

/// Checks that ranges are writable and do not overlap.
fn check_apart(name: &str, memory: &[MemoryRange]) -> Result<()> {
    for (at, range) in memory.iter().enumerate() {
        range.check_writable()?;
        if let Some(other) = memory[..at].iter().find(|other| other.overlaps(range)) {
            let (first, second) = (other.location(), range.location());
            return Err(DriverError::AccessOverlap { function: name.to_owned(), first, second });
        }
    }
    Ok(())
}

fn check_array(range: &MemoryRange, array: usize) -> Result<()> {
    if range.bytes() == array {
        return Ok(());
    }
    Err(DriverError::ArraySize { at: range.location(), expected: range.bytes(), found: array })
}

/// A host array that receives a copy from a device. Its size is fixed until the host takes it. Cheap to
/// clone; clones refer to the same array.
#[derive(Clone)]
pub struct HostReadback {
    array: Arc<Mutex<Option<HostArray>>>,
    bytes: usize,
}

impl HostReadback {
    /// An array to be filled.
    pub fn new(array: HostArray) -> HostReadback {
        let bytes = array.size_bytes();
        HostReadback { array: Arc::new(Mutex::new(Some(array))), bytes }
    }

    /// Size of the array, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Lets a driver write `bytes` bytes from `offset` on. Does nothing if the array is shorter or has been
    /// taken.
    pub fn fill(&self, offset: usize, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        if let Some(array) = &mut *lock(&self.array)
            && let Some(bytes) = array.bytes_mut().get_mut(offset..offset.saturating_add(bytes))
        {
            fill(bytes);
        }
    }

    /// Takes the array, once. Bytes that are copied later are dropped.
    pub fn take(&self) -> Option<HostArray> {
        lock(&self.array).take()
    }

    /// The address of the array's bytes.
    #[cfg(test)]
    pub(crate) fn address(&self) -> Option<usize> {
        lock(&self.array).as_ref().map(|array| array.bytes().as_ptr() as usize)
    }
}

impl fmt::Debug for HostReadback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostReadback({} bytes)", self.bytes)
    }
}
