//! Streams: tasks handed to the device as they come, and events behind them.
//!
//! # Failures
//!
//! A task that the driver refuses fails its stream: later ones are not handed over, and events behind it carry the failure. They are
//! reached no sooner than the tasks in front of them, so that who overwrites what those use waits for them. What goes wrong *while*
//! a task runs takes the whole context with it: the device is lost, and everything on it that is not known to be done fails with that.
//!
//! # Progress
//!
//! The device needs nobody to make progress. That something is done is noticed by whoever looks: at an event, at whether the stream is
//! idle, at the memory in use, or by recording the next event. Host arrays are filled then, and memory is let go. What kernels [log](logs) is told by
//! who looks at an event, at whether the stream is idle, or runs the next kernel that logs.
//!
//! # Locks
//!
//! The lock of a stream's state is held while tasks are handed over or looked at, never while anybody waits for the device or a log is told, and
//! never two at once. In front of it comes the turn of a buffer for logs; under it the locks of sequences, landing arrays, staging and spare events are taken for a moment.

use std::{
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use device_runtime::{After, DriverError, Failure};

use crate::{
    api::{CallError, Cutter, Launch, Mark, Queue},
    core::Core,
    event::Event,
    kernel::Bound,
    sequence::{Replay, Sequence},
};

mod copies; // zeros and copies
pub(crate) mod logs; // what kernels log

use logs::{Arrived, Watcher, is_telling};

/// So many tasks are handed over without an event behind them before one is put there, so that what they use is let go in time.
const MOST_OPEN: usize = 256;

/// So many kernels are named in the message of a loss.
const MOST_NAMED: usize = 4;

/// An in-order queue of tasks.
pub(crate) struct Stream {
    pub(crate) name: Arc<str>,
    pub(crate) core: Arc<Core>,
    state: Mutex<State>,
    /// Told when a log has been told.
    told: Condvar,
}

struct State {
    queue: Queue<Watcher>,
    cutter: Cutter,
    /// Tasks since the last mark.
    open: usize,
    /// The first failure since the stream was made or reset.
    failure: Option<Failure>,
    arrived: Arrived,
}

impl Stream {
    /// # Errors
    ///
    /// The driver's refusal of a stream.
    pub(crate) fn new(name: &str, core: &Arc<Core>) -> Result<Arc<Stream>, DriverError> {
        let queue = Queue::new(&core.context).map_err(|error| core.platform(error))?;
        let (cutter, arrived) = (Cutter::new(&core.staging), Arrived::default());
        let state = Mutex::new(State { queue, cutter, open: 0, failure: None, arrived });
        Ok(Arc::new(Stream { name: name.into(), core: Arc::clone(core), state, told: Condvar::new() }))
    }

    /// Runs a kernel with the values of its static indices.
    ///
    /// # Errors
    ///
    /// As [`Stream::zero`].
    pub(crate) fn launch(&self, bound: &Arc<Bound>, bindings: &[i64]) -> Result<(), DriverError> {
        match bound.log() {
            Some(log) => self.launch_logging(bound, log, bindings),
            None => self.hand_over(bound.name(), |state| state.launch(bound, bindings)),
        }
    }

    /// Runs all kernels of a sequence with the values of their static indices; `false` if none, since they are to be launched one by
    /// one.
    ///
    /// # Errors
    ///
    /// As [`Stream::launch`].
    pub(crate) fn launch_sequence(
        self: &Arc<Self>,
        sequence: &Sequence,
        bindings: &[i64],
    ) -> Result<bool, DriverError> {
        let mut launched = false;
        self.hand_over(sequence.name(), |state| {
            launched = sequence.launch(self, &mut state.queue, bindings)?;
            Ok(())
        })?;
        Ok(launched)
    }

    /// Hands a task over, unless the stream has failed; if the driver refuses it, the stream fails. If it refuses no more
    /// than the mark behind the task, the stream fails too, but the task was handed over.
    fn hand_over(
        &self,
        name: &str,
        task: impl FnOnce(&mut State) -> Result<(), CallError>,
    ) -> Result<(), DriverError> {
        let mut state = lock(&self.state);
        self.healthy(&state)?;
        task(&mut state).map_err(|error| self.refused(&mut state, name, &error))?;
        if let Err(error) = state.count() {
            self.refused(&mut state, name, &error);
        }
        if !state.queue.is_open() {
            self.land(&mut state);
        }
        Ok(())
    }

    /// # Errors
    ///
    /// The loss of the device, or the failure of the stream.
    fn healthy(&self, state: &State) -> Result<(), DriverError> {
        self.core.alive()?;
        state.failure.as_ref().map_or(Ok(()), |failure| Err(DriverError::Failed(failure.clone())))
    }

    /// Fails the stream with a task that was refused.
    fn refused(&self, state: &mut State, name: &str, error: &CallError) -> DriverError {
        if let Some(lost) = self.core.loss(error, || self.pending(state)) {
            return lost;
        }
        let failure = Failure::new(Arc::clone(&self.name), name, error.to_string());
        DriverError::Failed(state.failure.get_or_insert(failure).clone())
    }

    /// The kernels that may be to blame for a loss that this stream saw.
    fn pending(&self, state: &State) -> String {
        let mut names: Vec<&str> = Vec::new();
        for share in state.queue.pending() {
            let one = share.downcast_ref::<Bound>();
            let many = share.downcast_ref::<Replay>().map_or(&[][..], Replay::kernels);
            for bound in many.iter().map(|bound| &**bound).chain(one) {
                if !names.contains(&bound.name()) {
                    names.push(bound.name());
                }
            }
        }
        let more = if names.len() > MOST_NAMED { " and others" } else { "" };
        names.truncate(MOST_NAMED);
        match names.is_empty() {
            true => format!(" (seen by {})", self.name),
            false => format!(" (seen by {}, where `{}`{more} ran or waited)", self.name, names.join("`, `")),
        }
    }

    /// An event behind everything handed over so far.
    ///
    /// # Errors
    ///
    /// The loss of the device, or the driver's refusal of an event.
    pub(crate) fn record(self: &Arc<Self>) -> Result<Arc<Event>, DriverError> {
        let mut state = lock(&self.state);
        self.land(&mut state);
        // An event of a stream that was cleared by a loss would be one with nothing in front of it.
        self.core.alive()?;
        if let Err(error) = state.close() {
            return Err(self.unmarked(&state, &error));
        }
        let failure = state.failure.clone();
        let Some((mark, watchers)) = state.queue.last() else {
            let event = Event::new(self, None, failure);
            state.arrived.add([Watcher::Event(Arc::clone(&event))]);
            return Ok(event);
        };
        let event = Event::new(self, Some(Arc::clone(mark)), failure);
        watchers.push(Watcher::Event(Arc::clone(&event)));
        Ok(event)
    }

    /// Makes later tasks wait for another stream's event, and fail with it if they build on it.
    ///
    /// # Errors
    ///
    /// The loss of the device; an event of another device that the driver cannot wait for.
    pub(crate) fn wait(&self, event: &Event, after: After) -> Result<(), DriverError> {
        self.core.alive()?;
        if std::ptr::eq(self, &*event.stream) {
            return Ok(());
        }
        let lost = event.stream.core.alive().err();
        let mut state = lock(&self.state);
        if let (None, None, Some(mark)) = (event.outcome(), &lost, &event.mark) {
            let waited = state.queue.wait(mark).and_then(|()| state.count());
            if let Err(error) = waited {
                if !Arc::ptr_eq(&self.core, &event.stream.core) {
                    return Err(DriverError::ForeignHandle { what: "event" });
                }
                return Err(self.unmarked(&state, &error));
            }
        }
        if let (After::Data, Some(error)) = (after, event.error().or(lost)) {
            let failure = match error {
                DriverError::Failed(failure) => failure,
                other => Failure::new(Arc::clone(&event.stream.name), "event", other.to_string()),
            };
            state.failure.get_or_insert(failure);
        }
        Ok(())
    }

    fn unmarked(&self, state: &State, error: &CallError) -> DriverError {
        let lost = self.core.loss(error, || self.pending(state));
        lost.unwrap_or_else(|| crate::core::platform(error))
    }

    /// Notices what is done without waiting, and tells logs.
    pub(crate) fn advance(&self) {
        self.look();
        self.tell();
    }

    fn look(&self) {
        let mut state = lock(&self.state);
        if self.core.lost().is_none()
            && let Err(error) = state.close()
        {
            // Whoever hands over the next task is told, if it is no loss.
            let _ = self.core.loss(&error, || self.pending(&state));
        }
        self.land(&mut state);
    }

    /// Waits until an event of this stream has an outcome.
    ///
    /// # Errors
    ///
    /// Its failure; [`DriverError::SelfWait`] while the thread tells a log, unless there is an outcome.
    pub(crate) fn sync(&self, event: &Event) -> Result<(), DriverError> {
        loop {
            if let Some(outcome) = event.outcome() {
                return outcome.clone();
            }
            if is_telling() {
                let (stream, doing) = (self.name.to_string(), "waiting for an event");
                return Err(DriverError::SelfWait { stream, doing });
            }
            if let Some(mark) = &event.mark {
                self.wait_for(mark);
            }
            self.tell();
            self.wait_until_told();
        }
    }

    /// Waits until everything handed over is done, or lost, and logs are told.
    pub(crate) fn drain(&self) {
        loop {
            self.advance();
            let first = lock(&self.state).queue.first().cloned();
            let Some(mark) = first else { return self.wait_until_told() };
            self.wait_for(&mark);
        }
    }

    /// Waits for a mark, and notices what is done then.
    fn wait_for(&self, mark: &Mark) {
        let waited = if self.core.lost().is_none() { mark.sync() } else { Ok(()) };
        let mut state = lock(&self.state);
        if let Err(error) = waited {
            self.lose(&state, &error);
        }
        self.land(&mut state);
    }

    /// Forgets the failure.
    pub(crate) fn forgive(&self) {
        let mut state = lock(&self.state);
        state.failure = None;
        state.arrived.forgive();
    }

    /// Whether everything handed over is done.
    pub(crate) fn is_idle(&self) -> bool {
        self.advance();
        let state = lock(&self.state);
        state.queue.len() == 0 && !state.queue.is_open() && state.arrived.is_empty()
    }

    /// Takes off what is done and tells who watches it; if the device is lost, everything.
    fn land(&self, state: &mut State) {
        while self.core.lost().is_none() {
            match state.queue.retire() {
                Ok(Some(watchers)) => state.arrived.add(watchers),
                Ok(None) => return,
                Err(error) => self.lose(state, &error),
            }
        }
        if let Some(why) = self.core.lost() {
            state.open = 0;
            state.queue.abandon().iter().for_each(|watcher| watcher.lose(why));
        }
    }

    /// What does not even tell whether it is done is lost, whatever the driver calls it.
    fn lose(&self, state: &State, error: &CallError) {
        self.core.lose(format!("{error}{}", self.pending(state)));
    }
}

impl State {
    fn launch(&mut self, bound: &Arc<Bound>, bindings: &[i64]) -> Result<(), CallError> {
        let params = bound.params(bindings);
        let launch = Launch { function: bound.function(), grid: bound.grid(), params: &params };
        self.queue.launch(launch, Arc::clone(bound) as Arc<_>)
    }

    /// Counts a task, and marks it if many have none.
    fn count(&mut self) -> Result<(), CallError> {
        self.open += 1;
        if self.open >= MOST_OPEN { self.close() } else { Ok(()) }
    }

    /// Puts a mark behind the open tasks, if there are any.
    fn close(&mut self) -> Result<(), CallError> {
        self.open = 0;
        if self.queue.is_open() { self.queue.close() } else { Ok(()) }
    }

    /// The first mark, made if there is none; none if nothing is on its way.
    fn first_mark(&mut self) -> Result<Option<Arc<Mark>>, CallError> {
        if self.queue.first().is_none() {
            self.close()?;
        }
        Ok(self.queue.first().cloned())
    }
}

/// Locks; our values are never half-written by a panic elsewhere.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What goes on in it, for people.
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
        if let Some(why) = self.core.lost() {
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
