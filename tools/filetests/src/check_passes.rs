//! Checks that passes preserve the results of a routine: memory, bit for bit, and the log.

use std::cell::RefCell;
use std::collections::BTreeSet;

use lowered_ir::interp::{Buffer, InterpError, Memory, PreparedRoutine};
use lowered_ir::ir::{Numerics, Routine};
use lowered_ir::passes::PASSES;
use lowered_ir::pipeline::{OptimizeSettings, optimize_traced};
use lowered_ir::{text, verify};

use crate::generate::{alike, bindings_from_bytes, bytes_of_seed, memory_from_bytes};

/// A routine with its inputs, and the memory after running it before any pass.
struct PassCase {
    routine: Routine,
    memory: Memory,
    garbage: Memory,
    bindings: Vec<i64>,
    after: Memory,
    log: Vec<String>,
    /// The routines that have passed the check. Most passes leave most routines as they are, and the
    /// optimiser's settings lead to the same routines.
    checked: RefCell<BTreeSet<String>>,
}

/// Runs a routine and returns the lines of its log.
fn run(routine: &Routine, memory: &mut Memory, bindings: &[i64]) -> Result<Vec<String>, InterpError> {
    let mut log = Vec::new();
    let mut nodes: Vec<Buffer<'_>> = memory.nodes.iter_mut().map(|bytes| Buffer::Write(bytes)).collect();
    PreparedRoutine::new(routine)?.run_logged(
        &mut nodes,
        memory.merge.as_deref(),
        bindings,
        &mut |line| {
            log.push(line.to_owned());
        },
    )?;
    Ok(log)
}

impl PassCase {
    /// The routine in class `Strict`, whose bits passes must preserve.
    fn new(mut routine: Routine, seed: u64) -> Result<PassCase, String> {
        routine.numerics = Numerics::Strict;
        verify::verify(&routine).map_err(|e| format!("not verified: {e}\n{}", text::print(&routine)))?;
        let bytes = bytes_of_seed(seed, 4096);
        let memory = memory_from_bytes(&routine, &bytes);
        let garbage = memory_from_bytes(&routine, &bytes_of_seed(!seed, 4096));
        let bindings = bindings_from_bytes(&routine, &bytes);
        let mut after = memory.clone();
        let log =
            run(&routine, &mut after, &bindings).map_err(|e| format!("{e}\n{}", text::print(&routine)))?;
        Ok(PassCase { routine, memory, garbage, bindings, after, log, checked: RefCell::default() })
    }

    /// Checks that the routine after `pass` verifies, and leaves the same bytes in every node that outlives
    /// it.
    fn check(&self, pass: &str, routine: &Routine) -> Result<(), String> {
        let blame = |what: String| {
            format!("after {pass}: {what}\n{}\nfrom\n{}", text::print(routine), text::print(&self.routine))
        };
        // The text has the modes that are decided, but not all that is known of the others.
        let outlived: Vec<bool> =
            routine.nodes.iter().map(|decl| decl.mode.known_not_materialized()).collect();
        if !self.checked.borrow_mut().insert(format!("{outlived:?} {}", text::print(routine))) {
            return Ok(());
        }
        verify::verify(routine).map_err(|e| blame(format!("not verified: {e}")))?;
        let mut memory = self.memory.clone();
        // Memory that passes have made local to this routine may hold anything.
        for (node, decl) in routine.node_refs() {
            let was = self.routine.node(node);
            if decl.mode.known_not_materialized() && !was.mode.known_not_materialized() {
                memory.nodes[node.index()].clone_from(&self.garbage.nodes[node.index()]);
            }
        }
        let log = run(routine, &mut memory, &self.bindings).map_err(|e| blame(e.to_string()))?;
        if log != self.log {
            return Err(blame(format!("the log is {log:?}, expected {:?}", self.log)));
        }
        let kept = routine.node_refs().filter(|(_, decl)| !decl.mode.known_not_materialized());
        for (node, decl) in kept {
            let (want, have) = (&self.after.nodes[node.index()], &memory.nodes[node.index()]);
            if !alike(decl, want, have) {
                return Err(blame(format!("{node} is {have:?}, expected {want:?}")));
            }
        }
        Ok(())
    }

    fn check_pipeline(&self, settings: &OptimizeSettings) -> Result<bool, String> {
        let mut result = Ok(());
        let optimized = optimize_traced(self.routine.clone(), settings, &mut |pass, routine| {
            if result.is_ok() {
                result = self.check(pass, routine);
            }
        });
        result?;
        // The only legitimate rejection: a node that is declared virtual and cannot be.
        Ok(optimized.is_ok())
    }

    fn check_each_pass(&self) -> Result<(), String> {
        for pass in PASSES {
            let mut routine = self.routine.clone();
            if (pass.run)(&mut routine).is_ok() {
                self.check(pass.name, &routine)?;
            }
        }
        Ok(())
    }
}

fn all_settings() -> [OptimizeSettings; 3] {
    let usual = OptimizeSettings::default();
    let eager = OptimizeSettings { max_visits: u64::MAX, inline_complex_computations: true, ..usual.clone() };
    let keep =
        OptimizeSettings { enable_device_only: false, inline_scalar_constexprs: false, ..usual.clone() };
    [usual, eager, keep]
}

/// Checks that each single pass, and the optimiser step by step with several settings, preserve the results
/// of the routine in class `Strict`, on memory derived from the seed. Returns whether the optimiser accepted
/// the routine: it rejects one with a node that is declared virtual and cannot be.
///
/// # Errors
///
/// The difference and the pass, with the routine before and after it.
pub fn check_passes(routine: Routine, seed: u64) -> Result<bool, String> {
    let case = PassCase::new(routine, seed)?;
    case.check_each_pass()?;
    let mut accepted = false;
    for settings in all_settings() {
        accepted |= case.check_pipeline(&settings)?;
    }
    Ok(accepted)
}
