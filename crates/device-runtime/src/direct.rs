//! A driver driven by hand: the runtime's checks without its contexts.
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
        BoundKernel, BoundSequence, CopyInTask, CopyOutTask, CopyTask, FillTask, HostLanding, LaunchTask,
        LoadedKernel, LoadedModule, MemoryRange, PoolMemory, SequenceTask, SharedMemory,
    },
    driver::{Driver, Location, PoolId, StreamHandle},
    error::DriverError,
    pool::lock,
};

/// A driver with numbered pools, for tests of drivers and for tasks without contexts.
///
/// Everything is checked as the runtime checks it, and the errors are the runtime's. One thing is left to the
/// caller of the unsafe methods, which the runtime does for contexts: **order**. While a task runs, no other
/// task writes the bytes it reads, and no other task touches the bytes it writes; tasks are ordered by being
/// on one stream of this driver, or by [`Driver::wait`] on an event recorded behind the other.
///
/// Streams, events and facts are the driver's own: it dereferences to it.
///
/// ```
/// use std::sync::Arc;
/// use device_runtime::{DirectDriver, Driver, HostLanding, Location, NullDevice, PoolId};
/// use tnode::{DType, HostArray};
///
/// let driver = DirectDriver::new(Arc::new(NullDevice::new()));
/// let stream = driver.new_stream("by hand")?;
/// driver.alloc_pool(PoolId(1), 64)?;
/// let landing = HostLanding::new(HostArray::zeros(DType::F32, [4])?);
/// // SAFETY: all tasks are on one stream.
/// unsafe { driver.copy_out(&stream, Location { pool: PoolId(1), offset: 32 }, &landing)? };
/// driver.sync(&driver.record(&stream)?)?;
/// assert_eq!(landing.take().map(|array| array.values()), Some(vec![0.; 4]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DirectDriver<D: ?Sized> {
    driver: Arc<D>,
    pools: Mutex<BTreeMap<PoolId, PoolMemory>>,
}

impl<D: Driver + ?Sized> DirectDriver<D> {
    /// Drives a driver that may have other users.
    pub fn new(driver: Arc<D>) -> DirectDriver<D> {
        DirectDriver { driver, pools: Mutex::default() }
    }

    /// The driver that is driven.
    pub fn driver(&self) -> &Arc<D> {
        &self.driver
    }

    /// Makes a pool. One that has the number is freed.
    ///
    /// # Errors
    ///
    /// As [`Driver::alloc_pool`].
    pub fn alloc_pool(&self, pool: PoolId, bytes: usize) -> Result<(), DriverError> {
        self.insert(pool, PoolMemory::allocate(&*self.driver, pool, bytes)?);
        Ok(())
    }

    /// Forgets a pool. Its memory lives until the kernels bound to it are dropped and its tasks are done.
    pub fn free_pool(&self, pool: PoolId) {
        let freed = lock(&self.pools).remove(&pool);
        // Freed outside of the lock.
        drop(freed);
    }

    /// Lets other drivers reach a pool.
    ///
    /// # Errors
    ///
    /// As [`Driver::export`], and [`DriverError::NoSuchPool`].
    pub fn export(&self, pool: PoolId) -> Result<SharedMemory, DriverError> {
        let pools = lock(&self.pools);
        pools.get(&pool).ok_or(DriverError::NoSuchPool { pool })?.export(&*self.driver)
    }

    /// Makes a pool of memory that exists. One that has the number is freed.
    ///
    /// # Errors
    ///
    /// As [`Driver::import`].
    pub fn import(&self, pool: PoolId, memory: &SharedMemory) -> Result<(), DriverError> {
        self.insert(pool, PoolMemory::import(&*self.driver, pool, memory)?);
        Ok(())
    }

    fn insert(&self, pool: PoolId, memory: PoolMemory) {
        let replaced = lock(&self.pools).insert(pool, memory);
        drop(replaced);
    }

    /// The bytes from a place on.
    ///
    /// # Errors
    ///
    /// [`DriverError::NoSuchPool`] and [`DriverError::OutOfBounds`].
    pub fn range(&self, at: Location, bytes: usize) -> Result<MemoryRange, DriverError> {
        let pools = lock(&self.pools);
        pools.get(&at.pool).ok_or(DriverError::NoSuchPool { pool: at.pool })?.range(at.offset, bytes)
    }

    /// Makes an artifact's code ready to run.
    ///
    /// # Errors
    ///
    /// As [`Driver::load`].
    pub fn load(&self, artifact: &Artifact) -> Result<LoadedModule, DriverError> {
        LoadedModule::load(&*self.driver, artifact)
    }

    /// The kernel at a position of the artifact.
    ///
    /// # Errors
    ///
    /// As [`Driver::kernel`].
    pub fn kernel(&self, module: &LoadedModule, index: usize) -> Result<LoadedKernel, DriverError> {
        module.kernel(&*self.driver, index)
    }

