//! The pending tasks of a queue that has a worker: submitting them, and running them on the worker or on a
//! caller's thread.
//!
//! A caller runs tasks itself in two cases, because waking a worker takes longer than most tasks. A caller
//! that waits for an event of the queue runs the tasks before that event, if the worker has not begun them. A
//! caller that submits a task which takes less time than waking the worker runs it at once. The worker then
//! helps the caller with its kernels. Invariant: a thread that runs a task runs no other task inside it.

use std::collections::VecDeque;

use device_runtime::{DriverError, Failure};

use crate::{
    bounded_queue::{BoundedQueue, PushError, PushMode, Pushed, Taken},
    event::EventState,
    queue_state::{QueueState, is_in_task},
    sync::Arc,
    task::{QueuedTask, TaskCost},
    thread_pool::{ShareTask, ThreadPool},
};

/// The queue of a stream, whose worker also executes shares of kernels.
pub(crate) type TaskQueue = BoundedQueue<QueuedTask, ShareTask>;

/// A bounded queue of tasks, and the thread pool that their kernels are split over.
#[derive(Debug)]
pub(crate) struct PendingTasks {
    queue: TaskQueue,
    pool: Arc<ThreadPool>,
}

impl PendingTasks {
    pub(crate) fn new(queue: TaskQueue, pool: Arc<ThreadPool>) -> PendingTasks {
        PendingTasks { queue, pool }
    }

    pub(crate) fn queue(&self) -> &TaskQueue {
        &self.queue
    }

    /// The worker's main loop: runs tasks until the queue is closed and empty.
    pub(crate) fn work(&self, state: &QueueState) {
        let mut batch = VecDeque::new();
        self.queue.enter_worker();
        state.enter(|| {
            while let Some(taken) = self.queue.take(&mut batch) {
                if let Taken::Share(share) = taken {
                    share.execute(|| self.queue.release_worker());
                    continue;
                }
                let _busy = self.pool.enter();
                while let Some(task) = batch.pop_front() {
                    task.run(state, &self.pool);
                }
            }
        });
    }

    /// Submits a task. Waits for room, except inside a task.
    pub(crate) fn submit(&self, state: &QueueState, task: QueuedTask) -> Result<(), DriverError> {
        self.submit_as(mode(&task), state, task)
    }

    /// Runs a task on this thread, if it is the next one and takes too little time for another thread to be
    /// worth it. Returns the failure of the queue afterwards, or the task if it must be
    /// [enqueued](PendingTasks::enqueue).
    pub(crate) fn try_run(
        &self,
        state: &QueueState,
        task: QueuedTask,
    ) -> Result<Option<Failure>, QueuedTask> {
        let Some(_role) = self.queue.try_run(mode(&task)) else { return Err(task) };
        self.run_now(state, task);
        Ok(state.failure())
    }

    /// Submits a task that [`PendingTasks::try_run`] returned.
    pub(crate) fn enqueue(&self, state: &QueueState, task: QueuedTask) -> Result<(), DriverError> {
        let mode = if is_in_task() { PushMode::NonBlocking } else { PushMode::Blocking };
        self.submit_as(mode, state, task)
    }

    fn submit_as(&self, mode: PushMode, state: &QueueState, task: QueuedTask) -> Result<(), DriverError> {
        match self.queue.push(task, mode) {
            Ok(Pushed::Queued) => Ok(()),
            Ok(Pushed::RunNow(task, _role)) => {
                self.run_now(state, task);
                Ok(())
            }
            Err(PushError::Full) => Err(state.self_wait("enqueueing into its full queue")),
            Err(PushError::Closed) => Err(DriverError::Platform {
                what: "enqueueing",
                message: format!("{} has ended", state.stream()),
            }),
        }
    }

    /// Runs a task on this thread, which is the consumer.
    fn run_now(&self, state: &QueueState, task: QueuedTask) {
        let _busy = self.pool.enter();
        state.enter(|| task.run(state, &self.pool));
    }

    /// Runs the tasks up to an event of the queue, unless another thread is the consumer. Must not be called
    /// inside a task.
    pub(crate) fn run_until(&self, state: &QueueState, event: &EventState) {
        self.queue.note_waiter();
        let Some(role) = self.queue.try_consume() else { return };
        let _busy = self.pool.enter();
        state.enter(|| {
            while event.poll().is_none()
                && let Some(task) = role.next()
            {
                task.run(state, &self.pool);
            }
        });
    }
}

/// The means by which the calling thread may get its task executed.
fn mode(task: &QueuedTask) -> PushMode {
    match task.cost() {
        _ if is_in_task() => PushMode::NonBlocking,
        TaskCost::None => PushMode::RunIfNext,
        TaskCost::Quick => PushMode::RunIfWorkerSleeps,
        TaskCost::Unknown => PushMode::Blocking,
    }
}

#[cfg(all(test, not(feature = "loom")))]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::{cell::Cell, thread, time::Duration};

    use super::*;
    use crate::{multicore::MulticoreQueue, raw::MemoryTask, scheduler::StreamQueue as _};

    thread_local! {
        static RUNS_HERE: Cell<usize> = const { Cell::new(0) };
    }

    extern "C" fn count(_: *const *mut u8, _: *const i64, _: *mut u8, _: u64, _: u64) {
        RUNS_HERE.set(RUNS_HERE.get() + 1);
    }

    /// A queue whose worker sleeps.
    fn queue() -> MulticoreQueue {
        let pending = PendingTasks::new(BoundedQueue::new(64, Duration::ZERO), Arc::new(ThreadPool::new(2)));
        let queue = MulticoreQueue::start(QueueState::new("stream", Some(pending))).unwrap();
        while queue.state().pending().unwrap().queue().has_idle_worker() {
            thread::yield_now();
        }
        queue
    }

    /// Submits kernels whose running time is known, and returns how many of them this thread ran meanwhile.
    fn runs_here(queue: &MulticoreQueue, kernels: usize, nanoseconds: u64) -> usize {
        let before = RUNS_HERE.get();
        for _ in 0..kernels {
            let kernel = MemoryTask::measured(count, Duration::from_nanos(nanoseconds));
            queue.submit(QueuedTask::memory(kernel)).unwrap();
        }
        RUNS_HERE.get() - before
    }

    #[test]
    fn quick_kernels_do_not_wake_the_worker_unless_the_producer_runs_ahead() {
        let queue = queue();
        assert_eq!(runs_here(&queue, 32, 3_000), 32);
        assert!(!queue.state().pending().unwrap().queue().has_idle_worker(), "the worker sleeps");
        assert_eq!(runs_here(&queue, 1, 3_000), 0);
    }

    #[test]
    fn a_producer_that_waits_runs_more_quick_kernels() {
        let queue = queue();
        for _ in 0..3 {
            assert_eq!(runs_here(&queue, 32, 3_000), 32);
            queue.state().pending().unwrap().queue().note_waiter();
        }
    }

    #[test]
    fn kernels_that_take_less_time_than_enqueueing_them_all_run_on_their_producer() {
        assert_eq!(runs_here(&queue(), 200, 400), 200);
    }

    #[test]
    fn longer_kernels_and_those_of_unknown_time_are_left_to_the_worker() {
        assert_eq!(runs_here(&queue(), 3, 3_001), 0);
        assert_eq!(runs_here(&queue(), 3, u64::MAX), 0);
    }
}
