//! Files as memory.

#![allow(unsafe_code, reason = "what mapped memory holds is up to whoever may write the file")]

use std::{fs::File, io};

use memmap2::{MmapMut, MmapOptions};
use tnode::ALIGN_BYTES;

/// The promise that no file of a model changes as long as memory is mapped to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnchangedFiles(());

impl UnchangedFiles {
    /// # Safety
    /// Nothing writes or shortens a file from which this promise makes memory, as long as the memory lives.
    pub(crate) unsafe fn promised() -> UnchangedFiles {
        UnchangedFiles(())
    }

    /// A part of a file that an array can use in place; none if it is empty or not aligned as arrays are.
    /// What is written to the memory is not written to the file.
    pub(crate) fn part(self, file: &File, offset: u64, bytes: usize) -> io::Result<Option<MmapMut>> {
        if bytes == 0 || !offset.is_multiple_of(ALIGN_BYTES as u64) {
            return Ok(None);
        }
        // SAFETY: nothing changes the file while it is mapped.
        unsafe { MmapOptions::new().offset(offset).len(bytes).map_copy(file) }.map(Some)
    }
}
