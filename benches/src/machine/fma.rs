//! The peak of fused multiply-adds: by itself, and as a contestant in turns with matrix multiplications.

use std::hint::black_box;

use anyhow::Result;

use super::best;
use crate::peers::Contestant;

/// Enough independent chains to fill the pipelines of current cores.
const CHAINS: usize = 12;
/// Steps of a round.
const STEPS: usize = 200_000;

/// Giga f32 operations per second of all threads together.
pub(super) fn gflops(threads: usize, rounds: usize) -> f64 {
    flops(STEPS, threads) / seconds(STEPS, threads, rounds) / 1e9
}

/// A contestant of fused multiply-adds only, on one thread. A shared machine's load and its clock rate vary
/// over time, so the ratio to the peak is meaningful only if both are measured in turns.
pub(crate) struct Peak;

impl Peak {
    /// The floating-point operations of a run.
    pub(crate) fn flops() -> f64 {
        flops(RUN, 1)
    }
}

impl Contestant for Peak {
    fn run(&mut self, count: usize) -> Result<f64> {
        Ok(seconds(RUN * count, 1, 1))
    }
}

/// Steps of a run of the contestant, which takes some microseconds.
const RUN: usize = 4_000;

fn flops(steps: usize, threads: usize) -> f64 {
    (2 * 8 * CHAINS * steps * threads) as f64
}

fn seconds(steps: usize, threads: usize, rounds: usize) -> f64 {
    let work = || {
        let mut lanes = [[1.0f32; 8]; CHAINS];
        move || fma_chains(black_box(&mut lanes), steps)
    };
    best(threads, rounds, work).as_secs_f64()
}

#[cfg(target_arch = "x86_64")]
fn fma_chains(lanes: &mut [[f32; 8]; CHAINS], steps: usize) {
    #[target_feature(enable = "avx2,fma")]
    fn wide(lanes: &mut [[f32; 8]; CHAINS], steps: usize) {
        chains(lanes, steps);
    }
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: both features were just detected.
        unsafe { wide(lanes, steps) }
    } else {
        chains(lanes, steps);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn fma_chains(lanes: &mut [[f32; 8]; CHAINS], steps: usize) {
    chains(lanes, steps);
}

#[inline(always)]
fn chains(lanes: &mut [[f32; 8]; CHAINS], steps: usize) {
    let mut sums = *lanes;
    for _ in 0..steps {
        for sum in sums.as_flattened_mut() {
            *sum = sum.mul_add(0.999, 0.001);
        }
    }
    *lanes = sums;
}
