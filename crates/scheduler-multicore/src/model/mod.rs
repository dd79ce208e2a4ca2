//! The protocol under the model checker loom, which runs every interleaving of a few threads up to a number of preemptions,
//! and every value that a relaxed read may see.
//!
//! What runs is the crate's own code; only the module `sync` is another. A lost wake-up shows as a deadlock, which loom reports;
//! a missing happens-before as a stale value of a relaxed counter. So nothing here closes a queue to get a thread out of its
//! sleep, unless closing is what is tested. `src/README.md` says which test goes red when which line is left out.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod crew;
mod lane;
mod queue;

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::sync::Arc;

/// Runs `body` in every interleaving with up to `preemptions` switches away from a thread that could go on.
fn explore(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// Steps that must happen one at a time and in order, seen by relaxed accesses alone: without a happens-before between two
/// steps, the later one may see a stale number.
#[derive(Clone, Default)]
struct Steps(Arc<AtomicUsize>);

impl Steps {
    /// Step number `step`, counted from 0. Reading and writing are apart, so that a step that runs at the same time is noticed.
    fn take(&self, step: usize) {
        assert_eq!(self.taken(), step, "steps out of order, at the same time, or unseen");
        self.0.store(step + 1, Relaxed);
    }

    fn taken(&self) -> usize {
        self.0.load(Relaxed)
    }
}
