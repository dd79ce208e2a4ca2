//! Counts of the work of a fallback, and the order of its runs.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

/// How much of a backend's work its fallback has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FallbackCount {
    /// Kernels compiled for the fallback, in the routines compiled so far.
    pub kernels: u64,
    /// Runs of routines with such kernels.
    pub runs: u64,
}

/// The work that a backend's fallback has done, and the turns of its runs.
#[derive(Debug, Default)]
pub(crate) struct FallbackRuns {
    kernels: AtomicU64,
    runs: AtomicU64,
    /// Locked during each run of a divided routine.
    order: Mutex<()>,
}

impl FallbackRuns {
    pub(crate) fn count_kernels(&self, kernels: usize) {
        self.kernels.fetch_add(kernels as u64, Ordering::Relaxed);
    }

    /// Counts a run, and waits until no other run is in progress.
    pub(super) fn begin_run(&self) -> MutexGuard<'_, ()> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> FallbackCount {
        let FallbackRuns { kernels, runs, .. } = self;
        FallbackCount { kernels: kernels.load(Ordering::Relaxed), runs: runs.load(Ordering::Relaxed) }
    }
}
