//! Packs operands that have tables of offsets and bounds, such as those of convolutions.
//!
//! A vector of outer positions is loaded as a few contiguous runs, one masked load for each, or by a gather.
//! The mask selects the lanes of the run whose element exists. Bounds often divide the positions along K into
//! few classes, such as the taps of a filter; then the masks of each class are computed once, before the loop
//! over K.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::{PackJob, StoredElement, prefetch_next};
use crate::float::Float;
use crate::operand::OperandLayout;
use crate::problem::AxisOffsets;

/// The most contiguous runs of a vector that is loaded by masked loads.
const MAX_RUNS: usize = 3;

/// The most classes whose masks are computed before the loop over K.
const MAX_CLASSES: usize = 32;

/// Packs any operand.
#[inline(always)]
pub(super) unsafe fn pack_masked<T: Float, S: StoredElement<T>>(job: &PackJob<T>) {
    if job.outer.len() > T::LANES && job.width == 2 * T::LANES {
        let vectors = [0, T::LANES].map(|at| lane_positions(job, at));
        // SAFETY: the caller's promise.
        if unsafe { pack_both_vectors::<T, S>(job, &vectors) } {
            return;
        }
    }
    let mut at = 0;
    while at < job.width {
        // A store may overrun elements that the next store writes, but not elements that are written already.
        let whole = at + T::LANES <= job.width || (at == 0 && job.width <= T::LANES);
        let vector = lane_positions(job, at);
        // SAFETY: the caller's promise.
        unsafe {
            match vector.run_count {
                _ if !whole || job.k_range.is_empty() => {
                    pack_elements::<T, S>(job, at, vector.first, vector.count)
                }
                0 | 1 => write(job, at, &[RunReader::<T, S, 1>(&vector, PhantomData)]),
                2 => write(job, at, &[RunReader::<T, S, 2>(&vector, PhantomData)]),
                3 => write(job, at, &[RunReader::<T, S, 3>(&vector, PhantomData)]),
                _ if S::GATHERS && vector.near => {
                    write(job, at, &[GatherReader(&vector, job.operand.outer.at(vector.first))]);
                }
                _ => pack_elements::<T, S>(job, at, vector.first, vector.count),
            }
        }
        at += T::LANES;
    }
}

/// The outer positions of the micro-panel's vector that starts at `at`.
#[inline(always)]
fn lane_positions<T: Float>(job: &PackJob<T>, at: usize) -> LanePositions<T> {
    LanePositions::new(job.operand, job.outer.start + at, job.outer.len().saturating_sub(at).min(T::LANES))
}

/// Packs both vectors of a micro-panel in one pass over K, because they read neighbouring elements. Returns
/// whether it did, which requires that both have few contiguous runs.
#[inline(always)]
unsafe fn pack_both_vectors<T: Float, S: StoredElement<T>>(
    job: &PackJob<T>,
    [low, high]: &[LanePositions<T>; 2],
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match low.run_count.max(high.run_count) {
            _ if job.k_range.is_empty() => return false,
            1 => write(job, 0, &[low, high].map(|lanes| RunReader::<T, S, 1>(lanes, PhantomData))),
            2 => write(job, 0, &[low, high].map(|lanes| RunReader::<T, S, 2>(lanes, PhantomData))),
            _ => return false,
        }
    }
    true
}

/// Neighbouring positions of the outer dimension, at most one vector of them.
struct LanePositions<T: Float> {
    first: usize,
    count: usize,
    /// For each contiguous run, the mask of its lanes, and the offset that lane 0 would have if the run
    /// extended to it.
    runs: [(T::Mask, isize); MAX_RUNS],
    /// The number of contiguous runs; more than `MAX_RUNS` if the lanes are to be gathered.
    run_count: usize,
    all: T::Mask,
    /// The offset of each lane from the first, if `near`.
    offsets: [i32; 8],
    near: bool,
}

