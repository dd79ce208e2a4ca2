//! Packs operands that have tables of offsets and bounds, such as those of convolutions.
//!
//! A vector of outer positions is loaded as a few contiguous runs, one masked load for each, or by a gather.
//! The mask selects the lanes of the run whose element exists. Bounds often divide the positions along K into
//! few classes, such as the taps of a filter; then the masks of each class are computed once, before the loop
//! over K.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::{PackJob, StoredElement, prefetch_next};
use crate::operand::OperandLayout;
use crate::problem::AxisOffsets;
use crate::simd::{MAX_LANES, Simd, VectorCode};

/// The most contiguous runs of a vector that is loaded by masked loads.
const MAX_RUNS: usize = 3;

/// The most classes whose masks are computed before the loop over K.
pub(super) const MAX_CLASSES: usize = 32;

/// Packs any operand.
pub(super) struct Lanes<'a, V: Simd, S>(pub(super) &'a PackJob<'a, V>, pub(super) PhantomData<S>);

impl<V: Simd, S: StoredElement<V>> VectorCode<V> for Lanes<'_, V, S> {
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: the caller's promise.
        unsafe { pack_masked::<V, S>(self.0) }
    }
}

#[inline(always)]
unsafe fn pack_masked<V: Simd, S: StoredElement<V>>(job: &PackJob<V>) {
    if job.k_range.is_empty() {
        return;
    }
    if job.outer.len() > V::LANES && job.width == 2 * V::LANES {
        let vectors = [0, V::LANES].map(|at| lane_positions(job, at));
        // SAFETY: the caller's promise.
        if unsafe { pack_both_vectors::<V, S>(job, &vectors) } {
            return;
        }
    }
    let mut at = 0;
    while at < job.width {
        // A store may overrun elements that the next store writes, but not elements that are written already.
        let whole = at + V::LANES <= job.width || (at == 0 && job.width <= V::LANES);
        let vector = lane_positions(job, at);
        // SAFETY: the caller's promise.
        unsafe {
            match vector.run_count {
                0 | 1 if whole => write(job, at, &[RunReader::<V, S, 1>::new(&vector)]),
                2 if whole => write(job, at, &[RunReader::<V, S, 2>::new(&vector)]),
                3 if whole => write(job, at, &[RunReader::<V, S, 3>::new(&vector)]),
                _ if S::GATHERS && whole && vector.near => {
                    write(job, at, &[GatherReader(&vector, job.operand.outer.at(vector.first))]);
                }
                _ => V::enter(Elements::<V, S>(job, at, &vector, PhantomData)),
            }
        }
        at += V::LANES;
    }
}

/// The outer positions of the micro-panel's vector that starts at `at`.
#[inline(always)]
fn lane_positions<V: Simd>(job: &PackJob<V>, at: usize) -> LanePositions<V> {
    lanes_of(job.operand, &job.outer, at)
}

/// The vector of outer positions that starts at `at` in a range.
#[inline(always)]
pub(super) fn lanes_of<V: Simd>(
    operand: &OperandLayout,
    outer: &Range<usize>,
    at: usize,
) -> LanePositions<V> {
    LanePositions::new(operand, outer.start + at, outer.len().saturating_sub(at).min(V::LANES))
}

/// Packs both vectors of a micro-panel in one pass over K, because they read neighboring elements. Returns
/// whether it did, which requires that both have few contiguous runs.
#[inline(always)]
unsafe fn pack_both_vectors<V: Simd, S: StoredElement<V>>(
    job: &PackJob<V>,
    [low, high]: &[LanePositions<V>; 2],
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match low.run_count.max(high.run_count) {
            1 => write(job, 0, &[low, high].map(|lanes| RunReader::<V, S, 1>::new(lanes))),
            2 => write(job, 0, &[low, high].map(|lanes| RunReader::<V, S, 2>::new(lanes))),
            _ => return false,
        }
    }
    true
}

/// Neighboring positions of the outer dimension, at most one vector of them.
pub(super) struct LanePositions<V: Simd> {
    first: usize,
    count: usize,
    /// For each contiguous run, the mask of its lanes, and the offset that lane 0 would have if the run
    /// extended to it.
    pub(super) runs: [(V::Mask, isize); MAX_RUNS],
    /// The number of contiguous runs; more than `MAX_RUNS` if the lanes are to be gathered.
    pub(super) run_count: usize,
    all: V::Mask,
    /// The offset of each lane from the first, if `near`.
    offsets: [i32; MAX_LANES],
    near: bool,
}

