//! `y = f(x)`, and one step of Adam.

use std::arch::x86_64::*;

use super::{
    Store,
    lanes::{Eight, eights, eights_mut, exp, fence, load, put, store},
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

/// The first step of Adam in place, in one pass: updates parameter `p` and moments `m`, `v` by gradient `g`
/// with rate 0.001.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn adam(p: &mut [f32], m: &mut [f32], v: &mut [f32], g: &[f32]) {
    let all = |value: f32| _mm256_set1_ps(value);
    let (keep_m, new_m, keep_v, new_v) = (all(0.9), all(0.1), all(0.999), all(0.001));
    let (rate, unbiased, tiny) = (all(0.01), all(31.622_777), all(1e-8));
    let moments = eights_mut(m).iter_mut().zip(eights_mut(v));
    for ((p, g), (m, v)) in eights_mut(p).iter_mut().zip(eights(g)).zip(moments) {
        let g = load(g);
        let first = _mm256_fmadd_ps(keep_m, load(m), _mm256_mul_ps(new_m, g));
        let second = _mm256_fmadd_ps(keep_v, load(v), _mm256_mul_ps(new_v, _mm256_mul_ps(g, g)));
        let below = _mm256_fmadd_ps(_mm256_sqrt_ps(second), unbiased, tiny);
        let change = _mm256_div_ps(_mm256_mul_ps(rate, first), below);
        store(m, first);
        store(v, second);
        store(p, _mm256_sub_ps(load(p), change));
    }
}
