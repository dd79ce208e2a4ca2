//! Parallel outermost loops: several threads run the iterations of a top-level loop.
//!
//! A top-level loop becomes parallel if its iterations are independent and there is enough work for two
//! threads. No bit changes.

use lowered_ir::ir::{LoopKind, Routine, Stmt};

use crate::analysis::cost;
use crate::options::ScheduleOptions;
use codegen_core::Caps;
use codegen_core::dependence::{self, VariableRanges};

/// Marks top-level loops as parallel.
pub(crate) fn parallelize(routine: &mut Routine, caps: &Caps, options: &ScheduleOptions) {
    if !options.parallel || caps.threads < 2 {
        return;
    }
    let (ranges, locals) = (VariableRanges::of(routine), routine.locals());
    let mut body = std::mem::take(&mut routine.body);
    for stmt in &mut body {
        let work = cost::work(std::slice::from_ref(stmt), routine, &locals);
        let Stmt::For { var, lo: 0, hi, kind, body } = stmt else { continue };
        if hi.constant().is_none_or(|limit| limit < 2) {
            continue;
        }
        let worth = work >= 2.0 * options.grain_work as f64;
        if *kind == LoopKind::Serial && worth && dependence::independent(*var, body, &ranges) {
            *kind = LoopKind::Parallel;
        }
    }
    routine.body = body;
}
