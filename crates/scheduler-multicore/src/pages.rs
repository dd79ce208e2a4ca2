//! Memory from the system: zeroed and aligned, and large memory on huge pages.
//!
//! Invariants: memory that [`allocate`] returns is initialized, aligned to [`ALIGNMENT`] and disjoint from
//! all other memory until it is passed to [`release`] together with its size. Memory of at least
//! [`HUGE_PAGE`] bytes begins at a huge page.
#![allow(unsafe_code, reason = "memory comes from the system's allocator and its mappings")]

use std::{
    alloc::{self, Layout},
    ptr::NonNull,
};

/// Alignment of pools and scratch memory, in bytes: the size of a cache line and of the widest vector.
pub(crate) const ALIGNMENT: usize = 64;

/// The size of a huge page, in bytes. Memory of at least this size is mapped, not taken from the allocator.
#[cfg(all(target_os = "linux", not(miri)))]
const HUGE_PAGE: usize = 2 << 20;

/// An allocation of at least this size first returns to the system what the heap has free: a compilation
/// frees many times what it keeps, and the heap's allocator would hold it during all runs. The return takes
/// 0.1 ms for a heap of some MiB and 2 to 6 ms for one of 60 MiB; zeroing 16 MiB of new pages takes 1 to
/// 38 ms.
#[cfg(all(target_os = "linux", not(miri)))]
const RETURNING: usize = 8 * HUGE_PAGE;

/// The size of memory that [`merge`] moves, at least.
#[cfg(all(target_os = "linux", not(miri)))]
const MERGED: usize = HUGE_PAGE / 8;

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), ALIGNMENT).ok()
}

/// Allocates `bytes` zeroed bytes; `None` if the system has no memory.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn allocate(bytes: usize) -> Option<NonNull<u8>> {
    if bytes < HUGE_PAGE { allocate_small(bytes) } else { allocate_large(bytes) }
}

/// Frees memory.
///
/// # Safety
///
/// [`allocate`] returned `base` for the same `bytes`, the memory has not been freed, and nobody uses it any
/// more.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) unsafe fn release(base: NonNull<u8>, bytes: usize) {
    match bytes < HUGE_PAGE {
        // SAFETY: `allocate` uses `allocate_small` for sizes below a huge page; the caller vouches for the
        // rest.
        true => unsafe { release_small(base, bytes) },
        // SAFETY: `allocate_large` left exactly this range mapped; the caller vouches for the rest.
        false => unsafe { unmap(base.as_ptr(), bytes.next_multiple_of(PAGE)) },
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) use {allocate_small as allocate, release_small as release};

/// Maps one huge page more than needed, and unmaps the surplus before and after the aligned range. A mapping
/// may begin at any small page, and the system gives huge pages only to those parts that fill one.
#[cfg(all(target_os = "linux", not(miri)))]
fn allocate_large(bytes: usize) -> Option<NonNull<u8>> {
    if bytes >= RETURNING {
        return_free_memory();
    }
    let mapped = bytes.checked_next_multiple_of(PAGE)?.checked_add(HUGE_PAGE)?;
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new anonymous mapping at an address of the system's choice affects no existing memory.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), mapped, access, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    let start = start.cast::<u8>();
    let before = start.addr().next_multiple_of(HUGE_PAGE) - start.addr();
    let kept = bytes.next_multiple_of(PAGE);
    let base = start.wrapping_add(before);
    // SAFETY: both ranges belong to the new mapping, consist of whole pages, and are not in use.
    unsafe {
        unmap(start, before);
        unmap(base.wrapping_add(kept), mapped - before - kept);
    }
    // SAFETY: the huge pages lie within the new mapping; the advice changes no contents. A failure costs only
    // speed.
    unsafe { libc::madvise(base.cast(), bytes / HUGE_PAGE * HUGE_PAGE, libc::MADV_HUGEPAGE) };
    NonNull::new(base)
}

/// Returns pages of the heap that hold nothing.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
fn return_free_memory() {
    // SAFETY: `malloc_trim` may be called at any time by any thread.
    unsafe { libc::malloc_trim(0) };
}

/// Allocators of other systems return pages by themselves.
#[cfg(all(target_os = "linux", not(target_env = "gnu"), not(miri)))]
fn return_free_memory() {}

/// An upper bound of the page sizes of supported machines, in bytes.
#[cfg(all(target_os = "linux", not(miri)))]
const PAGE: usize = 64 << 10;

/// Unmaps whole pages; `bytes` may be 0.
///
/// # Safety
///
/// The range is mapped, and nobody uses it any more.
#[cfg(all(target_os = "linux", not(miri)))]
unsafe fn unmap(base: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller's promise is the required one. A failure leaves the range mapped, which only
        // wastes addresses.
        unsafe { libc::munmap(base.cast(), bytes) };
    }
}

/// Moves memory of any allocator onto huge pages at once, if the system has some. Its first and last huge
/// page may hold other memory of the process, which moves too.
///
/// Weights of a model lie one behind the other on small pages of the heap, and are too small to fill huge
/// pages themselves. A product of one row reads them up to a third slower there.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn merge(base: *const u8, bytes: usize) {
    if bytes < MERGED {
        return;
    }
    let first = base.addr() / HUGE_PAGE * HUGE_PAGE;
    let end = (base.addr() + bytes).next_multiple_of(HUGE_PAGE);
    let start = base.wrapping_sub(base.addr() - first).cast_mut();
    // SAFETY: the advice changes no contents, whoever uses the range. A failure costs only speed.
    unsafe { libc::madvise(start.cast(), end - first, libc::MADV_COLLAPSE) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn merge(_: *const u8, _: usize) {}

fn allocate_small(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: the layout's size is not zero.
    NonNull::new(unsafe { alloc::alloc_zeroed(layout(bytes)?) })
}

/// # Safety
///
/// `allocate_small` returned `base` for the same `bytes`, the memory has not been freed, and nobody uses it
/// any more.
unsafe fn release_small(base: NonNull<u8>, bytes: usize) {
    if let Some(layout) = layout(bytes) {
        // SAFETY: the caller's promise is the required one.
        unsafe { alloc::dealloc(base.as_ptr(), layout) }
    }
}

#[cfg(all(test, target_os = "linux", not(miri), not(feature = "loom")))]
mod tests {
    use super::*;

    /// Whether a small page is mapped.
    fn is_mapped(page: *mut u8) -> bool {
        // SAFETY: an asynchronous `msync` changes no contents, and fails where nothing is mapped.
        unsafe { libc::msync(page.cast(), 1, libc::MS_ASYNC) == 0 }
    }

    #[test]
    fn released_memory_leaves_no_mapping_behind() {
        let bytes = HUGE_PAGE + 1;
        let left = (0..100).filter(|_| {
            let base = allocate(bytes).unwrap();
            let last_page = base.as_ptr().wrapping_add(bytes.next_multiple_of(PAGE) - PAGE / 16);
            assert!(is_mapped(last_page));
            // SAFETY: the memory was just allocated with this size, and nobody uses it.
            unsafe { release(base, bytes) };
            is_mapped(last_page)
        });
        // Some pages may be mapped again, because another thread of the test process may have mapped the same
        // addresses meanwhile.
        assert!(left.count() < 50);
    }
}
