//! Events: points in a stream's sequence of tasks, with an outcome that is set once.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use device_runtime::{DriverError, Failure};

use crate::{Result, api::RecordedEvent, stream::Stream};

/// The result of all tasks before an event.
pub(crate) type Outcome = Result<()>;

/// A point in a stream's sequence of tasks.
pub(crate) struct Event {
    /// The stream on which the event is recorded.
    pub(crate) stream: Arc<Stream>,
    /// The driver's event; `None` if all tasks before the event were done when it was recorded.
    pub(crate) recorded: Option<Arc<RecordedEvent>>,
    /// The failure of the stream when the event was recorded; it becomes the event's outcome.
    pub(crate) failure: Option<Failure>,
    outcome: OnceLock<Outcome>,
}

impl Event {
    pub(crate) fn new(
        stream: &Arc<Stream>,
        recorded: Option<Arc<RecordedEvent>>,
        failure: Option<Failure>,
    ) -> Arc<Event> {
        Arc::new(Event { stream: Arc::clone(stream), recorded, failure, outcome: OnceLock::new() })
    }

    /// The outcome, once it is known.
    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.outcome.get()
    }

    /// Sets the outcome after all tasks before the event are done.
    pub(crate) fn reach(&self) {
        let failed = self.failure.clone().map(DriverError::Failed);
        let _ = self.outcome.set(failed.map_or(Ok(()), Err));
    }

    /// Sets an error as the outcome of an event that will not be reached; the first outcome is kept.
    pub(crate) fn lose(&self, error: DriverError) {
        let _ = self.outcome.set(Err(error));
    }

    /// The error that is the event's outcome or will become it, if it is known already.
    pub(crate) fn error(&self) -> Option<DriverError> {
        match self.outcome() {
            Some(outcome) => outcome.clone().err(),
            None => self.failure.clone().map(DriverError::Failed),
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event of {}: {:?}", self.stream.name, self.outcome())
    }
}
