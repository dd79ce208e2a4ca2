//! Equations about indices whose loops' ranges decide them.

use tnode::{DType, Scalar};

use crate::ir::{BinaryOp, Expr, Guard};

use super::Ctx;
use super::constant::literal;

/// Comparisons and guards that the ranges of the variables decide.
pub(super) fn known(expr: &Expr, ctx: &Ctx<'_>) -> Option<Expr> {
    match expr {
        Expr::Binary { op, a, b } if op.is_comparison() => compare(*op, a, b, ctx),
        Expr::GetGuarded { guard, .. } => guarded(expr, guard, ctx),
        _ => None,
    }
}

/// `a < b` and the like hold, or do not, where the bounds of both sides are far enough apart.
fn compare(op: BinaryOp, a: &Expr, b: &Expr, ctx: &Ctx<'_>) -> Option<Expr> {
    let ((a_lo, a_hi), (b_lo, b_hi)) = (bounds(a, ctx)?, bounds(b, ctx)?);
    let holds = match op {
        BinaryOp::Lt => decide(a_hi < b_lo, a_lo >= b_hi),
        BinaryOp::Le => decide(a_hi <= b_lo, a_lo > b_hi),
        BinaryOp::Eq => decide(false, a_hi < b_lo || b_hi < a_lo),
        _ => decide(a_hi < b_lo || b_hi < a_lo, false),
    }?;
    Some(Expr::Const(Scalar::new(DType::Bool, u128::from(holds))))
}

fn decide(always: bool, never: bool) -> Option<bool> {
    (always || never).then_some(always)
}

/// The bounds of an embedded index or of an integer constant; nothing for a comparison of two constants, which folds.
fn bounds(expr: &Expr, ctx: &Ctx<'_>) -> Option<(i64, i64)> {
    match expr {
        Expr::Index { index, .. } => ctx.ranges.bounds(index).filter(|(lo, hi)| lo <= hi),
        _ => {
            let c = literal(expr).filter(|c| matches!(c.dtype(), DType::I32 | DType::I64))?;
            Some((c.as_i64(), c.as_i64()))
        }
    }
}

/// A guarded read without the ranges that always hold; `otherwise` where one never does.
fn guarded(expr: &Expr, guard: &Guard, ctx: &Ctx<'_>) -> Option<Expr> {
    let Expr::GetGuarded { node, index, otherwise, .. } = expr else { return None };
    let mut open = Guard::new();
    for range in guard {
        match ctx.ranges.bounds(&range.index) {
            Some((lo, hi)) if lo <= hi && range.lo <= lo && hi < range.hi => {}
            Some((lo, hi)) if lo <= hi && (hi < range.lo || range.hi <= lo) => {
                return Some((**otherwise).clone());
            }
            _ => open.push(range.clone()),
        }
    }
    match open.is_empty() {
        // guarded(true, x, e) = x
        true => Some(Expr::Get { node: *node, index: index.clone() }),
        false if open.len() < guard.len() => Some(Expr::GetGuarded {
            guard: open,
            node: *node,
            index: index.clone(),
            otherwise: otherwise.clone(),
        }),
        false => None,
    }
}
