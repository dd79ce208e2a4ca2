//! The target of a backend: a code generator, and the devices that run its code.

use std::sync::Arc;

use codegen_core::Codegen;
use device_runtime::{Context, Device, RunError};

/// What a backend compiles for and runs on, under its name.
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) codegen: Arc<dyn Codegen>,
    /// Indexed by ordinal; never empty.
    pub(crate) devices: Vec<Device>,
}

impl Target {
    /// The device with ordinal 0.
    pub(crate) fn device(&self) -> &Device {
        &self.devices[0]
    }

    /// A context without nodes, on a new stream of the device.
    pub(crate) fn context_on(&self, device: &Device) -> Result<Context, RunError> {
        Ok(Context::new(&device.new_stream()?))
    }
}
