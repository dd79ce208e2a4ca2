//! Values that are indices.

use crate::number::Number;
use crate::tree::{ResolvedExpr, ResolvedExprKind};
use lowered_ir::ir::{Affine, BinaryOp, UnaryOp};

/// The index form of a sum of integer multiples of letters and symbols; `None` for other expressions.
pub(super) fn as_index(tree: &ResolvedExpr) -> Option<Affine> {
    let constant = |tree: &ResolvedExpr| match tree.kind {
        ResolvedExprKind::Number(Number { int: Some(int), .. }) => i64::try_from(int).ok(),
        _ => None,
    };
    match &tree.kind {
        ResolvedExprKind::Number(_) => constant(tree).map(Affine::constant),
        ResolvedExprKind::Index(index) => Some(index.clone()),
        ResolvedExprKind::Unary(UnaryOp::Neg, a) => scaled(&as_index(a)?, -1),
        ResolvedExprKind::Binary(op, args) => {
            let [a, b] = args.as_ref();
            match op {
                BinaryOp::Add => sum(&as_index(a)?, &as_index(b)?),
                BinaryOp::Sub => sum(&as_index(a)?, &scaled(&as_index(b)?, -1)?),
                BinaryOp::Mul => match (constant(a), constant(b)) {
                    (Some(factor), _) => scaled(&as_index(b)?, factor),
                    (_, Some(factor)) => scaled(&as_index(a)?, factor),
                    _ => None,
                },
                _ => None,
            }
        }
        _ => None,
    }
}

/// `factor · index`; `None` if a coefficient overflows.
fn scaled(index: &Affine, factor: i64) -> Option<Affine> {
    let fits = |c: i64| c.checked_mul(factor).is_some();
    let all = fits(index.offset()) && index.terms().iter().all(|&(_, c)| fits(c));
    all.then(|| index.times(factor))
}

/// `a + b`; `None` if a coefficient overflows.
fn sum(a: &Affine, b: &Affine) -> Option<Affine> {
    let fits = |x: i64, y: i64| x.checked_add(y).is_some();
    let terms = b.terms().iter().all(|&(var, c)| fits(a.coefficient(var), c));
    (terms && fits(a.offset(), b.offset())).then(|| a.plus(b))
}
