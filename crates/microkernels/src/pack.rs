//! Packing: copies a micro-panel of A or B into contiguous memory.
//!
//! A micro-panel is the part of an operand at a range of positions of the outer dimension (M of A, N of B)
//! and a range of K. In packed form it has `width` elements for each position along K: one for each outer
//! position, then zeros. Packing stores full vectors in ascending order of address. A store may therefore
//! write past its own elements, which the next store corrects; for the last store there are [`OVERRUN`] more
//! elements after the last micro-panel.
//!
//! There are four ways to pack. If outer positions are contiguous, rows are copied, those of A for all tiles
//! of a block together; if K is contiguous, square blocks are transposed, with masks if the operand has
//! bounds. If outer positions form a few contiguous runs, vectors are loaded with masks. Any other operand is
//! packed element by element. Where there are microkernels for it, the first tile of a column loads vectors
//! with masks and packs them on the way.

mod columns; // columns that a tile reads and packs
mod contiguous; // rows copied or transposed
mod general; // masked loads, gathers, and single elements
mod tiles; // rows of several tiles of A, copied together

use std::marker::PhantomData;
use std::ops::Range;

use vector_asm::StoredType;

use crate::operand::OperandLayout;
use crate::simd::{MAX_LANES, Simd, prefetch};

/// Elements after a packed micro-panel that stores may overwrite.
pub(crate) const OVERRUN: usize = MAX_LANES;

/// Packs the positions `outer` of an operand at the positions `k_range` along K.
///
/// # Safety
///
/// The CPU has the instructions of the vectors. `from` is the address of position 0 of both dimensions.
/// Elements within bounds may be read; at `to`, `width` elements for each position along K and [`OVERRUN`]
/// more may be written. `outer` has between one and `width` positions, and `width` is at most the rows
/// or the columns of a tile.
pub(crate) unsafe fn micro_panel<V: Simd>(
    operand: &OperandLayout,
    from: *const u8,
    outer: Range<usize>,
    k_range: Range<usize>,
    to: *mut V::Element,
    width: usize,
) {
    let job = PackJob::<V> { operand, from, outer, k_range, to, width };
    // SAFETY: the caller's promise.
    unsafe {
        // A condition that is constant spares the compiler the functions for `f64`, which is never narrow.
        if const { size_of::<V::Element>() > 4 } {
            return pack::<V, Unconverted>(&job);
        }
        match operand.memory {
            StoredType::F16 => pack::<V, F16>(&job),
            StoredType::BF16 => pack::<V, Bf16>(&job),
            _ => pack::<V, Unconverted>(&job),
        }
    }
}

/// Packs the micro-panels of `outer`, `width` positions each, one after the other. If outer positions are
/// contiguous, several micro-panels are packed together, because neighbors in memory are cheaper to load at
/// once.
///
/// # Safety
///
/// The requirements of [`micro_panel`], for all micro-panels.
pub(crate) unsafe fn micro_panels<V: Simd>(
    operand: &OperandLayout,
    from: *const u8,
    outer: Range<usize>,
    k_range: Range<usize>,
    to: *mut V::Element,
    width: usize,
) {
    let is_copy =
        operand.memory == StoredType::Same && operand.limits.is_empty() && operand.outer_is_contiguous();
    let (mut at, mut to) = (outer.start, to);
    while at < outer.end {
        // SAFETY: the caller's promise; micro-panels lie one after the other.
        unsafe {
            if is_copy && outer.end - at >= PANELS_AT_ONCE * width {
                let job = PackJob::<V> {
                    operand,
                    from,
                    outer: at..at + PANELS_AT_ONCE * width,
                    k_range: k_range.clone(),
                    to,
                    width,
                };
                V::enter(contiguous::RowsOfPanels(&job));
                at += PANELS_AT_ONCE * width;
                to = to.add(PANELS_AT_ONCE * width * k_range.len());
            } else {
                let some = at..outer.end.min(at + width);
                micro_panel::<V>(operand, from, some, k_range.clone(), to, width);
                at += width;
                to = to.add(width * k_range.len());
            }
        }
    }
}

