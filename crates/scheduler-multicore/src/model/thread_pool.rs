//! Split kernels: the initiator, workers that arrive early, late or never, and the reuse of slots and runs.

use std::{collections::VecDeque, time::Duration};

use loom::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

use super::explore;
use crate::{
    bounded_queue::{BoundedQueue, PushMode, Taken},
    sync::Arc,
    thread_pool::{ShareTask, Splittable, ThreadPool},
};

type CountedQueue = BoundedQueue<(), ShareTask<Counted>>;

/// A kernel in chunks of one iteration that counts the runs of each iteration.
#[derive(Clone)]
struct Counted(Arc<Vec<AtomicUsize>>);

impl Counted {
    fn new(extent: usize) -> Counted {
        Counted(Arc::new((0..extent).map(|_| AtomicUsize::new(0)).collect()))
    }

    /// Splits one run of the kernel; each iteration has already run `before` times.
    fn split(&self, pool: &ThreadPool<Counted>, before: usize) {
        self.split_as_task(pool, before, None);
    }

    /// The same as a task of a queue.
    fn split_as_task(&self, pool: &ThreadPool<Counted>, before: usize, queue: Option<&CountedQueue>) {
        let _busy = pool.enter();
        pool.split(self, self.0.len() as u64, 1, queue).unwrap();
        let done = self.0.iter().all(|runs| runs.load(Relaxed) == before + 1);
        assert!(done, "the initiator sees that every chunk ran once");
    }
}

impl Splittable for Counted {
    /// The load and the store are separate, so that a chunk that runs twice at the same time is noticed.
    fn run_chunk(&self, begin: u64, end: u64) -> Result<(), String> {
        for at in begin..end {
            let runs = &self.0[at as usize];
            runs.store(runs.load(Relaxed) + 1, Relaxed);
        }
        Ok(())
    }
}

#[test]
fn the_initiator_sees_what_a_worker_did() {
    explore(3, || {
        let pool = ThreadPool::new(2);
        Counted::new(3).split(&pool, 0);
        assert_eq!(pool.busy(), 0, "tasks and guards are dropped");
    });
}

#[test]
fn two_workers_and_the_initiator_share_the_chunks() {
    explore(2, || Counted::new(3).split(&ThreadPool::new(3), 0));
}

/// The second run reuses the worker, its slot and the split run. It sees the writes of the first run,
/// whichever threads made them.
#[test]
fn kernels_follow_one_another() {
    explore(2, || {
        let (pool, kernel) = (ThreadPool::new(2), Counted::new(2));
        kernel.split(&pool, 0);
        kernel.split(&pool, 1);
    });
}

/// A caller runs two kernels while the worker of its queue sleeps, arrives early, or arrives late.
#[test]
fn the_worker_of_the_queue_takes_a_share() {
    explore(2, || {
        let queue: Arc<CountedQueue> = Arc::new(BoundedQueue::new(1, Duration::ZERO));
        let worker = Arc::clone(&queue);
        let thread = thread::spawn(move || {
            while let Some(Taken::Share(share)) = worker.take(&mut VecDeque::new()) {
                share.execute(|| worker.release_worker());
            }
        });
        let (pool, kernel) = (ThreadPool::new(2), Counted::new(2));
        let role = queue.try_run(PushMode::RunIfNext).unwrap();
        kernel.split_as_task(&pool, 0, Some(&queue));
        kernel.split_as_task(&pool, 1, Some(&queue));
        drop(role);
        queue.close();
        thread.join().unwrap();
        assert_eq!(pool.busy(), 0, "shares are dropped");
    });
}

/// The initiators are not counted as busy, so that both may claim the only worker.
#[test]
fn two_initiators_at_a_time_have_runs_of_their_own() {
    explore(1, || {
        let pool = Arc::new(ThreadPool::new(2));
        pool.start_workers();
        let split = |pool: &ThreadPool<Counted>| {
            let kernel = Counted::new(2);
            pool.split::<()>(&kernel, 2, 1, None).unwrap();
            assert!(
                kernel.0.iter().all(|runs| runs.load(Relaxed) == 1),
                "the initiator sees that every chunk ran once"
            );
        };
        let other = Arc::clone(&pool);
        let thread = thread::spawn(move || split(&other));
        split(&pool);
        thread.join().unwrap();
        assert_eq!(pool.busy(), 0);
    });
}

/// Checks how many threads run chunks at the same time.
#[derive(Clone)]
struct Crowd {
    running: Arc<AtomicUsize>,
    limit: usize,
}

impl Splittable for Crowd {
    fn run_chunk(&self, _: u64, _: u64) -> Result<(), String> {
        assert!(self.running.fetch_add(1, Relaxed) < self.limit, "more threads run than there are");
        self.running.fetch_sub(1, Relaxed);
        Ok(())
    }
}

#[test]
fn no_worker_starts_while_as_many_threads_are_busy_as_there_are() {
    explore(2, || {
        let pool = Arc::new(ThreadPool::new(2));
        let crowd = Crowd { running: Arc::new(AtomicUsize::new(0)), limit: 2 };
        let both = [pool.enter(), pool.enter()];
        let (other, work) = (Arc::clone(&pool), crowd.clone());
        let thread = thread::spawn(move || other.split::<()>(&work, 2, 1, None));
        pool.split::<()>(&crowd, 2, 1, None).unwrap();
        thread.join().unwrap().unwrap();
        drop(both);
        assert_eq!(pool.busy(), 0);
    });
}

/// A kernel whose second chunk panics or stops.
#[derive(Clone)]
enum Unlucky {
    Panics,
    Stops,
}

impl Splittable for Unlucky {
    fn run_chunk(&self, begin: u64, _: u64) -> Result<(), String> {
        match self {
            Unlucky::Panics if begin == 1 => std::panic::resume_unwind(Box::new("no luck")),
            Unlucky::Stops if begin == 1 => Err("no luck".to_owned()),
            _ => Ok(()),
        }
    }
}

#[test]
fn a_failure_of_a_chunk_is_the_initiators() {
    for kernel in [Unlucky::Panics, Unlucky::Stops] {
        explore(3, move || {
            let pool = ThreadPool::new(2);
            let _busy = pool.enter();
            assert_eq!(pool.split::<()>(&kernel, 2, 1, None).unwrap_err(), "no luck");
        });
    }
}
