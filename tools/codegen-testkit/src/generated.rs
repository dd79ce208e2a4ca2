//! Compiles random routines with a code generator and compares the results with the interpreter's.

use codegen_core::{Caps, Codegen};
use filetests::{
    RunCase,
    generate::{TypeChoice, routine_of_types},
};
use lowered_ir::ir::LoweredRoutine;

use crate::{
    corpus::{run_case, variants},
    report::Outcome,
};

/// The random routine that the bytes describe, of the types that a target claims to store.
pub fn generated_routine(caps: &Caps, bytes: &[u8]) -> LoweredRoutine {
    routine_of_types(bytes, &TypeChoice::only(|dtype| caps.storage.contains(dtype)))
}

/// Runs a routine as written and optimized, with memory and bindings derived from the bytes. The bits must
/// equal the interpreter's for the same kernels, and in class `Strict` also the interpreter's for the routine
/// itself.
///
/// The verifier must accept the routine, and its nodes must be small, like the nodes of random routines:
/// [`generated_routine`] makes one for a target.
/// Routines that the target does not support are skipped, and so are optimizations that the optimizer
/// rejects.
pub fn run_generated(codegen: &dyn Codegen, routine: &LoweredRoutine, bytes: &[u8]) -> Outcome {
    let case = RunCase::drawn(routine.clone(), bytes);
    let mut outcome = Outcome::Skipped("the optimizer rejects it".into());
    // The optimizer rejects a node that is declared virtual and cannot be.
    let accepted = variants(routine).into_iter().filter_map(|(name, routine)| Some((name, routine.ok()?)));
    for (name, routine) in accepted {
        let case = RunCase { routine, ..case.clone() };
        match run_case(codegen, &case) {
            Ok(passed) => outcome = passed,
            Err(Outcome::Failed(message)) => {
                let routine = lowered_ir::text::print(&case.routine);
                return Outcome::Failed(format!("{name}: {message}\n{routine}"));
            }
            Err(skipped) => return skipped,
        }
    }
    outcome
}
