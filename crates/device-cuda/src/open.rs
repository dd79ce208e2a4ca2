//! Finds and opens devices; the errors of opening.

use std::{fmt, path::PathBuf};

use crate::{
    api::{Api, CallError, Context, Gpu, LoadError},
    caps::{self, DeviceAttributes},
    choice::DeviceChoice,
    shared_state::is_device_lost,
};

/// Options of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CudaConfig {
    /// The device's position in [`devices`].
    pub ordinal: u32,
    /// Limit on the total size of the device's pools, in bytes; `None` by default.
    pub memory_limit: Option<usize>,
    /// A folder that caches machine code across processes; `None` by default. It requires an assembler. Every
    /// user who can write to the folder can run code on the device. The driver has a cache of its own in any
    /// case.
    pub code_folder: Option<PathBuf>,
    /// The path of the assembler; by default, `ptxas` is looked up in `PATH`.
    pub assembler: Option<PathBuf>,
}

/// A device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The device's position in [`devices`].
    pub ordinal: u32,
    /// The device's name, as the driver reports it.
    pub name: String,
    /// The compute capability: major and minor version.
    pub capability: (u32, u32),
    /// Size of the device's memory, in bytes.
    pub memory_bytes: usize,
}

impl DeviceInfo {
    fn of(gpu: &Gpu) -> Result<(DeviceInfo, DeviceAttributes), CallError> {
        let attributes = DeviceAttributes::of(gpu)?;
        let (ordinal, capability) = (gpu.ordinal, attributes.capability);
        let info = DeviceInfo { ordinal, name: gpu.name()?, capability, memory_bytes: gpu.memory_bytes()? };
        Ok((info, attributes))
    }
}

/// Formats a device as one line, for the lists in error messages.
impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.capability;
        let mebibytes = self.memory_bytes >> 20;
        write!(f, "{}: {} (compute capability {major}.{minor}, {mebibytes} MiB)", self.ordinal, self.name)
    }
}

/// The reason why no device was opened.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum CudaOpenError {
    /// The driver's library was not found.
    #[error(
        "found no NVIDIA driver (looked for {} and {} other names); install one, or set LD_LIBRARY_PATH to where it is",
        looked_for.iter().find(|name| name.ends_with(".so.1")).or(looked_for.first()).map_or("nothing", String::as_str),
        looked_for.len().saturating_sub(1)
    )]
    NoDriver { looked_for: Vec<String> },
    /// The driver is from before CUDA 12 and lacks a required function.
    #[error(
        "the NVIDIA driver is too old: it has no function `{symbol}`; install one for CUDA 12.0 or later"
    )]
    NoSymbol { symbol: &'static str },
    /// The driver does not start.
    #[error("the NVIDIA driver does not start: {message}")]
    NotStarted { message: String },
    /// The driver works but sees no device. Its message may be empty.
    #[error("the NVIDIA driver has no device{}", said(message))]
    NoDevice { message: String },
    /// The machine has devices, but none at this position or with this name.
    #[error("there is no CUDA device {wanted}; there are {}: {}", found.len(), listed(found))]
    NoSuchDevice { wanted: DeviceChoice, found: Vec<DeviceInfo> },
    /// The device is older than the oldest supported compute capability.
    #[error("CUDA device {device} is too old: compute capability {}.{} is needed", needed.0, needed.1)]
    Unsupported { device: Box<DeviceInfo>, needed: (u32, u32) },
    /// The driver does not accept code for the device's target: the newest PTX version that it accepts is
    /// `language`, and the target needs `needed`.
    #[error(
        "the NVIDIA driver (CUDA {}.{}) takes PTX {}.{}, and code for {target}, for CUDA device {device}, is PTX {}.{}; install a newer driver",
        cuda.0, cuda.1, language.0, language.1, needed.0, needed.1
    )]
    OldDriver {
        device: Box<DeviceInfo>,
        target: &'static str,
        cuda: (u32, u32),
        language: (u32, u32),
        needed: (u32, u32),
    },
    /// The driver does not open the device.
    #[error("CUDA device {ordinal} is not usable: {message}")]
    Rejected { ordinal: u32, message: String },
}

fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

fn listed(found: &[DeviceInfo]) -> String {
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl From<LoadError> for CudaOpenError {
    fn from(error: LoadError) -> CudaOpenError {
        match error {
            LoadError::NoLibrary(looked_for) => CudaOpenError::NoDriver { looked_for },
            LoadError::NoSymbol(symbol) => CudaOpenError::NoSymbol { symbol },
        }
    }
}

/// The devices of this machine, in the driver's order.
///
/// # Errors
///
/// [`CudaOpenError`] if there is no driver, no working driver, or no device.
pub fn devices() -> Result<Vec<DeviceInfo>, CudaOpenError> {
    gpus()?.iter().map(|gpu| describe(gpu).map(|(info, _)| info)).collect()
}

/// All devices, at least one.
fn gpus() -> Result<Vec<Gpu>, CudaOpenError> {
    let found = Gpu::all(Api::get()?).map_err(|error| match error.name.as_str() {
        "CUDA_ERROR_NO_DEVICE" => CudaOpenError::NoDevice { message: error.to_string() },
        _ => CudaOpenError::NotStarted { message: error.to_string() },
    })?;
    if found.is_empty() {
        return Err(CudaOpenError::NoDevice { message: String::new() });
    }
    Ok(found)
}

fn describe(gpu: &Gpu) -> Result<(DeviceInfo, DeviceAttributes), CudaOpenError> {
    DeviceInfo::of(gpu).map_err(|error| rejected(gpu, &error))
}

fn rejected(gpu: &Gpu, error: &CallError) -> CudaOpenError {
    let hint = if is_device_lost(error) {
        ", since an earlier error made it unusable; drop everything that was made for the lost device first"
    } else {
        ""
    };
    CudaOpenError::Rejected { ordinal: gpu.ordinal, message: format!("{error}{hint}") }
}

/// An opened device with its context.
pub(crate) struct OpenedDevice {
    pub(crate) info: DeviceInfo,
    pub(crate) attributes: DeviceAttributes,
    pub(crate) target: &'static str,
    /// The CUDA version of the driver.
    pub(crate) cuda: (u32, u32),
    pub(crate) context: std::sync::Arc<Context>,
}

/// Opens the device at a position.
pub(crate) fn open(ordinal: u32) -> Result<OpenedDevice, CudaOpenError> {
    let gpus = gpus()?;
    let Some(gpu) = gpus.iter().find(|gpu| gpu.ordinal == ordinal) else {
        let wanted = DeviceChoice::Ordinal(ordinal);
        return Err(CudaOpenError::NoSuchDevice { wanted, found: devices()? });
    };
    let (info, attributes) = describe(gpu)?;
    let (target, needed) = caps::target(info.capability)
        .ok_or_else(|| CudaOpenError::Unsupported { device: Box::new(info.clone()), needed: caps::OLDEST })?;
    let cuda = gpu.driver_version().map_err(|error| rejected(gpu, &error))?;
    let language = caps::language(cuda);
    if language < needed {
        return Err(CudaOpenError::OldDriver { device: Box::new(info), target, cuda, language, needed });
    }
    let context = Context::open(*gpu).map_err(|error| rejected(gpu, &error))?;
    Ok(OpenedDevice { info, attributes, target, cuda, context })
}
