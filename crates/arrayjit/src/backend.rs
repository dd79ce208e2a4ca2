//! Backends by name: a codegen and devices that understand each other.

use std::{
    fmt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use codegen_core::{Codegen, interpreted::Interpreted};
use device_runtime::{Context, Device, Driver, Host, HostOptions, Stream};
use lowered_ir::{
    pipeline::{Changes, OptimizeCtx},
    stack::with_enough,
};
use scheduler_multicore::Cpu;
use tnode::Pending;

use crate::{
    cache::{CacheLimits, CodeCache},
    debug::Watch,
    error::OpenError,
    fallback::Refuge,
    log::LogFolder,
    settings::{LoadedSettings, Settings},
    trace::ProcessTimeline,
};

/// A codegen and its devices: compiles assignments, and runs them on its streams. Cheap to clone; any thread may use it.
#[derive(Clone)]
pub struct Backend {
    parts: Arc<Parts>,
}

struct Parts {
    name: String,
    codegen: Arc<dyn Codegen>,
    /// By ordinal; not empty.
    devices: Vec<Device>,
    settings: Settings,
    watch: Watch,
    cache: CodeCache,
    /// How the virtual nodes of the routines compiled so far are computed.
    virtual_nodes: Mutex<Arc<OptimizeCtx>>,
    /// Where routines log, if they do.
    logs: Option<LogFolder>,
    /// Where kernels go that the codegen refuses.
    refuge: Refuge,
    /// Host arrays of nodes.
    host: Host,
    /// The timeline of the process, if there is one, which is up to date when the backend is gone.
    _timeline: Option<ProcessTimeline>,
}

/// What a backend is made of.
type Halves = (Arc<dyn Codegen>, Vec<Device>);

/// A backend that can be opened.
struct Entry {
    name: &'static str,
    about: &'static str,
    open: fn(&Settings) -> Result<Halves, OpenError>,
}

/// Every backend this build knows. One line here is all that a further backend needs in this crate.
const BACKENDS: &[Entry] = &[
    Entry { name: "multicore", about: "native code, a worker thread per stream", open: multicore },
    Entry { name: "inline", about: "native code on the caller's thread", open: inline },
    Entry {
        name: "interpreter",
        about: "the definition of the IR, slow, on the caller's thread",
        open: interpreter,
    },
    Entry { name: "wgpu", about: "a GPU through Vulkan or what else the platform has", open: wgpu },
    Entry { name: "cuda", about: "NVIDIA's GPUs", open: cuda },
];

impl Backend {
    /// Opens a backend by name with the settings found by [`Settings::load`]; keys nobody knows are reported on standard
    /// error.
    ///
    /// # Errors
    ///
    /// [`OpenError::Unknown`] lists the backends there are; [`OpenError::NotBuilt`] names the missing feature; where no adapter fits,
    /// the error lists those there are; [`OpenError::OutOfRange`] names the setting that is too large.
    pub fn open(name: &str) -> Result<Backend, OpenError> {
        let LoadedSettings { settings, unknown, .. } = Settings::load()?;
        for key in unknown {
            eprintln!("arrayjit: unknown setting {key}");
        }
        Backend::open_with(name, settings)
    }

    /// Opens the backend that the settings name.
    ///
    /// # Errors
    ///
    /// As [`Backend::open`].
    pub fn from_settings(settings: Settings) -> Result<Backend, OpenError> {
        let name = settings.backend.clone();
        Backend::open_with(&name, settings)
    }

    /// Opens a backend by name with the given settings.
    ///
    /// # Errors
    ///
    /// As [`Backend::open`].
    pub fn open_with(name: &str, settings: Settings) -> Result<Backend, OpenError> {
        let entry = BACKENDS.iter().find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| OpenError::Unknown { name: name.into(), known: known() })?;
        settings.check()?;
        let (codegen, devices) = with_enough(|| (entry.open)(&settings))?;
        Ok(Backend::made(entry.name.into(), codegen, devices, settings))
    }

    /// A backend of a codegen and a device that understand each other, such as one that this crate does not know. `name` is what
    /// errors and reports call it.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrayjit::{Backend, Settings};
    /// # use codegen_core::Interpreted;
    /// let device = Backend::open("interpreter")?.device().clone();
    /// let backend = Backend::from_parts("mine", Arc::new(Interpreted::new()), device, Settings::default());
    /// assert_eq!(backend.name(), "mine");
    /// # Ok::<(), arrayjit::OpenError>(())
    /// ```
    pub fn from_parts(
        name: impl Into<String>,
        codegen: Arc<dyn Codegen>,
        device: Device,
        settings: Settings,
    ) -> Backend {
        Backend::made(name.into(), codegen, vec![device], settings)
    }

    fn made(name: String, codegen: Arc<dyn Codegen>, devices: Vec<Device>, settings: Settings) -> Backend {
        let watch = Watch::new(&settings.debugging);
        devices.iter().for_each(|device| watch.device(device));
        let open_logs = || LogFolder::open(Path::new(&settings.logging.folder), settings.logging.clean);
        let logs = settings.logging.values.then(open_logs);
        let host = Host::new(HostOptions {
            automatic_transfers: settings.streams.automatic_host_transfers,
            use_host_memory: settings.streams.use_host_memory,
        });
        let cache = CodeCache::new(CacheLimits::of_settings(&settings));
        let (virtual_nodes, refuge) = Default::default();
        let _timeline = ProcessTimeline::begin(&settings.debugging.trace);
        let parts = Parts {
            name,
            codegen,
            devices,
            settings,
            watch,
            cache,
            virtual_nodes,
            logs,
            refuge,
            host,
            _timeline,
        };
        Backend { parts: Arc::new(parts) }
    }

    /// A new backend of the same parts.
    pub(crate) fn reopened(&self) -> Backend {
        let Parts { name, codegen, devices, settings, .. } = &*self.parts;
        Backend::made(name.clone(), Arc::clone(codegen), devices.clone(), settings.clone())
    }

    /// The name it was opened by, or given.
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// The code generator.
    pub fn codegen(&self) -> &dyn Codegen {
        &*self.parts.codegen
    }

    /// The device, the first if there are several.
    pub fn device(&self) -> &Device {
        &self.parts.devices[0]
    }

    /// How many devices there are: of a CPU as many as the settings say.
    pub fn num_devices(&self) -> usize {
        self.parts.devices.len()
    }

    /// The device of an ordinal, which counts from 0. Any of them runs what the backend compiles.
    pub fn get_device(&self, ordinal: usize) -> Option<&Device> {
        self.parts.devices.get(ordinal)
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.parts.settings
    }

    /// The host arrays that the backend's contexts keep in step with the device: a node that has one needs no transfers.
    ///
    /// ```
    /// # use arrayjit::{Backend, DType, HostArray, TensorNode};
    /// let backend = Backend::open("inline")?;
    /// let [x, y] = ["x", "y"].map(|name| TensorNode::builder(name).dims([2]).dtype(DType::F32).build());
    /// let (x, y) = (x?, y?);
    /// for node in [&x, &y] {
    ///     backend.host().insert(node, HostArray::from_slice(&[1f32, 2.], [2])?)?;
    /// }
    /// let double = backend.compile("y[i] := 2 * x[i]", [&x, &y])?.link(&backend.context()?)?;
    /// backend.host().set_value(&x, &[1], 21.0)?;
    /// double.run(&[])?;
    /// assert_eq!(backend.host().get_values(&y)?, [2.0, 42.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn host(&self) -> &Host {
        &self.parts.host
    }

    /// A context that holds nothing yet, on a new stream of the device, with the backend's host arrays.
    ///
    /// # Errors
    ///
    /// The device's, where it can have no further stream.
    pub fn context(&self) -> Result<Context, device_runtime::Error> {
        self.context_on(self.device())
    }

    /// [`Backend::context`] on a new stream of one of the backend's devices.
    ///
    /// # Errors
    ///
    /// The device's, where it can have no further stream.
    pub fn context_on(&self, device: &Device) -> Result<Context, device_runtime::Error> {
        Ok(Context::new(&device.new_stream()?).with_host(&self.parts.host))
    }

    /// A new stream of the device.
    ///
    /// # Errors
    ///
    /// The device's, where it can have no further stream.
    pub fn new_stream(&self) -> Result<Stream, device_runtime::Error> {
        self.device().new_stream()
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.parts.watch
    }

    /// How virtual nodes are computed, as the routines compiled so far leave it.
    pub(crate) fn virtual_nodes(&self) -> Arc<OptimizeCtx> {
        Arc::clone(&self.parts.virtual_nodes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the decisions about memory modes, records the views and takes over the computations of virtual nodes, or
    /// nothing.
    pub(crate) fn commit(
        &self,
        decisions: Pending,
        changes: impl IntoIterator<Item = Changes>,
    ) -> Result<(), tnode::Error> {
        // Held meanwhile: who sees the modes must find the computations too.
        let mut known = self.parts.virtual_nodes.lock().unwrap_or_else(PoisonError::into_inner);
        decisions.commit()?;
        changes.into_iter().for_each(|changes| Arc::make_mut(&mut known).commit(changes));
        Ok(())
    }

    pub(crate) fn logs(&self) -> Option<&LogFolder> {
        self.parts.logs.as_ref()
    }

    pub(crate) fn refuge(&self) -> &Refuge {
        &self.parts.refuge
    }

    pub(crate) fn cache(&self) -> &CodeCache {
        &self.parts.cache
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("name", &self.name()).field("device", &self.device().name()).finish()
    }
}

/// The backends there are, each with what it is.
fn known() -> String {
    let lines: Vec<String> =
        BACKENDS.iter().map(|entry| format!("{} ({})", entry.name, entry.about)).collect();
    lines.join(", ")
}

fn multicore(settings: &Settings) -> Result<Halves, OpenError> {
    Ok((native(settings)?, devices(settings, || Cpu::multicore(settings.cpu()))))
}

fn inline(settings: &Settings) -> Result<Halves, OpenError> {
    Ok((native(settings)?, devices(settings, || Cpu::inline(settings.cpu()))))
}

fn interpreter(settings: &Settings) -> Result<Halves, OpenError> {
    Ok((Arc::new(Interpreted::new()), devices(settings, || Cpu::inline(settings.cpu()))))
}

/// As many devices as the settings say, at least one.
fn devices<D: Driver + 'static>(settings: &Settings, make: impl Fn() -> D) -> Vec<Device> {
    let device = |ordinal| {
        let driver = make();
        driver.initialize(settings.stream_strategy());
        Device::new(Arc::new(driver), ordinal)
    };
    (0..settings.num_devices.max(1)).map(device).collect()
}

