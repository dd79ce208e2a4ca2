//! The tasks of queues. A task that fails makes its queue fail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use codegen_core::panic_message;
use device_runtime::{Failure, HostTask, Mark, WaitKind};

use crate::{
    event::EventState,
    pending_tasks::PendingTasks,
    queue_state::QueueState,
    raw::{HostAccess, MemoryTask, SequenceLaunch},
    sync::Arc,
    thread_pool::ThreadPool,
    timeline,
};

/// A task in the queue of a stream. Its kind is private: schedulers only decide which thread runs it.
#[derive(Debug)]
pub struct QueuedTask {
    kind: TaskKind,
    /// An event to reach after the task.
    signal: Option<Arc<EventState>>,
}

#[derive(Debug)]
enum TaskKind {
    /// Run a kernel, fill memory or copy.
    Memory(MemoryTask),
    /// Run the kernels of a routine.
    Sequence(Box<SequenceLaunch>),
    /// Reach an event.
    Signal(Arc<EventState>),
    /// Wait for another queue's event.
    Wait(Arc<EventState>, WaitKind),
    /// Report the begin or end of a section to the timeline.
    Mark(Mark),
    /// Call a function of the user.
    Host(HostTask),
    /// Call a function of the user on memory.
    HostAccess(Box<HostAccess>),
}

/// An estimate of how long a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskCost {
    /// Less time than passing it to another thread takes.
    None,
    /// Less time than waking a thread takes.
    Quick,
    /// Longer, or unknown.
    Unknown,
}

impl QueuedTask {
    pub(crate) fn memory(task: MemoryTask) -> QueuedTask {
        QueuedTask::new(TaskKind::Memory(task))
    }

    pub(crate) fn sequence(launch: SequenceLaunch) -> QueuedTask {
        QueuedTask::new(TaskKind::Sequence(Box::new(launch)))
    }

    pub(crate) fn signal(event: Arc<EventState>) -> QueuedTask {
        QueuedTask::new(TaskKind::Signal(event))
    }

    pub(crate) fn wait(event: Arc<EventState>, after: WaitKind) -> QueuedTask {
        QueuedTask::new(TaskKind::Wait(event, after))
    }

    pub(crate) fn host(task: HostTask) -> QueuedTask {
        QueuedTask::new(TaskKind::Host(task))
    }

    pub(crate) fn host_access(task: HostAccess) -> QueuedTask {
        QueuedTask::new(TaskKind::HostAccess(Box::new(task)))
    }

    pub(crate) fn mark(mark: Mark) -> QueuedTask {
        QueuedTask::new(TaskKind::Mark(mark))
    }

    fn new(kind: TaskKind) -> QueuedTask {
        QueuedTask { kind, signal: None }
    }

    /// The task, followed by an event of its queue.
    pub(crate) fn then_signal(self, event: Arc<EventState>) -> QueuedTask {
        QueuedTask { signal: Some(event), ..self }
    }

    /// Whether the task would block if it ran now.
    pub(crate) fn is_pending_wait(&self) -> bool {
        matches!(&self.kind, TaskKind::Wait(event, _) if event.poll().is_none())
    }

    /// How long the task would run now.
    pub(crate) fn cost(&self) -> TaskCost {
        match &self.kind {
            TaskKind::Memory(task) if task.is_tiny() => TaskCost::None,
            TaskKind::Memory(task) if task.is_quick() => TaskCost::Quick,
            TaskKind::Sequence(launch) if launch.is_tiny() => TaskCost::None,
            TaskKind::Sequence(launch) if launch.is_quick() => TaskCost::Quick,
            TaskKind::Memory(_) | TaskKind::Sequence(_) | TaskKind::Host(_) | TaskKind::HostAccess(_) => {
                TaskCost::Unknown
            }
            TaskKind::Wait(..) if self.is_pending_wait() => TaskCost::Unknown,
            TaskKind::Signal(_) | TaskKind::Wait(..) | TaskKind::Mark(_) => TaskCost::None,
        }
    }

    /// Runs the task on this thread, and a kernel on idle threads of the pool too if that pays off. A failed
    /// queue skips its work but not its waits: when one of its events is reached, everything before the event
    /// must be over.
    pub(crate) fn run(self, queue: &QueueState, pool: &ThreadPool) {
        match self.kind {
            TaskKind::Signal(event) => event.reach(queue.failure()),
            TaskKind::Wait(event, after) => {
                let _waiting = event.poll().is_none().then(|| pool.wait());
                if let (Err(failure), WaitKind::Data) = (event.wait(), after) {
                    queue.fail(failure);
                }
            }
            TaskKind::Mark(mark) => run_guarded(queue, "a timeline's mark", || {
                timeline::mark(queue.stream(), &mark);
                Ok(())
            }),
            TaskKind::Memory(task) => run_memory_task(task, queue, pool),
            TaskKind::Sequence(launch) => launch.each(|kernel| run_memory_task(kernel, queue, pool)),
            TaskKind::Host(HostTask { name, run }) => call_host(&name, run, queue),
            TaskKind::HostAccess(task) => {
                // It exchanges values with other processes, so it waits most of the time.
                let _waiting = pool.wait();
                let name = task.name().to_owned();
                call_host(&name, || task.run(), queue);
            }
        }
        if let Some(event) = self.signal {
            event.reach(queue.failure());
        }
    }
}

/// Runs the task, unless the queue has failed, and drops it.
fn run_memory_task(task: MemoryTask, queue: &QueueState, pool: &ThreadPool) {
    if queue.failure().is_none() {
        run_guarded(queue, task.name(), || {
            let _span = timeline::kernel(queue.stream(), &task);
            task.run(pool, queue.pending().map(PendingTasks::queue))
        });
    }
    // The task may hold the last reference to a module, whose destructor may panic as its kernels may.
    run_guarded(queue, "dropping a task", || {
        drop(task);
        Ok(())
    });
}

/// Runs code that may be the user's: a kernel, a destructor or a subscriber of `tracing`. Its error or panic
/// fails the queue.
fn run_guarded(queue: &QueueState, name: &str, body: impl FnOnce() -> Result<(), String>) {
    // AssertUnwindSafe: the queue's failure poisons whatever a panicking task wrote, so nobody reads it.
    let result = catch_unwind(AssertUnwindSafe(body));
    if let Err(message) = result.unwrap_or_else(|panic| Err(panic_message(panic))) {
        queue.fail(Failure::new(queue.stream().clone(), name, message));
    }
}

/// Calls a function of the user, unless the queue has failed; the function is then dropped.
fn call_host(name: &str, run: impl FnOnce() -> Result<(), String>, queue: &QueueState) {
    let skipped = queue.failure().is_some();
    // The closure owns the function, so a panic of its destructor is caught as well.
    run_guarded(queue, name, move || if skipped { Ok(()) } else { run() });
}
