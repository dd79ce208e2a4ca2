//! Operations on each row, which stays in the L1 cache during all passes over it.

use std::arch::x86_64::*;

use super::{
    lanes::{Eight, eights, eights_mut, exp, load, max_lanes, store, sum_lanes},
    reductions::{self, CHAINS},
};

/// Softmax of each row.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn softmax(x: &[f32], columns: usize, y: &mut [f32]) {
    for (x, y) in x.chunks_exact(columns).zip(y.chunks_exact_mut(columns)) {
        let (x, y) = (eights(x), eights_mut(y));
        let sum = exponentials(x, greatest(x), y);
        let factor = _mm256_set1_ps(1.0 / sum);
        for y in y {
            store(y, _mm256_mul_ps(load(y), factor));
        }
    }
}

#[target_feature(enable = "avx2,fma")]
fn greatest(x: &[Eight]) -> f32 {
    let mut tops = [_mm256_set1_ps(f32::NEG_INFINITY); 4];
    for block in x.as_chunks::<4>().0 {
        for (top, x) in tops.iter_mut().zip(block) {
            *top = _mm256_max_ps(*top, load(x));
        }
    }
    max_lanes(_mm256_max_ps(_mm256_max_ps(tops[0], tops[1]), _mm256_max_ps(tops[2], tops[3])))
}

/// Writes `exp(x - top)` and returns the sum of these.
#[target_feature(enable = "avx2,fma")]
fn exponentials(x: &[Eight], top: f32, y: &mut [Eight]) -> f32 {
    let top = _mm256_set1_ps(top);
    let mut sums = [_mm256_setzero_ps(); 2];
    for (x, y) in x.as_chunks::<2>().0.iter().zip(y.as_chunks_mut::<2>().0) {
        for ((x, y), sum) in x.iter().zip(y).zip(&mut sums) {
            let value = exp(_mm256_sub_ps(load(x), top));
            store(y, value);
            *sum = _mm256_add_ps(*sum, value);
        }
    }
    sum_lanes(_mm256_add_ps(sums[0], sums[1]))
}

/// Each row minus its mean over its standard deviation, scaled and shifted by column.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn layer_norm(x: &[f32], scale: &[f32], shift: &[f32], y: &mut [f32]) {
    let columns = scale.len();
    for (x, y) in x.chunks_exact(columns).zip(y.chunks_exact_mut(columns)) {
        let mean = reductions::sum(x) / columns as f32;
        let variance = squares(eights(x), mean) / columns as f32;
        let (mean, inverse) = (_mm256_set1_ps(mean), _mm256_set1_ps(1.0 / (variance + 1e-5).sqrt()));
        let by_column = eights(scale).iter().zip(eights(shift));
        for ((x, y), (scale, shift)) in eights(x).iter().zip(eights_mut(y)).zip(by_column) {
            let value = _mm256_mul_ps(_mm256_sub_ps(load(x), mean), inverse);
            store(y, _mm256_fmadd_ps(value, load(scale), load(shift)));
        }
    }
}

/// The sum of the squares of `x - mean`.
#[target_feature(enable = "avx2,fma")]
fn squares(x: &[Eight], mean: f32) -> f32 {
    let mean = _mm256_set1_ps(mean);
    let mut sums = [_mm256_setzero_ps(); CHAINS];
    for block in x.as_chunks::<CHAINS>().0 {
        for (sum, x) in sums.iter_mut().zip(block) {
            let x = _mm256_sub_ps(load(x), mean);
            *sum = _mm256_fmadd_ps(x, x, *sum);
        }
    }
    sum_lanes(reductions::pairwise(sums))
}
