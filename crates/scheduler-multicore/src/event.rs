//! Events: flags that are set once, with whoever waits for them.
//!
//! Invariant: `state` changes from pending once, under the lock; a failed event's failure is set before. So a waiter that
//! sees "pending" under the lock is counted before the flag can change, and no wake-up is lost.

use std::fmt;

use device_runtime::{DriverError, Failure};

use crate::{
    lane::{LaneState, is_in_task},
    sync::{Arc, Condvar, Mutex, OnceLock, Ordering, atomic::AtomicU8, spin_times},
};

const PENDING: u8 = 0;
const DONE: u8 = 1;
const FAILED: u8 = 2;

/// How often a waiter looks before it sleeps: a few microseconds, about what falling asleep and waking cost.
const SPINS: usize = 200;

/// A point in a lane's work.
pub(crate) struct EventState {
    /// The lane that will reach it.
    pub(crate) lane: Arc<LaneState>,
    state: AtomicU8,
    failure: OnceLock<Failure>,
    waiters: Mutex<usize>,
    reached: Condvar,
}

impl EventState {
    pub(crate) fn new(lane: Arc<LaneState>) -> Arc<EventState> {
        Arc::new(EventState {
            lane,
            state: AtomicU8::new(PENDING),
            failure: OnceLock::new(),
            waiters: Mutex::new(0),
            reached: Condvar::default(),
        })
    }

    /// Makes the event pending again. Nobody else has it, so nobody waits for it.
    pub(crate) fn reset(&mut self) {
        self.state = AtomicU8::new(PENDING);
        self.failure = OnceLock::new();
    }

    /// Whether the event was reached, and with which failure. Cheap.
    pub(crate) fn poll(&self) -> Option<Result<(), Failure>> {
        // Acquire: what the lane did before the event is visible to whoever sees it done.
        match self.state.load(Ordering::Acquire) {
            PENDING => None,
            DONE => Some(Ok(())),
            _ => Some(self.failure.get().map_or(Ok(()), |failure| Err(failure.clone()))),
        }
    }

    /// Marks the event reached and wakes whoever waits.
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

    /// Waits until the event is reached: awake for some microseconds, then asleep. For the lane's own use: it does not ask
    /// whether the thread may wait.
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

    /// Waits until the event is reached, running what is before it if nobody else does.
    ///
    /// # Errors
    ///
    /// [`DriverError::SelfWait`] inside a task, unless the event was reached already.
    pub(crate) fn sync(&self) -> Result<Result<(), Failure>, DriverError> {
        let backlog = self.lane.backlog();
        if let Some(result) = self.poll() {
            if let Some(backlog) = backlog {
                backlog.queue().note_waiting();
            }
            return Ok(result);
        }
        if is_in_task() {
            return Err(self.lane.self_wait("waiting for an event"));
        }
        if let Some(backlog) = backlog {
            backlog.help(&self.lane, self);
        }
        Ok(self.wait())
    }
}

impl fmt::Debug for EventState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event of {}", self.lane.stream())
    }
}
