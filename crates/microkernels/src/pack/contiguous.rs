//! Packing operands that are contiguous along the outer dimension or along K.

use super::{PANELS_AT_ONCE, PackJob, StoredElement, prefetch_next};
use crate::float::Float;
use crate::operand::OperandLayout;
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

/// Transposes square blocks as wide as a vector. Elements along K form long contiguous runs. With `LIMITED`,
/// elements that do not exist are zero.
#[inline(always)]
pub(super) unsafe fn transpose<T: Float, S: StoredElement<T>, const LIMITED: bool>(job: &PackJob<T>) {
    // SAFETY: the caller's promise.
    unsafe {
        if job.width <= T::LANES {
            transpose_blocks::<T, S, 1, LIMITED>(job);
        } else {
            transpose_blocks::<T, S, 2, LIMITED>(job);
        }
    }
}

/// [`transpose`] for a micro-panel as wide as `G` blocks side by side.
#[inline(always)]
unsafe fn transpose_blocks<T: Float, S: StoredElement<T>, const G: usize, const LIMITED: bool>(
    job: &PackJob<T>,
) {
    let operand = job.operand;
    let count = job.outer.len();
    let mut origins = [job.from; 16];
    for (i, origin) in origins.iter_mut().enumerate().take(count) {
        *origin = job.from.wrapping_offset(operand.outer.at(job.outer.start + i));
    }
    let classes = if LIMITED { PanelClasses::of(job) } else { PanelClasses::default() };
    let mut to = job.to;
    let mut k = job.k_range.start;
    while k < job.k_range.end {
        let run = operand.k_runs.get(k).map_or(job.k_range.end, |&end| (end as usize).min(job.k_range.end));
        let depths = (run - k).min(T::LANES);
        let at = operand.k.at(k);
        // SAFETY: the caller's promise: elements that exist may be read, and the next store writes the
        // elements that a store overran.
        unsafe {
            let is_full = depths == T::LANES && count == G * T::LANES && count == job.width;
            match is_full {
                true if LIMITED && !classes.all_exist(operand, k) => {
                    let masks = classes.masks::<T>(operand, depths, k);
                    full_blocks::<T, S, G, true>(&origins, at, &masks, &classes.of, to);
                }
                true => full_blocks::<T, S, G, false>(&origins, at, &[T::mask(0); 16], &classes.of, to),
                false => {
                    let masks =
                        if LIMITED { classes.masks::<T>(operand, depths, k) } else { [T::mask(depths); 16] };
                    let mut blocks = [[T::zero(); 8]; G];
                    for (g, block) in blocks.iter_mut().enumerate() {
                        for (i, row) in block.iter_mut().enumerate().take(T::LANES) {
                            let lane = g * T::LANES + i;
                            if lane < count {
                                let from = origins[lane].wrapping_offset(at);
                                *row = match depths == T::LANES {
                                    _ if LIMITED => S::load_masked(from, masks[classes.of[lane] % 16]),
                                    true => S::load(from),
                                    false => S::load_first(from, depths),
                                };
                            }
                        }
                        T::transpose(block);
                    }
                    for j in 0..depths {
                        for (g, block) in blocks.iter().enumerate() {
                            T::store(to.add(j * job.width + g * T::LANES), block[j]);
                        }
                    }
                }
            }
            to = to.add(depths * job.width);
        }
        k += depths;
    }
}

/// Transposes `G` square blocks side by side, whose rows begin at `at` from each origin. With `MASKED`, only
/// the elements are loaded that the mask of the row's class selects.
#[inline(always)]
unsafe fn full_blocks<T: Float, S: StoredElement<T>, const G: usize, const MASKED: bool>(
    origins: &[*const u8; 16],
    at: isize,
    masks: &[T::Mask; 16],
    classes: &[usize; 16],
    to: *mut T,
) {
    for g in 0..G {
        // SAFETY: the caller's promise.
        unsafe {
            let mut block = [T::zero(); 8];
            for (i, row) in block.iter_mut().enumerate().take(T::LANES) {
                let lane = g * T::LANES + i;
                let from = origins[lane].wrapping_offset(at);
                *row = if MASKED { S::load_masked(from, masks[classes[lane] % 16]) } else { S::load(from) };
            }
            T::transpose(&mut block);
            for (j, row) in block.iter().enumerate().take(T::LANES) {
                T::store(to.add((j * G + g) * T::LANES), *row);
            }
        }
    }
}

/// The outer positions of a micro-panel by class. Positions of one class have elements at the same positions
/// along K.
#[derive(Default)]
struct PanelClasses {
    /// The number of classes.
    count: usize,
    /// A position of each class.
    positions: [usize; 16],
    /// The class of each position, numbered within the micro-panel.
    of: [usize; 16],
    /// The least and the greatest summand of the positions in each of the first bounds.
    extremes: [(i32, i32); MAX_CHECKED_BOUNDS],
}

/// The most bounds of an operand for which [`PanelClasses::all_exist`] is computed; images have two.
const MAX_CHECKED_BOUNDS: usize = 3;

impl PanelClasses {
    #[inline(always)]
    fn of<T>(job: &PackJob<T>) -> PanelClasses {
        let mut classes = PanelClasses::default();
        let numbers = &job.operand.outer_class;
        for (position, of) in job.outer.clone().zip(&mut classes.of) {
            let known = &classes.positions[..classes.count];
            *of =
                known.iter().position(|&other| numbers[other] == numbers[position]).unwrap_or(classes.count);
            if *of == classes.count {
                classes.positions[classes.count] = position;
                classes.count += 1;
            }
        }
        for (limit, extremes) in job.operand.limits.iter().zip(&mut classes.extremes) {
            let summands = limit.outer[job.outer.clone()].iter();
            *extremes = summands.fold((i32::MAX, i32::MIN), |(low, high), &x| (low.min(x), high.max(x)));
        }
        classes
    }

    /// Whether all elements of the micro-panel exist at eight positions along K from `k` on; false if that is
    /// not known.
    #[inline(always)]
    unsafe fn all_exist(&self, operand: &OperandLayout, k: usize) -> bool {
        for (limit, extremes) in operand.limits.iter().zip(self.extremes) {
            // SAFETY: inlined into a function with AVX2; `k` is a position along K.
            if !unsafe { limit.contains_all(&limit.k, k, extremes) } {
                return false;
            }
        }
        operand.limits.len() <= MAX_CHECKED_BOUNDS
    }

    /// For each class, selects the first `depths` lanes whose element exists, for the positions along K from
    /// `k` on.
    #[inline(always)]
    unsafe fn masks<T: Float>(&self, operand: &OperandLayout, depths: usize, k: usize) -> [T::Mask; 16] {
        // SAFETY: inlined into a function with AVX2; `k` is a position along K.
        unsafe {
            let lanes = T::mask(depths);
            let mut masks = [lanes; 16];
            for (mask, &position) in masks.iter_mut().zip(&self.positions[..self.count]) {
                for limit in &operand.limits {
                    *mask = T::both(*mask, limit.within::<T>(&limit.k, k, limit.outer[position]));
                }
            }
            masks
        }
    }
}
