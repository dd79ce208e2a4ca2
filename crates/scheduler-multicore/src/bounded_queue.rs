//! A bounded queue of tasks with many producers and one consumer at a time: the queue's worker, or a caller
//! that runs tasks itself.
//!
//! Invariants:
//!
//! * Tasks leave in the order in which they entered.
//! * A thread runs tasks only while it is the consumer, and at most one thread is the consumer at a time.
//! * At most `capacity` tasks wait in the queue. The worker takes several tasks at once, so it may hold up to
//!   `capacity` further tasks.
//! * One lock protects all flags that decide which thread is the consumer, or whether a thread is woken.

use std::{collections::VecDeque, mem, time::Duration};

use crate::sync::{Condvar, Mutex, MutexGuard, Ordering, atomic::AtomicBool, spin_for};

/// How many quick tasks in a row producers run themselves while the worker sleeps and nobody waits for an
/// event. A producer that never waits wants to run ahead of its tasks, and waking the worker for it pays off.
const MAX_INLINE_TASKS: u32 = 32;

/// A bounded queue of tasks of type `T`.
#[derive(Debug)]
pub(crate) struct BoundedQueue<T> {
    capacity: usize,
    spin: Duration,
    inner: Mutex<QueueInner<T>>,
    /// A hint for the spinning worker; the truth is under the lock.
    has_tasks: AtomicBool,
    /// A hint: since the worker last ran, a thread waited for an event of the queue.
    awaited: AtomicBool,
    /// The parked worker waits here.
    work: Condvar,
    /// Producers at a full queue wait here.
    room: Condvar,
}

#[derive(Debug)]
struct QueueInner<T> {
    tasks: VecDeque<T>,
    consumer: Consumer,
    /// The worker sleeps on `work`.
    parked: bool,
    /// Producers sleep on `room`.
    blocked: bool,
    /// No more tasks will come.
    closed: bool,
    /// Quick tasks that producers ran since the worker last ran or a thread last waited for an event.
    inline_tasks: u32,
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
    /// Run the task, if it is the next one and the worker would have to be woken for it.
    RunIfWorkerSleeps,
    /// Run the task, if it is the next one.
    RunIfNext,
}

/// The outcome of a push.
#[derive(Debug)]
pub(crate) enum Pushed<'a, T> {
    /// The task is in the queue.
    Queued,
    /// The producer is the consumer now, and must run the task.
    RunNow(T, ConsumerRole<'a, T>),
}

impl<T> BoundedQueue<T> {
    /// An empty queue for `capacity` tasks, at least one. A worker without tasks spins for `spin` before it
    /// sleeps.
    pub(crate) fn new(capacity: usize, spin: Duration) -> BoundedQueue<T> {
        let inner = QueueInner {
            tasks: VecDeque::new(),
            consumer: Consumer::Nobody,
            parked: false,
            blocked: false,
            closed: false,
            inline_tasks: 0,
        };
        BoundedQueue {
            capacity: capacity.max(1),
            spin,
            inner: Mutex::new(inner),
            has_tasks: AtomicBool::new(false),
            awaited: AtomicBool::new(false),
            work: Condvar::default(),
            room: Condvar::default(),
        }
    }

