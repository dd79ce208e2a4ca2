//! Estimates a kernel's running time from its first runs and from a sample of the later ones.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// A kernel that takes at most this many nanoseconds is quick: waking another thread takes longer.
const QUICK: u64 = 3_000;

/// A kernel that takes at most this many nanoseconds is short: a thread that is woken for it arrives when it
/// is nearly done.
const SHORT: u64 = 25_000;

/// A kernel that takes at most this many nanoseconds, the reading of the clock included, is tiny: enqueueing
/// it for another thread takes longer.
const TINY: u64 = 400;

/// The first `SAMPLING_PERIOD` runs are measured, then one in `SAMPLING_PERIOD` runs, because reading the
/// clock takes as long as a small kernel.
const SAMPLING_PERIOD: u32 = 8;

/// A kernel's estimated running time. Its atomics are not part of the protocol that the model checker checks,
/// so they are always the standard library's. They are relaxed, since they only decide which thread runs a
/// task. Concurrent updates may be lost.
#[derive(Debug)]
pub(crate) struct RunningTimeEstimate {
    runs: AtomicU32,
    /// Roughly the minimum of recent running times, in nanoseconds; `u64::MAX` before the first run. It rises
    /// by about a quarter per slower sample, so that single slow runs, on a cold or busy processor, do not
    /// count.
    minimum: AtomicU64,
}

impl RunningTimeEstimate {
    pub(crate) fn unknown() -> RunningTimeEstimate {
        RunningTimeEstimate { runs: AtomicU32::new(0), minimum: AtomicU64::new(u64::MAX) }
    }

    /// Whether running the kernel takes less time than waking a thread to do it.
    pub(crate) fn is_quick(&self) -> bool {
        self.minimum.load(Ordering::Relaxed) <= QUICK
    }

    /// Whether a thread that is woken for the kernel arrives too late.
    pub(crate) fn is_short(&self) -> bool {
        self.minimum.load(Ordering::Relaxed) <= SHORT
    }

    /// Whether running the kernel takes less time than enqueueing it for another thread.
    pub(crate) fn is_tiny(&self) -> bool {
        self.minimum.load(Ordering::Relaxed) <= TINY
    }

    /// Runs the kernel, and measures the run if it is one of the sample.
    pub(crate) fn run<T>(&self, kernel: impl FnOnce() -> T) -> T {
        let runs = self.runs.load(Ordering::Relaxed);
        self.runs.store(runs.wrapping_add(1), Ordering::Relaxed);
        if runs >= SAMPLING_PERIOD && !runs.is_multiple_of(SAMPLING_PERIOD) {
            return kernel();
        }
        let start = Instant::now();
        let result = kernel();
        self.record(start.elapsed());
        result
    }

    /// Takes a sample into account.
    pub(crate) fn record(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let minimum = self.minimum.load(Ordering::Relaxed);
        self.minimum.store(took.min(minimum.saturating_add(minimum / 4 + 16)), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_run_is_forgotten_and_a_slow_kernel_is_not_quick() {
        let estimate = RunningTimeEstimate::unknown();
        assert!(!estimate.is_quick(), "nothing is known");
        estimate.record(Duration::from_nanos(1000));
        assert!(estimate.is_quick() && !estimate.is_tiny());
        estimate.record(Duration::from_nanos(300));
        assert!(estimate.is_quick() && estimate.is_tiny());
        (0..8).for_each(|_| estimate.record(Duration::from_secs(1)));
        assert!(estimate.is_quick(), "perhaps the processor was busy");
        (0..20).for_each(|_| estimate.record(Duration::from_secs(1)));
        assert!(!estimate.is_quick());
        estimate.record(Duration::from_nanos(300));
        assert!(estimate.is_quick());
    }

    #[test]
    fn a_kernel_that_becomes_slow_is_noticed() {
        let estimate = RunningTimeEstimate::unknown();
        (0..20).for_each(|_| estimate.run(|| ()));
        assert!(estimate.is_quick());
        (0..40 * SAMPLING_PERIOD)
            .for_each(|_| estimate.run(|| std::thread::sleep(Duration::from_micros(50))));
        assert!(!estimate.is_quick());
    }
}
