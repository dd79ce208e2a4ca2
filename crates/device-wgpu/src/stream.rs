//! Streams: commands recorded into batches, batches submitted to the device's one queue, and events after
//! them.
//!
//! # Order
//!
//! The queue executes submissions in order, and the commands of a submission as if one after the other. A
//! stream records commands into its *open* batch, so commands of different streams execute in the order in
//! which their batches are submitted. A wait for another stream's event therefore submits the batch before
//! the event: commands recorded afterwards, on any stream, execute later. Submitting a batch requires no
//! other stream's batch, so there is no deadlock.
//!
//! # When a batch is submitted
//!
//! A stream submits its open batch when an event after it is recorded and the stream has no batch in flight.
//! Otherwise the device is busy, and more commands join the batch until it is full, until a thread waits for
//! an event after it, or until a thread polls an event when no batch is in flight any more. So every wait or
//! poll makes progress, and a host that runs ahead submits few batches.
//!
//! # Failures
//!
//! If a batch is rejected, its commands are submitted one by one up to the one at fault, which fails the
//! stream. A failed stream has an empty open batch, and events recorded on it have the failure. When the
//! device is lost, everything unfinished fails.
//!
//! # Locks
//!
//! A stream holds the lock of its state while it records and submits, but never while a thread waits for the
//! device, and a thread never holds the state locks of two streams. While a thread holds the lock of the
//! state, it takes the locks of memory, pipelines and host arrays for short times.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex},
};

use device_runtime::{DriverError, Failure, PolledStream};
use wgpu::SubmissionIndex;

use crate::{
    command::Command,
    encode::{self, SubmittedBatch, TABLES_BYTES, table_room},
    event::Event,
    gpu::{GpuError, lock, lost_error},
    shared_state::SharedState,
};

/// Maximum number of commands in a batch.
const MAX_COMMANDS: usize = 256;

/// A batch is full once its copies between host and device have this many bytes.
const MAX_HOST_BYTES: usize = 16 << 20;

/// Maximum number of batches of a stream in flight; a producer waits for room.
const MAX_IN_FLIGHT: usize = 8;

/// An in-order queue of commands.
pub(crate) struct Stream {
    pub(crate) name: Arc<str>,
    pub(crate) shared: Arc<SharedState>,
    state: Mutex<StreamState>,
}

#[derive(Debug, Default)]
struct StreamState {
    open: Batch,
    in_flight: VecDeque<InFlightBatch>,
    /// The first failure since the stream was made or reset.
    failure: Option<Failure>,
}

/// Commands that are not submitted yet, with the events after them.
#[derive(Debug, Default)]
struct Batch {
    commands: Vec<Command>,
    /// Each event with the number of commands before it.
    events: Vec<(usize, Arc<Event>)>,
    table_bytes: usize,
    host_bytes: usize,
}

/// A submitted batch, with the events after its commands.
#[derive(Debug)]
struct InFlightBatch {
    submitted: SubmittedBatch,
    /// Keeps alive the memory and pipelines that the device uses.
    _commands: Vec<Command>,
    events: Vec<Arc<Event>>,
}

impl Stream {
    pub(crate) fn new(name: &str, shared: &Arc<SharedState>) -> Arc<Stream> {
        Arc::new(Stream { name: name.into(), shared: Arc::clone(shared), state: Mutex::default() })
    }

    /// Records a command.
    ///
    /// # Errors
    ///
    /// The failure of the stream, or [`DriverError::Lost`].
    pub(crate) fn push(&self, command: Command) -> Result<(), DriverError> {
        self.make_room()?;
        let mut state = lock(&self.state);
        state.check_failure()?;
        if command.is_empty() {
            return Ok(());
        }
        let alignment = self.shared.gpu.limits.min_uniform_buffer_offset_alignment as usize;
        let table_bytes = table_room(&command, alignment);
        if !state.open.has_room(table_bytes) {
            self.submit(&mut state);
            state.check_failure()?;
        }
        state.open.table_bytes += table_bytes;
        state.open.host_bytes += command.host_bytes();
        state.open.commands.push(command);
        Ok(())
    }

