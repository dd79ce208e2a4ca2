//! Unrolls innermost loops that read memory.
//!
//! `for i in lo..lo + u n { body(i) } = for o in 0..n { for k in 0..u unrolled { body(u o + k + lo) } }`.
//! Assemblers unroll such loops as well, but compute the 64-bit address anew in each copy, because its 32-bit
//! index might wrap. Here the addresses of one iteration share a sum and differ by constants.

use codegen_core::ir::{Affine, Expr, Fresh, Indices, LoopId, LoopKind, LoweredRoutine, Stmt, walk};

/// The largest unroll factor.
const TIMES: i64 = 8;
/// The largest number of values in an unrolled body, roughly.
const VALUES: usize = 512;

/// The routine with its innermost loops unrolled.
pub(crate) fn unrolled(routine: &LoweredRoutine) -> LoweredRoutine {
    let (mut routine, mut fresh) = (routine.clone(), routine.fresh());
    routine.body.iter_mut().for_each(|stmt| unroll(stmt, &mut fresh));
    routine
}

fn unroll(stmt: &mut Stmt, fresh: &mut Fresh) {
    let Stmt::For { var, lo, hi, kind, body } = stmt else { return };
    body.iter_mut().for_each(|stmt| unroll(stmt, fresh));
    if *kind != LoopKind::Serial || !hi.is_constant() || !is_innermost(body) || !reads_along(body, *var) {
        return;
    }
    let (extent, each) = (hi.limit.saturating_sub(*lo), values(body));
    let fits = |times: &i64| extent % times == 0 && each.saturating_mul(*times as usize) <= VALUES;
    let Some(times) = (2..=TIMES).rev().find(fits).filter(|_| extent > 0) else { return };
    if times == extent {
        *kind = LoopKind::Unrolled;
        return;
    }
    let (outer, inner) = (fresh.loop_id(), fresh.loop_id());
    let mut index = Affine::term(outer, times).plus_constant(*lo);
    index.add_term(inner.into(), 1);
    let mut body = std::mem::take(body);
    walk::substitute(&mut body, *var, &index);
    let body = vec![Stmt::looped(inner, times, LoopKind::Unrolled, body)];
    *stmt = Stmt::serial(outer, extent / times, body);
}

/// Whether all loops in a block are unrolled.
fn is_innermost(block: &[Stmt]) -> bool {
    let is_kept = |kind: &LoopKind| !matches!(kind, LoopKind::Unrolled | LoopKind::Vector);
    !walk::stmts(block).any(|stmt| matches!(stmt, Stmt::For { kind, .. } if is_kept(kind)))
}

/// Whether the block reads an element of a node whose index mentions the variable.
fn reads_along(block: &[Stmt], var: LoopId) -> bool {
    let along = |index: &Indices| index.iter().any(|i| i.mentions(var));
    walk::parts_in(block).any(|e| matches!(e, Expr::Get { index, .. } if along(index)))
}

/// Rough number of values that a block computes.
fn values(block: &[Stmt]) -> usize {
    let of = |stmt: &Stmt| {
        let mut own = 1usize;
        for value in stmt.values() {
            walk::parts(value).for_each(|_| own += 1);
        }
        match stmt {
            Stmt::For { lo, hi, body, .. } => {
                let times = hi.limit.saturating_sub(*lo).max(0) as usize;
                own.saturating_add(values(body).saturating_mul(times))
            }
            _ => own,
        }
    };
    block.iter().map(of).fold(0, usize::saturating_add)
}
