//! Parallel outermost loops: several threads run the iterations of a top-level loop.
//!
//! A top-level loop becomes parallel if its iterations are independent and there is enough work for two
//! threads. No bit changes.

use lowered_ir::ir::{LoopKind, LoweredRoutine, Stmt};

use crate::analysis::cost;
use crate::options::ScheduleOptions;
use codegen_core::Caps;
use codegen_core::dependence::{self, VariableRanges};

/// Marks top-level loops as parallel.
pub(crate) fn parallelize(routine: &mut LoweredRoutine, caps: &Caps, options: &ScheduleOptions) {
    if !options.parallel || caps.threads < 2 {
        return;
    }
    let (ranges, locals) = (VariableRanges::of(routine), routine.locals());
    let mut body = std::mem::take(&mut routine.body);
    for stmt in &mut body {
        let work = cost::work(std::slice::from_ref(stmt), routine, &locals);
        let Stmt::For { var, lo: 0, hi, kind, body } = stmt else { continue };
        if !hi.is_of_symbols() || hi.limit < 2 {
            continue;
        }
        let worth = work >= 2.0 * options.grain_work as f64;
        if *kind == LoopKind::Serial && worth && dependence::independent(*var, body, &ranges) {
            *kind = LoopKind::Parallel;
        }
    }
    routine.body = body;
}

#[cfg(test)]
mod tests {
    use codegen_core::{Codegen, Interpreted};
    use lowered_ir::text::parse;

    use super::*;

    /// Whether a loop that calls a function is parallel on two threads, with the default options.
    fn is_parallel(function: &str, calls: usize) -> bool {
        let source = format!(
            "routine @r fast {{
               node %0 \"x\" f32[{calls}] on_device
               node %1 \"y\" f32[{calls}] on_device
               for i0 in 0..{calls} {{ %1[i0] := {function}(%0[i0]) }}
             }}"
        );
        let mut routine = parse(&source).unwrap();
        let caps = Caps { threads: 2, ..Interpreted::new().caps().clone() };
        parallelize(&mut routine, &caps, &ScheduleOptions::default());
        matches!(routine.body[..], [Stmt::For { kind: LoopKind::Parallel, .. }])
    }

    #[test]
    fn sines_are_worth_threads_sooner_than_square_roots() {
        for function in ["sin", "cos"] {
            assert!(is_parallel(function, 32_768), "two grains, because the argument is reduced");
            assert!(!is_parallel(function, 16_384), "{function}");
        }
        assert!(!is_parallel("sqrt", 262_144));
        assert!(is_parallel("sqrt", 1 << 20));
    }
}
