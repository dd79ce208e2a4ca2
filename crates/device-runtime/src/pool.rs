//! Owned device memory: pools that free themselves once, and the buffers inside them.
//!
//! Contexts share buffers, buffers share pools; the last share frees. That is the whole of finalisation: a child context
//! cannot free what its parent holds, and nothing is freed twice.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tnode::TensorNode;

use crate::{
    device::Device,
    driver::{Location, PoolId},
    error::{DriverError, Error},
    hazard::Hazards,
    plan::plan_pool_segments,
};

/// Locks; a panic elsewhere cannot leave our plain values half-written, so it is no reason to fail here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pool of a device, freed on drop.
#[derive(Debug)]
pub(crate) struct Pool {
    device: Device,
    id: PoolId,
    bytes: usize,
}

impl Pool {
    pub(crate) fn new(device: &Device, bytes: usize) -> Result<Arc<Pool>, DriverError> {
        let id = device.next_pool();
        device.driver().alloc_pool(id, bytes)?;
        device.count_alloc(bytes);
        Ok(Arc::new(Pool { device: device.clone(), id, bytes }))
    }

    pub(crate) fn at(&self, offset: usize) -> Location {
        Location { pool: self.id, offset }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.device.driver().free_pool(self.id);
        self.device.count_free(self.bytes);
    }
}

/// A node's memory, with the table of who used it last.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) node: TensorNode,
    pub(crate) location: Location,
    pub(crate) bytes: usize,
    pub(crate) hazards: Mutex<Hazards>,
    /// Held only for its `Drop`.
    _pool: Arc<Pool>,
}

/// Allocates memory of arbitrary content for nodes, in order, packed into pools. All or nothing.
pub(crate) fn allocate(device: &Device, nodes: &[&TensorNode]) -> Result<Vec<Arc<Buffer>>, Error> {
    let align = device.driver().caps().alignment;
    let items =
        nodes.iter().map(|node| Ok((node.size_bytes()?, align))).collect::<Result<Vec<_>, Error>>()?;
    let plan = plan_pool_segments(device.pool_cap(), &items).map_err(|large| Error::NodeTooLarge {
        node: nodes[large.item].name(),
        bytes: large.bytes,
        cap: large.cap,
    })?;
    let pool = |&bytes: &usize| Pool::new(device, bytes).map_err(Error::driver(|| allocating(device, nodes)));
    let pools = plan.sizes.iter().map(pool).collect::<Result<Vec<_>, _>>()?;
    let places = plan.places.iter().zip(nodes).zip(items);
    Ok(places
        .map(|((&(pool, offset), node), (bytes, _))| buffer(&pools[pool], offset, node, bytes))
        .collect())
}

fn buffer(pool: &Arc<Pool>, offset: usize, node: &TensorNode, bytes: usize) -> Arc<Buffer> {
    Arc::new(Buffer {
        node: node.clone(),
        location: pool.at(offset),
        bytes,
        hazards: Mutex::default(),
        _pool: Arc::clone(pool),
    })
}

fn allocating(device: &Device, nodes: &[&TensorNode]) -> String {
    let names: Vec<_> = nodes.iter().map(|node| format!("`{}`", node.name())).collect();
    format!("allocating {} on {}", names.join(", "), device.name())
}
