//! A bounded queue of tasks with many producers and one consumer at a time: the queue's worker, or a caller
//! that runs tasks itself. While a caller is the consumer, the worker takes a share of the caller's kernels.
//!
//! Invariants:
//!
//! * Tasks leave in the order in which they entered.
//! * A thread runs tasks only while it is the consumer, and at most one thread is the consumer at a time.
//! * At most `capacity` tasks wait in the queue. The worker takes several tasks at once, so it may hold up to
//!   `capacity` further tasks.
//! * The worker has a share of a kernel only while a caller is the consumer, and at most one.
//! * One lock protects all flags that decide which thread is the consumer, or whether a thread is woken.

use std::{collections::VecDeque, mem, time::Duration};

use crate::{
    placement::Placement,
    sync::{Condvar, Mutex, MutexGuard, Ordering, atomic::AtomicBool, spin_for, spin_politely},
};

/// How many quick tasks in a row producers run themselves while the worker sleeps and nobody waits for an
/// event. A producer that never waits wants to run ahead of its tasks, and waking the worker for it pays off.
const MAX_INLINE_TASKS: u32 = 32;

/// How long the worker leaves new tasks to a caller if callers have waited for the tasks before. A caller
/// that runs them has them in its cache, and the worker is free for a share of their kernels.
const LEAVE_TO_CALLER: Duration = Duration::from_micros(10);

/// A bounded queue of tasks of type `T`, whose worker also executes shares of type `S`.
#[derive(Debug)]
pub(crate) struct BoundedQueue<T, S = ()> {
    capacity: usize,
    spin: Duration,
    inner: Mutex<QueueInner<T, S>>,
    /// A hint for the spinning worker: it may take tasks or a share. The truth is under the lock.
    has_work: AtomicBool,
    /// A hint: a thread has waited for an event of the queue, and the queue has not noticed it yet.
    awaited: AtomicBool,
    /// The worker has a share, which it was offered or executes.
    has_share: AtomicBool,
    /// Where the worker runs.
    placement: Placement,
    /// The parked worker waits here.
    work: Condvar,
    /// Producers at a full queue wait here.
    room: Condvar,
}

#[derive(Debug)]
struct QueueInner<T, S> {
    tasks: VecDeque<T>,
    /// A share of the consumer's kernel, offered to the worker.
    share: Option<S>,
    consumer: Consumer,
    /// The worker sleeps on `work`.
    parked: bool,
    /// Producers sleep on `room`.
    blocked: bool,
    /// No more tasks will come.
    closed: bool,
    /// Since the worker last took tasks, a thread waited for an event.
    callers_wait: bool,
    /// Quick tasks that producers ran since the worker last ran or a thread last waited for an event.
    inline_tasks: u32,
}

impl<T, S> QueueInner<T, S> {
    /// Whether tasks wait that the worker or a caller may take.
    fn is_ready(&self) -> bool {
        self.consumer == Consumer::Nobody && !self.tasks.is_empty()
    }
}

/// Work that [`BoundedQueue::take`] gives the worker.
#[derive(Debug)]
pub(crate) enum Taken<S> {
    /// It is the consumer, and runs the tasks of its batch.
    Tasks,
    /// It executes a share of the consumer's kernel, and then calls [`BoundedQueue::release_worker`].
    Share(S),
}

/// The thread that may run tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consumer {
    Nobody,
    Worker,
    /// A producer, or a thread that waits for an event.
    Caller,
}

/// Why a queue rejected a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PushError {
    /// The queue is full and the producer must not wait.
    Full,
    /// The queue is closed.
    Closed,
}

/// The means by which a producer may get its task executed. Each mode includes the modes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PushMode {
    /// Enqueue the task, without waiting for room.
    NonBlocking,
    /// Wait for room.
    Blocking,
    /// Run the task, if it is the next one and the worker would have to be woken for it, or would leave it
    /// to a waiter.
    RunIfWorkerSleeps,
    /// Run the task, if it is the next one.
    RunIfNext,
}

/// The outcome of a push.
#[derive(Debug)]
pub(crate) enum Pushed<'a, T, S = ()> {
    /// The task is in the queue.
    Queued,
    /// The producer is the consumer now, and must run the task.
    RunNow(T, ConsumerRole<'a, T, S>),
}

impl<T, S> BoundedQueue<T, S> {
    /// An empty queue for `capacity` tasks, at least one. A worker without tasks spins for `spin` before it
    /// sleeps.
    pub(crate) fn new(capacity: usize, spin: Duration) -> BoundedQueue<T, S> {
        let inner = QueueInner {
            tasks: VecDeque::new(),
            share: None,
            consumer: Consumer::Nobody,
            parked: false,
            blocked: false,
            closed: false,
            callers_wait: false,
            inline_tasks: 0,
        };
        BoundedQueue {
            capacity: capacity.max(1),
            spin,
            inner: Mutex::new(inner),
            has_work: AtomicBool::new(false),
            awaited: AtomicBool::new(false),
            has_share: AtomicBool::new(false),
            placement: Placement::default(),
            work: Condvar::default(),
            room: Condvar::default(),
        }
    }

