//! The memory of pools, and the tasks that access it. This module has all of the crate's unsafe code except
//! the implementation of `Driver` and the allocation of memory (`pages`).
//!
//! Invariants relied on:
//! * a [`PoolMemory`] is initialized, aligned and has `bytes` bytes until the last reference to it is
//!   dropped;
//! * a [`MemoryRegion`] is a [`MemoryRange`] of such memory, so it lies within the memory;
//! * the arguments of a [`BoundCode`] come from [`KernelArgs`]: they have the sizes that the ABI states,
//!   and the ranges that the kernel writes are writable and overlap none of its other ranges;
//! * a [`MemoryTask`] is made from one of the runtime's tasks, which are ordered against all conflicting
//!   tasks, and it runs at most once.
#![allow(unsafe_code, reason = "host memory and compiled kernels are reached through raw pointers")]

use std::{cell::Cell, fmt, ptr::NonNull, slice};

use codegen_core::{
    Access, KernelAbi,
    host::{HostArgs, HostModule, HostPtr},
};
use device_runtime::{
    BoundHandle, CopyInTask, CopyOutTask, CopyTask, DriverError, FillTask, HostAccessTask, HostReadback,
    KernelArgs, KernelTimer, LaunchTask, MemoryBudget, MemoryRange, MemoryReservation, SequenceTask, check,
};
use smallvec::SmallVec;
use tnode::HostArray;

use crate::{
    pages::{self, ALIGNMENT},
    pending_tasks::TaskQueue,
    running_time_estimate::RunningTimeEstimate,
    sync::{Arc, Ordering, atomic::AtomicBool},
    thread_pool::ThreadPool,
};

/// Copying or filling at most this many bytes takes less time than waking a thread.
const QUICK_BYTES: usize = 16 << 10;

/// The memory of a pool. Pools of several devices may refer to it.
pub(crate) struct PoolMemory {
    base: NonNull<u8>,
    bytes: usize,
    /// Whether a task that writes the memory was ever scheduled; until then the memory is all zeros.
    touched: AtomicBool,
    owner: MemoryOwner,
}

/// The owner of a pool's memory.
enum MemoryOwner {
    /// The pool.
    Pool { _reservation: MemoryReservation },
    /// A host array, kept alive while its bytes may be read. Nobody can write it meanwhile, since writing
    /// takes the only reference to the array.
    HostArray { _array: Arc<HostArray> },
    /// A host array that was given to the pool, counted like memory that the pool allocated. Nobody uses the
    /// array itself.
    Adopted { _array: Box<HostArray>, _reservation: MemoryReservation },
}

// SAFETY: the memory is owned, or belongs to a shared array that is kept alive; the runtime orders the tasks
// that access it.
unsafe impl Send for PoolMemory {}
// SAFETY: as above; the fields themselves are atomic or never change.
unsafe impl Sync for PoolMemory {}

impl PoolMemory {
    /// Allocates zeroed memory.
    ///
    /// # Errors
    ///
    /// [`DriverError::OutOfMemory`] if the budget is exceeded or the system has no memory.
    pub(crate) fn zeroed(bytes: usize, budget: &MemoryBudget) -> Result<Arc<PoolMemory>, DriverError> {
        let reservation = budget.reserve(bytes)?;
        let Some(base) = pages::allocate(bytes) else {
            drop(reservation);
            return Err(DriverError::OutOfMemory { requested: bytes, used: budget.used() });
        };
        let owner = MemoryOwner::Pool { _reservation: reservation };
        Ok(Arc::new(PoolMemory { base, bytes, touched: AtomicBool::new(false), owner }))
    }

    /// The memory of a host array, for reading; `None` if it is not aligned as pools are.
    pub(crate) fn of_host(array: Arc<HostArray>) -> Option<Arc<PoolMemory>> {
        let bytes = array.bytes();
        let base = NonNull::from(bytes).cast::<u8>();
        if !bytes.is_empty() && !base.addr().get().is_multiple_of(ALIGNMENT) {
            return None;
        }
        let bytes = bytes.len();
        pages::merge(base.as_ptr(), bytes);
        Some(Arc::new(PoolMemory {
            base,
            bytes,
            touched: AtomicBool::new(true),
            owner: MemoryOwner::HostArray { _array: array },
        }))
    }

