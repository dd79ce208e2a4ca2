//! Packing factors by offset tables and within bounds, as convolutions need it.
//!
//! A vector of outer positions is read as one or a few runs of neighbours, each by a masked load, or by a gather. The mask has the lanes
//! of the run for which the element exists. Bounds often depend on the depth by a few classes only (the taps of a filter); then masks are worked out per class
//! before the depth is gone through.

use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::{Panel, Source, ahead};
use crate::contraction::Offsets;
use crate::real::Real;
use crate::side::Side;

/// The most runs that a vector of positions is read as.
const RUNS: usize = 3;

/// The most classes that masks are kept for.
const CLASSES: usize = 32;

/// Packs any factor.
#[inline(always)]
pub(super) unsafe fn masked<T: Real, S: Source<T>>(job: &Panel<T>) {
    if job.outer.len() > T::LANES && job.width == 2 * T::LANES {
        let vectors = [0, T::LANES].map(|at| lanes(job, at));
        // SAFETY: the caller's promise.
        if unsafe { runs_together::<T, S>(job, &vectors) } {
            return;
        }
    }
    let mut at = 0;
    while at < job.width {
        // A vector may spill over what is written next, but not over what is there.
        let whole = at + T::LANES <= job.width || (at == 0 && job.width <= T::LANES);
        let vector = lanes(job, at);
        // SAFETY: the caller's promise.
        unsafe {
            match vector.number {
                _ if !whole || job.depth.is_empty() => {
                    by_elements::<T, S>(job, at, vector.first, vector.count)
                }
                0 | 1 => write(job, at, &[Runs::<T, S, 1>(&vector, PhantomData)]),
                2 => write(job, at, &[Runs::<T, S, 2>(&vector, PhantomData)]),
                3 => write(job, at, &[Runs::<T, S, 3>(&vector, PhantomData)]),
                _ if S::GATHERS && vector.near => {
                    write(job, at, &[Gather(&vector, job.side.outer.at(vector.first))]);
                }
                _ => by_elements::<T, S>(job, at, vector.first, vector.count),
            }
        }
        at += T::LANES;
    }
}

/// The positions of a panel's vector that begins at `at`.
#[inline(always)]
fn lanes<T: Real>(job: &Panel<T>, at: usize) -> Lanes<T> {
    Lanes::new(job.side, job.outer.start + at, job.outer.len().saturating_sub(at).min(T::LANES))
}

/// Packs both vectors of a panel in one passage over the depth, since what they read are neighbours, if both are a few runs. Answers whether
/// they are.
#[inline(always)]
unsafe fn runs_together<T: Real, S: Source<T>>(job: &Panel<T>, [low, high]: &[Lanes<T>; 2]) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match low.number.max(high.number) {
            _ if job.depth.is_empty() => return false,
            1 => write(job, 0, &[low, high].map(|lanes| Runs::<T, S, 1>(lanes, PhantomData))),
            2 => write(job, 0, &[low, high].map(|lanes| Runs::<T, S, 2>(lanes, PhantomData))),
            _ => return false,
        }
    }
    true
}

/// Some neighbouring positions of the outer axis, as many as a vector has lanes.
struct Lanes<T: Real> {
    first: usize,
    count: usize,
    /// Lanes that are neighbours in memory, and where lane 0 would be.
    runs: [(T::Mask, isize); RUNS],
    /// How many runs there are; more than are kept, if the lanes are to be gathered.
    number: usize,
    all: T::Mask,
    /// From the first lane to each one, if that is near.
    offsets: [i32; 8],
    near: bool,
}

impl<T: Real> Lanes<T> {
    #[inline(always)]
    fn new(side: &Side, first: usize, count: usize) -> Lanes<T> {
        // SAFETY: inlined into a function with AVX2; counts of lanes are at most those of a vector.
        let mask = |lanes: usize| unsafe { T::mask(lanes) };
        let mut lanes = Lanes {
            first,
            count,
            runs: [(mask(0), 0); RUNS],
            number: 0,
            all: mask(count),
            offsets: [0; 8],
            near: true,
        };
        let mut begin = 0;
        while begin < count {
            let end = (side.outer_run(first + begin) - first).min(count);
            if lanes.number < RUNS {
                let origin = side.outer.at(first + begin) - begin as isize * side.size;
                // SAFETY: as above.
                let run = unsafe { T::without(T::mask(end), T::mask(begin)) };
                lanes.runs[lanes.number] = (run, origin);
            }
            (begin, lanes.number) = (end, lanes.number + 1);
        }
        if lanes.number > RUNS {
            lanes.find_offsets(side, count);
        }
        lanes
    }

    #[inline(always)]
    fn find_offsets(&mut self, side: &Side, count: usize) {
        let origin = side.outer.at(self.first);
        for lane in 0..count {
            match i32::try_from(side.outer.at(self.first + lane) - origin) {
                Ok(offset) => self.offsets[lane] = offset,
                Err(_) => self.near = false,
            }
        }
    }

    /// Of these lanes, those whose element exists.
    #[inline(always)]
    unsafe fn existing(&self, side: &Side, mut lanes: T::Mask, depth: usize) -> T::Mask {
        for limit in &side.limits {
            // SAFETY: inlined into a function with AVX2; tables have room for a vector behind their last position.
            unsafe {
                let outer = _mm256_loadu_si256(limit.outer.as_ptr().add(self.first).cast());
                let sum = _mm256_add_epi32(outer, _mm256_set1_epi32(limit.depth[depth]));
                let below = _mm256_cmpgt_epi32(_mm256_set1_epi32(limit.limit), sum);
                let words = _mm256_andnot_si256(_mm256_srai_epi32::<31>(sum), below);
                lanes = T::both(lanes, T::mask_of(words));
            }
        }
        lanes
    }
}