    /// Records an event after all commands recorded so far.
    ///
    /// # Errors
    ///
    /// [`DriverError::Lost`].
    pub(crate) fn record(self: &Arc<Self>) -> Result<Arc<Event>, DriverError> {
        self.shared.gpu.check_alive()?;
        let event = Event::new(self);
        let mut state = lock(&self.state);
        if !state.in_flight.is_empty() {
            self.shared.gpu.poll();
            self.retire_batches(&mut state);
        }
        if let Some(failure) = &state.failure {
            event.reach(Err(DriverError::Failed(failure.clone())));
        } else if !state.open.commands.is_empty() {
            let position = state.open.commands.len();
            state.open.events.push((position, Arc::clone(&event)));
            if state.in_flight.is_empty() {
                self.submit(&mut state);
            }
        } else if let Some(last) = state.in_flight.back_mut() {
            last.events.push(Arc::clone(&event));
        } else {
            event.reach(Ok(()));
        }
        Ok(event)
    }

    /// Submits the commands before an event of this stream, so that every later submission executes after the
    /// event.
    pub(crate) fn submit_up_to(&self, event: &Event) {
        let mut state = lock(&self.state);
        if state.open.events.iter().any(|(_, open)| std::ptr::eq(&**open, event)) {
            self.submit(&mut state);
        }
    }

    /// Fails the stream because a task of another stream on which it depends has failed. Commands recorded so
    /// far are submitted.
    pub(crate) fn propagate_failure(&self, error: &DriverError) {
        let mut state = lock(&self.state);
        self.submit(&mut state);
        let failure = match error {
            DriverError::Failed(failure) => failure.clone(),
            other => Failure::new(self.name.clone(), "event", other.to_string()),
        };
        state.failure.get_or_insert(failure);
    }

    /// Waits until an event of this stream has an outcome.
    pub(crate) fn sync(&self, event: &Event) -> Result<(), DriverError> {
        loop {
            if let Some(outcome) = event.outcome() {
                return outcome.clone();
            }
            self.submit_up_to(event);
            if let Some(first) = self.first_in_flight() {
                self.shared.gpu.wait(&first);
            }
            self.retire_batches(&mut lock(&self.state));
        }
    }

    fn first_in_flight(&self) -> Option<SubmissionIndex> {
        lock(&self.state).in_flight.front().map(|batch| batch.submitted.index.clone())
    }

    /// Waits while too many batches are in flight.
    fn make_room(&self) -> Result<(), DriverError> {
        loop {
            self.shared.gpu.check_alive()?;
            let mut state = lock(&self.state);
            if state.in_flight.len() < MAX_IN_FLIGHT {
                return Ok(());
            }
            self.retire_batches(&mut state);
            let first = state.in_flight.front().map(|batch| batch.submitted.index.clone());
            drop(state);
            if let Some(first) = first {
                self.shared.gpu.wait(&first);
            }
        }
    }

