//! Parallel outermost loops: several threads run the iterations of a top-level loop.
//!
//! A top-level loop becomes parallel if its iterations are independent and there is enough work for two
//! threads. No bit changes.
//!
//! A loop that ends at a symbol may have one iteration in a run, as the loop over a batch often has. It
//! changes places with the loop in it if that one can have more iterations.

use lowered_ir::ir::{LoopKind, LoweredRoutine, Stmt};

use crate::analysis::cost;
use crate::options::ScheduleOptions;
use codegen_core::Caps;
use codegen_core::dependence::{self, VariableRanges};
use codegen_core::kernel;

/// Marks top-level loops as parallel.
pub(crate) fn parallelize(routine: &mut LoweredRoutine, caps: &Caps, options: &ScheduleOptions) {
    if !options.parallel || caps.threads < 2 {
        return;
    }
    let (ranges, locals) = (VariableRanges::of(routine), routine.locals());
    let mut body = std::mem::take(&mut routine.body);
    for stmt in &mut body {
        if cost::work(std::slice::from_ref(stmt), routine, &locals) < 2.0 * options.grain_work as f64 {
            continue;
        }
        if may_exchange(stmt, &ranges) {
            exchange(stmt);
        }
        if is_independent(stmt, &ranges)
            && let Stmt::For { kind, .. } = stmt
        {
            *kind = LoopKind::Parallel;
        }
    }
    routine.body = body;
}

/// Whether a statement is a serial loop whose iterations several threads may run.
fn is_independent(stmt: &Stmt, ranges: &VariableRanges) -> bool {
    let Stmt::For { var, lo: 0, hi, kind: LoopKind::Serial, body } = stmt else { return false };
    kernel::is_divisible(0, hi) && hi.limit >= 2 && dependence::independent(*var, body, ranges)
}

/// Whether a loop that ends at a symbol consists of a loop that can have more iterations, and both of them
/// are independent. The innermost loop of a nest stays innermost.
fn may_exchange(stmt: &Stmt, ranges: &VariableRanges) -> bool {
    let Stmt::For { var, hi, body, .. } = stmt else { return false };
    let [inner @ Stmt::For { hi: inner_hi, body: inner_body, .. }] = &body[..] else { return false };
    !hi.is_constant()
        && inner_hi.limit > hi.limit
        && !inner_hi.mentions(*var)
        && inner_body.iter().any(|stmt| matches!(stmt, Stmt::For { .. }))
        && is_independent(stmt, ranges)
        && is_independent(inner, ranges)
}

/// Exchanges a loop with the loop that is its body.
fn exchange(outer: &mut Stmt) {
    let Stmt::For { var, lo, hi, kind, body } = outer else { return };
    let [Stmt::For { var: inner_var, lo: inner_lo, hi: inner_hi, kind: inner_kind, .. }] = &mut body[..]
    else {
        return;
    };
    std::mem::swap(var, inner_var);
    std::mem::swap(lo, inner_lo);
    std::mem::swap(hi, inner_hi);
    std::mem::swap(kind, inner_kind);
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

    /// The loops of a nest over sizes after the pass, outermost first.
    fn loops_over_sizes(rows: &str, body: &str) -> String {
        let source = format!(
            "routine @r fast {{
               symbol @b in 1..9
               symbol @n in 1..513
               node %0 \"x\" f32[8, 512, 1024] on_device
               node %1 \"y\" f32[8, 512, 1024] on_device
               for i0 in 0..min(8, @b) {{ for i1 in 0..{rows} {{ {body} }} }}
             }}"
        );
        let mut routine = parse(&source).unwrap();
        let caps = Caps { threads: 2, ..Interpreted::new().caps().clone() };
        parallelize(&mut routine, &caps, &ScheduleOptions::default());
        let printed = lowered_ir::text::print(&routine);
        let loops = printed.lines().filter_map(|line| line.trim().strip_prefix("for "));
        loops.map(|line| line.trim_end_matches(" {")).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn the_longer_of_two_loops_over_sizes_is_parallel() {
        let row = "for i2 in 0..1024 { %1[i0, i1, i2] := sqrt(%0[i0, i1, i2]) }";
        assert_eq!(
            loops_over_sizes("min(512, @n)", row),
            "i1 in 0..min(512, @n) parallel; i0 in 0..min(8, @b); i2 in 0..1024"
        );
        let depends = "i0 in 0..min(8, @b) parallel; i1 in 0..min(512, i0 + 1); i2 in 0..1024";
        assert_eq!(loops_over_sizes("min(512, i0 + 1)", row), depends, "the inner end needs the outer loop");
        let innermost = "%1[i0, i1, 0] := sqrt(sqrt(sin(cos(sin(cos(sin(cos(sin(%0[i0, i1, 0])))))))))";
        assert!(loops_over_sizes("min(512, @n)", innermost).starts_with("i0 in 0..min(8, @b)"));
        let sum = "for i2 in 0..1024 { %1[0, i1, i2] := %1[0, i1, i2] + %0[i0, i1, i2] }";
        assert!(loops_over_sizes("min(512, @n)", sum).starts_with("i0 in 0..min(8, @b);"), "i0 adds");
    }

    #[test]
    fn sines_are_worth_threads_sooner_than_square_roots() {
        for function in ["sin", "cos"] {
            assert!(is_parallel(function, 8_192), "two grains, because the argument is reduced");
            assert!(!is_parallel(function, 4_096), "{function}");
        }
        assert!(!is_parallel("sqrt", 65_536));
        assert!(is_parallel("sqrt", 1 << 18));
    }
}
