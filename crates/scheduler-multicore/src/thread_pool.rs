//! Splits one kernel over the threads that are idle.
//!
//! The thread that runs a kernel, the initiator, executes chunks of its iterations until none is left;
//! workers do the same if they arrive in time. If a caller runs the task, the first of them is the worker of
//! the task's queue, which the producer has woken: a pool worker would be one thread more, which the system
//! might place on the initiator's processor. The others are pool workers. The initiator does not wait for a
//! worker that has not begun: it cancels that worker's share. Invariant: a worker gets a share only while
//! fewer threads are busy than the pool has. Workers with a share and threads that run tasks of queues count
//! as busy, except while they wait for something else.

use std::{iter, num::NonZero, time::Duration};

use crate::{
    bounded_queue::BoundedQueue,
    pending_tasks::TaskQueue,
    queue_state::{QueueId, current, enter, is_in_task},
    raw::KernelLaunch,
    split_run::{Chunking, SplitRun},
    sync::{Arc, Mutex, OnceLock, Ordering, atomic::AtomicUsize, thread},
    worker_slot::WorkerSlot,
};

/// How long a worker without a task spins before it sleeps, since kernels tend to follow one another. Waking
/// a worker costs the initiator more than a small kernel takes, and the worker arrives late.
const SPIN: Duration = Duration::from_micros(50);

/// Short kernels in a row that run on one thread while the workers sleep, before one of them wakes a worker:
/// as a rule more of them follow, and the worker stays awake for them.
const MAX_ALONE: usize = 3;

/// A range of iterations of which several threads may run chunks at the same time.
pub(crate) trait Splittable: Clone + Send + 'static {
    /// Runs the iterations `begin..end`. An error says why it stopped before their end.
    fn run_chunk(&self, begin: u64, end: u64) -> Result<(), String>;
}

impl Splittable for KernelLaunch {
    fn run_chunk(&self, begin: u64, end: u64) -> Result<(), String> {
        self.run(begin, end)
    }
}

/// The threads of a scheduler, over which loops of type `W` are split.
#[derive(Debug)]
pub(crate) struct ThreadPool<W: Splittable = KernelLaunch> {
    threads: usize,
    spin: Duration,
    /// Threads that run tasks of queues, plus workers that have a share.
    busy: Arc<AtomicUsize>,
    /// The workers, which are started by the first split. There are fewer than `threads - 1` if the platform
    /// cannot start as many.
    workers: OnceLock<Vec<PoolWorker<W>>>,
    /// Short kernels in a row that ran on one thread because the workers slept.
    alone: AtomicUsize,
    /// Free list of split runs.
    free_runs: Mutex<Vec<Arc<SplitRun>>>,
}

#[derive(Debug)]
struct PoolWorker<W: Splittable> {
    slot: Arc<WorkerSlot<ShareTask<W>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

/// One share of a split run, for a worker to execute.
#[derive(Debug)]
pub(crate) struct ShareTask<W: Splittable = KernelLaunch> {
    work: W,
    run: Arc<SplitRun>,
    chunking: Chunking,
    share: usize,
    /// The queue whose task the initiator runs.
    queue: Option<QueueId>,
    busy: BusyThread,
}

/// Counts the calling thread as busy until it is dropped.
#[derive(Debug)]
pub(crate) struct BusyCaller<'a>(&'a AtomicUsize);

impl Drop for BusyCaller<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts the calling thread, which is busy otherwise, as idle until it is dropped.
#[derive(Debug)]
pub(crate) struct WaitingCaller<'a>(&'a AtomicUsize);

impl Drop for WaitingCaller<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a worker with a share as busy until it is dropped.
#[derive(Debug)]
struct BusyThread(Arc<AtomicUsize>);

impl Drop for BusyThread {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<W: Splittable> ThreadPool<W> {
    pub(crate) fn new(threads: usize) -> ThreadPool<W> {
        // With more threads than processors, a thread that spins keeps another from working.
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let spin = if threads <= processors { SPIN } else { Duration::ZERO };
        ThreadPool {
            threads,
            spin,
            busy: Arc::default(),
            workers: OnceLock::new(),
            alone: AtomicUsize::default(),
            free_runs: Mutex::default(),
        }
    }

    /// How long a worker without work spins before it sleeps.
    pub(crate) fn spin(&self) -> Duration {
        self.spin
    }

    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    /// Starts the workers. The model checker does not model `OnceLock`, so a test whose threads split at the
    /// same time starts the workers beforehand.
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn start_workers(&self) {
        self.workers();
    }

    /// Counts the calling thread as busy until the guard is dropped.
    pub(crate) fn enter(&self) -> BusyCaller<'_> {
        self.busy.fetch_add(1, Ordering::Relaxed);
        BusyCaller(&self.busy)
    }

