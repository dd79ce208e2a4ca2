//! What the settings show of compilations and runs: reports, dumps, logs, profiles, capsules and timelines.
//!
//! Nothing but [`crate::open`] depends on this module: it makes the [`Observers`] of each backend, which see
//! what happens through the traits of [`crate::observer`].

pub mod capsule; // files that repeat a run elsewhere
pub mod profile; // the time, work and memory of kernel calls
pub mod trace; // timelines for trace viewers

mod debug; // reports on standard error
mod dump; // files for dumps
mod log; // files for the logs of routines
mod run_memory; // the memory of runs, for reports

use std::{any::Any, fmt::Display, sync::Arc};

use codegen_core::{Code, LogStyle, Logging};
use device_runtime::{Context, Event, RunError};
use lowered_ir::{ir::LoweredRoutine, pipeline::OptimizeSettings};

use self::{
    capsule::{CapsuleSource, CapsuleWatch},
    debug::DebugReporter,
    log::LogFolder,
    profile::{BackendProfiles, Profile, ProfileRecorder, ProfileSource, Roofline, Statements},
    run_memory::RunMemory,
    trace::ProcessTimeline,
};
use crate::{
    backend::Backend,
    error::OpenError,
    observer::{Compilation, CompileObserver, LinkObserver, NeededInputs},
    parts::BackendParts,
    routine::{Routine, RunObserver},
    settings::Settings,
};

/// The observers of a backend that its settings ask for.
pub(crate) struct Observers {
    reporter: DebugReporter,
    settings: Settings,
    /// The folder of the routines' logs, if they log.
    logs: Option<LogFolder>,
    /// What profiles of the backend's routines have in common.
    profiles: Arc<BackendProfiles>,
    /// The timeline of the process, if there is one. It is flushed when the backend is dropped.
    _timeline: Option<ProcessTimeline>,
}

impl Observers {
    /// The observers of a backend that is being made of these parts. Reports the devices.
    pub(crate) fn new(
        name: &str,
        parts: &BackendParts,
        settings: &Settings,
        optimizer: &OptimizeSettings,
    ) -> Observers {
        let reporter = DebugReporter::new(&settings.debugging);
        parts.devices.iter().for_each(|device| reporter.device(device));
        Observers {
            reporter,
            settings: settings.clone(),
            logs: settings.has_logs().then(|| LogFolder::open(settings.debugging.logs.as_ref())),
            profiles: Arc::new(BackendProfiles::new(name, parts, settings, optimizer)),
            _timeline: ProcessTimeline::begin(&settings.debugging.trace),
        }
    }

    /// The observers of a backend.
    fn of(backend: &Backend) -> Option<&Observers> {
        let observer: &dyn Any = backend.observer();
        observer.downcast_ref()
    }

    /// Whether the settings ask for capsules.
    fn captures(&self) -> bool {
        !self.settings.debugging.capsules.is_empty()
    }
}

impl CompileObserver for Observers {
    fn needs(&self) -> NeededInputs {
        NeededInputs {
            assignments: self.reporter.shows_calls() || self.settings.debugging.profile,
            routine: self.captures(),
        }
    }

    fn is_idle(&self) -> bool {
        let is_observed = self.logs.is_some() || self.captures() || self.settings.debugging.profile;
        self.reporter.is_silent() && !is_observed
    }

    fn shows_passes(&self) -> bool {
        self.reporter.shows_passes()
    }

    fn skipped(&self, name: &str, why: &OpenError) {
        self.reporter.skipped(name, why);
    }

    fn pass(&self, name: &str, routine: &LoweredRoutine) {
        self.reporter.pass(name, routine);
    }

    fn tuned(&self, kernel: &str, result: &dyn Display) {
        self.reporter.tuned(kernel, result);
    }

    fn compiled(&self, compilation: Compilation<'_>) -> Option<Arc<dyn LinkObserver>> {
        let reporter = &self.reporter;
        let statements = compilation.assignments.as_ref().map(Statements::of).unwrap_or_default();
        reporter.modes(compilation.nodes.iter().chain(compilation.views.iter().copied()));
        reporter.warnings(compilation.name, compilation.warnings);
        reporter.compiled(&compilation, &statements);
        let profile = self.settings.debugging.profile;
        let links = ObservedLinks {
            routine: compilation.name.to_owned(),
            reporter: reporter.clone(),
            logs: self.logs.clone(),
            profile: profile.then(|| ProfileSource::new(&self.profiles, &compilation, &statements)),
            capsules: CapsuleSource::new(reporter, &self.settings, compilation),
        };
        (!self.is_idle()).then(|| Arc::new(links) as Arc<dyn LinkObserver>)
    }
}

