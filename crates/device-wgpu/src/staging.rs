//! Staging memory between host and device: one buffer for all uploads of a batch, one for all its read-backs.

use device_runtime::HostReadback;
use wgpu::{Buffer, BufferDescriptor, BufferUsages, BufferViewMut};

use crate::{
    command::Command,
    encode::enclosing_words,
    gpu::{Gpu, GpuError},
    slab::MemoryRegion,
};

/// The uploads of a batch. The host fills the buffer until [`UploadBuffer::finish`].
pub(crate) struct UploadBuffer {
    pub(crate) buffer: Buffer,
    mapped: BufferViewMut,
    used: usize,
}

impl UploadBuffer {
    /// Creates a buffer with room for every upload of a batch; `None` if there is no upload.
    pub(crate) fn new(gpu: &Gpu, commands: &[Command]) -> Result<Option<UploadBuffer>, GpuError> {
        let room = commands.iter().map(|command| match command {
            Command::CopyIn(region, ..) => region.bytes.next_multiple_of(4),
            Command::Launch(..) | Command::Zero(_) | Command::CopyOut(..) | Command::Copy(..) => 0,
        });
        let bytes: usize = room.sum();
        if bytes == 0 {
            return Ok(None);
        }
        let buffer = gpu.device.create_buffer(&BufferDescriptor {
            label: Some("uploads"),
            size: bytes as u64,
            usage: BufferUsages::COPY_SRC | BufferUsages::STORAGE,
            mapped_at_creation: true,
        });
        let mapped = buffer.get_mapped_range_mut(..).map_err(|_| GpuError::OutOfMemory)?;
        Ok(Some(UploadBuffer { buffer, mapped, used: 0 }))
    }

    /// Copies bytes into the buffer and returns their offset, which is a multiple of four.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> usize {
        let at = self.used;
        self.mapped.slice(at..at + bytes.len()).copy_from_slice(bytes);
        self.used += bytes.len().next_multiple_of(4);
        at
    }

    /// Unmaps the buffer, so that the device can read it.
    pub(crate) fn finish(self) {
        drop(self.mapped);
        self.buffer.unmap();
    }
}

/// One pending copy to a host array.
#[derive(Debug)]
struct Readback {
    array: HostReadback,
    bytes: usize,
    /// Offset in the buffer, in bytes.
    at: usize,
}

/// The read-backs of a batch: ranges of nodes for host arrays, and timestamps.
#[derive(Debug)]
pub(crate) struct ReadbackBuffer {
    pub(crate) buffer: Buffer,
    readbacks: Vec<Readback>,
    used: usize,
    /// Offset of the timestamps, in bytes; they are last.
    pub(crate) times: usize,
}

impl ReadbackBuffer {
    /// Creates a buffer with room for every read-back of a batch and for the timestamps of `launches`
    /// launches; `None` if there are no read-backs.
    pub(crate) fn new(gpu: &Gpu, commands: &[Command], launches: usize) -> Option<ReadbackBuffer> {
        let room = commands.iter().map(|command| match command {
            Command::CopyOut(region, ..) => enclosing_words(region).1 as usize,
            Command::Launch(..) | Command::Zero(_) | Command::CopyIn(..) | Command::Copy(..) => 0,
        });
        let times = room.sum::<usize>().next_multiple_of(8);
        let bytes = times + launches * 16;
        let buffer = (bytes > 0).then(|| {
            gpu.device.create_buffer(&BufferDescriptor {
                label: Some("read back"),
                size: bytes as u64,
                usage: BufferUsages::COPY_DST | BufferUsages::MAP_READ,
                mapped_at_creation: false,
            })
        })?;
        Some(ReadbackBuffer { buffer, readbacks: Vec::new(), used: 0, times })
    }

    /// Reserves room for the words around a region; returns their offset in the buffer.
    pub(crate) fn add(&mut self, region: &MemoryRegion, array: &HostReadback) -> usize {
        let place = self.used;
        let at = place + region.begin() % 4;
        self.readbacks.push(Readback { array: array.clone(), bytes: region.bytes, at });
        self.used += enclosing_words(region).1 as usize;
        place
    }

    /// Fills the host arrays and returns the timestamps. The buffer must be mapped.
    pub(crate) fn complete(self) -> Result<Vec<u64>, GpuError> {
        let mapped =
            self.buffer.get_mapped_range(..).map_err(|error| GpuError::Rejected(error.to_string()))?;
        for readback in &self.readbacks {
            let arrived = &mapped[readback.at..readback.at + readback.bytes];
            readback.array.fill(0, readback.bytes, |bytes| bytes.copy_from_slice(arrived));
        }
        let times = mapped[self.times..].chunks_exact(8);
        Ok(times.map(|time| u64::from_le_bytes(time.try_into().unwrap_or_default())).collect())
    }
}
