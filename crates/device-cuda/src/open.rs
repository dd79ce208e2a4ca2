//! Finding devices: which there are, choosing one, and why not.

use std::{fmt, path::PathBuf};

use crate::{
    api::{Api, CallError, Context, Gpu, LoadError},
    caps::{self, Attributes},
    core::is_loss,
};

/// What may be chosen about a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Which device, by its position in [`devices`].
    pub ordinal: u32,
    /// Bytes that pools may occupy together; no limit by default.
    pub memory_limit: Option<usize>,
    /// A folder that keeps machine code from process to process; none by default. Whoever can write there decides what runs on the
    /// device. It takes an assembler; the driver keeps code of its own, whether there is one or not.
    pub code_folder: Option<PathBuf>,
    /// The assembler; by default the `ptxas` of `PATH`.
    pub assembler: Option<PathBuf>,
}

/// A device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its position, from 0 on.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// Its compute capability: major and minor.
    pub capability: (u32, u32),
    /// Bytes of its memory.
    pub memory_bytes: usize,
}

impl DeviceInfo {
    fn of(gpu: &Gpu) -> Result<(DeviceInfo, Attributes), CallError> {
        let attributes = Attributes::of(gpu)?;
        let (ordinal, capability) = (gpu.ordinal, attributes.capability);
        let info = DeviceInfo { ordinal, name: gpu.name()?, capability, memory_bytes: gpu.memory_bytes()? };
        Ok((info, attributes))
    }
}

/// One line, as error messages list devices.
impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.capability;
        let mebibytes = self.memory_bytes >> 20;
        write!(f, "{}: {} (compute capability {major}.{minor}, {mebibytes} MiB)", self.ordinal, self.name)
    }
}

/// Why no device was opened.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The driver's library is nowhere.
    #[error(
        "found no NVIDIA driver (looked for {} and {} other names); install one, or set LD_LIBRARY_PATH to where it is",
        looked_for.iter().find(|name| name.ends_with(".so.1")).or(looked_for.first()).map_or("nothing", String::as_str),
        looked_for.len().saturating_sub(1)
    )]
    NoDriver {
        /// The names it may have.
        looked_for: Vec<String>,
    },
    /// The driver is from before CUDA 12, and does not have what is used here.
    #[error(
        "the NVIDIA driver is too old: it has no function `{symbol}`; install one for CUDA 12.0 or later"
    )]
    NoSymbol {
        /// A function that it lacks.
        symbol: &'static str,
    },
    /// The driver does not start.
    #[error("the NVIDIA driver does not start: {message}")]
    NotStarted {
        /// What it said.
        message: String,
    },
    /// The driver works and sees no device.
    #[error("the NVIDIA driver has no device{}", said(message))]
    NoDevice {
        /// What it said, if anything.
        message: String,
    },
    /// There are devices, but not that one.
    #[error("there is no CUDA device {ordinal}; there are {}: {}", found.len(), listed(found))]
    NoSuchDevice {
        /// The position asked for.
        ordinal: u32,
        /// The devices there are.
        found: Vec<DeviceInfo>,
    },
    /// The device is from before the oldest one that there is code for.
    #[error("CUDA device {device} is too old: compute capability {}.{} is needed", needed.0, needed.1)]
    Unsupported {
        /// Which device.
        device: Box<DeviceInfo>,
        /// The least compute capability.
        needed: (u32, u32),
    },
    /// The driver does not take code for the device's target.
    #[error(
        "the NVIDIA driver (CUDA {}.{}) takes PTX {}.{}, and code for {target}, for CUDA device {device}, is PTX {}.{}; install a newer driver",
        cuda.0, cuda.1, language.0, language.1, needed.0, needed.1
    )]
    OldDriver {
        /// Which device.
        device: Box<DeviceInfo>,
        /// The target of its code.
        target: &'static str,
        /// The CUDA version of the driver.
        cuda: (u32, u32),
        /// The newest version of PTX that it takes.
        language: (u32, u32),
        /// The version that the target needs.
        needed: (u32, u32),
    },
    /// The driver refuses to work with the device.
    #[error("CUDA device {ordinal} is not usable: {message}")]
    Refused {
        /// Its position.
        ordinal: u32,
        /// What the driver said.
        message: String,
    },
}

fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

fn listed(found: &[DeviceInfo]) -> String {
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl From<LoadError> for OpenError {
    fn from(error: LoadError) -> OpenError {
        match error {
            LoadError::NoLibrary(looked_for) => OpenError::NoDriver { looked_for },
            LoadError::NoSymbol(symbol) => OpenError::NoSymbol { symbol },
        }
    }
}

/// The devices of this machine, in the driver's order.
///
/// # Errors
///
/// No driver, or none that works; no device.
pub fn devices() -> Result<Vec<DeviceInfo>, OpenError> {
    gpus()?.iter().map(|gpu| describe(gpu).map(|(info, _)| info)).collect()
}

/// All devices, at least one.
fn gpus() -> Result<Vec<Gpu>, OpenError> {
    let found = Gpu::all(Api::get()?).map_err(|error| match error.name.as_str() {
        "CUDA_ERROR_NO_DEVICE" => OpenError::NoDevice { message: error.to_string() },
        _ => OpenError::NotStarted { message: error.to_string() },
    })?;
    if found.is_empty() {
        return Err(OpenError::NoDevice { message: String::new() });
    }
    Ok(found)
}

fn describe(gpu: &Gpu) -> Result<(DeviceInfo, Attributes), OpenError> {
    DeviceInfo::of(gpu).map_err(|error| refused(gpu, &error))
}

fn refused(gpu: &Gpu, error: &CallError) -> OpenError {
    let hint = if is_loss(error) {
        ", after an error that lost it; what was made for the lost device has to go first"
    } else {
        ""
    };
    OpenError::Refused { ordinal: gpu.ordinal, message: format!("{error}{hint}") }
}

/// A device with its context.
pub(crate) struct Opened {
    pub(crate) info: DeviceInfo,
    pub(crate) attributes: Attributes,
    pub(crate) target: &'static str,
    /// The CUDA version of the driver.
    pub(crate) cuda: (u32, u32),
    pub(crate) context: std::sync::Arc<Context>,
}

/// Opens the device at a position.
pub(crate) fn open(ordinal: u32) -> Result<Opened, OpenError> {
    let gpus = gpus()?;
    let Some(gpu) = gpus.iter().find(|gpu| gpu.ordinal == ordinal) else {
        return Err(OpenError::NoSuchDevice { ordinal, found: devices()? });
    };
    let (info, attributes) = describe(gpu)?;
    let (target, needed) = caps::target(info.capability)
        .ok_or_else(|| OpenError::Unsupported { device: Box::new(info.clone()), needed: caps::OLDEST })?;
    let cuda = gpu.driver_version().map_err(|error| refused(gpu, &error))?;
    let language = caps::language(cuda);
    if language < needed {
        return Err(OpenError::OldDriver { device: Box::new(info), target, cuda, language, needed });
    }
    let context = Context::open(*gpu).map_err(|error| refused(gpu, &error))?;
    Ok(Opened { info, attributes, target, cuda, context })
}
