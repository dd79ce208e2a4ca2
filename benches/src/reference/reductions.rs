//! Sums over all elements, over rows and over columns.

use std::arch::x86_64::*;

use super::lanes::{Eight, eights, eights_mut, load, store, sum_lanes};

/// The number of independent sums, so that additions do not wait for each other.
pub(super) const CHAINS: usize = 8;

/// The sum of all elements.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn sum(x: &[f32]) -> f32 {
    let mut sums = [_mm256_setzero_ps(); CHAINS];
    for block in eights(x).as_chunks::<CHAINS>().0 {
        for (sum, x) in sums.iter_mut().zip(block) {
            *sum = _mm256_add_ps(*sum, load(x));
        }
    }
    sum_lanes(pairwise(sums))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn pairwise(s: [__m256; CHAINS]) -> __m256 {
    let add = |a: __m256, b: __m256| _mm256_add_ps(a, b);
    add(add(add(s[0], s[1]), add(s[2], s[3])), add(add(s[4], s[5]), add(s[6], s[7])))
}

/// The sum of each row.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn row_sums(x: &[f32], columns: usize, y: &mut [f32]) {
    for (row, y) in x.chunks_exact(columns).zip(y) {
        *y = sum(row);
    }
}

/// The sum of each column: eight rows at a time are added to sums that stay in the L1 cache.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn column_sums(x: &[f32], columns: usize, y: &mut [f32]) {
    const ROWS: usize = 8;
    y.fill(0.0);
    let blocks = x.chunks_exact(ROWS * columns);
    for row in blocks.remainder().chunks_exact(columns) {
        y.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
    }
    for block in blocks {
        let rows: [&[Eight]; ROWS] = std::array::from_fn(|i| eights(&block[i * columns..(i + 1) * columns]));
        for (i, y) in eights_mut(y).iter_mut().enumerate() {
            let at = |row: usize| load(&rows[row][i]);
            let pair = |row: usize| _mm256_add_ps(at(row), at(row + 1));
            let (low, high) = (_mm256_add_ps(pair(0), pair(2)), _mm256_add_ps(pair(4), pair(6)));
            store(y, _mm256_add_ps(load(y), _mm256_add_ps(low, high)));
        }
    }
}
