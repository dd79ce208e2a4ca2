//! What a scheduler is: it opens lanes, and a lane runs the tasks it is given, in order.

use std::{
    cell::Cell,
    sync::{
        Arc as Shared,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use device_runtime::{DriverError, Failure, StreamStrategy, run_task};

use crate::{
    backlog::Backlog,
    event::EventState,
    sync::{Arc, Mutex, Ordering, atomic::AtomicBool, thread_local},
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

    /// Opens the lane of a stream.
    ///
    /// # Errors
    ///
    /// Where the platform gives no thread.
    fn open(&self, stream: &str) -> Result<Self::Lane, DriverError>;
}

/// Runs the tasks of one stream, in order.
pub trait Lane: Send + Sync + 'static {
    /// Its identity and failure.
    fn state(&self) -> &Arc<LaneState>;

    /// Takes a task. May wait for room, except inside a task.
    ///
    /// # Errors
    ///
    /// [`DriverError::SelfWait`] where it would have to wait inside a task.
    fn submit(&self, task: Task) -> Result<(), DriverError>;

    /// Whether everything submitted was run.
    fn is_idle(&self) -> bool;

    /// Runs what was submitted and takes nothing more. Waits for that, except inside a task.
    fn close(&self);

    /// What goes on, for people.
    fn debug_info(&self) -> String;
}

/// Keeps the traits of this module to this crate.
pub trait Sealed {}

/// A lane's number, unique in the process.
pub(crate) type LaneId = u64;

/// Outside of the protocol, so always the standard library's.
static NEXT_LANE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The lane whose task this thread is running.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's macro takes no constant blocks")]
    static CURRENT: Cell<Option<LaneId>> = Cell::new(None);
}

/// What is known of a lane: its identity, its first failure, and where its tasks wait.
#[derive(Debug)]
pub struct LaneState {
    id: LaneId,
    stream: Shared<str>,
    has_failed: AtomicBool,
    failure: Mutex<Option<Failure>>,
    /// None where tasks run at once.
    backlog: Option<Backlog>,
}

impl LaneState {
    pub(crate) fn new(stream: &str, backlog: Option<Backlog>) -> Arc<LaneState> {
        Arc::new(LaneState {
            id: NEXT_LANE.fetch_add(1, Relaxed),
            stream: stream.into(),
            has_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            backlog,
        })
    }

    /// The name of the stream the lane stands for.
    pub fn stream(&self) -> &Shared<str> {
        &self.stream
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
    pub(crate) fn event(self: &Arc<LaneState>) -> Arc<EventState> {
        EventState::new(Arc::clone(self))
    }

    /// Where the lane's tasks wait, if they do.
    pub(crate) fn backlog(&self) -> Option<&Backlog> {
        self.backlog.as_ref()
    }

    /// Runs `body` as one of the lane's tasks.
    pub(crate) fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        enter(Some(self.id), body)
    }

    /// The refusal of something that would make a running task wait.
    pub(crate) fn self_wait(&self, doing: &'static str) -> DriverError {
        DriverError::SelfWait { stream: self.stream.to_string(), doing }
    }
}

impl PartialEq for LaneState {
    fn eq(&self, other: &LaneState) -> bool {
        self.id == other.id
    }
}

impl Eq for LaneState {}

/// The lane whose task the calling thread is running.
pub(crate) fn current() -> Option<LaneId> {
    CURRENT.with(Cell::get)
}

/// Whether the calling thread is running a task, of whatever lane. Such a thread must not wait: what it waits for might be
/// behind the task.
pub(crate) fn is_in_task() -> bool {
    current().is_some()
}

/// Runs `body` as a task of a lane.
pub(crate) fn enter<R>(lane: Option<LaneId>, body: impl FnOnce() -> R) -> R {
    let _restore = Restore(CURRENT.with(|current| current.replace(lane)));
    run_task(body)
}

/// Puts the thread's former lane back.
struct Restore(Option<LaneId>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(self.0));
    }
}
