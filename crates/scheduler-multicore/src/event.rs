//! Events: flags that are set once, with whoever waits for them.
//!
//! Invariant: `state` changes from pending once, under the lock; a failed event's failure is set before. So a waiter that
//! sees "pending" under the lock is counted before the flag can change, and no wake-up is lost.

use std::sync::Arc as Shared;

use device_runtime::Failure;

use crate::{
    lane::LaneId,
    sync::{Arc, Condvar, Mutex, OnceLock, Ordering, atomic::AtomicU8, spin_loop},
};

const PENDING: u8 = 0;
const DONE: u8 = 1;
const FAILED: u8 = 2;

/// How often a waiter looks before it sleeps: a few microseconds, about what falling asleep and waking cost.
const SPINS: usize = 200;

/// A point in a lane's work.
#[derive(Debug)]
pub(crate) struct EventState {
    /// The lane that will reach it.
    pub(crate) lane: LaneId,
    /// The name of that lane's stream.
    pub(crate) stream: Shared<str>,
    state: AtomicU8,
    failure: OnceLock<Failure>,
    waiters: Mutex<usize>,
    reached: Condvar,
}

impl EventState {
    pub(crate) fn new(lane: LaneId, stream: Shared<str>) -> Arc<EventState> {
        Arc::new(EventState {
            lane,
            stream,
            state: AtomicU8::new(PENDING),
            failure: OnceLock::new(),
            waiters: Mutex::new(0),
            reached: Condvar::default(),
        })
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

    /// Waits until the event is reached: awake for some microseconds, then asleep.
    pub(crate) fn wait(&self) -> Result<(), Failure> {
        for _ in 0..SPINS {
            if let Some(result) = self.poll() {
                return result;
            }
            spin_loop();
        }
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
}
