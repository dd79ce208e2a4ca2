//! Memory through which bytes pass between host and device: one buffer for all uploads of a batch, one for all that it reads back.

use device_runtime::HostLanding;
use wgpu::{Buffer, BufferDescriptor, BufferUsages, BufferViewMut};

use crate::{
    command::Command,
    encode::enclosing_words,
    gpu::{Gpu, Objection},
    slab::Region,
};

/// The bytes that a batch copies from the host; the host fills the buffer until [`Uploads::finish`].
pub(crate) struct Uploads {
    pub(crate) buffer: Buffer,
    mapped: BufferViewMut,
    used: usize,
}

impl Uploads {
    /// Room for every upload of a batch; none if there is no upload.
    pub(crate) fn new(gpu: &Gpu, commands: &[Command]) -> Result<Option<Uploads>, Objection> {
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
        let mapped = buffer.get_mapped_range_mut(..).map_err(|_| Objection::OutOfMemory)?;
        Ok(Some(Uploads { buffer, mapped, used: 0 }))
    }

    /// Takes bytes and gives their place in the buffer, which is a multiple of four.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> usize {
        let at = self.used;
        self.mapped.slice(at..at + bytes.len()).copy_from_slice(bytes);
        self.used += bytes.len().next_multiple_of(4);
        at
    }

    /// Hands the buffer to the device.
    pub(crate) fn finish(self) {
        drop(self.mapped);
        self.buffer.unmap();
    }
}

/// Bytes on their way to a host array.
#[derive(Debug)]
struct Landing {
    array: HostLanding,
    bytes: usize,
    /// Where they are in the buffer.
    at: usize,
}

/// What a batch reads back: elements of nodes for arrays, and times.
#[derive(Debug)]
pub(crate) struct Landings {
    pub(crate) buffer: Buffer,
    landings: Vec<Landing>,
    used: usize,
    /// Where the times begin: they are last.
    pub(crate) times: usize,
}

impl Landings {
    /// Room for everything that a batch reads back and the times of so many launches; none if it reads nothing.
    pub(crate) fn new(gpu: &Gpu, commands: &[Command], launches: usize) -> Option<Landings> {
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
        Some(Landings { buffer, landings: Vec::new(), used: 0, times })
    }

    /// Gives the place in the buffer where the words around a region are copied to.
    pub(crate) fn add(&mut self, region: &Region, array: &HostLanding) -> usize {
        let place = self.used;
        let at = place + region.begin() % 4;
        self.landings.push(Landing { array: array.clone(), bytes: region.bytes, at });
        self.used += enclosing_words(region).1 as usize;
        place
    }

    /// Fills the arrays, and gives the times. The buffer is mapped.
    pub(crate) fn land(self) -> Result<Vec<u64>, Objection> {
        let mapped =
            self.buffer.get_mapped_range(..).map_err(|error| Objection::Refused(error.to_string()))?;
        for landing in &self.landings {
            let arrived = &mapped[landing.at..landing.at + landing.bytes];
            landing.array.fill(0, landing.bytes, |bytes| bytes.copy_from_slice(arrived));
        }
        let times = mapped[self.times..].chunks_exact(8);
        Ok(times.map(|time| u64::from_le_bytes(time.try_into().unwrap_or_default())).collect())
    }
}