    /// Counts the calling thread, which has [entered](ThreadPool::enter), as idle until the guard is dropped:
    /// kernels of other queues may be split over one more thread while it waits.
    pub(crate) fn wait(&self) -> WaitingCaller<'_> {
        self.busy.fetch_sub(1, Ordering::Relaxed);
        WaitingCaller(&self.busy)
    }

    /// Runs the iterations `0..extent`, in chunks of at least `grain` if that is worth it and threads are
    /// idle. `queue` is that whose task this is.
    ///
    /// # Errors
    ///
    /// The message of the first chunk that stopped or panicked.
    pub(crate) fn split<T>(
        &self,
        work: &W,
        extent: u64,
        grain: u64,
        queue: Option<&BoundedQueue<T, ShareTask<W>>>,
    ) -> Result<(), String> {
        let wanted = Chunking::new(extent, grain, self.threads).map_or(0, |chunking| chunking.shares() - 1);
        let workers = self.reserve(wanted);
        match Chunking::new(extent, grain, workers + 1) {
            Some(chunking) => self.run_shares(work, chunking, queue),
            None => work.run_chunk(0, extent),
        }
    }

    /// Runs the first share on this thread and gives each other share to a worker. The caller has already
    /// counted the workers as busy.
    fn run_shares<T>(
        &self,
        work: &W,
        chunking: Chunking,
        mut queue: Option<&BoundedQueue<T, ShareTask<W>>>,
    ) -> Result<(), String> {
        let run = self.free_runs.lock().pop().unwrap_or_else(|| Arc::new(SplitRun::new(self.threads)));
        run.begin(chunking);
        let offered = queue;
        // Pool workers start only when one is needed.
        let mut slots = iter::once_with(|| self.workers()).flatten().map(|worker| &*worker.slot);
        for share in 1..chunking.shares() {
            let busy = BusyThread(Arc::clone(&self.busy));
            let (work, shared) = (work.clone(), Arc::clone(&run));
            let task = ShareTask { work, run: shared, chunking, share, queue: current(), busy };
            run.add_worker();
            let left = match queue.take() {
                Some(queue) => queue.offer(task).err(),
                None => Some(task),
            };
            let Some(task) = left else { continue };
            match slots.find(|slot| slot.claim()) {
                Some(slot) => slot.submit(task),
                None => run.remove_worker(),
            }
        }
        run.execute(chunking, 0, |begin, end| work.run_chunk(begin, end));
        self.cancel_tasks(&run, offered);
        let outcome = run.finish();
        self.free_runs.lock().push(run);
        outcome
    }

    /// Cancels the run's tasks that no worker has begun: no chunk is left for them.
    fn cancel_tasks<T>(&self, run: &Arc<SplitRun>, queue: Option<&BoundedQueue<T, ShareTask<W>>>) {
        let is_own = |task: &ShareTask<W>| Arc::ptr_eq(&task.run, run);
        let slots = self.workers.get().into_iter().flatten().map(|worker| &worker.slot);
        let canceled = slots.filter_map(|slot| slot.cancel(is_own));
        for _ in queue.and_then(|queue| queue.withdraw(is_own)).into_iter().chain(canceled) {
            run.remove_worker();
        }
    }

    /// Counts up to `wanted` idle threads as busy; returns their number.
    fn reserve(&self, wanted: usize) -> usize {
        let idle = |busy: usize| wanted.min(self.threads.saturating_sub(busy));
        let add = |busy: usize| Some(busy + idle(busy)).filter(|&sum| sum > busy);
        // Relaxed: the count limits how many threads run; their accesses are ordered by the split run.
        self.busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map_or(0, idle)
    }

    /// Whether to split a loop that takes long or not: a worker is awake, or the loop is worth waking one.
    fn is_worth_splitting<T>(&self, is_short: bool, queue: Option<&BoundedQueue<T, ShareTask<W>>>) -> bool {
        let is_awake = || {
            let mut slots = self.workers.get().into_iter().flatten().map(|worker| &worker.slot);
            queue.is_some_and(BoundedQueue::has_idle_worker) || slots.any(|slot| slot.is_awake())
        };
        // Relaxed: the count only affects speed.
        if is_short && !is_awake() && self.alone.fetch_add(1, Ordering::Relaxed) < MAX_ALONE {
            return false;
        }
        // As a rule it is 0 already, and streams that run at once would contend for its cache line.
        if self.alone.load(Ordering::Relaxed) > 0 {
            self.alone.store(0, Ordering::Relaxed);
        }
        true
    }

    fn workers(&self) -> &[PoolWorker<W>] {
        self.workers.get_or_init(|| (1..self.threads).map_while(|number| self.start(number)).collect())
    }

    fn start(&self, number: usize) -> Option<PoolWorker<W>> {
        let slot: Arc<WorkerSlot<ShareTask<W>>> = Arc::new(WorkerSlot::new());
        let (own, busy, threads, spin) = (Arc::clone(&slot), Arc::clone(&self.busy), self.threads, self.spin);
        let is_crowded = move || busy.load(Ordering::Relaxed) >= threads;
        let work = move || {
            own.enter();
            while let Some(task) = own.take(spin, &is_crowded) {
                task.execute(|| own.release());
            }
        };
        let thread = thread::Builder::new().name(format!("arrayjit-worker-{number}")).spawn(work).ok()?;
        Some(PoolWorker { slot, thread: Mutex::new(Some(thread)) })
    }
}