/// A way to read the lanes that exist. Closures would not be inlined into functions with AVX2, so these are methods.
trait Reader<T: Real> {
    /// Which lanes exist.
    type Masks: Copy;

    /// Those at a depth.
    unsafe fn masks(&self, side: &Side, depth: usize) -> Self::Masks;
    /// The vector at a depth, whose offset is in the address.
    unsafe fn read(&self, from: *const u8, masks: &Self::Masks) -> T::Vector;
}

/// The first `N` runs, one after the other.
struct Runs<'a, T: Real, S, const N: usize>(&'a Lanes<T>, PhantomData<S>);

impl<T: Real, S: Source<T>, const N: usize> Reader<T> for Runs<'_, T, S, N> {
    type Masks = [T::Mask; N];

    #[inline(always)]
    unsafe fn masks(&self, side: &Side, depth: usize) -> [T::Mask; N] {
        let mut masks = [self.0.all; N];
        for (mask, run) in masks.iter_mut().zip(&self.0.runs) {
            // SAFETY: inlined into a function with AVX2.
            *mask = unsafe { self.0.existing(side, run.0, depth) };
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

/// All lanes at once, wherever they are; and where the first one is.
struct Gather<'a, T: Real>(&'a Lanes<T>, isize);

impl<T: Real> Reader<T> for Gather<'_, T> {
    type Masks = T::Mask;

    #[inline(always)]
    unsafe fn masks(&self, side: &Side, depth: usize) -> T::Mask {
        // SAFETY: inlined into a function with AVX2.
        unsafe { self.0.existing(side, self.0.all, depth) }
    }

    #[inline(always)]
    unsafe fn read(&self, from: *const u8, mask: &T::Mask) -> T::Vector {
        // SAFETY: the caller's promise: lanes whose element exists may be read.
        unsafe { T::gather_masked(from.wrapping_offset(self.1).cast(), &self.0.offsets, *mask) }
    }
}

/// Writes a vector of each reader per depth, side by side.
#[inline(always)]
unsafe fn write<T: Real, R: Reader<T>, const G: usize>(job: &Panel<T>, at: usize, readers: &[R; G]) {
    // SAFETY: the caller's promise.
    unsafe {
        match &job.side.depth {
            Offsets::Strided(step) => write_at(job, at, readers, |k| *step as isize * k as isize),
            Offsets::Table(table) => {
                let table = table.as_ref();
                write_at(job, at, readers, |k| table[k] as isize);
            }
        }
    }
}

/// [`write`], with the offset at each depth.
#[inline(always)]
unsafe fn write_at<T: Real, R: Reader<T>, const G: usize>(
    job: &Panel<T>,
    at: usize,
    readers: &[R; G],
    offset: impl Fn(usize) -> isize,
) {
    let (side, width) = (job.side, job.width);
    let (from, class) = (job.from, side.class.as_slice());
    let mut to = job.to.wrapping_add(at);
    // SAFETY: the caller's promise.
    unsafe {
        let mut masks = all_masks(side, readers, job.depth.start);
        if side.classes.len() > CLASSES {
            for k in job.depth.clone() {
                masks = all_masks(side, readers, k);
                put(to, from.wrapping_offset(offset(k)), readers, &masks);
                to = to.wrapping_add(width);
            }
        } else if side.limits.is_empty() {
            for k in job.depth.clone() {
                put(to, from.wrapping_offset(offset(k)), readers, &masks);
                to = to.wrapping_add(width);
            }
        } else {
            let mut table = [const { MaybeUninit::uninit() }; CLASSES];
            for (entry, &k) in table.iter_mut().zip(&side.classes) {
                entry.write(all_masks(side, readers, k as usize));
            }
            let first = side.outer.at(job.outer.start);
            for k in job.depth.clone() {
                let from = from.wrapping_offset(offset(k));
                if at == 0 {
                    ahead(from.wrapping_offset(first));
                }
                // Classes are numbered from 0, so this one's entry was written.
                put(to, from, readers, table[class[k] as usize % CLASSES].assume_init_ref());
                to = to.wrapping_add(width);
            }
        }
    }
}

#[inline(always)]
unsafe fn all_masks<T: Real, R: Reader<T>, const G: usize>(
    side: &Side,
    readers: &[R; G],
    depth: usize,
) -> [R::Masks; G] {
    // SAFETY: inlined into a function with AVX2.
    let mut masks = [unsafe { readers[0].masks(side, depth) }; G];
    for (masks, reader) in masks.iter_mut().zip(readers).skip(1) {
        // SAFETY: as above.
        *masks = unsafe { reader.masks(side, depth) };
    }
    masks
}

#[inline(always)]
unsafe fn put<T: Real, R: Reader<T>, const G: usize>(
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
unsafe fn by_elements<T: Real, S: Source<T>>(job: &Panel<T>, at: usize, first: usize, count: usize) {
    let side = job.side;
    let lanes = T::LANES.min(job.width - at);
    for (row, k) in job.depth.clone().enumerate() {
        let from = job.from.wrapping_offset(side.depth.at(k));
        for lane in 0..lanes {
            let there = lane < count && exists(side, first + lane, k);
            // SAFETY: the caller's promise: an element that exists may be read, and the panel may be written.
            unsafe {
                let value = if there {
                    S::one(from.wrapping_offset(side.outer.at(first + lane)))
                } else {
                    T::default()
                };
                *job.to.add(row * job.width + at + lane) = value;
            }
        }
    }
}

#[inline(always)]
fn exists(side: &Side, outer: usize, depth: usize) -> bool {
    side.limits.iter().all(|l| (0..l.limit).contains(&(l.outer[outer] + l.depth[depth])))
}
