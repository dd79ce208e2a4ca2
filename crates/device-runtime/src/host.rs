//! Host residency: host arrays of nodes, kept in step with the devices.
//!
//! A [`Host`] holds an array for each of some nodes, and knows which device memory is as new as that array. Reading an array
//! first brings the values that a device computed last; writing one makes all devices lag behind. Contexts of a host transfer by
//! themselves, unless told not to: a run uploads the inputs that lag, and what a run has written is downloaded when the host
//! reads it, once, however many runs there were.
//!
//! Invariants: a pending download is forgotten only when its values have arrived, or when the host's own take their place; an
//! array that is being uploaded is not changed before that is done, and that of a constant node never, once a device has it. A
//! pending download keeps the device memory it reads; [`Host::remove`] gives both up.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use tnode::{HostArray, Hosted, MemoryMode, Reason, Scalar, TensorNode};

use crate::{
    context::Context,
    driver::Location,
    error::Error,
    event::Event,
    inside::lock_unless_inside,
    pool::{Buffer, lock},
    transfer::{Transfer, check},
};

/// What may be chosen about a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// Runs upload what lags, and reads download what devices have computed; on unless switched off.
    pub automatic_transfers: bool,
    /// Devices that can read host memory in place do so for constant nodes, instead of having a copy; off unless switched on.
    pub use_host_memory: bool,
}

impl Default for HostOptions {
    fn default() -> HostOptions {
        HostOptions { automatic_transfers: true, use_host_memory: false }
    }
}

/// Host arrays of nodes. Cheap to clone; clones are the same host. Devices may share one.
///
/// ```
/// # use std::sync::Arc;
/// # use device_runtime::{Context, Device, Host, NullDevice};
/// # use tnode::{DType, HostArray, TensorNode};
/// let x = TensorNode::builder("x").dims([2]).dtype(DType::F32).build()?;
/// let host = Host::default();
/// host.insert(&x, HostArray::from_slice(&[1f32, 2.], [2])?)?;
/// host.set_value(&x, &[1], 5.0)?;
/// assert_eq!(host.get_values(&x)?, [1.0, 5.0]);
///
/// let device = Device::new(Arc::new(NullDevice::new()), 0);
/// let context = Context::new(&device.new_stream()?).with_host(&host).init_from_residence(&x)?;
/// assert_eq!(host.devices_not_lagging_host(&x), [device.device_id()]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Host(Arc<HostInner>);

#[derive(Default)]
struct HostInner {
    options: HostOptions,
    nodes: Mutex<BTreeMap<TensorNode, Arc<Mutex<Residence>>>>,
    /// Whether there ever was an array: every run asks, and most programs have none.
    is_used: AtomicBool,
}

/// The array of one node.
struct Residence {
    array: Arc<HostArray>,
    read: Option<Prepare>,
    write: Option<Prepare>,
    /// Device memory that is as new as the array, or newer.
    not_lagging: BTreeSet<Place>,
}

/// Device memory: which device, and where.
type Place = (u64, Location);

/// What has to happen before the host reads, or writes, an array.
pub struct Prepare {
    is_done: Vec<Event>,
    transfer: Option<Fetch>,
}

/// Brings the newest values.
type Fetch = Arc<dyn Fn() -> Result<HostArray, Error> + Send + Sync>;

impl Prepare {
    /// Waiting for events.
    pub fn wait(events: impl IntoIterator<Item = Event>) -> Prepare {
        Prepare { is_done: events.into_iter().collect(), transfer: None }
    }

    /// Waiting for an event, then a transfer that gives the newest values, in an array of the node's sizes (margins
    /// included) and element type; readers get an error for any other.
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

    /// This after what was to be done before: everything is waited for, in order, and the newest transfer counts.
    fn after(mut self, before: Option<Prepare>) -> Prepare {
        if let Some(before) = before {
            let pending = before.is_done.into_iter().filter(|event| !event.is_done());
            self.is_done = pending.chain(self.is_done).collect();
        }
        self
    }

    /// Waits. A failure of what is waited for is the transfer's to report: a failed reader is no concern of a writer.
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

impl Residence {
    fn new(array: HostArray) -> Residence {
        Residence { array: Arc::new(array), read: None, write: None, not_lagging: BTreeSet::new() }
    }