    /// Takes over a host array's memory for reading and writing. Gives the array back if it is empty, has a
    /// smaller alignment than pools have, or would exceed the budget.
    pub(crate) fn adopted(
        mut array: Box<HostArray>,
        budget: &MemoryBudget,
    ) -> Result<Arc<PoolMemory>, Box<HostArray>> {
        let bytes = array.bytes().len();
        let base = NonNull::from(array.bytes_mut()).cast::<u8>();
        let is_aligned = bytes > 0 && base.addr().get().is_multiple_of(ALIGNMENT);
        let Some(reservation) = budget.reserve(bytes).ok().filter(|_| is_aligned) else { return Err(array) };
        pages::merge(base.as_ptr(), bytes);
        let owner = MemoryOwner::Adopted { _array: array, _reservation: reservation };
        Ok(Arc::new(PoolMemory { base, bytes, touched: AtomicBool::new(true), owner }))
    }

    /// Notes that a task that writes the memory is scheduled.
    fn touch(&self) {
        self.touched.store(true, Ordering::Relaxed);
    }

    /// Whether no task that writes the memory was ever scheduled.
    pub(crate) fn is_pristine(&self) -> bool {
        !self.touched.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for PoolMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

impl Drop for PoolMemory {
    fn drop(&mut self) {
        if let MemoryOwner::Pool { .. } = self.owner {
            // SAFETY: `zeroed` allocated the memory, and the last reference to it is being dropped.
            unsafe { pages::release(self.base, self.bytes) };
        }
    }
}

/// A range of a pool's memory; keeps the memory alive.
#[derive(Clone)]
pub(crate) struct MemoryRegion {
    memory: Arc<PoolMemory>,
    offset: usize,
    bytes: usize,
}

impl MemoryRegion {
    /// # Errors
    ///
    /// The memory belongs to another driver.
    fn new(range: &MemoryRange) -> Result<MemoryRegion, DriverError> {
        let memory: Arc<PoolMemory> = range.memory().share()?;
        let (offset, bytes) = (range.offset(), range.bytes());
        debug_assert!(offset + bytes <= memory.bytes, "ranges lie in their memory");
        Ok(MemoryRegion { memory, offset, bytes })
    }

    /// Like [`MemoryRegion::new`], for memory that a task will write.
    fn written(range: &MemoryRange) -> Result<MemoryRegion, DriverError> {
        let region = MemoryRegion::new(range)?;
        region.memory.touch();
        Ok(region)
    }

    fn base(&self) -> *mut u8 {
        // SAFETY: a range lies in its memory, so the offset is within the allocation, or one past its end.
        unsafe { self.memory.base.as_ptr().add(self.offset) }
    }

    /// The bytes, for reading.
    ///
    /// # Safety
    ///
    /// No thread writes the bytes while the slice exists.
    unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: the region lies within initialized memory that `self` keeps alive; the caller vouches for
        // the rest.
        unsafe { slice::from_raw_parts(self.base(), self.bytes) }
    }

    /// The bytes, for writing.
    ///
    /// # Safety
    ///
    /// No other thread accesses the bytes while the slice exists.
    #[allow(clippy::mut_from_ref, reason = "exclusiveness is the caller's promise")]
    unsafe fn as_mut_slice(&self) -> &mut [u8] {
        // SAFETY: the region lies within initialized memory that `self` keeps alive; the caller vouches for
        // the rest.
        unsafe { slice::from_raw_parts_mut(self.base(), self.bytes) }
    }
}

impl fmt::Debug for MemoryRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..+{}", self.offset, self.bytes)
    }
}

/// A kernel of a loaded artifact.
pub(crate) struct HostKernel {
    pub(crate) code: HostModule,
    pub(crate) index: usize,
    pub(crate) abi: KernelAbi,
}

/// A kernel with the memory that it accesses.
pub(crate) struct BoundCode {
    module: HostModule,
    index: usize,
    abi: KernelAbi,
    args: HostArgs,
    running_time: RunningTimeEstimate,
    /// Keeps alive the memory that the pointers in `args` point to.
    _regions: Vec<MemoryRegion>,
}

