//! Adapters: listing them, choosing one, and opening a device of it.

use std::{fmt, str::FromStr};

use wgpu::{Features, Limits};

/// An adapter of this machine: a GPU, or a program that emulates one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterInfo {
    /// The adapter's position in [`adapters`].
    pub index: usize,
    /// The adapter's name, as the platform reports it.
    pub name: String,
    /// The graphics interface of the adapter, such as `vulkan`.
    pub backend: String,
    /// The kind of hardware: a discrete or integrated GPU, a virtual one, or software.
    pub kind: AdapterKind,
    /// The driver's name and version.
    pub driver: String,
}

/// The kinds of adapters, the most preferred one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AdapterKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the processor's memory.
    Integrated,
    /// A GPU of a virtual machine.
    Virtual,
    /// An adapter of unknown kind.
    Other,
    /// A program that runs on the CPU: correct but slow.
    Cpu,
}

impl AdapterInfo {
    /// Whether the adapter computes on the CPU, so that its speed says nothing about a GPU.
    pub fn is_software(&self) -> bool {
        self.kind == AdapterKind::Cpu
    }

    fn new(index: usize, info: &wgpu::AdapterInfo) -> AdapterInfo {
        let kind = match info.device_type {
            wgpu::DeviceType::DiscreteGpu => AdapterKind::Discrete,
            wgpu::DeviceType::IntegratedGpu => AdapterKind::Integrated,
            wgpu::DeviceType::VirtualGpu => AdapterKind::Virtual,
            wgpu::DeviceType::Cpu => AdapterKind::Cpu,
            wgpu::DeviceType::Other => AdapterKind::Other,
        };
        let driver = format!("{} {}", info.driver, info.driver_info).trim().to_owned();
        let backend = format!("{:?}", info.backend).to_lowercase();
        AdapterInfo { index, name: info.name.clone(), backend, kind, driver }
    }
}

/// Formats an adapter as one line, for the lists in error messages.
impl fmt::Display for AdapterInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({}, {}, driver {})", self.index, self.name, self.kind, self.backend, self.driver)
    }
}

impl fmt::Display for AdapterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AdapterKind::Discrete => "discrete",
            AdapterKind::Integrated => "integrated",
            AdapterKind::Virtual => "virtual",
            AdapterKind::Other => "other",
            AdapterKind::Cpu => "software",
        })
    }
}

/// Selects the adapter to open. Parsed from text: an empty text chooses any adapter, a number the adapter at
/// that position, and any other text an adapter whose name contains it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AdapterChoice {
    /// The first adapter of the most preferred kind, in the order of [`AdapterKind`].
    #[default]
    Any,
    /// The adapter at a position of [`adapters`].
    Index(usize),
    /// The first adapter whose name, driver or interface contains the text; case is ignored.
    Name(String),
}

impl FromStr for AdapterChoice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        Ok(match text.parse() {
            Ok(index) => AdapterChoice::Index(index),
            Err(_) if text.is_empty() => AdapterChoice::Any,
            Err(_) => AdapterChoice::Name(text.to_owned()),
        })
    }
}

impl fmt::Display for AdapterChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdapterChoice::Any => f.write_str("any adapter"),
            AdapterChoice::Index(index) => write!(f, "adapter {index}"),
            AdapterChoice::Name(name) => write!(f, "an adapter with `{name}` in its name"),
        }
    }
}

impl AdapterChoice {
    fn find<'a>(&self, found: &'a [AdapterInfo]) -> Option<&'a AdapterInfo> {
        match self {
            AdapterChoice::Any => found.iter().min_by_key(|info| info.kind),
            AdapterChoice::Index(index) => found.get(*index),
            AdapterChoice::Name(name) => {
                let name = name.to_lowercase();
                found.iter().find(|info| info.to_string().to_lowercase().contains(&name))
            }
        }
    }
}

/// The reason why no device was opened.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum WgpuOpenError {
    /// No adapter matches the choice.
    #[error("found no GPU adapter for {wanted} (looked for {interfaces}); {}", listed(found))]
    NoAdapter { wanted: AdapterChoice, interfaces: String, found: Vec<AdapterInfo> },
    /// A limit of the adapter, named as in WebGPU with underscores, is below arrayjit's minimum.
    #[error("adapter {adapter} is not sufficient: {limit} is {found}, and at least {needed} is needed")]
    TooSmall { adapter: Box<AdapterInfo>, limit: &'static str, needed: u64, found: u64 },
    /// The platform failed to open a device.
    #[error("adapter {adapter} could not be opened: {message}")]
    Rejected { adapter: Box<AdapterInfo>, message: String },
}

fn listed(found: &[AdapterInfo]) -> String {
    if found.is_empty() {
        return "there is none; a driver or a device is missing".to_owned();
    }
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    format!("there are: {}", lines.join("; "))
}

/// The adapters of this machine, in the platform's order.
pub fn adapters() -> Vec<AdapterInfo> {
    described(&enumerate())
}

fn described(adapters: &[wgpu::Adapter]) -> Vec<AdapterInfo> {
    adapters.iter().enumerate().map(|(index, adapter)| AdapterInfo::new(index, &adapter.get_info())).collect()
}

fn enumerate() -> Vec<wgpu::Adapter> {
    if wgpu::Instance::enabled_backend_features().is_empty() {
        return Vec::new();
    }
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    // The flags are the same in debug and release builds; the environment may enable the platform's own
    // validation.
    descriptor.flags = wgpu::InstanceFlags::empty().with_env();
    let instance = wgpu::Instance::new(descriptor);
    pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()))
}