    /// Brings the newest values. Callers of [`Host::update`] and [`Prepare::transfer`] hand over whole arrays, so
    /// the array is checked here, where every use of it begins.
    fn do_read(&mut self, node: &TensorNode, automatic: bool) -> Result<(), Error> {
        if let Some(prepared) = &self.read {
            prepared.sync()?;
            if let (true, Some(transfer)) = (automatic, &prepared.transfer) {
                let array = transfer()?;
                check(node, &array)?;
                self.array = Arc::new(array);
            }
            // Only now: after a failure the next reader is told the same.
            self.read = None;
        }
        check(node, &self.array)
    }

    fn do_write(&mut self, node: &TensorNode) -> Result<(), Error> {
        if node.mode().known_constant() && !self.not_lagging.is_empty() {
            return Err(Error::HostConstant { node: node.name() });
        }
        self.write.as_ref().map_or(Ok(()), Prepare::sync)?;
        self.write = None;
        self.not_lagging.clear();
        Ok(())
    }
}

impl Host {
    /// A host without arrays.
    pub fn new(options: HostOptions) -> Host {
        Host(Arc::new(HostInner { options, ..HostInner::default() }))
    }

    /// What was chosen.
    pub fn options(&self) -> HostOptions {
        self.0.options
    }

    /// Gives a node a host array, which makes it hosted. An array that it has is replaced; devices lag behind then.
    ///
    /// # Errors
    ///
    /// An array of other sizes (margins included) or another element type, and a node whose mode excludes a host copy.
    pub fn insert(&self, node: &TensorNode, array: HostArray) -> Result<(), Error> {
        check(node, &array)?;
        node.update_memory_mode(MemoryMode::Hosted(Hosted::Unset), Reason::new("it has a host array"))?;
        let entry = {
            let mut nodes = lock(&self.0.nodes);
            let Some(present) = nodes.get(node) else {
                nodes.insert(node.clone(), Arc::new(Mutex::new(Residence::new(array))));
                self.0.is_used.store(true, Ordering::Release);
                return Ok(());
            };
            Arc::clone(present)
        };
        let mut residence = enter(&entry, node)?;
        residence.do_write(node)?;
        (residence.array, residence.read) = (Arc::new(array), None);
        Ok(())
    }

    /// Forgets a node's array, and what is pending for it; the array as it is, without a transfer.
    pub fn remove(&self, node: &TensorNode) -> Option<Arc<HostArray>> {
        let removed = lock(&self.0.nodes).remove(node)?;
        let array = Arc::clone(&lock(&removed).array);
        Some(array)
    }

    /// Whether the node has an array here.
    pub fn contains(&self, node: &TensorNode) -> bool {
        lock(&self.0.nodes).contains_key(node)
    }

    fn entry(&self, node: &TensorNode) -> Option<Arc<Mutex<Residence>>> {
        // Acquire: whoever sees the first array put in finds it.
        if !self.0.is_used.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.0.nodes).get(node).cloned()
    }

    fn with<R>(
        &self,
        node: &TensorNode,
        change: impl FnOnce(&mut Residence) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let entry = self.entry(node).ok_or_else(|| Error::NotHosted { node: node.name() })?;
        change(&mut *enter(&entry, node)?)
    }

    /// The node's array, with the values that devices computed last.
    ///
    /// # Errors
    ///
    /// A node without array here, the failure behind its values, and an array that does not fit the node: what a
    /// [`Prepare::transfer`] gave, or [`Host::update`] left.
    pub fn get(&self, node: &TensorNode) -> Result<Arc<HostArray>, Error> {
        self.with(node, |residence| {
            residence.do_read(node, self.0.options.automatic_transfers)?;
            Ok(Arc::clone(&residence.array))
        })
    }

    /// Changes the node's array in place, once nobody reads it; devices lag behind afterwards.
    ///
    /// # Errors
    ///
    /// As [`Host::get`], what `change` says, and an array of other sizes (margins included) or another element type
    /// that `change` puts in the place of the node's. The node then has no values, and every use of its array is this
    /// error, until [`Host::insert`] gives it another one.
    pub fn update<R>(
        &self,
        node: &TensorNode,
        change: impl FnOnce(&mut HostArray) -> Result<R, tnode::Error>,
    ) -> Result<R, Error> {
        self.with(node, |residence| {
            residence.do_read(node, self.0.options.automatic_transfers)?;
            residence.do_write(node)?;
            let result = change(Arc::make_mut(&mut residence.array))?;
            check(node, &residence.array)?;
            Ok(result)
        })
    }

    /// One value, at an index without margins.
    ///
    /// # Errors
    ///
    /// As [`Host::get`], and an index outside.
    pub fn get_value(&self, node: &TensorNode, index: &[usize]) -> Result<f64, Error> {
        Ok(self.get(node)?.get_f64(index)?)
    }

