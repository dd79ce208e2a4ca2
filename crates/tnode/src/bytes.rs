//! The memory of host arrays: aligned, and counted while it lives.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

use aligned_vec::{AVec, ConstAlign};

use crate::error::TensorNodeError;

/// Alignment of the bytes of every host array.
pub const ALIGN_BYTES: usize = 64;

/// A byte vector that is still growing.
pub(crate) type Growing = AVec<u8, ConstAlign<ALIGN_BYTES>>;

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Bytes of a fixed length, which [`live`] counts until they are dropped.
#[derive(Debug)]
pub(crate) struct Bytes(Growing);

/// The total number of bytes of all host arrays in the process.
pub(crate) fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// An empty vector with capacity `len`.
pub(crate) fn allocate(len: usize) -> Result<Growing, TensorNodeError> {
    let mut bytes = AVec::new(ALIGN_BYTES);
    bytes.try_reserve_exact(len).map_err(|_| TensorNodeError::OutOfMemory { bytes: len })?;
    Ok(bytes)
}

/// A vector of `len` zeros.
pub(crate) fn zeros(len: usize) -> Result<Growing, TensorNodeError> {
    const CHUNK: &[u8] = &[0; 4096];
    let mut bytes = allocate(len)?;
    // Filling by chunks is fast without optimization too; otherwise large arrays are filled byte by byte.
    while bytes.len() < len {
        bytes.extend_from_slice(&CHUNK[..CHUNK.len().min(len - bytes.len())]);
    }
    Ok(bytes)
}

impl From<Growing> for Bytes {
    fn from(bytes: Growing) -> Bytes {
        LIVE.fetch_add(bytes.len(), Ordering::Relaxed);
        Bytes(bytes)
    }
}

impl Clone for Bytes {
    fn clone(&self) -> Bytes {
        Bytes::from(self.0.clone())
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        LIVE.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
