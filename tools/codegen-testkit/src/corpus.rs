//! Compiles every run of the corpus with a code generator and compares the results with the interpreter's.

use codegen_core::{Artifact, Code, Codegen, CodegenError, Interpreted, ScheduledRoutine, Transcendental};
use filetests::RunCase;
use lowered_ir::{
    ir::{LoweredRoutine, NodeDecl, Numerics},
    pipeline::{self, optimize},
};
use scheduling::{ScheduleError, ScheduleOptions, schedule};
use tnode::{DType, MemoryMode, Scalar};

use crate::{bounds::Bounds, float_env, host, level::has_functions, report::Outcome, threads};

/// The file, line and variant of the run.
pub(crate) fn name(case: &RunCase, variant: &str) -> String {
    let file = case.path.strip_prefix(filetests::corpus_dir()).unwrap_or(&case.path);
    format!("{}:{} {variant}", file.display(), case.line)
}

/// The variants of a routine: optimized, and as written unless it has nodes that only the optimizer can
/// remove.
pub(crate) fn variants(routine: &LoweredRoutine) -> Vec<(&'static str, Result<LoweredRoutine, Outcome>)> {
    let mut variants = vec![("optimized", optimized(routine))];
    if routine.nodes.iter().all(|decl| !decl.mode.known_virtual()) {
        variants.push(("as written", Ok(routine.clone())));
    }
    variants
}

pub(crate) fn optimized(routine: &LoweredRoutine) -> Result<LoweredRoutine, Outcome> {
    let optimized = optimize(routine.clone(), &pipeline::OptimizeSettings::default());
    optimized.map(|optimized| optimized.routine).map_err(|e| failed("optimizing", e))
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

/// Optimizes and compiles a run, runs it in this process and returns the types and the bytes of the nodes
/// that outlive it.
///
/// # Errors
///
/// [`Outcome::Skipped`] if the optimizer or the target does not support the routine, [`Outcome::Failed`] for
/// all other errors.
pub fn results(codegen: &dyn Codegen, case: &RunCase) -> Result<Vec<(DType, Vec<u8>)>, Outcome> {
    let routine = optimized(&case.routine).map_err(|outcome| match outcome {
        // It rejects a node that is declared virtual and cannot be.
        Outcome::Failed(why) => Outcome::Skipped(why),
        other => other,
    })?;
    let case = RunCase { routine, ..case.clone() };
    let (scheduled, artifact) = compile_case(codegen, &case)?;
    let nodes = host::run(&scheduled, &artifact, codegen.caps(), &case, 0xa5)?;
    let kept = case.routine.nodes.iter().zip(nodes).filter(|(decl, _)| outlives(decl));
    Ok(kept.map(|(decl, bytes)| (decl.dtype, bytes)).collect())
}

/// A routine that legalization rejects is unsupported by the target.
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

/// Compiles a scheduled routine in the default floating-point environment.
fn compile(codegen: &dyn Codegen, scheduled: &ScheduledRoutine) -> Result<Artifact, Outcome> {
    let (artifact, change) = float_env::guarded(|| codegen.compile(scheduled));
    match change {
        Some(change) => Err(failed("compiling", change)),
        None => artifact.map_err(rejected),
    }
}

/// Compiles a run and compares its results with the interpreter's: for the scheduled kernels, in class
/// `Strict` also for the routine itself, and with the expectations. Native kernels then run on several
/// threads.
///
/// The references are computed before any code under test is made, so that it cannot influence them.
pub(crate) fn run_case(codegen: &dyn Codegen, case: &RunCase) -> Result<Outcome, Outcome> {
    // The scheduler asks the code generator questions.
    let ask = || schedule(&case.routine, codegen, &ScheduleOptions::default());
    let (scheduled, change) = float_env::guarded(ask);
    if let Some(change) = change {
        return Err(failed("scheduling", change));
    }
    let scheduled = scheduled.map_err(illegal)?;
    let defined = defined(codegen, &scheduled, case)?;
    let meaning = case.interpret().map_err(|e| failed("interpreting", e))?;
    let artifact = compile(codegen, &scheduled)?;
    let found = host::run(&scheduled, &artifact, codegen.caps(), case, 0xa5)?;
    let is_strict = case.routine.numerics == Numerics::Strict;
    if !is_strict && codegen.caps().transcendental == Transcendental::Approximate {
        let bounds = Bounds::of(case).map_err(|e| failed("bounding", e))?;
        bounds.check(&case.routine, &found, 1.0).map_err(|e| failed("out of bounds", e))?;
    } else {
        compare(&case.routine, &found, &defined)?;
    }
    // Legalization keeps the bits of functions on targets with f64 and i64, and is shorter on others.
    let is_wide = [DType::F64, DType::I64].iter().all(|dtype| codegen.caps().arithmetic.contains(*dtype));
    if is_strict && (is_wide || !has_functions(&case.routine)) {
        compare(&case.routine, &found, &meaning)?;
    }
    case.check(&found).map_err(|e| failed("expectation", e))?;
    threads::check(&scheduled, &artifact, codegen.caps(), case, &found)?;
    Code::new(scheduled, artifact).map_err(|e| failed("pairing code with its schedule", e))?;
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
pub(crate) fn compare(
    routine: &LoweredRoutine,
    found: &[Vec<u8>],
    defined: &[Vec<u8>],
) -> Result<(), Outcome> {
    for ((node, decl), (found, defined)) in routine.node_refs().zip(found.iter().zip(defined)) {
        let at = (0..).zip(scalars(found, decl.dtype).zip(scalars(defined, decl.dtype)));
        let differs = |(_, (a, b)): &(usize, (Scalar, Scalar))| a != b && !(is_nan(*a) && is_nan(*b));
        if let Some((at, (found, defined))) = outlives(decl).then(|| at.into_iter().find(differs)).flatten() {
            let name = &decl.name;
            let by = distance(found, defined);
            let message = format!(
                "node {node} {name:?}, element {at}: {found:?}, but by the interpreter {defined:?}{by}"
            );
            return Err(failed("wrong value", message));
        }
    }
    Ok(())
}

/// How far two floats are apart, in units in the last place, in parentheses; empty for other values.
fn distance(a: Scalar, b: Scalar) -> String {
    if !a.dtype().is_float() || is_nan(a) || is_nan(b) {
        return String::new();
    }
    let width = a.dtype().size_bytes() * 8;
    // Neighboring floats have neighboring numbers.
    let number = |x: Scalar| {
        let magnitude = (x.bits() & ((1 << (width - 1)) - 1)) as i128;
        if x.bits() >> (width - 1) == 1 { -magnitude } else { magnitude }
    };
    let ulps = (number(a) - number(b)).unsigned_abs();
    format!(" ({ulps} ulp apart)")
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
