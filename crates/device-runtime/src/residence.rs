//! The host array of one node: its values, the transfers and events that precede their use, and the devices
//! that have them.
//!
//! Two locks. `array` is held by whoever brings, hands out or changes the array, until that is done; `state`
//! for a moment only, while nothing is waited for and no code of others runs. They are taken in this order.
//!
//! Code of the user's runs under the first one: changes ([`crate::Host::update`]) and transfers
//! ([`Prepare::transfer`]). A thread that has an array may want another one, which the thread that has that
//! one may be waiting for with the first, or even the same array again. So such a thread only tries.
//!
//! Invariants: a pending download is forgotten only when its values have arrived, or when the host's own take
//! their place; a place is [`State::not_lagging`] only if no newer values were known when it got its values.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard},
};

use tnode::{HostArray, TensorNode};

use crate::{
    driver::Location,
    error::Error,
    event::Event,
    inside::{Holding, lock_unless_holding},
    pool::lock,
    transfer::check,
};

/// Device memory: which device, and where.
pub(crate) type DeviceLocation = (u64, Location);

/// Brings the newest values.
type Fetch = Arc<dyn Fn() -> Result<HostArray, Error> + Send + Sync>;

/// Events and a transfer that precede the host's next read, or write, of an array.
#[derive(Clone)]
pub struct Prepare {
    is_done: Vec<Event>,
    transfer: Option<Fetch>,
}

impl Prepare {
    /// Waiting for events.
    pub fn wait(events: impl IntoIterator<Item = Event>) -> Prepare {
        Prepare { is_done: events.into_iter().collect(), transfer: None }
    }

    /// Waiting for an event, then a transfer that gives the newest values, in an array of the node's sizes
    /// (margins included) and element type; readers get an error for any other. While it runs, other calls
    /// that would have to wait for a host array are errors ([`Error::HostArrayInUse`]).
    pub fn transfer(
        event: Event,
        transfer: impl Fn() -> Result<HostArray, Error> + Send + Sync + 'static,
    ) -> Prepare {
        Prepare { is_done: vec![event], transfer: Some(Arc::new(transfer)) }
    }

    /// Whether there is nothing to wait for.
    pub fn is_done(&self) -> bool {
        self.is_done.iter().all(Event::is_done)
    }

    /// This after what was to be done before: everything is waited for, in order, and the newest transfer
    /// counts.
    fn after(mut self, before: Option<Prepare>) -> Prepare {
        if let Some(before) = before {
            let pending = before.is_done.into_iter().filter(|event| !event.is_done());
            self.is_done = pending.chain(self.is_done).collect();
        }
        self
    }

    /// Waits for the events. Their failures are the transfer's to report: a failed reader is no concern of a
    /// writer.
    fn sync(&self) -> Result<(), Error> {
        for event in &self.is_done {
            let waited = event.sync();
            if !event.is_done() {
                return waited;
            }
        }
        Ok(())
    }
}

/// The array of one node.
pub(crate) struct Residence {
    array: Mutex<Arc<HostArray>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    read: Option<Prepare>,
    write: Option<Prepare>,
    /// Device memory that is as new as the array, or newer.
    not_lagging: BTreeSet<DeviceLocation>,
    /// How often newer values became known, on a device or on the host.
    version: Version,
}

/// A count of values: what was read at one version is the newest as long as the version stays.
pub(crate) type Version = u64;

/// A node's array while this thread has it.
pub(crate) struct Entered<'a> {
    node: &'a TensorNode,
    array: MutexGuard<'a, Arc<HostArray>>,
    state: &'a Mutex<State>,
    _holding: Holding,
}

impl Residence {
    pub(crate) fn new(array: HostArray) -> Residence {
        Residence { array: Mutex::new(Arc::new(array)), state: Mutex::default() }
    }

    /// Waits until nobody else has the array.
    ///
    /// # Errors
    ///
    /// Where the thread must not wait and somebody has it: [`Error::HostArrayInUse`] for a thread that has an
    /// array, [`crate::DriverError::SelfWait`] inside a task.
    pub(crate) fn enter<'a>(&'a self, node: &'a TensorNode) -> Result<Entered<'a>, Error> {
        let array = lock_unless_holding(&self.array).map_err(|busy| busy.error(node))?;
        Ok(Entered { node, array, state: &self.state, _holding: Holding::begin() })
    }

    /// A device has values that are newer than all others; `fetch` brings them.
    pub(crate) fn written(&self, place: DeviceLocation, fetch: Prepare) {
        let mut state = lock(&self.state);
        state.not_lagging = BTreeSet::from([place]);
        state.expect(fetch);
    }

