//! Host residency: host arrays of nodes, kept in step with the devices.
//!
//! A [`Host`] holds an array for each of some nodes, and knows which device memory is as new as that array.
//! Reading an array first brings the values that a device computed last; writing one makes all devices lag
//! behind. Contexts of a host transfer by themselves, unless told not to: a run uploads the inputs that lag,
//! and what a run has written is downloaded when the host reads it, once, however many runs there were.
//!
//! An array that is being uploaded is not changed before that is done, and that of a constant node never,
//! once a device has it. A pending download keeps the device memory it reads; [`Host::remove`] gives both up.
//! `residence.rs` beside this file has what is known of each array.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use tnode::{HostArray, Hosted, MemoryMode, Reason, Scalar, TensorNode};

use crate::{
    context::Context,
    error::Error,
    event::Event,
    pool::{Buffer, lock},
    residence::{Entered, Prepare, Residence, Version},
    transfer::{Transfer, check},
};

/// What may be chosen about a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// Runs upload what lags, and reads download what devices have computed; on unless switched off.
    pub automatic_transfers: bool,
    /// Devices that can read host memory in place do so for constant nodes, instead of having a copy; off unless switched on.
    /// A node that has no host array when a link gives it memory is then settled to be on the device, without one.
    pub use_host_memory: bool,
}

impl Default for HostOptions {
    fn default() -> HostOptions {
        HostOptions { automatic_transfers: true, use_host_memory: false }
    }
}