impl<T: Float> LanePositions<T> {
    #[inline(always)]
    fn new(operand: &OperandLayout, first: usize, count: usize) -> LanePositions<T> {
        // SAFETY: inlined into a function with AVX2; `lanes` is at most the number of lanes of a vector.
        let mask = |lanes: usize| unsafe { T::mask(lanes) };
        let mut lanes = LanePositions {
            first,
            count,
            runs: [(mask(0), 0); MAX_RUNS],
            run_count: 0,
            all: mask(count),
            offsets: [0; 8],
            near: true,
        };
        let mut begin = 0;
        while begin < count {
            let end = (operand.outer_run_end(first + begin) - first).min(count);
            if lanes.run_count < MAX_RUNS {
                let origin = operand.outer.at(first + begin) - begin as isize * operand.size;
                // SAFETY: as above.
                let run = unsafe { T::without(T::mask(end), T::mask(begin)) };
                lanes.runs[lanes.run_count] = (run, origin);
            }
            (begin, lanes.run_count) = (end, lanes.run_count + 1);
        }
        if lanes.run_count > MAX_RUNS {
            lanes.find_offsets(operand, count);
        }
        lanes
    }

    #[inline(always)]
    fn find_offsets(&mut self, operand: &OperandLayout, count: usize) {
        let origin = operand.outer.at(self.first);
        for lane in 0..count {
            match i32::try_from(operand.outer.at(self.first + lane) - origin) {
                Ok(offset) => self.offsets[lane] = offset,
                Err(_) => self.near = false,
            }
        }
    }

    /// Selects the lanes of `lanes` whose element exists at a position along K.
    #[inline(always)]
    unsafe fn existing(&self, operand: &OperandLayout, mut lanes: T::Mask, k: usize) -> T::Mask {
        for limit in &operand.limits {
            // SAFETY: inlined into a function with AVX2; two vectors of zeros follow the last position, and
            // `first` is less than a vector behind it.
            unsafe { lanes = T::both(lanes, limit.within::<T>(&limit.outer, self.first, limit.k[k])) };
        }
        lanes
    }
}

/// Loads the lanes of a vector that exist. These are methods because closures would not be inlined into
/// functions with AVX2.
trait LaneReader<T: Float> {
    /// The masks of the loads for one position along K.
    type Masks: Copy;

    /// Computes the masks for a position along K.
    unsafe fn masks(&self, operand: &OperandLayout, k: usize) -> Self::Masks;
    /// Loads a vector from `from`, which includes the offset of the position along K.
    unsafe fn read(&self, from: *const u8, masks: &Self::Masks) -> T::Vector;
}

/// Loads a vector whose lanes form at most `N` contiguous runs in memory, by a masked load for each run.
struct RunReader<'a, T: Float, S, const N: usize>(&'a LanePositions<T>, PhantomData<S>);

impl<T: Float, S: StoredElement<T>, const N: usize> LaneReader<T> for RunReader<'_, T, S, N> {
    type Masks = [T::Mask; N];

    #[inline(always)]
    unsafe fn masks(&self, operand: &OperandLayout, k: usize) -> [T::Mask; N] {
        let mut masks = [self.0.all; N];
        for (mask, run) in masks.iter_mut().zip(&self.0.runs) {
            // SAFETY: inlined into a function with AVX2.
            *mask = unsafe { self.0.existing(operand, run.0, k) };
        }
        masks
    }

    #[inline(always)]
    unsafe fn read(&self, from: *const u8, masks: &[T::Mask; N]) -> T::Vector {
        // SAFETY: the caller's promise: lanes whose element exists may be read.
        unsafe {
            let mut value = S::load_masked(from.wrapping_offset(self.0.runs[0].1), masks[0]);
            for (mask, run) in masks.iter().zip(&self.0.runs).skip(1) {
                value = T::or(value, S::load_masked(from.wrapping_offset(run.1), *mask));
            }
            value
        }
    }
}

/// Loads all lanes with a gather, from the offset of the first one.
struct GatherReader<'a, T: Float>(&'a LanePositions<T>, isize);

impl<T: Float> LaneReader<T> for GatherReader<'_, T> {
    type Masks = T::Mask;

    #[inline(always)]
    unsafe fn masks(&self, operand: &OperandLayout, k: usize) -> T::Mask {
        // SAFETY: inlined into a function with AVX2.
        unsafe { self.0.existing(operand, self.0.all, k) }
    }

    #[inline(always)]
    unsafe fn read(&self, from: *const u8, mask: &T::Mask) -> T::Vector {
        // SAFETY: the caller's promise: lanes whose element exists may be read.
        unsafe { T::gather_masked(from.wrapping_offset(self.1).cast(), &self.0.offsets, *mask) }
    }
}

