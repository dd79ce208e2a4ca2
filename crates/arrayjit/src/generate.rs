//! Schedules an optimized routine for the target of one backend, checks the result, and compiles it or finds
//! it in the cache.

use std::sync::Arc;

use codegen_core::{Artifact, Code, CodegenError, ScheduledRoutine};
use lowered_ir::{ir::LoweredRoutine, passes::runner::Trace, verify::verify};
use scheduling::{LegalizeError, ScheduleError, ScheduleOptions, schedule_serial, schedule_traced};

use crate::{
    cache::CodeCache, code_folder::CodeFolder, error::CompileError, observer::CompileObserver,
    target::Target, tune::Tuner,
};

/// Schedules routines for a target and compiles them.
pub(crate) struct Generator {
    pub(crate) target: Arc<Target>,
    /// Whether routines log.
    pub(crate) logs: bool,
    /// The choices of the file that the settings name.
    pub(crate) tuner: Option<Arc<Tuner>>,
    /// The folder of compiled code that the settings name.
    pub(crate) folder: Option<CodeFolder>,
    pub(crate) cache: CodeCache,
    pub(crate) observer: Box<dyn CompileObserver>,
}

impl Generator {
    pub(crate) fn name(&self) -> &str {
        &self.target.name
    }

    /// The folder of compiled code, if routines may come from it: nothing asks to see the stages, and no
    /// kernel is tuned.
    pub(crate) fn folder(&self) -> Option<&CodeFolder> {
        self.folder.as_ref().filter(|_| self.observer.is_idle() && !self.logs && self.tuner.is_none())
    }

    /// Schedules a routine: partitions it into kernels and fixes every bit of the result. A routine that logs
    /// becomes a single kernel that runs in program order. If the settings ask for it, kernels then get the
    /// choices that were measured as the fastest.
    pub(crate) fn schedule(
        &self,
        routine: &LoweredRoutine,
        trace: &mut Trace<'_>,
    ) -> Result<ScheduledRoutine, CompileError> {
        let codegen = &*self.target.codegen;
        let schedule = match self.logs {
            true => schedule_serial(routine, codegen, trace)?,
            false => schedule_traced(routine, codegen, &ScheduleOptions::default(), trace)?,
        };
        schedule.kernels().iter().for_each(|kernel| trace.show("schedule", kernel.ir()));
        match self.tuner.as_ref().filter(|_| !self.logs) {
            Some(tuner) => {
                Ok(tuner.tuned(codegen, schedule, &|kernel, found| self.observer.tuned(kernel, found))?)
            }
            None => Ok(schedule),
        }
    }

    /// Compiles a scheduled routine, or finds its code in the cache.
    pub(crate) fn compile(&self, schedule: &ScheduledRoutine) -> Result<Artifact, CompileError> {
        Ok(self.cache.compile(&*self.target.codegen, schedule)?)
    }

    /// Schedules and compiles a routine.
    pub(crate) fn code(&self, routine: &LoweredRoutine, trace: &mut Trace<'_>) -> Result<Code, CompileError> {
        let schedule = self.schedule(routine, trace)?;
        let artifact = self.compile(&schedule)?;
        Ok(Code::new(schedule, artifact)?)
    }
}

/// An operation or type that a target does not support, and the reason.
#[derive(Clone, Debug)]
pub(crate) struct Rejection {
    pub(crate) what: String,
    pub(crate) why: String,
}

/// The unsupported operation or type, if that is the reason for the error; another target may support it.
pub(crate) fn rejection(error: &CompileError) -> Option<Rejection> {
    let rejected = |what: String, why: String| Some(Rejection { what, why });
    match error {
        CompileError::Schedule(ScheduleError::Illegal(LegalizeError::Unsupported {
            op, dtype, why, ..
        })) => rejected(format!("`{op}` on {dtype}"), why.clone()),
        CompileError::Schedule(ScheduleError::Illegal(LegalizeError::Storage { dtype, name, .. })) => {
            rejected(format!("nodes of {dtype}"), format!("node `{name}` is one"))
        }
        CompileError::Schedule(ScheduleError::Illegal(other)) => rejected("this".into(), other.to_string()),
        CompileError::Codegen(CodegenError::Unsupported { op, why, .. }) => rejected(op.clone(), why.clone()),
        CompileError::Codegen(error @ CodegenError::CodeForbidden { .. }) => {
            rejected("native code".into(), error.to_string())
        }
        _ => None,
    }
}

/// Fails if the IR that a stage produced does not verify: because of our own bug, or because the program is
/// too large.
pub(crate) fn verified(stage: &'static str, routine: &LoweredRoutine) -> Result<(), CompileError> {
    verify(routine).map_err(|error| match error.violation.is_limit() {
        true => CompileError::TooLarge { stage, error },
        false => CompileError::Verify { stage, error },
    })
}
