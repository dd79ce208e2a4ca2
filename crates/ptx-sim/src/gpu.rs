//! The device's memory: named regions, far from each other.

use super::array_layout::describe;
use super::fault::{CheckResult, FaultCause, MemoryLocation};
use ptx_asm::StateSpace;

/// A simulated device. What it holds stays from one run to the next.
///
/// Regions lie where mistakes show: the first one crosses a multiple of 2³², so that addresses computed in 32 bits miss it, and between
/// any two there is nothing.
#[derive(Clone, Debug)]
pub struct SimulatedGpu {
    regions: Vec<BufferContents>,
    next: u64,
}

/// BufferContents of a [`SimulatedGpu`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalBuffer {
    index: usize,
    address: u64,
}

#[derive(Clone, Debug)]
pub(super) struct BufferContents {
    name: String,
    base: u64,
    pub(super) bytes: Vec<u8>,
    /// Which bytes were ever written; empty if all were.
    written: Vec<bool>,
}

/// What every region's address is a multiple of, as the drivers' are.
const ALIGN: u64 = 256;

impl GlobalBuffer {
    /// The address of its first byte, for [`super::Launch::params`].
    pub fn address(self) -> u64 {
        self.address
    }
}

impl Default for SimulatedGpu {
    fn default() -> SimulatedGpu {
        SimulatedGpu::new()
    }
}

impl SimulatedGpu {
    /// A device without memory.
    pub fn new() -> SimulatedGpu {
        SimulatedGpu { regions: Vec::new(), next: (7 << 32) - ALIGN }
    }

    /// BufferContents that holds these bytes. Faults will call it by that name.
    pub fn put(&mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> GlobalBuffer {
        self.place(name.into(), bytes.into(), Vec::new())
    }

    /// BufferContents of so many bytes that may not be read before they are written.
    pub fn reserve(&mut self, name: impl Into<String>, bytes: usize) -> GlobalBuffer {
        self.place(name.into(), vec![0; bytes], vec![false; bytes])
    }

    fn place(&mut self, name: String, bytes: Vec<u8>, written: Vec<bool>) -> GlobalBuffer {
        let region = GlobalBuffer { index: self.regions.len(), address: self.next };
        // Gaps differ, so that no two distances between regions are equal.
        let gap = ALIGN * (self.regions.len() as u64 + 1);
        self.next = (self.next + bytes.len() as u64 + gap).next_multiple_of(ALIGN);
        self.regions.push(BufferContents { name, base: region.address, bytes, written });
        region
    }

    /// What a region holds.
    ///
    /// # Panics
    ///
    /// If the region is another machine's.
    pub fn bytes(&self, region: GlobalBuffer) -> &[u8] {
        &self.regions[region.index].bytes
    }

    /// Whether every byte of a region was written.
    ///
    /// # Panics
    ///
    /// If the region is another machine's.
    pub fn is_written(&self, region: GlobalBuffer) -> bool {
        self.regions[region.index].written.iter().all(|&written| written)
    }

    /// How many regions there are.
    pub(super) fn len(&self) -> usize {
        self.regions.len()
    }

    /// The region that holds all these bytes, and their place in it.
    pub(super) fn locate(&self, address: u64, bytes: u32) -> CheckResult<(usize, usize)> {
        let after = self.regions.partition_point(|region| region.base <= address);
        let below = after.checked_sub(1).map(|i| (i, &self.regions[i]));
        if let Some((i, region)) = below
            && (address - region.base).saturating_add(u64::from(bytes)) <= region.bytes.len() as u64
        {
            return Ok((i, (address - region.base) as usize));
        }
        let nearest = below.map_or("there is no array below".into(), |(_, region)| {
            describe(&region.name, region.base, region.bytes.len() as u64)
        });
        Err(Box::new(FaultCause::OutOfBounds { space: StateSpace::Global, address, bytes, nearest }))
    }

    /// A byte of a region.
    pub(super) fn location(&self, region: usize, at: usize) -> MemoryLocation {
        let region = &self.regions[region];
        let address = region.base + at as u64;
        MemoryLocation { space: StateSpace::Global, address, array: region.name.clone(), byte: at }
    }

    /// What is there.
    pub(super) fn region(&self, region: usize) -> &BufferContents {
        &self.regions[region]
    }

    /// Writes bytes that were located.
    pub(super) fn write(&mut self, region: usize, at: usize, bytes: &[u8]) {
        let region = &mut self.regions[region];
        region.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        if !region.written.is_empty() {
            region.written[at..at + bytes.len()].fill(true);
        }
    }
}

impl BufferContents {
    /// The first of these bytes that was never written.
    pub(super) fn unwritten(&self, at: usize, bytes: usize) -> Option<usize> {
        if self.written.is_empty() {
            return None;
        }
        self.written[at..at + bytes].iter().position(|&written| !written).map(|i| at + i)
    }
}
