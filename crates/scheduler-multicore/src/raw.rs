//! Memory of pools, and the tasks that touch it: all of the crate's unsafe code but for the promise of `Driver` and for where
//! memory comes from (`pages`).
//!
//! Invariants relied on:
//! * a [`Memory`] is initialised, aligned and as long as it says until the last share of it is dropped;
//! * a [`Region`] is a [`MemoryRange`] of such memory, so it lies within;
//! * a [`Bound`] kernel's arguments are those of [`KernelArgs`]: as many bytes as its ABI says, and what it writes is writable
//!   and overlaps nothing else that it uses;
//! * [`Work`] is made only of the runtime's tasks, which are ordered against all conflicting ones, and is performed at most
//!   once.
#![allow(unsafe_code, reason = "host memory and compiled kernels are reached through raw pointers")]

use std::{cell::Cell, fmt, ptr::NonNull, slice};

use codegen_core::{
    Access, KernelAbi,
    host::{HostArgs, HostModule, HostPtr},
};
use device_runtime::{
    CopyInTask, CopyOutTask, CopyTask, DriverError, FillTask, HostLanding, KernelArgs, LaunchTask,
    MemoryRange, check,
};
use smallvec::SmallVec;
use tnode::HostArray;

use crate::{
    crew::Crew,
    pace::Pace,
    pages::{self, ALIGNMENT},
    sync::{
        Arc, Ordering,
        atomic::{AtomicBool, AtomicUsize},
    },
};

/// So many bytes are copied or filled in less time than waking a thread takes.
const QUICK_BYTES: usize = 16 << 10;

/// A pool's memory, of which several pools may have a share.
pub(crate) struct Memory {
    base: NonNull<u8>,
    bytes: usize,
    /// Whether anything was scheduled that writes it; while not, it is all zeros.
    touched: AtomicBool,
    owner: Owner,
}

/// Whose memory it is.
enum Owner {
    /// Allocated here, and counted here until it is dropped.
    Own(Arc<AtomicUsize>),
    /// A host array's, which is held for as long as its bytes may be read. Nobody can write it meanwhile: that takes the only
    /// share of the array.
    Host { _array: Arc<HostArray> },
    /// A host array's that was given away, counted like memory that was allocated here. Nobody uses the array itself.
    Adopted { _array: Box<HostArray>, used: Arc<AtomicUsize> },
}

// SAFETY: the pointer is owned, or a shared array's that is held; accesses through it are ordered by whoever makes the work.
unsafe impl Send for Memory {}
// SAFETY: as above; the fields themselves are atomic or never change.
unsafe impl Sync for Memory {}