// SAFETY: `_regions` keeps the memory behind the pointers alive; the runtime orders the tasks that access it.
unsafe impl Send for BoundCode {}
// SAFETY: as above; the fields do not change after construction, but for the atomics of the estimate.
unsafe impl Sync for BoundCode {}

impl BoundCode {
    /// # Errors
    ///
    /// The kernel or the memory belongs to another driver.
    pub(crate) fn new(args: &KernelArgs<'_>) -> Result<BoundCode, DriverError> {
        let HostKernel { code, index, abi } = args.kernel().get()?;
        let (mut regions, mut pointers) = (Vec::new(), Vec::new());
        for (range, (access, bytes)) in args.ranges().iter().zip(check::memory_params(abi)) {
            let region = if access == Access::Read {
                MemoryRegion::new(range)?
            } else {
                MemoryRegion::written(range)?
            };
            pointers.push(HostPtr { base: region.base(), bytes, access });
            regions.push(region);
        }
        Ok(BoundCode::from_parts(code.clone(), *index, abi.clone(), pointers, regions))
    }

    fn from_parts(
        module: HostModule,
        index: usize,
        abi: KernelAbi,
        pointers: Vec<HostPtr>,
        _regions: Vec<MemoryRegion>,
    ) -> BoundCode {
        BoundCode {
            module,
            index,
            abi,
            args: HostArgs::new(pointers),
            running_time: RunningTimeEstimate::unknown(),
            _regions,
        }
    }
}

impl fmt::Debug for BoundCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.abi.name)
    }
}

/// A kernel launch: a kernel with its memory, and the values of its static indices.
#[derive(Clone, Debug)]
pub(crate) struct KernelLaunch {
    bound: Arc<BoundCode>,
    bindings: SmallVec<[i64; 8]>,
}

impl KernelLaunch {
    /// # Errors
    ///
    /// The kernel belongs to another driver.
    fn new(task: LaunchTask<'_>) -> Result<KernelLaunch, DriverError> {
        Ok(KernelLaunch { bound: task.kernel().share()?, bindings: task.bindings().into() })
    }

    /// Whether the kernel takes less time than waking a thread. Interpreted code may run arbitrary code, so
    /// it never counts as quick.
    fn is_quick(&self) -> bool {
        self.is_splittable() && self.bound.running_time.is_quick()
    }

    /// Whether a thread that is woken for a part of the kernel arrives too late.
    pub(crate) fn is_short(&self) -> bool {
        self.bound.running_time.is_short()
    }

    /// Whether the kernel takes less time than enqueueing it for another thread.
    fn is_tiny(&self) -> bool {
        self.is_splittable() && self.bound.running_time.is_tiny()
    }

    /// Runs the whole kernel, a task of `queue`, on this thread and on idle threads.
    fn run_whole(&self, pool: &ThreadPool, queue: Option<&TaskQueue>) -> Result<(), String> {
        self.bound.running_time.run(|| pool.run(self, queue))
    }

    /// The number of iterations of the parallel loop, and the smallest number for one of so many threads. If
    /// the loop ends at a static index, threads get equal parts, because code may prepare each part.
    pub(crate) fn extent_and_grain(&self, threads: usize) -> (u64, u64) {
        let launch = &self.bound.abi.launch;
        let extent = launch.extent_for(&self.bindings);
        let share = launch.end.map_or(0, |_| extent / threads.max(1) as u64);
        (extent, launch.grain.max(share))
    }

    pub(crate) fn is_splittable(&self) -> bool {
        self.bound.module.is_splittable(self.bound.index)
    }

    /// Runs the iterations `begin..end` of the parallel loop on this thread.
    ///
    /// # Errors
    ///
    /// The reason why the kernel stopped.
    pub(crate) fn run(&self, begin: u64, end: u64) -> Result<(), String> {
        let bound = &*self.bound;
        with_scratch(bound.abi.scratch_bytes, |scratch| {
            // SAFETY: the memory is that of `KernelArgs`, so it is disjoint and its number, sizes, alignment
            // and access are right, and its regions live as long as `bound`; a `LaunchTask` vouches for the
            // bindings and the order; only this call uses the scratch memory; the thread pool runs disjoint
            // chunks of `0..extent`.
            unsafe { bound.module.run(bound.index, &bound.args, &self.bindings, scratch, begin, end) }
        })
    }
}

