//! Events: flags that are set once, and on which threads can wait.
//!
//! Invariant: `state` changes from pending once, under the lock; a failed event's failure is set before that.
//! So a waiter that sees "pending" under the lock is counted before the flag can change, and no wake-up is
//! lost.

use std::fmt;

use device_runtime::{DriverError, Failure};

use crate::{
    queue_state::{QueueState, is_in_task},
    sync::{Arc, Condvar, Mutex, OnceLock, Ordering, atomic::AtomicU8, spin_times},
};

const PENDING: u8 = 0;
const DONE: u8 = 1;
const FAILED: u8 = 2;

/// How often a waiter polls before it sleeps: a few microseconds, about the cost of sleeping and waking up.
const SPINS: usize = 200;

/// A point in a queue's sequence of tasks.
pub(crate) struct EventState {
    /// The queue that will reach the event.
    pub(crate) queue: Arc<QueueState>,
    state: AtomicU8,
    failure: OnceLock<Failure>,
    waiters: Mutex<usize>,
    reached: Condvar,
}

impl EventState {
    pub(crate) fn new(queue: Arc<QueueState>) -> Arc<EventState> {
        Arc::new(EventState {
            queue,
            state: AtomicU8::new(PENDING),
            failure: OnceLock::new(),
            waiters: Mutex::new(0),
            reached: Condvar::default(),
        })
    }

    /// Makes the event pending again. The exclusive reference proves that no thread waits for it.
    pub(crate) fn reset(&mut self) {
        self.state = AtomicU8::new(PENDING);
        self.failure = OnceLock::new();
    }

    /// `None` while the event is pending, then its result. Costs one atomic load unless the event failed.
    pub(crate) fn poll(&self) -> Option<Result<(), Failure>> {
        // Acquire: a thread that sees the event done also sees all writes of the queue's tasks before it.
        match self.state.load(Ordering::Acquire) {
            PENDING => None,
            DONE => Some(Ok(())),
            _ => Some(self.failure.get().map_or(Ok(()), |failure| Err(failure.clone()))),
        }
    }

    /// Marks the event as reached and wakes its waiters.
    pub(crate) fn reach(&self, failure: Option<Failure>) {
        let state = if failure.is_some() { FAILED } else { DONE };
        if let Some(failure) = failure {
            self.failure.get_or_init(|| failure);
        }
        let waiters = self.waiters.lock();
        // Release: pairs with the load in `poll`.
        self.state.store(state, Ordering::Release);
        let awaited = *waiters > 0;
        drop(waiters);
        if awaited {
            self.reached.notify_all();
        }
    }

    /// Waits until the event is reached: spins for some microseconds, then sleeps. Only for queues and the
    /// model checker, since it does not check that the thread may wait.
    pub(crate) fn wait(&self) -> Result<(), Failure> {
        spin_times(SPINS, || self.poll().is_some());
        let mut waiters = self.waiters.lock();
        *waiters += 1;
        loop {
            if let Some(result) = self.poll() {
                *waiters -= 1;
                return result;
            }
            waiters = self.reached.wait(waiters);
        }
    }

    /// Waits until the event is reached. Runs the tasks before it on this thread if no other thread is the
    /// consumer.
    ///
    /// # Errors
    ///
    /// [`DriverError::SelfWait`] inside a task, unless the event has already been reached.
    pub(crate) fn sync(&self) -> Result<Result<(), Failure>, DriverError> {
        let pending = self.queue.pending();
        if let Some(result) = self.poll() {
            if let Some(pending) = pending {
                pending.queue().note_waiter();
            }
            return Ok(result);
        }
        if is_in_task() {
            return Err(self.queue.self_wait("waiting for an event"));
        }
        if let Some(pending) = pending {
            pending.run_until(&self.queue, self);
        }
        Ok(self.wait())
    }
}

impl fmt::Debug for EventState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event of {}", self.queue.stream())
    }
}