/// How many micro-panels are copied together: four cache lines.
pub(crate) const PANELS_AT_ONCE: usize = 4;

pub(crate) use columns::{ColumnReader, are_readable as columns_are_readable};
pub(crate) use tiles::TileRows;

/// Packs a micro-panel whose elements are stored as `S`.
unsafe fn pack<V: Simd, S: StoredElement<V>>(job: &PackJob<V>) {
    let is_limited = !job.operand.limits.is_empty();
    // SAFETY: the caller's promise.
    unsafe {
        if !is_limited && job.operand.outer_is_contiguous() {
            V::enter(contiguous::Rows::<V, S>(job, PhantomData));
        } else if !job.operand.k_is_contiguous {
            V::enter(general::Lanes::<V, S>(job, PhantomData));
        } else if is_limited {
            contiguous::transpose::<V, S, true>(job);
        } else {
            contiguous::transpose::<V, S, false>(job);
        }
    }
}

/// Prefetches the row after `from`, which the next micro-panel reads and which need not exist. Rows of a
/// large operand are far apart, and the hardware prefetcher does not foresee them.
#[inline(always)]
fn prefetch_next(from: *const u8) {
    prefetch(from.wrapping_add(64), false);
}

/// One call of [`micro_panel`]: the operand, the ranges to pack, and the destination.
pub(crate) struct PackJob<'a, V: Simd> {
    operand: &'a OperandLayout,
    from: *const u8,
    outer: Range<usize>,
    k_range: Range<usize>,
    to: *mut V::Element,
    width: usize,
}

/// How to load elements as they are stored. The methods are inlined into entries of an instruction set.
pub(crate) trait StoredElement<V: Simd> {
    /// Whether vectors can be gathered.
    const GATHERS: bool;

    /// Loads a vector of contiguous elements.
    unsafe fn load(from: *const u8) -> V::Vector;
    /// Loads `lanes` contiguous elements, then zeros.
    #[inline(always)]
    unsafe fn load_first(from: *const u8, lanes: usize) -> V::Vector {
        // SAFETY: the caller's promise.
        unsafe { Self::load_masked(from, V::mask(lanes)) }
    }
    /// Loads the contiguous elements that the mask selects; the others are zero.
    unsafe fn load_masked(from: *const u8, mask: V::Mask) -> V::Vector;
    /// Loads one element.
    unsafe fn load_one(from: *const u8) -> V::Element;
}

/// Stored as the accumulators' type.
pub(crate) struct Unconverted;

/// Stored as `f16`.
pub(crate) struct F16;

/// Stored as `bf16`, the upper half of an `f32`.
pub(crate) struct Bf16;

impl<V: Simd> StoredElement<V> for Unconverted {
    const GATHERS: bool = true;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> V::Vector {
        // SAFETY: the caller's promise.
        unsafe { V::load(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const u8, mask: V::Mask) -> V::Vector {
        // SAFETY: the caller's promise.
        unsafe { V::load_masked(from.cast(), mask) }
    }

    #[inline(always)]
    unsafe fn load_one(from: *const u8) -> V::Element {
        // SAFETY: the caller's promise.
        unsafe { *from.cast() }
    }
}

macro_rules! narrow {
    ($name:ident, $bf16:literal) => {
        impl<V: Simd> StoredElement<V> for $name {
            const GATHERS: bool = false;

            #[inline(always)]
            unsafe fn load(from: *const u8) -> V::Vector {
                // SAFETY: the caller's promise.
                unsafe { V::widen(from.cast(), $bf16) }
            }

            #[inline(always)]
            unsafe fn load_masked(from: *const u8, mask: V::Mask) -> V::Vector {
                // SAFETY: the caller's promise.
                unsafe { V::widen_masked(from.cast(), mask, $bf16) }
            }

            #[inline(always)]
            unsafe fn load_one(from: *const u8) -> V::Element {
                // SAFETY: the caller's promise.
                V::widened(unsafe { *from.cast() }, $bf16)
            }
        }
    };
}

narrow!(F16, false);
narrow!(Bf16, true);
