//! The tasks of a lane that has a worker: handing them over, working them off, and helping with them.
//!
//! A thread helps in two cases. One that waits for an event of the lane runs what waits before it, if the worker has not
//! begun: waking up takes longer than most tasks. And one that hands over a task which takes less time than waking the worker
//! runs it at once. Invariant: nobody helps from inside a task, so helping never nests.

use std::collections::VecDeque;

use device_runtime::DriverError;

use crate::{
    crew::Crew,
    event::EventState,
    lane::{LaneState, is_in_task},
    queue::{Offer, Pushed, Queue, Refused},
    sync::Arc,
    task::{Effort, Task},
};

/// A lane's queue and the threads that its kernels may be split over.
#[derive(Debug)]
pub(crate) struct Backlog {
    queue: Queue<Task>,
    crew: Arc<Crew>,
}

impl Backlog {
    pub(crate) fn new(queue: Queue<Task>, crew: Arc<Crew>) -> Backlog {
        Backlog { queue, crew }
    }

    pub(crate) fn queue(&self) -> &Queue<Task> {
        &self.queue
    }

    /// The life of the lane's worker.
    pub(crate) fn work(&self, lane: &LaneState) {
        let mut batch = VecDeque::new();
        lane.enter(|| {
            while self.queue.take(&mut batch) {
                let _busy = self.crew.enter();
                while let Some(task) = batch.pop_front() {
                    task.run(lane, &self.crew);
                }
            }
        });
    }

    /// Hands a task over. Waits for room, except inside a task.
    pub(crate) fn submit(&self, lane: &LaneState, task: Task) -> Result<(), DriverError> {
        let offer = match task.effort() {
            _ if is_in_task() => Offer::Leave,
            Effort::None => Offer::RunIfNext,
            Effort::Quick => Offer::RunInsteadOfWaking,
            Effort::Unknown => Offer::Wait,
        };
        match self.queue.push(task, offer) {
            Ok(Pushed::Queued) => Ok(()),
            Ok(Pushed::Yours(task, _turn)) => {
                let _busy = self.crew.enter();
                lane.enter(|| task.run(lane, &self.crew));
                Ok(())
            }
            Err(Refused::Full) => Err(lane.self_wait("enqueueing into its full queue")),
            Err(Refused::Closed) => Err(DriverError::Platform {
                what: "enqueueing",
                message: format!("{} has ended", lane.stream()),
            }),
        }
    }

    /// Runs what waits up to an event of the lane, unless somebody else runs the lane's tasks. Not for use inside tasks.
    pub(crate) fn help(&self, lane: &LaneState, event: &EventState) {
        self.queue.note_waiting();
        let Some(turn) = self.queue.help() else { return };
        let _busy = self.crew.enter();
        lane.enter(|| {
            while event.poll().is_none()
                && let Some(task) = turn.next()
            {
                task.run(lane, &self.crew);
            }
        });
    }
}
