//! What streams are handed: commands, recorded until a batch of them is submitted.
//!
//! A command owns what it uses: memory, pipelines, host arrays. So whatever is dropped meanwhile, nothing is freed under a pending
//! command.

use std::sync::Arc;

use device_runtime::{CopyInTask, DriverError, HostLanding};
use smallvec::SmallVec;

use crate::{kernel::Bound, slab::Region};

/// One task of a stream.
#[derive(Debug)]
pub(crate) enum Command {
    /// Run a kernel with the values of its static indices.
    Launch(Arc<Bound>, SmallVec<[u32; 4]>),
    /// Fill with zeros.
    Zero(Region),
    /// Copy from a host array, which the task has.
    CopyIn(Region, CopyInTask),
    /// Copy to a landing array.
    CopyOut(Region, HostLanding),
    /// Copy within the device: to, from.
    Copy(Region, Region),
}

impl Command {
    /// Running a kernel.
    ///
    /// # Errors
    ///
    /// A binding that 31 bits do not hold.
    pub(crate) fn launch(bound: Arc<Bound>, bindings: &[i64]) -> Result<Command, DriverError> {
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
        Ok(Command::Launch(bound, indices))
    }

    /// What to call it in messages.
    pub(crate) fn name(&self) -> &str {
        match self {
            Command::Launch(bound, _) => &bound.name,
            Command::Zero(_) => "zero",
            Command::CopyIn(..) => "copy from host",
            Command::CopyOut(..) => "copy to host",
            Command::Copy(..) => "copy",
        }
    }

    /// Bytes that it moves between host and device, for which a batch has room.
    pub(crate) fn host_bytes(&self) -> usize {
        match self {
            Command::CopyIn(region, ..) | Command::CopyOut(region, ..) => region.bytes,
            Command::Launch(..) | Command::Zero(_) | Command::Copy(..) => 0,
        }
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Command::Launch(bound, _) => bound.grid.is_none(),
            Command::Zero(region)
            | Command::CopyIn(region, ..)
            | Command::CopyOut(region, ..)
            | Command::Copy(region, _) => region.bytes == 0,
        }
    }
}
