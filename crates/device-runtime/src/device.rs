//! Devices: identity, streams, and the account of memory.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use tnode::TensorNode;

use crate::{
    driver::{Driver, PoolId, StreamStrategy},
    error::{DriverError, RunError},
    inside::lock_unless_holding,
    pool::lock,
    report::{MemoryAccount, MemoryReport, MemoryUse, PoolItem},
    sharing::Candidates,
    stream::{Stream, StreamId, StreamInner},
    stream_registry::StreamRegistry,
};

/// Maximum size of a pool in bytes, unless [`Device::with_pool_cap`] sets another: 4 GiB.
pub const DEFAULT_POOL_CAP: usize = 1 << 32;

/// Identifiers are unique among all devices of all drivers.
static NEXT_DEVICE_ID: AtomicU64 = AtomicU64::new(0);

/// A device that runs routines. Cheap to clone; equality is identity.
#[derive(Clone)]
pub struct Device(Arc<DeviceInner>);

struct DeviceInner {
    driver: Arc<dyn Driver>,
    ordinal: usize,
    device_id: u64,
    pool_cap: usize,
    /// The chosen strategy for suggested streams.
    strategy: OnceLock<StreamStrategy>,
    next_pool: AtomicU32,
    next_stream: AtomicU32,
    streams: StreamRegistry<StreamInner>,
    memory: Mutex<MemoryAccount>,
    candidates: Mutex<Candidates>,
    /// Merges that could not borrow their source and got a copy.
    copied_merges: AtomicU64,
    /// Nodes whose memory was filled with zeros before its first use.
    zero_fills: AtomicU64,
    rejects_unwritten_reads: AtomicBool,
}

impl Device {
    /// Makes a device from a driver; `ordinal` is its position among the devices of the same kind.
    pub fn new(driver: Arc<dyn Driver>, ordinal: usize) -> Device {
        Device::with_pool_cap(driver, ordinal, DEFAULT_POOL_CAP)
    }

    /// Like [`Device::new`], with another maximum size of a pool in bytes, which also limits the size of a
    /// node.
    pub fn with_pool_cap(driver: Arc<dyn Driver>, ordinal: usize, pool_cap: usize) -> Device {
        Device(Arc::new(DeviceInner {
            driver,
            ordinal,
            device_id: NEXT_DEVICE_ID.fetch_add(1, Ordering::Relaxed),
            pool_cap,
            strategy: OnceLock::new(),
            next_pool: AtomicU32::new(1),
            next_stream: AtomicU32::new(0),
            streams: StreamRegistry::default(),
            memory: Mutex::default(),
            candidates: Mutex::default(),
            copied_merges: AtomicU64::new(0),
            zero_fills: AtomicU64::new(0),
            rejects_unwritten_reads: AtomicBool::new(false),
        }))
    }

