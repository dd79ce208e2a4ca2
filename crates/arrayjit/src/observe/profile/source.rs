//! The facts of a compiled routine from which profiles of its linked routines start.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use lowered_ir::pipeline::OptimizeSettings;

use super::{
    call::CallDescription,
    describe::CallsOf,
    memory::MemoryPlan,
    output::{self, CollectedProfiles},
    profile::{Profile, ProfiledCall},
    roofline::Roofline,
    statements::Statements,
};
use crate::{backend::Backend, observer::Compilation, parts::BackendParts, settings::Settings};

/// What the profiles of a backend's routines have in common.
pub(crate) struct BackendProfiles {
    name: String,
    parts: BackendParts,
    settings: Settings,
    optimizer: OptimizeSettings,
    /// The measured limits of the first device; `None` inside if they cannot be measured.
    roofline: OnceLock<Option<Roofline>>,
    /// The profiles of dropped routines, if the program collects them.
    pub(crate) collected: CollectedProfiles,
}

impl BackendProfiles {
    pub(crate) fn new(
        name: &str,
        parts: &BackendParts,
        settings: &Settings,
        optimizer: &OptimizeSettings,
    ) -> BackendProfiles {
        BackendProfiles {
            name: name.to_owned(),
            parts: parts.clone(),
            settings: settings.clone(),
            optimizer: optimizer.clone(),
            roofline: OnceLock::new(),
            collected: CollectedProfiles::default(),
        }
    }

    /// The limits of the first device, measured at the first call by routines that print nothing and are
    /// neither profiled nor tuned.
    pub(crate) fn roofline(&self) -> Option<Roofline> {
        let BackendProfiles { name, parts, settings, optimizer, .. } = self;
        let quiet = || Backend::quiet(name.clone(), parts.clone(), settings, optimizer.clone());
        self.roofline.get_or_init(|| Roofline::measure(&quiet())).clone()
    }
}

/// The parts of profiles that are known at compile time.
#[derive(Clone)]
pub(crate) struct ProfileSource(Arc<SourceParts>);

struct SourceParts {
    routine: String,
    profiles: Arc<BackendProfiles>,
    /// The calls, each with the name of its device.
    calls: Vec<(String, CallDescription)>,
    memory: MemoryPlan,
}

impl ProfileSource {
    pub(crate) fn new(
        profiles: &Arc<BackendProfiles>,
        compilation: &Compilation<'_>,
        statements: &Statements,
    ) -> ProfileSource {
        let (mut calls, mut memory) = (Vec::new(), MemoryPlan::default());
        for part in compilation.parts {
            let (codegen, schedule) = (&*part.target.codegen, part.code.schedule());
            let described = CallsOf { codegen, schedule, nodes: compilation.nodes, statements }.describe();
            calls.extend(described.into_iter().map(|call| (part.target.device().name(), call)));
            memory.append(MemoryPlan::of(schedule));
        }
        let (routine, profiles) = (compilation.name.to_owned(), Arc::clone(profiles));
        ProfileSource(Arc::new(SourceParts { routine, profiles, calls, memory }))
    }

    /// A profile without times.
    pub(crate) fn profile(&self) -> Profile {
        let SourceParts { routine, profiles, calls, memory } = &*self.0;
        let device = &profiles.parts.devices[0];
        let calls = calls.iter().map(|(device, description)| ProfiledCall {
            description: description.clone(),
            device: device.clone(),
            time: None,
            interval: None,
            launch: None,
            roofline_share: None,
        });
        Profile {
            routine: routine.clone(),
            device: device.name(),
            threads: device.driver().caps().threads,
            run_time: None,
            calls: calls.collect(),
            memory: memory.clone(),
            roofline: None,
            notes: Vec::new(),
        }
    }

    /// The measured limits of the backend's device.
    pub(crate) fn roofline(&self) -> Option<Roofline> {
        self.0.profiles.roofline()
    }

    /// Collects or reports a profile that nobody asked for.
    pub(crate) fn report(&self, profile: Profile) {
        let profiles = &self.0.profiles;
        if let Some(profile) = profiles.collected.push(profile) {
            output::report(&profile, &profiles.settings.debugging.profile_folder);
        }
    }
}

impl fmt::Debug for ProfileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfileSource").field("routine", &self.0.routine).finish_non_exhaustive()
    }
}
