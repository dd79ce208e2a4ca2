//! Streams: commands recorded into batches, batches submitted to the device's one queue, and events behind them.
//!
//! # Order
//!
//! The queue runs submissions in order, and the commands of one as if one after the other. A stream records commands into its *open*
//! batch, so commands of different streams are in the order in which their batches are submitted. A wait for another stream's event
//! therefore submits the batch in front of the event: what is recorded from then on comes later, whatever the streams. Submitting needs
//! no other stream's batch, so nothing waits in a circle.
//!
//! # When a batch is submitted
//!
//! When an event behind it is recorded and the stream has nothing on its way; otherwise the device has work, and more commands join the
//! batch until it is full, until somebody waits for an event behind it, or until somebody looks at one when nothing is on its way any
//! more. So whoever waits or looks makes progress, and a host that runs ahead submits few batches.
//!
//! # Failures
//!
//! A batch that is refused is submitted again command by command, up to the one at fault, which fails the stream. A failed stream has an
//! empty open batch; events recorded on it have the failure. Losing the device fails everything that is not done.
//!
//! # Locks
//!
//! The lock of a stream's state is held while the stream records and submits, never while anybody waits for the device, and never two at
//! once. Under it the locks of memory, pipelines and landing arrays are taken for a moment.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex},
};

use device_runtime::{DriverError, Failure};
use wgpu::SubmissionIndex;

use crate::{
    command::Command,
    core::Core,
    encode::{self, Submitted, TABLES_BYTES, table_room},
    event::Event,
    gpu::{Objection, lock, lost_error},
};

/// The most commands of a batch.
const MOST_COMMANDS: usize = 256;

/// Bytes between host and device from which on a batch is full.
const MOST_HOST_BYTES: usize = 16 << 20;

/// The most batches of a stream on their way; whoever adds one has to wait.
const MOST_ON_THEIR_WAY: usize = 8;

/// An in-order queue of commands.
pub(crate) struct Stream {
    pub(crate) name: Arc<str>,
    pub(crate) core: Arc<Core>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: Batch,
    on_their_way: VecDeque<OnItsWay>,
    /// The first failure since the stream was made or reset.
    failure: Option<Failure>,
}

/// Commands that are not submitted yet, with the events behind them.
#[derive(Debug, Default)]
struct Batch {
    commands: Vec<Command>,
    /// Each with the number of commands in front of it.
    events: Vec<(usize, Arc<Event>)>,
    table_bytes: usize,
    host_bytes: usize,
}

/// Commands that the device has, with the events behind them.
#[derive(Debug)]
struct OnItsWay {
    submitted: Submitted,
    /// They own what the device uses.
    _commands: Vec<Command>,
    events: Vec<Arc<Event>>,
}

impl Stream {
    pub(crate) fn new(name: &str, core: &Arc<Core>) -> Arc<Stream> {
        Arc::new(Stream { name: name.into(), core: Arc::clone(core), state: Mutex::default() })
    }

    /// Records a command.
    ///
    /// # Errors
    ///
    /// The failure of the stream, or the loss of the device.
    pub(crate) fn push(&self, command: Command) -> Result<(), DriverError> {
        self.make_room()?;
        let mut state = lock(&self.state);
        state.healthy()?;
        if command.is_empty() {
            return Ok(());
        }
        let alignment = self.core.gpu.limits.min_uniform_buffer_offset_alignment as usize;
        let table_bytes = table_room(&command, alignment);
        if !state.open.has_room(table_bytes) {
            self.submit(&mut state);
            state.healthy()?;
        }
        state.open.table_bytes += table_bytes;
        state.open.host_bytes += command.host_bytes();
        state.open.commands.push(command);
        Ok(())
    }

    /// An event behind everything recorded so far.
    ///
    /// # Errors
    ///
    /// The loss of the device.
    pub(crate) fn record(self: &Arc<Self>) -> Result<Arc<Event>, DriverError> {
        self.core.gpu.alive()?;
        let event = Event::new(self);
        let mut state = lock(&self.state);
        if !state.on_their_way.is_empty() {
            self.core.gpu.poll();
            self.land(&mut state);
        }
        if let Some(failure) = &state.failure {
            event.reach(Err(DriverError::Failed(failure.clone())));
        } else if !state.open.commands.is_empty() {
            let position = state.open.commands.len();
            state.open.events.push((position, Arc::clone(&event)));
            if state.on_their_way.is_empty() {
                self.submit(&mut state);
            }
        } else if let Some(last) = state.on_their_way.back_mut() {
            last.events.push(Arc::clone(&event));
        } else {
            event.reach(Ok(()));
        }
        Ok(event)
    }

    /// Submits what is in front of an event of this stream, so that whatever is submitted from now on comes behind it.
    pub(crate) fn settle(&self, event: &Event) {
        let mut state = lock(&self.state);
        if state.open.events.iter().any(|(_, open)| std::ptr::eq(&**open, event)) {
            self.submit(&mut state);
        }
    }

    /// Fails the stream from here on, as a task of another stream that it builds on failed; what was recorded so far is submitted.
    pub(crate) fn inherit(&self, error: &DriverError) {
        let mut state = lock(&self.state);
        self.submit(&mut state);
        let failure = match error {
            DriverError::Failed(failure) => failure.clone(),
            other => Failure::new(self.name.clone(), "event", other.to_string()),
        };
        state.failure.get_or_insert(failure);
    }

