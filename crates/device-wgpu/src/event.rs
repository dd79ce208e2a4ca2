//! Events: points in a stream's sequence of tasks, with an outcome that is set once.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use device_runtime::DriverError;

use crate::stream::Stream;

/// The result of all tasks before an event.
pub(crate) type Outcome = Result<(), DriverError>;

/// A point in a stream's sequence of tasks.
pub(crate) struct Event {
    /// The stream on which the event is recorded.
    pub(crate) stream: Arc<Stream>,
    outcome: OnceLock<Outcome>,
}

impl Event {
    pub(crate) fn new(stream: &Arc<Stream>) -> Arc<Event> {
        Arc::new(Event { stream: Arc::clone(stream), outcome: OnceLock::new() })
    }

    /// The outcome, once it is known.
    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.outcome.get()
    }

    /// Sets the outcome; later calls have no effect.
    pub(crate) fn reach(&self, outcome: Outcome) {
        let _ = self.outcome.set(outcome);
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event of {}: {:?}", self.stream.name, self.outcome())
    }
}
