//! Streams and events of a device with faults: each wraps one of the inner driver and adds injected faults.

use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use super::plan::FaultDice;
use crate::{
    driver::{Driver, EventHandle, StreamHandle},
    error::{DriverError, Failure, Result},
    pool::lock,
};

#[derive(Debug)]
pub(super) struct FaultStream {
    pub(super) inner: StreamHandle,
    pub(super) name: String,
    pub(super) dice: FaultDice,
    injected: Mutex<Option<InjectedFailure>>,
    /// The number of recorded events. Events of the stream are numbered from 1.
    recorded: AtomicU64,
    /// The number of the last event that was reported as done. Earlier events never answer "pending"
    /// afterwards, since an event implies that everything before it is done.
    seen: AtomicU64,
    /// Set once the device is lost.
    lost: Arc<OnceLock<DriverError>>,
}

/// A failure that the inner driver did not report.
#[derive(Debug)]
struct InjectedFailure {
    failure: Failure,
    /// An event that the inner driver recorded after all earlier tasks. A failure of these tasks takes
    /// precedence.
    behind: Option<EventHandle>,
    /// The number of tasks that are still accepted and skipped before the stream reports its failure, because
    /// a real driver notices failures late too.
    unnoticed: u32,
}

/// The decision about a task.
pub(super) enum Admission {
    Run,
    Skip,
}

impl FaultStream {
    pub(super) fn new(
        inner: StreamHandle,
        name: &str,
        seed: u64,
        lost: Arc<OnceLock<DriverError>>,
    ) -> FaultStream {
        FaultStream {
            inner,
            name: name.to_owned(),
            dice: FaultDice::new(seed, name),
            injected: Mutex::default(),
            recorded: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            lost,
        }
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        lock(&self.injected).as_ref().map(|injected| injected.failure.clone())
    }

    /// Fails the stream, unless it has failed already.
    pub(super) fn fail(&self, inner: &dyn Driver, failure: Failure) {
        let (unnoticed, behind) = (self.dice.below(3), inner.record(&self.inner).ok());
        lock(&self.injected).get_or_insert(InjectedFailure { failure, behind, unnoticed });
    }

    /// Decides whether a task may run.
    ///
    /// # Errors
    ///
    /// The stream's failure, once it is noticed.
    pub(super) fn admit(&self, inner: &dyn Driver) -> Result<Admission> {
        let injected = &mut *lock(&self.injected);
        let Some(injected) = injected else { return Ok(Admission::Run) };
        let reached = injected.behind.as_ref().map_or(Ok(true), |event| inner.is_done(event));
        if reached? && injected.unnoticed == 0 {
            return Err(DriverError::Failed(injected.failure.clone()));
        }
        injected.unnoticed = injected.unnoticed.saturating_sub(1);
        Ok(Admission::Skip)
    }

    /// Clears the failure after a reset, when everything submitted is done.
    pub(super) fn clear_failure(&self) {
        *lock(&self.injected) = None;
        self.see(self.recorded.load(Ordering::Relaxed));
    }

    /// Notes that everything ever submitted is done.
    pub(super) fn end(&self) {
        self.see(u64::MAX);
    }

    fn see(&self, number: u64) {
        self.seen.fetch_max(number, Ordering::Relaxed);
    }

    /// An event of the stream around an event of the inner driver. It answers up to `late` polls with
    /// "pending" although it is done.
    pub(super) fn event(self: &Arc<Self>, inner: EventHandle, late: u32) -> FaultEvent {
        FaultEvent {
            inner,
            failure: self.failure(),
            number: 1 + self.recorded.fetch_add(1, Ordering::Relaxed),
            late: AtomicU32::new(late),
            stream: Arc::clone(self),
        }
    }
}

#[derive(Debug)]
pub(super) struct FaultEvent {
    pub(super) inner: EventHandle,
    /// The failure of its stream when the event was recorded, if the inner driver does not know of it.
    failure: Option<Failure>,
    pub(super) stream: Arc<FaultStream>,
    number: u64,
    late: AtomicU32,
}

impl FaultEvent {
    /// Whether a caller has learned that the event is done.
    fn is_seen(&self) -> bool {
        self.stream.seen.load(Ordering::Relaxed) >= self.number
    }

    /// Whether to answer "pending" although the event is done.
    pub(super) fn delays_completion(&self) -> bool {
        let less = |late: u32| late.checked_sub(1);
        !self.is_seen()
            && self.stream.lost.get().is_none()
            && self.late.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// The error of the lost device, if the device was lost before a caller learned that the event is done.
    fn lost_first(&self) -> Option<&DriverError> {
        self.stream.lost.get().filter(|_| !self.is_seen())
    }

    /// The failure of the event, if the inner driver does not know of it.
    pub(super) fn failure(&self) -> Option<Failure> {
        let lost = |lost: &DriverError| Failure::new(self.stream.name.as_str(), "event", lost.to_string());
        self.lost_first().map(lost).or_else(|| self.failure.clone())
    }

    /// The outcome of the event. `inner` is the outcome of the inner event, which is done, or the error of a
    /// call that could not ask for it.
    pub(super) fn outcome(&self, inner: Result<()>) -> Result<()> {
        if !matches!(inner, Ok(()) | Err(DriverError::Failed(_))) {
            return inner; // not an event that is done
        }
        if let Some(lost) = self.lost_first() {
            return Err(lost.clone());
        }
        self.stream.see(self.number);
        inner?;
        self.failure.clone().map_or(Ok(()), |failure| Err(DriverError::Failed(failure)))
    }
}
