//! Packing operands that are contiguous along the outer dimension or along K.

use std::marker::PhantomData;

use super::{PANELS_AT_ONCE, PackJob, StoredElement, prefetch_next};
use crate::operand::OperandLayout;
use crate::problem::AxisOffsets;
use crate::simd::{MAX_LANES, Simd, VectorCode};

/// Copies a row for each position along K. Outer positions are contiguous.
pub(super) struct Rows<'a, V: Simd, S>(pub(super) &'a PackJob<'a, V>, pub(super) PhantomData<S>);

impl<V: Simd, S: StoredElement<V>> VectorCode<V> for Rows<'_, V, S> {
    #[inline(always)]
    unsafe fn run(self) {
        let job = self.0;
        let from = job.from.wrapping_offset(job.operand.outer.at(job.outer.start));
        // SAFETY: the caller's promise.
        unsafe {
            match &job.operand.k {
                AxisOffsets::Strided(step) => {
                    write_rows::<V, S>(job, |k| from.wrapping_offset(*step as isize * k as isize))
                }
                AxisOffsets::Table(table) => {
                    write_rows::<V, S>(job, |k| from.wrapping_offset(table[k] as isize))
                }
            }
        }
    }
}

/// [`Rows`] for [`PANELS_AT_ONCE`] full micro-panels that lie one after the other, one row of all of them at
/// a time.
pub(super) struct RowsOfPanels<'a, V: Simd>(pub(super) &'a PackJob<'a, V>);

impl<V: Simd> VectorCode<V> for RowsOfPanels<'_, V> {
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: the caller's promise.
        unsafe { copy_rows_of_panels(self.0) }
    }
}

#[inline(always)]
unsafe fn copy_rows_of_panels<V: Simd>(job: &PackJob<V>) {
    let micro_panel = job.width * job.k_range.len();
    let from = job.from.wrapping_offset(job.operand.outer.at(job.outer.start)).cast::<V::Element>();
    let mut to = job.to;
    for k in job.k_range.clone() {
        let row = from.wrapping_byte_offset(job.operand.k.at(k));
        // SAFETY: the caller's promise.
        unsafe {
            for s in 0..PANELS_AT_ONCE {
                prefetch_next(row.wrapping_add((s + PANELS_AT_ONCE - 1) * job.width).cast());
                for half in 0..2 {
                    let at = s * job.width + half * V::LANES;
                    V::store(to.add(s * micro_panel + half * V::LANES), V::load(row.wrapping_add(at)));
                }
            }
            to = to.add(job.width);
        }
    }
}

#[inline(always)]
unsafe fn write_rows<V: Simd, S: StoredElement<V>>(job: &PackJob<V>, row: impl Fn(usize) -> *const u8) {
    let (count, width) = (job.outer.len(), job.width);
    let mut to = job.to;
    // SAFETY: the caller's promise; the next store writes the elements that a store overran.
    unsafe {
        if count == 2 * V::LANES {
            for k in job.k_range.clone() {
                let from = row(k);
                prefetch_next(from);
                V::store(to, S::load(from));
                V::store(
                    to.add(V::LANES),
                    S::load(from.wrapping_offset(V::LANES as isize * job.operand.size)),
                );
                to = to.add(width);
            }
            return;
        }
        let (whole, rest) = (count / V::LANES, count % V::LANES);
        for k in job.k_range.clone() {
            let from = row(k);
            for v in 0..width.div_ceil(V::LANES) {
                let from = from.wrapping_offset((v * V::LANES) as isize * job.operand.size);
                let value = if v < whole {
                    S::load(from)
                } else if v == whole && rest > 0 {
                    S::load_first(from, rest)
                } else {
                    V::zero()
                };
                V::store(to.add(v * V::LANES), value);
            }
            to = to.add(width);
        }
    }
}

/// Transposes square blocks as wide as a vector. Elements along K form long contiguous runs. With `LIMITED`,
/// elements that do not exist are zero.
pub(super) unsafe fn transpose<V: Simd, S: StoredElement<V>, const LIMITED: bool>(job: &PackJob<V>) {
    // SAFETY: the caller's promise.
    unsafe {
        // Constant conditions spare the compiler the widths that no micro-panel has: that of B is two
        // vectors, and only if vectors are short are the rows of a tile more than two.
        match job.width.div_ceil(V::LANES) {
            ..=1 => V::enter(Blocks::<V, S, 1, MAX_LANES, LIMITED>(job, PhantomData)),
            2 => match const { V::LANES < MAX_LANES } {
                true => V::enter(Blocks::<V, S, 2, MAX_LANES, LIMITED>(job, PhantomData)),
                false => V::enter(Blocks::<V, S, 2, { 2 * MAX_LANES }, LIMITED>(job, PhantomData)),
            },
            _ if const { V::ROWS <= 2 * V::LANES } => unreachable!("a micro-panel of more than two vectors"),
            3 => V::enter(Blocks::<V, S, 3, MAX_LANES, LIMITED>(job, PhantomData)),
            _ => V::enter(Blocks::<V, S, 6, MAX_LANES, LIMITED>(job, PhantomData)),
        }
    }
}

/// [`transpose`] for a micro-panel as wide as `G` blocks side by side, of at most `N` positions.
struct Blocks<'a, V: Simd, S, const G: usize, const N: usize, const LIMITED: bool>(
    &'a PackJob<'a, V>,
    PhantomData<S>,
);

impl<V: Simd, S: StoredElement<V>, const G: usize, const N: usize, const LIMITED: bool> VectorCode<V>
    for Blocks<'_, V, S, G, N, LIMITED>
{
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: the caller's promise.
        unsafe { transpose_blocks::<V, S, G, N, LIMITED>(self.0) }
    }
}