impl<V: Simd> LanePositions<V> {
    #[inline(always)]
    fn new(operand: &OperandLayout, first: usize, count: usize) -> LanePositions<V> {
        // SAFETY: inlined into an entry of the instruction set; `lanes` is at most that of a vector.
        let mask = |lanes: usize| unsafe { V::mask(lanes) };
        let mut lanes = LanePositions {
            first,
            count,
            runs: [(mask(0), 0); MAX_RUNS],
            run_count: 0,
            all: mask(count),
            offsets: [0; MAX_LANES],
            near: true,
        };
        let mut begin = 0;
        while begin < count {
            let end = (operand.outer_run_end(first + begin) - first).min(count);
            if lanes.run_count < MAX_RUNS {
                let origin = operand.outer.at(first + begin) - begin as isize * operand.size;
                // SAFETY: as above.
                let run = unsafe { V::without(V::mask(end), V::mask(begin)) };
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
    unsafe fn existing(&self, operand: &OperandLayout, mut lanes: V::Mask, k: usize) -> V::Mask {
        for limit in &operand.limits {
            // SAFETY: inlined into an entry of the instruction set; two vectors of zeros follow the last
            // position, and `first` is less than a vector behind it.
            unsafe { lanes = V::both(lanes, limit.within::<V>(&limit.outer, self.first, limit.k[k])) };
        }
        lanes
    }
}

/// Loads the lanes of a vector that exist. These are methods because closures would not be inlined into
/// entries of an instruction set.
pub(super) trait LaneReader<V: Simd>: Copy {
    /// The masks of the loads for one position along K.
    type Masks: Copy;

    /// Computes the masks for a position along K.
    unsafe fn masks(&self, operand: &OperandLayout, k: usize) -> Self::Masks;
    /// Loads a vector from `from`, which includes the offset of the position along K.
    unsafe fn read(&self, from: *const u8, masks: &Self::Masks) -> V::Vector;
}

/// Loads a vector whose lanes form at most `N` contiguous runs in memory, by a masked load for each run.
pub(super) struct RunReader<'a, V: Simd, S, const N: usize> {
    lanes: &'a LanePositions<V>,
    /// The offset of lane 0 in each run.
    origins: [isize; N],
    stored: PhantomData<S>,
}

impl<'a, V: Simd, S, const N: usize> RunReader<'a, V, S, N> {
    #[inline(always)]
    pub(super) fn new(lanes: &'a LanePositions<V>) -> RunReader<'a, V, S, N> {
        let mut origins = [0; N];
        origins.iter_mut().zip(&lanes.runs).for_each(|(origin, run)| *origin = run.1);
        RunReader { lanes, origins, stored: PhantomData }
    }
}

impl<V: Simd, S, const N: usize> Copy for RunReader<'_, V, S, N> {}

impl<V: Simd, S, const N: usize> Clone for RunReader<'_, V, S, N> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: Simd, S: StoredElement<V>, const N: usize> LaneReader<V> for RunReader<'_, V, S, N> {
    type Masks = [V::Mask; N];

    #[inline(always)]
    unsafe fn masks(&self, operand: &OperandLayout, k: usize) -> [V::Mask; N] {
        let mut masks = [self.lanes.all; N];
        for (mask, run) in masks.iter_mut().zip(&self.lanes.runs) {
            // SAFETY: inlined into an entry of the instruction set.
            *mask = unsafe { self.lanes.existing(operand, run.0, k) };
        }
        masks
    }

    #[inline(always)]
    unsafe fn read(&self, from: *const u8, masks: &[V::Mask; N]) -> V::Vector {
        // SAFETY: the caller's promise: lanes whose element exists may be read.
        unsafe {
            let mut value = S::load_masked(from.wrapping_offset(self.origins[0]), masks[0]);
            for (mask, origin) in masks.iter().zip(self.origins).skip(1) {
                value = V::or(value, S::load_masked(from.wrapping_offset(origin), *mask));
            }
            value
        }
    }
}

/// Loads all lanes with a gather, from the offset of the first one.
#[derive(Clone, Copy)]
struct GatherReader<'a, V: Simd>(&'a LanePositions<V>, isize);

impl<V: Simd> LaneReader<V> for GatherReader<'_, V> {
    type Masks = V::Mask;

    #[inline(always)]
    unsafe fn masks(&self, operand: &OperandLayout, k: usize) -> V::Mask {
        // SAFETY: inlined into an entry of the instruction set.
        unsafe { self.0.existing(operand, self.0.all, k) }
    }

    #[inline(always)]
    unsafe fn read(&self, from: *const u8, mask: &V::Mask) -> V::Vector {
        // SAFETY: the caller's promise: lanes whose element exists may be read.
        unsafe { V::gather_masked(from.wrapping_offset(self.1).cast(), &self.0.offsets, *mask) }
    }
}

/// Writes one vector for each reader and position along K, side by side.
#[inline(always)]
unsafe fn write<V: Simd, R: LaneReader<V>, const G: usize>(job: &PackJob<V>, at: usize, readers: &[R; G]) {
    // SAFETY: the caller's promise.
    unsafe { V::enter(Columns { job, at, readers }) }
}

/// The code of [`write`], for at least one position along K.
struct Columns<'a, V: Simd, R, const G: usize> {
    job: &'a PackJob<'a, V>,
    at: usize,
    readers: &'a [R; G],
}

