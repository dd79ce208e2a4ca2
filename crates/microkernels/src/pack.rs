//! Packing: copies a panel of a factor to where tiles read it without gaps.
//!
//! A panel is some neighbouring positions of the outer axis by a range of the depth. Packed, the positions at one depth are neighbours, `width`
//! elements per depth, zeros behind the last position. A panel is written in ascending order by whole vectors, so a write may spill
//! over what is written next; behind the last panel there are [`SPILL`] elements for that.
//!
//! What is copied goes through one of four ways: outer positions are neighbours in memory (copied), depths are (transposed),
//! outer positions are in a few runs, or the factor has bounds (masked), anything else (element by element).

mod contiguous; // copied and transposed
mod general; // in runs, with bounds, and anything else

use std::ops::Range;

use vector_asm::Memory;

use crate::real::Real;
use crate::side::Side;

/// How many elements behind a packed panel may be overwritten.
pub(crate) const SPILL: usize = 8;

/// Packs positions `outer` of a factor at the depths `depth`.
///
/// # Safety
///
/// The machine has AVX2, FMA and F16C. `from` is the address of position 0 of both axes. The elements within bounds may be read; at `to`, `width`
/// elements per depth and [`SPILL`] more may be written. `outer` has between one and `width` positions; `width` is at most 16, two vectors.
pub(crate) unsafe fn panel<T: Real>(
    side: &Side,
    from: *const u8,
    outer: Range<usize>,
    depth: Range<usize>,
    to: *mut T,
    width: usize,
) {
    let job = Panel { side, from, outer, depth, to, width };
    // SAFETY: the caller's promise.
    unsafe {
        match side.memory {
            Memory::F16 => dispatch::<T, F16>(&job),
            Memory::BF16 => dispatch::<T, Bf16>(&job),
            _ => dispatch::<T, Same>(&job),
        }
    }
}

/// Packs the slivers of `outer`, `width` positions each, one behind the other; where rows are contiguous, some slivers of a row at a time, since
/// neighbours in memory are cheaper to get at together.
///
/// # Safety
///
/// As of [`panel`], for all slivers.
pub(crate) unsafe fn slivers<T: Real>(
    side: &Side,
    from: *const u8,
    outer: Range<usize>,
    depth: Range<usize>,
    to: *mut T,
    width: usize,
) {
    let plain = side.memory == Memory::Same && side.limits.is_empty() && side.outer_is_contiguous();
    let (mut at, mut to) = (outer.start, to);
    while at < outer.end {
        // SAFETY: the caller's promise; slivers lie one behind the other.
        unsafe {
            if plain && outer.end - at >= TOGETHER * width {
                let job =
                    Panel { side, from, outer: at..at + TOGETHER * width, depth: depth.clone(), to, width };
                contiguous::copied_together(&job);
                at += TOGETHER * width;
                to = to.add(TOGETHER * width * depth.len());
            } else {
                let some = at..outer.end.min(at + width);
                panel(side, from, some, depth.clone(), to, width);
                at += width;
                to = to.add(width * depth.len());
            }
        }
    }
}

/// How many slivers are copied at a time: four lines.
pub(crate) const TOGETHER: usize = 4;

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn dispatch<T: Real, S: Source<T>>(job: &Panel<T>) {
    // SAFETY: the caller's promise.
    unsafe {
        if !job.side.limits.is_empty() {
            general::masked::<T, S>(job);
        } else if job.side.outer_is_contiguous() {
            contiguous::copied::<T, S>(job);
        } else if job.side.depth_is_contiguous() {
            contiguous::transposed::<T, S>(job);
        } else {
            general::masked::<T, S>(job);
        }
    }
}

/// Asks for what the next panel has here, which need not exist. Panels of factors with long rows are lines far apart, which the processor does not
/// foresee.
#[inline(always)]
fn ahead(from: *const u8) {
    // SAFETY: a hint that touches nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(from.wrapping_add(64).cast())
    };
}

/// What is packed where to.
struct Panel<'a, T> {
    side: &'a Side,
    from: *const u8,
    outer: Range<usize>,
    depth: Range<usize>,
    to: *mut T,
    width: usize,
}

/// What elements are in memory. The methods are inlined into functions with AVX2 and F16C.
trait Source<T: Real> {
    /// Whether vectors can be gathered.
    const GATHERS: bool;

    /// A vector of neighbours.
    unsafe fn load(from: *const u8) -> T::Vector;
    /// The first `lanes` neighbours, and zeros.
    unsafe fn load_some(from: *const u8, lanes: usize) -> T::Vector;
    /// Neighbours where the mask is set, and zeros.
    unsafe fn load_masked(from: *const u8, mask: T::Mask) -> T::Vector;
    /// One element.
    unsafe fn one(from: *const u8) -> T;
}

/// Elements as they are multiplied.
struct Same;

/// Half precision.
struct F16;

/// The upper half of single precision.
struct Bf16;

impl<T: Real> Source<T> for Same {
    const GATHERS: bool = true;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> T::Vector {
        // SAFETY: the caller's promise.
        unsafe { T::load(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load_some(from: *const u8, lanes: usize) -> T::Vector {
        // SAFETY: the caller's promise.
        unsafe { T::load_masked(from.cast(), T::mask(lanes)) }
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const u8, mask: T::Mask) -> T::Vector {
        // SAFETY: the caller's promise.
        unsafe { T::load_masked(from.cast(), mask) }
    }

    #[inline(always)]
    unsafe fn one(from: *const u8) -> T {
        // SAFETY: the caller's promise.
        unsafe { *from.cast() }
    }
}

macro_rules! narrow {
    ($name:ident, $bf16:literal) => {
        impl<T: Real> Source<T> for $name {
            const GATHERS: bool = false;

            #[inline(always)]
            unsafe fn load(from: *const u8) -> T::Vector {
                // SAFETY: the caller's promise.
                unsafe { T::widen(from.cast(), $bf16) }
            }

            #[inline(always)]
            unsafe fn load_some(from: *const u8, lanes: usize) -> T::Vector {
                let mut some = [0u16; 8];
                for (i, some) in some.iter_mut().enumerate().take(lanes) {
                    // SAFETY: the caller's promise for the first lanes.
                    *some = unsafe { *from.cast::<u16>().add(i) };
                }
                // SAFETY: eight elements are there.
                unsafe { T::widen(&some, $bf16) }
            }

            #[inline(always)]
            unsafe fn load_masked(from: *const u8, mask: T::Mask) -> T::Vector {
                let mut some = [0u16; 8];
                // SAFETY: inlined into a function with AVX2.
                let words = unsafe { T::words(mask) };
                for (i, some) in some.iter_mut().enumerate() {
                    if words[i] != 0 {
                        // SAFETY: the caller's promise for the lanes of the mask.
                        *some = unsafe { *from.cast::<u16>().wrapping_add(i) };
                    }
                }
                // SAFETY: eight elements are there.
                unsafe { T::widen(&some, $bf16) }
            }

            #[inline(always)]
            unsafe fn one(from: *const u8) -> T {
                // SAFETY: the caller's promise.
                T::widened(unsafe { *from.cast() }, $bf16)
            }
        }
    };
}

narrow!(F16, false);
narrow!(Bf16, true);