    /// Sets one value, at an index without margins, converted to the node's element type.
    ///
    /// # Errors
    ///
    /// As [`Host::update`], and an index outside.
    pub fn set_value(&self, node: &TensorNode, index: &[usize], value: f64) -> Result<(), Error> {
        self.update(node, |array| array.set(index, Scalar::from_f64(array.dtype(), value)))
    }

    /// All values, without margins, in row-major order.
    ///
    /// # Errors
    ///
    /// As [`Host::get`].
    pub fn get_values(&self, node: &TensorNode) -> Result<Vec<f64>, Error> {
        Ok(self.get(node)?.values())
    }

    /// Sets all values, without margins, in row-major order.
    ///
    /// # Errors
    ///
    /// As [`Host::update`], and another number of values.
    pub fn set_values(&self, node: &TensorNode, values: &[f64]) -> Result<(), Error> {
        self.update(node, |array| array.set_values(values))
    }

    /// The coordinate `xdim` of the points that the node's rows are, as [`HostArray::points_1d`].
    ///
    /// # Errors
    ///
    /// As [`Host::get`] and [`HostArray::points_1d`].
    pub fn points_1d(
        &self,
        node: &TensorNode,
        from_axis: Option<usize>,
        xdim: usize,
    ) -> Result<Vec<f64>, Error> {
        Ok(self.get(node)?.points_1d(from_axis, xdim)?)
    }

    /// Two coordinates of the points that the node's rows are, as [`HostArray::points_2d`].
    ///
    /// # Errors
    ///
    /// As [`Host::get`] and [`HostArray::points_2d`].
    pub fn points_2d(
        &self,
        node: &TensorNode,
        from_axis: Option<usize>,
        xdim: usize,
        ydim: usize,
    ) -> Result<Vec<(f64, f64)>, Error> {
        Ok(self.get(node)?.points_2d(from_axis, xdim, ydim)?)
    }

    /// Does what has to happen before the host reads the array: waits for the last writer and, with automatic transfers, brings its
    /// values. All reading methods here do so.
    ///
    /// # Errors
    ///
    /// As [`Host::get`].
    pub fn do_read(&self, node: &TensorNode) -> Result<(), Error> {
        self.with(node, |residence| residence.do_read(node, self.0.options.automatic_transfers))
    }

    /// Does what has to happen before the host writes the array: waits for devices that read it. All devices lag behind
    /// afterwards. All writing methods here do so.
    ///
    /// # Errors
    ///
    /// A node without array here, and a constant that a device has.
    pub fn do_write(&self, node: &TensorNode) -> Result<(), Error> {
        self.with(node, |residence| residence.do_write(node))
    }

    /// Adds what has to happen before the host reads the array next. What was to happen before is waited for too, but only the
    /// newest transfer is made.
    ///
    /// # Errors
    ///
    /// A node without array here.
    pub fn prepare_read(&self, node: &TensorNode, prepare: Prepare) -> Result<(), Error> {
        self.with(node, |residence| {
            residence.read = Some(prepare.after(residence.read.take()));
            Ok(())
        })
    }

    /// Adds what has to happen before the host writes the array next.
    ///
    /// # Errors
    ///
    /// A node without array here.
    pub fn prepare_write(&self, node: &TensorNode, prepare: Prepare) -> Result<(), Error> {
        self.with(node, |residence| {
            residence.write = Some(prepare.after(residence.write.take()));
            Ok(())
        })
    }

    /// The ids of the devices that have memory as new as the node's array, or newer; in order.
    pub fn devices_not_lagging_host(&self, node: &TensorNode) -> Vec<u64> {
        let Some(entry) = self.entry(node) else { return Vec::new() };
        let mut devices: Vec<u64> = lock(&entry).not_lagging.iter().map(|place| place.0).collect();
        devices.dedup();
        devices
    }
}

/// What contexts do about the arrays of their host.
impl Context {
    /// Gives a node memory with the values of its host array; the child context sees the node. Runs keep it in step from then on.
    /// Links do so by themselves for nodes that they read.
    ///
    /// # Errors
    ///
    /// A context without host, a node without array there, and as [`Context::init_from_host`].
    pub fn init_from_residence(&self, node: &TensorNode) -> Result<Context, Error> {
        let entry = self.residence(node).ok_or_else(|| Error::NotHosted { node: node.name() })?;
        let mut residence = enter(&entry, node)?;
        residence.do_read(node, self.automatic())?;
        let context = self.init_filled(node, &residence.array)?;
        if let Some(buffer) = context.get(node) {
            uploaded(&mut residence, &buffer, None);
        }
        Ok(context)
    }

