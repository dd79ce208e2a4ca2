//! Tasks: what lanes run, and what becomes of the lane when one fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use codegen_core::panic_message;
use device_runtime::{After, Failure, HostTask, Mark};

use crate::{crew::Crew, event::EventState, lane::LaneState, raw::Work, sync::Arc, timeline};

/// One step of a stream. Opaque to schedulers, which only decide where it runs.
#[derive(Debug)]
pub struct Task(Step);

#[derive(Debug)]
enum Step {
    /// Touch memory.
    Work(Work),
    /// Reach an event.
    Signal(Arc<EventState>),
    /// Wait for another lane's event.
    Wait(Arc<EventState>, After),
    /// Tell the timeline.
    Mark(Mark),
    /// Call a function of the host's.
    Host(HostTask),
}

/// What running a task takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Next to nothing.
    None,
    /// Less than waking a thread.
    Quick,
    /// Nobody knows.
    Unknown,
}

impl Task {
    pub(crate) fn work(work: Work) -> Task {
        Task(Step::Work(work))
    }

    pub(crate) fn signal(event: Arc<EventState>) -> Task {
        Task(Step::Signal(event))
    }

    pub(crate) fn wait(event: Arc<EventState>, after: After) -> Task {
        Task(Step::Wait(event, after))
    }

    pub(crate) fn host(task: HostTask) -> Task {
        Task(Step::Host(task))
    }

    pub(crate) fn mark(mark: Mark) -> Task {
        Task(Step::Mark(mark))
    }

    /// Whether the task would have to wait, were it run now.
    pub(crate) fn is_pending_wait(&self) -> bool {
        matches!(&self.0, Step::Wait(event, _) if event.poll().is_none())
    }

    /// What running the task now takes.
    pub(crate) fn effort(&self) -> Effort {
        match &self.0 {
            Step::Work(work) if work.is_quick() => Effort::Quick,
            Step::Work(_) | Step::Host(_) => Effort::Unknown,
            Step::Wait(..) if self.is_pending_wait() => Effort::Unknown,
            Step::Signal(_) | Step::Wait(..) | Step::Mark(_) => Effort::None,
        }
    }

    /// Runs the task on this thread, with idle threads of the crew if it is worth it. A failed lane's work is skipped; its
    /// waits are not, because its events promise what came before those.
    pub(crate) fn run(self, lane: &LaneState, crew: &Crew) {
        match self.0 {
            Step::Signal(event) => event.reach(lane.failure()),
            Step::Wait(event, after) => {
                if let (Err(failure), After::Data) = (event.wait(), after) {
                    lane.fail(failure);
                }
            }
            Step::Mark(mark) => guarded(lane, "a timeline's mark", || timeline::mark(lane.stream(), &mark)),
            Step::Work(work) => perform(work, lane, crew),
            Step::Host(task) => call(task, lane),
        }
    }
}

/// Does the work, unless the lane has failed, and drops it.
fn perform(work: Work, lane: &LaneState, crew: &Crew) {
    if lane.failure().is_none() {
        guarded(lane, work.name(), || {
            let _span = timeline::kernel(lane.stream(), &work);
            work.perform(crew);
        });
    }
    // The last share of a module may be the task's, and dropping that is as much the module's code as running it.
    guarded(lane, "dropping a task", || drop(work));
}

/// Runs code that may be a user's: a kernel, a destructor, a subscriber of `tracing`. Its panic fails the lane.
fn guarded(lane: &LaneState, name: &str, body: impl FnOnce()) {
    // AssertUnwindSafe: what a panicking task wrote is poisoned by the lane's failure, so nobody looks at it.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
        lane.fail(Failure::new(lane.stream().clone(), name, panic_message(panic)));
    }
}

/// Calls a function of the host's, unless the lane has failed.
fn call(HostTask { name, run }: HostTask, lane: &LaneState) {
    let skipped = lane.failure().is_some();
    // AssertUnwindSafe: the function is gone afterwards, with all it owned.
    let called = catch_unwind(AssertUnwindSafe(move || match skipped {
        true => Ok(()),
        false => run(),
    }));
    let failed = match called {
        Ok(result) => result.err(),
        Err(panic) => Some(panic_message(panic)),
    };
    if let Some(message) = failed {
        lane.fail(Failure::new(lane.stream().clone(), name, message));
    }
}
