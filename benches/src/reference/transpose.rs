//! The transpose: tiles are transposed in the L1 cache, so that memory is read and written in whole cache
//! lines.

use std::arch::x86_64::*;

use super::{
    Store,
    lanes::{Eight, eights, eights_mut, fence, load, put, store},
};

/// Rows and columns of a tile.
pub(crate) const TILE: usize = 64;
/// Vectors in a row of a tile.
const VECTORS: usize = TILE / 8;

/// Writes rows `first..` of the transpose of `x`, which has `rows` rows and `columns` columns: as many rows
/// as `y` has room for.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn transpose(x: &[f32], [rows, columns]: [usize; 2], first: usize, y: &mut [f32], policy: Store) {
    let mut tile = [[0.0f32; 8]; TILE * VECTORS];
    for (band, y) in y.chunks_exact_mut(TILE * rows).enumerate() {
        for i in (0..rows).step_by(TILE) {
            transpose_tile(&x[i * columns + first + band * TILE..], columns, &mut tile);
            for (row, turned) in tile.as_chunks::<VECTORS>().0.iter().enumerate() {
                let to = eights_mut(&mut y[row * rows + i..][..TILE]);
                match policy {
                    Store::Cached => write::<false>(turned, to),
                    Store::Streamed => write::<true>(turned, to),
                }
            }
        }
    }
    fence(policy);
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn write<const STREAMED: bool>(from: &[Eight], to: &mut [Eight]) {
    for (from, to) in from.iter().zip(to) {
        put::<STREAMED>(to, load(from));
    }
}

/// Transposes the tile at the start of `x` into rows of vectors.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn transpose_tile(x: &[f32], columns: usize, tile: &mut [Eight; TILE * VECTORS]) {
    for i in 0..VECTORS {
        let rows: [&[Eight]; 8] = std::array::from_fn(|row| eights(&x[(8 * i + row) * columns..][..TILE]));
        for j in 0..VECTORS {
            let mut block = [_mm256_setzero_ps(); 8];
            for (value, row) in block.iter_mut().zip(&rows) {
                *value = load(&row[j]);
            }
            for (row, value) in transpose_eight(block).into_iter().enumerate() {
                store(&mut tile[(8 * j + row) * VECTORS + i], value);
            }
        }
    }
}

/// The transpose of eight vectors of eight.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn transpose_eight(r: [__m256; 8]) -> [__m256; 8] {
    // Pairs of rows, then groups of four, then the halves of vectors are exchanged.
    let pairs = |i: usize| (_mm256_unpacklo_ps(r[i], r[i + 1]), _mm256_unpackhi_ps(r[i], r[i + 1]));
    let fours = |i: usize| {
        let ((a, b), (c, d)) = (pairs(i), pairs(i + 2));
        [
            _mm256_shuffle_ps::<0x44>(a, c),
            _mm256_shuffle_ps::<0xee>(a, c),
            _mm256_shuffle_ps::<0x44>(b, d),
            _mm256_shuffle_ps::<0xee>(b, d),
        ]
    };
    let (low, high) = (fours(0), fours(4));
    let mut turned = [_mm256_setzero_ps(); 8];
    for i in 0..4 {
        turned[i] = _mm256_permute2f128_ps::<0x20>(low[i], high[i]);
        turned[i + 4] = _mm256_permute2f128_ps::<0x31>(low[i], high[i]);
    }
    turned
}
