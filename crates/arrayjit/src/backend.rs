//! Backends by name: a code generator and the devices that run its code.

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
    debug::DebugReporter,
    error::OpenError,
    fallback::FallbackState,
    log::LogFolder,
    settings::{LoadedSettings, Settings},
    trace::ProcessTimeline,
};

/// A code generator and its devices: compiles assignments and runs them on streams. Cheap to clone; usable
/// from any thread.
#[derive(Clone)]
pub struct Backend {
    state: Arc<BackendState>,
}

struct BackendState {
    name: String,
    codegen: Arc<dyn Codegen>,
    /// Indexed by ordinal; never empty.
    devices: Vec<Device>,
    settings: Settings,
    reporter: DebugReporter,
    cache: CodeCache,
    /// The computations of virtual nodes, from all routines compiled so far.
    virtual_nodes: Mutex<Arc<OptimizeCtx>>,
    /// The folder of the routines' logs, if they log.
    logs: Option<LogFolder>,
    /// The fallback backend, which runs the kernels that the code generator rejects.
    fallback_state: FallbackState,
    /// Host arrays of nodes.
    host: Host,
    /// The timeline of the process, if there is one. It is flushed when the backend is dropped.
    _timeline: Option<ProcessTimeline>,
}

/// A code generator and the devices that run its code.
type BackendParts = (Arc<dyn Codegen>, Vec<Device>);

/// A backend that can be opened.
struct BackendEntry {
    name: &'static str,
    about: &'static str,
    open: fn(&Settings) -> Result<BackendParts, OpenError>,
}

/// Every backend of this build. A new backend needs one line here and nothing else in this crate.
const BACKENDS: &[BackendEntry] = &[
    BackendEntry { name: "multicore", about: "native code, a worker thread per stream", open: multicore },
    BackendEntry { name: "inline", about: "native code on the caller's thread", open: inline },
    BackendEntry {
        name: "interpreter",
        about: "the definition of the IR, slow, on the caller's thread",
        open: interpreter,
    },
    BackendEntry { name: "wgpu", about: "a GPU through Vulkan, Metal or Direct3D 12", open: wgpu },
    BackendEntry { name: "cuda", about: "NVIDIA's GPUs", open: cuda },
];

impl Backend {
    /// Opens a backend by name with the settings found by [`Settings::load`]; unknown keys are reported on
    /// standard error.
    ///
    /// # Errors
    ///
    /// [`OpenError::Unknown`] lists the backends; [`OpenError::NotBuilt`] names the missing feature; where no
    /// adapter fits, the error lists all adapters; [`OpenError::OutOfRange`] names the setting that is too
    /// large.
    pub fn open(name: &str) -> Result<Backend, OpenError> {
        let LoadedSettings { settings, unknown, .. } = Settings::load()?;
        for thing in unknown {
            eprintln!("arrayjit: unknown {thing}");
        }
        Backend::open_with(name, settings)
    }

    /// Opens the backend that the settings name.
    ///
    /// # Errors
    ///
    /// Fails like [`Backend::open`].
    pub fn from_settings(settings: Settings) -> Result<Backend, OpenError> {
        let name = settings.backend.clone();
        Backend::open_with(&name, settings)
    }

