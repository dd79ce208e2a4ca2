//! The slot of one pool worker: a thread that splits a kernel submits a task to it, and the worker takes the
//! task. The worker spins for a while after its last task and then sleeps.
//!
//! Invariants: a slot belongs to the thread that claimed it until its task was canceled, or taken and
//! executed; so a slot holds at most one task. Submitting, taking and canceling happen under the one lock,
//! hence a task is either taken or canceled, never both.

use std::{mem, time::Duration};

use crate::{
    placement::Placement,
    sync::{Condvar, Mutex, MutexGuard, Ordering, atomic::AtomicBool, spin_politely},
};

/// Room for one task of type `T`, and the sleep of the worker that executes it.
#[derive(Debug)]
pub(crate) struct WorkerSlot<T> {
    /// The slot holds a task, or its worker executes one.
    claimed: AtomicBool,
    /// A hint for the spinning worker; the truth is under the lock.
    has_task: AtomicBool,
    /// The worker waits for tasks and spins, or executes one: a hint for those who have tasks.
    awake: AtomicBool,
    /// Where the worker runs.
    placement: Placement,
    inner: Mutex<SlotInner<T>>,
    wake_up: Condvar,
}

#[derive(Debug)]
struct SlotInner<T> {
    task: Option<T>,
    /// The worker sleeps on `wake_up`.
    parked: bool,
    /// No more tasks will come.
    closed: bool,
}

impl<T> WorkerSlot<T> {
    pub(crate) fn new() -> WorkerSlot<T> {
        WorkerSlot {
            claimed: AtomicBool::new(false),
            has_task: AtomicBool::new(false),
            awake: AtomicBool::new(false),
            placement: Placement::default(),
            inner: Mutex::new(SlotInner { task: None, parked: false, closed: false }),
            wake_up: Condvar::default(),
        }
    }

    /// Claims the slot for the caller, who may then submit a task; false if the slot is already claimed.
    pub(crate) fn claim(&self) -> bool {
        // Acquire: pairs with `release`, so that the claimant's locking of the slot follows the releasing
        // worker's.
        !self.claimed.load(Ordering::Relaxed) && !self.claimed.swap(true, Ordering::Acquire)
    }

    /// Whether the worker would take a task without being woken. Soon this may be otherwise.
    pub(crate) fn is_awake(&self) -> bool {
        self.awake.load(Ordering::Relaxed)
    }

    /// Puts a task into a slot that the caller claimed, and wakes the worker if it sleeps.
    pub(crate) fn submit(&self, task: T) {
        self.placement.avoid_caller();
        let mut inner = self.inner.lock();
        inner.task = Some(task);
        self.has_task.store(true, Ordering::Relaxed);
        self.wake(inner);
    }

    /// Removes a task that satisfies `is_own` and that the worker has not begun, and releases the slot.
    pub(crate) fn cancel(&self, is_own: impl FnOnce(&T) -> bool) -> Option<T> {
        // Relaxed: the caller sees its own store at least; if it sees a later one, its task was taken.
        if !self.has_task.load(Ordering::Relaxed) {
            return None;
        }
        let task = {
            let mut inner = self.inner.lock();
            let task = inner.task.take_if(|task| is_own(task))?;
            self.has_task.store(false, Ordering::Relaxed);
            task
        };
        self.release();
        Some(task)
    }

    /// Called by the worker once, before anything else.
    pub(crate) fn enter(&self) {
        self.placement.enter();
    }

    /// Called by the worker: waits for the next task and takes it. The worker spins for at most `spin`, and
    /// less when `is_crowded`, before it sleeps. `None` once the slot is closed.
    pub(crate) fn take(&self, spin: Duration, is_crowded: impl Fn() -> bool) -> Option<T> {
        self.awake.store(true, Ordering::Relaxed);
        let mut inner = self.inner.lock();
        let mut spun = false;
        loop {
            if let Some(task) = inner.task.take() {
                self.has_task.store(false, Ordering::Relaxed);
                return Some(task);
            }
            if inner.closed {
                return None;
            }
            if mem::replace(&mut spun, true) {
                inner.parked = true;
                self.awake.store(false, Ordering::Relaxed);
                while inner.parked {
                    inner = self.wake_up.wait(inner);
                }
                self.awake.store(true, Ordering::Relaxed);
                spun = false;
            } else {
                drop(inner);
                // Relaxed, because this is a hint: the slot is checked under the lock next.
                spin_politely(spin, || self.has_task.load(Ordering::Relaxed) || is_crowded());
                inner = self.inner.lock();
            }
        }
    }

    /// Releases the slot: called by the worker when it has executed a task.
    pub(crate) fn release(&self) {
        self.claimed.store(false, Ordering::Release);
    }

    /// Makes the worker's next [`take`](WorkerSlot::take) without a task return `None`.
    pub(crate) fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        self.wake(inner);
    }

    fn wake(&self, mut inner: MutexGuard<'_, SlotInner<T>>) {
        let wake = mem::take(&mut inner.parked);
        drop(inner);
        if wake {
            self.wake_up.notify_one();
        }
    }
}