    /// Device memory has got the values of a version; the host may not write the array before that is done.
    pub(crate) fn uploaded(&self, place: DeviceLocation, version: Version, event: Option<Event>) {
        uploaded(&self.state, place, version, event);
    }

    pub(crate) fn prepare_read(&self, prepare: Prepare) {
        lock(&self.state).expect(prepare);
    }

    pub(crate) fn prepare_write(&self, prepare: Prepare) {
        lock(&self.state).guard(prepare);
    }

    /// Whether device memory is as new as the array, or newer.
    pub(crate) fn is_not_lagging(&self, place: &DeviceLocation) -> bool {
        lock(&self.state).not_lagging.contains(place)
    }

    /// The ids of the devices with memory as new as the array, or newer; in order.
    pub(crate) fn devices_not_lagging(&self) -> Vec<u64> {
        let mut devices: Vec<u64> = lock(&self.state).not_lagging.iter().map(|place| place.0).collect();
        devices.dedup();
        devices
    }
}

impl State {
    /// Newer values are elsewhere.
    fn expect(&mut self, fetch: Prepare) {
        self.version += 1;
        self.read = Some(fetch.after(self.read.take()));
    }

    /// Somebody reads the array.
    fn guard(&mut self, until: Prepare) {
        self.write = Some(until.after(self.write.take()));
    }

    /// The newest values are in the array.
    fn settle(&mut self) {
        self.version += 1;
        self.not_lagging.clear();
    }
}

fn uploaded(state: &Mutex<State>, place: DeviceLocation, version: Version, event: Option<Event>) {
    let mut state = lock(state);
    if state.version == version {
        state.not_lagging.insert(place);
    }
    if let Some(event) = event {
        state.guard(Prepare::wait([event]));
    }
}

impl Entered<'_> {
    /// Brings the newest values, and tells their version. Users hand over whole arrays, so the array is
    /// checked here, where every use of it begins.
    pub(crate) fn read(&mut self, automatic: bool) -> Result<Version, Error> {
        let (prepared, version) = {
            let state = lock(self.state);
            (state.read.clone(), state.version)
        };
        if let Some(prepared) = prepared {
            prepared.sync()?;
            if let (true, Some(transfer)) = (automatic, &prepared.transfer) {
                let array = transfer()?;
                check(self.node, &array)?;
                *self.array = Arc::new(array);
            }
            // Only now, so that the next reader gets the same failure. News that came meanwhile stays.
            let mut state = lock(self.state);
            if state.version == version {
                state.read = None;
            }
        }
        check(self.node, &self.array)?;
        Ok(version)
    }

    /// Waits for devices that read the array; all of them lag behind afterwards.
    pub(crate) fn write(&mut self) -> Result<(), Error> {
        let write = {
            let mut state = lock(self.state);
            if self.node.mode().known_constant() && !state.not_lagging.is_empty() {
                return Err(Error::HostConstant { node: self.node.name() });
            }
            state.write.take()
        };
        if let Some(write) = write
            && let Err(error) = write.sync()
        {
            let mut state = lock(self.state);
            let newer = state.write.take();
            state.write = Some(match newer {
                Some(newer) => newer.after(Some(write)),
                None => write,
            });
            return Err(error);
        }
        lock(self.state).settle();
        Ok(())
    }

    /// The array as it is.
    pub(crate) fn array(&self) -> Arc<HostArray> {
        Arc::clone(&self.array)
    }

    /// The array for a change in place; a copy of it where somebody else still reads it.
    pub(crate) fn array_mut(&mut self) -> Result<&mut HostArray, Error> {
        if Arc::get_mut(&mut self.array).is_none() {
            *self.array = Arc::new(self.array.try_clone()?);
        }
        Ok(Arc::make_mut(&mut self.array))
    }

    /// Refuses an array that does not fit the node.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check(self.node, &self.array)
    }

    /// Takes the host's own values for the newest.
    pub(crate) fn replace(&mut self, array: HostArray) {
        *self.array = Arc::new(array);
        let given_up = {
            let mut state = lock(self.state);
            state.settle();
            state.read.take()
        };
        // After the lock: it may be the last to hold device memory.
        drop(given_up);
    }

    /// Notes an upload, as [`Residence::uploaded`] does.
    pub(crate) fn uploaded(&self, place: DeviceLocation, version: Version, event: Option<Event>) {
        uploaded(self.state, place, version, event);
    }
}