/// An opened device of an adapter, with its queue.
pub(crate) struct OpenedAdapter {
    pub(crate) info: AdapterInfo,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
}

/// Opens a device of the chosen adapter; `lower` may lower the adapter's limits.
pub(crate) fn open(
    choice: &AdapterChoice,
    lower: impl FnOnce(&mut Limits),
) -> Result<OpenedAdapter, WgpuOpenError> {
    let adapters = enumerate();
    let found = described(&adapters);
    let Some(info) = choice.find(&found).cloned() else {
        let interfaces = format!("{:?}", wgpu::Instance::enabled_backend_features()).to_lowercase();
        return Err(WgpuOpenError::NoAdapter { wanted: choice.clone(), interfaces, found });
    };
    let adapter = &adapters[info.index];
    let mut limits = adapter.limits();
    lower(&mut limits);
    check(&info, &limits)?;
    let descriptor = wgpu::DeviceDescriptor {
        label: Some("arrayjit"),
        required_features: adapter.features() & useful_features(),
        required_limits: limits,
        ..Default::default()
    };
    let opened = pollster::block_on(adapter.request_device(&descriptor));
    let rejected = |error: wgpu::RequestDeviceError| WgpuOpenError::Rejected {
        adapter: Box::new(info.clone()),
        message: error.to_string(),
    };
    let (device, queue) = opened.map_err(rejected)?;
    Ok(OpenedAdapter { info, device, queue })
}

/// Features that are enabled if the adapter has them.
fn useful_features() -> Features {
    Features::SHADER_F16 | Features::SHADER_F64 | Features::SHADER_INT64 | Features::TIMESTAMP_QUERY
}

/// Checks the adapter's limits against the required minima.
fn check(info: &AdapterInfo, limits: &Limits) -> Result<(), WgpuOpenError> {
    let needs = [
        ("max_storage_buffers_per_shader_stage", 4, u64::from(limits.max_storage_buffers_per_shader_stage)),
        (
            "max_compute_invocations_per_workgroup",
            64,
            u64::from(limits.max_compute_invocations_per_workgroup),
        ),
        ("max_compute_workgroup_size_x", 64, u64::from(limits.max_compute_workgroup_size_x)),
        ("max_compute_workgroups_per_dimension", 256, u64::from(limits.max_compute_workgroups_per_dimension)),
        ("max_storage_buffer_binding_size", 1 << 16, limits.max_storage_buffer_binding_size),
        ("max_buffer_size", 1 << 18, limits.max_buffer_size),
        ("max_uniform_buffer_binding_size", 1 << 12, limits.max_uniform_buffer_binding_size),
    ];
    match needs.into_iter().find(|(_, needed, found)| found < needed) {
        Some((limit, needed, found)) => {
            Err(WgpuOpenError::TooSmall { adapter: Box::new(info.clone()), limit, needed, found })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Vec<AdapterInfo> {
        let info = |index, name: &str, kind, driver: &str| AdapterInfo {
            index,
            name: name.to_owned(),
            backend: "vulkan".to_owned(),
            kind,
            driver: driver.to_owned(),
        };
        vec![
            info(0, "Rasterizer", AdapterKind::Cpu, "soft 1.0"),
            info(1, "Little", AdapterKind::Integrated, "one 2.0"),
            info(2, "Big", AdapterKind::Discrete, "two 3.0"),
        ]
    }

    #[test]
    fn choices_are_read_from_text() {
        let read = |text: &str| text.parse::<AdapterChoice>().unwrap();
        assert_eq!(read(""), AdapterChoice::Any);
        assert_eq!(read(" 2 "), AdapterChoice::Index(2));
        assert_eq!(read("llvmpipe"), AdapterChoice::Name("llvmpipe".to_owned()));
    }

    #[test]
    fn adapters_are_found_by_kind_position_and_name() {
        let found = three();
        let index = |text: &str| text.parse::<AdapterChoice>().unwrap().find(&found).map(|info| info.index);
        assert_eq!(index(""), Some(2), "a discrete one before others");
        assert_eq!((index("0"), index("3")), (Some(0), None));
        assert_eq!((index("LITTLE"), index("soft"), index("none")), (Some(1), Some(0), None));
        assert!(found[0].is_software() && !found[1].is_software());
    }

    #[test]
    fn messages_list_what_was_found() {
        let wanted = AdapterChoice::Name("none".to_owned());
        let error = WgpuOpenError::NoAdapter { wanted, interfaces: "vulkan".to_owned(), found: three() };
        let text = error.to_string();
        assert!(text.starts_with("found no GPU adapter for an adapter with `none` in its name (looked for vulkan); there are: 0: Rasterizer (software, vulkan, driver soft 1.0); 1:"), "{text}");
        let error = WgpuOpenError::NoAdapter {
            wanted: AdapterChoice::Any,
            interfaces: "vulkan".to_owned(),
            found: vec![],
        };
        assert!(error.to_string().contains("there is none"), "{error}");
    }

    #[test]
    fn a_limit_that_is_too_small_is_named() {
        let limits = Limits { max_storage_buffers_per_shader_stage: 2, ..Limits::default() };
        let error = check(&three()[1], &limits).unwrap_err();
        assert_eq!(
            error.to_string(),
            "adapter 1: Little (integrated, vulkan, driver one 2.0) is not sufficient: max_storage_buffers_per_shader_stage is 2, and at least 4 is needed"
        );
        assert_eq!(check(&three()[1], &Limits::downlevel_defaults()), Ok(()));
    }
}
