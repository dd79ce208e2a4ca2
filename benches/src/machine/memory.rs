//! Bandwidths of reading, writing and copying arrays with a given total footprint.

use std::hint::black_box;

use super::{Bandwidth, best};
use crate::{arrays::Buffer, reference::Store};

/// The least number of bytes moved in a round.
const MOVED: usize = 1 << 25;

/// Measures all methods at a footprint.
pub(super) fn measure(threads: usize, footprint: usize, rounds: usize) -> Bandwidth {
    let floats = footprint / threads / size_of::<f32>();
    let repeats = (MOVED / footprint).max(1);
    let rate = |seconds: std::time::Duration| (footprint * repeats) as f64 / seconds.as_secs_f64() / 1e9;
    let one = |work: fn(&mut [f32])| {
        rate(best(threads, rounds, || {
            let mut x = Buffer::new(&vec![1.0; floats]);
            move || (0..repeats).for_each(|_| work(black_box(&mut x)))
        }))
    };
    let two = |work: fn(&[f32], &mut [f32])| {
        rate(best(threads, rounds, || {
            let [x, mut y] = [1.0, 0.0].map(|value| Buffer::new(&vec![value; floats / 2]));
            move || (0..repeats).for_each(|_| work(black_box(&x), black_box(&mut y)))
        }))
    };
    let written = [one(|x| write(x, Store::Cached)), one(|x| write(x, Store::Streamed))];
    Bandwidth {
        bytes: footprint as f64,
        read: one(|x| read(x)),
        write: written[0].max(written[1]),
        copy: two(|x, y| copy(x, y, Store::Cached)),
        streamed_copy: two(|x, y| copy(x, y, Store::Streamed)),
    }
}

#[cfg(target_arch = "x86_64")]
fn has_vectors() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

fn read(x: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    if has_vectors() {
        // SAFETY: the features were just detected.
        black_box(unsafe { crate::reference::streams::read(x) });
        return;
    }
    black_box(x.iter().fold(0, |bits, x| bits ^ x.to_bits()));
}

fn write(y: &mut [f32], policy: Store) {
    #[cfg(target_arch = "x86_64")]
    if has_vectors() {
        // SAFETY: the features were just detected.
        return unsafe { crate::reference::streams::write(y, policy) };
    }
    // Without AVX2 there is one method, whatever the policy.
    let _ = policy;
    y.fill(1.0);
}

fn copy(x: &[f32], y: &mut [f32], policy: Store) {
    #[cfg(target_arch = "x86_64")]
    if has_vectors() {
        // SAFETY: the features were just detected.
        return unsafe { crate::reference::streams::copy(x, y, policy) };
    }
    let _ = policy;
    y.copy_from_slice(x);
}
