//! A kernel being run in parts, by its owner and whichever helpers come in time.
//!
//! Each participant has a share of the parts, the same from run to run, so that what it wrote is in its own cache the next time;
//! whoever is done with its share takes parts of the others'. Invariants: every part is taken once; parts are equal but for one
//! iteration, and none has fewer than the grain; a job is used for one run at a time.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use codegen_core::panic_message;

use crate::sync::{
    Condvar, Mutex, Ordering,
    atomic::{AtomicU64, AtomicUsize},
    spin_politely,
};

/// Parts per participating thread, so that unequal threads finish together.
const PARTS_PER_THREAD: u64 = 4;

/// How long the owner stays awake until the last helpers have left; their parts are about as long as its own last.
const SPIN: Duration = Duration::from_micros(100);

/// How the iterations of a kernel are cut into parts, and these into shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    extent: u64,
    parts: u64,
    shares: u64,
}

impl Cut {
    /// For at most `threads` threads; none if the kernel is not worth two parts.
    pub(crate) fn new(extent: u64, grain: u64, threads: usize) -> Option<Cut> {
        let shares = threads as u64;
        let parts = (extent / grain.max(1)).min(shares.saturating_mul(PARTS_PER_THREAD));
        (parts > 1 && shares > 1).then_some(Cut { extent, parts, shares: shares.min(parts) })
    }

    /// How many threads have a share.
    pub(crate) fn shares(&self) -> usize {
        self.shares as usize
    }

    /// The first part of a share, or, for the number of shares, the number of parts.
    fn first_part(&self, share: u64) -> u64 {
        self.parts / self.shares * share + share.min(self.parts % self.shares)
    }

    /// The first iteration of a part, or, for the number of parts, the extent.
    fn first_iteration(&self, part: u64) -> u64 {
        self.extent / self.parts * part + part.min(self.extent % self.parts)
    }
}

/// The state of one run in parts; used again for later runs.
#[derive(Debug)]
pub(crate) struct Job {
    /// Per share the next part that nobody took.
    next: Box<[Next]>,
    /// Helpers that were asked and have neither left nor been told not to come.
    helpers: AtomicUsize,
    outcome: Mutex<Outcome>,
    all_left: Condvar,
}

/// A counter with its cache line to itself, since its thread counts there without the others.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Next(AtomicU64);

#[derive(Debug, Default)]
struct Outcome {
    /// The owner sleeps on `all_left`.
    awaited: bool,
    /// What a part's panic said.
    panic: Option<String>,
}

impl Job {
    /// For up to `threads` participants.
    pub(crate) fn new(threads: usize) -> Job {
        Job {
            next: (0..threads).map(|_| Next::default()).collect(),
            helpers: AtomicUsize::new(0),
            outcome: Mutex::default(),
            all_left: Condvar::default(),
        }
    }

    /// Begins a run. For the owner alone, before it asks anybody: asking publishes what is written here.
    pub(crate) fn begin(&self, cut: Cut) {
        for (next, share) in self.next.iter().zip(0..cut.shares) {
            next.0.store(cut.first_part(share), Ordering::Relaxed);
        }
        self.helpers.store(0, Ordering::Relaxed);
        *self.outcome.lock() = Outcome::default();
    }

