//! Allocates memory of pools and log buffers of kernels.

use std::sync::Arc;

use device_runtime::DriverError;

use super::CudaDevice;
use crate::{
    Result,
    api::{DeviceMemory, MemoryRegion},
    kernel::LoadedKernel,
    shared_state::is_out_of_memory,
};

impl CudaDevice {
    /// Allocates memory within the limit.
    fn allocate(&self, bytes: usize) -> Result<Arc<DeviceMemory>> {
        self.shared.check_alive()?;
        let memory = DeviceMemory::new(&self.shared.context, bytes, self.memory.reserve(bytes)?);
        memory.map(Arc::new).map_err(|error| match is_out_of_memory(&error) {
            true => DriverError::OutOfMemory { requested: bytes, used: self.memory.used() },
            false => self.shared.platform(error),
        })
    }

    /// Allocates memory; if there is not enough, waits for pending tasks and tries again.
    pub(super) fn find_room(&self, bytes: usize) -> Result<Arc<DeviceMemory>> {
        self.allocate(bytes).or_else(|error| {
            if !matches!(error, DriverError::OutOfMemory { .. }) {
                return Err(error);
            }
            // Unfinished tasks may keep freed memory alive: wait for them and try again.
            self.streams.drain_all();
            self.shared.context.release_freed_memory().map_err(|error| self.shared.platform(error))?;
            self.allocate(bytes)
        })
    }

    /// Allocates the log buffer of a kernel, if it logs.
    pub(super) fn log_memory(&self, kernel: &LoadedKernel) -> Result<Option<MemoryRegion>> {
        if kernel.log_bytes == 0 {
            return Ok(None);
        }
        let memory = self.find_room(kernel.log_bytes).map_err(|error| match error {
            DriverError::OutOfMemory { requested, used } => {
                DriverError::NoRoomForLog { kernel: kernel.abi.name.clone(), requested, used }
            }
            other => other,
        })?;
        Ok(Some(MemoryRegion::whole(memory)))
    }
}