    /// Lands what is done without waiting, and submits the open batch if nothing is on its way any more.
    pub(crate) fn advance(&self) {
        self.core.gpu.poll();
        let mut state = lock(&self.state);
        self.land(&mut state);
        if state.on_their_way.is_empty() {
            self.submit(&mut state);
        }
    }

    /// Waits until an event of this stream has an outcome.
    pub(crate) fn sync(&self, event: &Event) -> Result<(), DriverError> {
        loop {
            if let Some(outcome) = event.outcome() {
                return outcome.clone();
            }
            self.settle(event);
            if let Some(first) = self.first_on_its_way() {
                self.core.gpu.wait(&first);
            }
            self.land(&mut lock(&self.state));
        }
    }

    /// Waits until everything recorded is done, or failed.
    pub(crate) fn drain(&self) {
        loop {
            let mut state = lock(&self.state);
            self.land(&mut state);
            self.submit(&mut state);
            let first = state.on_their_way.front().map(|batch| batch.submitted.index.clone());
            drop(state);
            let Some(first) = first else { return };
            self.core.gpu.wait(&first);
        }
    }

    /// Forgets the failure.
    pub(crate) fn forgive(&self) {
        lock(&self.state).failure = None;
    }

    /// Whether everything recorded is done.
    pub(crate) fn is_idle(&self) -> bool {
        self.advance();
        let state = lock(&self.state);
        state.open.commands.is_empty() && state.on_their_way.is_empty()
    }

    fn first_on_its_way(&self) -> Option<SubmissionIndex> {
        lock(&self.state).on_their_way.front().map(|batch| batch.submitted.index.clone())
    }

    /// Waits while too much is on its way.
    fn make_room(&self) -> Result<(), DriverError> {
        loop {
            self.core.gpu.alive()?;
            let mut state = lock(&self.state);
            if state.on_their_way.len() < MOST_ON_THEIR_WAY {
                return Ok(());
            }
            self.land(&mut state);
            let first = state.on_their_way.front().map(|batch| batch.submitted.index.clone());
            drop(state);
            if let Some(first) = first {
                self.core.gpu.wait(&first);
            }
        }
    }

    /// Submits the open batch.
    fn submit(&self, state: &mut State) {
        if state.open.commands.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut state.open);
        match encode::submit(&self.core, &batch.commands) {
            Ok(submitted) => {
                let events = batch.events.into_iter().map(|(_, event)| event).collect();
                state.on_their_way.push_back(OnItsWay { submitted, _commands: batch.commands, events });
            }
            Err(Objection::Lost(why)) => batch.lose(&why),
            Err(_) => self.submit_singly(state, batch),
        }
    }

    /// Submits a refused batch command by command, up to the one at fault.
    fn submit_singly(&self, state: &mut State, batch: Batch) {
        let mut events = batch.events.into_iter().peekable();
        for (position, command) in batch.commands.into_iter().enumerate() {
            let objection = match encode::submit(&self.core, std::slice::from_ref(&command)) {
                Ok(submitted) => {
                    let behind = std::iter::from_fn(|| events.next_if(|(at, _)| *at == position + 1));
                    let events = behind.map(|(_, event)| event).collect();
                    state.on_their_way.push_back(OnItsWay { submitted, _commands: vec![command], events });
                    continue;
                }
                Err(objection) => objection,
            };
            let failure = self.failure(&command, objection);
            events.for_each(|(_, event)| event.reach(Err(DriverError::Failed(failure.clone()))));
            state.failure.get_or_insert(failure);
            return;
        }
    }

    fn failure(&self, command: &Command, objection: Objection) -> Failure {
        let message = match objection {
            Objection::OutOfMemory => "the device has no memory for it".to_owned(),
            Objection::Refused(message) => message,
            Objection::Lost(why) => lost_error(&why).to_string(),
        };
        Failure::new(self.name.clone(), command.name(), message)
    }

    /// Takes batches that are done off the way, hands out what they read back, and sets the outcomes of their events.
    fn land(&self, state: &mut State) {
        if let Some(why) = self.core.gpu.lost() {
            state.lose(why);
        }
        while state.on_their_way.front().is_some_and(|batch| batch.submitted.is_done()) {
            let Some(batch) = state.on_their_way.pop_front() else { return };
            let landed = self.core.gpu.checked(|| batch.submitted.land(&self.core));
            let outcome = landed.map_err(|objection| match objection {
                Objection::Lost(why) => lost_error(&why),
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

impl Batch {
    /// Whether a command with so many bytes of table may join.
    fn has_room(&self, table_bytes: usize) -> bool {
        self.commands.len() < MOST_COMMANDS
            && self.table_bytes + table_bytes <= TABLES_BYTES
            && self.host_bytes < MOST_HOST_BYTES
    }

    fn lose(self, why: &str) {
        self.events.iter().for_each(|(_, event)| event.reach(Err(lost_error(why))));
    }
}

impl State {
    fn healthy(&self) -> Result<(), DriverError> {
        self.failure.as_ref().map_or(Ok(()), |failure| Err(DriverError::Failed(failure.clone())))
    }

    /// Ends everything that is not done.
    fn lose(&mut self, why: &str) {
        std::mem::take(&mut self.open).lose(why);
        for batch in self.on_their_way.drain(..) {
            batch.events.iter().for_each(|event| event.reach(Err(lost_error(why))));
        }
    }
}

/// What goes on in it, for people.
impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        let (recorded, submitted) = (state.open.commands.len(), state.on_their_way.len());
        write!(f, "{}: {recorded} tasks recorded, {submitted} batches submitted", self.name)?;
        if let Some(why) = self.core.gpu.lost() {
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