    /// Fixes a kernel's memory: the place of each memory parameter.
    ///
    /// # Errors
    ///
    /// [`DriverError::Arity`], [`DriverError::NoSuchPool`], [`DriverError::OutOfBounds`],
    /// [`DriverError::Misaligned`], [`DriverError::Overlap`], [`DriverError::ReadOnly`], and as
    /// [`Driver::bind`].
    pub fn bind(&self, kernel: &LoadedKernel, places: &[Location]) -> Result<BoundKernel, DriverError> {
        let abi = kernel.abi();
        check::count(&abi.name, "memory parameters", check::memory_params(abi).count(), places.len())?;
        let params = places.iter().zip(check::memory_params(abi));
        let ranges = params.map(|(&at, (_, bytes))| self.range(at, bytes));
        kernel.bind(&*self.driver, &ranges.collect::<Result<SmallVec<[_; 8]>, _>>()?)
    }

    /// Enqueues a kernel with one value per static index.
    ///
    /// # Safety
    ///
    /// The task is ordered; see the type.
    ///
    /// # Errors
    ///
    /// [`DriverError::Arity`], [`DriverError::BindingRange`], and as [`Driver::launch`].
    pub unsafe fn launch(
        &self,
        stream: &StreamHandle,
        kernel: &BoundKernel,
        bindings: &[i64],
    ) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        let task = unsafe { LaunchTask::new(kernel, bindings)? };
        self.driver.launch(stream, task)
    }

    /// Makes kernels ready to be launched together; none where the driver gains nothing by that.
    ///
    /// # Errors
    ///
    /// As [`Driver::sequence`].
    pub fn sequence(&self, kernels: &[BoundKernel]) -> Result<Option<BoundSequence>, DriverError> {
        BoundSequence::new(&*self.driver, kernels)
    }

    /// Enqueues all kernels of a sequence with the values of the first one's static indices, then the second
    /// one's, and so on. `false` where nothing was enqueued.
    ///
    /// # Safety
    ///
    /// The task is ordered; see the type.
    ///
    /// # Errors
    ///
    /// [`DriverError::Arity`], [`DriverError::BindingRange`], and as [`Driver::launch_sequence`].
    pub unsafe fn launch_sequence(
        &self,
        stream: &StreamHandle,
        sequence: &BoundSequence,
        bindings: &[i64],
    ) -> Result<bool, DriverError> {
        // SAFETY: the caller's promise.
        let task = unsafe { SequenceTask::new(sequence, bindings)? };
        self.driver.launch_sequence(stream, task)
    }

    /// Enqueues filling `bytes` bytes with zeros.
    ///
    /// # Safety
    ///
    /// The task is ordered; see the type.
    ///
    /// # Errors
    ///
    /// As [`DirectDriver::range`], [`DriverError::ReadOnly`], and as [`Driver::memset_zero`].
    pub unsafe fn memset_zero(
        &self,
        stream: &StreamHandle,
        dst: Location,
        bytes: usize,
    ) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        let task = unsafe { FillTask::new(self.range(dst, bytes)?)? };
        self.driver.memset_zero(stream, task)
    }

    /// Enqueues copying a host array.
    ///
    /// # Safety
    ///
    /// The task is ordered; see the type.
    ///
    /// # Errors
    ///
    /// As [`DirectDriver::range`], [`DriverError::ReadOnly`], and as [`Driver::copy_in`].
    pub unsafe fn copy_in(
        &self,
        stream: &StreamHandle,
        dst: Location,
        src: &Arc<HostArray>,
    ) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        let task = unsafe { CopyInTask::new(self.range(dst, src.size_bytes())?, Arc::clone(src))? };
        self.driver.copy_in(stream, task)
    }

    /// Enqueues filling a host array.
    ///
    /// # Safety
    ///
    /// The task is ordered; see the type.
    ///
    /// # Errors
    ///
    /// As [`DirectDriver::range`], and as [`Driver::copy_out`].
    pub unsafe fn copy_out(
        &self,
        stream: &StreamHandle,
        src: Location,
        dst: &HostLanding,
    ) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        let task = unsafe { CopyOutTask::new(self.range(src, dst.bytes())?, dst.clone())? };
        self.driver.copy_out(stream, task)
    }

    /// Enqueues copying `bytes` bytes within the device.
    ///
    /// # Safety
    ///
    /// The task is ordered; see the type.
    ///
    /// # Errors
    ///
    /// As [`DirectDriver::range`], [`DriverError::ReadOnly`], [`DriverError::CopyOverlap`], and as
    /// [`Driver::copy`].
    pub unsafe fn copy(
        &self,
        stream: &StreamHandle,
        dst: Location,
        src: Location,
        bytes: usize,
    ) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
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
