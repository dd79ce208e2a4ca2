//! Equations about indices whose conditions follow from the ranges of loop variables and symbols.

use tnode::{DType, Scalar};

use crate::ir::{Affine, BinaryOp, Expr, Guard, UnaryOp};

use super::SimplifyContext;
use super::equation::{Equation, EquationClass};

pub(super) const EQUATIONS: &[Equation] = &[
    Equation::code(
        "index arithmetic",
        (
            "index T(i) + index T(j), and so i - j, i + c, i * c, neg(i)",
            "index T(i + j)",
            "by the ranges of its variables the right side is a value of T",
        ),
        EquationClass::Strict,
        arithmetic,
    ),
    Equation::code(
        "converted index",
        ("convert U(index T(i))", "index U(i)", "U is i32 or i64, and by its range i is a value of U"),
        EquationClass::Strict,
        converted,
    ),
    Equation::code(
        "decided comparison",
        (
            "index T(i) < index U(j), and so <= == !=, and with a constant for one side",
            "true or false",
            "the range of i − j lies on one side",
        ),
        EquationClass::Strict,
        compare,
    ),
    Equation::code(
        "decided guard",
        (
            "guarded(lo <= i < hi, %0[…], e)",
            "the read without that range, or e",
            "by the range of i the range always, or never, holds",
        ),
        EquationClass::Strict,
        guarded,
    ),
];

fn arithmetic(expr: &Expr, ctx: &SimplifyContext<'_>) -> Option<Expr> {
    let (dtype, index) = match expr {
        Expr::Unary { op: UnaryOp::Neg, arg } => {
            let (dtype, i) = embedded(arg)?;
            (dtype, i.times(-1))
        }
        Expr::Binary { op: BinaryOp::Add, a, b } => {
            let (dtype, i) = embedded(a)?;
            (dtype, i.plus(&operand(b, ctx)?))
        }
        Expr::Binary { op: BinaryOp::Sub, a, b } => {
            let dtype = embedded(a).or_else(|| embedded(b))?.0;
            (dtype, operand(a, ctx)?.plus(&operand(b, ctx)?.times(-1)))
        }
        Expr::Binary { op: BinaryOp::Mul, a, b } => {
            let (dtype, i) = embedded(a)?;
            (dtype, i.times(small_constant(b)?))
        }
        _ => return None,
    };
    embed(index, dtype, ctx)
}

fn converted(expr: &Expr, ctx: &SimplifyContext<'_>) -> Option<Expr> {
    let Expr::Convert { to: to @ (DType::I32 | DType::I64), arg } = expr else { return None };
    embed(embedded(arg)?.1.clone(), *to, ctx)
}

/// The index as a value of the type, if its range proves that the type can represent it and that its
/// arithmetic does not wrap.
fn embed(index: Affine, dtype: DType, ctx: &SimplifyContext<'_>) -> Option<Expr> {
    let (lo, hi) = ctx.ranges.bounds(&index).filter(|(lo, hi)| lo <= hi)?;
    let most = if dtype == DType::I32 { i64::from(i32::MAX) } else { 1 << 62 };
    (-most <= lo && hi <= most && is_small(&index)).then_some(Expr::Index { index, dtype })
}

/// Whether sums and small multiples of the index do not wrap on the way.
fn is_small(index: &Affine) -> bool {
    index.terms().iter().map(|&(_, c)| c).chain([index.offset()]).all(|c| c.unsigned_abs() < 1 << 40)
}

fn embedded(expr: &Expr) -> Option<(DType, &Affine)> {
    match expr {
        Expr::Index { index, dtype } if is_small(index) => Some((*dtype, index)),
        _ => None,
    }
}

/// An embedded index or a small constant as an index.
fn operand(expr: &Expr, _: &SimplifyContext<'_>) -> Option<Affine> {
    match expr {
        Expr::Index { .. } => embedded(expr).map(|(_, index)| index.clone()),
        _ => small_constant(expr).map(Affine::constant),
    }
}

fn small_constant(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Const(c) if matches!(c.dtype(), DType::I32 | DType::I64) => {
            Some(c.as_i64()).filter(|c| c.unsigned_abs() < 1 << 20)
        }
        _ => None,
    }
}

fn compare(expr: &Expr, ctx: &SimplifyContext<'_>) -> Option<Expr> {
    let Expr::Binary { op, a, b } = expr else { return None };
    if !op.is_comparison() {
        return None;
    }
    let holds = match apart(a, b, ctx) {
        Some((lo, hi)) => decided(*op, lo, hi),
        None => None,
    };
    let holds = holds.or_else(|| {
        let ((a_lo, a_hi), (b_lo, b_hi)) = (bounds(a, ctx)?, bounds(b, ctx)?);
        decided(*op, a_lo.checked_sub(b_hi)?, a_hi.checked_sub(b_lo)?)
    })?;
    Some(Expr::Const(Scalar::new(DType::Bool, u128::from(holds))))
}

/// The bounds of the difference of two indices.
fn apart(a: &Expr, b: &Expr, ctx: &SimplifyContext<'_>) -> Option<(i64, i64)> {
    let ((_, i), (_, j)) = (embedded(a)?, embedded(b)?);
    let loops_run = |index: &Affine| ctx.ranges.bounds(index).is_some_and(|(lo, hi)| lo <= hi);
    let difference = i.plus(&j.times(-1));
    (loops_run(i) && loops_run(j)).then(|| ctx.ranges.bounds(&difference))?
}

/// The result of a comparison of a difference within `lo..=hi` with 0, if it is always the same.
fn decided(op: BinaryOp, lo: i64, hi: i64) -> Option<bool> {
    let (always, never) = match op {
        BinaryOp::Lt => (hi < 0, lo >= 0),
        BinaryOp::Le => (hi <= 0, lo > 0),
        BinaryOp::Eq => (lo == 0 && hi == 0, lo > 0 || hi < 0),
        _ => (lo > 0 || hi < 0, lo == 0 && hi == 0),
    };
    (always || never).then_some(always)
}

/// The bounds of an embedded index or of an integer constant.
fn bounds(expr: &Expr, ctx: &SimplifyContext<'_>) -> Option<(i64, i64)> {
    match expr {
        Expr::Index { index, .. } => ctx.ranges.bounds(index).filter(|(lo, hi)| lo <= hi),
        Expr::Const(c) if matches!(c.dtype(), DType::I32 | DType::I64) => Some((c.as_i64(), c.as_i64())),
        _ => None,
    }
}

/// A guarded read without the ranges that always hold; its `otherwise` value if some range never holds.
fn guarded(expr: &Expr, ctx: &SimplifyContext<'_>) -> Option<Expr> {
    let Expr::GetGuarded { guard, node, index, otherwise } = expr else { return None };
    let mut open = Guard::new();
    for range in guard {
        // The axes of a node without elements.
        if range.hi <= range.lo {
            return Some((**otherwise).clone());
        }
        match ctx.ranges.bounds(&range.index) {
            Some((lo, hi)) if lo <= hi && range.lo <= lo && hi < range.hi => {}
            Some((lo, hi)) if lo <= hi && (hi < range.lo || range.hi <= lo) => {
                return Some((**otherwise).clone());
            }
            _ => open.push(range.clone()),
        }
    }
    match open.is_empty() {
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
