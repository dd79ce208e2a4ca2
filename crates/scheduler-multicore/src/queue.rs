//! The bounded hand-over of tasks from many producers to one consumer at a time: the lane's worker, or a thread that helps.
//!
//! Invariants: tasks leave in the order they entered; whoever runs tasks has the consumer's role, which one has at a time;
//! at most `capacity` wait here (the worker may hold as many again, which it took at once); every flag that decides about a
//! role or a wake-up is read and written under the one lock.

use std::{collections::VecDeque, mem, time::Duration};

use crate::sync::{Condvar, Mutex, MutexGuard, Ordering, atomic::AtomicBool, spin_for};

/// How many quick tasks in a row run on producers' threads while the worker sleeps, unless a producer waits for them: one
/// who never waits wants to run ahead, for which waking the worker pays.
const UNAWAITED: u32 = 32;

/// A queue of a lane's tasks.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    capacity: usize,
    spin: Duration,
    inner: Mutex<Inner<T>>,
    /// A hint for the spinning worker; the truth is under the lock.
    has_work: AtomicBool,
    /// A hint: since the worker last ran, somebody waited for an event of the lane.
    awaited: AtomicBool,
    work: Condvar,
    room: Condvar,
}

#[derive(Debug)]
struct Inner<T> {
    tasks: VecDeque<T>,
    /// Who runs tasks.
    consumer: Consumer,
    /// The worker sleeps on `work`.
    parked: bool,
    /// Producers sleep on `room`.
    blocked: bool,
    /// No more tasks will come.
    closed: bool,
    /// Quick tasks that ran on producers' threads since the worker last ran or somebody waited.
    unawaited: u32,
}

/// Who has the role of running tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consumer {
    Nobody,
    Worker,
    Helper,
}

/// Why a task was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The queue is full and the caller did not want to wait.
    Full,
    /// The queue is closed.
    Closed,
}

/// What the producer of a task is ready to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Nothing: not even to wait for room.
    Leave,
    /// Wait for room.
    Wait,
    /// Also run the task, if that saves waking the worker.
    RunInsteadOfWaking,
    /// Also run the task, if it is the next one.
    RunIfNext,
}

/// What became of a task.
#[derive(Debug)]
pub(crate) enum Pushed<'a, T> {
    /// It waits its turn.
    Queued,
    /// It is the producer's to run, now.
    Yours(T, Turn<'a, T>),
}

impl<T> Queue<T> {
    pub(crate) fn new(capacity: usize, spin: Duration) -> Queue<T> {
        let inner = Inner {
            tasks: VecDeque::new(),
            consumer: Consumer::Nobody,
            parked: false,
            blocked: false,
            closed: false,
            unawaited: 0,
        };
        Queue {
            capacity: capacity.max(1),
            spin,
            inner: Mutex::new(inner),
            has_work: AtomicBool::new(false),
            awaited: AtomicBool::new(false),
            work: Condvar::default(),
            room: Condvar::default(),
        }
    }