    /// Notes that a helper is about to be asked.
    pub(crate) fn ask(&self) {
        self.helpers.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a helper that was asked does not come.
    pub(crate) fn excuse(&self) {
        self.helpers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes and runs parts until none is left: the share's, then the others'.
    pub(crate) fn work(&self, cut: Cut, share: usize, run: impl Fn(u64, u64)) {
        for step in 0..cut.shares {
            let share = (share as u64 + step) % cut.shares;
            let end = cut.first_part(share + 1);
            loop {
                // Relaxed: each number is given once, and what the owner wrote before was published when it asked.
                let part = self.next[share as usize].0.fetch_add(1, Ordering::Relaxed);
                if part >= end {
                    break;
                }
                self.run_part(&run, cut.first_iteration(part), cut.first_iteration(part + 1));
            }
        }
    }

    fn run_part(&self, run: impl Fn(u64, u64), begin: u64, end: u64) {
        // AssertUnwindSafe: what a panicking kernel wrote is poisoned by the lane's failure, so nobody looks at it.
        let result = catch_unwind(AssertUnwindSafe(|| run(begin, end)));
        if let Err(panic) = result {
            // Before the lock: the payload's destructor is the user's code.
            let message = panic_message(panic);
            self.outcome.lock().panic.get_or_insert(message);
        }
    }

    /// Ends the work of a helper, which touches nothing of the run afterwards. (The job may be in another run before this returns:
    /// then the owner of that is woken for nothing.)
    pub(crate) fn leave(&self) {
        // Release: pairs with the owner's acquire, so that it sees what the helper wrote.
        if self.helpers.fetch_sub(1, Ordering::AcqRel) == 1 && self.outcome.lock().awaited {
            self.all_left.notify_all();
        }
    }

    /// Waits for the helpers that have begun to leave; tells what a part's panic said.
    pub(crate) fn finish(&self) -> Result<(), String> {
        let all_left = || self.helpers.load(Ordering::Acquire) == 0;
        spin_politely(SPIN, all_left);
        let mut outcome = self.outcome.lock();
        while !all_left() {
            outcome.awaited = true;
            outcome = self.all_left.wait(outcome);
        }
        outcome.panic.take().map_or(Ok(()), Err)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    fn parts(cut: Cut) -> Vec<(u64, u64)> {
        (0..cut.parts).map(|part| (cut.first_iteration(part), cut.first_iteration(part + 1))).collect()
    }

    #[test]
    fn parts_are_equal_and_no_smaller_than_the_grain() {
        for (extent, grain, threads) in [
            (1000, 1, 2),
            (1000, 7, 2),
            (5, 2, 2),
            (64, 16, 3),
            (97, 96, 2),
            (512, 252, 2),
            (u64::MAX, u64::MAX / 3, 2),
        ] {
            let Some(cut) = Cut::new(extent, grain, threads) else {
                assert_eq!(extent / grain, 1);
                continue;
            };
            let parts = parts(cut);
            assert_eq!((parts[0].0, parts[parts.len() - 1].1), (0, extent));
            assert!(parts.windows(2).all(|pair| pair[0].1 == pair[1].0));
            assert!(parts.iter().all(|(begin, end)| end - begin >= grain));
            let sizes = parts.iter().map(|(begin, end)| end - begin);
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1, "parts are of a size");
        }
    }

    #[test]
    fn few_grains_make_few_parts() {
        assert_eq!(Cut::new(512, 512, 8), None, "one part is no reason to ask anybody");
        assert_eq!(Cut::new(512, 1, 1), None, "nor is one thread");
        assert_eq!(parts(Cut::new(512, 256, 8).unwrap()), [(0, 256), (256, 512)]);
        assert_eq!(Cut::new(512, 256, 8).unwrap().shares(), 2);
        assert_eq!(parts(Cut::new(1 << 20, 1, 2).unwrap()).len(), 8);
    }

    #[test]
    fn shares_are_consecutive_parts_and_one_thread_alone_runs_all_of_them() {
        let cut = Cut::new(100, 1, 3).unwrap();
        assert_eq!((0..=3).map(|share| cut.first_part(share)).collect::<Vec<_>>(), [0, 4, 8, 12]);
        let job = Job::new(3);
        for first in 0..3 {
            job.begin(cut);
            let runs = Mutex::new(Vec::new());
            job.work(cut, first, |begin, end| runs.lock().push((begin, end)));
            let mut runs = std::mem::take(&mut *runs.lock());
            assert_eq!(runs[0], parts(cut)[4 * first], "a thread begins with its own share");
            runs.sort_unstable();
            assert_eq!(runs, parts(cut));
            job.finish().unwrap();
        }
    }
}
