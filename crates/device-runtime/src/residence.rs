//! The host array of one node: its values, the transfers and events that precede their use, and the devices
//! that have them.
//!
//! There are two locks. A thread holds `array` while it updates, returns or changes the array. It holds
//! `state` only briefly, never while it waits or runs the user's code. The locks are taken in this order.
//!
//! The user's code runs under the first lock: changes ([`crate::Host::update`]) and transfers
//! ([`Prepare::transfer`]). A thread that has locked an array may want another one, whose holder may wait for
//! the first, or even the same array again. So such a thread never waits for the lock.
//!
//! Invariants: a pending download is dropped only when its values have arrived, or when the host's own values
//! replace them; a location is [`ResidenceState::not_lagging`] only if no newer values were known when it got
//! its values.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard},
};

use tnode::{HostArray, TensorNode};

use crate::{
    driver::Location,
    error::RunError,
    event::Event,
    inside::{HoldingArray, lock_unless_holding},
    pool::lock,
    transfer::check,
};

/// Device memory: the device's id, and the location.
pub(crate) type DeviceLocation = (u64, Location);

/// A function that returns the newest values.
type Fetch = Arc<dyn Fn() -> Result<HostArray, RunError> + Send + Sync>;

/// Events and a transfer that precede the host's next read or write of an array.
#[derive(Clone)]
pub struct Prepare {
    is_done: Vec<Event>,
    transfer: Option<Fetch>,
}

impl Prepare {
    /// A wait for events.
    pub fn wait(events: impl IntoIterator<Item = Event>) -> Prepare {
        Prepare { is_done: events.into_iter().collect(), transfer: None }
    }

    /// A wait for an event, then a transfer that returns the newest values, in an array of the node's shape
    /// (margins included) and element type; readers get an error for any other. While it runs, calls that
    /// would have to wait for a host array fail with [`RunError::HostArrayInUse`].
    pub fn transfer(
        event: Event,
        transfer: impl Fn() -> Result<HostArray, RunError> + Send + Sync + 'static,
    ) -> Prepare {
        Prepare { is_done: vec![event], transfer: Some(Arc::new(transfer)) }
    }

    /// Whether all events are done.
    pub fn is_done(&self) -> bool {
        self.is_done.iter().all(Event::is_done)
    }

    /// This preparation after an earlier one: all events are waited for, in order, and the newer transfer is
    /// used.
    fn after(mut self, before: Option<Prepare>) -> Prepare {
        if let Some(before) = before {
            let pending = before.is_done.into_iter().filter(|event| !event.is_done());
            self.is_done = pending.chain(self.is_done).collect();
        }
        self
    }

    /// Waits for the events. Their failures are left to the transfer: a failed reader does not affect a
    /// writer.
    fn sync(&self) -> Result<(), RunError> {
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
    state: Mutex<ResidenceState>,
}

#[derive(Default)]
struct ResidenceState {
    read: Option<Prepare>,
    write: Option<Prepare>,
    /// Locations in device memory that are as new as the array, or newer.
    not_lagging: BTreeSet<DeviceLocation>,
    /// How often newer values became known, on a device or on the host.
    version: Version,
}

/// A counter of values: values that were read at one version are the newest while the version stays the same.
pub(crate) type Version = u64;

/// A node's array, locked by this thread.
pub(crate) struct Entered<'a> {
    node: &'a TensorNode,
    array: MutexGuard<'a, Arc<HostArray>>,
    state: &'a Mutex<ResidenceState>,
    _holding: HoldingArray,
}

impl Residence {
    pub(crate) fn new(array: HostArray) -> Residence {
        Residence { array: Mutex::new(Arc::new(array)), state: Mutex::default() }
    }

    /// Waits until no other thread has the array, and locks it.
    ///
    /// # Errors
    ///
    /// If the thread must not wait and another thread has the array: [`RunError::HostArrayInUse`] for a
    /// thread that has locked an array, [`crate::DriverError::SelfWait`] inside a task.
    pub(crate) fn enter<'a>(&'a self, node: &'a TensorNode) -> Result<Entered<'a>, RunError> {
        let array = lock_unless_holding(&self.array).map_err(|busy| busy.error(node))?;
        Ok(Entered { node, array, state: &self.state, _holding: HoldingArray::begin() })
    }

    /// Notes that a device has values that are newer than all others; `fetch` transfers them.
    pub(crate) fn written(&self, place: DeviceLocation, fetch: Prepare) {
        let mut state = lock(&self.state);
        state.not_lagging = BTreeSet::from([place]);
        state.expect(fetch);
    }

    /// Notes that device memory has got the values of a version; the host must not write the array before
    /// `event` is done.
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

impl ResidenceState {
    /// Notes that newer values are elsewhere.
    fn expect(&mut self, fetch: Prepare) {
        self.version += 1;
        self.read = Some(fetch.after(self.read.take()));
    }

    /// Notes that a device reads the array until `until` is done.
    fn guard(&mut self, until: Prepare) {
        self.write = Some(until.after(self.write.take()));
    }

    /// Notes that the newest values are in the array.
    fn settle(&mut self) {
        self.version += 1;
        self.not_lagging.clear();
    }
}

fn uploaded(state: &Mutex<ResidenceState>, place: DeviceLocation, version: Version, event: Option<Event>) {
    let mut state = lock(state);
    if state.version == version {
        state.not_lagging.insert(place);
    }
    if let Some(event) = event {
        state.guard(Prepare::wait([event]));
    }
}

impl Entered<'_> {
    /// Updates the array to the newest values, and returns their version. The user may replace whole arrays,
    /// so every use of the array begins with this check.
    pub(crate) fn read(&mut self, automatic: bool) -> Result<Version, RunError> {
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
            // Cleared only now, so that the next reader gets the same failure. Newer values that became known
            // meanwhile stay.
            let mut state = lock(self.state);
            if state.version == version {
                state.read = None;
            }
        }
        check(self.node, &self.array)?;
        Ok(version)
    }

    /// Waits for devices that read the array; all of them lag behind afterwards.
    pub(crate) fn write(&mut self) -> Result<(), RunError> {
        let write = {
            let mut state = lock(self.state);
            if self.node.mode().known_constant() && !state.not_lagging.is_empty() {
                return Err(RunError::HostConstant { node: self.node.name() });
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

    /// The array with the newest values that the host has.
    pub(crate) fn array(&self) -> Arc<HostArray> {
        Arc::clone(&self.array)
    }

    /// The array for a change in place; a copy of it if another owner still reads it.
    pub(crate) fn array_mut(&mut self) -> Result<&mut HostArray, RunError> {
        if Arc::get_mut(&mut self.array).is_none() {
            *self.array = Arc::new(self.array.try_clone()?);
        }
        Ok(Arc::make_mut(&mut self.array))
    }

    /// Checks that the array fits the node.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        check(self.node, &self.array)
    }

    /// Replaces the array by the host's own values, which are the newest.
    pub(crate) fn replace(&mut self, array: HostArray) {
        *self.array = Arc::new(array);
        let given_up = {
            let mut state = lock(self.state);
            state.settle();
            state.read.take()
        };
        // Dropped after the lock is released: it may be the last reference to device memory.
        drop(given_up);
    }

    /// Notes an upload; see [`Residence::uploaded`].
    pub(crate) fn uploaded(&self, place: DeviceLocation, version: Version, event: Option<Event>) {
        uploaded(self.state, place, version, event);
    }
}
