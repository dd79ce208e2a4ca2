//! Logs of kernels: a buffer for each bound kernel that logs, and the report of its contents after each run.
//!
//! A run clears the buffer's header, runs the kernel, and copies the buffer to the host. The thread that
//! observes the end of the copy reports the log: it passes the text to the sink. Events after a log are
//! reached after the log is reported, so a thread that has waited for a run has its log. One thread at a time
//! reports the logs of a stream, in order. A task of another stream that waits for an event may begin before
//! the logs in front of the event are reported.
//!
//! A sink is the user's code: it runs without locks held, and it must not wait. If it panics, the stream
//! fails as if the kernel had.

use std::{
    cell::Cell,
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
};

use codegen_core::{
    log_buffer::{self, HEADER_BYTES},
    panic_message,
};
use device_runtime::{DriverError, Failure, HostReadback, KernelTimer, run_task};
use tnode::{DType, HostArray};

use super::{Stream, lock};
use crate::{
    Result,
    api::MemoryRegion,
    event::Event,
    kernel::{BoundFunction, LoadedKernel},
    shared_state::lost_error,
};

/// The log buffer of a bound kernel, which its runs use one after another.
#[derive(Debug)]
pub(crate) struct LogBuffer {
    region: MemoryRegion,
    /// Held while a run and the copy after it are submitted.
    turn: Mutex<()>,
}

impl LogBuffer {
    pub(crate) fn new(region: MemoryRegion) -> LogBuffer {
        LogBuffer { region, turn: Mutex::default() }
    }

    /// The buffer's address, for the kernel.
    pub(crate) fn address(&self) -> u64 {
        self.region.address()
    }

    fn header(&self) -> MemoryRegion {
        self.region.subregion(0, HEADER_BYTES)
    }
}

/// An action to take once a recorded event is reached.
#[derive(Debug)]
pub(crate) enum Completion {
    Event(Arc<Event>),
    Log(RunLog),
}

impl Completion {
    /// Handles a recorded event that will not be reached. A log is then not reported.
    pub(super) fn lose(&self, why: &str) {
        match self {
            Completion::Event(event) => event.lose(lost_error(why)),
            Completion::Log(_) => {}
        }
    }
}

thread_local! {
    /// Whether the thread reports a log.
    static REPORTING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread reports a log, and so must not wait.
pub(super) fn is_reporting_log() -> bool {
    REPORTING.get()
}

/// The log of one run, which is copied to the host.
pub(crate) struct RunLog {
    kernel: Arc<LoadedKernel>,
    bytes: HostReadback,
}

impl RunLog {
    /// Passes the text to the sink.
    ///
    /// # Errors
    ///
    /// The message of the sink's panic.
    fn report(&self) -> Result<(), String> {
        let Some(logging) = &self.kernel.logging else { return Ok(()) };
        let Some(bytes) = self.bytes.take() else { return Ok(()) };
        let outside = REPORTING.replace(true);
        // AssertUnwindSafe: the text is dropped, and all other state belongs to the sink.
        let reported = catch_unwind(AssertUnwindSafe(|| {
            run_task(|| log_buffer::write(bytes.bytes(), &self.kernel.abi.log, logging));
        }));
        REPORTING.set(outside);
        reported.map_err(panic_message)
    }
}

impl fmt::Debug for RunLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log of `{}`", self.kernel.abi.name)
    }
}

/// Completed logs that are not reported yet, and the events after them.
#[derive(Debug, Default)]
pub(super) struct PendingReports {
    waiting: VecDeque<Completion>,
    /// Whether a thread reports the log in front of `waiting`.
    is_reporting: bool,
    /// The first failure of a log since the stream was made or reset; all events after it fail.
    failure: Option<Failure>,
}

impl PendingReports {
    pub(super) fn add(&mut self, completions: impl IntoIterator<Item = Completion>) {
        self.waiting.extend(completions);
        self.reach();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && !self.is_reporting
    }