impl<V: Simd, R: LaneReader<V>, const G: usize> VectorCode<V> for Columns<'_, V, R, G> {
    #[inline(always)]
    unsafe fn run(self) {
        let operand = self.job.operand;
        // SAFETY: the caller's promise.
        unsafe {
            if operand.class_representatives.len() > MAX_CLASSES {
                return self.of_many_classes();
            }
            // Without bounds there is one class.
            let first = [self.job.k_range.start as u32];
            let positions = if operand.limits.is_empty() { &first } else { &*operand.class_representatives };
            let mut masks = [const { MaybeUninit::uninit() }; MAX_CLASSES];
            for (entry, &k) in masks.iter_mut().zip(positions) {
                entry.write(all_masks(operand, self.readers, k as usize));
            }
            match &operand.k {
                AxisOffsets::Strided(step) => self.of_classes(&masks, |k| *step as isize * k as isize),
                AxisOffsets::Table(table) => {
                    let table = table.as_ref();
                    self.of_classes(&masks, |k| table[k] as isize);
                }
            }
        }
    }
}

impl<V: Simd, R: LaneReader<V>, const G: usize> Columns<'_, V, R, G> {
    /// Computes the masks of each position.
    #[inline(always)]
    unsafe fn of_many_classes(&self) {
        let Columns { job, at, readers } = *self;
        for (row, k) in job.k_range.clone().enumerate() {
            let (to, from) = (job.to.wrapping_add(at + row * job.width), job.operand.k.at(k));
            // SAFETY: the caller's promise.
            unsafe {
                let masks = all_masks(job.operand, readers, k);
                write_vectors(to, job.from.wrapping_offset(from), readers, &masks);
            }
        }
    }

    /// Takes the masks of each class, and the offset of each position along K.
    #[inline(always)]
    unsafe fn of_classes(
        &self,
        masks: &[MaybeUninit<[R::Masks; G]>; MAX_CLASSES],
        offset: impl Fn(usize) -> isize,
    ) {
        let Columns { job, at, readers } = *self;
        // Copies, since stores to the panel could change what is behind a reference.
        let readers = &{ *readers };
        let class = job.operand.class.as_slice();
        let first = job.operand.outer.at(job.outer.start);
        let mut to = job.to.wrapping_add(at);
        for k in job.k_range.clone() {
            let from = job.from.wrapping_offset(offset(k));
            if at == 0 {
                prefetch_next(from.wrapping_offset(first));
            }
            let class = class.get(k).map_or(0, |&class| class as usize % MAX_CLASSES);
            // SAFETY: the caller's promise. Classes are numbered from 0, so the entry of this class was
            // written.
            unsafe { write_vectors(to, from, readers, masks[class].assume_init_ref()) };
            to = to.wrapping_add(job.width);
        }
    }
}

#[inline(always)]
pub(super) unsafe fn all_masks<V: Simd, R: LaneReader<V>, const G: usize>(
    operand: &OperandLayout,
    readers: &[R; G],
    k: usize,
) -> [R::Masks; G] {
    // SAFETY: inlined into an entry of the instruction set.
    let mut masks = [unsafe { readers[0].masks(operand, k) }; G];
    for (masks, reader) in masks.iter_mut().zip(readers).skip(1) {
        // SAFETY: as above.
        *masks = unsafe { reader.masks(operand, k) };
    }
    masks
}

#[inline(always)]
unsafe fn write_vectors<V: Simd, R: LaneReader<V>, const G: usize>(
    to: *mut V::Element,
    from: *const u8,
    readers: &[R; G],
    masks: &[R::Masks; G],
) {
    for (g, (reader, masks)) in readers.iter().zip(masks).enumerate() {
        // SAFETY: the caller's promise.
        unsafe { V::store(to.wrapping_add(g * V::LANES), reader.read(from, masks)) };
    }
}

/// Packs one element after the other of the vector of outer positions that starts at the second field.
struct Elements<'a, V: Simd, S>(&'a PackJob<'a, V>, usize, &'a LanePositions<V>, PhantomData<S>);

impl<V: Simd, S: StoredElement<V>> VectorCode<V> for Elements<'_, V, S> {
    #[inline(always)]
    unsafe fn run(self) {
        let Elements(job, at, &LanePositions { first, count, .. }, _) = self;
        let operand = job.operand;
        let lanes = V::LANES.min(job.width - at);
        for (row, k) in job.k_range.clone().enumerate() {
            let from = job.from.wrapping_offset(operand.k.at(k));
            for lane in 0..lanes {
                let there = lane < count && exists(operand, first + lane, k);
                // SAFETY: the caller's promise: an element that exists may be read, and the panel may be
                // written.
                unsafe {
                    let value = if there {
                        S::load_one(from.wrapping_offset(operand.outer.at(first + lane)))
                    } else {
                        V::Element::default()
                    };
                    *job.to.add(row * job.width + at + lane) = value;
                }
            }
        }
    }
}

#[inline(always)]
fn exists(operand: &OperandLayout, outer: usize, k: usize) -> bool {
    operand.limits.iter().all(|l| (0..l.limit).contains(&(l.outer[outer] + l.k[k])))
}
