//! A device and its queue, with every way in which wgpu reports that something is wrong turned into values.
//!
//! wgpu reports errors in four ways: error scopes (which belong to a thread), a callback when the device is lost, results, and panics
//! (a wait that finds the device lost panics). [`Gpu::checked`] and [`Gpu::poll`] are the only places that know. Once a device is
//! lost, whatever asks is told so, and nothing waits for it any more.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use codegen_core::panic_message;
use device_runtime::DriverError;
use wgpu::{ErrorFilter, Limits, PollType, SubmissionIndex};

use crate::adapter::Opened;

/// How long a wait goes without looking whether the device is lost. Longer than kernels take: where a wait ends before what it waits for, and
/// another thread sees that done in the next moment, wgpu 30 panics over a queue that is empty too early.
const PATIENCE: Duration = Duration::from_secs(10);

/// Polls without waiting are at least this far apart: each costs as much as recording several tasks.
const POLL_INTERVAL: Duration = Duration::from_micros(20);

/// Locks; our values are never half-written by a panic elsewhere.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A device of an adapter.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) limits: Limits,
    lost: Arc<OnceLock<String>>,
    opened: Instant,
    /// Nanoseconds since `opened` of the last poll that did not wait.
    polled: AtomicU64,
}

/// What wgpu objected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Objection {
    /// No memory.
    OutOfMemory,
    /// It holds what was asked for wrong, or failed inside.
    Refused(String),
    /// The device is gone.
    Lost(String),
}

impl Gpu {
    pub(crate) fn new(opened: &Opened) -> Gpu {
        let lost = Arc::new(OnceLock::new());
        let losing = Arc::clone(&lost);
        opened.device.set_device_lost_callback(move |reason, message| {
            // The first reason given counts.
            let _ = losing.set(format!("{reason:?}: {message}"));
        });
        // What no scope catches is nobody's task; without a handler it would be a panic.
        opened
            .device
            .on_uncaptured_error(Arc::new(|error| tracing::error!(%error, "wgpu, outside of any task")));
        Gpu {
            device: opened.device.clone(),
            queue: opened.queue.clone(),
            limits: opened.device.limits(),
            lost,
            opened: Instant::now(),
            polled: AtomicU64::new(0),
        }
    }

    /// Marks the device lost.
    pub(crate) fn lose(&self, why: &str) {
        let _ = self.lost.set(why.to_owned());
    }

    /// Why the device is lost, if it is.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// # Errors
    ///
    /// [`DriverError::Lost`].
    pub(crate) fn alive(&self) -> Result<(), DriverError> {
        self.lost().map_or(Ok(()), |why| Err(lost_error(why)))
    }

    /// Does something with the device and tells what it objected to.
    pub(crate) fn checked<T>(&self, body: impl FnOnce() -> Result<T, Objection>) -> Result<T, Objection> {
        let filters = [ErrorFilter::OutOfMemory, ErrorFilter::Internal, ErrorFilter::Validation];
        let scopes = filters.map(|filter| self.device.push_error_scope(filter));
        // AssertUnwindSafe: what the body made is dropped with the panic, and locks here have no half-written values.
        let result = catch_unwind(AssertUnwindSafe(body));
        // Popped in reverse, as they must be; on native platforms the answers are there at once.
        let mut errors: Vec<_> =
            scopes.into_iter().rev().map(|scope| pollster::block_on(scope.pop())).collect();
        if let Some(why) = self.lost() {
            return Err(Objection::Lost(why.to_owned()));
        }
        let result = result.unwrap_or_else(|panic| Err(Objection::Refused(panic_message(panic))));
        match errors.drain(..).flatten().next() {
            Some(wgpu::Error::OutOfMemory { .. }) => Err(Objection::OutOfMemory),
            Some(error) => Err(Objection::Refused(error.to_string().trim().to_owned())),
            None => result,
        }
    }

    /// Lets wgpu notice what is done, unless it just did.
    pub(crate) fn poll(&self) {
        let now = u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let last = self.polled.load(Ordering::Relaxed);
        if now.saturating_sub(last) >= POLL_INTERVAL.as_nanos() as u64 {
            self.polled.store(now, Ordering::Relaxed);
            self.poll_for(PollType::Poll);
        }
    }

    /// Waits until a submission is done, or a moment has passed; whoever calls looks again.
    pub(crate) fn wait(&self, submission: &SubmissionIndex) {
        let wait = PollType::Wait { submission_index: Some(submission.clone()), timeout: Some(PATIENCE) };
        self.poll_for(wait);
    }

    fn poll_for(&self, how: PollType) {
        if self.lost().is_some() {
            return;
        }
        match catch_unwind(AssertUnwindSafe(|| self.device.poll(how))) {
            Ok(Ok(_) | Err(wgpu::PollError::Timeout)) => {}
            Ok(Err(error)) => self.lose(&error.to_string()),
            Err(panic) => self.lose(&panic_message(panic)),
        }
    }
}

impl Objection {
    /// As the answer to what was tried, in words.
    pub(crate) fn driver_error(self, what: &'static str, requested: usize, used: usize) -> DriverError {
        match self {
            Objection::OutOfMemory => DriverError::OutOfMemory { requested, used },
            Objection::Refused(message) => DriverError::Platform { what, message },
            Objection::Lost(why) => lost_error(&why),
        }
    }
}

pub(crate) fn lost_error(why: &str) -> DriverError {
    DriverError::Lost { driver: "wgpu".to_owned(), message: why.to_owned() }
}
