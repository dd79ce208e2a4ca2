//! The identity and failure of a queue, and which queue's task the current thread runs.

use std::{
    cell::Cell,
    sync::{
        Arc as Shared,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use device_runtime::{DriverError, Failure, run_task};

use crate::{
    event::EventState,
    pending_tasks::PendingTasks,
    sync::{Arc, Mutex, Ordering, atomic::AtomicBool, thread_local},
};

/// A queue's number, unique in the process.
pub(crate) type QueueId = u64;

/// This counter is not part of the protocol that the model checker checks, so it is always the standard
/// library's atomic.
static NEXT_QUEUE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The queue whose task this thread runs.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's macro takes no constant blocks")]
    static CURRENT: Cell<Option<QueueId>> = Cell::new(None);
}

/// The identity of a stream's queue, its first failure, and its pending tasks.
#[derive(Debug)]
pub struct QueueState {
    id: QueueId,
    stream: Shared<str>,
    has_failed: AtomicBool,
    failure: Mutex<Option<Failure>>,
    /// `None` where tasks run as soon as they are submitted.
    pending: Option<PendingTasks>,
}

impl QueueState {
    pub(crate) fn new(stream: &str, pending: Option<PendingTasks>) -> Arc<QueueState> {
        Arc::new(QueueState {
            id: NEXT_QUEUE.fetch_add(1, Relaxed),
            stream: stream.into(),
            has_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            pending,
        })
    }

    /// The name of the stream whose tasks the queue holds.
    pub fn stream(&self) -> &Shared<str> {
        &self.stream
    }

    /// The first failure since the queue was opened or reset.
    pub fn failure(&self) -> Option<Failure> {
        // Relaxed: inside the queue the order of tasks suffices; outside of it the answer may be outdated
        // anyway.
        if !self.has_failed.load(Ordering::Relaxed) {
            return None;
        }
        self.failure.lock().clone()
    }

    /// Records a failure, unless the queue has failed already.
    pub(crate) fn fail(&self, failure: Failure) {
        self.failure.lock().get_or_insert(failure);
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Forgets the failure.
    pub(crate) fn clear_failure(&self) {
        let mut failure = self.failure.lock();
        self.has_failed.store(false, Ordering::Relaxed);
        *failure = None;
    }

    /// A new event for the queue to reach.
    pub(crate) fn event(self: &Arc<QueueState>) -> Arc<EventState> {
        EventState::new(Arc::clone(self))
    }

    /// The pending tasks of a queue that has a worker.
    pub(crate) fn pending(&self) -> Option<&PendingTasks> {
        self.pending.as_ref()
    }

    /// Runs `body` as one of the queue's tasks.
    pub(crate) fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        enter(Some(self.id), body)
    }

    /// The error of an operation, `doing`, that would make a running task wait.
    pub(crate) fn self_wait(&self, doing: &'static str) -> DriverError {
        DriverError::SelfWait { stream: self.stream.to_string(), doing }
    }
}

impl PartialEq for QueueState {
    fn eq(&self, other: &QueueState) -> bool {
        self.id == other.id
    }
}

impl Eq for QueueState {}

/// The queue whose task the calling thread runs.
pub(crate) fn current() -> Option<QueueId> {
    CURRENT.with(Cell::get)
}

/// Whether the calling thread runs a task of any queue. Such a thread must not wait: the awaited event might
/// come after its task.
pub(crate) fn is_in_task() -> bool {
    current().is_some()
}

/// Runs `body` as a task of a queue.
pub(crate) fn enter<R>(queue: Option<QueueId>, body: impl FnOnce() -> R) -> R {
    let _restore = RestoreCurrent(CURRENT.with(|current| current.replace(queue)));
    run_task(body)
}

/// Restores the thread's former current queue when it is dropped.
struct RestoreCurrent(Option<QueueId>);

impl Drop for RestoreCurrent {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(self.0));
    }
}
