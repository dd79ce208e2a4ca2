//! Memory from the system: zeroed, aligned, and by whole huge pages where it is large.
//!
//! Invariants: what [`allocate`] returns is initialised, aligned to [`ALIGNMENT`] and apart from everything else until it is given to
//! [`release`] with the size that it was asked for; from [`HUGE_PAGE`] bytes on it begins at a huge page.
#![allow(unsafe_code, reason = "memory comes from the system's allocator and its mappings")]

use std::{
    alloc::{self, Layout},
    ptr::NonNull,
};

/// Alignment of pools and scratch memory, in bytes: a cache line, and the widest vector.
pub(crate) const ALIGNMENT: usize = 64;

/// From this size on, memory comes from the system by whole huge pages.
#[cfg(all(target_os = "linux", not(miri)))]
const HUGE_PAGE: usize = 2 << 20;

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), ALIGNMENT).ok()
}

/// So many zeros, or nothing if the system has none.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn allocate(bytes: usize) -> Option<NonNull<u8>> {
    if bytes < HUGE_PAGE { allocate_small(bytes) } else { allocate_large(bytes) }
}

/// Gives memory back.
///
/// # Safety
///
/// `base` came from [`allocate`] for as many bytes, was not given back before, and nobody uses the memory any more.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) unsafe fn release(base: NonNull<u8>, bytes: usize) {
    match bytes < HUGE_PAGE {
        // SAFETY: `allocate` called `allocate_small`, as it does for sizes below a huge page; the caller vouches for the rest.
        true => unsafe { release_small(base, bytes) },
        // SAFETY: `allocate_large` left exactly this range mapped; the caller vouches for the rest.
        false => unsafe { unmap(base.as_ptr(), bytes) },
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) use {allocate_small as allocate, release_small as release};

/// Maps one huge page more than needed and gives back what is before and behind the aligned part, since a mapping begins at any small
/// page, and its ends would have no huge ones.
#[cfg(all(target_os = "linux", not(miri)))]
fn allocate_large(bytes: usize) -> Option<NonNull<u8>> {
    let mapped = bytes.checked_next_multiple_of(PAGE)?.checked_add(HUGE_PAGE)?;
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new anonymous mapping at an address of the system's choice touches nothing that exists.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), mapped, access, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    let start = start.cast::<u8>();
    let before = start.addr().next_multiple_of(HUGE_PAGE) - start.addr();
    let kept = bytes.next_multiple_of(PAGE);
    let base = start.wrapping_add(before);
    // SAFETY: both ranges are of the mapping just made, consist of whole pages, and nobody has seen them.
    unsafe {
        unmap(start, before);
        unmap(base.wrapping_add(kept), mapped - before - kept);
    }
    advise(base, bytes);
    NonNull::new(base)
}

/// The pages that mappings consist of; larger where the machine's are.
#[cfg(all(target_os = "linux", not(miri)))]
const PAGE: usize = 64 << 10;

/// Unmaps whole pages, of which there may be none.
///
/// # Safety
///
/// The range is mapped, and nobody uses it any more.
#[cfg(all(target_os = "linux", not(miri)))]
unsafe fn unmap(base: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller's promise is the one asked for. A refusal leaves the range mapped, which wastes addresses only.
        unsafe { libc::munmap(base.cast(), bytes) };
    }
}

/// Asks the system for huge pages behind memory of whatever origin, as far as it consists of whole ones.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn advise(base: *const u8, bytes: usize) {
    let first = base.addr().next_multiple_of(HUGE_PAGE);
    let end = (base.addr() + bytes) / HUGE_PAGE * HUGE_PAGE;
    if first < end {
        // SAFETY: the range lies within memory that the caller has; the advice changes no contents. A refusal costs only speed.
        unsafe {
            libc::madvise(
                base.wrapping_add(first - base.addr()).cast_mut().cast(),
                end - first,
                libc::MADV_HUGEPAGE,
            )
        };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn advise(_: *const u8, _: usize) {}

fn allocate_small(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: the layout's size is not zero.
    NonNull::new(unsafe { alloc::alloc_zeroed(layout(bytes)?) })
}

/// # Safety
///
/// `base` came from `allocate_small` for as many bytes, was not given back before, and nobody uses the memory any more.
unsafe fn release_small(base: NonNull<u8>, bytes: usize) {
    if let Some(layout) = layout(bytes) {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { alloc::dealloc(base.as_ptr(), layout) }
    }
}