impl Memory {
    /// Zeroed memory, or none if `used` would pass `limit` or the system has none.
    pub(crate) fn zeroed(bytes: usize, used: &Arc<AtomicUsize>, limit: usize) -> Option<Arc<Memory>> {
        let within = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).ok()?;
        let Some(base) = pages::allocate(bytes) else {
            used.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        };
        let owner = Owner::Own(Arc::clone(used));
        Some(Arc::new(Memory { base, bytes, touched: AtomicBool::new(false), owner }))
    }

    /// A host array's memory, for reading; none if it lies less evenly than pools do.
    pub(crate) fn of_host(array: Arc<HostArray>) -> Option<Arc<Memory>> {
        let bytes = array.bytes();
        let base = NonNull::from(bytes).cast::<u8>();
        if !bytes.is_empty() && !base.addr().get().is_multiple_of(ALIGNMENT) {
            return None;
        }
        let bytes = bytes.len();
        // The array may have its pages already; what reads it often then finds them joined in time.
        pages::advise(base.as_ptr(), bytes);
        Some(Arc::new(Memory {
            base,
            bytes,
            touched: AtomicBool::new(true),
            owner: Owner::Host { _array: array },
        }))
    }

    /// A host array's memory, for reading and writing; the array if it is empty, lies less evenly than pools do, or `used`
    /// would pass `limit`.
    pub(crate) fn adopted(
        mut array: Box<HostArray>,
        used: &Arc<AtomicUsize>,
        limit: usize,
    ) -> Result<Arc<Memory>, Box<HostArray>> {
        let bytes = array.bytes().len();
        let base = NonNull::from(array.bytes_mut()).cast::<u8>();
        let within = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
        let is_even = bytes > 0 && base.addr().get().is_multiple_of(ALIGNMENT);
        if !is_even || used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_err() {
            return Err(array);
        }
        pages::advise(base.as_ptr(), bytes);
        let owner = Owner::Adopted { _array: array, used: Arc::clone(used) };
        Ok(Arc::new(Memory { base, bytes, touched: AtomicBool::new(true), owner }))
    }

    /// Notes that something is scheduled that writes the memory.
    fn touch(&self) {
        self.touched.store(true, Ordering::Relaxed);
    }

    /// Whether nothing was ever scheduled that writes the memory.
    pub(crate) fn is_pristine(&self) -> bool {
        !self.touched.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match &self.owner {
            Owner::Own(used) => {
                // SAFETY: `zeroed` allocated it, and this is its last share.
                unsafe { pages::release(self.base, self.bytes) };
                used.fetch_sub(self.bytes, Ordering::Relaxed);
            }
            Owner::Host { .. } => {}
            Owner::Adopted { used, .. } => {
                used.fetch_sub(self.bytes, Ordering::Relaxed);
            }
        }
    }
}

/// Part of a pool's memory, which it keeps alive.
#[derive(Clone)]
pub(crate) struct Region {
    memory: Arc<Memory>,
    offset: usize,
    bytes: usize,
}

impl Region {
    /// # Errors
    ///
    /// Memory of another driver.
    fn new(range: &MemoryRange) -> Result<Region, DriverError> {
        let memory: Arc<Memory> = range.memory().share()?;
        let (offset, bytes) = (range.offset(), range.bytes());
        debug_assert!(offset + bytes <= memory.bytes, "ranges lie in their memory");
        Ok(Region { memory, offset, bytes })
    }

    /// As [`Region::new`], of memory that is to be written.
    fn written(range: &MemoryRange) -> Result<Region, DriverError> {
        let region = Region::new(range)?;
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
    /// Nobody writes them while the slice lives.
    unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: the region lies within initialised memory that `self` keeps alive; the caller vouches for the rest.
        unsafe { slice::from_raw_parts(self.base(), self.bytes) }
    }

    /// The bytes, for writing.
    ///
    /// # Safety
    ///
    /// Nobody else touches them while the slice lives.
    #[allow(clippy::mut_from_ref, reason = "exclusiveness is the caller's promise")]
    unsafe fn as_mut_slice(&self) -> &mut [u8] {
        // SAFETY: the region lies within initialised memory that `self` keeps alive; the caller vouches for the rest.
        unsafe { slice::from_raw_parts_mut(self.base(), self.bytes) }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..+{}", self.offset, self.bytes)
    }
}

/// A kernel of a loaded artifact.
pub(crate) struct Kernel {
    pub(crate) code: HostModule,
    pub(crate) index: usize,
    pub(crate) abi: KernelAbi,
}

/// A kernel with its memory fixed.
pub(crate) struct Bound {
    module: HostModule,
    index: usize,
    abi: KernelAbi,
    args: HostArgs,
    pace: Pace,
    /// What the pointers point into.
    _regions: Vec<Region>,
}

// SAFETY: the pointers point into regions that are held beside them; accesses are ordered by whoever makes the work.
unsafe impl Send for Bound {}
// SAFETY: as above; nothing changes after construction.
unsafe impl Sync for Bound {}

