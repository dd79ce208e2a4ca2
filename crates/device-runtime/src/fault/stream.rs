//! Streams and events of a device with faults: those of the driver inside, and what was made of them.

use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use super::plan::Dice;
use crate::{
    driver::{Driver, EventHandle, StreamHandle},
    error::{DriverError, Failure},
    pool::lock,
};

/// A stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) inner: StreamHandle,
    pub(super) name: String,
    pub(super) dice: Dice,
    trouble: Mutex<Option<Trouble>>,
    /// How many events were recorded. Events of the stream are numbered from 1.
    recorded: AtomicU64,
    /// The number of the last event that was seen done. Earlier ones are never said to be pending any more, since an event says
    /// that everything before it is done.
    seen: AtomicU64,
    /// Set once the device is lost.
    lost: Arc<OnceLock<DriverError>>,
}

/// A failure that the driver inside knows nothing of.
#[derive(Debug)]
struct Trouble {
    failure: Failure,
    /// An event of the driver inside behind everything that came before, since a failure there comes first.
    behind: Option<EventHandle>,
    /// How many more tasks are accepted, and skipped, before the stream says that it failed: a driver notices late, too.
    unnoticed: u32,
}

/// What is to be done with a task.
pub(super) enum Admission {
    Run,
    Skip,
}

impl Stream {
    pub(super) fn new(
        inner: StreamHandle,
        name: &str,
        seed: u64,
        lost: Arc<OnceLock<DriverError>>,
    ) -> Stream {
        Stream {
            inner,
            name: name.to_owned(),
            dice: Dice::new(seed, name),
            trouble: Mutex::default(),
            recorded: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            lost,
        }
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        lock(&self.trouble).as_ref().map(|trouble| trouble.failure.clone())
    }

    /// Fails the stream, unless it has failed already.
    pub(super) fn fail(&self, inner: &dyn Driver, failure: Failure) {
        let (unnoticed, behind) = (self.dice.below(3), inner.record(&self.inner).ok());
        lock(&self.trouble).get_or_insert(Trouble { failure, behind, unnoticed });
    }

    /// Whether a task may run.
    ///
    /// # Errors
    ///
    /// The stream's failure, once it is noticed.
    pub(super) fn admit(&self, inner: &dyn Driver) -> Result<Admission, DriverError> {
        let trouble = &mut *lock(&self.trouble);
        let Some(trouble) = trouble else { return Ok(Admission::Run) };
        let reached = trouble.behind.as_ref().map_or(Ok(true), |event| inner.is_done(event));
        if reached? && trouble.unnoticed == 0 {
            return Err(DriverError::Failed(trouble.failure.clone()));
        }
        trouble.unnoticed = trouble.unnoticed.saturating_sub(1);
        Ok(Admission::Skip)
    }

    /// Everything handed over is done and nothing has failed.
    pub(super) fn forgive(&self) {
        *lock(&self.trouble) = None;
        self.see(self.recorded.load(Ordering::Relaxed));
    }

    /// Everything ever handed over is done.
    pub(super) fn end(&self) {
        self.see(u64::MAX);
    }

    fn see(&self, number: u64) {
        self.seen.fetch_max(number, Ordering::Relaxed);
    }

    /// An event of the stream around one of the driver inside; it is said to be pending `late` times too often.
    pub(super) fn event(self: &Arc<Self>, inner: EventHandle, late: u32) -> Event {
        Event {
            inner,
            failure: self.failure(),
            number: 1 + self.recorded.fetch_add(1, Ordering::Relaxed),
            late: AtomicU32::new(late),
            stream: Arc::clone(self),
        }
    }
}

/// An event.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) inner: EventHandle,
    /// The failure of its stream at the time, where the driver inside knows nothing of it.
    failure: Option<Failure>,
    pub(super) stream: Arc<Stream>,
    number: u64,
    late: AtomicU32,
}

impl Event {
    /// Whether anybody was told that the event is done.
    fn is_seen(&self) -> bool {
        self.stream.seen.load(Ordering::Relaxed) >= self.number
    }

    /// Whether to say that the event is pending although it is done.
    pub(super) fn pretends(&self) -> bool {
        let less = |late: u32| late.checked_sub(1);
        !self.is_seen()
            && self.stream.lost.get().is_none()
            && self.late.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// The loss of the device, if it came before anybody was told that the event is done.
    fn loss(&self) -> Option<&DriverError> {
        self.stream.lost.get().filter(|_| !self.is_seen())
    }

    /// Why the event fails, where the driver inside knows nothing of it.
    pub(super) fn failure(&self) -> Option<Failure> {
        let lost = |lost: &DriverError| Failure::new(self.stream.name.as_str(), "event", lost.to_string());
        self.loss().map(lost).or_else(|| self.failure.clone())
    }

    /// What the event says, given what the driver inside says now that it is done.
    pub(super) fn outcome(&self, inner: Result<(), DriverError>) -> Result<(), DriverError> {
        if !matches!(inner, Ok(()) | Err(DriverError::Failed(_))) {
            return inner; // not an event that is done
        }
        if let Some(lost) = self.loss() {
            return Err(lost.clone());
        }
        self.stream.see(self.number);
        inner?;
        self.failure.clone().map_or(Ok(()), |failure| Err(DriverError::Failed(failure)))
    }
}
