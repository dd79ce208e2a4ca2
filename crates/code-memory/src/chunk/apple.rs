//! Memory of Apple's systems on ARM64, which a thread may either write or execute (`MAP_JIT`).
//!
//! A program with the hardened runtime may execute memory that it has written only in such mappings, for
//! which it needs the entitlement `com.apple.security.cs.allow-jit`. The switch between writing and executing
//! is a register of each thread, so other threads run code of the mapping meanwhile.
//!
//! This follows the documentation, "Porting just-in-time compilers to Apple silicon", and has not been
//! tested.

use std::io;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};

/// One mapping of memory.
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

/// While this object lives, its thread writes mappings and executes no code in them.
struct WritingThread;

impl WritingThread {
    fn new() -> WritingThread {
        // SAFETY: the switch concerns this thread, which runs no code of a mapping until it is dropped.
        unsafe { libc::pthread_jit_write_protect_np(0) };
        WritingThread
    }
}

impl Drop for WritingThread {
    fn drop(&mut self) {
        // SAFETY: the thread writes no mapping any more.
        unsafe { libc::pthread_jit_write_protect_np(1) };
    }
}

impl Mapping {
    /// Maps at least `bytes` bytes, rounded up to whole pages, readable and executable.
    pub(super) fn new(bytes: usize) -> io::Result<Mapping> {
        let bytes = bytes.next_multiple_of(region::page::size());
        let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_JIT;
        // SAFETY: the system chooses the address, so no mapping is replaced.
        let start = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(first) if start != libc::MAP_FAILED => Ok(Mapping { start: first, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The number of mapped bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// The address of the first byte.
    pub(super) fn start(&self) -> *const u8 {
        self.start.as_ptr()
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
        let (at, length) = (self.start.as_ptr().wrapping_add(pages.start), pages.len());
        let writing = WritingThread::new();
        // SAFETY: the pages are mapped, this thread may write them, and nobody else refers to them.
        fill(unsafe { std::slice::from_raw_parts_mut(at, length) });
        drop(writing);
        super::clear_instructions(at, length)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this object owns the mapping, and no code in it is loaded any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
