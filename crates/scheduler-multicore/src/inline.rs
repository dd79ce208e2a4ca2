//! The scheduler without threads: every task runs at once, on the thread that submits it.
//!
//! The twin of [`crate::Multicore`] for debugging and for reference: the same calls, no concurrency, no splitting.

use device_runtime::{DriverError, StreamStrategy};

use crate::{
    crew::Crew,
    lane::{Lane, LaneState, Scheduler, Sealed, is_in_task},
    sync::{Arc, Mutex, MutexGuard},
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

    fn open(&self, stream: &str) -> Result<Caller, DriverError> {
        Ok(Caller { state: LaneState::new(stream, None), crew: Crew::new(1), turn: Mutex::new(()) })
    }
}

/// A stream whose tasks run on whichever thread submits them, one at a time.
#[derive(Debug)]
pub struct Caller {
    state: Arc<LaneState>,
    crew: Crew,
    turn: Mutex<()>,
}

impl Caller {
    /// The turn to run a task. A task of one lane may run another lane's, but not wait for it: neither for its turn, which may
    /// be this very thread's, nor in it.
    fn turn(&self, task: &Task) -> Result<MutexGuard<'_, ()>, DriverError> {
        if !is_in_task() {
            return Ok(self.turn.lock());
        }
        if task.is_pending_wait() {
            return Err(self.state.self_wait("waiting for an event"));
        }
        self.turn.try_lock().ok_or_else(|| self.state.self_wait("running a task inside a task"))
    }
}

impl Lane for Caller {
    fn state(&self) -> &Arc<LaneState> {
        &self.state
    }

    fn submit(&self, task: Task) -> Result<(), DriverError> {
        let _turn = self.turn(&task)?;
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
