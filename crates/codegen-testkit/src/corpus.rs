//! Compiles every run of the corpus with a code generator and compares the results with the interpreter's.

use codegen_core::{Artifact, Codegen, CodegenError, Interpreted, ScheduledRoutine};
use filetests::RunCase;
use lowered_ir::{
    ir::{NodeDecl, Routine},
    pipeline::{self, optimize},
};
use scheduling::{ScheduleError, ScheduleOptions, schedule};
use tnode::{DType, MemoryMode, Scalar};

use crate::{
    host, logged,
    report::{Outcome, Report},
};

/// Runs the whole corpus on a code generator for this process: each run as written, optimised, and with
/// logged values.
///
/// Code for memory other than this process's is compiled but not run; such runs are skipped.
pub fn run_corpus(codegen: &dyn Codegen) -> Report {
    let mut report = Report { subject: codegen.name().to_owned(), ..Report::default() };
    for case in filetests::run_cases() {
        for (variant, routine) in variants(&case.routine) {
            let outcome = routine.and_then(|routine| run_case(codegen, &RunCase { routine, ..case.clone() }));
            report.outcomes.insert(name(&case, variant), outcome.unwrap_or_else(|outcome| outcome));
        }
        for (variant, routine) in variants(&case.routine).into_iter().take(1) {
            let run = |routine| logged::run_case(codegen, &RunCase { routine, ..case.clone() });
            let outcome = routine.and_then(run).unwrap_or_else(|outcome| outcome);
            report.outcomes.insert(name(&case, &format!("{variant}, logging")), outcome);
        }
    }
    report
}

/// The file, line and variant of the run.
pub(crate) fn name(case: &RunCase, variant: &str) -> String {
    let file = case.path.strip_prefix(filetests::corpus_dir()).unwrap_or(&case.path);
    format!("{}:{} {variant}", file.display(), case.line)
}

/// The variants of a routine: optimised, and as written unless it has nodes that only the optimiser can
/// remove.
pub(crate) fn variants(routine: &Routine) -> Vec<(&'static str, Result<Routine, Outcome>)> {
    let optimised = optimize(routine.clone(), &pipeline::OptimizeSettings::default());
    let mut variants = vec![("optimised", optimised.map(|o| o.routine).map_err(|e| failed("optimising", e)))];
    if routine.nodes.iter().all(|decl| !decl.mode.known_virtual()) {
        variants.push(("as written", Ok(routine.clone())));
    }
    variants
}

/// Schedules the routine of a run for a code generator and compiles it.
///
/// # Errors
///
/// [`Outcome::Skipped`] if the target does not support the routine, [`Outcome::Failed`] for all other errors.
pub fn compile_case(codegen: &dyn Codegen, case: &RunCase) -> Result<(ScheduledRoutine, Artifact), Outcome> {
    let scheduled = schedule(&case.routine, codegen, &ScheduleOptions::default()).map_err(illegal)?;
    let artifact = codegen.compile(&scheduled).map_err(rejected)?;
    Ok((scheduled, artifact))
}

/// A routine that legalisation rejects is unsupported by the target.
pub(crate) fn illegal(error: ScheduleError) -> Outcome {
    match error {
        ScheduleError::Illegal(error) => Outcome::Skipped(error.to_string()),
        _ => failed("scheduling", error),
    }
}

pub(crate) fn rejected(error: CodegenError) -> Outcome {
    match error {
        CodegenError::Unsupported { .. } => Outcome::Skipped(error.to_string()),
        _ => failed("compiling", error),
    }
}

pub(crate) fn failed(stage: &str, error: impl std::fmt::Display) -> Outcome {
    Outcome::Failed(format!("{stage}: {error}"))
}

pub(crate) fn run_case(codegen: &dyn Codegen, case: &RunCase) -> Result<Outcome, Outcome> {
    let (scheduled, artifact) = compile_case(codegen, case)?;
    let defined = defined(codegen, &scheduled, case)?;
    let found = host::run(&scheduled, &artifact, codegen.caps(), case, 0xa5)?;
    compare(&case.routine, &found, &defined)?;
    case.check(&found).map_err(Outcome::Failed)?;
    Ok(Outcome::Passed)
}

/// Runs the scheduled kernels on the interpreter and returns the bytes of the nodes.
pub(crate) fn defined(
    codegen: &dyn Codegen,
    scheduled: &ScheduledRoutine,
    case: &RunCase,
) -> Result<Vec<Vec<u8>>, Outcome> {
    let interpreted = Interpreted::of_target(codegen.caps().clone());
    let artifact = interpreted.compile(scheduled).map_err(|e| failed("interpreting", e))?;
    host::run(scheduled, &artifact, codegen.caps(), case, 0x5a)
}

/// Compares the nodes that outlive the run bit for bit, except that all NaNs are equal.
pub(crate) fn compare(routine: &Routine, found: &[Vec<u8>], defined: &[Vec<u8>]) -> Result<(), Outcome> {
    for ((node, decl), (found, defined)) in routine.node_refs().zip(found.iter().zip(defined)) {
        let at = (0..).zip(scalars(found, decl.dtype).zip(scalars(defined, decl.dtype)));
        let differs = |(_, (a, b)): &(usize, (Scalar, Scalar))| a != b && !(is_nan(*a) && is_nan(*b));
        if let Some((at, (found, defined))) = outlives(decl).then(|| at.into_iter().find(differs)).flatten() {
            let name = &decl.name;
            let message =
                format!("node {node} {name:?}, element {at}: {found:?}, but by the interpreter {defined:?}");
            return Err(Outcome::Failed(message));
        }
    }
    Ok(())
}

pub(crate) fn outlives(decl: &NodeDecl) -> bool {
    !decl.mode.known_virtual() && decl.mode.mode() != Some(MemoryMode::Local)
}

fn is_nan(value: Scalar) -> bool {
    value.dtype().is_float() && value.as_f64().is_nan()
}

pub(crate) fn scalars(bytes: &[u8], dtype: DType) -> impl Iterator<Item = Scalar> + '_ {
    bytes.chunks_exact(dtype.size_bytes()).filter_map(move |chunk| Scalar::read(dtype, chunk))
}
