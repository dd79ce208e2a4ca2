//! The protocol under the model checker loom, which explores every interleaving of a few threads up to a
//! number of preemptions, and every value that a relaxed load may return.
//!
//! The tests run the crate's own code; only the module `sync` is replaced. A lost wake-up shows as a
//! deadlock, which loom reports, and a missing happens-before edge as a stale value of a relaxed counter. So
//! no test closes a queue to wake a sleeping thread, unless it tests closing. `src/README.md` lists which
//! test fails when a step of the protocol is left out.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod bounded_queue;
mod multicore_queue;
mod thread_pool;

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::sync::Arc;

/// Runs `body` in every interleaving with up to `preemptions` switches away from a thread that could
/// continue.
fn explore(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// A counter of steps that must happen one at a time and in order. Its accesses are relaxed: without a
/// happens-before edge between two steps, the later one may read a stale number.
#[derive(Clone, Default)]
struct StepCounter(Arc<AtomicUsize>);

impl StepCounter {
    /// Takes step number `step`, counted from 0. The load and the store are separate, so that two steps that
    /// run at the same time are noticed.
    fn take(&self, step: usize) {
        assert_eq!(self.taken(), step, "steps out of order, at the same time, or unseen");
        self.0.store(step + 1, Relaxed);
    }

    fn taken(&self) -> usize {
        self.0.load(Relaxed)
    }
}