/// Observes the links of a compiled routine.
#[derive(Debug)]
struct ObservedLinks {
    routine: String,
    reporter: DebugReporter,
    logs: Option<LogFolder>,
    capsules: Option<CapsuleSource>,
    profile: Option<ProfileSource>,
}

impl LinkObserver for ObservedLinks {
    fn observes_runs(&self) -> bool {
        self.logs.is_some() || self.capsules.is_some() || self.profile.is_some()
    }

    fn log(&self) -> Option<Logging> {
        let sink = Arc::new(self.logs.as_ref()?.file(&self.routine));
        Some(Logging { sink, style: LogStyle::Exact })
    }

    fn linked(&self, context: &Context, codes: &[&Code]) -> Option<Arc<dyn RunObserver>> {
        self.reporter.memory(&self.routine, || RunMemory::of(context, codes.iter().copied()));
        let watch = self.capsules.as_ref().map(CapsuleSource::watch);
        let recorder = self.profile.clone().map(ProfileRecorder::new);
        let is_observed = watch.is_some() || recorder.is_some();
        is_observed.then(|| Arc::new(ObservedRuns { watch, recorder }) as Arc<dyn RunObserver>)
    }
}

/// Observes the runs of a linked routine.
#[derive(Debug)]
struct ObservedRuns {
    /// Writes capsules of suspicious runs.
    watch: Option<CapsuleWatch>,
    /// Records the times of runs.
    recorder: Option<ProfileRecorder>,
}

impl RunObserver for ObservedRuns {
    fn run(&self, routine: &Routine, bindings: &[i64]) -> Result<Event, RunError> {
        match &self.watch {
            Some(watch) => watch.run(routine, bindings),
            None => self.run_task(routine, bindings),
        }
    }

    fn observes_tasks(&self) -> bool {
        self.recorder.is_some()
    }

    fn run_task(&self, routine: &Routine, bindings: &[i64]) -> Result<Event, RunError> {
        match &self.recorder {
            Some(recorder) => recorder.run(routine, bindings),
            None => routine.run_unobserved(bindings),
        }
    }

    fn passed_by(&self, how: &str) {
        if let Some(watch) = &self.watch {
            watch.not_watched(how);
        }
    }
}

impl Backend {
    /// The limits of the first device: the rate of arithmetic, and the memory bandwidth by footprint. The
    /// first call measures them with kernels of this backend, which takes some tenths of a second. `None` if
    /// that fails, for example on a device without memory for it.
    pub fn roofline(&self) -> Option<Roofline> {
        Observers::of(self)?.profiles.roofline()
    }

    /// Collects the profile of each routine that is dropped from now on, unless the program took it with
    /// [`Routine::profile`](crate::Routine::profile), for [`Backend::take_profiles`]. Routines have profiles
    /// if the setting [`profile`](crate::settings::DebugSettings::profile) is on.
    pub fn collect_profiles(&self) {
        if let Some(observers) = Observers::of(self) {
            observers.profiles.collected.begin();
        }
    }

    /// Takes the profiles collected so far, in the order in which the routines were dropped.
    pub fn take_profiles(&self) -> Vec<Profile> {
        Observers::of(self).map(|observers| observers.profiles.collected.take()).unwrap_or_default()
    }
}

impl Routine {
    /// The profile of all runs so far, for which it waits; `None` unless the routine was compiled with the
    /// setting [`profile`](crate::settings::DebugSettings::profile).
    ///
    /// The first profile of a backend measures the limits of the device, which takes some tenths of a second.
    pub fn profile(&self) -> Option<Profile> {
        let runs: &dyn Any = self.observer()?;
        let ObservedRuns { recorder, .. } = runs.downcast_ref()?;
        recorder.as_ref().map(ProfileRecorder::profile)
    }
}
