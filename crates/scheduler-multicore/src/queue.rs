//! The bounded hand-over of tasks from many producers to one worker.
//!
//! Invariants: tasks leave in the order they entered; at most `capacity` wait here (the worker may hold as many again, which
//! it took at once); every flag that decides about a wake-up is read and written under the one lock.

use std::{
    collections::VecDeque,
    mem,
    time::{Duration, Instant},
};

use crate::{
    sync::{Condvar, Mutex, MutexGuard, Ordering, atomic::AtomicBool, spin_loop},
    task::Task,
};

/// A queue with one consumer.
#[derive(Debug)]
pub(crate) struct Queue {
    capacity: usize,
    spin: Duration,
    inner: Mutex<Inner>,
    /// A hint for the spinning worker; the truth is under the lock.
    has_work: AtomicBool,
    work: Condvar,
    room: Condvar,
}

#[derive(Debug)]
struct Inner {
    tasks: VecDeque<Task>,
    /// The worker has run everything it took.
    idle: bool,
    /// The worker sleeps on `work`.
    parked: bool,
    /// Producers that sleep on `room`.
    blocked: usize,
    /// No more tasks will come.
    closed: bool,
}

/// Why a task was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The queue is full and the caller did not want to wait.
    Full,
    /// The queue is closed.
    Closed,
}

impl Queue {
    pub(crate) fn new(capacity: usize, spin: Duration) -> Queue {
        let inner = Inner { tasks: VecDeque::new(), idle: true, parked: false, blocked: 0, closed: false };
        Queue {
            capacity: capacity.max(1),
            spin,
            inner: Mutex::new(inner),
            has_work: AtomicBool::new(false),
            work: Condvar::default(),
            room: Condvar::default(),
        }
    }

    /// Appends a task; where there is no room, waits for it or refuses.
    pub(crate) fn push(&self, task: Task, may_wait: bool) -> Result<(), Refused> {
        let mut inner = self.inner.lock();
        while inner.tasks.len() >= self.capacity && !inner.closed {
            if !may_wait {
                return Err(Refused::Full);
            }
            inner.blocked += 1;
            inner = self.room.wait(inner);
            inner.blocked -= 1;
        }
        if inner.closed {
            return Err(Refused::Closed);
        }
        inner.tasks.push_back(task);
        self.has_work.store(true, Ordering::Relaxed);
        let wake = mem::take(&mut inner.parked);
        drop(inner);
        if wake {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Fills the empty `batch` with everything that waits; sleeps until there is something. False when the queue is closed
    /// and empty.
    pub(crate) fn take(&self, batch: &mut VecDeque<Task>) -> bool {
        let mut spun = false;
        loop {
            let mut inner = self.inner.lock();
            if !inner.tasks.is_empty() {
                inner.idle = false;
                self.hand_over(inner, batch);
                return true;
            }
            inner.idle = true;
            if inner.closed {
                return false;
            }
            if !mem::replace(&mut spun, true) {
                drop(inner);
                self.spin();
                continue;
            }
            inner.parked = true;
            while inner.parked && !inner.closed {
                inner = self.work.wait(inner);
            }
            inner.parked = false;
        }
    }

    fn hand_over(&self, mut inner: MutexGuard<'_, Inner>, batch: &mut VecDeque<Task>) {
        mem::swap(&mut inner.tasks, batch);
        self.has_work.store(false, Ordering::Relaxed);
        let blocked = inner.blocked > 0;
        drop(inner);
        if blocked {
            self.room.notify_all();
        }
    }

    /// Looks for work for a while without sleeping: work often comes right after work.
    fn spin(&self) {
        let until = Instant::now() + self.spin;
        while !self.has_work.load(Ordering::Relaxed) && Instant::now() < until {
            for _ in 0..32 {
                spin_loop();
            }
        }
    }

    /// Whether nothing waits and nothing runs.
    pub(crate) fn is_idle(&self) -> bool {
        let inner = self.inner.lock();
        inner.idle && inner.tasks.is_empty()
    }

    /// Tasks that wait, not counting those the worker took.
    pub(crate) fn len(&self) -> usize {
        self.inner.lock().tasks.len()
    }

    /// Lets the worker end once it has run everything.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.work.notify_all();
        self.room.notify_all();
    }
}
