//! Global memory of the simulated GPU: named buffers with gaps between them.

use super::array_layout::describe;
use super::fault::{CheckResult, FaultCause, MemoryLocation};
use ptx_asm::StateSpace;

/// A simulated GPU. The contents of its global memory persist from run to run.
///
/// The layout exposes wrong addresses: the first buffer crosses a multiple of 2³², so that addresses computed
/// in 32 bits miss it, and there are gaps between buffers.
#[derive(Clone, Debug)]
pub struct SimulatedGpu {
    buffers: Vec<BufferContents>,
    next: u64,
}

/// Handle of a buffer in the global memory of a [`SimulatedGpu`].
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
    /// For each byte, whether it was written; empty if the buffer was initialized as a whole.
    written: Vec<bool>,
}

/// Alignment of buffers in bytes, as in CUDA.
const ALIGN: u64 = 256;

impl GlobalBuffer {
    /// Address of the first byte, for [`super::SimLaunch::params`].
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
    /// A GPU without buffers.
    pub fn new() -> SimulatedGpu {
        SimulatedGpu { buffers: Vec::new(), next: (7 << 32) - ALIGN }
    }

    /// Allocates a buffer with these bytes. Faults mention it by `name`.
    pub fn put(&mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> GlobalBuffer {
        self.place(name.into(), bytes.into(), Vec::new())
    }

    /// Allocates a buffer of `bytes` uninitialized bytes; reading one before it is written is a fault.
    pub fn reserve(&mut self, name: impl Into<String>, bytes: usize) -> GlobalBuffer {
        self.place(name.into(), vec![0; bytes], vec![false; bytes])
    }

    fn place(&mut self, name: String, bytes: Vec<u8>, written: Vec<bool>) -> GlobalBuffer {
        let buffer = GlobalBuffer { index: self.buffers.len(), address: self.next };
        // Gaps differ, so that no two distances between buffers are equal.
        let gap = ALIGN * (self.buffers.len() as u64 + 1);
        self.next = (self.next + bytes.len() as u64 + gap).next_multiple_of(ALIGN);
        self.buffers.push(BufferContents { name, base: buffer.address, bytes, written });
        buffer
    }

    /// The bytes of a buffer; uninitialized bytes are zeros.
    ///
    /// # Panics
    ///
    /// If the buffer belongs to another GPU.
    pub fn bytes(&self, buffer: GlobalBuffer) -> &[u8] {
        &self.buffers[buffer.index].bytes
    }

    /// Whether every byte of a buffer was written.
    ///
    /// # Panics
    ///
    /// If the buffer belongs to another GPU.
    pub fn is_written(&self, buffer: GlobalBuffer) -> bool {
        self.buffers[buffer.index].written.iter().all(|&written| written)
    }

    /// Number of buffers.
    pub(super) fn len(&self) -> usize {
        self.buffers.len()
    }

    /// Index of the buffer that contains all these bytes, and their offset in it.
    pub(super) fn locate(&self, address: u64, bytes: u32) -> CheckResult<(usize, usize)> {
        let after = self.buffers.partition_point(|buffer| buffer.base <= address);
        let below = after.checked_sub(1).map(|i| (i, &self.buffers[i]));
        if let Some((i, buffer)) = below
            && (address - buffer.base).saturating_add(u64::from(bytes)) <= buffer.bytes.len() as u64
        {
            return Ok((i, (address - buffer.base) as usize));
        }
        let nearest = below.map_or("there is no array below".into(), |(_, buffer)| {
            describe(&buffer.name, buffer.base, buffer.bytes.len() as u64)
        });
        Err(Box::new(FaultCause::OutOfBounds { space: StateSpace::Global, address, bytes, nearest }))
    }

    /// Describes a byte of a buffer for a fault.
    pub(super) fn location(&self, buffer: usize, at: usize) -> MemoryLocation {
        let buffer = &self.buffers[buffer];
        let address = buffer.base + at as u64;
        MemoryLocation { space: StateSpace::Global, address, array: buffer.name.clone(), byte: at }
    }

    pub(super) fn buffer(&self, buffer: usize) -> &BufferContents {
        &self.buffers[buffer]
    }

    /// Writes bytes at an offset that [`Self::locate`] returned.
    pub(super) fn write(&mut self, buffer: usize, at: usize, bytes: &[u8]) {
        let buffer = &mut self.buffers[buffer];
        buffer.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        if !buffer.written.is_empty() {
            buffer.written[at..at + bytes.len()].fill(true);
        }
    }
}

impl BufferContents {
    /// Offset of the first uninitialized byte in a range.
    pub(super) fn unwritten(&self, at: usize, bytes: usize) -> Option<usize> {
        if self.written.is_empty() {
            return None;
        }
        self.written[at..at + bytes].iter().position(|&written| !written).map(|i| at + i)
    }
}
