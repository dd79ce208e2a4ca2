//! An optimised routine as code for the target of one backend: scheduled, checked, compiled or found in the cache.

use codegen_core::{Artifact, Code, CodegenError, ScheduledRoutine};
use lowered_ir::{ir::Routine, verify::verify};
use scheduling::{
    FmaPolicy, LegaliseError, ScheduleError, ScheduleOptions, schedule_serial, schedule_traced,
};

use crate::{
    backend::Backend,
    error::CompileError,
    settings::{FmaSetting, Settings},
};

/// Kernels are cut, and every bit is determined. What logs runs as it is written, in one kernel.
pub(crate) fn schedule(
    backend: &Backend,
    routine: &Routine,
    on_step: &mut dyn FnMut(&str, &Routine),
) -> Result<ScheduledRoutine, CompileError> {
    let (codegen, settings) = (backend.codegen(), backend.settings());
    let schedule = if settings.logging.values {
        schedule_serial(routine, codegen, on_step)?
    } else {
        schedule_traced(routine, codegen, &schedule_options(settings), on_step)?
    };
    schedule.kernels().iter().for_each(|kernel| on_step("schedule", kernel.ir()));
    Ok(schedule)
}

/// The kernels compiled, or found among those compiled before.
pub(crate) fn compile(backend: &Backend, schedule: &ScheduledRoutine) -> Result<Artifact, CompileError> {
    Ok(backend.cache().compile(backend.codegen(), schedule)?)
}

/// Both in one.
pub(crate) fn code(
    backend: &Backend,
    routine: &Routine,
    on_step: &mut dyn FnMut(&str, &Routine),
) -> Result<Code, CompileError> {
    let schedule = schedule(backend, routine, on_step)?;
    let artifact = compile(backend, &schedule)?;
    Ok(Code::new(schedule, artifact)?)
}

/// What a target does not do, and why not.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) what: String,
    pub(crate) why: String,
}

/// What the target does not do, if that is why compilation failed: another target may do it then.
pub(crate) fn refusal(error: &CompileError) -> Option<Refusal> {
    let refused = |what: String, why: String| Some(Refusal { what, why });
    match error {
        CompileError::Schedule(ScheduleError::Illegal(LegaliseError::Unsupported {
            op, dtype, why, ..
        })) => refused(format!("`{op}` on {dtype}"), why.clone()),
        CompileError::Schedule(ScheduleError::Illegal(LegaliseError::Storage { dtype, name, .. })) => {
            refused(format!("nodes of {dtype}"), format!("node `{name}` is one"))
        }
        CompileError::Schedule(ScheduleError::Illegal(other)) => refused("this".into(), other.to_string()),
        CompileError::Codegen(CodegenError::Unsupported { op, why, .. }) => refused(op.clone(), why.clone()),
        _ => None,
    }
}

/// Fails if the IR that a stage produced does not verify: with our own bug, or because the program is too
/// large.
pub(crate) fn verified(stage: &'static str, routine: &Routine) -> Result<(), CompileError> {
    verify(routine).map_err(|error| match error.violation.is_limit() {
        true => CompileError::TooLarge { stage, error },
        false => CompileError::Verify { stage, error },
    })
}

fn schedule_options(settings: &Settings) -> ScheduleOptions {
    let fma = match settings.optimization.fma {
        FmaSetting::Never => FmaPolicy::Never,
        FmaSetting::ByClass => FmaPolicy::ByClass,
        FmaSetting::Always => FmaPolicy::Always,
    };
    ScheduleOptions { fma, ..ScheduleOptions::default() }
}