impl ThreadPool {
    /// Runs a whole kernel, a task of `queue`. Splits it if that is allowed, pays off, and some threads are
    /// idle.
    ///
    /// # Errors
    ///
    /// The reason why the kernel stopped.
    pub(crate) fn run(&self, launch: &KernelLaunch, queue: Option<&TaskQueue>) -> Result<(), String> {
        let (extent, grain) = launch.extent_and_grain(self.threads);
        let may_split = launch.is_splittable() && Chunking::new(extent, grain, self.threads).is_some();
        match may_split && self.is_worth_splitting(launch.is_short(), queue) {
            true => self.split(launch, extent, grain, queue),
            false => launch.run(0, extent),
        }
    }
}

impl<W: Splittable> ShareTask<W> {
    /// Executes the share on the worker's thread. Drops the kernel first, so that the initiator drops the
    /// last reference to it; then releases the busy count and the worker before the initiator may continue,
    /// so that its next kernel finds this worker idle.
    pub(crate) fn execute(self, release: impl FnOnce()) {
        let ShareTask { work, run, chunking, share, queue, busy } = self;
        enter(queue, || run.execute(chunking, share, |begin, end| work.run_chunk(begin, end)));
        drop(work);
        drop(busy);
        release();
        run.leave();
    }
}

/// Ends the workers' threads.
impl<W: Splittable> Drop for ThreadPool<W> {
    fn drop(&mut self) {
        let workers = self.workers.take().unwrap_or_default();
        workers.iter().for_each(|worker| worker.slot.close());
        for worker in workers {
            let thread = worker.thread.lock().take();
            // A thread that runs a task must not wait: the worker then ends by itself. A join error would be
            // a panic of the worker's own code; kernels' panics are caught.
            let _ = thread.filter(|_| !is_in_task()).map(thread::JoinHandle::join);
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::bounded_queue::PushMode;

    #[test]
    fn a_thread_that_waits_leaves_its_place_to_a_worker() {
        let pool: ThreadPool = ThreadPool::new(2);
        let (_busy, _other) = (pool.enter(), pool.enter());
        assert_eq!(pool.reserve(1), 0);
        let waiting = pool.wait();
        assert_eq!(pool.reserve(1), 1);
        drop(waiting);
        assert_eq!(pool.busy.load(Ordering::Relaxed), 3);
    }

    /// A loop that does nothing.
    #[derive(Clone)]
    struct Nothing;

    impl Splittable for Nothing {
        fn run_chunk(&self, _: u64, _: u64) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn a_caller_is_helped_by_the_worker_of_its_queue_and_others_by_pool_workers() {
        let (pool, queue) = (ThreadPool::new(2), BoundedQueue::<(), _>::new(1, Duration::ZERO));
        let role = queue.try_run(PushMode::RunIfNext).unwrap();
        pool.split(&Nothing, 2, 1, Some(&queue)).unwrap();
        assert!(pool.workers.get().is_none(), "the share was offered to the queue's worker");
        drop(role);
        pool.split(&Nothing, 2, 1, Some(&queue)).unwrap();
        assert!(pool.workers.get().is_some());
    }

    #[test]
    fn short_loops_wake_a_worker_only_if_several_follow() {
        let pool: ThreadPool<Nothing> = ThreadPool::new(2);
        let worth = |is_short| pool.is_worth_splitting::<()>(is_short, None);
        assert!(worth(false), "a long loop starts the workers");
        let first: Vec<bool> = (0..MAX_ALONE + 1).map(|_| worth(true)).collect();
        assert_eq!(first, [false, false, false, true]);
        pool.split::<()>(&Nothing, 2, 1, None).unwrap();
        let slot = &pool.workers()[0].slot;
        while slot.is_awake() {
            std::thread::yield_now();
        }
        assert!(!worth(true), "the worker sleeps again");
        assert!(worth(false));
    }
}
