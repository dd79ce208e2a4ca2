//! Operations on `bool`, by their truth tables: two operands have four combinations of values.

use lowered_ir::eval;
use lowered_ir::ir::{BinaryOp, Expr, UnaryOp};
use tnode::{DType, Scalar};

use super::legalizer::Legalizer;

pub(crate) fn unary(op: UnaryOp, x: Expr) -> Expr {
    let [at_false, at_true] = [false, true].map(|x| eval::unary(op, scalar(x)).as_bool());
    by_case(x, at_false, at_true)
}

impl Legalizer<'_> {
    /// `a op b`, comparisons included.
    pub(crate) fn boolean_binary(&mut self, op: BinaryOp, a: Expr, b: Expr) -> Expr {
        let at = |a: bool, b: bool| eval::binary(op, scalar(a), scalar(b)).as_bool();
        match [at(false, false), at(false, true), at(true, false), at(true, true)] {
            [false, false, false, true] => Expr::binary(BinaryOp::BitAnd, a, b),
            [false, true, true, true] => Expr::binary(BinaryOp::BitOr, a, b),
            [false, true, true, false] => Expr::binary(BinaryOp::BitXor, a, b),
            [f, t, ff, tt] if f == ff && t == tt => by_case(b, f, t),
            [f, ff, t, tt] if f == ff && t == tt => by_case(a, f, t),
            [at_ff, at_ft, at_tf, at_tt] => {
                let b = self.shared(b, DType::Bool);
                Expr::select(a, by_case(b.clone(), at_tf, at_tt), by_case(b, at_ff, at_ft))
            }
        }
    }
}

/// The function of one truth value with these two results.
fn by_case(x: Expr, at_false: bool, at_true: bool) -> Expr {
    match (at_false, at_true) {
        (false, true) => x,
        (true, false) => Expr::binary(BinaryOp::Eq, x, Expr::Const(scalar(false))),
        (same, _) => Expr::Const(scalar(same)),
    }
}

fn scalar(truth: bool) -> Scalar {
    Scalar::new(DType::Bool, u128::from(truth))
}