/// Writes one vector for each reader and position along K, side by side.
#[inline(always)]
unsafe fn write<T: Float, R: LaneReader<T>, const G: usize>(job: &PackJob<T>, at: usize, readers: &[R; G]) {
    // SAFETY: the caller's promise.
    unsafe {
        match &job.operand.k {
            AxisOffsets::Strided(step) => write_at(job, at, readers, |k| *step as isize * k as isize),
            AxisOffsets::Table(table) => {
                let table = table.as_ref();
                write_at(job, at, readers, |k| table[k] as isize);
            }
        }
    }
}

/// [`write`], with the offset of each position along K.
#[inline(always)]
unsafe fn write_at<T: Float, R: LaneReader<T>, const G: usize>(
    job: &PackJob<T>,
    at: usize,
    readers: &[R; G],
    offset: impl Fn(usize) -> isize,
) {
    let (operand, width) = (job.operand, job.width);
    let (from, class) = (job.from, operand.class.as_slice());
    let mut to = job.to.wrapping_add(at);
    // SAFETY: the caller's promise.
    unsafe {
        let mut masks = all_masks(operand, readers, job.k_range.start);
        let first = operand.outer.at(job.outer.start);
        if operand.class_representatives.len() > MAX_CLASSES {
            for k in job.k_range.clone() {
                masks = all_masks(operand, readers, k);
                write_vectors(to, from.wrapping_offset(offset(k)), readers, &masks);
                to = to.wrapping_add(width);
            }
        } else if operand.limits.is_empty() {
            for k in job.k_range.clone() {
                let from = from.wrapping_offset(offset(k));
                if at == 0 {
                    prefetch_next(from.wrapping_offset(first));
                }
                write_vectors(to, from, readers, &masks);
                to = to.wrapping_add(width);
            }
        } else {
            let mut table = [const { MaybeUninit::uninit() }; MAX_CLASSES];
            for (entry, &k) in table.iter_mut().zip(&operand.class_representatives) {
                entry.write(all_masks(operand, readers, k as usize));
            }
            for k in job.k_range.clone() {
                let from = from.wrapping_offset(offset(k));
                if at == 0 {
                    prefetch_next(from.wrapping_offset(first));
                }
                // Classes are numbered from 0, so the entry of this class was written.
                write_vectors(to, from, readers, table[class[k] as usize % MAX_CLASSES].assume_init_ref());
                to = to.wrapping_add(width);
            }
        }
    }
}

#[inline(always)]
unsafe fn all_masks<T: Float, R: LaneReader<T>, const G: usize>(
    operand: &OperandLayout,
    readers: &[R; G],
    k: usize,
) -> [R::Masks; G] {
    // SAFETY: inlined into a function with AVX2.
    let mut masks = [unsafe { readers[0].masks(operand, k) }; G];
    for (masks, reader) in masks.iter_mut().zip(readers).skip(1) {
        // SAFETY: as above.
        *masks = unsafe { reader.masks(operand, k) };
    }
    masks
}

#[inline(always)]
unsafe fn write_vectors<T: Float, R: LaneReader<T>, const G: usize>(
    to: *mut T,
    from: *const u8,
    readers: &[R; G],
    masks: &[R::Masks; G],
) {
    for (g, (reader, masks)) in readers.iter().zip(masks).enumerate() {
        // SAFETY: the caller's promise.
        unsafe { T::store(to.wrapping_add(g * T::LANES), reader.read(from, masks)) };
    }
}

#[inline(always)]
unsafe fn pack_elements<T: Float, S: StoredElement<T>>(
    job: &PackJob<T>,
    at: usize,
    first: usize,
    count: usize,
) {
    let operand = job.operand;
    let lanes = T::LANES.min(job.width - at);
    for (row, k) in job.k_range.clone().enumerate() {
        let from = job.from.wrapping_offset(operand.k.at(k));
        for lane in 0..lanes {
            let there = lane < count && exists(operand, first + lane, k);
            // SAFETY: the caller's promise: an element that exists may be read, and the panel may be written.
            unsafe {
                let value = if there {
                    S::load_one(from.wrapping_offset(operand.outer.at(first + lane)))
                } else {
                    T::default()
                };
                *job.to.add(row * job.width + at + lane) = value;
            }
        }
    }
}

#[inline(always)]
fn exists(operand: &OperandLayout, outer: usize, k: usize) -> bool {
    operand.limits.iter().all(|l| (0..l.limit).contains(&(l.outer[outer] + l.k[k])))
}
