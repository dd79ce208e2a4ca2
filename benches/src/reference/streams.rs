//! Reading, writing and copying memory with vector instructions, as fast as the machine can.

use std::arch::x86_64::*;

use super::{
    Store,
    lanes::{Eight, eights, eights_mut, fence, load, put},
    reductions,
};

/// Reads all elements and returns their sum.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn read(x: &[f32]) -> f32 {
    reductions::sum(x)
}

/// Writes ones to the whole slice.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn write(y: &mut [f32], policy: Store) {
    match policy {
        Store::Cached => write_by::<false>(eights_mut(y)),
        Store::Streamed => write_by::<true>(eights_mut(y)),
    }
    fence(policy);
}

#[target_feature(enable = "avx2,fma")]
fn write_by<const STREAMED: bool>(y: &mut [Eight]) {
    let ones = _mm256_set1_ps(1.0);
    for block in y.as_chunks_mut::<8>().0 {
        for y in block {
            put::<STREAMED>(y, ones);
        }
    }
}

/// Copies `x` to `y`.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn copy(x: &[f32], y: &mut [f32], policy: Store) {
    match policy {
        Store::Cached => copy_by::<false>(eights(x), eights_mut(y)),
        Store::Streamed => copy_by::<true>(eights(x), eights_mut(y)),
    }
    fence(policy);
}

#[target_feature(enable = "avx2,fma")]
fn copy_by<const STREAMED: bool>(x: &[Eight], y: &mut [Eight]) {
    for (x, y) in x.as_chunks::<8>().0.iter().zip(y.as_chunks_mut::<8>().0) {
        for (x, y) in x.iter().zip(y) {
            put::<STREAMED>(y, load(x));
        }
    }
}
