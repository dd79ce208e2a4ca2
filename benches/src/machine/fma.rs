//! The peak of fused multiply-adds.

use std::hint::black_box;

use super::best;

/// Independent chains enough to fill the pipelines of any present core.
const CHAINS: usize = 12;
/// Steps of a round.
const STEPS: usize = 200_000;

/// Giga f32 operations per second of all threads together.
pub(super) fn gflops(threads: usize, rounds: usize) -> f64 {
    let seconds = best(threads, rounds, || {
        let mut lanes = [[1.0f32; 8]; CHAINS];
        move || fma_chains(black_box(&mut lanes), STEPS)
    });
    (2 * 8 * CHAINS * STEPS * threads) as f64 / seconds.as_secs_f64() / 1e9
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