impl Bound {
    /// # Errors
    ///
    /// A kernel or memory of another driver.
    pub(crate) fn new(args: &KernelArgs<'_>) -> Result<Bound, DriverError> {
        let Kernel { code, index, abi } = args.kernel().get()?;
        let (mut regions, mut pointers) = (Vec::new(), Vec::new());
        for (range, (access, bytes)) in args.ranges().iter().zip(check::memory_params(abi)) {
            let region = if access == Access::Read { Region::new(range)? } else { Region::written(range)? };
            pointers.push(HostPtr { base: region.base(), bytes, access });
            regions.push(region);
        }
        Ok(Bound::of(code.clone(), *index, abi.clone(), pointers, regions))
    }

    fn of(
        module: HostModule,
        index: usize,
        abi: KernelAbi,
        pointers: Vec<HostPtr>,
        _regions: Vec<Region>,
    ) -> Bound {
        Bound { module, index, abi, args: HostArgs::new(pointers), pace: Pace::unknown(), _regions }
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.abi.name)
    }
}

/// A kernel about to run: bound memory and the values of its static indices.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    bound: Arc<Bound>,
    bindings: SmallVec<[i64; 8]>,
}

impl Launch {
    /// The parallel loop's iterations, and how few of them are worth a thread.
    pub(crate) fn extent_and_grain(&self) -> (u64, u64) {
        (self.bound.abi.launch.extent, self.bound.abi.launch.grain)
    }

    pub(crate) fn is_splittable(&self) -> bool {
        self.bound.module.is_splittable(self.bound.index)
    }

    /// Runs `begin..end` of the parallel loop on this thread.
    pub(crate) fn run(&self, begin: u64, end: u64) {
        let bound = &*self.bound;
        with_scratch(bound.abi.scratch_bytes, |scratch| {
            // SAFETY: the memory is that of `KernelArgs`, of the right number, size, alignment and access, and apart, and its
            // regions live as long as `bound`; bindings and order are those of a `LaunchTask`; the scratch is this call's
            // alone; the crew asks for disjoint parts of `0..extent`.
            unsafe { bound.module.run(bound.index, &bound.args, &self.bindings, scratch, begin, end) }
        });
    }
}

/// A task that touches memory.
#[derive(Debug)]
pub(crate) enum Work {
    /// Run a kernel.
    Launch(Launch),
    /// Fill with zeros.
    Zero(Region),
    /// Copy from a host array.
    CopyIn(Region, CopyInTask),
    /// Copy to a landing array.
    CopyOut(Region, HostLanding),
    /// Copy within the device.
    Copy(Region, Region),
}

/// Each is made of a task; what is handed to another driver's memory or code is an error.
impl Work {
    pub(crate) fn launch(task: LaunchTask<'_>) -> Result<Work, DriverError> {
        let (bound, bindings) = (task.kernel().share()?, task.bindings().into());
        Ok(Work::Launch(Launch { bound, bindings }))
    }

    pub(crate) fn zero(task: FillTask) -> Result<Work, DriverError> {
        Ok(Work::Zero(Region::written(task.dst())?))
    }

    pub(crate) fn copy_in(task: CopyInTask) -> Result<Work, DriverError> {
        Ok(Work::CopyIn(Region::written(task.dst())?, task))
    }

    pub(crate) fn copy_out(task: CopyOutTask) -> Result<Work, DriverError> {
        Ok(Work::CopyOut(Region::new(task.src())?, task.dst().clone()))
    }

    pub(crate) fn copy(task: CopyTask) -> Result<Work, DriverError> {
        Ok(Work::Copy(Region::written(task.dst())?, Region::new(task.src())?))
    }

    /// A kernel without memory, which any code is.
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn closure(run: impl Fn() + Send + Sync + 'static) -> Work {
        let module = HostModule::interpreted(vec![(Box::new(tests::Closure(run)), tests::abi())]);
        let bound = Bound::of(module, 0, tests::abi(), Vec::new(), Vec::new());
        Work::Launch(Launch { bound: Arc::new(bound), bindings: SmallVec::new() })
    }