    /// Appends a task, or returns it together with the consumer's role. If the queue is full, waits for room
    /// or fails, depending on `mode`.
    pub(crate) fn push(&self, task: T, mode: PushMode) -> Result<Pushed<'_, T, S>, PushError> {
        let mut inner = self.inner.lock();
        while inner.tasks.len() >= self.capacity && !inner.closed {
            if mode == PushMode::NonBlocking {
                return Err(PushError::Full);
            }
            inner.blocked = true;
            inner = self.room.wait(inner);
        }
        if inner.closed {
            return Err(PushError::Closed);
        }
        if self.runs_inline(&mut inner, mode) {
            return Ok(Pushed::RunNow(task, self.make_consumer(&mut inner)));
        }
        inner.tasks.push_back(task);
        self.wake_worker(inner);
        Ok(Pushed::Queued)
    }

    /// Makes the producer of a task the consumer, if `mode` lets it run the task. Otherwise the task must be
    /// pushed.
    pub(crate) fn try_run(&self, mode: PushMode) -> Option<ConsumerRole<'_, T, S>> {
        let mut inner = self.inner.lock();
        let runs = !inner.closed && self.runs_inline(&mut inner, mode);
        runs.then(|| self.make_consumer(&mut inner))
    }

    fn make_consumer(&self, inner: &mut QueueInner<T, S>) -> ConsumerRole<'_, T, S> {
        inner.consumer = Consumer::Caller;
        self.has_work.store(false, Ordering::Relaxed);
        ConsumerRole(self)
    }

    /// Whether the producer runs the task that it is about to push.
    fn runs_inline(&self, inner: &mut QueueInner<T, S>, mode: PushMode) -> bool {
        if inner.consumer != Consumer::Nobody || !inner.tasks.is_empty() {
            return false;
        }
        match mode {
            PushMode::NonBlocking | PushMode::Blocking => false,
            PushMode::RunIfNext => true,
            PushMode::RunIfWorkerSleeps => {
                self.notice_waiters(inner);
                inner.inline_tasks += 1;
                (inner.parked || inner.callers_wait) && inner.inline_tasks <= MAX_INLINE_TASKS
            }
        }
    }

    /// Takes note of threads that have waited for an event.
    fn notice_waiters(&self, inner: &mut QueueInner<T, S>) {
        if self.awaited.load(Ordering::Relaxed) {
            self.awaited.store(false, Ordering::Relaxed);
            inner.callers_wait = true;
            inner.inline_tasks = 0;
        }
    }

    /// Tells the worker if it has something to do, and wakes it if it sleeps.
    fn wake_worker(&self, mut inner: MutexGuard<'_, QueueInner<T, S>>) {
        if inner.is_ready() || inner.share.is_some() {
            self.has_work.store(true, Ordering::Relaxed);
        }
        let is_over = inner.consumer == Consumer::Nobody && inner.closed;
        let has_share = inner.share.is_some();
        let wake = (inner.is_ready() || has_share || is_over) && mem::take(&mut inner.parked);
        drop(inner);
        if has_share {
            self.placement.avoid_caller();
        }
        if wake {
            self.work.notify_one();
        }
    }

    /// The worker calls this once, before anything else.
    pub(crate) fn enter_worker(&self) {
        self.placement.enter();
    }

    /// The worker calls this after it has run its previous batch or share. Waits for something to do: for
    /// tasks, which it moves into the empty `batch` while it becomes the consumer, or for a share. `None`
    /// once the queue is closed and empty and no caller runs tasks.
    pub(crate) fn take(&self, batch: &mut VecDeque<T>) -> Option<Taken<S>> {
        let mut inner = self.inner.lock();
        if inner.consumer == Consumer::Worker {
            inner.consumer = Consumer::Nobody;
        }
        let (mut left, mut spun) = (false, false);
        loop {
            if let Some(share) = inner.share.take() {
                self.has_work.store(false, Ordering::Relaxed);
                return Some(Taken::Share(share));
            }
            if inner.is_ready() {
                self.notice_waiters(&mut inner);
                if left || !inner.callers_wait {
                    self.hand_over(inner, batch);
                    return Some(Taken::Tasks);
                }
                drop(inner);
                spin_for(LEAVE_TO_CALLER, || !self.has_work.load(Ordering::Relaxed));
                inner = self.inner.lock();
                left = true;
                continue;
            }
            if inner.consumer == Consumer::Nobody && inner.closed {
                return None;
            }
            left = false;
            if mem::replace(&mut spun, true) {
                inner = self.park(inner);
                spun = false;
            } else {
                drop(inner);
                // Relaxed, because this is a hint: the queue is checked under the lock next.
                spin_politely(self.spin, || self.has_work.load(Ordering::Relaxed));
                inner = self.inner.lock();
            }
        }
    }

    fn park<'a>(&'a self, mut inner: MutexGuard<'a, QueueInner<T, S>>) -> MutexGuard<'a, QueueInner<T, S>> {
        inner.parked = true;
        while inner.parked {
            inner = self.work.wait(inner);
        }
        inner
    }

    fn hand_over(&self, mut inner: MutexGuard<'_, QueueInner<T, S>>, batch: &mut VecDeque<T>) {
        inner.consumer = Consumer::Worker;
        inner.callers_wait = false;
        inner.inline_tasks = 0;
        mem::swap(&mut inner.tasks, batch);
        self.has_work.store(false, Ordering::Relaxed);
        self.wake_producers(inner);
        self.placement.avoid_nobody();
    }

    fn wake_producers(&self, mut inner: MutexGuard<'_, QueueInner<T, S>>) {
        let blocked = mem::take(&mut inner.blocked);
        drop(inner);
        if blocked {
            self.room.notify_all();
        }
    }

    /// Makes the caller, a thread that waits for an event, the consumer, if tasks wait and nobody is the
    /// consumer.
    pub(crate) fn try_consume(&self) -> Option<ConsumerRole<'_, T, S>> {
        let mut inner = self.inner.lock();
        inner.is_ready().then(|| self.make_consumer(&mut inner))
    }

    /// Notes that a thread waits for an event of the queue.
    pub(crate) fn note_waiter(&self) {
        self.awaited.store(true, Ordering::Relaxed);
    }

    /// Tells whether the worker has nothing to do and is awake, so that it soon takes what it is offered.
    pub(crate) fn has_idle_worker(&self) -> bool {
        let inner = self.inner.lock();
        !inner.parked && inner.consumer != Consumer::Worker && !self.has_share.load(Ordering::Relaxed)
    }

    /// Offers the worker a share of a kernel, and wakes it if it sleeps. Gives the share back unless a caller
    /// is the consumer and the worker has no share.
    pub(crate) fn offer(&self, share: S) -> Result<(), S> {
        let mut inner = self.inner.lock();
        // Acquire: pairs with `release_worker`, so that this share follows the worker's last one.
        if inner.consumer != Consumer::Caller || inner.closed || self.has_share.load(Ordering::Acquire) {
            return Err(share);
        }
        self.has_share.store(true, Ordering::Relaxed);
        inner.share = Some(share);
        self.wake_worker(inner);
        Ok(())
    }

    /// Removes a share that satisfies `is_own` and that the worker has not begun.
    pub(crate) fn withdraw(&self, is_own: impl FnOnce(&S) -> bool) -> Option<S> {
        // Relaxed: the caller sees its own store at least.
        if !self.has_share.load(Ordering::Relaxed) {
            return None;
        }
        let mut inner = self.inner.lock();
        let share = inner.share.take_if(|share| is_own(share))?;
        self.has_work.store(false, Ordering::Relaxed);
        self.has_share.store(false, Ordering::Relaxed);
        Some(share)
    }

    /// Lets the worker be offered another share: called by the worker when it has executed one.
    pub(crate) fn release_worker(&self) {
        self.has_share.store(false, Ordering::Release);
    }

    /// Whether no task waits and none runs.
    pub(crate) fn is_idle(&self) -> bool {
        let inner = self.inner.lock();
        inner.consumer == Consumer::Nobody && inner.tasks.is_empty()
    }

    /// The number of tasks in the queue, without the batch that the worker took.
    pub(crate) fn depth(&self) -> usize {
        self.inner.lock().tasks.len()
    }

    /// Lets the worker end once it has run everything. Producers that wait for room wake up when the tasks
    /// that fill the queue are taken, and are rejected.
    pub(crate) fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        self.wake_worker(inner);
    }
}

/// The consumer's role, held by a thread other than the worker. Dropping it gives the role up and wakes the
/// worker if that has something to do.
#[derive(Debug)]
pub(crate) struct ConsumerRole<'a, T, S = ()>(&'a BoundedQueue<T, S>);

impl<T, S> ConsumerRole<'_, T, S> {
    /// Takes the next task, if one waits.
    pub(crate) fn next(&self) -> Option<T> {
        let mut inner = self.0.inner.lock();
        let task = inner.tasks.pop_front()?;
        self.0.wake_producers(inner);
        Some(task)
    }
}

impl<T, S> Drop for ConsumerRole<'_, T, S> {
    fn drop(&mut self) {
        let mut inner = self.0.inner.lock();
        inner.consumer = Consumer::Nobody;
        self.0.wake_worker(inner);
    }
}
