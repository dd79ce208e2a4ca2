//! Host memory that a device copies from and to without the processor: chunks cut into pieces.
//!
//! A copy takes a piece, and the piece goes back when the copy is done. Chunks are shared by the streams of a device and kept for
//! ever, since giving such memory back waits for the device; a stream has at most [`MOST_CHUNKS`] at a time, and waits for its own
//! tasks before it takes another.

use std::{
    ffi::c_void,
    fmt, ptr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{CallError, Context};

/// Bytes of a chunk.
pub(crate) const CHUNK_BYTES: usize = 4 << 20;

/// The most chunks that a stream has.
pub(crate) const MOST_CHUNKS: usize = 4;

/// Where pieces begin.
const ALIGNMENT: usize = 64;

/// The chunks of a device that nobody has.
pub(crate) struct Staging {
    context: Arc<Context>,
    free: Mutex<Vec<Pinned>>,
    made: AtomicUsize,
}

/// `CHUNK_BYTES` initialised bytes that the device reaches.
struct Pinned(*mut u8);

// SAFETY: memory like any other; who may touch it is a matter of who has the value.
unsafe impl Send for Pinned {}

impl Staging {
    pub(crate) fn new(context: &Arc<Context>) -> Arc<Staging> {
        let (free, made) = (Mutex::default(), AtomicUsize::new(0));
        Arc::new(Staging { context: Arc::clone(context), free, made })
    }

    /// Bytes of all chunks.
    pub(crate) fn bytes(&self) -> usize {
        self.made.load(Ordering::Relaxed) * CHUNK_BYTES
    }

    fn take(&self) -> Result<Pinned, CallError> {
        if let Some(pinned) = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(pinned);
        }
        self.context.enter()?;
        let mut memory: *mut c_void = ptr::null_mut();
        // SAFETY: a place for the address; the context is current.
        unsafe { self.context.api.cuMemHostAlloc(&raw mut memory, CHUNK_BYTES, 0)? };
        // SAFETY: as many bytes were allocated. From here on they are initialised.
        unsafe { ptr::write_bytes(memory.cast::<u8>(), 0, CHUNK_BYTES) };
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(Pinned(memory.cast()))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = self.context.enter();
        for Pinned(memory) in self.free.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // SAFETY: allocated by `take`; each chunk that is out has a share of this value, so there is none.
            let _ = unsafe { self.context.api.cuMemFreeHost(memory.cast()) };
        }
    }
}

impl fmt::Debug for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes for copies", self.bytes())
    }
}

/// A chunk that a stream has; it goes back with its last piece.
struct Chunk {
    pinned: Option<Pinned>,
    staging: Arc<Staging>,
    /// How many the stream has.
    count: Arc<AtomicUsize>,
}

// SAFETY: pieces share a chunk and each touches its own range of it.
unsafe impl Sync for Chunk {}

impl Chunk {
    fn address(&self, offset: usize) -> *mut u8 {
        // SAFETY: `cut` gives out offsets within the chunk.
        self.pinned.as_ref().map_or(ptr::null_mut(), |Pinned(memory)| unsafe { memory.add(offset) })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        let pinned = self.pinned.take();
        self.staging.free.lock().unwrap_or_else(PoisonError::into_inner).extend(pinned);
    }
}

/// Cuts pieces for a stream.
pub(crate) struct Cutter {
    staging: Arc<Staging>,
    /// The chunk that is cut, and how far it is.
    current: Option<(Arc<Chunk>, usize)>,
    count: Arc<AtomicUsize>,
}

impl Cutter {
    pub(crate) fn new(staging: &Arc<Staging>) -> Cutter {
        Cutter { staging: Arc::clone(staging), current: None, count: Arc::default() }
    }

    /// A piece of at most so many bytes, and at least one; none while the stream has all chunks that it may have.
    pub(crate) fn cut(&mut self, bytes: usize) -> Result<Option<Piece>, CallError> {
        let bytes = bytes.clamp(1, CHUNK_BYTES);
        if !self.current.as_mut().is_some_and(|current| has_room(current, bytes)) {
            // What is left of a chunk is left; it goes back with its last piece.
            self.current = None;
            if self.count.load(Ordering::Relaxed) >= MOST_CHUNKS {
                return Ok(None);
            }
            let pinned = Some(self.staging.take()?);
            self.count.fetch_add(1, Ordering::Relaxed);
            let (staging, count) = (Arc::clone(&self.staging), Arc::clone(&self.count));
            self.current = Some((Arc::new(Chunk { pinned, staging, count }), 0));
        }
        Ok(self.current.as_mut().map(|(chunk, used)| {
            let offset = *used;
            *used = (offset + bytes).next_multiple_of(ALIGNMENT);
            Piece { chunk: Arc::clone(chunk), offset, bytes }
        }))
    }
}

/// Whether a chunk has room; one without pieces is begun anew, which only its cutter can do.
fn has_room((chunk, used): &mut (Arc<Chunk>, usize), bytes: usize) -> bool {
    if Arc::get_mut(chunk).is_some() {
        *used = 0;
    }
    *used + bytes <= CHUNK_BYTES
}

/// A range of a chunk that nobody else has: no other piece overlaps it, and the value is not cloned.
pub(crate) struct Piece {
    chunk: Arc<Chunk>,
    offset: usize,
    bytes: usize,
}

impl Piece {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.chunk.address(self.offset)
    }

    /// Fills its beginning.
    pub(crate) fn fill(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(self.bytes);
        // SAFETY: so many bytes are in the piece, which no task has as long as it can be borrowed here.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.address(), count) };
    }

    /// Copies its beginning. Whoever calls knows that the task that wrote it is done.
    pub(super) fn read(&self, into: &mut [u8]) {
        let count = into.len().min(self.bytes);
        // SAFETY: so many bytes are in the piece, initialised since the chunk was made.
        unsafe { ptr::copy_nonoverlapping(self.address(), into.as_mut_ptr(), count) };
    }
}
