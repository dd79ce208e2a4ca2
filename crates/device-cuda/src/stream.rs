//! Streams: tasks submitted to the device, and events after them.
//!
//! # Failures
//!
//! If the driver rejects a task, the stream fails: later tasks are not submitted, and later events have the
//! failure. These events are reached no sooner than the tasks before them, so that a stream that overwrites
//! the memory of those tasks waits for them. An error *during* a task makes the whole context unusable: the
//! device is lost, and every task on it that is not known to be done fails.
//!
//! # Progress
//!
//! The device makes progress by itself. The host observes completion when a thread polls an event, asks
//! whether the stream is idle or how much memory is in use, or records the next event. It then fills host
//! arrays and releases memory. [Logs](logs) are reported when a thread polls an event, asks whether the
//! stream is idle, or runs the next kernel that logs.
//!
//! # Locks
//!
//! A stream holds the lock of its state while it submits or polls tasks, but never while a thread waits for
//! the device or reports a log, and a thread never holds the state locks of two streams. The lock of a log
//! buffer is taken before the lock of the state. While a thread holds the lock of the state, it takes the
//! locks of sequences, host arrays, staging memory and free events for short times.

use std::{
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use device_runtime::{DriverError, Failure, KernelTimer, PolledStream, WaitKind};

use crate::{
    Result,
    api::{CallError, KernelLaunch, RecordedEvent, StagingAllocator, TaskQueue},
    event::Event,
    kernel::BoundFunction,
    sequence::{Sequence, SequenceGraph},
    shared_state::SharedState,
};

mod copies; // filling and copying
pub(crate) mod logs;

use logs::{Completion, PendingReports, is_reporting_log};

/// An event is recorded after this many tasks without one, so that their resources are released in time.
const MAX_OPEN_TASKS: usize = 256;

/// Maximum number of kernels that the message of a lost device names.
const MAX_NAMED_KERNELS: usize = 4;

/// An in-order queue of tasks.
pub(crate) struct Stream {
    pub(crate) name: Arc<str>,
    pub(crate) shared: Arc<SharedState>,
    state: Mutex<StreamState>,
    /// Notified when a log has been reported.
    log_reported: Condvar,
}

struct StreamState {
    queue: TaskQueue<Completion>,
    allocator: StagingAllocator,
    /// The number of tasks since the last recorded event.
    open: usize,
    /// The first failure since the stream was made or reset.
    failure: Option<Failure>,
    reports: PendingReports,
}

impl Stream {
    /// # Errors
    ///
    /// An error of the driver.
    pub(crate) fn new(name: &str, shared: &Arc<SharedState>) -> Result<Arc<Stream>> {
        let queue = TaskQueue::new(&shared.context).map_err(|error| shared.platform(error))?;
        let (allocator, reports) = (StagingAllocator::new(&shared.staging), PendingReports::default());
        let state = Mutex::new(StreamState { queue, allocator, open: 0, failure: None, reports });
        Ok(Arc::new(Stream {
            name: name.into(),
            shared: Arc::clone(shared),
            state,
            log_reported: Condvar::new(),
        }))
    }

    /// Runs a kernel with the values of its static indices. Records its time if there is a timer.
    ///
    /// # Errors
    ///
    /// [`DriverError::Failed`] if the stream has failed or the driver rejects the launch;
    /// [`DriverError::Lost`].
    pub(crate) fn launch(
        &self,
        bound: &Arc<BoundFunction>,
        bindings: &[i64],
        timer: Option<KernelTimer>,
    ) -> Result<()> {
        match bound.log() {
            Some(log) => self.launch_logging(bound, log, bindings, timer),
            None => self.submit(bound.name(), |state| state.launch(bound, bindings, timer)),
        }
    }

    /// Runs all kernels of a sequence with the values of their static indices. Returns false, and runs none,
    /// if they must be launched one by one.
    ///
    /// # Errors
    ///
    /// [`DriverError::Failed`] or [`DriverError::Lost`].
    pub(crate) fn launch_sequence(self: &Arc<Self>, sequence: &Sequence, bindings: &[i64]) -> Result<bool> {
        let mut launched = false;
        self.submit(sequence.name(), |state| {
            launched = sequence.launch(self, &mut state.queue, bindings)?;
            Ok(())
        })?;
        Ok(launched)
    }

    /// Submits a task, unless the stream has failed. If the driver rejects the task, the stream fails. If it
    /// rejects only the event after the task, the stream fails too, but the task has been submitted.
    fn submit(&self, name: &str, task: impl FnOnce(&mut StreamState) -> Result<(), CallError>) -> Result<()> {
        let mut state = lock(&self.state);
        self.check_failure(&state)?;
        task(&mut state).map_err(|error| self.rejected(&mut state, name, &error))?;
        if let Err(error) = state.count() {
            self.rejected(&mut state, name, &error);
        }
        if !state.queue.is_open() {
            self.retire_tasks(&mut state);
        }
        Ok(())
    }

    /// # Errors
    ///
    /// [`DriverError::Lost`], or the failure of the stream.
    fn check_failure(&self, state: &StreamState) -> Result<()> {
        self.shared.check_alive()?;
        state.failure.as_ref().map_or(Ok(()), |failure| Err(DriverError::Failed(failure.clone())))
    }

    /// Fails the stream because a task was rejected.
    fn rejected(&self, state: &mut StreamState, name: &str, error: &CallError) -> DriverError {
        if let Some(lost) = self.shared.lost_by(error, || self.pending(state)) {
            return lost;
        }
        let failure = Failure::new(Arc::clone(&self.name), name, error.to_string());
        DriverError::Failed(state.failure.get_or_insert(failure).clone())
    }

    /// A description of the pending kernels: one of them may have made the device lost.
    fn pending(&self, state: &StreamState) -> String {
        let mut names: Vec<&str> = Vec::new();
        for resource in state.queue.pending() {
            let one = resource.downcast_ref::<BoundFunction>();
            let many = resource.downcast_ref::<SequenceGraph>().map_or(&[][..], SequenceGraph::kernels);
            for bound in many.iter().map(|bound| &**bound).chain(one) {
                if !names.contains(&bound.name()) {
                    names.push(bound.name());
                }
            }
        }
        let more = if names.len() > MAX_NAMED_KERNELS { " and others" } else { "" };
        names.truncate(MAX_NAMED_KERNELS);
        match names.is_empty() {
            true => format!(" (seen by {})", self.name),
            false => format!(" (seen by {}, where `{}`{more} ran or waited)", self.name, names.join("`, `")),
        }
    }

    /// Records an event after all tasks submitted so far.
    ///
    /// # Errors
    ///
    /// [`DriverError::Lost`], or an error of the driver.
    pub(crate) fn record(self: &Arc<Self>) -> Result<Arc<Event>> {
        let mut state = lock(&self.state);
        self.retire_tasks(&mut state);
        // A lost device clears its streams, and an event recorded afterwards must not appear to be reached.
        self.shared.check_alive()?;
        if let Err(error) = state.close() {
            return Err(self.event_error(&state, &error));
        }
        let failure = state.failure.clone();
        let Some((recorded, completions)) = state.queue.last() else {
            let event = Event::new(self, None, failure);
            state.reports.add([Completion::Event(Arc::clone(&event))]);
            return Ok(event);
        };
        let event = Event::new(self, Some(Arc::clone(recorded)), failure);
        completions.push(Completion::Event(Arc::clone(&event)));
        Ok(event)
    }

    /// Makes later tasks wait for another stream's event, and fail with it if they depend on its data.
    ///
    /// # Errors
    ///
    /// [`DriverError::Lost`]; [`DriverError::ForeignHandle`] for an event of another device that the driver
    /// cannot wait for.
    pub(crate) fn wait(&self, event: &Event, after: WaitKind) -> Result<()> {
        self.shared.check_alive()?;
        if std::ptr::eq(self, &*event.stream) {
            return Ok(());
        }
        let lost = event.stream.shared.check_alive().err();
        let mut state = lock(&self.state);
        if let (None, None, Some(recorded)) = (event.outcome(), &lost, &event.recorded) {
            let waited = state.queue.wait(recorded).and_then(|()| state.count());
            if let Err(error) = waited {
                if !Arc::ptr_eq(&self.shared, &event.stream.shared) {
                    return Err(DriverError::ForeignHandle { what: "event" });
                }
                return Err(self.event_error(&state, &error));
            }
        }
        if let (WaitKind::Data, Some(error)) = (after, event.error().or(lost)) {
            let failure = match error {
                DriverError::Failed(failure) => failure,
                other => Failure::new(Arc::clone(&event.stream.name), "event", other.to_string()),
            };
            state.failure.get_or_insert(failure);
        }
        Ok(())
    }

    fn event_error(&self, state: &StreamState, error: &CallError) -> DriverError {
        let lost = self.shared.lost_by(error, || self.pending(state));
        lost.unwrap_or_else(|| crate::shared_state::platform(error))
    }

    fn poll(&self) {
        let mut state = lock(&self.state);
        if self.shared.lost().is_none()
            && let Err(error) = state.close()
        {
            // Any other error is returned when the next task is submitted.
            let _ = self.shared.lost_by(&error, || self.pending(&state));
        }
        self.retire_tasks(&mut state);
    }

    /// Waits until an event of this stream has an outcome.
    ///
    /// # Errors
    ///
    /// The event's failure; [`DriverError::SelfWait`] while the thread reports a log, unless the event has an
    /// outcome.
    pub(crate) fn sync(&self, event: &Event) -> Result<()> {
        loop {
            if let Some(outcome) = event.outcome() {
                return outcome.clone();
            }
            if is_reporting_log() {
                let (stream, doing) = (self.name.to_string(), "waiting for an event");
                return Err(DriverError::SelfWait { stream, doing });
            }
            if let Some(recorded) = &event.recorded {
                self.wait_for(recorded);
            }
            self.report_logs();
            self.wait_until_reported();
        }
    }

    /// Waits for a recorded event, and retires completed tasks.
    fn wait_for(&self, recorded: &RecordedEvent) {
        let waited = if self.shared.lost().is_none() { recorded.sync() } else { Ok(()) };
        let mut state = lock(&self.state);
        if let Err(error) = waited {
            self.mark_lost(&state, &error);
        }
        self.retire_tasks(&mut state);
    }

    /// Retires the completed tasks and handles their events and logs. If the device is lost, retires all
    /// tasks.
    fn retire_tasks(&self, state: &mut StreamState) {
        while self.shared.lost().is_none() {
            match state.queue.retire() {
                Ok(Some(completions)) => state.reports.add(completions),
                Ok(None) => return,
                Err(error) => self.mark_lost(state, &error),
            }
        }
        if let Some(why) = self.shared.lost() {
            state.open = 0;
            state.queue.abandon().iter().for_each(|completion| completion.lose(why));
        }
    }

    /// Marks the device as lost because of an error of a query or a wait. Whatever the code of such an error,
    /// the state of the tasks before the event is unknown.
    fn mark_lost(&self, state: &StreamState, error: &CallError) {
        self.shared.lose(format!("{error}{}", self.pending(state)));
    }
}

impl PolledStream for Stream {
    type Device = SharedState;

    fn device(&self) -> &Arc<SharedState> {
        &self.shared
    }

    fn check_alive(device: &SharedState) -> Result<()> {
        device.check_alive()
    }

    /// Retires completed tasks without waiting, and reports logs.
    fn advance(&self) {
        self.poll();
        self.report_logs();
    }

    /// Waits until all submitted tasks are done or lost, and their logs are reported.
    fn drain(&self) {
        loop {
            self.advance();
            let first = lock(&self.state).queue.first().cloned();
            let Some(recorded) = first else { return self.wait_until_reported() };
            self.wait_for(&recorded);
        }
    }

    /// Whether all submitted tasks are done and their logs reported.
    fn is_idle(&self) -> bool {
        self.advance();
        let state = lock(&self.state);
        state.queue.len() == 0 && !state.queue.is_open() && state.reports.is_empty()
    }

    /// Clears the failure.
    fn clear_failure(&self) {
        let mut state = lock(&self.state);
        state.failure = None;
        state.reports.clear_failure();
    }
}

impl StreamState {
    fn launch(
        &mut self,
        bound: &Arc<BoundFunction>,
        bindings: &[i64],
        timer: Option<KernelTimer>,
    ) -> Result<(), CallError> {
        let params = bound.params(bindings);
        let launch = KernelLaunch { function: bound.function(), grid: bound.grid(), params: &params };
        let resource = Arc::clone(bound) as Arc<_>;
        match timer {
            Some(timer) => self.queue.launch_timed(launch, resource, timer, bound.kernel().size),
            None => self.queue.launch(launch, resource),
        }
    }

    /// Counts a task, and records an event if many tasks have none.
    fn count(&mut self) -> Result<(), CallError> {
        self.open += 1;
        if self.open >= MAX_OPEN_TASKS { self.close() } else { Ok(()) }
    }

    /// Records an event after the open tasks, if there are any.
    fn close(&mut self) -> Result<(), CallError> {
        self.open = 0;
        if self.queue.is_open() { self.queue.close() } else { Ok(()) }
    }

    /// The first recorded event, recorded now if there is none; `None` if no task is pending.
    fn first_recorded(&mut self) -> Result<Option<Arc<RecordedEvent>>, CallError> {
        if self.queue.first().is_none() {
            self.close()?;
        }
        Ok(self.queue.first().cloned())
    }
}

/// Locks a mutex and ignores poisoning, since a panic elsewhere leaves no value half-written.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A one-line description for people.
impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        write!(
            f,
            "{}: {} tasks since the last event, {} events pending",
            self.name,
            state.open,
            state.queue.len()
        )?;
        if let Some(why) = self.shared.lost() {
            return write!(f, ", device lost: {why}");
        }
        state.failure.as_ref().map_or(Ok(()), |failure| write!(f, ", {failure}"))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
