//! Vectors of eight floats: loads and stores that are safe to call, sums over lanes, and the exponential
//! function.

use std::arch::x86_64::*;

use super::Store;

/// The number of floats of a vector.
pub(crate) const LANES: usize = 8;

/// Eight contiguous floats.
pub(crate) type Eight = [f32; LANES];

/// The vectors of a slice; a remainder of fewer than eight floats is ignored.
#[inline]
pub(crate) fn eights(x: &[f32]) -> &[Eight] {
    x.as_chunks().0
}

/// Vectors of a slice to be written.
#[inline]
pub(crate) fn eights_mut(x: &mut [f32]) -> &mut [Eight] {
    x.as_chunks_mut().0
}

#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn load(x: &Eight) -> __m256 {
    // SAFETY: the reference is to eight floats, and the load supports any alignment.
    unsafe { _mm256_loadu_ps(x.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn store(to: &mut Eight, value: __m256) {
    // SAFETY: the reference is to eight floats that nobody else uses, and the store takes any alignment.
    unsafe { _mm256_storeu_ps(to.as_mut_ptr(), value) }
}

/// Stores with a non-temporal store if the address is aligned. [`fence`] orders it before later stores.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn stream(to: &mut Eight, value: __m256) {
    let to = to.as_mut_ptr();
    if to.addr().is_multiple_of(size_of::<Eight>()) {
        // SAFETY: the reference was to eight floats that nobody else uses, and they are aligned as a vector.
        unsafe { _mm256_stream_ps(to, value) }
    } else {
        // SAFETY: as above, without the alignment, which this store does not need.
        unsafe { _mm256_storeu_ps(to, value) }
    }
}

/// Stores by a policy that is known at compile time.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn put<const STREAMED: bool>(to: &mut Eight, value: __m256) {
    if STREAMED { stream(to, value) } else { store(to, value) }
}

/// Makes non-temporal stores visible to other threads before any later store.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn fence(policy: Store) {
    if policy == Store::Streamed {
        _mm_sfence();
    }
}

/// The sum of the eight floats.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn sum_lanes(x: __m256) -> f32 {
    let mut lanes = [0.0; LANES];
    store(&mut lanes, x);
    lanes.iter().sum()
}

/// The greatest of the eight floats.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn max_lanes(x: __m256) -> f32 {
    let mut lanes = [0.0; LANES];
    store(&mut lanes, x);
    lanes.into_iter().fold(f32::NEG_INFINITY, f32::max)
}

/// `e` to the power of each lane, to about one unit in the last place; results that overflow or underflow are
/// clamped to the largest or smallest normal number.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(crate) fn exp(x: __m256) -> __m256 {
    let all = |value: f32| _mm256_set1_ps(value);
    let x = _mm256_max_ps(_mm256_min_ps(x, all(88.37)), all(-87.33));
    // x = n ln 2 + r with |r| at most ln 2 / 2; adding 1.5·2²³ rounds to a whole number, which is then in the
    // lowest bits.
    let magic = all(12_582_912.0);
    let shifted = _mm256_fmadd_ps(x, all(std::f32::consts::LOG2_E), magic);
    let n = _mm256_sub_ps(shifted, magic);
    let r = _mm256_fnmadd_ps(n, all(0.693_145_75), x);
    let r = _mm256_fnmadd_ps(n, all(1.428_606_8e-6), r);
    let mut value = all(1.0 / 720.0);
    for coefficient in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        value = _mm256_fmadd_ps(value, r, all(coefficient));
    }
    // Adding n to the exponent's bits multiplies by 2ⁿ.
    let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted));
    _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(value), exponent))
}
