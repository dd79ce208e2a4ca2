//! Every run of the corpus becomes a program that the checker accepts, for every target, or is refused with a reason.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failing test may panic, and reports are printed"
)]

use codegen_core::Payload;
use codegen_ptx::{PtxOptions, Target, ptx};
use codegen_testkit::{Outcome, Report, compile_case};
use filetests::RunCase;
use lowered_ir::pipeline::{self, optimize};

#[test]
fn the_corpus_for_every_target() {
    for target in Target::ALL {
        let report = compile_all(target);
        println!("{report}");
        assert!(report.conforms(), "{report}");
        let (refused, all) = (report.skipped().count(), report.outcomes.len());
        assert!(refused * 20 < all, "{refused} of {all} runs are refused\n{report}");
    }
}

/// Each run as it is written, where it has memory for all nodes, and optimised.
fn compile_all(target: Target) -> Report {
    let codegen = ptx(target, PtxOptions::default());
    let mut report = Report { subject: target.name().into(), ..Report::default() };
    for case in filetests::run_cases() {
        let path = case.path.strip_prefix(filetests::corpus_dir()).unwrap_or(&case.path).to_owned();
        let optimised = optimize(case.routine.clone(), &pipeline::Settings::default()).unwrap().routine;
        let is_whole = case.routine.nodes.iter().all(|decl| !decl.mode.known_virtual());
        let variants = [(true, "optimised", optimised), (is_whole, "as written", case.routine.clone())];
        for (_, variant, routine) in variants.into_iter().filter(|(wanted, ..)| *wanted) {
            let case = RunCase { routine, ..case.clone() };
            let outcome = match compile_case(&codegen, &case) {
                Ok((_, artifact)) => match artifact.payload {
                    Payload::Ptx(module) if module.launches.len() == artifact.kernels.len() => {
                        Outcome::Passed
                    }
                    _ => Outcome::Failed("expected PTX for each kernel".into()),
                },
                Err(outcome) => outcome,
            };
            report.outcomes.insert(format!("{}:{} {variant}", path.display(), case.line), outcome);
        }
    }
    report
}
