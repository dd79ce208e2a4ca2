//! Packing factors by offset tables and within bounds, as convolutions need it.
//!
//! A vector of outer positions is read as one or a few runs of neighbours, each by a masked load: its mask has the lanes of the run for which the
//! element exists. Bounds depend on the depth by a few classes only (the taps of a filter), so masks are worked out per class before the
//! depth is gone through. Positions that are in many runs, and depths of many classes, are read element by element.

use super::{Lanes, Panel, Source};
use crate::real::Real;
use crate::side::Side;

/// The most runs that a vector of positions is read as.
const RUNS: usize = 3;

/// The most classes that masks are kept for.
const CLASSES: usize = 32;

/// Packs any factor.
#[inline(always)]
pub(super) unsafe fn masked<T: Real, S: Source<T>>(job: &Panel<T>) {
    let mut at = 0;
    while at < job.width {
        let count = job.outer.len().saturating_sub(at).min(T::LANES);
        let first = job.outer.start + at;
        let (runs, number) = runs_of::<T>(job.side, first, count);
        // SAFETY: the caller's promise.
        unsafe {
            if number <= RUNS && job.side.classes.len() <= CLASSES && job.width >= at + T::LANES {
                by_runs::<T, S>(job, at, &runs[..number]);
            } else {
                by_elements::<T, S>(job, at, first, count);
            }
        }
        at += T::LANES;
    }
}

/// Lanes `lanes.0..lanes.1` are at neighbouring addresses; `address` is where lane 0 would be.
#[derive(Clone, Copy)]
struct Run {
    first: usize,
    lanes: (usize, usize),
    offset: isize,
}

/// The runs of `count` positions, and how many they are; only the first ones are kept.
#[inline(always)]
fn runs_of<T: Real>(side: &Side, first: usize, count: usize) -> ([Run; RUNS], usize) {
    let mut runs = [Run { first, lanes: (0, 0), offset: 0 }; RUNS];
    let mut number = 0;
    for lane in 0..count {
        let offset = side.outer.at(first + lane) - lane as isize * side.size;
        if number > 0 && number <= RUNS && runs[number - 1].offset == offset {
            runs[number - 1].lanes.1 = lane + 1;
            continue;
        }
        if number < RUNS {
            runs[number] = Run { first, lanes: (lane, lane + 1), offset };
        }
        number += 1;
    }
    (runs, number)
}

/// Lane by lane: the lane is of the run, and the element exists.
#[inline(always)]
fn lanes_of<T: Real>(side: &Side, run: &Run, depth: usize) -> Lanes {
    let mut lanes = Lanes([0; 8]);
    let words = 8 / T::LANES;
    for lane in run.lanes.0..run.lanes.1 {
        let set = if exists(side, run.first + lane, depth) { u32::MAX } else { 0 };
        lanes.0[lane * words..][..words].fill(set);
    }
    lanes
}

#[inline(always)]
fn exists(side: &Side, outer: usize, depth: usize) -> bool {
    side.limits.iter().all(|l| (0..l.limit).contains(&(l.outer[outer] + l.depth[depth])))
}

#[inline(always)]
unsafe fn by_runs<T: Real, S: Source<T>>(job: &Panel<T>, at: usize, runs: &[Run]) {
    let side = job.side;
    let mut masks = [[Lanes([0; 8]); RUNS]; CLASSES];
    let classes = side.classes.len().max(1);
    for (c, masks) in masks.iter_mut().enumerate().take(classes) {
        let depth = side.classes.get(c).map_or(0, |&k| k as usize);
        for (mask, run) in masks.iter_mut().zip(runs) {
            *mask = lanes_of::<T>(side, run, depth);
        }
    }
    // SAFETY: the caller's promise: lanes whose element exists may be read.
    unsafe {
        let mut to = job.to.add(at);
        for k in job.depth.clone() {
            let masks = &masks[side.class.get(k).map_or(0, |&c| c as usize)];
            let from = job.from.wrapping_offset(side.depth.at(k));
            let mut value = T::zero();
            for (run, mask) in runs.iter().zip(masks) {
                value = T::or(value, S::load_masked(from.wrapping_offset(run.offset), mask));
            }
            T::store(to, value);
            to = to.wrapping_add(job.width);
        }
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
