//! The corpus and random routines compute the same results on the simulated GPU as by the interpreter of the
//! IR. The simulated GPU also reports races, uninitialized reads and accesses out of bounds.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failing test may panic, and reports are printed"
)]

use crate::common::device;

use codegen_ptx::{PtxOptions, Target, ptx};
use codegen_testkit::{Outcome, Report};
use filetests::RunCase;
use filetests::generate::{bytes_of_seed, routine_from_seed};
use lowered_ir::ir::LoweredRoutine;
use lowered_ir::pipeline::{self, optimize};
use ptx_sim::ExecutionOrder;

#[test]
fn the_corpus_in_any_order_of_warps() {
    let mut report = Report { subject: "PTX on its interpreter".into(), ..Report::default() };
    for (case, target) in filetests::run_cases().zip(Target::ALL.into_iter().cycle()) {
        let path = case.path.strip_prefix(filetests::corpus_dir()).unwrap_or(&case.path).to_owned();
        for (variant, routine) in variants(&case.routine) {
            let case = RunCase { routine, ..case.clone() };
            let order = ExecutionOrder::Random { seed: case.line as u64 };
            let outcome = device::run_case(&ptx(target, PtxOptions::default()), &case, order);
            let name = format!("{}:{} {variant} for {}", path.display(), case.line, target.name());
            report.outcomes.insert(name, outcome);
        }
    }
    println!("{report}");
    assert!(report.conforms() && report.passed() > 200, "{report}");
}

/// The optimized routine, and the unoptimized one if all its nodes have memory.
fn variants(routine: &LoweredRoutine) -> Vec<(&'static str, LoweredRoutine)> {
    let optimized = optimize(routine.clone(), &pipeline::OptimizeSettings::default()).ok();
    let whole = routine.nodes.iter().all(|decl| !decl.mode.known_virtual()).then(|| routine.clone());
    let variants = [("optimized", optimized.map(|o| o.routine)), ("as written", whole)];
    variants.into_iter().filter_map(|(name, routine)| Some((name, routine?))).collect()
}

#[test]
fn random_routines_in_any_order_of_warps() {
    let (mut passed, mut unsupported) = (0, 0);
    for seed in filetests::effort::seeds(50) {
        let (routine, bytes) = (routine_from_seed(seed, 512), bytes_of_seed(seed ^ 0x5eed, 4096));
        let target = Target::ALL[seed as usize % 3];
        for (variant, variant_of) in variants(&routine) {
            let drawn = RunCase::drawn(routine.clone(), &bytes);
            let case = RunCase { path: format!("seed {seed}").into(), routine: variant_of, ..drawn };
            match device::run_case(
                &ptx(target, PtxOptions::default()),
                &case,
                ExecutionOrder::Random { seed },
            ) {
                Outcome::Passed => passed += 1,
                Outcome::Skipped(_) => unsupported += 1,
                failed => panic!("seed {seed} {variant}: {failed:?}"),
            }
        }
    }
    println!("{passed} passed, {unsupported} unsupported");
    assert!(passed > 37, "{passed} passed, {unsupported} unsupported");
}
