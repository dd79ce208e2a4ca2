//! Memory whose pages are writable while code is written to them, and executable otherwise.

use std::io;
use std::ops::Range;

use region::{Allocation, Protection};

/// One mapping of memory.
pub(super) struct Mapping {
    memory: Allocation,
}

impl Mapping {
    /// Maps at least `bytes` bytes, rounded up to whole pages, readable and executable.
    pub(super) fn new(bytes: usize) -> io::Result<Mapping> {
        // The first page is written once while all pages are writable. From then on Linux accounts for all
        // pages alike (`VM_ACCOUNT`, one `anon_vma`), so it merges ranges again that a change of protection
        // has split.
        let mut memory = region::alloc(bytes, Protection::READ_WRITE).map_err(io::Error::from)?;
        let start: *mut u8 = memory.as_mut_ptr();
        // SAFETY: the memory is mapped, writable and not empty, and nobody else knows its address.
        unsafe { start.write(super::FILL) };
        // SAFETY: the range is this mapping, in which nothing lies yet.
        unsafe { region::protect(start, memory.len(), Protection::READ_EXECUTE) }.map_err(io::Error::from)?;
        Ok(Mapping { memory })
    }

    /// The number of mapped bytes.
    pub(super) fn len(&self) -> usize {
        self.memory.len()
    }

    /// The address of the first byte.
    pub(super) fn start(&self) -> *const u8 {
        self.memory.as_ptr()
    }

    /// Writes whole pages, which are executable afterwards.
    ///
    /// # Safety
    ///
    /// The pages lie in this mapping. No code on them runs, and nobody refers to them.
    pub(super) unsafe fn write(
        &mut self,
        pages: Range<usize>,
        fill: impl FnOnce(&mut [u8]),
    ) -> io::Result<()> {
        let (at, length) = (self.memory.as_mut_ptr::<u8>().wrapping_add(pages.start), pages.len());
        // SAFETY: the caller's promise.
        unsafe { region::protect(at, length, Protection::READ_WRITE) }.map_err(io::Error::from)?;
        // SAFETY: the pages are writable now, whole, and nobody else refers to them.
        fill(unsafe { std::slice::from_raw_parts_mut(at, length) });
        super::clear_instructions(at, length)?;
        // SAFETY: as above; the slice is not used any more.
        unsafe { region::protect(at, length, Protection::READ_EXECUTE) }.map_err(io::Error::from)
    }
}
