//! The memory of host arrays: aligned, and counted while it lives.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

use aligned_vec::{AVec, ConstAlign};

use crate::error::{Result, TensorNodeError};

/// Alignment of the bytes of every host array.
pub const ALIGN_BYTES: usize = 64;

/// A byte vector that is still growing.
pub(crate) type Growing = AVec<u8, ConstAlign<ALIGN_BYTES>>;

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Bytes of a fixed length, which [`live`] counts until they are dropped.
#[derive(Debug)]
pub(crate) struct Bytes(Memory);

#[derive(Debug)]
enum Memory {
    Own(Growing),
    /// A part of a file, which writing does not change.
    #[cfg(feature = "files")]
    Mapped(memmap2::MmapMut),
    /// `len` bytes from `start` on, which begin at a huge page.
    #[cfg(all(feature = "files", target_os = "linux", not(miri)))]
    Pages {
        mapping: memmap2::MmapMut,
        start: usize,
        len: usize,
    },
}

/// The total number of bytes of all host arrays in the process.
pub(crate) fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// An empty vector with capacity `len`.
pub(crate) fn allocate(len: usize) -> Result<Growing> {
    let mut bytes = AVec::new(ALIGN_BYTES);
    bytes.try_reserve_exact(len).map_err(|_| TensorNodeError::OutOfMemory { bytes: len })?;
    Ok(bytes)
}

/// `len` zeros.
pub(crate) fn zeros(len: usize) -> Result<Bytes> {
    const CHUNK: &[u8] = &[0; 4096];
    if let Some(pages) = zero_pages(len) {
        return Ok(pages);
    }
    let mut bytes = allocate(len)?;
    // Filling by chunks is fast without optimization too; otherwise large arrays are filled byte by byte.
    while bytes.len() < len {
        bytes.extend_from_slice(&CHUNK[..CHUNK.len().min(len - bytes.len())]);
    }
    Ok(bytes.into())
}

/// Arrays of so many bytes have pages of their own.
pub(crate) const PAGED: usize = 2 << 20;

/// Zeros in pages of their own, huge ones if the system has some, so that nothing is filled before it is
/// used, and threads that fill parts share the work. None for a small array, or where the system has no such
/// pages.
#[cfg(all(feature = "files", target_os = "linux", not(miri)))]
fn zero_pages(len: usize) -> Option<Bytes> {
    const HUGE_PAGE: usize = 2 << 20;
    let mapped = (len >= PAGED).then(|| len.checked_add(HUGE_PAGE))??;
    let mapping = memmap2::MmapMut::map_anon(mapped).ok()?;
    // A failure costs only speed.
    let _ = mapping.advise(memmap2::Advice::HugePage);
    let at = mapping.as_ptr().addr();
    Some(Bytes::counted(Memory::Pages { start: at.next_multiple_of(HUGE_PAGE) - at, len, mapping }))
}

#[cfg(not(all(feature = "files", target_os = "linux", not(miri))))]
fn zero_pages(_: usize) -> Option<Bytes> {
    None
}

impl Bytes {
    fn counted(memory: Memory) -> Bytes {
        let bytes = Bytes(memory);
        LIVE.fetch_add(bytes.len(), Ordering::Relaxed);
        bytes
    }
}

impl From<Growing> for Bytes {
    fn from(bytes: Growing) -> Bytes {
        Bytes::counted(Memory::Own(bytes))
    }
}

#[cfg(feature = "files")]
impl From<memmap2::MmapMut> for Bytes {
    fn from(mapping: memmap2::MmapMut) -> Bytes {
        Bytes::counted(Memory::Mapped(mapping))
    }
}

impl Clone for Bytes {
    fn clone(&self) -> Bytes {
        Bytes::from(Growing::from_slice(ALIGN_BYTES, self))
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        LIVE.fetch_sub(self.len(), Ordering::Relaxed);
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Own(bytes) => bytes,
            #[cfg(feature = "files")]
            Memory::Mapped(mapping) => mapping,
            #[cfg(all(feature = "files", target_os = "linux", not(miri)))]
            Memory::Pages { mapping, start, len } => &mapping[*start..*start + *len],
        }
    }
}

impl DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Own(bytes) => bytes,
            #[cfg(feature = "files")]
            Memory::Mapped(mapping) => mapping,
            #[cfg(all(feature = "files", target_os = "linux", not(miri)))]
            Memory::Pages { mapping, start, len } => &mut mapping[*start..*start + *len],
        }
    }
}
