//! Backends by name: a code generator and the devices that run its code.

mod auto; // the first backend of a fixed order that opens
mod available; // backends that can be used here, and why others cannot
mod built_in; // the backends of this crate
mod name; // names that a crate may register
mod parts; // a code generator and its devices
mod registry; // backends of other crates, and names

use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use codegen_core::Codegen;
use device_runtime::{Context, Device, Host, HostOptions, Stream};
use lowered_ir::{
    pipeline::{Changes, OptimizeCtx, OptimizeSettings},
    stack::with_enough,
};
use tnode::{Pending, TensorNode};

use crate::{
    cache::CodeCache,
    debug::DebugReporter,
    error::OpenError,
    fallback::FallbackState,
    log::LogFolder,
    profile::{CollectedProfiles, Profile, Roofline},
    settings::{DebugSettings, LoadedSettings, Settings},
    text_cache::TextCache,
    trace::ProcessTimeline,
    tune::Tuner,
};

pub use available::{BackendStatus, DeviceListing};
pub use parts::{BackendParts, OpenResult};
pub use registry::{LinkedBackend, RegisterError};

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
    /// How routines are optimised.
    optimizer: OptimizeSettings,
    reporter: DebugReporter,
    /// The choices of the file that the settings name.
    tuner: Option<Arc<Tuner>>,
    cache: CodeCache,
    texts: TextCache,
    /// The computations of virtual nodes, from all routines compiled so far.
    virtual_nodes: Mutex<Arc<OptimizeCtx>>,
    /// The folder of the routines' logs, if they log.
    logs: Option<LogFolder>,
    /// The fallback backend, which runs the kernels that the code generator rejects.
    fallback_state: FallbackState,
    /// Host arrays of nodes.
    host: Host,
    /// The measured limits of the first device, for profiles; `None` inside if they cannot be measured.
    roofline: OnceLock<Option<Roofline>>,
    /// The profiles of dropped routines, if the program collects them.
    collected_profiles: CollectedProfiles,
    /// The timeline of the process, if there is one. It is flushed when the backend is dropped.
    _timeline: Option<ProcessTimeline>,
}

