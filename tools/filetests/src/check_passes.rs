//! Checks that passes preserve the results of a routine: memory, bit for bit, and the log.

use std::cell::RefCell;
use std::collections::BTreeSet;

use lowered_ir::interp::{Buffer, InterpError, PreparedRoutine};
use lowered_ir::ir::{LoweredRoutine, Numerics};
use lowered_ir::passes::PASSES;
use lowered_ir::passes::runner::Trace;
use lowered_ir::pipeline::{OptimizeSettings, optimize_traced};
use lowered_ir::{text, verify};

use crate::RunCase;
use crate::generate::{alike, bytes_of_seed, memory_from_bytes};

/// The routine to which each of the optimizer's settings leads, if it accepts the routine.
type Optimized = Vec<(&'static str, Option<LoweredRoutine>)>;

/// A run, and the memory after it without any pass.
struct PassCase<'c> {
    case: &'c RunCase,
    garbage: Vec<Vec<u8>>,
    after: Vec<Vec<u8>>,
    log: Vec<String>,
    /// The routines that have passed the check. Most passes leave most routines as they are, and the
    /// optimizer's settings lead to the same routines.
    checked: RefCell<BTreeSet<String>>,
}

/// Runs a routine on the memory of a case and returns the lines of its log.
fn run(routine: &LoweredRoutine, case: &RunCase, nodes: &mut [Vec<u8>]) -> Result<Vec<String>, InterpError> {
    let mut log = Vec::new();
    let mut nodes: Vec<Buffer<'_>> = nodes.iter_mut().map(|bytes| Buffer::Write(bytes)).collect();
    let mut keep = |line: &str| log.push(line.to_owned());
    PreparedRoutine::new(routine)?.run_logged(
        &mut nodes,
        case.merge.as_deref(),
        &case.bindings,
        &mut keep,
    )?;
    Ok(log)
}

impl<'c> PassCase<'c> {
    fn new(case: &'c RunCase) -> Result<PassCase<'c>, String> {
        let blame = |what: String| format!("{what}\n{}", text::print(&case.routine));
        verify::verify(&case.routine).map_err(|e| blame(format!("not verified: {e}")))?;
        let garbage = memory_from_bytes(&case.routine, &bytes_of_seed(!0, 4096)).nodes;
        let mut after = case.inputs.clone();
        let log = run(&case.routine, case, &mut after).map_err(|e| blame(e.to_string()))?;
        Ok(PassCase { case, garbage, after, log, checked: RefCell::default() })
    }

    /// Checks that the routine after `pass` verifies, and leaves the same bytes in every node that outlives
    /// it.
    fn check(&self, pass: &str, routine: &LoweredRoutine) -> Result<(), String> {
        let before = &self.case.routine;
        let blame = |what: String| {
            format!("after {pass}: {what}\n{}\nfrom\n{}", text::print(routine), text::print(before))
        };
        // The text has the modes that are decided, but not all that is known of the others.
        let outlived: Vec<bool> =
            routine.nodes.iter().map(|decl| decl.mode.known_not_materialized()).collect();
        if !self.checked.borrow_mut().insert(format!("{outlived:?} {}", text::print(routine))) {
            return Ok(());
        }
        verify::verify(routine).map_err(|e| blame(format!("not verified: {e}")))?;
        let mut nodes = self.case.inputs.clone();
        // Memory that passes have made local to this routine may hold anything.
        for (at, (decl, was)) in routine.nodes.iter().zip(&before.nodes).enumerate() {
            if decl.mode.known_not_materialized() && !was.mode.known_not_materialized() {
                nodes[at].clone_from(&self.garbage[at]);
            }
        }
        let log = run(routine, self.case, &mut nodes).map_err(|e| blame(e.to_string()))?;
        if log != self.log {
            return Err(blame(format!("the log is {log:?}, expected {:?}", self.log)));
        }
        let kept = routine.node_refs().filter(|(_, decl)| !decl.mode.known_not_materialized());
        for (node, decl) in kept {
            let (want, have) = (&self.after[node.index()], &nodes[node.index()]);
            if !alike(decl, want, have) {
                return Err(blame(format!("{node} is {have:?}, expected {want:?}")));
            }
        }
        Ok(())
    }

    /// The optimized routine; `None` if a node that is declared virtual cannot be, which the optimizer
    /// rejects.
    fn optimized(&self, name: &str, settings: &OptimizeSettings) -> Result<Option<LoweredRoutine>, String> {
        let mut result = Ok(());
        let on_pass = &mut |pass: &str, routine: &LoweredRoutine| {
            if result.is_ok() {
                result = self.check(&format!("{pass} ({name})"), routine);
            }
        };
        let optimized = optimize_traced(self.case.routine.clone(), settings, &mut Trace::new(on_pass));
        result?;
        let may_be_rejected = self.case.routine.nodes.iter().any(|decl| decl.mode.known_virtual());
        match optimized {
            Ok(optimized) => Ok(Some(optimized.routine)),
            Err(_) if may_be_rejected => Ok(None),
            Err(error) => Err(format!("optimizing ({name}): {error}\n{}", text::print(&self.case.routine))),
        }
    }

    fn check_optimizer(&self) -> Result<Optimized, String> {
        let each = all_settings().into_iter();
        each.map(|(name, settings)| Ok((name, self.optimized(name, &settings)?))).collect()
    }

    fn check_each_pass(&self) -> Result<(), String> {
        for pass in PASSES {
            let mut routine = self.case.routine.clone();
            if (pass.run)(&mut routine).is_ok() {
                self.check(pass.name, &routine)?;
            }
        }
        Ok(())
    }
}

/// Settings of the optimizer that lead to different code.
fn all_settings() -> [(&'static str, OptimizeSettings); 5] {
    let usual = OptimizeSettings::default();
    let keep = OptimizeSettings { enable_device_only: false, ..usual.clone() };
    [
        (
            "inlined",
            OptimizeSettings { max_visits: u64::MAX, inline_complex_computations: true, ..usual.clone() },
        ),
        ("kept whole", OptimizeSettings { inline_scalar_constexprs: false, ..keep.clone() }),
        ("kept", keep),
        (
            "local",
            OptimizeSettings { stack_threshold_bytes: 0, inline_simple_computations: false, ..usual.clone() },
        ),
        ("default", usual),
    ]
}

/// Checks that each single pass, and the optimizer step by step with several settings, preserve the results
/// of the routine in class `Strict`, on memory derived from the seed. Returns whether the optimizer accepted
/// the routine: it rejects one with a node that is declared virtual and cannot be.
///
/// # Errors
///
/// The difference and the pass, with the routine before and after it.
pub fn check_passes(mut routine: LoweredRoutine, seed: u64) -> Result<bool, String> {
    routine.numerics = Numerics::Strict;
    let case = RunCase::drawn(routine, &bytes_of_seed(seed, 4096));
    let check = PassCase::new(&case)?;
    check.check_each_pass()?;
    Ok(check.check_optimizer()?.iter().any(|(_, routine)| routine.is_some()))
}

/// Checks that the optimizer preserves the results of a run step by step, with several settings. Returns the
/// name of each setting and the routine to which it leads, or `None` if it rejects a node that is declared
/// virtual.
///
/// # Errors
///
/// The difference and the pass, with the routine before and after it.
pub fn check_optimizer(case: &RunCase) -> Result<Optimized, String> {
    PassCase::new(case)?.check_optimizer()
}
