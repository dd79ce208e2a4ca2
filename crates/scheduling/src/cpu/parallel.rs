//! Lets the iterations of a nest's outermost loop run on several threads.
//!
//! A top-level loop becomes parallel if its iterations are independent and there is work for at least two threads. Nothing
//! else changes, and no bit does.

use lowered_ir::ir::{Bound, LoopKind, Routine, Stmt};

use crate::ScheduleOptions;
use crate::analysis::cost;
use codegen_core::access::{self, Ranges};

/// Marks the top-level loops that may be split.
pub(crate) fn parallelize(routine: &mut Routine, options: &ScheduleOptions) {
    let (ranges, locals) = (Ranges::of(routine), routine.locals());
    let mut body = std::mem::take(&mut routine.body);
    for stmt in &mut body {
        let work = cost::work(std::slice::from_ref(stmt), routine, &locals);
        let Stmt::For { var, lo: 0, hi: Bound { limit: 2.., symbol: None }, kind, body } = stmt else {
            continue;
        };
        let worth = work >= 2.0 * options.grain_work as f64;
        if *kind == LoopKind::Serial && worth && access::independent(*var, body, &ranges) {
            *kind = LoopKind::Parallel;
        }
    }
    routine.body = body;
}