/// The kernels of a routine, which one task runs.
pub(crate) struct KernelSequence {
    /// With the number of static indices of each.
    kernels: Vec<(Arc<BoundCode>, usize)>,
    /// Whether none is interpreted, so that the running time can be estimated.
    is_splittable: bool,
    running_time: RunningTimeEstimate,
}

impl KernelSequence {
    /// # Errors
    ///
    /// A kernel belongs to another driver.
    pub(crate) fn new(kernels: &[BoundHandle]) -> Result<KernelSequence, DriverError> {
        let kernel = |handle: &BoundHandle| {
            let bound: Arc<BoundCode> = handle.share()?;
            let indices = check::static_indices(&bound.abi);
            Ok((bound, indices))
        };
        let kernels = kernels.iter().map(kernel).collect::<Result<Vec<_>, DriverError>>()?;
        let is_splittable = kernels.iter().all(|(bound, _)| bound.module.is_splittable(bound.index));
        Ok(KernelSequence { kernels, is_splittable, running_time: RunningTimeEstimate::unknown() })
    }
}

/// A launch of all kernels of a sequence, each after the one before.
#[derive(Clone)]
pub(crate) struct SequenceLaunch {
    sequence: Arc<KernelSequence>,
    /// The values of the kernels' static indices, kernel by kernel.
    bindings: SmallVec<[i64; 8]>,
}

impl SequenceLaunch {
    /// # Errors
    ///
    /// The sequence belongs to another driver.
    pub(crate) fn new(task: &SequenceTask<'_>) -> Result<SequenceLaunch, DriverError> {
        Ok(SequenceLaunch { sequence: task.sequence().share()?, bindings: task.bindings().into() })
    }

    /// Whether all kernels together take less time than waking a thread.
    pub(crate) fn is_quick(&self) -> bool {
        self.sequence.is_splittable && self.sequence.running_time.is_quick()
    }

    /// Whether all kernels together take less time than enqueueing them for another thread.
    pub(crate) fn is_tiny(&self) -> bool {
        self.sequence.is_splittable && self.sequence.running_time.is_tiny()
    }

    /// Calls a function with the launch of each kernel, in order.
    pub(crate) fn each(&self, mut run: impl FnMut(MemoryTask)) {
        self.sequence.running_time.run(|| {
            let mut rest = self.bindings.as_slice();
            for (bound, indices) in &self.sequence.kernels {
                let (own, behind) = rest.split_at(*indices);
                rest = behind;
                run(MemoryTask::Launch(KernelLaunch { bound: Arc::clone(bound), bindings: own.into() }));
            }
        });
    }
}

impl fmt::Debug for SequenceLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.sequence.kernels.iter().map(|(bound, _)| bound)).finish()
    }
}

/// A task that accesses memory.
#[derive(Debug)]
pub(crate) enum MemoryTask {
    /// Run a kernel.
    Launch(KernelLaunch),
    /// Run a kernel and record its time. The box keeps tasks as small as they are without it.
    TimedLaunch(Box<(KernelLaunch, KernelTimer)>),
    /// Fill with zeros.
    Zero(MemoryRegion),
    /// Copy from a host array.
    CopyIn(MemoryRegion, CopyInTask),
    /// Copy to a host array.
    CopyOut(MemoryRegion, HostReadback),
    /// Copy within the device.
    Copy(MemoryRegion, MemoryRegion),
}

/// Each constructor takes one of the runtime's tasks. Memory or code of another driver is an error.
impl MemoryTask {
    pub(crate) fn launch(task: LaunchTask<'_>) -> Result<MemoryTask, DriverError> {
        Ok(MemoryTask::Launch(KernelLaunch::new(task)?))
    }

