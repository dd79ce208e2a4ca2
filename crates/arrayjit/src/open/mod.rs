//! Opens backends: by name, by settings, and from their parts.

mod auto; // the first backend of a fixed order that opens
mod available; // backends that can be used here, and why others cannot
mod built_in; // the backends of this crate
mod name; // names that a crate may register
mod registry; // backends of other crates, and names

use std::sync::Arc;

use device_runtime::StreamStrategy;
use lowered_ir::{pipeline::OptimizeSettings, stack::with_enough};
use tnode::DType;

use crate::{
    backend::Backend,
    cache::CodeCache,
    code_folder::CodeFolder,
    error::OpenError,
    generate::Generator,
    observe::Observers,
    parts::BackendParts,
    settings::{DebugSettings, LoadedSettings, Settings, SuggestedStreams},
    target::Target,
    tune::Tuner,
};

pub use available::{BackendStatus, DeviceListing};
pub use registry::LinkedBackend;

/// The most devices of a backend.
const MAX_DEVICES: usize = 1024;

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
        Backend::open_with(name, &settings)
    }

    /// [`Backend::open`] with the given settings. The backend that they name is opened by
    /// `Backend::open_with(&settings.backend, &settings)`.
    ///
    /// ```
    /// use arrayjit::{Backend, Settings};
    ///
    /// let mut settings = Settings::default();
    /// settings.threads = 2;
    /// let backend = Backend::open_with("multicore", &settings)?;
    /// assert_eq!(backend.settings().threads, 2);
    /// # Ok::<(), arrayjit::OpenError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails like [`Backend::open`].
    pub fn open_with(name: &str, settings: &Settings) -> Result<Backend, OpenError> {
        if name == auto::NAME {
            return Backend::open_auto(settings);
        }
        let entry = registry::find(name)?;
        check(settings)?;
        let parts = with_enough(|| (entry.open)(settings))?;
        Backend::from_parts(entry.name, parts, settings)
    }

    /// Opens the first backend of [`auto::ORDER`] that opens, and reports why others did not.
    fn open_auto(settings: &Settings) -> Result<Backend, OpenError> {
        check(settings)?;
        let choice = with_enough(|| auto::choose(auto::ORDER, settings))?;
        let backend = Backend::from_parts(choice.name, choice.parts, settings)?;
        choice.skipped.iter().for_each(|(name, why)| backend.observer().skipped(name, why));
        Ok(backend)
    }

    /// A backend made of a given code generator and devices that run its code; none of them needs to be known
    /// to this crate. `name` stands in errors and reports.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrayjit::{Backend, BackendParts, Device, Settings};
    /// # use codegen_core::Interpreted;
    /// # use scheduler_multicore::{Cpu, CpuConfig};
    /// let device = |ordinal| Device::new(Arc::new(Cpu::inline(CpuConfig::default())), ordinal);
    /// let parts = BackendParts::new(Arc::new(Interpreted::new()), device(0)).with_device(device(1));
    /// let backend = Backend::from_parts("mine", parts, &Settings::default())?;
    /// assert_eq!((backend.name(), backend.devices().len()), ("mine", 2));
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
        settings: &Settings,
    ) -> Result<Backend, OpenError> {
        parts.codegen.caps().check()?;
        let tuner = Tuner::open(&settings.tuning)?;
        let optimizer = settings.optimizer();
        Ok(Backend::assembled(name.into(), parts, settings.clone(), optimizer, tuner))
    }

    /// A backend made of parts whose capabilities are checked.
    pub(crate) fn assembled(
        name: String,
        parts: BackendParts,
        settings: Settings,
        mut optimizer: OptimizeSettings,
        tuner: Option<Arc<Tuner>>,
    ) -> Backend {
        // Tensor cores take operands from memory, as the program rounds them.
        let caps = parts.codegen.caps();
        optimizer.store_rounded |= caps.workgroups.is_some() && caps.contractions.contains(DType::Bf16);
        let observer = Observers::new(&name, &parts, &settings, &optimizer);
        let BackendParts { codegen, devices } = parts;
        for device in &devices {
            device.initialize(stream_strategy(&settings));
            device.reject_unwritten_reads(settings.reject_unwritten_reads);
        }
        let generator = Generator {
            folder: CodeFolder::of(&settings, &codegen),
            target: Arc::new(Target { name, codegen, devices }),
            logs: settings.has_logs(),
            tuner,
            cache: CodeCache::new(settings.code_cache_bytes),
            observer: Box::new(observer),
        };
        Backend::of(generator, settings, optimizer)
    }

    /// A new backend with the same code generator, devices and settings, and nothing compiled yet.
    pub(crate) fn reopened(&self) -> Backend {
        self.with_optimizer(self.optimizer().clone())
    }

    /// A backend with the same code generator, devices and numerics that reports and tunes nothing.
    pub(crate) fn quiet(
        name: String,
        parts: BackendParts,
        settings: &Settings,
        optimizer: OptimizeSettings,
    ) -> Backend {
        let quiet = Settings { debugging: DebugSettings::default(), ..settings.clone() };
        Backend::assembled(name, parts, quiet, optimizer, None)
    }

    /// A new backend with the same code generator, devices and settings, and nothing compiled yet, that
    /// optimizes routines with these options instead of [`Settings::optimizer`]. It is for those who develop
    /// passes: [capsules](crate::capsule) do not have these options.
    ///
    /// ```
    /// use arrayjit::{Backend, Nodes, OptimizeSettings};
    ///
    /// let backend = Backend::open("interpreter")?;
    /// let standard = backend.settings().optimizer();
    /// let optimizer = OptimizeSettings { inline_simple_computations: false, max_visits: 0, ..standard };
    /// let text = "input x f32[3]; h[i] := 2 * x[i]; y[i] := h[i] + 1; keep y";
    /// let explained = |backend: &Backend| {
    ///     let code = backend.compile(text, &Nodes::default())?;
    ///     Ok::<_, Box<dyn std::error::Error>>(code.explain(code.node("h")?))
    /// };
    /// assert_ne!(explained(&backend)?, explained(&backend.with_optimizer(optimizer))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_optimizer(&self, optimizer: OptimizeSettings) -> Backend {
        self.reopened_with(self.settings().clone(), optimizer, self.generator().tuner.clone())
    }

    fn reopened_with(
        &self,
        settings: Settings,
        optimizer: OptimizeSettings,
        tuner: Option<Arc<Tuner>>,
    ) -> Backend {
        let Target { name, codegen, devices, .. } = self.target();
        let parts = BackendParts { codegen: Arc::clone(codegen), devices: devices.clone() };
        Backend::assembled(name.clone(), parts, settings, optimizer, tuner)
    }
}

/// Rejects numbers of threads and devices that would exhaust the machine before anything is computed.
fn check(settings: &Settings) -> Result<(), OpenError> {
    let most = [
        ("threads", settings.threads, scheduler_multicore::MAX_THREADS),
        ("num_devices", settings.num_devices, MAX_DEVICES),
    ];
    match most.into_iter().find(|(_, found, most)| found > most) {
        Some((key, found, most)) => Err(OpenError::OutOfRange { key, found, most }),
        None => Ok(()),
    }
}

/// How many streams devices should suggest.
fn stream_strategy(settings: &Settings) -> StreamStrategy {
    match settings.streams {
        SuggestedStreams::OnlyDevicesParallel => StreamStrategy::OnlyDevicesParallel,
        SuggestedStreams::ForParallelCopying => StreamStrategy::ForParallelCopying,
        SuggestedStreams::MostParallelStreams => StreamStrategy::MostParallelStreams,
    }
}