impl Backend {
    /// Opens a backend by name with the settings found by [`Settings::load`]; unknown keys are reported on
    /// standard error. The name is that of a backend of this crate, of one that a crate of the program
    /// [registers](crate::register_backend), or `auto`.
    ///
    /// `auto` opens the first of these that opens: `cuda`; `wgpu`, unless its adapter emulates a GPU on the
    /// CPU; `multicore`. [`Backend::name`] says which one, and `debug = 1` why the ones before it did not
    /// open.
    ///
    /// # Errors
    ///
    /// [`OpenError::Unknown`] lists the backends; [`OpenError::NotBuilt`] names the missing feature; where no
    /// adapter fits, the error lists all adapters; [`OpenError::OutOfRange`] names the setting that is too
    /// large; [`OpenError::Registered`] has the error of a registered backend; [`OpenError::NoneOpens`] has
    /// the reason of each backend that `auto` tried.
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
        if name == auto::NAME {
            return Backend::open_auto(settings);
        }
        let entry = registry::find(name)?;
        settings.check()?;
        let parts = with_enough(|| (entry.open)(&settings))?;
        Backend::from_parts(entry.name, parts, settings)
    }

    /// Opens the first backend of [`auto::ORDER`] that opens, and reports why others did not.
    fn open_auto(settings: Settings) -> Result<Backend, OpenError> {
        settings.check()?;
        let choice = with_enough(|| auto::choose(auto::ORDER, &settings))?;
        let backend = Backend::from_parts(choice.name, choice.parts, settings)?;
        choice.skipped.iter().for_each(|(name, why)| backend.reporter().skipped(name, why));
        Ok(backend)
    }

    /// A backend made of a given code generator and devices that run its code; none of them needs to be known
    /// to this crate. `name` stands in errors and reports.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrayjit::{Backend, BackendParts, Device, Settings};
    /// # use codegen_core::Interpreted;
    /// # use scheduler_multicore::{Config, Cpu};
    /// let device = |ordinal| Device::new(Arc::new(Cpu::inline(Config::default())), ordinal);
    /// let parts = BackendParts::new(Arc::new(Interpreted::new()), device(0)).with_device(device(1));
    /// let backend = Backend::from_parts("mine", parts, Settings::default())?;
    /// assert_eq!((backend.name(), backend.num_devices()), ("mine", 2));
    /// # Ok::<(), arrayjit::OpenError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`OpenError::Caps`] if the code generator's capabilities contradict one another, and
    /// [`OpenError::Tune`] if the file of the setting `tune` cannot be read.
    pub fn from_parts(
        name: impl Into<String>,
        parts: BackendParts,
        settings: Settings,
    ) -> Result<Backend, OpenError> {
        parts.codegen.caps().check()?;
        let tuner = Tuner::open(&settings.tuning)?;
        let optimizer = settings.optimizer();
        Ok(Backend::assembled(name.into(), parts, settings, optimizer, tuner))
    }

    /// A backend made of parts whose capabilities are checked.
    pub(crate) fn assembled(
        name: String,
        parts: BackendParts,
        settings: Settings,
        optimizer: OptimizeSettings,
        tuner: Option<Arc<Tuner>>,
    ) -> Backend {
        let BackendParts { codegen, devices } = parts;
        for device in &devices {
            device.initialize(settings.stream_strategy());
            device.reject_unwritten_reads(settings.reject_unwritten_reads);
        }
        let reporter = DebugReporter::new(&settings.debugging);
        devices.iter().for_each(|device| reporter.device(device));
        let logs = settings.has_logs().then(|| LogFolder::open(settings.debugging.logs.as_ref()));
        let host = Host::new(HostOptions::default());
        let limit = settings.code_cache_bytes;
        let (cache, texts) = (CodeCache::new(limit), TextCache::new(limit));
        let (virtual_nodes, fallback_state) = Default::default();
        let _timeline = ProcessTimeline::begin(&settings.debugging.trace);
        let state = BackendState {
            name,
            codegen,
            devices,
            settings,
            optimizer,
            reporter,
            tuner,
            cache,
            texts,
            virtual_nodes,
            logs,
            fallback_state,
            host,
            roofline: OnceLock::new(),
            collected_profiles: CollectedProfiles::default(),
            _timeline,
        };
        Backend { state: Arc::new(state) }
    }

    /// A new backend with the same code generator, devices and settings, and nothing compiled yet.
    pub(crate) fn reopened(&self) -> Backend {
        self.with_optimizer(self.state.optimizer.clone())
    }

    /// A new backend with the same code generator, devices and settings, and nothing compiled yet, that
    /// optimises routines with these options instead of [`Settings::optimizer`]. It is for those who develop
    /// passes: [capsules](crate::capsule) do not have these options.
    ///
    /// ```
    /// use arrayjit::{Backend, Nodes, OptimizeSettings};
    ///
    /// let backend = Backend::open("interpreter")?;
    /// let standard = backend.settings().optimizer();
    /// let optimizer = OptimizeSettings { inline_simple_computations: false, max_visits: 0, ..standard };
    /// let text = "input x f32[3]; h[i] := 2 * x[i]; y[i] := h[i] + 1; keep y";
    /// let stores = |backend: &Backend| {
    ///     let code = backend.compile(text, &Nodes::default())?;
    ///     let explained = code.explain(code.node("h")?).expect("the text mentions it");
    ///     Ok::<_, Box<dyn std::error::Error>>(!explained.contains("virtual"))
    /// };
    /// assert_eq!((stores(&backend)?, stores(&backend.with_optimizer(optimizer))?), (false, true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_optimizer(&self, optimizer: OptimizeSettings) -> Backend {
        self.reopened_with(self.state.settings.clone(), optimizer, self.state.tuner.clone())
    }

    fn reopened_with(
        &self,
        settings: Settings,
        optimizer: OptimizeSettings,
        tuner: Option<Arc<Tuner>>,
    ) -> Backend {
        let BackendState { name, codegen, devices, .. } = &*self.state;
        let parts = BackendParts { codegen: Arc::clone(codegen), devices: devices.clone() };
        Backend::assembled(name.clone(), parts, settings, optimizer, tuner)
    }

    /// The limits of the first device: the rate of arithmetic, and the memory bandwidth by footprint. The
    /// first call measures them with kernels of this backend, which takes some tenths of a second. `None` if
    /// that fails, for example on a device without memory for it.
    pub fn roofline(&self) -> Option<Roofline> {
        let measure = || {
            // The measured routines print nothing and are neither profiled nor tuned.
            let mut quiet = self.state.settings.clone();
            quiet.debugging = DebugSettings::default();
            Roofline::measure(&self.reopened_with(quiet, self.state.optimizer.clone(), None))
        };
        self.state.roofline.get_or_init(measure).clone()
    }

    /// Collects the profile of each routine that is dropped from now on, unless the program took it with
    /// [`Routine::profile`](crate::Routine::profile), for [`Backend::take_profiles`]. Routines have profiles
    /// if the setting [`profile`](DebugSettings::profile) is on.
    pub fn collect_profiles(&self) {
        self.state.collected_profiles.begin();
    }

    /// Takes the profiles collected so far, in the order in which the routines were dropped.
    pub fn take_profiles(&self) -> Vec<Profile> {
        self.state.collected_profiles.take()
    }

    pub(crate) fn collected_profiles(&self) -> &CollectedProfiles {
        &self.state.collected_profiles
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

    /// How routines are optimised.
    pub(crate) fn optimizer(&self) -> &OptimizeSettings {
        &self.state.optimizer
    }

    pub(crate) fn reporter(&self) -> &DebugReporter {
        &self.state.reporter
    }

    /// The computations of virtual nodes, from all routines compiled so far.
    pub(crate) fn virtual_nodes(&self) -> Arc<OptimizeCtx> {
        Arc::clone(&self.state.virtual_nodes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Commits compilations: memory modes, views, and the changes of each routine over its nodes to the
    /// computations of virtual nodes. All or nothing.
    pub(crate) fn commit<'a>(
        &self,
        decisions: Pending,
        changes: impl IntoIterator<Item = (&'a Changes, &'a [TensorNode])>,
    ) -> Result<(), tnode::Error> {
        // The lock is held during the commit: a thread that sees the new modes must find the computations
        // too.
        let mut known = self.state.virtual_nodes.lock().unwrap_or_else(PoisonError::into_inner);
        decisions.commit()?;
        let known = Arc::make_mut(&mut known);
        changes.into_iter().for_each(|(changes, nodes)| known.commit(changes, nodes));
        Ok(())
    }

    pub(crate) fn logs(&self) -> Option<&LogFolder> {
        self.state.logs.as_ref()
    }

    pub(crate) fn fallback_state(&self) -> &FallbackState {
        &self.state.fallback_state
    }

    pub(crate) fn tuner(&self) -> Option<&Tuner> {
        self.state.tuner.as_deref()
    }

    pub(crate) fn cache(&self) -> &CodeCache {
        &self.state.cache
    }

    pub(crate) fn texts(&self) -> &TextCache {
        &self.state.texts
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("name", &self.name()).field("device", &self.device().name()).finish()
    }
}
