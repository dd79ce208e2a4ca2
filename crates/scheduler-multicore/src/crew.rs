//! Splitting one kernel over the threads that happen to be idle.
//!
//! The thread that runs a kernel, its owner, takes parts of it until none is left; helpers do the same if they arrive in time.
//! Nobody waits for a helper that has not begun: the offer to it is taken back. Invariant: running workers and helpers
//! together do not exceed the crew's threads, unless there are more running workers than that.

use std::{num::NonZero, panic::resume_unwind, time::Duration};

use crate::{
    job::{Cut, Job},
    lane::{LaneId, current, enter, is_in_task},
    raw::Launch,
    seat::Seat,
    sync::{Arc, Mutex, OnceLock, Ordering, atomic::AtomicUsize, thread},
};

/// How long a helper without work stays awake, since kernels tend to follow one another. Waking one costs its owner more than
/// a small kernel takes, and the helper comes late.
const SPIN: Duration = Duration::from_micros(50);

/// What can be run in parts, by several threads at once.
pub(crate) trait Parted: Clone + Send + 'static {
    /// Runs the iterations from `begin` to before `end`.
    fn run_part(&self, begin: u64, end: u64);
}

impl Parted for Launch {
    fn run_part(&self, begin: u64, end: u64) {
        self.run(begin, end);
    }
}

/// The threads of a scheduler; `W` is what they run in parts.
#[derive(Debug)]
pub(crate) struct Crew<W: Parted = Launch> {
    threads: usize,
    spin: Duration,
    /// Workers that run tasks, and helpers asked for.
    busy: Arc<AtomicUsize>,
    /// Started with the first split; fewer where the platform gives no threads.
    helpers: OnceLock<Vec<Helper<W>>>,
    /// Jobs that nobody uses.
    jobs: Mutex<Vec<Arc<Job>>>,
}

#[derive(Debug)]
struct Helper<W> {
    seat: Arc<Seat<Offer<W>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

/// What a helper is asked to do.
#[derive(Debug)]
struct Offer<W> {
    work: W,
    job: Arc<Job>,
    cut: Cut,
    share: usize,
    /// The lane whose task the owner runs.
    lane: Option<LaneId>,
    busy: Busy,
}

/// One thread counted as busy, until dropped.
#[derive(Debug)]
pub(crate) struct Busy(Arc<AtomicUsize>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<W: Parted> Crew<W> {
    pub(crate) fn new(threads: usize) -> Crew<W> {
        // More threads than processors: one that spins keeps another from working.
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let spin = if threads <= processors { SPIN } else { Duration::ZERO };
        Crew { threads, spin, busy: Arc::default(), helpers: OnceLock::new(), jobs: Mutex::default() }
    }

    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    /// Starts the helpers: the model checker does not know the `OnceLock` that starts them, so threads that split at the same time
    /// have to find them started.
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn start_helpers(&self) {
        self.helpers();
    }

    /// Counts the calling worker as busy until the guard is dropped.
    pub(crate) fn enter(&self) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(&self.busy))
    }

    /// Runs `0..extent` of something, in parts if that is worth it and threads are idle. Goes on panicking where a part panicked.
    pub(crate) fn split(&self, work: &W, extent: u64, grain: u64) {
        let wanted = Cut::new(extent, grain, self.threads).map_or(0, |cut| cut.shares() - 1);
        let helpers = self.reserve(wanted);
        match Cut::new(extent, grain, helpers + 1) {
            Some(cut) => self.share(work, cut),
            None => work.run_part(0, extent),
        }
    }

    /// Runs the work with one helper per share but the first, all of which are counted as busy already.
    fn share(&self, work: &W, cut: Cut) {
        let job = self.jobs.lock().pop().unwrap_or_else(|| Arc::new(Job::new(self.threads)));
        job.begin(cut);
        let mut seats = self.helpers().iter().map(|helper| &*helper.seat);
        for share in 1..cut.shares() {
            let busy = Busy(Arc::clone(&self.busy));
            let Some(seat) = seats.find(|seat| seat.claim()) else { continue };
            job.ask();
            let (work, job) = (work.clone(), Arc::clone(&job));
            seat.offer(Offer { work, job, cut, share, lane: current(), busy });
        }
        job.work(cut, 0, |begin, end| work.run_part(begin, end));
        self.take_back(&job);
        let outcome = job.finish();
        self.jobs.lock().push(job);
        if let Err(message) = outcome {
            resume_unwind(Box::new(message));
        }
    }

    /// Takes back the offers that no helper has taken: no part is left for it.
    fn take_back(&self, job: &Arc<Job>) {
        for helper in self.helpers() {
            if helper.seat.take_back(|offer| Arc::ptr_eq(&offer.job, job)).is_some() {
                job.excuse();
            }
        }
    }

    /// Counts up to so many more threads as busy, as far as they are idle; tells how many.
    fn reserve(&self, wanted: usize) -> usize {
        let idle = |busy: usize| wanted.min(self.threads.saturating_sub(busy));
        let add = |busy: usize| Some(busy + idle(busy)).filter(|&sum| sum > busy);
        // Relaxed: the count limits how many run; what they do is ordered by the job.
        self.busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map_or(0, idle)
    }

    fn helpers(&self) -> &[Helper<W>] {
        self.helpers.get_or_init(|| (1..self.threads).map_while(|number| self.start(number)).collect())
    }

    fn start(&self, number: usize) -> Option<Helper<W>> {
        let seat: Arc<Seat<Offer<W>>> = Arc::new(Seat::new());
        let (own, busy, threads, spin) = (Arc::clone(&seat), Arc::clone(&self.busy), self.threads, self.spin);
        let is_crowded = move || busy.load(Ordering::Relaxed) >= threads;
        let work = move || {
            while let Some(offer) = own.take(spin, &is_crowded) {
                offer.accept(&own);
            }
        };
        let thread = thread::Builder::new().name(format!("arrayjit-helper-{number}")).spawn(work).ok()?;
        Some(Helper { seat, thread: Mutex::new(Some(thread)) })
    }
}

impl Crew {
    /// Runs the whole of a kernel, split if that is allowed, worth it and possible now.
    pub(crate) fn run(&self, launch: &Launch) {
        let (extent, grain) = launch.extent_and_grain();
        match launch.is_splittable() {
            true => self.split(launch, extent, grain),
            false => launch.run(0, extent),
        }
    }
}

impl<W: Parted> Offer<W> {
    /// Does what is asked for, on a helper's thread. The seat and the count of busy threads are given back before the owner goes
    /// on, so that its next kernel finds them; and the work before that, so that the owner's share of it is the last.
    fn accept(self, seat: &Seat<Offer<W>>) {
        let Offer { work, job, cut, share, lane, busy } = self;
        enter(lane, || job.work(cut, share, |begin, end| work.run_part(begin, end)));
        drop(work);
        drop(busy);
        seat.release();
        job.leave();
    }
}

/// Ends the helpers' threads.
impl<W: Parted> Drop for Crew<W> {
    fn drop(&mut self) {
        let helpers = self.helpers.take().unwrap_or_default();
        helpers.iter().for_each(|helper| helper.seat.close());
        for helper in helpers {
            let thread = helper.thread.lock().take();
            // Inside a task nobody waits: the thread then ends by itself. An error would be a panic of the helper's own code; kernels'
            // panics are caught.
            let _ = thread.filter(|_| !is_in_task()).map(thread::JoinHandle::join);
        }
    }
}
