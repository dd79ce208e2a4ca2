//! Adapters: which there are, choosing one, and opening a device of it.

use std::{fmt, str::FromStr};

use wgpu::{Features, Limits};

/// An adapter of this machine: a GPU, or a program that stands in for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterInfo {
    /// Its position in [`adapters`].
    pub index: usize,
    /// Its name.
    pub name: String,
    /// The interface it is reached through, such as `vulkan`.
    pub backend: String,
    /// What it is.
    pub kind: AdapterKind,
    /// The driver's name and version.
    pub driver: String,
}

/// What an adapter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AdapterKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the processor's memory.
    Integrated,
    /// A GPU of a virtual machine.
    Virtual,
    /// Something else.
    Other,
    /// A program that runs on the processor: right, and slow.
    Cpu,
}

impl AdapterInfo {
    /// Whether it computes on the processor, so that its speed says nothing about a GPU.
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

/// One line, as error messages list adapters.
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

/// Which adapter to open. As text: nothing for any, a number for a position, anything else for part of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AdapterChoice {
    /// The first of the best kind, in the order of [`AdapterKind`].
    #[default]
    Any,
    /// The one at a position of [`adapters`].
    Index(usize),
    /// The first whose name, driver or interface contains the text, whatever the case of letters.
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

/// Why no device was opened.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No adapter is what was asked for.
    #[error("found no GPU adapter for {wanted} (looked for {interfaces}); {}", listed(found))]
    NoAdapter {
        /// What was asked for.
        wanted: AdapterChoice,
        /// The interfaces this build looks behind.
        interfaces: String,
        /// The adapters there are.
        found: Vec<AdapterInfo>,
    },
    /// The adapter has less than arrayjit cannot do without.
    #[error("adapter {adapter} is too small: {limit} is {found}, and at least {needed} is needed")]
    TooSmall {
        /// Which adapter.
        adapter: Box<AdapterInfo>,
        /// The limit, by its name in WebGPU with underscores.
        limit: &'static str,
        /// The least that suffices.
        needed: u64,
        /// What there is.
        found: u64,
    },
    /// The platform gives no device.
    #[error("adapter {adapter} gives no device: {message}")]
    Refused {
        /// Which adapter.
        adapter: Box<AdapterInfo>,
        /// What the platform said.
        message: String,
    },
}

fn listed(found: &[AdapterInfo]) -> String {
    if found.is_empty() {
        return "there is none; a driver is missing, or its device".to_owned();
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
    // The same in debug and release builds; the environment may ask for the platform's own validation.
    descriptor.flags = wgpu::InstanceFlags::empty().with_env();
    let instance = wgpu::Instance::new(descriptor);
    pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()))
}

/// A device of an adapter, with its queue.
pub(crate) struct Opened {
    pub(crate) info: AdapterInfo,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
}

/// Opens a device of the adapter chosen; `lower` lowers the adapter's limits.
pub(crate) fn open(choice: &AdapterChoice, lower: impl FnOnce(&mut Limits)) -> Result<Opened, OpenError> {
    let adapters = enumerate();
    let found = described(&adapters);
    let Some(info) = choice.find(&found).cloned() else {
        let interfaces = format!("{:?}", wgpu::Instance::enabled_backend_features()).to_lowercase();
        return Err(OpenError::NoAdapter { wanted: choice.clone(), interfaces, found });
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
    let refused = |error: wgpu::RequestDeviceError| OpenError::Refused {
        adapter: Box::new(info.clone()),
        message: error.to_string(),
    };
    let (device, queue) = opened.map_err(refused)?;
    Ok(Opened { info, device, queue })
}

/// What is asked for where the adapter has it.
fn useful_features() -> Features {
    Features::SHADER_F16 | Features::SHADER_F64 | Features::SHADER_INT64 | Features::TIMESTAMP_QUERY
}

/// Whether an adapter has what nothing here works without.
fn check(info: &AdapterInfo, limits: &Limits) -> Result<(), OpenError> {
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
            Err(OpenError::TooSmall { adapter: Box::new(info.clone()), limit, needed, found })
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
            info(0, "Rasteriser", AdapterKind::Cpu, "soft 1.0"),
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
        let error = OpenError::NoAdapter { wanted, interfaces: "vulkan".to_owned(), found: three() };
        let text = error.to_string();
        assert!(text.starts_with("found no GPU adapter for an adapter with `none` in its name (looked for vulkan); there are: 0: Rasteriser (software, vulkan, driver soft 1.0); 1:"), "{text}");
        let error = OpenError::NoAdapter {
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
            "adapter 1: Little (integrated, vulkan, driver one 2.0) is too small: max_storage_buffers_per_shader_stage is 2, and at least 4 is needed"
        );
        assert_eq!(check(&three()[1], &Limits::downlevel_defaults()), Ok(()));
    }
}
