//! Packing factors that are contiguous along one of their axes.

use super::{Panel, Source, TOGETHER, ahead};
use crate::contraction::Offsets;
use crate::real::Real;

/// Outer positions are neighbours in memory: a row per depth is copied.
#[inline(always)]
pub(super) unsafe fn copied<T: Real, S: Source<T>>(job: &Panel<T>) {
    let from = job.from.wrapping_offset(job.side.outer.at(job.outer.start));
    // SAFETY: the caller's promise.
    unsafe {
        match &job.side.depth {
            Offsets::Strided(step) => {
                rows::<T, S>(job, |k| from.wrapping_offset(*step as isize * k as isize))
            }
            Offsets::Table(table) => rows::<T, S>(job, |k| from.wrapping_offset(table[k] as isize)),
        }
    }
}

/// As [`copied`], for whole slivers that lie one behind the other, a row of all of them at a time.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn copied_together<T: Real>(job: &Panel<T>) {
    let sliver = job.width * job.depth.len();
    let from = job.from.wrapping_offset(job.side.outer.at(job.outer.start)).cast::<T>();
    let mut to = job.to;
    for k in job.depth.clone() {
        let row = from.wrapping_byte_offset(job.side.depth.at(k));
        // SAFETY: the caller's promise.
        unsafe {
            for s in 0..TOGETHER {
                ahead(row.wrapping_add((s + TOGETHER - 1) * job.width).cast());
                for half in 0..2 {
                    let at = s * job.width + half * T::LANES;
                    T::store(to.add(s * sliver + half * T::LANES), T::load(row.wrapping_add(at)));
                }
            }
            to = to.add(job.width);
        }
    }
}

#[inline(always)]
unsafe fn rows<T: Real, S: Source<T>>(job: &Panel<T>, row: impl Fn(usize) -> *const u8) {
    let (count, width) = (job.outer.len(), job.width);
    let mut to = job.to;
    // SAFETY: the caller's promise; vectors spill over what is written next.
    unsafe {
        if count == 2 * T::LANES {
            for k in job.depth.clone() {
                let from = row(k);
                ahead(from);
                T::store(to, S::load(from));
                T::store(to.add(T::LANES), S::load(from.wrapping_offset(T::LANES as isize * job.side.size)));
                to = to.add(width);
            }
            return;
        }
        let (whole, rest) = (count / T::LANES, count % T::LANES);
        for k in job.depth.clone() {
            let from = row(k);
            for v in 0..width.div_ceil(T::LANES) {
                let from = from.wrapping_offset((v * T::LANES) as isize * job.side.size);
                let value = if v < whole {
                    S::load(from)
                } else if v == whole && rest > 0 {
                    S::load_some(from, rest)
                } else {
                    T::zero()
                };
                T::store(to.add(v * T::LANES), value);
            }
            to = to.add(width);
        }
    }
}

/// Depths are neighbours in memory, in long runs: squares of as many depths and positions as a vector has lanes are transposed.
#[inline(always)]
pub(super) unsafe fn transposed<T: Real, S: Source<T>>(job: &Panel<T>) {
    // SAFETY: the caller's promise.
    unsafe {
        if job.width <= T::LANES {
            squares::<T, S, 1>(job);
        } else {
            squares::<T, S, 2>(job);
        }
    }
}

/// `G` squares side by side are as wide as the panel.
#[inline(always)]
unsafe fn squares<T: Real, S: Source<T>, const G: usize>(job: &Panel<T>) {
    let side = job.side;
    let count = job.outer.len();
    let mut origins = [job.from; 16];
    for (i, origin) in origins.iter_mut().enumerate().take(count) {
        *origin = job.from.wrapping_offset(side.outer.at(job.outer.start + i));
    }
    let mut to = job.to;
    let mut k = job.depth.start;
    while k < job.depth.end {
        let run = side.runs.get(k).map_or(job.depth.end, |&end| (end as usize).min(job.depth.end));
        let depths = (run - k).min(T::LANES);
        let at = side.depth.at(k);
        // SAFETY: the caller's promise: `depths` neighbours are there, and vectors spill over what is written next.
        unsafe {
            let mut squares = [[T::zero(); 8]; G];
            for (g, square) in squares.iter_mut().enumerate() {
                for (i, row) in square.iter_mut().enumerate().take(T::LANES) {
                    if g * T::LANES + i < count {
                        let from = origins[g * T::LANES + i].wrapping_offset(at);
                        *row = if depths == T::LANES { S::load(from) } else { S::load_some(from, depths) };
                    }
                }
                T::transpose(square);
            }
            for j in 0..depths {
                for (g, square) in squares.iter().enumerate() {
                    T::store(to.add(j * job.width + g * T::LANES), square[j]);
                }
            }
            to = to.add(depths * job.width);
        }
        k += depths;
    }
}