/// Host arrays of nodes. Nodes that are hosted by decision get theirs when a context of the host links a routine that
/// writes them; others from [`Host::insert`]. Cheap to clone; clones are the same host. Devices may share one.
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
    nodes: Mutex<BTreeMap<TensorNode, Arc<Residence>>>,
    /// Whether there ever was an array: every run asks, and most programs have none.
    is_used: AtomicBool,
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

    /// Gives a node a host array, which makes it hosted. An array that it has is replaced; devices lag behind
    /// then.
    ///
    /// # Errors
    ///
    /// An array of other sizes (margins included) or another element type, and a node whose mode excludes a
    /// host copy.
    pub fn insert(&self, node: &TensorNode, array: HostArray) -> Result<(), Error> {
        check(node, &array)?;
        node.update_memory_mode(MemoryMode::Hosted(Hosted::Unset), Reason::new("it has a host array"))?;
        let entry = {
            let mut nodes = lock(&self.0.nodes);
            let Some(present) = nodes.get(node) else {
                nodes.insert(node.clone(), Arc::new(Residence::new(array)));
                self.0.is_used.store(true, Ordering::Release);
                return Ok(());
            };
            Arc::clone(present)
        };
        let mut entered = entry.enter(node)?;
        entered.write()?;
        entered.replace(array);
        Ok(())
    }

    /// Forgets a node's array, and what is pending for it; the array as it is, without a transfer.
    ///
    /// # Errors
    ///
    /// [`Error::HostArrayInUse`] inside of a change or a transfer, and [`crate::DriverError::SelfWait`]
    /// inside a task, while somebody has the array.
    pub fn remove(&self, node: &TensorNode) -> Result<Option<Arc<HostArray>>, Error> {
        let Some(entry) = self.entry(node) else { return Ok(None) };
        let array = entry.enter(node)?.array();
        // Dropped after the lock: it may be the last to hold device memory.
        let removed = lock(&self.0.nodes).remove(node);
        Ok(removed.map(|_| array))
    }

    /// Whether the node has an array here.
    pub fn contains(&self, node: &TensorNode) -> bool {
        lock(&self.0.nodes).contains_key(node)
    }

    fn entry(&self, node: &TensorNode) -> Option<Arc<Residence>> {
        // Acquire: whoever sees the first array put in finds it.
        if !self.0.is_used.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.0.nodes).get(node).cloned()
    }

    fn known(&self, node: &TensorNode) -> Result<Arc<Residence>, Error> {
        self.entry(node).ok_or_else(|| Error::NotHosted { node: node.name() })
    }

    fn with<R>(
        &self,
        node: &TensorNode,
        change: impl FnOnce(&mut Entered<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        change(&mut self.known(node)?.enter(node)?)
    }

    /// The newest values of a node's array, and their version.
    fn newest(&self, node: &TensorNode) -> Result<(Arc<HostArray>, Version), Error> {
        self.with(node, |entered| {
            let version = entered.read(self.0.options.automatic_transfers)?;
            Ok((entered.array(), version))
        })
    }

    /// The node's array, with the values that devices computed last.
    ///
    /// # Errors
    ///
    /// A node without array here, the failure behind its values, an array that somebody has where the thread
    /// must not wait ([`Error::HostArrayInUse`] inside of a change or a transfer,
    /// [`crate::DriverError::SelfWait`] inside a task), and an array that does not fit the node: what a
    /// [`Prepare::transfer`] gave, or [`Host::update`] left.
    pub fn get(&self, node: &TensorNode) -> Result<Arc<HostArray>, Error> {
        Ok(self.newest(node)?.0)
    }

    /// Changes the node's array in place, once nobody reads it; devices lag behind afterwards. While `change`
    /// runs, its thread waits for no host array: calls that would have to are errors
    /// ([`Error::HostArrayInUse`]), as those that want this array always are.
    ///
    /// # Errors
    ///
    /// As [`Host::get`], what `change` says, and an array of other sizes (margins included) or another
    /// element type that `change` puts in the place of the node's. The node then has no values, and every use
    /// of its array is this error, until [`Host::insert`] gives it another one.
    pub fn update<R>(
        &self,
        node: &TensorNode,
        change: impl FnOnce(&mut HostArray) -> Result<R, tnode::Error>,
    ) -> Result<R, Error> {
        self.with(node, |entered| {
            entered.read(self.0.options.automatic_transfers)?;
            entered.write()?;
            let result = change(entered.array_mut()?)?;
            entered.check()?;
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

    /// Does what has to happen before the host reads the array: waits for the last writer and, with automatic
    /// transfers, brings its values. All reading methods here do so.
    ///
    /// # Errors
    ///
    /// As [`Host::get`].
    pub fn do_read(&self, node: &TensorNode) -> Result<(), Error> {
        self.newest(node).map(drop)
    }

    /// Does what has to happen before the host writes the array: waits for devices that read it. All devices
    /// lag behind afterwards. All writing methods here do so.
    ///
    /// # Errors
    ///
    /// A node without array here, and a constant that a device has.
    pub fn do_write(&self, node: &TensorNode) -> Result<(), Error> {
        self.with(node, |entered| entered.write())
    }

    /// Adds what has to happen before the host reads the array next. What was to happen before is waited for
    /// too, but only the newest transfer is made.
    ///
    /// # Errors
    ///
    /// A node without array here.
    pub fn prepare_read(&self, node: &TensorNode, prepare: Prepare) -> Result<(), Error> {
        self.known(node)?.prepare_read(prepare);
        Ok(())
    }

    /// Adds what has to happen before the host writes the array next.
    ///
    /// # Errors
    ///
    /// A node without array here.
    pub fn prepare_write(&self, node: &TensorNode, prepare: Prepare) -> Result<(), Error> {
        self.known(node)?.prepare_write(prepare);
        Ok(())
    }

    /// The ids of the devices that have memory as new as the node's array, or newer; in order.
    pub fn devices_not_lagging_host(&self, node: &TensorNode) -> Vec<u64> {
        self.entry(node).map_or_else(Vec::new, |entry| entry.devices_not_lagging())
    }
}

/// What contexts do about the arrays of their host.
impl Context {
    /// Gives a node memory with the values of its host array; the child context sees the node. Runs keep it
    /// in step from then on. Links do so by themselves for nodes that they read.
    ///
    /// # Errors
    ///
    /// A context without host, a node without array there, and as [`Context::init_from_host`].
    pub fn init_from_residence(&self, node: &TensorNode) -> Result<Context, Error> {
        let host = self.host().ok_or_else(|| Error::NotHosted { node: node.name() })?;
        let (array, version) = host.newest(node)?;
        let context = self.init_filled(node, &array)?;
        context.note_initial(node, version);
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
        self.upload_from(&mut entry.enter(node)?, node, &buffer)
    }

    fn upload_from(
        &self,
        entered: &mut Entered<'_>,
        node: &TensorNode,
        buffer: &Arc<Buffer>,
    ) -> Result<Transfer, Error> {
        let version = entered.read(self.automatic())?;
        let transfer = self.fill_from_host(node, &entered.array())?;
        let event = if let Transfer::Scheduled(event) = &transfer { Some(event.clone()) } else { None };
        entered.uploaded(buffer.order(), version, event);
        Ok(transfer)
    }

    fn automatic(&self) -> bool {
        self.host().is_some_and(|host| host.options().automatic_transfers)
    }

    fn residence(&self, node: &TensorNode) -> Option<Arc<Residence>> {
        self.host()?.entry(node)
    }

    /// The node's host array for a link that has to give it memory.
    pub(crate) fn initial(&self, node: &TensorNode) -> Result<Option<Initial>, Error> {
        let (Some(host), true) = (self.host(), self.automatic()) else { return Ok(None) };
        if !host.contains(node) {
            return Ok(None);
        }
        let (array, version) = host.newest(node)?;
        Ok(Some(Initial { array, version, in_place: false }))
    }

    /// Whether runs would keep a host array of the node in step, and there is none.
    pub(crate) fn lacks_host_array(&self, node: &TensorNode) -> bool {
        self.automatic() && self.host().is_some_and(|host| !host.contains(node))
    }

    /// Gives a node of this context a host array, which lags behind the device.
    pub(crate) fn keep_on_host(
        &self,
        node: &TensorNode,
        array: HostArray,
        event: &Event,
    ) -> Result<(), Error> {
        let Some(host) = self.host() else { return Ok(()) };
        host.insert(node, array)?;
        self.wrote(std::slice::from_ref(node), event);
        Ok(())
    }

    /// Notes that the node was given memory with the values that its host array had at a version.
    pub(crate) fn note_initial(&self, node: &TensorNode, version: Version) {
        if let (Some(entry), Some(buffer)) = (self.residence(node), self.get(node)) {
            entry.uploaded(buffer.order(), version, None);
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
            if !buffer.range.is_writable() || entry.is_not_lagging(&buffer.order()) {
                continue;
            }
            let mut entered = entry.enter(node)?;
            // Another thread may have done so meanwhile.
            if !entry.is_not_lagging(&buffer.order()) {
                let _ = self.upload_from(&mut entered, node, &buffer)?;
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
            let place = buffer.order();
            // Of a context that sees the node alone: this one has the host, which would keep itself.
            let context = Context::new(self.stream()).with([(node.clone(), buffer)]);
            let node = node.clone();
            entry.written(place, Prepare::transfer(event.clone(), move || context.to_host(&node)));
        }
    }
}

/// What a link gives a node that only the host has.
pub(crate) struct Initial {
    pub(crate) array: Arc<HostArray>,
    version: Version,
    /// The device may read the array itself.
    pub(crate) in_place: bool,
}

impl Initial {
    pub(crate) fn version(&self) -> Version {
        self.version
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = lock(&self.0.nodes).keys().map(TensorNode::name).collect();
        f.debug_struct("Host").field("options", &self.0.options).field("nodes", &nodes).finish()
    }
}