    /// Schedules copying the node's host array into the node.
    ///
    /// # Errors
    ///
    /// As [`Context::init_from_residence`] and [`Context::from_host`].
    pub fn upload(&self, node: &TensorNode) -> Result<Transfer, Error> {
        let entry = self.residence(node).ok_or_else(|| Error::NotHosted { node: node.name() })?;
        let buffer = self.writable(node)?;
        self.upload_from(&mut *enter(&entry, node)?, node, &buffer)
    }

    fn upload_from(
        &self,
        residence: &mut Residence,
        node: &TensorNode,
        buffer: &Arc<Buffer>,
    ) -> Result<Transfer, Error> {
        residence.do_read(node, self.automatic())?;
        let transfer = self.fill_from_host(node, &residence.array)?;
        let event = if let Transfer::Scheduled(event) = &transfer { Some(event.clone()) } else { None };
        uploaded(residence, buffer, event);
        Ok(transfer)
    }

    fn automatic(&self) -> bool {
        self.host().is_some_and(|host| host.options().automatic_transfers)
    }

    fn residence(&self, node: &TensorNode) -> Option<Arc<Mutex<Residence>>> {
        self.host()?.entry(node)
    }

    /// The node's host array for a link that has to give it memory, and whether the device may read it in place.
    pub(crate) fn initial(&self, node: &TensorNode) -> Result<Option<(Arc<HostArray>, bool)>, Error> {
        let (Some(host), true) = (self.host(), self.automatic()) else { return Ok(None) };
        if !host.contains(node) {
            return Ok(None);
        }
        let in_place = host.options().use_host_memory && node.mode().known_constant();
        Ok(Some((host.get(node)?, in_place)))
    }

    /// Notes that a link has given the node memory with the values of its host array.
    pub(crate) fn note_initial(&self, node: &TensorNode) {
        if let (Some(entry), Some(buffer)) = (self.residence(node), self.get(node)) {
            uploaded(&mut lock(&entry), &buffer, None);
        }
    }

    /// Before a run: uploads what the run reads and what lags.
    pub(crate) fn bring(&self, reads: &[TensorNode]) -> Result<(), Error> {
        if !self.automatic() {
            return Ok(());
        }
        for node in reads {
            let Some(entry) = self.residence(node) else { continue };
            let Some(buffer) = self.get(node) else { continue };
            let mut residence = enter(&entry, node)?;
            if !buffer.read_only && !residence.not_lagging.contains(&buffer.order()) {
                let _ = self.upload_from(&mut residence, node, &buffer)?;
            }
        }
        Ok(())
    }

    /// After a run, or a transfer: the host lags behind what was written.
    pub(crate) fn wrote(&self, written: &[TensorNode], event: &Event) {
        if self.host().is_none() {
            return;
        }
        for node in written {
            let Some(entry) = self.residence(node) else { continue };
            let Some(buffer) = self.get(node) else { continue };
            let mut residence = lock(&entry);
            residence.not_lagging = BTreeSet::from([buffer.order()]);
            // Of a context that sees the node alone: this one has the host, which would keep itself.
            let context = Context::new(self.stream()).with([(node.clone(), buffer)]);
            let node = node.clone();
            let fetch = Prepare::transfer(event.clone(), move || context.to_host(&node));
            residence.read = Some(fetch.after(residence.read.take()));
        }
    }
}

/// Locks what is known of a node's array, which whoever brings its values holds until they are there.
///
/// # Errors
///
/// [`crate::DriverError::SelfWait`] inside a task, while somebody else has the array.
fn enter<'a>(entry: &'a Mutex<Residence>, node: &TensorNode) -> Result<MutexGuard<'a, Residence>, Error> {
    let during = || format!("using the host array of `{}`", node.name());
    lock_unless_inside(entry, || "a stream".to_owned()).map_err(Error::driver(during))
}

/// Device memory has got the array; the host may not write the array before that is done.
fn uploaded(residence: &mut Residence, buffer: &Buffer, event: Option<Event>) {
    residence.not_lagging.insert(buffer.order());
    if let Some(event) = event {
        residence.write = Some(Prepare::wait([event]).after(residence.write.take()));
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = lock(&self.0.nodes).keys().map(TensorNode::name).collect();
        f.debug_struct("Host").field("options", &self.0.options).field("nodes", &nodes).finish()
    }
}
