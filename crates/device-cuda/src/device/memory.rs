//! Memory: of pools, and what kernels log to.

use std::sync::{Arc, atomic::Ordering};

use device_runtime::DriverError;

use super::CudaDevice;
use crate::{
    api::{Memory, Region},
    core::is_out_of_memory,
    kernel::Kernel,
};

impl CudaDevice {
    /// Memory for a pool, within the limit.
    fn allocate(&self, bytes: usize) -> Result<Arc<Memory>, DriverError> {
        self.core.alive()?;
        let limit = self.memory_limit.unwrap_or(usize::MAX);
        let within = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .map_err(|used| DriverError::OutOfMemory { requested: bytes, used })?;
        let memory = Memory::new(&self.core.context, bytes, &self.used);
        memory.map(Arc::new).map_err(|error| match is_out_of_memory(&error) {
            true => DriverError::OutOfMemory { requested: bytes, used: self.used.load(Ordering::Relaxed) },
            false => self.core.platform(error),
        })
    }

    /// Memory, if need be after what is on its way.
    pub(super) fn find_room(&self, bytes: usize) -> Result<Arc<Memory>, DriverError> {
        self.allocate(bytes).or_else(|error| {
            if !matches!(error, DriverError::OutOfMemory { .. }) {
                return Err(error);
            }
            // Tasks that are not done may hold memory that was freed: there is room after them.
            self.streams().iter().for_each(|stream| stream.drain());
            self.core.context.settle_memory().map_err(|error| self.core.platform(error))?;
            self.allocate(bytes)
        })
    }

    /// What a kernel logs to, if it logs.
    pub(super) fn log_memory(&self, kernel: &Kernel) -> Result<Option<Region>, DriverError> {
        if kernel.log_bytes == 0 {
            return Ok(None);
        }
        let memory = self.find_room(kernel.log_bytes).map_err(|error| match error {
            DriverError::OutOfMemory { requested, used } => {
                DriverError::NoRoomForLog { kernel: kernel.abi.name.clone(), requested, used }
            }
            other => other,
        })?;
        Ok(Some(Region::whole(memory)))
    }
}