    pub(crate) fn launch_timed(task: LaunchTask<'_>, timer: KernelTimer) -> Result<MemoryTask, DriverError> {
        Ok(MemoryTask::TimedLaunch(Box::new((KernelLaunch::new(task)?, timer))))
    }

    pub(crate) fn zero(task: FillTask) -> Result<MemoryTask, DriverError> {
        Ok(MemoryTask::Zero(MemoryRegion::written(task.dst())?))
    }

    pub(crate) fn copy_in(task: CopyInTask) -> Result<MemoryTask, DriverError> {
        Ok(MemoryTask::CopyIn(MemoryRegion::written(task.dst())?, task))
    }

    pub(crate) fn copy_out(task: CopyOutTask) -> Result<MemoryTask, DriverError> {
        Ok(MemoryTask::CopyOut(MemoryRegion::new(task.src())?, task.dst().clone()))
    }

    pub(crate) fn copy(task: CopyTask) -> Result<MemoryTask, DriverError> {
        Ok(MemoryTask::Copy(MemoryRegion::written(task.dst())?, MemoryRegion::new(task.src())?))
    }

    /// A kernel that accesses no memory and calls `run`.
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn closure(run: impl Fn() + Send + Sync + 'static) -> MemoryTask {
        tests::task(HostModule::interpreted(vec![(Box::new(tests::Closure(run)), tests::abi())]), |_| ())
    }

    /// A native kernel that accesses no memory and has taken `time` before.
    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn measured(function: codegen_core::host::HostFn, time: std::time::Duration) -> MemoryTask {
        // SAFETY: tests' functions access no memory, do not unwind and are never unloaded.
        let module = unsafe { HostModule::native(vec![(function.into(), tests::abi())], Arc::new(())) };
        tests::task(module, |estimate| estimate.record(time))
    }

    /// Whether the task is a kernel that takes less time than enqueueing it for another thread.
    pub(crate) fn is_tiny(&self) -> bool {
        match self {
            MemoryTask::Launch(launch) => launch.is_tiny(),
            MemoryTask::TimedLaunch(timed) => timed.0.is_tiny(),
            _ => false,
        }
    }

    /// Whether the task takes less time than waking a thread.
    pub(crate) fn is_quick(&self) -> bool {
        match self {
            MemoryTask::Launch(launch) => launch.is_quick(),
            MemoryTask::TimedLaunch(timed) => timed.0.is_quick(),
            MemoryTask::Zero(region)
            | MemoryTask::CopyIn(region, ..)
            | MemoryTask::CopyOut(region, ..)
            | MemoryTask::Copy(region, _) => region.bytes <= QUICK_BYTES,
        }
    }

    /// The task's name in messages: the kernel's, or the operation.
    pub(crate) fn name(&self) -> &str {
        match self {
            MemoryTask::Launch(launch) => &launch.bound.abi.name,
            MemoryTask::TimedLaunch(timed) => &timed.0.bound.abi.name,
            MemoryTask::Zero(_) => "zero",
            MemoryTask::CopyIn(..) => "copy from host",
            MemoryTask::CopyOut(..) => "copy to host",
            MemoryTask::Copy(..) => "copy",
        }
    }

    /// Runs the task on this thread. A kernel may also use idle threads: the worker of `queue`, whose task it
    /// is, and those of the pool.
    ///
    /// # Errors
    ///
    /// The reason why the kernel stopped.
    pub(crate) fn run(&self, pool: &ThreadPool, queue: Option<&TaskQueue>) -> Result<(), String> {
        match self {
            MemoryTask::Launch(launch) => return launch.run_whole(pool, queue),
            MemoryTask::TimedLaunch(timed) => return timed.1.measure(|| timed.0.run_whole(pool, queue)),
            // SAFETY: the task is ordered, and writes this region.
            MemoryTask::Zero(dst) => unsafe { dst.as_mut_slice() }.fill(0),
            MemoryTask::CopyIn(dst, task) => {
                // SAFETY: the task is ordered, and writes this region.
                unsafe { dst.as_mut_slice() }.copy_from_slice(task.src());
            }
            MemoryTask::CopyOut(src, readback) => readback.fill(0, src.bytes, |bytes| {
                // SAFETY: the task is ordered, and reads this region.
                bytes.copy_from_slice(unsafe { src.as_slice() });
            }),
            MemoryTask::Copy(dst, src) => {
                // SAFETY: the task is ordered, writes `dst` and reads `src`, and the two do not overlap.
                unsafe { dst.as_mut_slice().copy_from_slice(src.as_slice()) }
            }
        }
        Ok(())
    }
}

