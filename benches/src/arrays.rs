//! Memory for peers that run in this process. Like the arrays of compiled code, it is aligned to cache lines
//! and lies on huge pages.

use std::{
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicUsize, Ordering},
};

use aligned_vec::{AVec, ConstAlign};

/// Bytes of a huge page.
const PAGE: usize = 2 << 20;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Floats that start at a cache line. Large arrays lie on huge pages, each offset by a few more lines than
/// the one before, so that arrays that are used together do not compete for the same cache sets.
pub(crate) struct Buffer {
    memory: AVec<f32, ConstAlign<PAGE>>,
    start: usize,
}

/// A dense array in row-major order.
pub(crate) struct Array {
    pub(crate) dims: Vec<usize>,
    pub(crate) values: Buffer,
}

impl Buffer {
    /// A copy of the values.
    pub(crate) fn new(values: &[f32]) -> Buffer {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        const LINES: usize = 17;
        let start = COUNT.fetch_add(1, Ordering::Relaxed) % 16 * LINES * LINE / size_of::<f32>();
        let mut memory = AVec::with_capacity(PAGE, start + values.len());
        advise(&memory);
        memory.resize(start, 0.0);
        memory.extend_from_slice(values);
        Buffer { memory, start }
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.memory[self.start..]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory[self.start..]
    }
}

/// Requests huge pages, before the memory is touched.
#[cfg(target_os = "linux")]
fn advise(memory: &AVec<f32, ConstAlign<PAGE>>) {
    let bytes = memory.capacity() * size_of::<f32>();
    if bytes >= PAGE {
        // SAFETY: the range is the vector's own allocation, and the advice affects only speed. If it is
        // rejected, the pages are ordinary ones.
        let _ = unsafe { libc::madvise(memory.as_ptr() as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise(_: &AVec<f32, ConstAlign<PAGE>>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_hold_what_they_were_given_on_cache_lines() {
        for count in [0, 1, 1000, PAGE] {
            let values: Vec<f32> = (0..count).map(|i| i as f32).collect();
            let buffer = Buffer::new(&values);
            assert_eq!(*buffer, *values);
            assert!(buffer.as_ptr().addr().is_multiple_of(LINE));
        }
    }
}
