//! Owned device memory: pools that free themselves once, and buffers in them.
//!
//! Contexts share buffers, and buffers share pools; the last reference frees. So a child context cannot free
//! memory of its parent, and nothing is freed twice. Another device of the process that can access a pool
//! gets a pool of its own for the same memory, which exists as long as the first.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use codegen_core::BASE_ALIGNMENT;
use tnode::{HostArray, TensorNode};

use crate::{
    checked::{MemoryRange, PoolMemory, SharedMemory},
    device::Device,
    driver::Location,
    error::{Result, RunError},
    hazard::Hazards,
    inside::lock_unless_inside,
    plan::plan_pool_segments,
    report::PoolItem,
    sharing::Sharers,
    stream::Stream,
};

/// Locks a mutex and ignores poisoning, since a panic elsewhere leaves no plain value half-written.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pool of a device, freed on drop.
#[derive(Debug)]
pub(crate) struct Pool {
    device: Device,
    memory: PoolMemory,
    /// The number of bytes counted for the device; 0 for imported memory.
    counted: usize,
    /// By device id, the pool imported into that device; none if the device cannot access it.
    peers: Mutex<BTreeMap<u64, Option<Arc<Pool>>>>,
}

impl Pool {
    /// Allocates a pool; `items` describe its contents, for reports.
    pub(crate) fn new(device: &Device, bytes: usize, items: Vec<PoolItem>) -> Result<Arc<Pool>> {
        let id = device.next_pool();
        let memory = PoolMemory::allocate(device.driver(), id, bytes)?;
        device.pool_made(id, bytes, items);
        Ok(Pool::made(device, memory, bytes))
    }

    /// Makes a pool of existing memory, if the device can access it.
    pub(crate) fn import(device: &Device, memory: &SharedMemory) -> Result<Arc<Pool>> {
        let memory = PoolMemory::import(device.driver(), device.next_pool(), memory)?;
        Ok(Pool::made(device, memory, 0))
    }

    fn made(device: &Device, memory: PoolMemory, counted: usize) -> Arc<Pool> {
        Arc::new(Pool { device: device.clone(), memory, counted, peers: Mutex::default() })
    }

    /// The range of all bytes.
    fn whole(&self) -> MemoryRange {
        self.memory.whole()
    }

    /// The range `offset..offset + bytes`.
    ///
    /// # Errors
    ///
    /// [`DriverError::OutOfBounds`].
    pub(crate) fn range(&self, offset: usize, bytes: usize) -> Result<MemoryRange> {
        self.memory.range(offset, bytes)
    }

    /// The pool imported into another device, if that device can access it.
    fn accessible_from(&self, device: &Device) -> Option<Arc<Pool>> {
        let import = || {
            let memory = self.memory.export(self.device.driver()).ok()?;
            Pool::import(device, &memory).ok()
        };
        lock(&self.peers).entry(device.device_id()).or_insert_with(import).clone()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.device.pool_freed(self.memory.id(), self.counted);
    }
}

/// The owner of a buffer.
#[derive(Debug)]
pub(crate) enum Holder {
    /// The node whose values the buffer has.
    Node(TensorNode),
    /// A stream's merge buffer; the text names it.
    MergeBuffer(String),
}

impl Holder {
    /// The owner's name in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Holder::Node(node) => node.name(),
            Holder::MergeBuffer(name) => name.clone(),
        }
    }
}

/// The memory of one node, or a merge buffer, with a table of its last uses.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) holder: Holder,
    pub(crate) device: Device,
    /// All of its memory; read-only if it is a host array.
    pub(crate) range: MemoryRange,
    pub(crate) hazards: Mutex<Hazards>,
    pub(crate) sharers: Mutex<Sharers>,
    pool: Arc<Pool>,
}

impl Buffer {
    fn new(holder: Holder, pool: &Arc<Pool>, range: MemoryRange) -> Arc<Buffer> {
        Arc::new(Buffer {
            holder,
            device: pool.device.clone(),
            range,
            hazards: Mutex::default(),
            sharers: Mutex::default(),
            pool: Arc::clone(pool),
        })
    }

    /// The owner's name in messages.
    pub(crate) fn name(&self) -> String {
        self.holder.name()
    }

