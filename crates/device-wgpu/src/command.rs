//! Commands of streams, recorded until a batch of them is submitted.
//!
//! A command owns everything that it uses: memory, pipelines, host arrays. So nothing is freed while a
//! pending command uses it, whatever the user drops.

use std::sync::Arc;

use device_runtime::{CopyInTask, DriverError, HostReadback, KernelTimer};
use smallvec::SmallVec;

use crate::{kernel::BoundPipeline, slab::MemoryRegion};

/// One task of a stream.
#[derive(Debug)]
pub(crate) enum Command {
    /// Run a kernel with the values of its static indices, and record its time, if there is a timer.
    Launch(Arc<BoundPipeline>, SmallVec<[u32; 4]>, Option<KernelTimer>),
    /// Fill with zeros.
    Zero(MemoryRegion),
    /// Copy from the task's host array.
    CopyIn(MemoryRegion, CopyInTask),
    /// Copy to a host array.
    CopyOut(MemoryRegion, HostReadback),
    /// Copy within the device: destination, source.
    Copy(MemoryRegion, MemoryRegion),
}

impl Command {
    /// A launch of a kernel, whose time `timer` records.
    ///
    /// # Errors
    ///
    /// [`DriverError::Platform`] for a binding that does not fit 32-bit signed indices.
    pub(crate) fn launch(
        bound: Arc<BoundPipeline>,
        bindings: &[i64],
        timer: Option<KernelTimer>,
    ) -> Result<Command, DriverError> {
        let index = |&value: &i64| {
            i32::try_from(value).map(|value| value as u32).map_err(|_| DriverError::Platform {
                what: "launching a kernel",
                message: format!(
                    "`{}`: a binding of {value} does not fit the device's 32-bit indices",
                    bound.name
                ),
            })
        };
        let indices = bindings.iter().map(index).collect::<Result<_, _>>()?;
        Ok(Command::Launch(bound, indices, timer))
    }

    /// The command's name in messages: the kernel's, or the operation.
    pub(crate) fn name(&self) -> &str {
        match self {
            Command::Launch(bound, ..) => &bound.name,
            Command::Zero(_) => "zero",
            Command::CopyIn(..) => "copy from host",
            Command::CopyOut(..) => "copy to host",
            Command::Copy(..) => "copy",
        }
    }

    /// The number of bytes that the command copies between host and device. It counts towards the size of a
    /// batch.
    pub(crate) fn host_bytes(&self) -> usize {
        match self {
            Command::CopyIn(region, ..) | Command::CopyOut(region, ..) => region.bytes,
            Command::Launch(..) | Command::Zero(_) | Command::Copy(..) => 0,
        }
    }

    /// Whether the command has no effect.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Command::Launch(bound, ..) => bound.grid.is_none(),
            Command::Zero(region)
            | Command::CopyIn(region, ..)
            | Command::CopyOut(region, ..)
            | Command::Copy(region, _) => region.bytes == 0,
        }
    }
}
