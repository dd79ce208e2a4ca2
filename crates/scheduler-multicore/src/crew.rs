//! Splitting one kernel over the threads that happen to be idle.
//!
//! The thread that runs a kernel takes parts of it until none is left; helpers do the same if they arrive in time. Nobody
//! waits for a helper that has not begun: a late one finds no part and goes away. Invariant: running workers and helpers
//! together do not exceed the crew's threads, unless there are more running workers than that.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{
    lane::{current, enter},
    raw::Launch,
    sync::{
        Arc, Condvar, Mutex, OnceLock, Ordering,
        atomic::{AtomicU64, AtomicUsize},
        spin_times,
    },
    task::panic_message,
};

/// Parts per participating thread, so that unequal threads finish together.
const PARTS_PER_THREAD: u64 = 4;

/// How often the owner looks whether the last parts are done before it sleeps; they are about as long as its own last one.
const SPINS: usize = 2000;

/// The threads of a scheduler.
#[derive(Debug)]
pub(crate) struct Crew {
    threads: usize,
    /// Workers that run tasks, and helpers asked for.
    busy: Arc<AtomicUsize>,
    /// Started with the first split; none where the platform gives no threads.
    helpers: OnceLock<Option<ThreadPool>>,
}

/// One thread counted as busy, until dropped.
pub(crate) struct Busy(Arc<AtomicUsize>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Crew {
    pub(crate) fn new(threads: usize) -> Crew {
        Crew { threads, busy: Arc::default(), helpers: OnceLock::new() }
    }

    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    /// Counts the calling worker as busy until the guard is dropped.
    pub(crate) fn enter(&self) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(&self.busy))
    }

    /// Runs the whole of a kernel, split if that is allowed, worth it and possible now.
    pub(crate) fn run(&self, launch: &Launch) {
        let (extent, grain) = launch.extent_and_grain();
        let worth = if launch.is_splittable() { extent / grain.max(1) } else { 0 };
        let helpers: Vec<Busy> = (1..worth).map_while(|_| self.reserve()).collect();
        let Some(pool) = (!helpers.is_empty()).then(|| self.pool()).flatten() else {
            return launch.run(0, extent);
        };
        let parts = worth.min((helpers.len() as u64 + 1) * PARTS_PER_THREAD);
        let launch = launch.clone();
        let job = Arc::new(Job::new(move |begin, end| launch.run(begin, end), extent, parts));
        let lane = current();
        for busy in helpers {
            let job = Arc::clone(&job);
            pool.spawn(move || {
                let _busy = busy;
                enter(lane, || job.help());
            });
        }
        job.finish();
    }

    /// Counts one more thread as busy, if one is idle.
    fn reserve(&self) -> Option<Busy> {
        let idle = |busy: usize| (busy < self.threads).then_some(busy + 1);
        // Relaxed: the count limits how many run; what they do is ordered by the job.
        self.busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, idle).ok()?;
        Some(Busy(Arc::clone(&self.busy)))
    }

    fn pool(&self) -> Option<&ThreadPool> {
        let build = || {
            let name = |helper| format!("arrayjit-helper-{helper}");
            ThreadPoolBuilder::new().num_threads(self.threads - 1).thread_name(name).build().ok()
        };
        self.helpers.get_or_init(build).as_ref()
    }
}

/// A kernel being run in parts; `run` runs the iterations from one to before the other.
pub(crate) struct Job<F> {
    run: F,
    extent: u64,
    /// Iterations per part.
    chunk: u64,
    parts: u64,
    /// The next part nobody took.
    next: AtomicU64,
    /// Parts done.
    done: AtomicU64,
    outcome: Mutex<Outcome>,
    all_done: Condvar,
}

#[derive(Default)]
struct Outcome {
    /// The owner sleeps on `all_done`.
    awaited: bool,
    /// What a part's panic said.
    panic: Option<String>,
}

impl<F: Fn(u64, u64)> Job<F> {
    pub(crate) fn new(run: F, extent: u64, parts: u64) -> Job<F> {
        let chunk = extent.div_ceil(parts);
        Job {
            run,
            extent,
            chunk,
            parts: extent.div_ceil(chunk),
            next: AtomicU64::new(0),
            done: AtomicU64::new(0),
            outcome: Mutex::default(),
            all_done: Condvar::default(),
        }
    }

    /// Takes and runs parts until none is left.
    pub(crate) fn help(&self) {
        loop {
            // Relaxed: each number is given once, and the job's fields were published with the `Arc`.
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= self.parts {
                return;
            }
            let begin = part * self.chunk;
            self.run_part(begin, self.extent.min(begin + self.chunk));
        }
    }

    fn run_part(&self, begin: u64, end: u64) {
        let result = catch_unwind(AssertUnwindSafe(|| (self.run)(begin, end)));
        if let Err(panic) = result {
            self.outcome.lock().panic.get_or_insert_with(|| panic_message(&*panic));
        }
        // Release: pairs with the owner's acquire, so that it sees what the part wrote.
        if self.done.fetch_add(1, Ordering::AcqRel) + 1 == self.parts && self.outcome.lock().awaited {
            self.all_done.notify_all();
        }
    }

    /// Helps, then waits for the parts that others have begun.
    pub(crate) fn finish(&self) {
        self.help();
        let all_done = || self.done.load(Ordering::Acquire) == self.parts;
        spin_times(SPINS, all_done);
        let mut outcome = self.outcome.lock();
        while !all_done() {
            outcome.awaited = true;
            outcome = self.all_done.wait(outcome);
        }
        if let Some(message) = outcome.panic.take() {
            drop(outcome);
            resume_unwind(Box::new(message));
        }
    }
}
