//! How long a kernel takes, as measured in its first runs and now and then afterwards.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Kernels up to this many nanoseconds are quick: it takes longer until another thread has woken up.
const QUICK: u64 = 3_000;

/// So many first runs are measured, and one in as many afterwards, since looking at the clock takes as long as a small kernel.
const EVERY: u32 = 8;

/// A kernel's running time, estimated. Outside of the protocol, so always the standard library's; relaxed throughout, since
/// nothing follows from it but who runs a task. Runs that are noted at once may be lost.
#[derive(Debug)]
pub(crate) struct Pace {
    runs: AtomicU32,
    /// About the least time of late, in nanoseconds; `u64::MAX` before the first run. A run on a cold or a busy processor says
    /// little of the kernel, so slow ones count only when there are several.
    least: AtomicU64,
}

impl Pace {
    pub(crate) fn unknown() -> Pace {
        Pace { runs: AtomicU32::new(0), least: AtomicU64::new(u64::MAX) }
    }

    /// Whether running the kernel takes less time than waking a thread to do it.
    pub(crate) fn is_quick(&self) -> bool {
        self.least.load(Ordering::Relaxed) <= QUICK
    }

    /// Runs the kernel, and notes how long that took if it is time to.
    pub(crate) fn run(&self, kernel: impl FnOnce()) {
        let runs = self.runs.load(Ordering::Relaxed);
        self.runs.store(runs.wrapping_add(1), Ordering::Relaxed);
        if runs >= EVERY && !runs.is_multiple_of(EVERY) {
            return kernel();
        }
        let start = Instant::now();
        kernel();
        self.note(start.elapsed());
    }

    fn note(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let least = self.least.load(Ordering::Relaxed);
        self.least.store(took.min(least.saturating_add(least / 4 + 16)), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_run_is_forgotten_and_a_slow_kernel_is_not_quick() {
        let pace = Pace::unknown();
        assert!(!pace.is_quick(), "nothing is known");
        pace.note(Duration::from_nanos(300));
        assert!(pace.is_quick());
        (0..8).for_each(|_| pace.note(Duration::from_secs(1)));
        assert!(pace.is_quick(), "perhaps the processor was busy");
        (0..20).for_each(|_| pace.note(Duration::from_secs(1)));
        assert!(!pace.is_quick());
        pace.note(Duration::from_nanos(300));
        assert!(pace.is_quick());
    }

    #[test]
    fn a_kernel_that_becomes_slow_is_noticed() {
        let pace = Pace::unknown();
        (0..20).for_each(|_| pace.run(|| ()));
        assert!(pace.is_quick());
        (0..40 * EVERY).for_each(|_| pace.run(|| std::thread::sleep(Duration::from_micros(50))));
        assert!(!pace.is_quick());
    }
}