    /// Appends a task, or returns it together with the consumer's role. If the queue is full, waits for room
    /// or fails, depending on `mode`.
    pub(crate) fn push(&self, task: T, mode: PushMode) -> Result<Pushed<'_, T>, PushError> {
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
            inner.consumer = Consumer::Caller;
            return Ok(Pushed::RunNow(task, ConsumerRole(self)));
        }
        inner.tasks.push_back(task);
        self.has_tasks.store(true, Ordering::Relaxed);
        self.wake_worker(inner);
        Ok(Pushed::Queued)
    }

    /// Makes the producer of a task the consumer, if `mode` lets it run the task. Otherwise the task must be
    /// pushed.
    pub(crate) fn try_run(&self, mode: PushMode) -> Option<ConsumerRole<'_, T>> {
        let mut inner = self.inner.lock();
        if inner.closed || !self.runs_inline(&mut inner, mode) {
            return None;
        }
        inner.consumer = Consumer::Caller;
        Some(ConsumerRole(self))
    }

    /// Whether the producer runs the task that it is about to push.
    fn runs_inline(&self, inner: &mut QueueInner<T>, mode: PushMode) -> bool {
        if inner.consumer != Consumer::Nobody || !inner.tasks.is_empty() {
            return false;
        }
        match mode {
            PushMode::NonBlocking | PushMode::Blocking => false,
            PushMode::RunIfNext => true,
            PushMode::RunIfWorkerSleeps => {
                if self.awaited.load(Ordering::Relaxed) {
                    self.awaited.store(false, Ordering::Relaxed);
                    inner.inline_tasks = 0;
                }
                inner.inline_tasks += 1;
                inner.parked && inner.inline_tasks <= MAX_INLINE_TASKS
            }
        }
    }

    /// Wakes the worker if it sleeps and has something to do.
    fn wake_worker(&self, mut inner: MutexGuard<'_, QueueInner<T>>) {
        let needed = inner.consumer == Consumer::Nobody && (!inner.tasks.is_empty() || inner.closed);
        let wake = needed && mem::take(&mut inner.parked);
        drop(inner);
        if wake {
            self.work.notify_one();
        }
    }

    /// The worker calls this after it has run its previous batch. Waits for tasks, moves all of them into the
    /// empty `batch`, and makes the worker the consumer. Returns false once the queue is closed and empty and
    /// no caller runs tasks.
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
                // Relaxed, because this is a hint: the queue is checked under the lock next.
                spin_for(self.spin, || self.has_tasks.load(Ordering::Relaxed));
                inner = self.inner.lock();
            }
        }
    }

    fn park<'a>(&'a self, mut inner: MutexGuard<'a, QueueInner<T>>) -> MutexGuard<'a, QueueInner<T>> {
        inner.parked = true;
        while inner.parked {
            inner = self.work.wait(inner);
        }
        inner
    }

    fn hand_over(&self, mut inner: MutexGuard<'_, QueueInner<T>>, batch: &mut VecDeque<T>) {
        inner.consumer = Consumer::Worker;
        inner.inline_tasks = 0;
        mem::swap(&mut inner.tasks, batch);
        self.has_tasks.store(false, Ordering::Relaxed);
        self.wake_producers(inner);
    }

    fn wake_producers(&self, mut inner: MutexGuard<'_, QueueInner<T>>) {
        let blocked = mem::take(&mut inner.blocked);
        drop(inner);
        if blocked {
            self.room.notify_all();
        }
    }

    /// Makes the caller, a thread that waits for an event, the consumer, if tasks wait and nobody is the
    /// consumer.
    pub(crate) fn try_consume(&self) -> Option<ConsumerRole<'_, T>> {
        let mut inner = self.inner.lock();
        if inner.consumer != Consumer::Nobody || inner.tasks.is_empty() {
            return None;
        }
        inner.consumer = Consumer::Caller;
        Some(ConsumerRole(self))
    }

    /// Notes that a thread waits for an event of the queue.
    pub(crate) fn note_waiter(&self) {
        self.awaited.store(true, Ordering::Relaxed);
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
pub(crate) struct ConsumerRole<'a, T>(&'a BoundedQueue<T>);

impl<T> ConsumerRole<'_, T> {
    /// Takes the next task, if one waits.
    pub(crate) fn next(&self) -> Option<T> {
        let mut inner = self.0.inner.lock();
        let task = inner.tasks.pop_front()?;
        self.0.has_tasks.store(!inner.tasks.is_empty(), Ordering::Relaxed);
        self.0.wake_producers(inner);
        Some(task)
    }
}

impl<T> Drop for ConsumerRole<'_, T> {
    fn drop(&mut self) {
        let mut inner = self.0.inner.lock();
        inner.consumer = Consumer::Nobody;
        self.0.wake_worker(inner);
    }
}
