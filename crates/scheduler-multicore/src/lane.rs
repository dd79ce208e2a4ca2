//! What a scheduler is: it opens lanes, and a lane runs the tasks it is given, in order.

use std::{cell::Cell, sync::Arc as Shared};

use device_runtime::{DriverError, Failure, StreamStrategy};

use crate::{
    event::EventState,
    sync::{
        Arc, Mutex, Ordering,
        atomic::{AtomicBool, AtomicU64},
    },
    task::Task,
};

/// Decides on which threads the tasks of streams run. [`crate::Multicore`] and [`crate::Inline`] are all there are: what a
/// task may rely on is between them and this crate.
pub trait Scheduler: Sealed + Send + Sync + 'static {
    /// What runs one stream's tasks.
    type Lane: Lane;

    /// The scheduler's name, which is also the device's.
    fn name(&self) -> &'static str;

    /// Threads that one kernel may be split over.
    fn threads(&self) -> usize;

    /// How many streams make good use of the machine.
    fn suggested_num_streams(&self, strategy: StreamStrategy) -> usize;

    /// Opens a lane.
    ///
    /// # Errors
    ///
    /// Where the platform gives no thread.
    fn open(&self, state: Arc<LaneState>) -> Result<Self::Lane, DriverError>;
}

/// Runs the tasks of one stream, in order.
pub trait Lane: Send + Sync + 'static {
    /// Takes a task. May wait for room.
    ///
    /// # Errors
    ///
    /// [`DriverError::SelfWait`] where only the caller could make room.
    fn submit(&self, task: Task) -> Result<(), DriverError>;

    /// Whether everything submitted was run.
    fn is_idle(&self) -> bool;

    /// Runs what was submitted and takes nothing more. May wait for that.
    fn close(&self);

    /// What goes on, for people.
    fn debug_info(&self) -> String;
}

/// Keeps the traits of this module to this crate.
pub trait Sealed {}

/// A lane's number, unique in the process.
pub(crate) type LaneId = u64;

static NEXT_LANE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The lane whose task this thread is running.
    static CURRENT: Cell<Option<LaneId>> = const { Cell::new(None) };
}

/// What is known of a lane: its identity and its first failure.
#[derive(Debug)]
pub struct LaneState {
    id: LaneId,
    stream: Shared<str>,
    has_failed: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

impl LaneState {
    pub(crate) fn new(stream: &str) -> Arc<LaneState> {
        Arc::new(LaneState {
            id: NEXT_LANE.fetch_add(1, Ordering::Relaxed),
            stream: stream.into(),
            has_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        })
    }

    /// The name of the stream the lane stands for.
    pub fn stream(&self) -> &Shared<str> {
        &self.stream
    }

    pub(crate) fn id(&self) -> LaneId {
        self.id
    }

    /// The first failure since the lane was opened or reset.
    pub fn failure(&self) -> Option<Failure> {
        // Relaxed: within the lane the order of tasks suffices; outside of it the answer may be a moment old anyway.
        if !self.has_failed.load(Ordering::Relaxed) {
            return None;
        }
        self.failure.lock().clone()
    }

    pub(crate) fn fail(&self, failure: Failure) {
        self.failure.lock().get_or_insert(failure);
        self.has_failed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn forgive(&self) {
        let mut failure = self.failure.lock();
        self.has_failed.store(false, Ordering::Relaxed);
        *failure = None;
    }

    /// A new event for the lane to reach.
    pub(crate) fn event(&self) -> Arc<EventState> {
        EventState::new(self.id, Shared::clone(&self.stream))
    }

    /// Whether the calling thread is running one of the lane's tasks.
    pub fn is_current(&self) -> bool {
        is_current(self.id)
    }

    /// Runs `body` as one of the lane's tasks.
    pub(crate) fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        let _restore = Restore(CURRENT.replace(Some(self.id)));
        body()
    }
}

/// Whether the calling thread is running a task of the lane.
pub(crate) fn is_current(lane: LaneId) -> bool {
    CURRENT.get() == Some(lane)
}

/// Puts the thread's former lane back.
struct Restore(Option<LaneId>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}
