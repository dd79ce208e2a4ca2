//! Calls a driver without contexts, with the runtime's checks.
#![allow(unsafe_code, reason = "declares unsafe methods, whose callers vouch for order")]

use std::{
    collections::BTreeMap,
    fmt,
    ops::Deref,
    sync::{Arc, Mutex},
};

use codegen_core::Artifact;
use smallvec::SmallVec;
use tnode::HostArray;

use crate::{
    check,
    checked::{
        BoundKernel, BoundSequence, CopyInTask, CopyOutTask, CopyTask, FillTask, HostReadback, LaunchTask,
        LoadedKernel, LoadedModule, MemoryRange, PoolMemory, SequenceTask, SharedMemory,
    },
    driver::{Driver, Location, PoolId, StreamHandle},
    error::{DriverError, Result},
    pool::lock,
};

/// A driver with numbered pools, for tests of drivers and for tasks without contexts.
///
/// Everything is checked as the runtime checks it, with the runtime's errors. The runtime ensures one further
/// condition, which here the caller of the unsafe methods must ensure: **order**. While a task runs, no other
/// task writes the bytes that it reads, and no other task accesses the bytes that it writes. Tasks are
/// ordered if they are on one stream of this driver, or if the stream of the later one was made to wait, by
/// [`Driver::wait`], for an event recorded after the earlier one.
///
/// It dereferences to the driver, for streams, events and properties.
///
/// ```
/// use std::sync::Arc;
/// use device_runtime::{DirectDriver, Driver, HostReadback, Location, NullDevice, PoolId};
/// use tnode::{DType, HostArray};
///
/// let driver = DirectDriver::new(Arc::new(NullDevice::new()));
/// let stream = driver.new_stream("stream 0")?;
/// driver.alloc_pool(PoolId(1), 64)?;
/// let readback = HostReadback::new(HostArray::zeros(DType::F32, [4])?);
/// // SAFETY: all tasks are on one stream.
/// unsafe { driver.copy_out(&stream, Location { pool: PoolId(1), offset: 32 }, &readback)? };
/// driver.sync(&driver.record(&stream)?)?;
/// assert_eq!(readback.take().map(|array| array.values()), Some(vec![0.; 4]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DirectDriver<D: ?Sized> {
    driver: Arc<D>,
    pools: Mutex<BTreeMap<PoolId, PoolMemory>>,
}

impl<D: Driver + ?Sized> DirectDriver<D> {
    /// Wraps a driver, which may have other users.
    pub fn new(driver: Arc<D>) -> DirectDriver<D> {
        DirectDriver { driver, pools: Mutex::default() }
    }

    /// The driver that this value wraps. It may have other users.
    pub fn driver(&self) -> &Arc<D> {
        &self.driver
    }

    /// Makes a pool, and frees an earlier one with the same number.
    ///
    /// # Errors
    ///
    /// Fails like [`Driver::alloc_pool`].
    pub fn alloc_pool(&self, pool: PoolId, bytes: usize) -> Result<()> {
        self.insert(pool, PoolMemory::allocate(&*self.driver, pool, bytes)?);
        Ok(())
    }

    /// Forgets a pool. Its memory exists until the kernels bound to it are dropped and its tasks are done.
    pub fn free_pool(&self, pool: PoolId) {
        let freed = lock(&self.pools).remove(&pool);
        // The memory is freed outside of the lock.
        drop(freed);
    }

    /// Makes a pool accessible to other drivers.
    ///
    /// # Errors
    ///
    /// [`DriverError::NoSuchPool`], and the errors of [`Driver::export`].
    pub fn export(&self, pool: PoolId) -> Result<SharedMemory> {
        let pools = lock(&self.pools);
        pools.get(&pool).ok_or(DriverError::NoSuchPool { pool })?.export(&*self.driver)
    }

    /// Makes a pool of existing memory, and frees an earlier one with the same number.
    ///
    /// # Errors
    ///
    /// Fails like [`Driver::import`].
    pub fn import(&self, pool: PoolId, memory: &SharedMemory) -> Result<()> {
        self.insert(pool, PoolMemory::import(&*self.driver, pool, memory)?);
        Ok(())
    }

    fn insert(&self, pool: PoolId, memory: PoolMemory) {
        let replaced = lock(&self.pools).insert(pool, memory);
        drop(replaced);
    }

    /// The range of `bytes` bytes at a location.
    ///
    /// # Errors
    ///
    /// [`DriverError::NoSuchPool`] and [`DriverError::OutOfBounds`].
    pub fn range(&self, at: Location, bytes: usize) -> Result<MemoryRange> {
        let pools = lock(&self.pools);
        pools.get(&at.pool).ok_or(DriverError::NoSuchPool { pool: at.pool })?.range(at.offset, bytes)
    }

    /// Makes an artifact's code ready to run.
    ///
    /// # Errors
    ///
    /// Fails like [`Driver::load`].
    pub fn load(&self, artifact: &Artifact) -> Result<LoadedModule> {
        LoadedModule::load(&*self.driver, artifact)
    }

