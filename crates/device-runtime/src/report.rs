//! Reports of a device's memory, for people.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::driver::PoolId;

/// Total size of the pools of a device's contexts and routines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemoryUse {
    /// Size of the current pools, in bytes; zero once every context, routine and stream is dropped.
    pub live_bytes: usize,
    /// The maximum of `live_bytes` since the device was made, or since [`crate::Device::reset_peak`].
    pub peak_bytes: usize,
}

/// An item in a pool: a node, a temporary of a routine, or a merge buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolItem {
    /// The node's name, or a description of the item.
    pub name: String,
    /// Offset in the pool, in bytes.
    pub offset: usize,
    /// Size of the item, in bytes.
    pub bytes: usize,
    /// For a temporary, the routine and the first and last of its kernel calls that use it. Temporaries that
    /// no call uses together share bytes.
    pub calls: Option<(Arc<str>, (usize, usize))>,
}

impl PoolItem {
    pub(crate) fn new(name: String, offset: usize, bytes: usize) -> PoolItem {
        PoolItem { name, offset, bytes, calls: None }
    }
}

impl fmt::Display for PoolItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PoolItem { name, offset, bytes, calls } = self;
        write!(f, "{offset:>6}..{:<10} {name}", offset + bytes)?;
        match calls {
            Some((routine, (first, last))) => write!(f, " (calls {first} to {last} of `{routine}`)"),
            None => Ok(()),
        }
    }
}

/// A pool in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolUse {
    /// The pool's number.
    pub pool: PoolId,
    /// Size of the pool, in bytes.
    pub bytes: usize,
    /// The items in the pool, by offset.
    pub items: Vec<PoolItem>,
}

/// The memory of a device at one moment. [`fmt::Display`] prints a table.
///
/// ```
/// # use std::sync::Arc;
/// # use device_runtime::{Context, Device, NullDevice};
/// # use tnode::{DType, HostArray, TensorNode};
/// let device = Device::new(Arc::new(NullDevice::new()), 0);
/// let x = TensorNode::builder("x").dims([4]).dtype(DType::F32).build()?;
/// let context = Context::new(&device.new_stream()?);
/// let context = context.init_from_host(&x, &HostArray::from_slice(&[1f32, 2., 3., 4.], [4])?)?;
/// let report = device.memory_report().to_string();
/// assert_eq!(report, "null:0: 16 bytes live, 16 at peak
///   pool 1: 16 bytes
///          0..16         x
/// ");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryReport {
    /// The device's name.
    pub device: String,
    /// Live and peak bytes.
    pub total: MemoryUse,
    /// The pools, by number.
    pub pools: Vec<PoolUse>,
}

impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemoryUse { live_bytes, peak_bytes } = self.total;
        writeln!(f, "{}: {live_bytes} bytes live, {peak_bytes} at peak", self.device)?;
        for pool in &self.pools {
            writeln!(f, "  {}: {} bytes", pool.pool, pool.bytes)?;
            for item in &pool.items {
                writeln!(f, "    {item}")?;
            }
        }
        Ok(())
    }
}

/// The account of a device's pools.
#[derive(Debug, Default)]
pub(crate) struct MemoryAccount {
    total: MemoryUse,
    pools: BTreeMap<PoolId, PoolUse>,
}

impl MemoryAccount {
    pub(crate) fn total(&self) -> MemoryUse {
        self.total
    }

    pub(crate) fn reset_peak(&mut self) {
        self.total.peak_bytes = self.total.live_bytes;
    }

    pub(crate) fn made(&mut self, pool: PoolId, bytes: usize, items: Vec<PoolItem>) {
        self.total.live_bytes += bytes;
        self.total.peak_bytes = self.total.peak_bytes.max(self.total.live_bytes);
        self.pools.insert(pool, PoolUse { pool, bytes, items });
    }

    pub(crate) fn freed(&mut self, pool: PoolId, bytes: usize) {
        self.total.live_bytes -= bytes;
        self.pools.remove(&pool);
    }

    pub(crate) fn report(&self, device: String) -> MemoryReport {
        MemoryReport { device, total: self.total, pools: self.pools.values().cloned().collect() }
    }
}
