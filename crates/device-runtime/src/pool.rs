//! Owned device memory: pools that free themselves once, and the buffers inside them.
//!
//! Contexts share buffers, buffers share pools; the last share frees. That is the whole of finalisation: a
//! child context cannot free what its parent holds, and nothing is freed twice. Another device of the process
//! that can reach a pool gets it as a pool of its own, which lives as long as the first.

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
    error::{DriverError, Error},
    hazard::Hazards,
    inside::lock_unless_inside,
    plan::plan_pool_segments,
    report::PoolItem,
    sharing::Sharers,
    stream::Stream,
};

/// Locks; a panic elsewhere cannot leave our plain values half-written, so it is no reason to fail here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pool of a device, freed on drop.
#[derive(Debug)]
pub(crate) struct Pool {
    device: Device,
    memory: PoolMemory,
    /// Bytes that count as the device's; none where the memory is somebody else's.
    counted: usize,
    /// By device, the pool as that device reaches it; none where it cannot.
    peers: Mutex<BTreeMap<u64, Option<Arc<Pool>>>>,
}

impl Pool {
    /// Allocates a pool; `items` are what will lie in it, for reports.
    pub(crate) fn new(device: &Device, bytes: usize, items: Vec<PoolItem>) -> Result<Arc<Pool>, DriverError> {
        let id = device.next_pool();
        let memory = PoolMemory::allocate(device.driver(), id, bytes)?;
        device.pool_made(id, bytes, items);
        Ok(Pool::made(device, memory, bytes))
    }

    /// Makes a pool of memory that exists, if the device can reach it.
    pub(crate) fn import(device: &Device, memory: &SharedMemory) -> Result<Arc<Pool>, DriverError> {
        let memory = PoolMemory::import(device.driver(), device.next_pool(), memory)?;
        Ok(Pool::made(device, memory, 0))
    }

    fn made(device: &Device, memory: PoolMemory, counted: usize) -> Arc<Pool> {
        Arc::new(Pool { device: device.clone(), memory, counted, peers: Mutex::default() })
    }

    /// All its bytes.
    fn whole(&self) -> MemoryRange {
        self.memory.whole()
    }

    /// The bytes `offset..+bytes`.
    ///
    /// # Errors
    ///
    /// [`DriverError::OutOfBounds`].
    pub(crate) fn range(&self, offset: usize, bytes: usize) -> Result<MemoryRange, DriverError> {
        self.memory.range(offset, bytes)
    }

    /// This pool as another device reaches it, if it does.
    fn seen_by(&self, device: &Device) -> Option<Arc<Pool>> {
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

/// Whose memory a buffer is.
#[derive(Debug)]
pub(crate) enum Holder {
    /// A node's.
    Node(TensorNode),
    /// A stream's merge buffer; the text names it.
    MergeBuffer(String),
}

impl Holder {
    /// The name in messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Holder::Node(node) => node.name(),
            Holder::MergeBuffer(name) => name.clone(),
        }
    }
}

/// Memory of one node, or of a merge buffer, with the table of who used it last.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) holder: Holder,
    pub(crate) device: Device,
    /// All of its memory; only read where it is a host array itself.
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

    /// The name in messages.
    pub(crate) fn name(&self) -> String {
        self.holder.name()
    }

    /// How large it is.
    pub(crate) fn bytes(&self) -> usize {
        self.range.bytes()
    }

    /// The table of its uses.
    ///
    /// # Errors
    ///
    /// [`DriverError::SelfWait`] inside a task, while a use is being handed over.
    pub(crate) fn table(&self) -> Result<MutexGuard<'_, Hazards>, DriverError> {
        lock_unless_inside(&self.hazards, || self.device.name())
    }

    /// The key by which locks are taken in order.
    pub(crate) fn order(&self) -> (u64, Location) {
        (self.device.device_id(), self.range.location())
    }

    /// The memory as another device reaches it, if it does.
    pub(crate) fn seen_by(&self, device: &Device) -> Option<MemoryRange> {
        if *device == self.device {
            return Some(self.range.clone());
        }
        self.pool.seen_by(device)?.range(self.range.offset(), self.range.bytes()).ok()
    }
}