/// The code generator for this processor.
#[cfg(feature = "cranelift")]
fn native(settings: &Settings) -> Result<Arc<dyn Codegen>, OpenError> {
    let options =
        codegen_cranelift::CraneliftOptions { vector: settings.vector_width(), ..Default::default() };
    Ok(Arc::new(codegen_cranelift::cranelift(options)?))
}

#[cfg(not(feature = "cranelift"))]
fn native(_: &Settings) -> Result<Arc<dyn Codegen>, OpenError> {
    Err(OpenError::NotBuilt { what: "native code generator", feature: "cranelift" })
}

/// Shaders and a GPU. Pools are what one binding reaches, so that a node beyond that is an error that names it.
#[cfg(feature = "wgpu")]
fn wgpu(settings: &Settings) -> Result<Halves, OpenError> {
    let adapter = settings.gpu.wgpu_adapter.parse().unwrap_or_default();
    let driver = device_wgpu::WgpuDevice::open(&device_wgpu::Config { adapter, ..Default::default() })?;
    driver.initialize(settings.stream_strategy());
    let codegen = codegen_wgsl::wgsl(driver.caps().clone(), codegen_wgsl::WgslOptions::default());
    let cap = driver.pool_cap();
    Ok((Arc::new(codegen), vec![Device::with_pool_cap(Arc::new(driver), 0, cap)]))
}

