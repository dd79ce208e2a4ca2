//! Which backends this process can use, and why it cannot use the others.

use std::fmt;

use device_runtime::Device;
use lowered_ir::stack::with_enough;

use super::registry::{BackendEntry, entries, find};
use crate::{
    backend::Backend,
    error::OpenError,
    settings::{LoadedSettings, Settings},
};

/// A backend that can be named, with its devices, or with the reason why it cannot be used here. Displayed as
/// one line.
#[derive(Debug)]
#[non_exhaustive]
pub struct BackendStatus {
    /// The name, for [`Backend::open`].
    pub name: String,
    /// A few words about the backend.
    pub about: String,
    /// The devices of this machine, at least one; or why there is none: this build lacks the backend, a
    /// driver or a GPU is missing, or a registered backend does not open.
    pub devices: Result<Vec<DeviceListing>, OpenError>,
}

/// A device that a backend can open. Displayed as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceListing {
    /// The position, counted from 0, by which the settings `wgpu_adapter` and `cuda_device` choose a GPU.
    pub ordinal: usize,
    /// The name, and facts that distinguish the device from others.
    pub text: String,
    /// Whether the device is a GPU that a program on the CPU emulates. Its speed then says nothing about the
    /// speed of a GPU.
    pub is_software: bool,
}

impl BackendStatus {
    /// Whether the backend has a device here.
    pub fn is_available(&self) -> bool {
        self.devices.is_ok()
    }
}

impl DeviceListing {
    /// A device that is open. Its text is the first property of the driver. The driver's name would mislead,
    /// because a registered backend may use the driver of another backend.
    pub(super) fn of(ordinal: usize, device: &Device) -> DeviceListing {
        let facts = device.driver().static_properties();
        let is_software = facts.iter().any(|(name, value)| *name == "software" && value == "true");
        let first = facts.first().map(|(name, value)| format!("{name} {value}"));
        let text = first.unwrap_or_else(|| "a device whose driver states no properties".to_owned());
        DeviceListing { ordinal, text, is_software }
    }
}

impl fmt::Display for BackendStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): ", self.name, self.about)?;
        match &self.devices {
            Ok(devices) => {
                let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
                f.write_str(&devices.join("; "))
            }
            Err(why) => write!(f, "not available: {why}"),
        }
    }
}

impl fmt::Display for DeviceListing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.ordinal, self.text)
    }
}

impl Backend {
    /// Every backend that [`Backend::open`] knows by name: those of this crate, then registered ones in the
    /// order of their names. Lists the devices of a backend of this crate without opening them, so that
    /// opening one may still fail; opens a registered backend once, with the settings found by
    /// [`Settings::load`].
    ///
    /// ```
    /// for backend in arrayjit::Backend::available()? {
    ///     println!("{backend}");
    /// }
    /// # Ok::<(), arrayjit::OpenError>(())
    /// ```
    ///
    /// On a machine without a GPU this prints, in a build without the feature `wgpu`:
    ///
    /// ```text
    /// multicore (native code, a worker thread per stream): 0: this machine's processor (x86_64, 8 threads)
    /// …
    /// wgpu (a GPU through Vulkan, Metal or Direct3D 12): not available: this build has no …
    /// cuda (NVIDIA's GPUs): not available: found no NVIDIA driver (looked for libcuda.so.1 and …
    /// ```
    ///
    /// # Errors
    ///
    /// [`OpenError::Settings`] if the settings do not load.
    pub fn available() -> Result<Vec<BackendStatus>, OpenError> {
        let LoadedSettings { settings, .. } = Settings::load()?;
        Ok(Backend::available_with(&settings))
    }

    /// [`Backend::available`] with the given settings.
    ///
    /// ```
    /// use arrayjit::{Backend, Settings};
    ///
    /// let all = Backend::available_with(&Settings::default());
    /// assert!(all.iter().any(|backend| backend.name == "interpreter" && backend.is_available()));
    /// ```
    pub fn available_with(settings: &Settings) -> Vec<BackendStatus> {
        let status = |entry: BackendEntry| BackendStatus {
            name: entry.name.to_string(),
            about: entry.about.to_string(),
            // Looked up by name, because a name that two crates have registered is an error.
            devices: find(&entry.name).and_then(|named| with_enough(|| (named.list)(settings))),
        };
        entries().into_iter().map(status).collect()
    }
}