    /// Opens a backend by name with the given settings.
    ///
    /// # Errors
    ///
    /// Fails like [`Backend::open`].
    pub fn open_with(name: &str, settings: Settings) -> Result<Backend, OpenError> {
        let entry = BACKENDS.iter().find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| OpenError::Unknown { name: name.into(), known: known() })?;
        settings.check()?;
        let (codegen, devices) = with_enough(|| (entry.open)(&settings))?;
        Ok(Backend::made(entry.name.into(), codegen, devices, settings))
    }

    /// A backend made of a given code generator and a device that runs its code; neither needs to be known to
    /// this crate. `name` stands in errors and reports.
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
        let reporter = DebugReporter::new(&settings.debugging);
        devices.iter().for_each(|device| reporter.device(device));
        let open_logs = || LogFolder::open(Path::new(&settings.logging.folder), settings.logging.clean);
        let logs = settings.logging.values.then(open_logs);
        let host = Host::new(HostOptions {
            automatic_transfers: settings.streams.automatic_host_transfers,
            use_host_memory: settings.streams.use_host_memory,
        });
        let cache = CodeCache::new(CacheLimits::of_settings(&settings));
        let (virtual_nodes, fallback_state) = Default::default();
        let _timeline = ProcessTimeline::begin(&settings.debugging.trace);
        let state = BackendState {
            name,
            codegen,
            devices,
            settings,
            reporter,
            cache,
            virtual_nodes,
            logs,
            fallback_state,
            host,
            _timeline,
        };
        Backend { state: Arc::new(state) }
    }

    /// A new backend with the same code generator, devices and settings, and nothing compiled yet.
    pub(crate) fn reopened(&self) -> Backend {
        let BackendState { name, codegen, devices, settings, .. } = &*self.state;
        Backend::made(name.clone(), Arc::clone(codegen), devices.clone(), settings.clone())
    }

    /// The name that the backend was opened with or given.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The code generator of this backend's devices.
    pub fn codegen(&self) -> &dyn Codegen {
        &*self.state.codegen
    }

    /// The device with ordinal 0.
    pub fn device(&self) -> &Device {
        &self.state.devices[0]
    }

    /// The number of devices; for CPU backends, the setting `num_devices`.
    pub fn num_devices(&self) -> usize {
        self.state.devices.len()
    }

    /// The device with this ordinal, counted from 0. Any device of the backend runs the backend's code.
    pub fn get_device(&self, ordinal: usize) -> Option<&Device> {
        self.state.devices.get(ordinal)
    }

    /// The settings that the backend was opened with.
    pub fn settings(&self) -> &Settings {
        &self.state.settings
    }

    /// The host arrays of nodes. The backend's contexts keep them coherent with the devices, so a node with a
    /// host array needs no explicit transfers.
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
        &self.state.host
    }

    /// A context without nodes, on a new stream of the first device, with the backend's host arrays.
    ///
    /// # Errors
    ///
    /// The device's error, if it cannot have another stream.
    pub fn context(&self) -> Result<Context, device_runtime::RunError> {
        self.context_on(self.device())
    }

    /// [`Backend::context`] on a new stream of one of the backend's devices.
    ///
    /// # Errors
    ///
    /// The device's error, if it cannot have another stream.
    pub fn context_on(&self, device: &Device) -> Result<Context, device_runtime::RunError> {
        Ok(Context::new(&device.new_stream()?).with_host(&self.state.host))
    }

    /// A new stream of the first device.
    ///
    /// # Errors
    ///
    /// The device's error, if it cannot have another stream.
    pub fn new_stream(&self) -> Result<Stream, device_runtime::RunError> {
        self.device().new_stream()
    }

    pub(crate) fn reporter(&self) -> &DebugReporter {
        &self.state.reporter
    }

    /// The computations of virtual nodes, from all routines compiled so far.
    pub(crate) fn virtual_nodes(&self) -> Arc<OptimizeCtx> {
        Arc::clone(&self.state.virtual_nodes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Commits a compilation: memory modes, views, and the computations of virtual nodes, all or nothing.
    pub(crate) fn commit(
        &self,
        decisions: Pending,
        changes: impl IntoIterator<Item = Changes>,
    ) -> Result<(), tnode::Error> {
        // The lock is held during the commit: a thread that sees the new modes must find the computations
        // too.
        let mut known = self.state.virtual_nodes.lock().unwrap_or_else(PoisonError::into_inner);
        decisions.commit()?;
        changes.into_iter().for_each(|changes| Arc::make_mut(&mut known).commit(changes));
        Ok(())
    }

    pub(crate) fn logs(&self) -> Option<&LogFolder> {
        self.state.logs.as_ref()
    }

    pub(crate) fn fallback_state(&self) -> &FallbackState {
        &self.state.fallback_state
    }

    pub(crate) fn cache(&self) -> &CodeCache {
        &self.state.cache
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("name", &self.name()).field("device", &self.device().name()).finish()
    }
}

/// The names of all backends, each with its description.
fn known() -> String {
    let lines: Vec<String> =
        BACKENDS.iter().map(|entry| format!("{} ({})", entry.name, entry.about)).collect();
    lines.join(", ")
}

fn multicore(settings: &Settings) -> Result<BackendParts, OpenError> {
    Ok((native(settings)?, devices(settings, || Cpu::multicore(settings.cpu()))))
}

fn inline(settings: &Settings) -> Result<BackendParts, OpenError> {
    Ok((native(settings)?, devices(settings, || Cpu::inline(settings.cpu()))))
}

fn interpreter(settings: &Settings) -> Result<BackendParts, OpenError> {
    Ok((Arc::new(Interpreted::new()), devices(settings, || Cpu::inline(settings.cpu()))))
}

/// Makes `num_devices` devices, at least one.
fn devices<D: Driver + 'static>(settings: &Settings, make: impl Fn() -> D) -> Vec<Device> {
    let device = |ordinal| {
        let device = Device::new(Arc::new(make()), ordinal);
        device.initialize(settings.stream_strategy());
        device
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

/// Shaders and a GPU. A pool is as large as one buffer binding can be, so a larger node is an error that
/// names it.
#[cfg(feature = "wgpu")]
fn wgpu(settings: &Settings) -> Result<BackendParts, OpenError> {
    let adapter = settings.gpu.wgpu_adapter.parse().unwrap_or_default();
    let driver = device_wgpu::WgpuDevice::open(&device_wgpu::Config { adapter, ..Default::default() })?;
    let codegen = codegen_wgsl::wgsl(driver.caps().clone(), codegen_wgsl::WgslOptions::default());
    let cap = driver.pool_cap();
    let device = Device::with_pool_cap(Arc::new(driver), 0, cap);
    device.initialize(settings.stream_strategy());
    Ok((Arc::new(codegen), vec![device]))
}

#[cfg(not(feature = "wgpu"))]
fn wgpu(_: &Settings) -> Result<BackendParts, OpenError> {
    Err(OpenError::NotBuilt { what: "backend for GPUs", feature: "wgpu" })
}

/// PTX and NVIDIA's GPUs: `num_devices` devices from `cuda_device` on, and code for the one of the least
/// compute capability.
#[cfg(feature = "cuda")]
fn cuda(settings: &Settings) -> Result<BackendParts, OpenError> {
    use crate::settings::TensorCoreSetting;
    let folder = Some(&settings.gpu.cuda_code_folder).filter(|folder| !folder.is_empty());
    let open = |ordinal| {
        let config =
            device_cuda::Config { ordinal, code_folder: folder.map(Into::into), ..Default::default() };
        Ok(device_cuda::CudaDevice::open(&config)?)
    };
    let first = settings.gpu.cuda_device;
    let drivers: Vec<device_cuda::CudaDevice> = (0..settings.num_devices.max(1) as u32)
        .map(|nth| open(first.saturating_add(nth)))
        .collect::<Result<_, OpenError>>()?;
    let least = drivers.iter().map(|driver| driver.info().capability).min().unwrap_or_default();
    let same = drivers.iter().all(|driver| driver.info().capability == least);
    let target = match codegen_ptx::Target::for_device(least.0, least.1) {
        // Code for `sm_90a` runs on that architecture only, so mixed devices get code for `sm_80`.
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
    let devices = drivers.into_iter().zip(0..).map(|(driver, ordinal)| {
        let device = Device::new(Arc::new(driver), ordinal);
        device.initialize(settings.stream_strategy());
        device
    });
    Ok((Arc::new(codegen_ptx::ptx(target, options)), devices.collect()))
}

#[cfg(not(feature = "cuda"))]
fn cuda(_: &Settings) -> Result<BackendParts, OpenError> {
    Err(OpenError::NotBuilt { what: "backend for NVIDIA's GPUs", feature: "cuda" })
}
