//! One step of Adam in place: updates the parameter and both moments in one pass.

use std::arch::x86_64::*;

use super::lanes::{eights, eights_mut, load, store};

/// Updates parameter `p` and moments `m`, `v` by gradient `g` at the first step with rate 0.001.
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
