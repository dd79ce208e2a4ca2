//! What is done to weights: exponentials relative to a greatest score, and the division by their total.

use lowered_ir::ir::{BinaryOp, Expr, LocalId, TernaryOp, UnaryOp, walk};
use tnode::DType;

/// The factor between weights relative to the greatest scores `greatest` and `next`: where the weight is
/// `exp((x - next) · c)`, masked and rounded or not, `exp((greatest - next) · c)`.
pub(super) fn rescaling(weight: &Expr, next: LocalId, greatest: LocalId) -> Option<Expr> {
    let mentions = |e: &Expr| walk::parts(e).filter(|part| **part == Expr::local(next)).count();
    match weight {
        Expr::Convert { arg, .. } => rescaling(arg, next, greatest),
        Expr::Ternary { op: TernaryOp::Where, a, b, c } => {
            let is_zero = matches!(&**c, Expr::Const(zero) if zero.as_f64() == 0.0);
            if mentions(a) == 0 && is_zero { rescaling(b, next, greatest) } else { None }
        }
        Expr::Unary { op: UnaryOp::Exp, arg } => {
            let difference = |e: &Expr| match e {
                Expr::Binary { op: BinaryOp::Sub, a, b } if **b == Expr::local(next) && mentions(a) == 0 => {
                    let a = Expr::local(greatest);
                    Some(Expr::binary(BinaryOp::Sub, a, Expr::local(next)))
                }
                _ => None,
            };
            let scaled = match &**arg {
                Expr::Binary { op: BinaryOp::Mul, a, b } => match (&**a, &**b) {
                    (Expr::Const(_), x) => Expr::binary(BinaryOp::Mul, (**a).clone(), difference(x)?),
                    (x, Expr::Const(_)) => Expr::binary(BinaryOp::Mul, difference(x)?, (**b).clone()),
                    _ => return None,
                },
                arg => difference(arg)?,
            };
            Some(Expr::unary(UnaryOp::Exp, scaled))
        }
        _ => None,
    }
}

/// The factor of the values without the division by the total, and whether there was one.
pub(super) fn without_division(factor: &Expr, weight: &Expr, weights: LocalId) -> Option<(Expr, bool)> {
    let wide =
        |e: &Expr| *e == *weight || matches!(e, Expr::Convert { to: DType::F32, arg } if **arg == *weight);
    match factor {
        Expr::Convert { to, arg } if !wide(factor) => {
            let (inner, is_divided) = without_division(arg, weight, weights)?;
            Some((Expr::convert(*to, inner), is_divided))
        }
        Expr::Binary { op: BinaryOp::Div, a, b } if wide(a) && **b == Expr::local(weights) => {
            Some(((**a).clone(), true))
        }
        factor => wide(factor).then(|| (factor.clone(), false)),
    }
}
