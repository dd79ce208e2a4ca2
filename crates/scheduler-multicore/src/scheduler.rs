//! Two traits: a [`Scheduler`] opens a queue for each stream, and a [`StreamQueue`] is such a queue.

use device_runtime::{DriverError, Failure, StreamStrategy};

use crate::{queue_state::QueueState, sync::Arc, task::QueuedTask};

/// Decides on which threads the tasks of streams run. Only [`crate::Multicore`] and [`crate::Inline`]
/// implement it: the trait is sealed, since tasks rely on details of both.
pub trait Scheduler: SealedScheduler + Send + Sync + 'static {
    /// The queue of one stream.
    type Queue: StreamQueue;

    /// The scheduler's name, which is also the device's.
    fn name(&self) -> &'static str;

    /// The number of threads that one kernel may be split over.
    fn threads(&self) -> usize;

    /// How many streams make good use of the machine.
    fn suggested_num_streams(&self, strategy: StreamStrategy) -> usize;

    /// Opens the queue of a stream.
    ///
    /// # Errors
    ///
    /// [`DriverError::Platform`] if the platform cannot start a thread.
    fn open(&self, stream: &str) -> Result<Self::Queue, DriverError>;
}

/// Runs the tasks of one stream, in the order in which they were submitted.
pub trait StreamQueue: Send + Sync + 'static {
    /// The queue's identity and failure.
    fn state(&self) -> &Arc<QueueState>;

    /// Submits a task. May wait for room, except inside a task.
    ///
    /// # Errors
    ///
    /// [`DriverError::SelfWait`] where it would have to wait inside a task.
    fn submit(&self, task: QueuedTask) -> Result<(), DriverError>;

    /// Runs a task on the calling thread, if it is the next one and takes too little time for another thread
    /// to be worth it. Returns the failure of the queue afterwards.
    ///
    /// # Errors
    ///
    /// The task, if it did not run: it must be passed to [`StreamQueue::enqueue`].
    fn try_run(&self, task: QueuedTask) -> Result<Option<Failure>, QueuedTask>;

    /// Submits a task that [`StreamQueue::try_run`] returned.
    ///
    /// # Errors
    ///
    /// Fails like [`StreamQueue::submit`].
    fn enqueue(&self, task: QueuedTask) -> Result<(), DriverError>;

    /// Whether every submitted task has run.
    fn is_idle(&self) -> bool;

    /// Rejects further tasks and waits until the submitted ones have run. Inside a task it does not wait.
    fn close(&self);

    /// A one-line description for people: the stream, its state, the queue depth and the failure.
    fn debug_info(&self) -> String;
}

/// Restricts implementations of this module's traits to this crate.
pub trait SealedScheduler {}
