//! Every run of the corpus compiles for every target to a program that the checker accepts, or is unsupported
//! with a reason. If an assembler is present, it accepts the programs, too.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failing test may panic, and reports are printed"
)]

use codegen_core::{Codegen, CodegenError, Payload, ScheduledRoutine};
use codegen_ptx::{PtxOptions, Target, ptx};
use codegen_testkit::assembler::CudaTools;
use codegen_testkit::{Outcome, Report, gpu};
use lowered_ir::ir::LoweredRoutine;
use lowered_ir::pipeline::{self, optimize};
use scheduling::{ScheduleError, ScheduleOptions, schedule};

#[test]
fn the_corpus_for_every_target() {
    let tools = gpu::or_skip("assembling the corpus", CudaTools::find());
    let mut report = Report { subject: "PTX".into(), ..Report::default() };
    for case in filetests::run_cases() {
        let path = case.path.strip_prefix(filetests::corpus_dir()).unwrap_or(&case.path).to_owned();
        for (variant, routine) in variants(&case.routine) {
            let name = format!("{}:{} {variant}", path.display(), case.line);
            // Targets differ in instructions, not in schedules.
            match schedule(&routine, &ptx(Target::Sm80, PtxOptions::default()), &ScheduleOptions::default()) {
                Ok(scheduled) => {
                    for target in Target::ALL {
                        let outcome = compile(target, &scheduled, tools.as_ref());
                        report.outcomes.insert(format!("{name} for {}", target.name()), outcome);
                    }
                }
                Err(ScheduleError::Illegal(error)) => {
                    report.outcomes.insert(name, Outcome::Skipped(error.to_string()));
                }
                Err(error) => panic!("{name}: {error}"),
            }
        }
    }
    println!("{report}");
    assert!(report.conforms(), "{report}");
    let (unsupported, all) = (report.skipped().count(), report.outcomes.len());
    assert!(unsupported * 40 < all, "{unsupported} of {all} runs are unsupported\n{report}");
}

/// The optimized routine, and the unoptimized one if all its nodes have memory.
fn variants(routine: &LoweredRoutine) -> Vec<(&'static str, LoweredRoutine)> {
    let mut variants = vec![(
        "optimized",
        optimize(routine.clone(), &pipeline::OptimizeSettings::default()).unwrap().routine,
    )];
    if routine.nodes.iter().all(|decl| !decl.mode.known_virtual()) {
        variants.push(("as written", routine.clone()));
    }
    variants
}

fn compile(target: Target, scheduled: &ScheduledRoutine, tools: Option<&CudaTools>) -> Outcome {
    let artifact = match ptx(target, PtxOptions::default()).compile(scheduled) {
        Ok(artifact) => artifact,
        Err(error @ CodegenError::Unsupported { .. }) => return Outcome::Skipped(error.to_string()),
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let Payload::Ptx(module) = artifact.payload() else { return Outcome::Failed("no PTX".into()) };
    if module.launches().len() != artifact.kernels().len() || module.target() != target.name() {
        return Outcome::Failed(format!("{} launches for {}", module.launches().len(), module.target()));
    }
    match tools.map_or(Ok(()), |tools| tools.accepts(module.text(), target.name())) {
        Ok(()) => Outcome::Passed,
        Err(message) => Outcome::Failed(message),
    }
}
