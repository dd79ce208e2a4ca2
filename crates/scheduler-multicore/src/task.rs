//! Tasks: what lanes run, and what becomes of the lane when one fails.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use device_runtime::{After, Failure};

use crate::{crew::Crew, event::EventState, lane::LaneState, raw::Work, sync::Arc};

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
            Step::Work(work) if lane.failure().is_none() => perform(&work, lane, crew),
            Step::Work(_) => {}
        }
    }
}

fn perform(work: &Work, lane: &LaneState, crew: &Crew) {
    // AssertUnwindSafe: what a panicking task wrote is poisoned by the lane's failure, so nobody looks at it.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work.perform(crew))) {
        lane.fail(Failure::new(lane.stream().clone(), work.name(), panic_message(&*panic)));
    }
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}
