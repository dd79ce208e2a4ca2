//! The machine's own limits, measured in the same run: fused multiply-add peak and copy bandwidth by footprint.

use std::{fmt, hint::black_box, time::Instant};

/// Measured peaks of one core.
pub(crate) struct Machine {
    /// Giga f32 operations per second of independent fused multiply-adds.
    gflops: f64,
    /// `(bytes, gigabytes per second)` of copying buffers of that footprint, ascending.
    copies: Vec<(f64, f64)>,
}

impl Machine {
    /// Measures; `quick` gives rough figures.
    pub(crate) fn measure(quick: bool) -> Machine {
        let rounds = if quick { 1 } else { 7 };
        let copies = [15, 17, 20, 23, 26].map(|log| (f64::from(1 << log), copy_gbps(1 << log, rounds)));
        Machine { gflops: fma_gflops(rounds), copies: copies.to_vec() }
    }

    /// The least microseconds that so much work could take on one core.
    pub(crate) fn least_us(&self, flops: f64, bytes: f64) -> f64 {
        let fits = self.copies.iter().find(|(footprint, _)| bytes <= *footprint);
        let gbps = fits.or(self.copies.last()).map_or(f64::INFINITY, |&(_, gbps)| gbps);
        (flops / self.gflops / 1e3).max(bytes / gbps / 1e3)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = self.copies.last().map_or(0.0, |&(_, gbps)| gbps);
        write!(f, "fma peak {:.0} GFLOP/s, memory copy {memory:.0} GB/s on one core", self.gflops)
    }
}

fn copy_gbps(footprint: usize, rounds: usize) -> f64 {
    let (src, mut dst) = (vec![1u8; footprint / 2], vec![0u8; footprint / 2]);
    let repeats = (1 << 26) / footprint;
    best(rounds, || {
        for _ in 0..repeats {
            dst.copy_from_slice(black_box(&src));
            black_box(&mut dst);
        }
    })
    .map_or(0.0, |seconds| (footprint * repeats) as f64 / seconds / 1e9)
}

/// Independent chains enough to fill the pipelines of any present core.
const CHAINS: usize = 12;

fn fma_gflops(rounds: usize) -> f64 {
    const STEPS: usize = 200_000;
    let mut lanes = [[1.0f32; 8]; CHAINS];
    let seconds = best(rounds, || fma_chains(black_box(&mut lanes), STEPS));
    seconds.map_or(0.0, |s| (2 * 8 * CHAINS * STEPS) as f64 / s / 1e9)
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

/// The least seconds of so many calls.
fn best(rounds: usize, mut work: impl FnMut()) -> Option<f64> {
    work();
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    (0..rounds).map(time).min_by(f64::total_cmp)
}
