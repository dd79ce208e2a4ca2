//! Runs a kernel in chunks, on its initiator and on the pool workers that arrive in time.
//!
//! Each participating thread has a share of consecutive chunks. The shares are the same in every run, so that
//! a thread finds what it wrote in the previous run in its cache. A thread that has finished its share steals
//! chunks from the others' shares. Invariants: every chunk is taken once; chunk sizes differ by at most one
//! iteration, and none is smaller than the grain; a `SplitRun` serves one run at a time.

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

/// Chunks per participating thread, so that threads of unequal speed finish together.
const CHUNKS_PER_THREAD: u64 = 4;

/// How long the initiator spins for the last workers to finish; their chunks take about as long as its own
/// last chunk.
const SPIN: Duration = Duration::from_micros(100);

/// The division of a kernel's iterations `0..extent` into chunks, and of the chunks into shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunking {
    extent: u64,
    chunks: u64,
    shares: u64,
}

impl Chunking {
    /// A division for at most `threads` threads; `None` if it has fewer than two chunks.
    pub(crate) fn new(extent: u64, grain: u64, threads: usize) -> Option<Chunking> {
        let shares = threads as u64;
        let chunks = (extent / grain.max(1)).min(shares.saturating_mul(CHUNKS_PER_THREAD));
        (chunks > 1 && shares > 1).then_some(Chunking { extent, chunks, shares: shares.min(chunks) })
    }

    /// The number of threads that have a share.
    pub(crate) fn shares(&self) -> usize {
        self.shares as usize
    }

    /// The first chunk of a share. The share past the last one begins at the number of chunks.
    fn first_chunk(&self, share: u64) -> u64 {
        self.chunks / self.shares * share + share.min(self.chunks % self.shares)
    }

    /// The first iteration of a chunk. The chunk past the last one begins at the extent.
    fn first_iteration(&self, chunk: u64) -> u64 {
        self.extent / self.chunks * chunk + chunk.min(self.extent % self.chunks)
    }
}

/// The shared state of one run in chunks; reused for later runs.
#[derive(Debug)]
pub(crate) struct SplitRun {
    /// Per share, the next chunk to take.
    next_chunk: Box<[PaddedCounter]>,
    /// Number of workers that have a task of this run and have not finished it.
    workers: AtomicUsize,
    outcome: Mutex<Outcome>,
    all_left: Condvar,
}

/// A counter on cache lines of its own, so that threads that count in different shares do not contend.
#[derive(Debug, Default)]
#[repr(align(128))]
struct PaddedCounter(AtomicU64);

#[derive(Debug, Default)]
struct Outcome {
    /// The initiator sleeps on `all_left`.
    awaited: bool,
    /// The message of the first chunk that stopped or panicked.
    failure: Option<String>,
}

impl SplitRun {
    /// State for runs of up to `threads` shares.
    pub(crate) fn new(threads: usize) -> SplitRun {
        SplitRun {
            next_chunk: (0..threads).map(|_| PaddedCounter::default()).collect(),
            workers: AtomicUsize::new(0),
            outcome: Mutex::default(),
            all_left: Condvar::default(),
        }
    }

    /// Begins a run. Called by the initiator before it submits the first task: submitting publishes these
    /// writes.
    pub(crate) fn begin(&self, chunking: Chunking) {
        for (next, share) in self.next_chunk.iter().zip(0..chunking.shares) {
            next.0.store(chunking.first_chunk(share), Ordering::Relaxed);
        }
        self.workers.store(0, Ordering::Relaxed);
        *self.outcome.lock() = Outcome::default();
    }

