//! Host residency: keeps host arrays of nodes coherent with the copies on devices.
//!
//! A [`Host`] holds arrays of nodes and tracks which copies in device memory are as new as the array. Reading
//! an array first downloads the values that a device computed last. Writing an array makes all device copies
//! stale. Unless automatic transfers are switched off, contexts of a host transfer by themselves: a run
//! uploads its stale inputs, and the outputs of runs are downloaded when the host reads them. The host
//! downloads only the newest values, however many runs there were.
//!
//! The host does not change an array before its upload is done, and never changes the array of a constant
//! node once a device has its values. A pending download keeps its source in device memory alive;
//! [`Host::remove`] drops both. `residence.rs` tracks the state of one node.

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
    error::RunError,
    event::Event,
    pool::{Buffer, lock},
    residence::{Entered, Prepare, Residence, Version},
    transfer::{Transfer, check},
};

/// Options of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// Whether a run uploads stale device copies first, and a read on the host downloads newer device copies
    /// first. True by default.
    pub automatic_transfers: bool,
    /// Whether devices that can read host memory use the host arrays of constant nodes directly, without
    /// copies. If so, a link settles a node without a host array to be on the device only. False by default.
    pub use_host_memory: bool,
}

impl Default for HostOptions {
    fn default() -> HostOptions {
        HostOptions { automatic_transfers: true, use_host_memory: false }
    }
}

/// The host arrays of nodes. A node whose mode is hosted gets its array when a context of the host links a
/// routine that writes it; other nodes get theirs from [`Host::insert`]. Several devices may use one host.
/// Cheap to clone; clones refer to the same host. Any thread may call its methods: each read, write and
/// update of an array is whole.
///
/// ```
/// # use std::sync::Arc;
/// # use device_runtime::{Context, Device, Host, NullDevice};
/// # use tnode::{DType, HostArray, TensorNode};
/// let x = TensorNode::builder("x").dims([2]).dtype(DType::F32).build()?;
/// let host = Host::default();
/// host.insert(&x, HostArray::from_slice(&[1f32, 2.], [2])?)?;
/// host.set_value(&x, &[1], 5.0)?;
/// assert_eq!(host.values(&x)?, [1.0, 5.0]);
///
/// let device = Device::new(Arc::new(NullDevice::new()), 0);
/// let context = host.init(&Context::new(&device.new_stream()?), &x)?;
/// assert_eq!(host.devices_not_lagging_host(&x), [device.device_id()]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Host(Arc<HostInner>);

#[derive(Default)]
struct HostInner {
    options: HostOptions,
    nodes: Mutex<BTreeMap<TensorNode, Arc<Residence>>>,
    /// Whether any array was ever inserted. Every run checks this, and most programs have no arrays.
    is_used: AtomicBool,
}

impl Host {
    /// A host without arrays.
    pub fn new(options: HostOptions) -> Host {
        Host(Arc::new(HostInner { options, ..HostInner::default() }))
    }

    /// Returns the options with which this host was created.
    pub fn options(&self) -> HostOptions {
        self.0.options
    }

    /// Gives a node a host array, which makes it hosted. An existing array is replaced, and its device copies
    /// become stale.
    ///
    /// # Errors
    ///
    /// Fails if the array has another shape (margins included) or another element type, or if the node's mode
    /// excludes a host copy.
    pub fn insert(&self, node: &TensorNode, array: HostArray) -> Result<(), RunError> {
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

    /// Removes a node's array and its pending transfers. Returns the array as it is, without a transfer.
    ///
    /// # Errors
    ///
    /// [`RunError::HostArrayInUse`] inside of a change or a transfer, and [`crate::DriverError::SelfWait`]
    /// inside a task, while another call uses the array.
    pub fn remove(&self, node: &TensorNode) -> Result<Option<Arc<HostArray>>, RunError> {
        let Some(entry) = self.entry(node) else { return Ok(None) };
        let array = entry.enter(node)?.array();
        // The removed entry is dropped after the lock is released, since it may own the last handle of device
        // memory.
        let removed = lock(&self.0.nodes).remove(node);
        Ok(removed.map(|_| array))
    }

    /// Whether the host has an array of the node.
    pub fn contains(&self, node: &TensorNode) -> bool {
        lock(&self.0.nodes).contains_key(node)
    }

    fn entry(&self, node: &TensorNode) -> Option<Arc<Residence>> {
        // Acquire: a thread that reads true also sees the first array in the map.
        if !self.0.is_used.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.0.nodes).get(node).cloned()
    }

    fn known(&self, node: &TensorNode) -> Result<Arc<Residence>, RunError> {
        self.entry(node).ok_or_else(|| RunError::NotHosted { node: node.name() })
    }