    /// Size of the buffer, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.range.bytes()
    }

    /// Locks the table of uses.
    ///
    /// # Errors
    ///
    /// [`DriverError::SelfWait`] inside a task, while a use is being submitted.
    pub(crate) fn table(&self) -> Result<MutexGuard<'_, Hazards>> {
        lock_unless_inside(&self.hazards, || self.device.name())
    }

    /// The key that determines the order in which locks are taken.
    pub(crate) fn order(&self) -> (u64, Location) {
        (self.device.device_id(), self.range.location())
    }

    /// The memory as another device accesses it, if it can.
    pub(crate) fn accessible_from(&self, device: &Device) -> Option<MemoryRange> {
        if *device == self.device {
            return Some(self.range.clone());
        }
        self.pool.accessible_from(device)?.range(self.range.offset(), self.range.bytes()).ok()
    }
}

/// Allocates memory with arbitrary contents for nodes, in order, packed into pools. On an error, nothing is
/// allocated.
pub(crate) fn allocate(stream: &Stream, nodes: &[&TensorNode]) -> Result<Vec<Arc<Buffer>>, RunError> {
    let device = stream.device();
    let align = device.driver().caps().alignment.max(BASE_ALIGNMENT);
    let items =
        nodes.iter().map(|node| Ok((node.size_bytes()?, align))).collect::<Result<Vec<_>, RunError>>()?;
    let plan = plan_pool_segments(device.pool_cap(), &items).map_err(|large| RunError::NodeTooLarge {
        node: nodes[large.item].name(),
        stream: stream.name(),
        bytes: large.bytes,
        cap: large.cap,
    })?;
    let inside = |pool: usize| {
        let all = plan.places.iter().zip(nodes).zip(&items);
        all.filter(|((place, _), _)| place.0 == pool)
            .map(|((place, node), (bytes, _))| PoolItem::new(node.name(), place.1, *bytes))
            .collect()
    };
    let pool = |(at, &bytes): (usize, &usize)| {
        Pool::new(device, bytes, inside(at)).map_err(RunError::driver(|| allocating(stream, nodes)))
    };
    let pools = plan.sizes.iter().enumerate().map(pool).collect::<Result<Vec<_>, _>>()?;
    let places = plan.places.iter().zip(nodes).zip(&items);
    let made = places.map(|((&(pool, offset), node), &(bytes, _))| {
        buffer(Holder::Node((*node).clone()), &pools[pool], offset, bytes)
    });
    made.collect::<Result<_, _>>().map_err(RunError::driver(|| allocating(stream, nodes)))
}

/// A read-only buffer that is a host array, if the device can read it in place.
pub(crate) fn wrap(device: &Device, node: &TensorNode, array: &Arc<HostArray>) -> Option<Arc<Buffer>> {
    let pool = Pool::import(device, &SharedMemory::of_host(Arc::clone(array))).ok()?;
    buffer(Holder::Node(node.clone()), &pool, 0, array.size_bytes()).ok()
}

/// Makes the memory of a host array without other owners a node's buffer, if the device supports that; else
/// returns the array.
pub(crate) fn adopt(
    device: &Device,
    node: &TensorNode,
    array: Arc<HostArray>,
) -> Result<Arc<Buffer>, Arc<HostArray>> {
    let bytes = array.size_bytes();
    if bytes == 0 || bytes > device.pool_cap() {
        return Err(array);
    }
    let array = Box::new(Arc::try_unwrap(array)?);
    let memory = PoolMemory::adopt(device.driver(), || device.next_pool(), array)?;
    device.pool_made(memory.id(), bytes, vec![PoolItem::new(node.name(), 0, bytes)]);
    let pool = Pool::made(device, memory, bytes);
    Ok(Buffer::new(Holder::Node(node.clone()), &pool, pool.whole()))
}

/// Allocates a merge buffer of at least `bytes` bytes.
pub(crate) fn allocate_merge(stream: &Stream, bytes: usize) -> Result<Arc<Buffer>, RunError> {
    let device = stream.device();
    let name = format!("the merge buffer of {}", stream.name());
    if bytes > device.pool_cap() {
        let (stream, cap) = (stream.name(), device.pool_cap());
        return Err(RunError::NodeTooLarge { node: name, stream, bytes, cap });
    }
    let item = PoolItem::new(name.clone(), 0, bytes);
    let made = Pool::new(device, bytes, vec![item])
        .and_then(|pool| buffer(Holder::MergeBuffer(name.clone()), &pool, 0, bytes));
    made.map_err(RunError::driver(|| format!("allocating {name}")))
}

fn buffer(holder: Holder, pool: &Arc<Pool>, offset: usize, bytes: usize) -> Result<Arc<Buffer>> {
    Ok(Buffer::new(holder, pool, pool.range(offset, bytes)?))
}

fn allocating(stream: &Stream, nodes: &[&TensorNode]) -> String {
    let names: Vec<_> = nodes.iter().map(|node| format!("`{}`", node.name())).collect();
    format!("allocating {} for {}", names.join(", "), stream.name())
}
