//! Events: points in a stream, whose outcome is set once.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use device_runtime::{DriverError, Failure};

use crate::{api::Mark, stream::Stream};

/// What became of everything in front of an event.
pub(crate) type Outcome = Result<(), DriverError>;

/// A point in a stream's work.
pub(crate) struct Event {
    /// The stream that reaches it.
    pub(crate) stream: Arc<Stream>,
    /// Where it is; none if everything in front of it was done when it was made.
    pub(crate) mark: Option<Arc<Mark>>,
    /// The failure of the stream when it was made: what it will have been reached with.
    pub(crate) failure: Option<Failure>,
    outcome: OnceLock<Outcome>,
}

impl Event {
    pub(crate) fn new(stream: &Arc<Stream>, mark: Option<Arc<Mark>>, failure: Option<Failure>) -> Arc<Event> {
        Arc::new(Event { stream: Arc::clone(stream), mark, failure, outcome: OnceLock::new() })
    }

    /// The outcome, once it is known.
    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.outcome.get()
    }

    /// Everything in front of it is done.
    pub(crate) fn reach(&self) {
        let failed = self.failure.clone().map(DriverError::Failed);
        let _ = self.outcome.set(failed.map_or(Ok(()), Err));
    }

    /// It will not be reached; the first outcome counts.
    pub(crate) fn lose(&self, error: DriverError) {
        let _ = self.outcome.set(Err(error));
    }

    /// The error that it is, or will be, reached with, as far as that is known.
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