    fn with<R>(
        &self,
        node: &TensorNode,
        change: impl FnOnce(&mut Entered<'_>) -> Result<R, RunError>,
    ) -> Result<R, RunError> {
        change(&mut self.known(node)?.enter(node)?)
    }

    /// Returns the newest values of a node's array, and their version.
    fn newest(&self, node: &TensorNode) -> Result<(Arc<HostArray>, Version), RunError> {
        self.with(node, |entered| {
            let version = entered.read(self.0.options.automatic_transfers)?;
            Ok((entered.array(), version))
        })
    }

    /// Returns the node's array, with the values that devices computed last.
    ///
    /// # Errors
    ///
    /// Fails if the host has no array of the node, or if the task that computed its values failed. If another
    /// call uses the array and the thread must not wait, fails with [`RunError::HostArrayInUse`] inside of a
    /// change or a transfer, and with [`crate::DriverError::SelfWait`] inside a task. Also fails if a
    /// [`Prepare::transfer`] or [`Host::update`] stored an array that does not fit the node.
    pub fn get(&self, node: &TensorNode) -> Result<Arc<HostArray>, RunError> {
        Ok(self.newest(node)?.0)
    }

    /// Changes the node's array in place, after its pending uploads are done. Its device copies become stale.
    /// While `change` runs, calls of its thread never wait for a host array: if they would have to wait, or
    /// need this array, they fail with [`RunError::HostArrayInUse`].
    ///
    /// # Errors
    ///
    /// Fails like [`Host::get`], or with the error of `change`. Also fails if `change` replaces the array by
    /// one of another shape (margins included) or another element type. The node then has no values, and
    /// every use of its array fails with this error until [`Host::insert`] replaces the array.
    pub fn update<R>(
        &self,
        node: &TensorNode,
        change: impl FnOnce(&mut HostArray) -> Result<R, tnode::TensorNodeError>,
    ) -> Result<R, RunError> {
        self.with(node, |entered| {
            entered.read(self.0.options.automatic_transfers)?;
            entered.write()?;
            let result = change(entered.array_mut()?)?;
            entered.check()?;
            Ok(result)
        })
    }

    /// Returns one value, at an index without margins.
    ///
    /// # Errors
    ///
    /// Fails like [`Host::get`]. Fails if the index is out of bounds.
    pub fn value(&self, node: &TensorNode, index: &[usize]) -> Result<f64, RunError> {
        Ok(self.get(node)?.value(index)?)
    }

    /// Sets one value, at an index without margins. The value is converted to the node's element type.
    ///
    /// # Errors
    ///
    /// Fails like [`Host::update`]. Fails if the index is out of bounds.
    pub fn set_value(&self, node: &TensorNode, index: &[usize], value: f64) -> Result<(), RunError> {
        self.update(node, |array| array.set(index, Scalar::from_f64(array.dtype(), value)))
    }

    /// Returns all values, without margins, in row-major order.
    ///
    /// # Errors
    ///
    /// Fails like [`Host::get`].
    pub fn values(&self, node: &TensorNode) -> Result<Vec<f64>, RunError> {
        Ok(self.get(node)?.values())
    }

    /// Sets all values, without margins, in row-major order.
    ///
    /// # Errors
    ///
    /// Fails like [`Host::update`]. Fails if the number of values differs from the number of elements.
    pub fn set_values(&self, node: &TensorNode, values: &[f64]) -> Result<(), RunError> {
        self.update(node, |array| array.set_values(values))
    }

    /// Reads the node's rows as points and returns their coordinates `xdim`, like [`HostArray::points_1d`].
    ///
    /// # Errors
    ///
    /// Fails like [`Host::get`] and [`HostArray::points_1d`].
    pub fn points_1d(
        &self,
        node: &TensorNode,
        from_axis: Option<usize>,
        xdim: usize,
    ) -> Result<Vec<f64>, RunError> {
        Ok(self.get(node)?.points_1d(from_axis, xdim)?)
    }

    /// Reads the node's rows as points and returns two of their coordinates, like [`HostArray::points_2d`].
    ///
    /// # Errors
    ///
    /// Fails like [`Host::get`] and [`HostArray::points_2d`].
    pub fn points_2d(
        &self,
        node: &TensorNode,
        from_axis: Option<usize>,
        xdim: usize,
        ydim: usize,
    ) -> Result<Vec<(f64, f64)>, RunError> {
        Ok(self.get(node)?.points_2d(from_axis, xdim, ydim)?)
    }

    /// Prepares the array for a read: waits for the last writer and, with automatic transfers, downloads its
    /// values. All methods that read an array call this method.
    ///
    /// # Errors
    ///
    /// Fails like [`Host::get`].
    pub fn do_read(&self, node: &TensorNode) -> Result<(), RunError> {
        self.newest(node).map(drop)
    }

    /// Prepares the array for a write: waits for devices that read it, and marks all device copies as stale.
    /// All methods that write an array call this method.
    ///
    /// # Errors
    ///
    /// Fails if the host has no array of the node, or if the node is a constant whose values a device has.
    pub fn do_write(&self, node: &TensorNode) -> Result<(), RunError> {
        self.with(node, |entered| entered.write())
    }

    /// Adds an action that must happen before the next read of the array by the host. Actions that were added
    /// earlier are waited for too, but only the newest transfer is executed.
    ///
    /// # Errors
    ///
    /// Fails if the host has no array of the node.
    pub fn prepare_read(&self, node: &TensorNode, prepare: Prepare) -> Result<(), RunError> {
        self.known(node)?.prepare_read(prepare);
        Ok(())
    }

    /// Adds an action that must happen before the next write of the array by the host.
    ///
    /// # Errors
    ///
    /// Fails if the host has no array of the node.
    pub fn prepare_write(&self, node: &TensorNode, prepare: Prepare) -> Result<(), RunError> {
        self.known(node)?.prepare_write(prepare);
        Ok(())
    }

    /// Returns the ids, in order, of the devices whose copies are at least as new as the node's array.
    pub fn devices_not_lagging_host(&self, node: &TensorNode) -> Vec<u64> {
        self.entry(node).map_or_else(Vec::new, |entry| entry.devices_not_lagging())
    }

    /// A child of the context whose runs keep its nodes consistent with the arrays of this host.
    pub fn attach(&self, context: &Context) -> Context {
        context.with_host(self)
    }

    /// Allocates memory for a node, with the values of its host array, and returns a child of the context
    /// with the node. Runs keep both coherent from then on. A link does the same for nodes that the linked
    /// code reads.
    ///
    /// # Errors
    ///
    /// [`RunError::NotHosted`] if this host has no array of the node. The errors of
    /// [`Context::init_from_host`].
    pub fn init(&self, context: &Context, node: &TensorNode) -> Result<Context, RunError> {
        let (array, version) = self.newest(node)?;
        let context = self.attach(context).init_filled(node, &array)?;
        context.note_initial(node, version);
        Ok(context)
    }

    /// Schedules a copy of the node's host array into the node.
    ///
    /// # Errors
    ///
    /// Fails like [`Host::init`] and [`Context::from_host`].
    pub fn upload(&self, context: &Context, node: &TensorNode) -> Result<Transfer, RunError> {
        let entry = self.known(node)?;
        let buffer = context.writable(node)?;
        context.upload_from(&mut entry.enter(node)?, node, &buffer)
    }
}

/// What a context does with the arrays of its host.
impl Context {
    fn upload_from(
        &self,
        entered: &mut Entered<'_>,
        node: &TensorNode,
        buffer: &Arc<Buffer>,
    ) -> Result<Transfer, RunError> {
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

    /// The host array of a node, which becomes the initial contents of the memory that linking allocates for
    /// the node.
    pub(crate) fn initial(&self, node: &TensorNode) -> Result<Option<Initial>, RunError> {
        let (Some(host), true) = (self.host(), self.automatic()) else { return Ok(None) };
        if !host.contains(node) {
            return Ok(None);
        }
        let (array, version) = host.newest(node)?;
        Ok(Some(Initial { array, version, in_place: false }))
    }

    /// Whether the host has no array for the node although runs would keep one up to date.
    pub(crate) fn lacks_host_array(&self, node: &TensorNode) -> bool {
        self.automatic() && self.host().is_some_and(|host| !host.contains(node))
    }

    /// Gives a node of this context a host array, which lags behind the device.
    pub(crate) fn keep_on_host(
        &self,
        node: &TensorNode,
        array: HostArray,
        event: &Event,
    ) -> Result<(), RunError> {
        let Some(host) = self.host() else { return Ok(()) };
        host.insert(node, array)?;
        self.wrote(std::slice::from_ref(node), event);
        Ok(())
    }

    /// Records that the node's new memory has the values of a version of its host array.
    pub(crate) fn note_initial(&self, node: &TensorNode, version: Version) {
        if let (Some(entry), Some(buffer)) = (self.residence(node), self.get(node)) {
            entry.uploaded(buffer.order(), version, None);
        }
    }

    /// Uploads the stale inputs of a run before it starts.
    pub(crate) fn upload_stale(&self, reads: &[TensorNode]) -> Result<(), RunError> {
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
            // Another thread may have uploaded the values meanwhile.
            if !entry.is_not_lagging(&buffer.order()) {
                let _ = self.upload_from(&mut entered, node, &buffer)?;
            }
        }
        Ok(())
    }

    /// Records that a run or a transfer writes nodes, so that their host arrays become stale.
    pub(crate) fn wrote(&self, written: &[TensorNode], event: &Event) {
        if self.host().is_none() {
            return;
        }
        for node in written {
            let Some(entry) = self.residence(node) else { continue };
            let Some(buffer) = self.get(node) else { continue };
            let place = buffer.order();
            // A handle of this context would form a cycle: the context refers to the host, and the host would
            // refer to the context. The download therefore gets its own context, which has only this node.
            let context = Context::new(self.stream()).with([(node.clone(), buffer)]);
            let node = node.clone();
            entry.written(place, Prepare::transfer(event.clone(), move || context.to_host(&node)));
        }
    }
}

/// Initial values of a node for which a link allocates memory.
pub(crate) struct Initial {
    pub(crate) array: Arc<HostArray>,
    version: Version,
    /// Whether the device may read the array in place.
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
