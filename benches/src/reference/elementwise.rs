//! `y = f(x)`.

use std::arch::x86_64::*;

use super::{
    Store,
    lanes::{Eight, eights, eights_mut, exp, fence, load, put},
};

/// `2 relu(1.5 x + 0.5)`.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn axpy_relu(x: &[f32], y: &mut [f32], policy: Store) {
    match policy {
        Store::Cached => axpy_relu_by::<false>(eights(x), eights_mut(y)),
        Store::Streamed => axpy_relu_by::<true>(eights(x), eights_mut(y)),
    }
    fence(policy);
}

#[target_feature(enable = "avx2,fma")]
fn axpy_relu_by<const STREAMED: bool>(x: &[Eight], y: &mut [Eight]) {
    let (scale, shift, two) = (_mm256_set1_ps(1.5), _mm256_set1_ps(0.5), _mm256_set1_ps(2.0));
    for (x, y) in x.as_chunks::<4>().0.iter().zip(y.as_chunks_mut::<4>().0) {
        for (x, y) in x.iter().zip(y) {
            let value = _mm256_max_ps(_mm256_fmadd_ps(load(x), scale, shift), _mm256_setzero_ps());
            put::<STREAMED>(y, _mm256_mul_ps(value, two));
        }
    }
}

/// The Gaussian error linear unit: `x / (1 + exp(-2u))` with `u = √(2/π) (x + 0.044715 x³)` is the form with
/// the hyperbolic tangent.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn gelu(x: &[f32], y: &mut [f32], policy: Store) {
    match policy {
        Store::Cached => gelu_by::<false>(eights(x), eights_mut(y)),
        Store::Streamed => gelu_by::<true>(eights(x), eights_mut(y)),
    }
    fence(policy);
}

#[target_feature(enable = "avx2,fma")]
fn gelu_by<const STREAMED: bool>(x: &[Eight], y: &mut [Eight]) {
    for (x, y) in x.as_chunks::<2>().0.iter().zip(y.as_chunks_mut::<2>().0) {
        for (x, y) in x.iter().zip(y) {
            put::<STREAMED>(y, gelu_of(load(x)));
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn gelu_of(x: __m256) -> __m256 {
    const ROOT: f32 = 0.797_884_6;
    let cubic = _mm256_fmadd_ps(
        _mm256_mul_ps(x, x),
        _mm256_set1_ps(-2.0 * ROOT * 0.044_715),
        _mm256_set1_ps(-2.0 * ROOT),
    );
    let below = _mm256_add_ps(_mm256_set1_ps(1.0), exp(_mm256_mul_ps(cubic, x)));
    _mm256_div_ps(x, below)
}
