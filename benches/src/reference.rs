//! Hand-written AVX2 kernels: the performance that a careful author achieves on this machine for each
//! operation, for comparison with compiled code.
//!
//! They use the same memory as the compiled code, under the same policies: buffers on huge pages,
//! non-temporal stores for outputs larger than half of the last-level cache. Each takes slices whose lengths
//! are multiples of [`BLOCK`]; callers divide the work over threads.
//!
//! Unsafe code is in [`lanes`] (loads and stores of whole vectors, from references to arrays of that size)
//! and in [`crate::peers`], which calls kernels after it has detected AVX2 and FMA.

#[cfg(target_arch = "x86_64")]
pub(crate) mod elementwise;
#[cfg(target_arch = "x86_64")]
pub(crate) mod lanes;
#[cfg(target_arch = "x86_64")]
pub(crate) mod reductions;
#[cfg(target_arch = "x86_64")]
pub(crate) mod rows; // softmax and layer normalization
#[cfg(target_arch = "x86_64")]
pub(crate) mod transpose;

/// The number of floats that kernels process at a time.
#[cfg(target_arch = "x86_64")]
pub(crate) const BLOCK: usize = 64;

/// How results are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// Through the caches.
    Cached,
    /// With non-temporal stores.
    Streamed,
}

impl Store {
    /// The policy for an output of this size: non-temporal if it exceeds half of the last-level cache.
    pub(crate) fn of(bytes: usize) -> Store {
        if 2 * bytes > last_cache() { Store::Streamed } else { Store::Cached }
    }
}

/// The size of the last-level cache in bytes; 32 MiB if the system does not report it.
pub(crate) fn last_cache() -> usize {
    static SIZE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *SIZE.get_or_init(|| {
        let sizes = (0..8).filter_map(|index| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
            std::fs::read_to_string(path).ok()?.trim().strip_suffix('K')?.parse::<usize>().ok()
        });
        sizes.max().map_or(32 << 20, |kib| kib << 10)
    })
}