    pub(super) fn clear_failure(&mut self) {
        self.failure = None;
    }

    /// Sets the outcomes of the events that have no log in front of them.
    fn reach(&mut self) {
        while let (false, Some(Completion::Event(event))) = (self.is_reporting, self.waiting.front()) {
            match &self.failure {
                Some(failure) => event.lose(DriverError::Failed(failure.clone())),
                None => event.reach(),
            }
            self.waiting.pop_front();
        }
    }

    /// Takes the next completion if it is a log, which the caller must report; `None` also while another
    /// thread reports a log.
    fn next(&mut self) -> Option<RunLog> {
        if self.is_reporting {
            return None;
        }
        match self.waiting.pop_front()? {
            Completion::Log(log) => {
                self.is_reporting = true;
                Some(log)
            }
            event => {
                self.waiting.push_front(event);
                None
            }
        }
    }

    /// Ends the report of a log.
    fn finish(&mut self, failure: Option<Failure>) {
        self.is_reporting = false;
        self.failure = self.failure.take().or(failure);
        self.reach();
    }
}

impl Stream {
    /// Runs a kernel that logs, and copies its log to the host.
    ///
    /// # Errors
    ///
    /// [`DriverError::Failed`] or [`DriverError::Lost`], of the launch or of the copy.
    pub(super) fn launch_logging(
        &self,
        bound: &Arc<BoundFunction>,
        log: &LogBuffer,
        bindings: &[i64],
        timer: Option<KernelTimer>,
    ) -> Result<()> {
        // Logs of earlier runs occupy memory until they are reported.
        self.report_logs();
        let _turn = lock(&log.turn);
        let bytes = log_array(log.region.bytes())?;
        self.submit(bound.name(), |state| {
            state.queue.zero(&log.header())?;
            state.launch(bound, bindings, timer)
        })?;
        let kernel = bound.kernel();
        if kernel.logging.is_none() {
            return Ok(());
        }
        let copied = self.download(&log.region, &bytes).map_err(|rejected| rejected.error);
        // The kernel has been submitted, so its launch is a success. If the copy of its log, or the event
        // after it, is rejected, the stream fails, and later events have that failure.
        let _ = copied.and_then(|()| self.report_when_done(RunLog { kernel: Arc::clone(kernel), bytes }));
        Ok(())
    }

    /// Schedules the report of a log after all tasks submitted so far.
    fn report_when_done(&self, log: RunLog) -> Result<()> {
        let mut state = lock(&self.state);
        self.shared.check_alive()?;
        state.close().map_err(|error| self.rejected(&mut state, &log.kernel.abi.name, &error))?;
        match state.queue.last() {
            Some((_, completions)) => completions.push(Completion::Log(log)),
            None => state.reports.add([Completion::Log(log)]),
        }
        Ok(())
    }

    /// Reports the completed logs, unless another thread does.
    pub(super) fn report_logs(&self) {
        let mut state = lock(&self.state);
        while let Some(log) = state.reports.next() {
            drop(state);
            let failed = log.report().err();
            state = lock(&self.state);
            let task = &log.kernel.abi.name;
            let failure = failed.map(|message| Failure::new(Arc::clone(&self.name), task.as_str(), message));
            let failure = failure.map(|failure| state.failure.get_or_insert(failure).clone());
            state.reports.finish(failure);
            self.log_reported.notify_all();
        }
    }

    /// Waits until no other thread reports a log.
    pub(super) fn wait_until_reported(&self) {
        let state = lock(&self.state);
        if !is_reporting_log() {
            drop(
                self.log_reported
                    .wait_while(state, |state| state.reports.is_reporting)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
    }
}

/// A host array for a log.
fn log_array(bytes: usize) -> Result<HostReadback> {
    let array = HostArray::zeros(DType::U8, [bytes]);
    let array =
        array.map_err(|error| DriverError::Platform { what: "copying a log", message: error.to_string() })?;
    Ok(HostReadback::new(array))
}