#[cfg(not(feature = "wgpu"))]
fn wgpu(_: &Settings) -> Result<Halves, OpenError> {
    Err(OpenError::NotBuilt { what: "backend for GPUs", feature: "wgpu" })
}

/// PTX and NVIDIA's GPUs: so many devices, from one on, which are of the first one's family.
#[cfg(feature = "cuda")]
fn cuda(settings: &Settings) -> Result<Halves, OpenError> {
    use crate::settings::TensorCoreSetting;
    let folder = Some(&settings.gpu.cuda_code_folder).filter(|folder| !folder.is_empty());
    let open = |ordinal| {
        let config =
            device_cuda::Config { ordinal, code_folder: folder.map(Into::into), ..Default::default() };
        let driver = device_cuda::CudaDevice::open(&config)?;
        driver.initialize(settings.stream_strategy());
        Ok(driver)
    };
    let first = settings.gpu.cuda_device;
    let drivers: Vec<device_cuda::CudaDevice> = (0..settings.num_devices.max(1) as u32)
        .map(|nth| open(first.saturating_add(nth)))
        .collect::<Result<_, OpenError>>()?;
    let least = drivers.iter().map(|driver| driver.info().capability).min().unwrap_or_default();
    let same = drivers.iter().all(|driver| driver.info().capability == least);
    let target = match codegen_ptx::Target::for_device(least.0, least.1) {
        // What only one family has is of no use to others.
        Some(codegen_ptx::Target::Sm90a) if !same => codegen_ptx::Target::Sm80,
        Some(target) => target,
        None => codegen_ptx::Target::Sm70,
    };
    let tensor_cores = match settings.gpu.tensor_cores {
        TensorCoreSetting::Off => codegen_ptx::TensorCoreInstructions::Off,
        TensorCoreSetting::Warps => codegen_ptx::TensorCoreInstructions::Mma,
        TensorCoreSetting::Auto => codegen_ptx::TensorCoreInstructions::Auto,
    };
    let options = codegen_ptx::PtxOptions {
        tensor_cores,
        tf32: settings.gpu.tf32,
        approximate_functions: settings.gpu.approximate_functions,
        log_bytes: settings.logging.buffer_bytes,
        ..Default::default()
    };
    let devices =
        drivers.into_iter().zip(0..).map(|(driver, ordinal)| Device::new(Arc::new(driver), ordinal));
    Ok((Arc::new(codegen_ptx::ptx(target, options)), devices.collect()))
}

#[cfg(not(feature = "cuda"))]
fn cuda(_: &Settings) -> Result<Halves, OpenError> {
    Err(OpenError::NotBuilt { what: "backend for NVIDIA's GPUs", feature: "cuda" })
}
