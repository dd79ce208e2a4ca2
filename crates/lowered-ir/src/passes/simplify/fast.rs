//! Equations of the class `Fast`: the right side is at least as exact as the left, but its bits may differ.

use crate::ir::{BinaryOp, Expr};

use super::Ctx;
use super::constant::is;
use super::strict::is_part;

/// Powers with small constant exponents, whose general case goes through logarithms.
pub(super) fn pow(expr: &Expr, ctx: &Ctx<'_>) -> Option<Expr> {
    let Expr::Binary { op: BinaryOp::Pow, a, b } = expr else { return None };
    match () {
        () if !ctx.dtype(a).is_float() => None,
        // pow(x, 1) = x
        () if is(b, 1) => Some((**a).clone()),
        // pow(x, 2) = x * x, where x is one part
        () if is(b, 2) && is_part(a) => Some(Expr::binary(BinaryOp::Mul, (**a).clone(), (**a).clone())),
        () => None,
    }
}