/// A function of the user, with the memory that it reads and writes.
#[derive(Debug)]
pub(crate) struct HostAccess {
    regions: Vec<MemoryRegion>,
    task: HostAccessTask,
}

impl HostAccess {
    pub(crate) fn new(task: HostAccessTask) -> Result<HostAccess, DriverError> {
        let regions = task.memory().iter().map(MemoryRegion::written).collect::<Result<_, _>>()?;
        Ok(HostAccess { regions, task })
    }

    pub(crate) fn name(&self) -> &str {
        self.task.name()
    }

    /// Calls the function on this thread.
    pub(crate) fn run(self) -> Result<(), String> {
        // SAFETY: the task is ordered, writes these regions, and they do not overlap.
        let mut bytes: Vec<&mut [u8]> =
            self.regions.iter().map(|region| unsafe { region.as_mut_slice() }).collect();
        self.task.run(&mut bytes)
    }
}

/// The scratch memory of a thread. It is reused, and replaced if a kernel needs more.
struct ScratchMemory {
    base: NonNull<u8>,
    bytes: usize,
}

impl Drop for ScratchMemory {
    fn drop(&mut self) {
        // SAFETY: `with_scratch` allocated the memory, and only kernels that it calls use it.
        unsafe { pages::release(self.base, self.bytes) };
    }
}

thread_local! {
    static SCRATCH: Cell<Option<ScratchMemory>> = const { Cell::new(None) };
}

/// Calls `body` with `bytes` bytes of aligned memory for its exclusive use; with a null pointer if `bytes` is
/// 0.
fn with_scratch<T>(bytes: usize, body: impl FnOnce(*mut u8) -> T) -> T {
    if bytes == 0 {
        return body(std::ptr::null_mut());
    }
    // The memory is taken out of the thread-local variable, because a kernel that runs another kernel on this
    // thread must not share its memory.
    let kept = SCRATCH.take().filter(|scratch| scratch.bytes >= bytes);
    let scratch = kept.unwrap_or_else(|| match pages::allocate(bytes) {
        Some(base) => ScratchMemory { base, bytes },
        // Like any panic of a task, this one fails the stream with its message.
        None => panic!("no memory for {bytes} bytes of scratch"),
    });
    let result = body(scratch.base.as_ptr());
    SCRATCH.set(Some(scratch));
    result
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "loom")]
    use codegen_core::host::{HostArg, InterpretedKernel};
    use codegen_core::{Cost, Launch};
    #[cfg(feature = "loom")]
    use tnode::Scalar;

    use super::*;

    #[cfg(feature = "loom")]
    pub(super) struct Closure<F>(pub(super) F);

    #[cfg(feature = "loom")]
    impl<F: Fn() + Send + Sync> InterpretedKernel for Closure<F> {
        fn run(
            &self,
            _: &mut [HostArg<'_>],
            _: &[i64],
            _: &mut dyn FnMut(usize, &[Scalar]),
        ) -> Result<(), String> {
            (self.0)();
            Ok(())
        }
    }

    pub(super) fn abi() -> KernelAbi {
        KernelAbi {
            name: "closure".to_owned(),
            params: vec![],
            launch: Launch { extent: 1, grain: 1, threads: 1, end: None },
            scratch_bytes: 0,
            log: [].into(),
            cost: Cost::default(),
        }
    }

    /// A launch of the module's only kernel, after `measure`.
    pub(super) fn task(module: HostModule, measure: impl FnOnce(&RunningTimeEstimate)) -> MemoryTask {
        let bound = BoundCode::from_parts(module, 0, abi(), Vec::new(), Vec::new());
        measure(&bound.running_time);
        MemoryTask::Launch(KernelLaunch { bound: Arc::new(bound), bindings: SmallVec::new() })
    }
}