    /// Appends a task, or gives it back with the consumer's role; where there is no room, waits for it or refuses.
    pub(crate) fn push(&self, task: T, offer: Offer) -> Result<Pushed<'_, T>, Refused> {
        let mut inner = self.inner.lock();
        while inner.tasks.len() >= self.capacity && !inner.closed {
            if offer == Offer::Leave {
                return Err(Refused::Full);
            }
            inner.blocked = true;
            inner = self.room.wait(inner);
        }
        if inner.closed {
            return Err(Refused::Closed);
        }
        if self.is_yours(&mut inner, offer) {
            inner.consumer = Consumer::Helper;
            return Ok(Pushed::Yours(task, Turn(self)));
        }
        inner.tasks.push_back(task);
        self.has_work.store(true, Ordering::Relaxed);
        self.wake_worker(inner);
        Ok(Pushed::Queued)
    }

    /// Whether the producer runs the task that it is about to push.
    fn is_yours(&self, inner: &mut Inner<T>, offer: Offer) -> bool {
        if inner.consumer != Consumer::Nobody || !inner.tasks.is_empty() {
            return false;
        }
        match offer {
            Offer::Leave | Offer::Wait => false,
            Offer::RunIfNext => true,
            Offer::RunInsteadOfWaking => {
                if self.awaited.load(Ordering::Relaxed) {
                    self.awaited.store(false, Ordering::Relaxed);
                    inner.unawaited = 0;
                }
                inner.unawaited += 1;
                inner.parked && inner.unawaited <= UNAWAITED
            }
        }
    }

    /// Wakes the worker if it sleeps and has something to do.
    fn wake_worker(&self, mut inner: MutexGuard<'_, Inner<T>>) {
        let needed = inner.consumer == Consumer::Nobody && (!inner.tasks.is_empty() || inner.closed);
        let wake = needed && mem::take(&mut inner.parked);
        drop(inner);
        if wake {
            self.work.notify_one();
        }
    }

    /// For the worker, which has run what it took before: fills the empty `batch` with everything that waits and gives it the
    /// consumer's role; sleeps until there is something. False when the queue is closed, empty, and nobody helps.
    pub(crate) fn take(&self, batch: &mut VecDeque<T>) -> bool {
        let mut inner = self.inner.lock();
        if inner.consumer == Consumer::Worker {
            inner.consumer = Consumer::Nobody;
        }
        let mut spun = false;
        loop {
            if inner.consumer == Consumer::Nobody && !inner.tasks.is_empty() {
                self.hand_over(inner, batch);
                return true;
            }
            if inner.consumer == Consumer::Nobody && inner.closed {
                return false;
            }
            if mem::replace(&mut spun, true) {
                inner = self.park(inner);
                spun = false;
            } else {
                drop(inner);
                // A hint, so relaxed: the lock follows.
                spin_for(self.spin, || self.has_work.load(Ordering::Relaxed));
                inner = self.inner.lock();
            }
        }
    }

    fn park<'a>(&'a self, mut inner: MutexGuard<'a, Inner<T>>) -> MutexGuard<'a, Inner<T>> {
        inner.parked = true;
        while inner.parked {
            inner = self.work.wait(inner);
        }
        inner
    }

    fn hand_over(&self, mut inner: MutexGuard<'_, Inner<T>>, batch: &mut VecDeque<T>) {
        inner.consumer = Consumer::Worker;
        inner.unawaited = 0;
        mem::swap(&mut inner.tasks, batch);
        self.has_work.store(false, Ordering::Relaxed);
        self.wake_producers(inner);
    }

    fn wake_producers(&self, mut inner: MutexGuard<'_, Inner<T>>) {
        let blocked = mem::take(&mut inner.blocked);
        drop(inner);
        if blocked {
            self.room.notify_all();
        }
    }

    /// The consumer's role for a thread that waits, if tasks wait and nobody runs any.
    pub(crate) fn help(&self) -> Option<Turn<'_, T>> {
        let mut inner = self.inner.lock();
        if inner.consumer != Consumer::Nobody || inner.tasks.is_empty() {
            return None;
        }
        inner.consumer = Consumer::Helper;
        Some(Turn(self))
    }

    /// Notes that somebody waits for the lane's events.
    pub(crate) fn note_waiting(&self) {
        self.awaited.store(true, Ordering::Relaxed);
    }

    /// Whether nothing waits and nothing runs.
    pub(crate) fn is_idle(&self) -> bool {
        let inner = self.inner.lock();
        inner.consumer == Consumer::Nobody && inner.tasks.is_empty()
    }

    /// Tasks that wait, not counting those the worker took.
    pub(crate) fn len(&self) -> usize {
        self.inner.lock().tasks.len()
    }

    /// Lets the worker end once everything was run. Producers that wait for room are woken when what fills the queue is taken, and
    /// then refused.
    pub(crate) fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        self.wake_worker(inner);
    }
}

/// The consumer's role, for a thread that is not the worker. Dropping it hands the role back and wakes the worker if that has
/// something to do.
#[derive(Debug)]
pub(crate) struct Turn<'a, T>(&'a Queue<T>);

impl<T> Turn<'_, T> {
    /// The next task, if any waits.
    pub(crate) fn next(&self) -> Option<T> {
        let mut inner = self.0.inner.lock();
        let task = inner.tasks.pop_front()?;
        self.0.has_work.store(!inner.tasks.is_empty(), Ordering::Relaxed);
        self.0.wake_producers(inner);
        Some(task)
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        let mut inner = self.0.inner.lock();
        inner.consumer = Consumer::Nobody;
        self.0.wake_worker(inner);
    }
}
