//! A wgpu device and its queue, with all of wgpu's ways of reporting errors turned into values.
//!
//! wgpu reports errors in four ways: error scopes (one stack per thread), a callback when the device is lost,
//! results, and panics (a wait panics if it finds that the device is lost). Only [`Gpu::checked`] and
//! [`Gpu::poll`] handle them. Once a device is lost, every call fails with that error, and nothing waits for
//! the device any more.

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

use crate::adapter::OpenedAdapter;

/// Time after which a wait ends to check whether the device is lost. It is longer than kernels take, so that
/// waits rarely time out. A timeout is a risk: wgpu 30 panics if a wait times out just before its submission
/// completes, and another thread observes the completion and empties wgpu's queue.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Minimum interval between polls that do not wait. A poll costs as much as recording several tasks.
const POLL_INTERVAL: Duration = Duration::from_micros(20);

/// Locks a mutex and ignores poisoning, since a panic elsewhere leaves no value half-written.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A wgpu device, its queue and its limits.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) limits: Limits,
    lost: Arc<OnceLock<String>>,
    opened: Instant,
    /// Time of the last poll that did not wait, in nanoseconds since `opened`.
    polled: AtomicU64,
}

/// An error of wgpu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GpuError {
    OutOfMemory,
    /// wgpu rejected the call, or failed internally.
    Rejected(String),
    /// The device is lost.
    Lost(String),
}

impl Gpu {
    pub(crate) fn new(opened: &OpenedAdapter) -> Gpu {
        let lost = Arc::new(OnceLock::new());
        let losing = Arc::clone(&lost);
        opened.device.set_device_lost_callback(move |reason, message| {
            // An error means that there is a reason already: the first one is kept.
            let _ = losing.set(format!("{reason:?}: {message}"));
        });
        // Errors outside of all scopes belong to no task. Without a handler, wgpu would panic.
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

    /// Marks the device as lost.
    pub(crate) fn lose(&self, why: &str) {
        let _ = self.lost.set(why.to_owned());
    }

    /// The reason why the device is lost, if it is.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// # Errors
    ///
    /// [`DriverError::Lost`] if the device is lost.
    pub(crate) fn check_alive(&self) -> Result<(), DriverError> {
        self.lost().map_or(Ok(()), |why| Err(lost_error(why)))
    }

    /// Calls `body` and returns its result, or the first error that wgpu reports meanwhile.
    pub(crate) fn checked<T>(&self, body: impl FnOnce() -> Result<T, GpuError>) -> Result<T, GpuError> {
        let filters = [ErrorFilter::OutOfMemory, ErrorFilter::Internal, ErrorFilter::Validation];
        let scopes = filters.map(|filter| self.device.push_error_scope(filter));
        // AssertUnwindSafe: the panic drops everything that the body made, and a panic leaves no locked value
        // half-written.
        let result = catch_unwind(AssertUnwindSafe(body));
        // Scopes are popped in reverse order, as required; on native platforms the results are available at
        // once.
        let mut errors: Vec<_> =
            scopes.into_iter().rev().map(|scope| pollster::block_on(scope.pop())).collect();
        if let Some(why) = self.lost() {
            return Err(GpuError::Lost(why.to_owned()));
        }
        let result = result.unwrap_or_else(|panic| Err(GpuError::Rejected(panic_message(panic))));
        match errors.drain(..).flatten().next() {
            Some(wgpu::Error::OutOfMemory { .. }) => Err(GpuError::OutOfMemory),
            Some(error) => Err(GpuError::Rejected(error.to_string().trim().to_owned())),
            None => result,
        }
    }

    /// Lets wgpu process completed work, unless it did so within [`POLL_INTERVAL`].
    pub(crate) fn poll(&self) {
        let now = u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let last = self.polled.load(Ordering::Relaxed);
        if now.saturating_sub(last) >= POLL_INTERVAL.as_nanos() as u64 {
            self.polled.store(now, Ordering::Relaxed);
            self.poll_for(PollType::Poll);
        }
    }

    /// Waits until a submission is done, or [`WAIT_TIMEOUT`] has passed. The caller must check again.
    pub(crate) fn wait(&self, submission: &SubmissionIndex) {
        let wait = PollType::Wait { submission_index: Some(submission.clone()), timeout: Some(WAIT_TIMEOUT) };
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

impl GpuError {
    /// Converts the error of the operation `what`. `requested` and `used` are the sizes in bytes that an
    /// out-of-memory error states.
    pub(crate) fn driver_error(self, what: &'static str, requested: usize, used: usize) -> DriverError {
        match self {
            GpuError::OutOfMemory => DriverError::OutOfMemory { requested, used },
            GpuError::Rejected(message) => DriverError::Platform { what, message },
            GpuError::Lost(why) => lost_error(&why),
        }
    }
}

pub(crate) fn lost_error(why: &str) -> DriverError {
    DriverError::Lost { driver: "wgpu".to_owned(), message: why.to_owned() }
}
