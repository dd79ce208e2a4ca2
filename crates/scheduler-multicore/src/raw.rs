//! Memory of pools, and the tasks that touch it: all of the crate's unsafe code but for the signatures of `Driver` and for
//! where memory comes from (`pages`).
//!
//! Invariants relied on:
//! * a [`Memory`] is initialised, aligned and as long as it says until the last share of it is dropped; one that is not
//!   writable is in no region that work writes (the driver asks before it makes the work);
//! * a [`Region`] lies within its memory;
//! * a [`Bound`] kernel's arguments are regions of as many bytes as its ABI says, and what it writes overlaps nothing else
//!   that it uses (both checked when it is made);
//! * [`Work`] is made only by `unsafe` constructors, whose callers vouch for the order of conflicting work, and is performed
//!   at most once at a time.
#![allow(unsafe_code, reason = "host memory and compiled kernels are reached through raw pointers")]

use std::{cell::Cell, fmt, ops::Range, ptr::NonNull, slice};

use codegen_core::{
    Access, KernelAbi, Param,
    host::{HostArgs, HostModule, HostPtr},
};
use device_runtime::{DriverError, HostLanding};
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

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether tasks may write it.
    pub(crate) fn is_writable(&self) -> bool {
        matches!(self.owner, Owner::Own(_))
    }

    /// Notes that something is scheduled that writes the memory.
    pub(crate) fn touch(&self) {
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
        if let Owner::Own(used) = &self.owner {
            // SAFETY: `zeroed` allocated it, and this is its last share.
            unsafe { pages::release(self.base, self.bytes) };
            used.fetch_sub(self.bytes, Ordering::Relaxed);
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
    /// The part of `memory` at `offset`, if it lies within.
    pub(crate) fn new(memory: Arc<Memory>, offset: usize, bytes: usize) -> Option<Region> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= memory.bytes);
        inside.then_some(Region { memory, offset, bytes })
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) fn overlaps(&self, other: &Region) -> bool {
        let apart = self.offset + self.bytes <= other.offset || other.offset + other.bytes <= self.offset;
        Arc::ptr_eq(&self.memory, &other.memory) && self.bytes > 0 && other.bytes > 0 && !apart
    }

    fn base(&self) -> *mut u8 {
        // SAFETY: the offset is within the allocation, or one past its end.
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
    /// Binds kernel `index` of a module, called as `abi` says, to one region per memory parameter.
    ///
    /// # Errors
    ///
    /// Another number of regions, regions of another size, or written memory that overlaps another parameter.
    pub(crate) fn new(
        module: HostModule,
        index: usize,
        abi: KernelAbi,
        regions: Vec<Region>,
    ) -> Result<Bound, DriverError> {
        let accesses: Vec<Access> = memory_params(&abi).map(|(access, _)| access).collect();
        check_count(&abi, "memory parameters", accesses.len(), regions.len())?;
        for (region, (_, bytes)) in regions.iter().zip(memory_params(&abi)) {
            if region.bytes != bytes {
                let (what, size) = (format!("parameter of kernel `{}`", abi.name), region.bytes);
                return Err(DriverError::OutOfBounds { what, offset: 0, bytes, size });
            }
        }
        check_overlap(&abi, &accesses, &regions)?;
        let written = regions.iter().zip(&accesses).filter(|(_, access)| **access != Access::Read);
        written.for_each(|(region, _)| region.memory.touch());
        let pointer = |(region, access): (&Region, Access)| HostPtr {
            base: region.base(),
            bytes: region.bytes,
            access,
        };
        let args = HostArgs::new(regions.iter().zip(accesses).map(pointer).collect());
        Ok(Bound { module, index, abi, args, pace: Pace::unknown(), _regions: regions })
    }

    fn static_indices(&self) -> usize {
        self.abi.params.len() - self.args.len()
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.abi.name)
    }
}

/// Access and size in bytes of each memory parameter.
pub(crate) fn memory_params(abi: &KernelAbi) -> impl Iterator<Item = (Access, usize)> {
    abi.params.iter().filter_map(|param| match *param {
        Param::Node { access, bytes } => Some((access, bytes)),
        Param::MergeBuffer { bytes } => Some((Access::Read, bytes)),
        Param::StaticIndex { .. } => None,
    })
}

fn check_count(
    abi: &KernelAbi,
    what: &'static str,
    expected: usize,
    found: usize,
) -> Result<(), DriverError> {
    if expected == found {
        return Ok(());
    }
    Err(DriverError::Arity { kernel: abi.name.clone(), what, expected, found })
}

