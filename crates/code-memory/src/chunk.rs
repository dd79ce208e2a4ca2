//! One mapping that holds the code of many owners. This module has the crate's unsafe code, and changes the
//! protection of pages.
//!
//! Invariants it relies on and keeps:
//!
//! * A page is executable and not writable, except for the pages that [`Chunk::write`] is writing.
//! * The pages that are passed to `write` belong to nobody else, so no code on them runs. [`crate::arena`]
//!   hands out each page once until it is given back.
#![allow(unsafe_code, reason = "mapping executable memory and writing code to it is what this module is for")]

use std::{io, ops::Range};

use region::{Allocation, Protection};

use crate::barrier;

/// Fills the gaps between and after pieces of code with instructions that trap.
const FILL: u8 = if cfg!(target_arch = "x86_64") { 0xcc } else { 0 };

/// One mapping of executable memory.
pub(crate) struct Chunk {
    memory: Allocation,
}

// SAFETY: the mapping belongs to the process, not to a thread; `Allocation` is its address and length.
unsafe impl Send for Chunk {}

impl Chunk {
    /// Maps at least `bytes` bytes, rounded up to whole pages.
    pub(crate) fn map(bytes: usize) -> io::Result<Chunk> {
        // The first page is written once while all pages are writable. From then on Linux accounts for all
        // pages alike (`VM_ACCOUNT`, one `anon_vma`), so it merges ranges again that a change of protection
        // has split.
        let mut memory = region::alloc(bytes, Protection::READ_WRITE).map_err(io::Error::from)?;
        let start: *mut u8 = memory.as_mut_ptr();
        // SAFETY: the memory is mapped, writable and not empty, and nobody else knows its address.
        unsafe { start.write(FILL) };
        // SAFETY: the range is this mapping, in which nothing lies yet.
        unsafe { region::protect(start, memory.len(), Protection::READ_EXECUTE) }.map_err(io::Error::from)?;
        Ok(Chunk { memory })
    }

    /// The number of mapped bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.len()
    }

    /// The address of a byte, for reading and running; `offset` is within the chunk.
    pub(crate) fn address(&self, offset: usize) -> *const u8 {
        self.memory.as_ptr::<u8>().wrapping_add(offset)
    }

    /// Fills whole pages with pieces of code, each at its offset from the beginning of the pages, and makes
    /// them executable. On an error the pages hold no code and may be written again.
    ///
    /// # Panics
    ///
    /// If the pages are not within the chunk, or a piece not within the pages.
    pub(crate) fn write(&mut self, pages: Range<usize>, pieces: &[(usize, &[u8])]) -> io::Result<()> {
        let length = pages.len();
        assert!(pages.start <= pages.end && pages.end <= self.memory.len(), "pages of the chunk");
        let at = self.memory.as_mut_ptr::<u8>().wrapping_add(pages.start);
        // SAFETY: the pages lie in this mapping, and by the invariants of this module no code on them runs.
        unsafe { region::protect(at, length, Protection::READ_WRITE) }.map_err(io::Error::from)?;
        // SAFETY: the pages are writable now, whole, and `&mut self` and the invariants say that nobody else
        // refers to them.
        let memory = unsafe { std::slice::from_raw_parts_mut(at, length) };
        memory.fill(FILL);
        for &(offset, code) in pieces {
            memory[offset..offset + code.len()].copy_from_slice(code);
        }
        // SAFETY: the range is mapped and readable.
        if !unsafe { clear_cache::clear_cache(at.cast_const(), at.wrapping_add(length).cast_const()) } {
            return Err(io::Error::other("the instruction cache cannot be cleared"));
        }
        // SAFETY: as above; `memory` is not used after this.
        unsafe { region::protect(at, length, Protection::READ_EXECUTE) }.map_err(io::Error::from)?;
        barrier::discard_fetched_instructions()
    }
}