/// Allocates memory of arbitrary content for nodes, in order, packed into pools. All or nothing.
pub(crate) fn allocate(stream: &Stream, nodes: &[&TensorNode]) -> Result<Vec<Arc<Buffer>>, Error> {
    let device = stream.device();
    let align = device.driver().caps().alignment.max(BASE_ALIGNMENT);
    let items =
        nodes.iter().map(|node| Ok((node.size_bytes()?, align))).collect::<Result<Vec<_>, Error>>()?;
    let plan = plan_pool_segments(device.pool_cap(), &items).map_err(|large| Error::NodeTooLarge {
        node: nodes[large.item].name(),
        stream: stream.name(),
        bytes: large.bytes,
        cap: large.cap,
    })?;
    let inside = |pool: usize| {
        let all = plan.places.iter().zip(nodes).zip(&items);
        all.filter(|((place, _), _)| place.0 == pool)
            .map(|((place, node), (bytes, _))| PoolItem { name: node.name(), offset: place.1, bytes: *bytes })
            .collect()
    };
    let pool = |(at, &bytes): (usize, &usize)| {
        Pool::new(device, bytes, inside(at)).map_err(Error::driver(|| allocating(stream, nodes)))
    };
    let pools = plan.sizes.iter().enumerate().map(pool).collect::<Result<Vec<_>, _>>()?;
    let places = plan.places.iter().zip(nodes).zip(&items);
    let made = places.map(|((&(pool, offset), node), &(bytes, _))| {
        buffer(Holder::Node((*node).clone()), &pools[pool], offset, bytes)
    });
    made.collect::<Result<_, _>>().map_err(Error::driver(|| allocating(stream, nodes)))
}

/// A node's memory that is a host array itself, if the device reads such; nothing may write it.
pub(crate) fn wrap(device: &Device, node: &TensorNode, array: &Arc<HostArray>) -> Option<Arc<Buffer>> {
    let pool = Pool::import(device, &SharedMemory::of_host(Arc::clone(array))).ok()?;
    buffer(Holder::Node(node.clone()), &pool, 0, array.size_bytes()).ok()
}

/// Makes a host array's memory that of a node, if the device takes it over; else gives the array back.
pub(crate) fn adopt(
    device: &Device,
    node: &TensorNode,
    array: Box<HostArray>,
) -> Result<Arc<Buffer>, Box<HostArray>> {
    let bytes = array.size_bytes();
    if bytes == 0 || bytes > device.pool_cap() {
        return Err(array);
    }
    let memory = PoolMemory::adopt(device.driver(), || device.next_pool(), array)?;
    device.pool_made(memory.id(), bytes, vec![PoolItem { name: node.name(), offset: 0, bytes }]);
    let pool = Pool::made(device, memory, bytes);
    Ok(Buffer::new(Holder::Node(node.clone()), &pool, pool.whole()))
}

/// Memory for a merge buffer of at least so many bytes.
pub(crate) fn allocate_merge(stream: &Stream, bytes: usize) -> Result<Arc<Buffer>, Error> {
    let device = stream.device();
    let name = format!("the merge buffer of {}", stream.name());
    if bytes > device.pool_cap() {
        let (stream, cap) = (stream.name(), device.pool_cap());
        return Err(Error::NodeTooLarge { node: name, stream, bytes, cap });
    }
    let item = PoolItem { name: name.clone(), offset: 0, bytes };
    let made = Pool::new(device, bytes, vec![item])
        .and_then(|pool| buffer(Holder::MergeBuffer(name.clone()), &pool, 0, bytes));
    made.map_err(Error::driver(|| format!("allocating {name}")))
}

fn buffer(holder: Holder, pool: &Arc<Pool>, offset: usize, bytes: usize) -> Result<Arc<Buffer>, DriverError> {
    Ok(Buffer::new(holder, pool, pool.range(offset, bytes)?))
}

fn allocating(stream: &Stream, nodes: &[&TensorNode]) -> String {
    let names: Vec<_> = nodes.iter().map(|node| format!("`{}`", node.name())).collect();
    format!("allocating {} for {}", names.join(", "), stream.name())
}