#[inline(always)]
unsafe fn transpose_blocks<
    V: Simd,
    S: StoredElement<V>,
    const G: usize,
    const N: usize,
    const LIMITED: bool,
>(
    job: &PackJob<V>,
) {
    let operand = job.operand;
    let count = job.outer.len();
    let mut origins = [job.from; N];
    for (i, origin) in origins.iter_mut().enumerate().take(count) {
        *origin = job.from.wrapping_offset(operand.outer.at(job.outer.start + i));
    }
    let classes = if LIMITED { PanelClasses::of(job) } else { PanelClasses::none() };
    let mut to = job.to;
    let mut k = job.k_range.start;
    while k < job.k_range.end {
        let run = operand.k_runs.get(k).map_or(job.k_range.end, |&end| (end as usize).min(job.k_range.end));
        let depths = (run - k).min(V::LANES);
        let at = operand.k.at(k);
        // SAFETY: the caller's promise: elements that exist may be read, and the next store writes the
        // elements that a store overran.
        unsafe {
            let is_full = depths == V::LANES && count == G * V::LANES && count == job.width;
            match is_full {
                true if LIMITED && !classes.all_exist::<V>(operand, k) => {
                    let masks = classes.masks::<V>(operand, depths, k);
                    full_blocks::<V, S, G, N, true>(&origins, at, &masks, &classes.of, to);
                }
                true => full_blocks::<V, S, G, N, false>(&origins, at, &[V::mask(0); N], &classes.of, to),
                false => {
                    let masks =
                        if LIMITED { classes.masks::<V>(operand, depths, k) } else { [V::mask(depths); N] };
                    let mut blocks = [[V::zero(); MAX_LANES]; G];
                    for (g, block) in blocks.iter_mut().enumerate() {
                        for (i, row) in block.iter_mut().enumerate().take(V::LANES) {
                            let lane = g * V::LANES + i;
                            if lane < count {
                                let from = origins[lane].wrapping_offset(at);
                                *row = match depths == V::LANES {
                                    _ if LIMITED => S::load_masked(from, masks[classes.of[lane] % N]),
                                    true => S::load(from),
                                    false => S::load_first(from, depths),
                                };
                            }
                        }
                        V::transpose(block);
                    }
                    for j in 0..depths {
                        for (g, block) in blocks.iter().enumerate() {
                            V::store(to.add(j * job.width + g * V::LANES), block[j]);
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
unsafe fn full_blocks<V: Simd, S: StoredElement<V>, const G: usize, const N: usize, const MASKED: bool>(
    origins: &[*const u8; N],
    at: isize,
    masks: &[V::Mask; N],
    classes: &[usize; N],
    to: *mut V::Element,
) {
    for g in 0..G {
        // SAFETY: the caller's promise.
        unsafe {
            let mut block = [V::zero(); MAX_LANES];
            for (i, row) in block.iter_mut().enumerate().take(V::LANES) {
                let lane = g * V::LANES + i;
                let from = origins[lane].wrapping_offset(at);
                *row = if MASKED { S::load_masked(from, masks[classes[lane] % N]) } else { S::load(from) };
            }
            V::transpose(&mut block);
            for (j, row) in block.iter().enumerate().take(V::LANES) {
                V::store(to.add((j * G + g) * V::LANES), *row);
            }
        }
    }
}

/// The outer positions of a micro-panel by class. Positions of one class have elements at the same positions
/// along K.
struct PanelClasses<const N: usize> {
    /// The number of classes.
    count: usize,
    /// A position of each class.
    positions: [usize; N],
    /// The class of each position, numbered within the micro-panel.
    of: [usize; N],
    /// The least and the greatest summand of the positions in each of the first bounds.
    extremes: [(i32, i32); MAX_CHECKED_BOUNDS],
}

/// The most bounds of an operand for which [`PanelClasses::all_exist`] is computed; images have two.
const MAX_CHECKED_BOUNDS: usize = 3;

impl<const N: usize> PanelClasses<N> {
    fn none() -> PanelClasses<N> {
        let extremes = [(0, 0); MAX_CHECKED_BOUNDS];
        PanelClasses { count: 0, positions: [0; N], of: [0; N], extremes }
    }

    #[inline(always)]
    fn of<V: Simd>(job: &PackJob<V>) -> PanelClasses<N> {
        let mut classes = PanelClasses::none();
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

    /// Whether all elements of the micro-panel exist at a vector of positions along K from `k` on; false if
    /// that is not known.
    #[inline(always)]
    unsafe fn all_exist<V: Simd>(&self, operand: &OperandLayout, k: usize) -> bool {
        for (limit, extremes) in operand.limits.iter().zip(self.extremes) {
            // SAFETY: inlined into an entry of the instruction set; `k` is a position along K.
            if !unsafe { limit.contains_all::<V>(&limit.k, k, extremes) } {
                return false;
            }
        }
        operand.limits.len() <= MAX_CHECKED_BOUNDS
    }

    /// For each class, selects the first `depths` lanes whose element exists, for the positions along K from
    /// `k` on.
    #[inline(always)]
    unsafe fn masks<V: Simd>(&self, operand: &OperandLayout, depths: usize, k: usize) -> [V::Mask; N] {
        // SAFETY: inlined into an entry of the instruction set; `k` is a position along K.
        unsafe {
            let lanes = V::mask(depths);
            let mut masks = [lanes; N];
            for (mask, &position) in masks.iter_mut().zip(&self.positions[..self.count]) {
                for limit in &operand.limits {
                    *mask = V::both(*mask, limit.within::<V>(&limit.k, k, limit.outer[position]));
                }
            }
            masks
        }
    }
}
