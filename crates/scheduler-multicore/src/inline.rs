//! The scheduler without threads: every task runs at once, on the thread that submits it.
//!
//! It serves debugging and tests as a reference for [`crate::Multicore`]: it has the same interface, but
//! neither concurrency nor splitting.

use device_runtime::{DriverError, Failure, StreamStrategy};

use crate::{
    queue_state::{QueueState, is_in_task},
    scheduler::{Scheduler, SealedScheduler, StreamQueue},
    sync::{Arc, Mutex, MutexGuard},
    task::QueuedTask,
    thread_pool::ThreadPool,
};

/// Runs every task on the thread that submits it; deterministic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl SealedScheduler for Inline {}

impl Scheduler for Inline {
    type Queue = InlineQueue;

    fn name(&self) -> &'static str {
        "inline"
    }

    fn threads(&self) -> usize {
        1
    }

    /// Returns 1: tasks of more streams would not run at the same time.
    fn suggested_num_streams(&self, _strategy: StreamStrategy) -> usize {
        1
    }

    fn open(&self, stream: &str) -> Result<InlineQueue, DriverError> {
        let state = QueueState::new(stream, None);
        Ok(InlineQueue { state, pool: ThreadPool::new(1), running: Mutex::new(()) })
    }
}

/// A stream's queue whose tasks run on the threads that submit them, one at a time.
#[derive(Debug)]
pub struct InlineQueue {
    state: Arc<QueueState>,
    /// A pool of one thread, so kernels are not split.
    pool: ThreadPool,
    /// Held while a task runs.
    running: Mutex<()>,
}

impl InlineQueue {
    /// Locks the queue for a task. A task of one queue may run a task of another queue, but must not wait:
    /// neither for the lock, which its own thread may hold, nor for an event.
    fn lock_for(&self, task: &QueuedTask) -> Result<MutexGuard<'_, ()>, DriverError> {
        if !is_in_task() {
            return Ok(self.running.lock());
        }
        if task.is_pending_wait() {
            return Err(self.state.self_wait("waiting for an event"));
        }
        self.running.try_lock().ok_or_else(|| self.state.self_wait("running a task inside a task"))
    }
}

impl StreamQueue for InlineQueue {
    fn state(&self) -> &Arc<QueueState> {
        &self.state
    }

    fn submit(&self, task: QueuedTask) -> Result<(), DriverError> {
        let _running = self.lock_for(&task)?;
        let _busy = self.pool.enter();
        self.state.enter(|| task.run(&self.state, &self.pool));
        Ok(())
    }

    fn try_run(&self, task: QueuedTask) -> Result<Option<Failure>, QueuedTask> {
        let Ok(_running) = self.lock_for(&task) else { return Err(task) };
        let _busy = self.pool.enter();
        self.state.enter(|| task.run(&self.state, &self.pool));
        Ok(self.state.failure())
    }

    /// Fails where [`StreamQueue::try_run`] could not run the task, unless the queue has become free since.
    fn enqueue(&self, task: QueuedTask) -> Result<(), DriverError> {
        self.submit(task)
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn close(&self) {}

    fn debug_info(&self) -> String {
        let failure = self.state.failure().map_or_else(String::new, |failure| format!(", {failure}"));
        format!("{}: inline{failure}", self.state.stream())
    }
}
