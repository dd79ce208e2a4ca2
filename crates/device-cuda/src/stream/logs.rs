//! What kernels log: a buffer for each bound kernel that logs, and the text of what its runs left there.
//!
//! A run clears the buffer's header, runs the kernel, and copies the buffer to the host. Whoever notices that the copy is done tells the
//! log, which is: has the sink take the text. Events behind a log are reached when it has been told, so who has waited for a run has its
//! log, and logs of a stream are told in order, by one thread at a time. What waits on the device does not wait for logs.
//!
//! A sink is code of others: no lock is held while it runs, and it may not wait. If it panics, the stream fails as if the kernel had.

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
use device_runtime::{DriverError, Failure, HostLanding, run_task};
use tnode::{DType, HostArray};

use super::{Stream, lock};
use crate::{
    api::Region,
    core::lost_error,
    event::Event,
    kernel::{Bound, Kernel},
};

/// Where the runs of a bound kernel log to, one after another.
#[derive(Debug)]
pub(crate) struct LogBuffer {
    region: Region,
    /// Held while a run is handed over with the copy behind it.
    turn: Mutex<()>,
}

impl LogBuffer {
    pub(crate) fn new(region: Region) -> LogBuffer {
        LogBuffer { region, turn: Mutex::default() }
    }

    /// Where it begins, for the kernel.
    pub(crate) fn address(&self) -> u64 {
        self.region.address()
    }

    fn header(&self) -> Region {
        self.region.part(0, HEADER_BYTES)
    }
}

/// Who wants to know when a mark is reached.
#[derive(Debug)]
pub(crate) enum Watcher {
    Event(Arc<Event>),
    Log(RunLog),
}

impl Watcher {
    /// The mark will not be reached. What was logged stays where it is.
    pub(super) fn lose(&self, why: &str) {
        match self {
            Watcher::Event(event) => event.lose(lost_error(why)),
            Watcher::Log(_) => {}
        }
    }
}

thread_local! {
    /// Whether the thread tells a log.
    static TELLING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread tells a log, and so must not wait.
pub(super) fn is_telling() -> bool {
    TELLING.get()
}

/// What a run logged, as it is copied to the host.
pub(crate) struct RunLog {
    kernel: Arc<Kernel>,
    bytes: HostLanding,
}

impl RunLog {
    /// Has the sink take the text.
    ///
    /// # Errors
    ///
    /// What the sink panicked with.
    fn tell(&self) -> Result<(), String> {
        let Some(logging) = &self.kernel.logging else { return Ok(()) };
        let Some(bytes) = self.bytes.take() else { return Ok(()) };
        let outside = TELLING.replace(true);
        // AssertUnwindSafe: the text is gone afterwards, and what else the sink has is its own.
        let told = catch_unwind(AssertUnwindSafe(|| {
            run_task(|| log_buffer::write(bytes.bytes(), &self.kernel.abi.log, logging));
        }));
        TELLING.set(outside);
        told.map_err(panic_message)
    }
}

impl fmt::Debug for RunLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log of `{}`", self.kernel.abi.name)
    }
}

/// What the device is done with and those who wait do not know yet: a log that is to be told, and what is behind it.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    waiting: VecDeque<Watcher>,
    /// Whether somebody tells the log in front of them.
    is_being_told: bool,
    /// The first failure of a log since the stream was made or reset: that of all events behind it.
    failure: Option<Failure>,
}

impl Arrived {
    pub(super) fn add(&mut self, watchers: impl IntoIterator<Item = Watcher>) {
        self.waiting.extend(watchers);
        self.reach();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && !self.is_being_told
    }

    pub(super) fn forgive(&mut self) {
        self.failure = None;
    }

    /// Reaches the events that no log is in front of.
    fn reach(&mut self) {
        while let (false, Some(Watcher::Event(event))) = (self.is_being_told, self.waiting.front()) {
            match &self.failure {
                Some(failure) => event.lose(DriverError::Failed(failure.clone())),
                None => event.reach(),
            }
            self.waiting.pop_front();
        }
    }

    /// The next log, which the caller tells; none while another thread tells one.
    fn next(&mut self) -> Option<RunLog> {
        if self.is_being_told {
            return None;
        }
        match self.waiting.pop_front()? {
            Watcher::Log(log) => {
                self.is_being_told = true;
                Some(log)
            }
            event => {
                self.waiting.push_front(event);
                None
            }
        }
    }

    /// The log has been told.
    fn told(&mut self, failure: Option<Failure>) {
        self.is_being_told = false;
        self.failure = self.failure.take().or(failure);
        self.reach();
    }
}

impl Stream {
    /// Runs a kernel that logs, and copies its log to the host.
    ///
    /// # Errors
    ///
    /// As [`Stream::launch`], and the refusal of the copy.
    pub(super) fn launch_logging(
        &self,
        bound: &Arc<Bound>,
        log: &LogBuffer,
        bindings: &[i64],
    ) -> Result<(), DriverError> {
        // Until they are told, logs of earlier runs take memory.
        self.tell();
        let _turn = lock(&log.turn);
        let bytes = landing(log.region.bytes())?;
        self.hand_over(bound.name(), |state| {
            state.queue.zero(&log.header())?;
            state.launch(bound, bindings)
        })?;
        let kernel = bound.kernel();
        if kernel.logging.is_none() {
            return Ok(());
        }
        let copied = self.download(&log.region, &bytes).map_err(|refused| refused.error);
        // The kernel was handed over. If its log is refused, the stream fails, and the event behind the kernel says so.
        let _ = copied.and_then(|()| self.watch(RunLog { kernel: Arc::clone(kernel), bytes }));
        Ok(())
    }

    /// Has a log told when everything handed over so far is done.
    fn watch(&self, log: RunLog) -> Result<(), DriverError> {
        let mut state = lock(&self.state);
        self.core.alive()?;
        state.close().map_err(|error| self.refused(&mut state, &log.kernel.abi.name, &error))?;
        match state.queue.last() {
            Some((_, watchers)) => watchers.push(Watcher::Log(log)),
            None => state.arrived.add([Watcher::Log(log)]),
        }
        Ok(())
    }

    /// Tells the logs that have arrived, unless another thread is at it.
    pub(super) fn tell(&self) {
        let mut state = lock(&self.state);
        while let Some(log) = state.arrived.next() {
            drop(state);
            let failed = log.tell().err();
            state = lock(&self.state);
            let task = &log.kernel.abi.name;
            let failure = failed.map(|message| Failure::new(Arc::clone(&self.name), task.as_str(), message));
            let failure = failure.map(|failure| state.failure.get_or_insert(failure).clone());
            state.arrived.told(failure);
            self.told.notify_all();
        }
    }

    /// Waits until no other thread tells a log.
    pub(super) fn wait_until_told(&self) {
        let state = lock(&self.state);
        if !is_telling() {
            drop(
                self.told
                    .wait_while(state, |state| state.arrived.is_being_told)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
    }
}

/// Host memory for a log.
fn landing(bytes: usize) -> Result<HostLanding, DriverError> {
    let array = HostArray::zeros(DType::U8, [bytes]);
    let array =
        array.map_err(|error| DriverError::Platform { what: "copying a log", message: error.to_string() })?;
    Ok(HostLanding::new(array))
}
