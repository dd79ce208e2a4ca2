//! The scheduler without threads: every task runs at once, on the thread that submits it.
//!
//! The twin of [`crate::Multicore`] for debugging and for reference: the same calls, no concurrency, no splitting.

use device_runtime::{DriverError, StreamStrategy};

use crate::{
    crew::Crew,
    lane::{Lane, LaneState, Scheduler, Sealed},
    sync::{Arc, Mutex},
    task::Task,
};

/// Runs everything on the caller's thread; deterministic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl Sealed for Inline {}

impl Scheduler for Inline {
    type Lane = Caller;

    fn name(&self) -> &'static str {
        "inline"
    }

    fn threads(&self) -> usize {
        1
    }

    /// One: more would not run at the same time.
    fn suggested_num_streams(&self, _strategy: StreamStrategy) -> usize {
        1
    }

    fn open(&self, state: Arc<LaneState>) -> Result<Caller, DriverError> {
        Ok(Caller { state, crew: Crew::new(1), turn: Mutex::new(()) })
    }
}

/// A stream whose tasks run on whichever thread submits them, one at a time.
#[derive(Debug)]
pub struct Caller {
    state: Arc<LaneState>,
    crew: Crew,
    turn: Mutex<()>,
}

impl Lane for Caller {
    fn submit(&self, task: Task) -> Result<(), DriverError> {
        if self.state.is_current() {
            let stream = self.state.stream().to_string();
            return Err(DriverError::SelfWait { stream, doing: "running a task inside a task" });
        }
        let _turn = self.turn.lock();
        self.state.enter(|| task.run(&self.state, &self.crew));
        Ok(())
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
