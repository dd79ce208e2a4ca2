//! Accumulating operations: how partial results combine, and the operands of multiply-add.

use lowered_ir::ir::{BinaryOp, Expr, TernaryOp};
use tnode::{DType, Scalar};

/// `acc op element`; `max` and `min` take the element first, as `max=` and `min=` do.
pub(crate) fn combined(op: BinaryOp, acc: Expr, element: Expr) -> Expr {
    match op {
        BinaryOp::Max | BinaryOp::Min => Expr::binary(op, element, acc),
        _ => Expr::binary(op, acc, element),
    }
}

/// The neutral element: `op(neutral, x) = x` for every `x`. None if the type has no such value.
pub(crate) fn neutral(op: BinaryOp, dtype: DType) -> Option<Scalar> {
    let bits = 8 * dtype.size_bytes() as u32;
    let ones = if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
    match (op, dtype) {
        (_, DType::Bool | DType::U32x4) => None,
        (BinaryOp::Add, _) => Some(Scalar::zero(dtype)),
        (BinaryOp::Mul, _) => Some(Scalar::one(dtype)),
        (BinaryOp::Max | BinaryOp::Min, DType::Fp8E4m3fn) => None,
        (BinaryOp::Max, _) if dtype.is_float() => Some(Scalar::from_f64(dtype, f64::NEG_INFINITY)),
        (BinaryOp::Min, _) if dtype.is_float() => Some(Scalar::from_f64(dtype, f64::INFINITY)),
        (BinaryOp::Max, _) if dtype.is_signed() => Some(Scalar::new(dtype, 1 << (bits - 1))),
        (BinaryOp::Min, _) if dtype.is_signed() => Some(Scalar::new(dtype, ones >> 1)),
        (BinaryOp::Max, _) => Some(Scalar::zero(dtype)),
        (BinaryOp::Min, _) => Some(Scalar::new(dtype, ones)),
        _ => None,
    }
}

/// The neutral element; `None` if it is 0, because a declared local holds 0 anyway.
pub(crate) fn nonzero_neutral(op: BinaryOp, dtype: DType) -> Option<Expr> {
    neutral(op, dtype).filter(|start| *start != Scalar::zero(dtype)).map(Expr::Const)
}

/// The operands `a`, `b`, `c` of `fma(a, b, c)` or of `c + a * b`, and whether it is an fma.
pub(crate) fn multiply_add(value: &Expr) -> Option<(&Expr, &Expr, &Expr, bool)> {
    match value {
        Expr::Ternary { op: TernaryOp::Fma, a, b, c } => Some((a, b, c, true)),
        Expr::Binary { op: BinaryOp::Add, a: c, b: product } => match &**product {
            Expr::Binary { op: BinaryOp::Mul, a, b } => Some((a, b, c, false)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neutral_elements_are_neutral() {
        for dtype in [DType::F32, DType::F64, DType::I8, DType::U8, DType::I64] {
            for op in [BinaryOp::Add, BinaryOp::Mul, BinaryOp::Max, BinaryOp::Min] {
                let start = neutral(op, dtype).unwrap();
                for x in [-3.0, 0.0, 1.0, 100.0, f64::NAN] {
                    let x = Scalar::from_f64(dtype, x);
                    assert_eq!(lowered_ir::eval::binary(op, x, start).bits(), x.bits(), "{op} {dtype:?}");
                }
            }
        }
    }
}
