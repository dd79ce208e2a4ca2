//! Pinned host memory for copies between host and device: chunks that are divided into ranges.
//!
//! A copy takes a range, which is released when the copy is done. The streams of a device share the chunks.
//! Chunks are kept until the device is dropped, since freeing pinned memory waits for the device. A stream
//! has at most [`MAX_CHUNKS`] at a time, and waits for its own tasks before it takes another.

use std::{
    ffi::c_void,
    fmt, ptr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{CallError, Context};

/// Size of a chunk, in bytes.
pub(crate) const CHUNK_BYTES: usize = 4 << 20;

/// Maximum number of chunks per stream.
pub(crate) const MAX_CHUNKS: usize = 4;

/// Alignment of ranges, in bytes.
const ALIGNMENT: usize = 64;

/// The free chunks of a device.
pub(crate) struct StagingPool {
    context: Arc<Context>,
    free: Mutex<Vec<PinnedChunk>>,
    made: AtomicUsize,
}

/// `CHUNK_BYTES` initialized bytes of pinned memory.
struct PinnedChunk(*mut u8);

// SAFETY: it is plain memory; only the owner of the value accesses it.
unsafe impl Send for PinnedChunk {}

impl StagingPool {
    pub(crate) fn new(context: &Arc<Context>) -> Arc<StagingPool> {
        let (free, made) = (Mutex::default(), AtomicUsize::new(0));
        Arc::new(StagingPool { context: Arc::clone(context), free, made })
    }

    /// Total size of all chunks, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.made.load(Ordering::Relaxed) * CHUNK_BYTES
    }

    fn take(&self) -> Result<PinnedChunk, CallError> {
        if let Some(pinned) = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(pinned);
        }
        self.context.enter()?;
        let mut memory: *mut c_void = ptr::null_mut();
        // SAFETY: a valid place for the address; the context is current.
        unsafe { self.context.api.cuMemHostAlloc(&raw mut memory, CHUNK_BYTES, 0)? };
        // SAFETY: `CHUNK_BYTES` bytes were allocated. From here on they are initialized.
        unsafe { ptr::write_bytes(memory.cast::<u8>(), 0, CHUNK_BYTES) };
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(PinnedChunk(memory.cast()))
    }
}

impl Drop for StagingPool {
    fn drop(&mut self) {
        let _ = self.context.enter();
        for PinnedChunk(memory) in self.free.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // SAFETY: allocated by `take`; each chunk in use refers to this value, so none is in use.
            let _ = unsafe { self.context.api.cuMemFreeHost(memory.cast()) };
        }
    }
}

impl fmt::Debug for StagingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes for copies", self.bytes())
    }
}

/// A chunk that a stream uses. It returns to the pool when the stream has left it and its last range is
/// dropped.
struct SharedChunk {
    pinned: Option<PinnedChunk>,
    staging: Arc<StagingPool>,
    /// The number of chunks that the stream uses.
    count: Arc<AtomicUsize>,
}

// SAFETY: ranges share a chunk, and each accesses only its own bytes.
unsafe impl Sync for SharedChunk {}

impl SharedChunk {
    fn address(&self, offset: usize) -> *mut u8 {
        // SAFETY: `allocate` hands out offsets within the chunk.
        self.pinned.as_ref().map_or(ptr::null_mut(), |PinnedChunk(memory)| unsafe { memory.add(offset) })
    }
}

impl Drop for SharedChunk {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        let pinned = self.pinned.take();
        self.staging.free.lock().unwrap_or_else(PoisonError::into_inner).extend(pinned);
    }
}

/// Allocates staging ranges for a stream.
pub(crate) struct StagingAllocator {
    staging: Arc<StagingPool>,
    /// The chunk in use, and the number of its bytes that are allocated.
    current: Option<(Arc<SharedChunk>, usize)>,
    count: Arc<AtomicUsize>,
}

impl StagingAllocator {
    pub(crate) fn new(staging: &Arc<StagingPool>) -> StagingAllocator {
        StagingAllocator { staging: Arc::clone(staging), current: None, count: Arc::default() }
    }

    /// Allocates a range of at least one and at most `bytes` bytes; `None` while the stream uses its maximum
    /// number of chunks.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<Option<StagingRange>, CallError> {
        let bytes = bytes.clamp(1, CHUNK_BYTES);
        if !self.current.as_mut().is_some_and(|current| has_room(current, bytes)) {
            // The rest of the chunk stays unused. The chunk returns to the pool when its last range is
            // dropped.
            self.current = None;
            if self.count.load(Ordering::Relaxed) >= MAX_CHUNKS {
                return Ok(None);
            }
            let pinned = Some(self.staging.take()?);
            self.count.fetch_add(1, Ordering::Relaxed);
            let (staging, count) = (Arc::clone(&self.staging), Arc::clone(&self.count));
            self.current = Some((Arc::new(SharedChunk { pinned, staging, count }), 0));
        }
        Ok(self.current.as_mut().map(|(chunk, used)| {
            let offset = *used;
            *used = (offset + bytes).next_multiple_of(ALIGNMENT);
            StagingRange { chunk: Arc::clone(chunk), offset, bytes }
        }))
    }
}

/// Whether a chunk has room. A chunk without ranges is reused from its beginning, which the exclusive
/// reference permits.
fn has_room((chunk, used): &mut (Arc<SharedChunk>, usize), bytes: usize) -> bool {
    if Arc::get_mut(chunk).is_some() {
        *used = 0;
    }
    *used + bytes <= CHUNK_BYTES
}

/// A range of a chunk. No other range overlaps it, and the value is not cloned.
pub(crate) struct StagingRange {
    chunk: Arc<SharedChunk>,
    offset: usize,
    bytes: usize,
}

impl StagingRange {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.chunk.address(self.offset)
    }

    /// Copies bytes to the beginning of the range.
    pub(crate) fn fill(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(self.bytes);
        // SAFETY: the range has `count` bytes, and no task uses the range while it can be borrowed mutably
        // here.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.address(), count) };
    }

    /// Copies bytes from the beginning of the range. The task that wrote it must be done.
    pub(super) fn read(&self, into: &mut [u8]) {
        let count = into.len().min(self.bytes);
        // SAFETY: the range has `count` bytes, which are initialized since the chunk was made.
        unsafe { ptr::copy_nonoverlapping(self.address(), into.as_mut_ptr(), count) };
    }
}
