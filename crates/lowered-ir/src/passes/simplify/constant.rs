//! Constant folding: an operation on constants is its result, by the same definitions that the interpreter runs.

use tnode::Scalar;

use crate::eval;
use crate::ir::Expr;

use super::Ctx;

/// `op(c…) = the result`, for every operation; `index c = c`.
pub(super) fn fold(expr: &Expr, _: &Ctx<'_>) -> Option<Expr> {
    let folded = match expr {
        Expr::Unary { op, arg } => eval::unary(*op, literal(arg)?),
        Expr::Binary { op, a, b } => eval::binary(*op, literal(a)?, literal(b)?),
        Expr::Ternary { op, a, b, c } => eval::ternary(*op, literal(a)?, literal(b)?, literal(c)?),
        Expr::Convert { to, arg } => literal(arg)?.convert(*to),
        Expr::Bitcast { to, arg } => eval::bitcast(*to, literal(arg)?),
        Expr::Index { index, dtype } => Scalar::from_i64(*dtype, index.as_constant()?),
        _ => return None,
    };
    Some(Expr::Const(folded))
}

/// The value of a constant expression.
pub(super) fn literal(expr: &Expr) -> Option<Scalar> {
    match expr {
        Expr::Const(scalar) => Some(*scalar),
        _ => None,
    }
}

/// Whether the expression is the constant `value`, and for floats not its negative zero.
pub(super) fn is(expr: &Expr, value: i64) -> bool {
    literal(expr).is_some_and(|c| c == Scalar::from_i64(c.dtype(), value))
}

/// Whether the expression is the float −0.
pub(super) fn is_negative_zero(expr: &Expr) -> bool {
    literal(expr).is_some_and(|c| c.dtype().is_float() && c.bits() == 1 << (8 * c.dtype().size_bytes() - 1))
}