    /// Whether it takes less time than waking a thread. Interpreted code may do anything, so it never counts as quick.
    pub(crate) fn is_quick(&self) -> bool {
        match self {
            Work::Launch(launch) => launch.is_splittable() && launch.bound.pace.is_quick(),
            Work::Zero(region)
            | Work::CopyIn(region, ..)
            | Work::CopyOut(region, ..)
            | Work::Copy(region, _) => region.bytes <= QUICK_BYTES,
        }
    }

    /// What to call it in messages.
    pub(crate) fn name(&self) -> &str {
        match self {
            Work::Launch(launch) => &launch.bound.abi.name,
            Work::Zero(_) => "zero",
            Work::CopyIn(..) => "copy from host",
            Work::CopyOut(..) => "copy to host",
            Work::Copy(..) => "copy",
        }
    }

    /// Does it, on this thread and idle ones of the crew.
    pub(crate) fn perform(&self, crew: &Crew) {
        match self {
            Work::Launch(launch) => launch.bound.pace.run(|| crew.run(launch)),
            // SAFETY: the task is ordered, and writes this.
            Work::Zero(dst) => unsafe { dst.as_mut_slice() }.fill(0),
            Work::CopyIn(dst, task) => {
                // SAFETY: the task is ordered, and writes this.
                unsafe { dst.as_mut_slice() }.copy_from_slice(task.src());
            }
            Work::CopyOut(src, landing) => landing.fill(0, src.bytes, |bytes| {
                // SAFETY: the task is ordered, and reads this.
                bytes.copy_from_slice(unsafe { src.as_slice() });
            }),
            Work::Copy(dst, src) => {
                // SAFETY: the task is ordered, writes the first and reads the second, and they do not overlap.
                unsafe { dst.as_mut_slice().copy_from_slice(src.as_slice()) }
            }
        }
    }
}

/// A thread's scratch memory; grows to the largest kernel's need and is reused.
struct Scratch {
    base: NonNull<u8>,
    bytes: usize,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: `with_scratch` allocated it, and nobody uses it outside of a call.
        unsafe { pages::release(self.base, self.bytes) };
    }
}

thread_local! {
    static SCRATCH: Cell<Option<Scratch>> = const { Cell::new(None) };
}

/// Calls `body` with `bytes` bytes of aligned memory that nobody else uses meanwhile; a null pointer where there are none.
fn with_scratch(bytes: usize, body: impl FnOnce(*mut u8)) {
    if bytes == 0 {
        return body(std::ptr::null_mut());
    }
    // Taken out, not borrowed: a kernel that runs another one on this thread gets other memory.
    let kept = SCRATCH.take().filter(|scratch| scratch.bytes >= bytes);
    let scratch = kept.unwrap_or_else(|| match pages::allocate(bytes) {
        Some(base) => Scratch { base, bytes },
        // Fails the task and its stream, as any panic of a task does, with this message.
        None => panic!("no memory for {bytes} bytes of scratch"),
    });
    body(scratch.base.as_ptr());
    SCRATCH.set(Some(scratch));
}

#[cfg(all(test, feature = "loom"))]
mod tests {
    use codegen_core::{Cost, KernelAbi, Launch, host::HostArg, host::InterpretedKernel};
    use tnode::Scalar;

    pub(super) struct Closure<F>(pub(super) F);

    impl<F: Fn() + Send + Sync> InterpretedKernel for Closure<F> {
        fn run(&self, _: &mut [HostArg<'_>], _: &[i64], _: &mut dyn FnMut(usize, &[Scalar])) {
            (self.0)();
        }
    }

    pub(super) fn abi() -> KernelAbi {
        KernelAbi {
            name: "closure".to_owned(),
            params: vec![],
            launch: Launch { extent: 1, grain: 1, threads: 1 },
            scratch_bytes: 0,
            log: [].into(),
            cost: Cost::default(),
        }
    }
}
