//! The parts of a backend: a code generator, and the devices that run its code.

use std::{error::Error, sync::Arc};

use codegen_core::Codegen;
use device_runtime::Device;

/// A code generator and the devices that run its code, at least one. [`Backend::from_parts`] makes a backend
/// of it.
///
/// [`Backend::from_parts`]: crate::Backend::from_parts
#[derive(Clone)]
pub struct BackendParts {
    pub(crate) codegen: Arc<dyn Codegen>,
    /// Indexed by ordinal; never empty.
    pub(crate) devices: Vec<Device>,
}

/// What opening a registered backend returns; an error of any type becomes the box by `?`.
pub type OpenResult = Result<BackendParts, Box<dyn Error + Send + Sync>>;

impl BackendParts {
    /// A code generator and one device.
    pub fn new(codegen: Arc<dyn Codegen>, device: Device) -> BackendParts {
        BackendParts { codegen, devices: vec![device] }
    }

    /// Adds a device, which must run the same code as the first one. [`Backend::devices`] has the devices
    /// in the order of addition, from 0, so the `n`th device should be made with ordinal `n`.
    ///
    /// [`Backend::devices`]: crate::Backend::devices
    #[must_use]
    pub fn with_device(mut self, device: Device) -> BackendParts {
        self.devices.push(device);
        self
    }
}