    /// Counts a worker to which the initiator is about to submit a task.
    pub(crate) fn add_worker(&self) {
        self.workers.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a worker whose task was canceled from the count.
    pub(crate) fn remove_worker(&self) {
        self.workers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes and runs chunks until none is left, beginning with the chunks of `share`.
    pub(crate) fn execute(
        &self,
        chunking: Chunking,
        share: usize,
        run: impl Fn(u64, u64) -> Result<(), String>,
    ) {
        for step in 0..chunking.shares {
            let share = (share as u64 + step) % chunking.shares;
            let end = chunking.first_chunk(share + 1);
            loop {
                // Relaxed: each number is handed out once, and the initiator's earlier writes were published
                // when it submitted the task.
                let chunk = self.next_chunk[share as usize].0.fetch_add(1, Ordering::Relaxed);
                if chunk >= end {
                    break;
                }
                self.run_chunk(&run, chunking.first_iteration(chunk), chunking.first_iteration(chunk + 1));
            }
        }
    }

    fn run_chunk(&self, run: impl Fn(u64, u64) -> Result<(), String>, begin: u64, end: u64) {
        // AssertUnwindSafe: the queue's failure poisons whatever a panicking kernel wrote, so nobody reads
        // it.
        let result = catch_unwind(AssertUnwindSafe(|| run(begin, end)));
        // This happens before the lock is taken, because the payload's destructor is the user's code.
        if let Err(message) = result.unwrap_or_else(|panic| Err(panic_message(panic))) {
            self.outcome.lock().failure.get_or_insert(message);
        }
    }

    /// Removes a worker that has finished from the count. The worker touches nothing else of the run
    /// afterwards. (The state may serve another run before this returns. The initiator of that run is then
    /// woken without need, and checks again.)
    pub(crate) fn leave(&self) {
        // Release: pairs with the initiator's acquire, so that the initiator sees the worker's writes.
        if self.workers.fetch_sub(1, Ordering::AcqRel) == 1 && self.outcome.lock().awaited {
            self.all_left.notify_all();
        }
    }

    /// Waits until every worker that has begun has left.
    ///
    /// # Errors
    ///
    /// The message of the first chunk that stopped or panicked.
    pub(crate) fn finish(&self) -> Result<(), String> {
        let all_left = || self.workers.load(Ordering::Acquire) == 0;
        spin_politely(SPIN, all_left);
        let mut outcome = self.outcome.lock();
        while !all_left() {
            outcome.awaited = true;
            outcome = self.all_left.wait(outcome);
        }
        outcome.failure.take().map_or(Ok(()), Err)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    fn chunks(chunking: Chunking) -> Vec<(u64, u64)> {
        (0..chunking.chunks)
            .map(|chunk| (chunking.first_iteration(chunk), chunking.first_iteration(chunk + 1)))
            .collect()
    }

    #[test]
    fn chunks_are_equal_and_no_smaller_than_the_grain() {
        for (extent, grain, threads) in [
            (1000, 1, 2),
            (1000, 7, 2),
            (5, 2, 2),
            (64, 16, 3),
            (97, 96, 2),
            (512, 252, 2),
            (u64::MAX, u64::MAX / 3, 2),
        ] {
            let Some(chunking) = Chunking::new(extent, grain, threads) else {
                assert_eq!(extent / grain, 1);
                continue;
            };
            let chunks = chunks(chunking);
            assert_eq!((chunks[0].0, chunks[chunks.len() - 1].1), (0, extent));
            assert!(chunks.windows(2).all(|pair| pair[0].1 == pair[1].0));
            assert!(chunks.iter().all(|(begin, end)| end - begin >= grain));
            let sizes = chunks.iter().map(|(begin, end)| end - begin);
            assert!(
                sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1,
                "chunk sizes differ by at most one"
            );
        }
    }

    #[test]
    fn few_grains_make_few_chunks() {
        assert_eq!(Chunking::new(512, 512, 8), None, "one chunk needs no worker");
        assert_eq!(Chunking::new(512, 1, 1), None, "one thread needs no worker");
        assert_eq!(chunks(Chunking::new(512, 256, 8).unwrap()), [(0, 256), (256, 512)]);
        assert_eq!(Chunking::new(512, 256, 8).unwrap().shares(), 2);
        assert_eq!(chunks(Chunking::new(1 << 20, 1, 2).unwrap()).len(), 8);
    }

    #[test]
    fn shares_are_consecutive_chunks_and_one_thread_alone_runs_all_of_them() {
        let chunking = Chunking::new(100, 1, 3).unwrap();
        assert_eq!((0..=3).map(|share| chunking.first_chunk(share)).collect::<Vec<_>>(), [0, 4, 8, 12]);
        let run = SplitRun::new(3);
        for first in 0..3 {
            run.begin(chunking);
            let runs = Mutex::new(Vec::new());
            run.execute(chunking, first, |begin, end| {
                runs.lock().push((begin, end));
                Ok(())
            });
            let mut runs = std::mem::take(&mut *runs.lock());
            assert_eq!(runs[0], chunks(chunking)[4 * first], "a thread begins with its own share");
            runs.sort_unstable();
            assert_eq!(runs, chunks(chunking));
            run.finish().unwrap();
        }
    }
}