    /// `driver:ordinal`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.0.driver.name(), self.0.ordinal)
    }

    /// The position among the devices of the same kind.
    pub fn ordinal(&self) -> usize {
        self.0.ordinal
    }

    /// A number that no other device of the process has, of any driver.
    pub fn device_id(&self) -> u64 {
        self.0.device_id
    }

    /// The driver, for introspection: capabilities, static properties, memory in use.
    pub fn driver(&self) -> &dyn Driver {
        &*self.0.driver
    }

    /// Chooses the strategy for suggested streams. The first call decides; later ones have no effect.
    pub fn initialize(&self, strategy: StreamStrategy) {
        self.0.strategy.get_or_init(|| strategy);
    }

    /// Whether [`Device::initialize`] was called.
    pub fn is_initialized(&self) -> bool {
        self.0.strategy.get().is_some()
    }

    /// Whether a run that reads a node which nothing has written, such as the result of a routine that has
    /// not run, fails with [`RunError::Unwritten`]. Otherwise the node counts as zeros, and `tracing` gets a
    /// warning. A run that also writes the node may always begin with zeros.
    pub fn reject_unwritten_reads(&self, rejects: bool) {
        self.0.rejects_unwritten_reads.store(rejects, Ordering::Relaxed);
    }

    pub(crate) fn rejects_unwritten_reads(&self) -> bool {
        self.0.rejects_unwritten_reads.load(Ordering::Relaxed)
    }

    /// The number of streams that make good use of the device with the chosen strategy, or with the default
    /// strategy if none was chosen.
    pub fn suggested_num_streams(&self) -> usize {
        self.0.driver.suggested_num_streams(self.0.strategy.get().copied().unwrap_or_default())
    }

    /// Makes a stream.
    ///
    /// # Errors
    ///
    /// [`DriverError::Platform`] if the platform gives no thread or queue, and other errors of the driver.
    pub fn new_stream(&self) -> Result<Stream, RunError> {
        let id = StreamId(self.0.next_stream.fetch_add(1, Ordering::Relaxed));
        let name = format!("{}:{}", self.name(), id.0);
        let handle =
            self.0.driver.new_stream(&name).map_err(RunError::driver(|| format!("making {name}")))?;
        Ok(Stream::new(self.clone(), id, handle, &self.0.streams))
    }

    /// The streams that are still in use, by id.
    pub fn streams(&self) -> Vec<Stream> {
        self.0.streams.live().into_iter().map(Stream::from_inner).collect()
    }

    /// Waits for all work of all streams.
    ///
    /// # Errors
    ///
    /// The first failure, by stream id. All other streams are waited for nevertheless.
    pub fn sync(&self) -> Result<(), RunError> {
        let results: Vec<_> = self.streams().iter().map(Stream::sync).collect();
        results.into_iter().collect()
    }

    /// The total size of pools of contexts, routines and streams.
    pub fn memory(&self) -> MemoryUse {
        lock(&self.0.memory).total()
    }

    /// The memory of contexts, routines and streams, by pool.
    pub fn memory_report(&self) -> MemoryReport {
        lock(&self.0.memory).report(self.name())
    }

    /// Sets the peak to the memory in use now.
    pub fn reset_peak(&self) {
        lock(&self.0.memory).reset_peak();
    }

    /// The nodes whose buffer a link on another stream would share, in order.
    pub fn cross_stream_candidates(&self) -> Vec<TensorNode> {
        lock(&self.0.candidates).nodes()
    }

    /// The only stream that may write a node that links on several streams share; none if no stream writes it
    /// yet, or if the user made it shared.
    pub fn owner_stream(&self, node: &TensorNode) -> Option<StreamId> {
        let buffer = lock(&self.0.candidates).find(node)?;
        lock(&buffer.sharers).owner
    }

    /// The number of merges that could not borrow their source, because the device cannot access it, and got
    /// a copy.
    pub fn copied_merges(&self) -> u64 {
        self.0.copied_merges.load(Ordering::Relaxed)
    }

    pub(crate) fn count_copied_merge(&self) {
        self.0.copied_merges.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of nodes allocated by links that were filled with zeros, because the first task that used
    /// their memory did not overwrite all of it.
    pub fn zero_fills(&self) -> u64 {
        self.0.zero_fills.load(Ordering::Relaxed)
    }

    pub(crate) fn count_zero_fill(&self) {
        self.0.zero_fills.fetch_add(1, Ordering::Relaxed);
    }

    /// Locks the candidates for sharing. A link holds this lock while it decides about sharing, and takes it
    /// before any other lock.
    ///
    /// # Errors
    ///
    /// [`DriverError::SelfWait`] inside a task or while the thread has locked a host array, if another link
    /// holds the lock.
    pub(crate) fn candidates(&self) -> Result<MutexGuard<'_, Candidates>, RunError> {
        lock_unless_holding(&self.0.candidates).map_err(|_| {
            let source = DriverError::SelfWait { stream: self.name(), doing: "waiting for a link" };
            RunError::Driver { during: format!("deciding who shares nodes of {}", self.name()), source }
        })
    }

    pub(crate) fn pool_cap(&self) -> usize {
        self.0.pool_cap
    }

    pub(crate) fn next_pool(&self) -> PoolId {
        PoolId(self.0.next_pool.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn pool_made(&self, pool: PoolId, bytes: usize, items: Vec<PoolItem>) {
        lock(&self.0.memory).made(pool, bytes, items);
    }

    pub(crate) fn pool_freed(&self, pool: PoolId, bytes: usize) {
        lock(&self.0.memory).freed(pool, bytes);
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        self.0.device_id == other.0.device_id
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}, id {})", self.name(), self.0.device_id)
    }
}