    /// Binds a kernel to its memory, given by the location of each memory parameter.
    ///
    /// # Errors
    ///
    /// [`DriverError::Arity`], [`DriverError::NoSuchPool`], [`DriverError::OutOfBounds`],
    /// [`DriverError::Misaligned`], [`DriverError::Overlap`], [`DriverError::ReadOnly`], and the errors of
    /// [`Driver::bind`].
    pub fn bind(&self, kernel: &LoadedKernel, places: &[Location]) -> Result<BoundKernel> {
        let abi = kernel.abi();
        check::count(&abi.name, "memory parameters", check::memory_params(abi).count(), places.len())?;
        let params = places.iter().zip(check::memory_params(abi));
        let ranges = params.map(|(&at, (_, bytes))| self.range(at, bytes));
        kernel.bind(&*self.driver, &ranges.collect::<Result<SmallVec<[_; 8]>, _>>()?)
    }

    /// Submits a kernel with one value per static index.
    ///
    /// # Safety
    ///
    /// The task is ordered; see the type.
    ///
    /// # Errors
    ///
    /// [`DriverError::Arity`], [`DriverError::BindingRange`], and the errors of [`Driver::launch`].
    pub unsafe fn launch(&self, stream: &StreamHandle, kernel: &BoundKernel, bindings: &[i64]) -> Result<()> {
        // SAFETY: the caller guarantees that the task is ordered.
        let task = unsafe { LaunchTask::new(kernel, bindings)? };
        self.driver.launch(stream, task)
    }

    /// Prepares kernels for being launched together; none if the driver gains nothing by that.
    ///
    /// # Errors
    ///
    /// Fails like [`Driver::sequence`].
    pub fn sequence(&self, kernels: &[BoundKernel]) -> Result<Option<BoundSequence>> {
        BoundSequence::new(&*self.driver, kernels)
    }

    /// Submits all kernels of a sequence. `bindings` has one value per static index, kernel by kernel.
    /// Returns false if nothing was submitted.
    ///
    /// # Safety
    ///
    /// The task is ordered; see the type.
    ///
    /// # Errors
    ///
    /// [`DriverError::Arity`], [`DriverError::BindingRange`], and the errors of [`Driver::launch_sequence`].
    pub unsafe fn launch_sequence(
        &self,
        stream: &StreamHandle,
        sequence: &BoundSequence,
        bindings: &[i64],
    ) -> Result<bool> {
        // SAFETY: the caller guarantees that the task is ordered.
        let task = unsafe { SequenceTask::new(sequence, bindings)? };
        self.driver.launch_sequence(stream, task)
    }

    /// Submits a task that fills `bytes` bytes with zeros.
    ///
    /// # Safety
    ///
    /// The task is ordered; see the type.
    ///
    /// # Errors
    ///
    /// Fails like [`DirectDriver::range`] and [`Driver::memset_zero`], and with [`DriverError::ReadOnly`].
    pub unsafe fn memset_zero(&self, stream: &StreamHandle, dst: Location, bytes: usize) -> Result<()> {
        // SAFETY: the caller guarantees that the task is ordered.
        let task = unsafe { FillTask::new(self.range(dst, bytes)?)? };
        self.driver.memset_zero(stream, task)
    }

    /// Submits a copy of a host array to the device.
    ///
    /// # Safety
    ///
    /// The task is ordered; see the type.
    ///
    /// # Errors
    ///
    /// Fails like [`DirectDriver::range`] and [`Driver::copy_in`], and with [`DriverError::ReadOnly`].
    pub unsafe fn copy_in(&self, stream: &StreamHandle, dst: Location, src: &Arc<HostArray>) -> Result<()> {
        // SAFETY: the caller guarantees that the task is ordered.
        let task = unsafe { CopyInTask::new(self.range(dst, src.size_bytes())?, Arc::clone(src))? };
        self.driver.copy_in(stream, task)
    }

    /// Submits a copy from the device to a host array.
    ///
    /// # Safety
    ///
    /// The task is ordered; see the type.
    ///
    /// # Errors
    ///
    /// Fails like [`DirectDriver::range`] and [`Driver::copy_out`].
    pub unsafe fn copy_out(&self, stream: &StreamHandle, src: Location, dst: &HostReadback) -> Result<()> {
        // SAFETY: the caller guarantees that the task is ordered.
        let task = unsafe { CopyOutTask::new(self.range(src, dst.bytes())?, dst.clone())? };
        self.driver.copy_out(stream, task)
    }

    /// Submits a copy of `bytes` bytes within the device.
    ///
    /// # Safety
    ///
    /// The task is ordered; see the type.
    ///
    /// # Errors
    ///
    /// Fails like [`DirectDriver::range`] and [`Driver::copy`], and with [`DriverError::ReadOnly`] or
    /// [`DriverError::CopyOverlap`].
    pub unsafe fn copy(
        &self,
        stream: &StreamHandle,
        dst: Location,
        src: Location,
        bytes: usize,
    ) -> Result<()> {
        // SAFETY: the caller guarantees that the task is ordered.
        let task = unsafe { CopyTask::new(self.range(dst, bytes)?, self.range(src, bytes)?)? };
        self.driver.copy(stream, task)
    }
}

impl<D: ?Sized> Deref for DirectDriver<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.driver
    }
}

impl<D: Driver + ?Sized> fmt::Debug for DirectDriver<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pools: Vec<_> = lock(&self.pools).values().map(|pool| (pool.id().0, pool.bytes())).collect();
        f.debug_struct("DirectDriver").field("driver", &self.driver.name()).field("pools", &pools).finish()
    }
}
