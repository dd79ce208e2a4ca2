//! The facts of a compiled routine from which profiles of its linked routines start.

use std::sync::Arc;

use tnode::TensorNode;

use super::{
    call::CallDescription,
    describe::CallsOf,
    memory::MemoryPlan,
    output,
    profile::{Profile, ProfiledCall},
    roofline::Roofline,
    statements::Statements,
};
use crate::{backend::Backend, compile::CompiledForm};

/// The parts of profiles that are known at compile time.
#[derive(Clone, Debug)]
pub(crate) struct ProfileSource(Arc<SourceParts>);

#[derive(Debug)]
struct SourceParts {
    routine: String,
    backend: Backend,
    /// The calls, each with the name of its device.
    calls: Vec<(String, CallDescription)>,
    memory: MemoryPlan,
}

impl ProfileSource {
    pub(crate) fn new(
        backend: &Backend,
        routine: &str,
        form: &CompiledForm,
        nodes: &[TensorNode],
        statements: &Statements,
    ) -> ProfileSource {
        let (mut calls, mut memory) = (Vec::new(), MemoryPlan::default());
        for (backend, code) in form.parts(backend) {
            let (codegen, schedule) = (backend.codegen(), code.schedule());
            let described = CallsOf { codegen, schedule, nodes, statements }.describe();
            calls.extend(described.into_iter().map(|call| (backend.device().name(), call)));
            memory.append(MemoryPlan::of(schedule));
        }
        let (routine, backend) = (routine.to_owned(), backend.clone());
        ProfileSource(Arc::new(SourceParts { routine, backend, calls, memory }))
    }

    /// A profile without times.
    pub(crate) fn profile(&self) -> Profile {
        let SourceParts { routine, backend, calls, memory } = &*self.0;
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
            device: backend.device().name(),
            threads: backend.device().driver().caps().threads,
            run_time: None,
            calls: calls.collect(),
            memory: memory.clone(),
            roofline: None,
            notes: Vec::new(),
        }
    }

    /// The measured limits of the backend's device.
    pub(crate) fn roofline(&self) -> Option<Roofline> {
        self.0.backend.roofline()
    }

    /// Collects or reports a profile that nobody asked for.
    pub(crate) fn report(&self, profile: Profile) {
        let backend = &self.0.backend;
        if let Some(profile) = backend.collected_profiles().push(profile) {
            output::report(&profile, &backend.settings().debugging.profile_folder);
        }
    }
}
