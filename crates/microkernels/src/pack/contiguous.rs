//! Packing operands that are contiguous along the outer dimension or along K.

use super::{PANELS_AT_ONCE, PackJob, StoredElement, prefetch_next};
use crate::float::Float;
use crate::problem::AxisOffsets;

/// Copies a row for each position along K. Outer positions are contiguous.
#[inline(always)]
pub(super) unsafe fn copy_rows<T: Float, S: StoredElement<T>>(job: &PackJob<T>) {
    let from = job.from.wrapping_offset(job.operand.outer.at(job.outer.start));
    // SAFETY: the caller's promise.
    unsafe {
        match &job.operand.k {
            AxisOffsets::Strided(step) => {
                write_rows::<T, S>(job, |k| from.wrapping_offset(*step as isize * k as isize))
            }
            AxisOffsets::Table(table) => write_rows::<T, S>(job, |k| from.wrapping_offset(table[k] as isize)),
        }
    }
}

/// [`copy_rows`] for [`PANELS_AT_ONCE`] full micro-panels that lie one after the other, one row of all of
/// them at a time.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn copy_rows_of_panels<T: Float>(job: &PackJob<T>) {
    let micro_panel = job.width * job.k_range.len();
    let from = job.from.wrapping_offset(job.operand.outer.at(job.outer.start)).cast::<T>();
    let mut to = job.to;
    for k in job.k_range.clone() {
        let row = from.wrapping_byte_offset(job.operand.k.at(k));
        // SAFETY: the caller's promise.
        unsafe {
            for s in 0..PANELS_AT_ONCE {
                prefetch_next(row.wrapping_add((s + PANELS_AT_ONCE - 1) * job.width).cast());
                for half in 0..2 {
                    let at = s * job.width + half * T::LANES;
                    T::store(to.add(s * micro_panel + half * T::LANES), T::load(row.wrapping_add(at)));
                }
            }
            to = to.add(job.width);
        }
    }
}

#[inline(always)]
unsafe fn write_rows<T: Float, S: StoredElement<T>>(job: &PackJob<T>, row: impl Fn(usize) -> *const u8) {
    let (count, width) = (job.outer.len(), job.width);
    let mut to = job.to;
    // SAFETY: the caller's promise; the next store writes the elements that a store overran.
    unsafe {
        if count == 2 * T::LANES {
            for k in job.k_range.clone() {
                let from = row(k);
                prefetch_next(from);
                T::store(to, S::load(from));
                T::store(
                    to.add(T::LANES),
                    S::load(from.wrapping_offset(T::LANES as isize * job.operand.size)),
                );
                to = to.add(width);
            }
            return;
        }
        let (whole, rest) = (count / T::LANES, count % T::LANES);
        for k in job.k_range.clone() {
            let from = row(k);
            for v in 0..width.div_ceil(T::LANES) {
                let from = from.wrapping_offset((v * T::LANES) as isize * job.operand.size);
                let value = if v < whole {
                    S::load(from)
                } else if v == whole && rest > 0 {
                    S::load_first(from, rest)
                } else {
                    T::zero()
                };
                T::store(to.add(v * T::LANES), value);
            }
            to = to.add(width);
        }
    }
}

/// Transposes square blocks as wide as a vector. Elements along K form long contiguous runs.
#[inline(always)]
pub(super) unsafe fn transpose<T: Float, S: StoredElement<T>>(job: &PackJob<T>) {
    // SAFETY: the caller's promise.
    unsafe {
        if job.width <= T::LANES {
            transpose_blocks::<T, S, 1>(job);
        } else {
            transpose_blocks::<T, S, 2>(job);
        }
    }
}

/// [`transpose`] for a micro-panel as wide as `G` blocks side by side.
#[inline(always)]
unsafe fn transpose_blocks<T: Float, S: StoredElement<T>, const G: usize>(job: &PackJob<T>) {
    let operand = job.operand;
    let count = job.outer.len();
    let mut origins = [job.from; 16];
    for (i, origin) in origins.iter_mut().enumerate().take(count) {
        *origin = job.from.wrapping_offset(operand.outer.at(job.outer.start + i));
    }
    let mut to = job.to;
    let mut k = job.k_range.start;
    while k < job.k_range.end {
        let run = operand.k_runs.get(k).map_or(job.k_range.end, |&end| (end as usize).min(job.k_range.end));
        let depths = (run - k).min(T::LANES);
        let at = operand.k.at(k);
        // SAFETY: the caller's promise: `depths` contiguous elements exist, and the next store writes the
        // elements that a store overran.
        unsafe {
            let mut blocks = [[T::zero(); 8]; G];
            for (g, block) in blocks.iter_mut().enumerate() {
                for (i, row) in block.iter_mut().enumerate().take(T::LANES) {
                    if g * T::LANES + i < count {
                        let from = origins[g * T::LANES + i].wrapping_offset(at);
                        *row = if depths == T::LANES { S::load(from) } else { S::load_first(from, depths) };
                    }
                }
                T::transpose(block);
            }
            for j in 0..depths {
                for (g, block) in blocks.iter().enumerate() {
                    T::store(to.add(j * job.width + g * T::LANES), block[j]);
                }
            }
            to = to.add(depths * job.width);
        }
        k += depths;
    }
}