    /// Submits the open batch.
    fn submit(&self, state: &mut StreamState) {
        if state.open.commands.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut state.open);
        match encode::submit(&self.shared, &batch.commands) {
            Ok(submitted) => {
                let events = batch.events.into_iter().map(|(_, event)| event).collect();
                state.in_flight.push_back(InFlightBatch { submitted, _commands: batch.commands, events });
            }
            Err(GpuError::Lost(why)) => batch.lose(&why),
            Err(_) => self.submit_singly(state, batch),
        }
    }

    /// Submits a rejected batch command by command, up to the one at fault.
    fn submit_singly(&self, state: &mut StreamState, batch: Batch) {
        let mut events = batch.events.into_iter().peekable();
        for (position, command) in batch.commands.into_iter().enumerate() {
            let error = match encode::submit(&self.shared, std::slice::from_ref(&command)) {
                Ok(submitted) => {
                    let behind = std::iter::from_fn(|| events.next_if(|(at, _)| *at == position + 1));
                    let events = behind.map(|(_, event)| event).collect();
                    state.in_flight.push_back(InFlightBatch { submitted, _commands: vec![command], events });
                    continue;
                }
                Err(error) => error,
            };
            let failure = self.failure(&command, error);
            events.for_each(|(_, event)| event.reach(Err(DriverError::Failed(failure.clone()))));
            state.failure.get_or_insert(failure);
            return;
        }
    }

    fn failure(&self, command: &Command, error: GpuError) -> Failure {
        let message = match error {
            GpuError::OutOfMemory => "the device has no memory for the task".to_owned(),
            GpuError::Rejected(message) => message,
            GpuError::Lost(why) => lost_error(&why).to_string(),
        };
        Failure::new(self.name.clone(), command.name(), message)
    }

    /// Removes completed batches from those in flight, fills the host arrays of their read-backs, and sets
    /// the outcomes of their events.
    fn retire_batches(&self, state: &mut StreamState) {
        if let Some(why) = self.shared.gpu.lost() {
            state.lose(why);
        }
        while state.in_flight.front().is_some_and(|batch| batch.submitted.is_done()) {
            let Some(batch) = state.in_flight.pop_front() else { return };
            let landed = self.shared.gpu.checked(|| batch.submitted.complete(&self.shared));
            let outcome = landed.map_err(|error| match error {
                GpuError::Lost(why) => lost_error(&why),
                other => {
                    let message = other.driver_error("reading back", 0, 0).to_string();
                    let failure = Failure::new(self.name.clone(), "copy to host", message);
                    DriverError::Failed(state.failure.get_or_insert(failure).clone())
                }
            });
            batch.events.iter().for_each(|event| event.reach(outcome.clone()));
        }
    }
}

impl PolledStream for Stream {
    type Device = SharedState;

    fn device(&self) -> &Arc<SharedState> {
        &self.shared
    }

    fn check_alive(device: &SharedState) -> Result<(), DriverError> {
        device.gpu.check_alive()
    }

    /// Retires completed batches without waiting, and submits the open batch if no batch is in flight any
    /// more.
    fn advance(&self) {
        self.shared.gpu.poll();
        let mut state = lock(&self.state);
        self.retire_batches(&mut state);
        if state.in_flight.is_empty() {
            self.submit(&mut state);
        }
    }

    /// Waits until all recorded commands are done or failed.
    fn drain(&self) {
        loop {
            let mut state = lock(&self.state);
            self.retire_batches(&mut state);
            self.submit(&mut state);
            let first = state.in_flight.front().map(|batch| batch.submitted.index.clone());
            drop(state);
            let Some(first) = first else { return };
            self.shared.gpu.wait(&first);
        }
    }

    /// Whether all recorded commands are done.
    fn is_idle(&self) -> bool {
        self.advance();
        let state = lock(&self.state);
        state.open.commands.is_empty() && state.in_flight.is_empty()
    }

    /// Clears the failure.
    fn clear_failure(&self) {
        lock(&self.state).failure = None;
    }
}

impl Batch {
    /// Whether a command with this many bytes of parameter table fits into the batch.
    fn has_room(&self, table_bytes: usize) -> bool {
        self.commands.len() < MAX_COMMANDS
            && self.table_bytes + table_bytes <= TABLES_BYTES
            && self.host_bytes < MAX_HOST_BYTES
    }

    fn lose(self, why: &str) {
        self.events.iter().for_each(|(_, event)| event.reach(Err(lost_error(why))));
    }
}

impl StreamState {
    fn check_failure(&self) -> Result<(), DriverError> {
        self.failure.as_ref().map_or(Ok(()), |failure| Err(DriverError::Failed(failure.clone())))
    }

    /// Fails everything unfinished because the device is lost.
    fn lose(&mut self, why: &str) {
        std::mem::take(&mut self.open).lose(why);
        for batch in self.in_flight.drain(..) {
            batch.events.iter().for_each(|event| event.reach(Err(lost_error(why))));
        }
    }
}

/// A one-line description for people.
impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        let (recorded, submitted) = (state.open.commands.len(), state.in_flight.len());
        write!(f, "{}: {recorded} tasks recorded, {submitted} batches submitted", self.name)?;
        if let Some(why) = self.shared.gpu.lost() {
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