fn check_overlap(abi: &KernelAbi, accesses: &[Access], regions: &[Region]) -> Result<(), DriverError> {
    for second in 0..regions.len() {
        for first in 0..second {
            let written = accesses[first] != Access::Read || accesses[second] != Access::Read;
            if written && regions[first].overlaps(&regions[second]) {
                return Err(DriverError::Overlap { kernel: abi.name.clone(), first, second });
            }
        }
    }
    Ok(())
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
            // SAFETY: `Bound::new` checked number, size and overlap of the memory, whose regions live as long as `bound`;
            // `Work::launch` checked the number of bindings and its caller vouched for their ranges and for the order of
            // conflicting work; the scratch is this call's alone; the crew asks for disjoint parts of `0..extent`.
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
    CopyIn(Region, Arc<HostArray>, usize),
    /// Copy to a landing array.
    CopyOut(Region, HostLanding, usize),
    /// Copy within the device.
    Copy(Region, Region),
}

impl Work {
    /// Running a kernel.
    ///
    /// # Safety
    ///
    /// The caller orders the work with all other that touches the same memory; bindings are within their ranges.
    pub(crate) unsafe fn launch(bound: Arc<Bound>, bindings: &[i64]) -> Result<Work, DriverError> {
        check_count(&bound.abi, "bindings", bound.static_indices(), bindings.len())?;
        Ok(Work::Launch(Launch { bound, bindings: bindings.into() }))
    }

    /// Filling with zeros.
    ///
    /// # Safety
    ///
    /// The caller orders the work with all other that touches the same memory.
    pub(crate) unsafe fn zero(dst: Region) -> Work {
        dst.memory.touch();
        Work::Zero(dst)
    }

    /// Copying from a host array, from `offset` on, as many bytes as the region has.
    ///
    /// # Safety
    ///
    /// The caller orders the work with all other that touches the same memory.
    pub(crate) unsafe fn copy_in(
        dst: Region,
        src: Arc<HostArray>,
        offset: usize,
    ) -> Result<Work, DriverError> {
        array_range(&src, offset, dst.bytes)?;
        dst.memory.touch();
        Ok(Work::CopyIn(dst, src, offset))
    }

    /// Copying to a landing array, from `offset` on, as many bytes as the region has.
    ///
    /// # Safety
    ///
    /// The caller orders the work with all other that touches the same memory.
    pub(crate) unsafe fn copy_out(src: Region, dst: HostLanding, offset: usize) -> Result<Work, DriverError> {
        array_range(&landed(&dst), offset, src.bytes)?;
        Ok(Work::CopyOut(src, dst, offset))
    }

    /// Copying within the device.
    ///
    /// # Safety
    ///
    /// The caller orders the work with all other that touches the same memory.
    pub(crate) unsafe fn copy(dst: Region, src: Region) -> Result<Work, DriverError> {
        if dst.overlaps(&src) {
            return Err(DriverError::Overlap { kernel: "copy".to_owned(), first: 0, second: 1 });
        }
        dst.memory.touch();
        Ok(Work::Copy(dst, src))
    }

    /// A kernel without memory, which any code is.
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn closure(run: impl Fn() + Send + Sync + 'static) -> Work {
        let module = HostModule::interpreted(vec![Box::new(tests::Closure(run))]);
        let bound = Bound::new(module, 0, tests::abi(), Vec::new()).expect("there is no memory to be wrong");
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
            // SAFETY: the constructor's caller ordered this write.
            Work::Zero(dst) => unsafe { dst.as_mut_slice() }.fill(0),
            Work::CopyIn(dst, src, offset) => {
                let Ok(range) = array_range(src, *offset, dst.bytes) else { return };
                // SAFETY: the constructor's caller ordered this write.
                unsafe { dst.as_mut_slice() }.copy_from_slice(&src.bytes()[range]);
            }
            Work::CopyOut(src, dst, offset) => {
                let mut array = landed(dst);
                // The array was checked when the work was made; should it have been replaced since, nothing is copied.
                let Ok(range) = array_range(&array, *offset, src.bytes) else { return };
                // SAFETY: the constructor's caller ordered this read.
                array.bytes_mut()[range].copy_from_slice(unsafe { src.as_slice() });
            }
            Work::Copy(dst, src) => {
                // SAFETY: the constructor's caller ordered both, and they do not overlap.
                unsafe { dst.as_mut_slice().copy_from_slice(src.as_slice()) }
            }
        }
    }
}

fn landed(landing: &HostLanding) -> std::sync::MutexGuard<'_, HostArray> {
    landing.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The bytes `offset..+bytes` of an array, if they lie within.
fn array_range(array: &HostArray, offset: usize, bytes: usize) -> Result<Range<usize>, DriverError> {
    let size = array.size_bytes();
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(offset..end),
        _ => Err(DriverError::OutOfBounds { what: "host array".to_owned(), offset, bytes, size }),
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
