//! One mapping that holds the code of many owners. This module has the crate's unsafe code, and changes the
//! protection of pages.
//!
//! Invariants it relies on and keeps:
//!
//! * A page is executable and not writable, except for the pages that [`Chunk::write`] is writing.
//! * The pages that are passed to `write` belong to nobody else, so no code on them runs. [`crate::arena`]
//!   hands out each page once until it is given back.
#![allow(unsafe_code, reason = "mapping executable memory and writing code to it is what this module is for")]

#[cfg(all(target_vendor = "apple", target_arch = "aarch64"))]
mod apple; // pages that each thread either writes or executes
#[cfg(not(all(target_vendor = "apple", target_arch = "aarch64")))]
mod protection; // pages whose protection changes

use std::{io, ops::Range};

#[cfg(all(target_vendor = "apple", target_arch = "aarch64"))]
use apple::Mapping;
#[cfg(not(all(target_vendor = "apple", target_arch = "aarch64")))]
use protection::Mapping;

use crate::barrier;

/// Fills the gaps between and after pieces of code with instructions that trap: `int3`, or `udf` on ARM64.
const FILL: u8 = if cfg!(target_arch = "x86_64") { 0xcc } else { 0 };

/// One mapping of executable memory.
pub(crate) struct Chunk {
    memory: Mapping,
}

// SAFETY: the mapping belongs to the process, not to a thread; `Mapping` is its address and length.
unsafe impl Send for Chunk {}

impl Chunk {
    /// Maps at least `bytes` bytes, rounded up to whole pages.
    pub(crate) fn map(bytes: usize) -> io::Result<Chunk> {
        Ok(Chunk { memory: Mapping::new(bytes)? })
    }

    /// The number of mapped bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.len()
    }

    /// The address of a byte, for reading and running; `offset` is within the chunk.
    pub(crate) fn address(&self, offset: usize) -> *const u8 {
        self.memory.start().wrapping_add(offset)
    }

    /// Fills whole pages with pieces of code, each at its offset from the beginning of the pages, and makes
    /// them executable. On an error the pages hold no code and may be written again.
    ///
    /// # Panics
    ///
    /// If the pages are not within the chunk, or a piece not within the pages.
    pub(crate) fn write(&mut self, pages: Range<usize>, pieces: &[(usize, &[u8])]) -> io::Result<()> {
        assert!(pages.start <= pages.end && pages.end <= self.memory.len(), "pages of the chunk");
        let fill = |memory: &mut [u8]| {
            memory.fill(FILL);
            for &(offset, code) in pieces {
                memory[offset..offset + code.len()].copy_from_slice(code);
            }
        };
        // SAFETY: the pages lie in this mapping. By the invariants of this module no code on them runs;
        // `&mut self` and the invariants say that nobody else refers to them.
        unsafe { self.memory.write(pages, fill) }?;
        barrier::discard_fetched_instructions()
    }
}

/// Discards the instructions of `length` bytes from `at` on, which were written, from the caches.
fn clear_instructions(at: *mut u8, length: usize) -> io::Result<()> {
    // SAFETY: the range is mapped and readable.
    match unsafe { clear_cache::clear_cache(at.cast_const(), at.wrapping_add(length).cast_const()) } {
        true => Ok(()),
        false => Err(io::Error::other("the instruction cache cannot be cleared")),
    }
}
