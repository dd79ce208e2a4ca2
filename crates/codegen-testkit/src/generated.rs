//! Routines drawn at random, compiled by a code generator and compared with the interpreter.

use codegen_core::Codegen;
use filetests::{
    Expected, RunCase,
    generate::{bindings_from_bytes, memory_from_bytes},
};
use lowered_ir::ir::{Numerics, Routine};

use crate::{
    corpus::{failed, outlives, run_case, variants},
    report::Outcome,
};

/// Runs a routine as it is written, and optimised, on memory and bindings drawn from the bytes: compiled, it must compute what
/// the interpreter makes of the same kernels, bit for bit, and in the class `Strict` what it makes of the routine itself.
///
/// The routine must be one that the verifier accepts, with nodes as small as those of the generators. What the target
/// does not support is skipped, and so is an optimisation that is rejected.
pub fn run_generated(codegen: &dyn Codegen, routine: &Routine, bytes: &[u8]) -> Outcome {
    let case = drawn(routine, bytes);
    let meaning = match case.interpret() {
        Ok(nodes) => nodes,
        Err(error) => return failed("interpreting", error),
    };
    let mut outcome = Outcome::Skipped("the optimiser rejects it".into());
    // A node that is drawn as virtual may be one that cannot be.
    let accepted = variants(routine).into_iter().filter_map(|(name, routine)| Some((name, routine.ok()?)));
    for (name, routine) in accepted {
        let expected = expected(&routine, &meaning);
        let case = RunCase { routine, expected, ..case.clone() };
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

pub(crate) fn drawn(routine: &Routine, bytes: &[u8]) -> RunCase {
    let memory = memory_from_bytes(routine, bytes);
    RunCase {
        path: "generated".into(),
        line: 0,
        routine: routine.clone(),
        inputs: memory.nodes,
        merge: memory.merge,
        bindings: bindings_from_bytes(routine, bytes),
        expected: Vec::new(),
    }
}

/// What the nodes that outlive the run must hold.
fn expected(routine: &Routine, meaning: &[Vec<u8>]) -> Vec<Expected> {
    let kept = routine.node_refs().zip(meaning).filter(|((_, decl), _)| outlives(decl));
    let expected = kept.map(|((node, _), bytes)| Expected { node, bytes: bytes.clone(), tolerance: 0.0 });
    match routine.numerics {
        Numerics::Strict => expected.collect(),
        Numerics::Fast => Vec::new(),
    }
}
