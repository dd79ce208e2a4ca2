//! Accumulating operations, and the element types in which operations compute.

use std::fmt;

use tnode::{DType, Scalar};

use lowered_ir::ir::{BinaryOp, Expr, TernaryOp, UnaryOp};

/// An operation that combines a new value with the element's old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccumOp {
    /// The new value replaces the old one.
    Assign,
    /// `old + new`
    Add,
    /// `old - new`
    Sub,
    /// `old * new`
    Mul,
    /// `old / new`
    Div,
    /// `old` to the power of `new`
    Pow,
    /// `max(new, old)`
    Max,
    /// `min(new, old)`
    Min,
    /// `new` where `old > 0`, else 0
    ReluGate,
    /// `new` where `0 < old < 1`, else 0
    Satur01Gate,
    /// 1 if either is not 0, else 0
    Or,
    /// 1 if both are not 0, else 0
    And,
}

impl AccumOp {
    /// Every operation, in declaration order.
    pub const ALL: [AccumOp; 12] = {
        use AccumOp::{Add, And, Assign, Div, Max, Min, Mul, Or, Pow, ReluGate, Satur01Gate, Sub};
        [Assign, Add, Sub, Mul, Div, Pow, Max, Min, ReluGate, Satur01Gate, Or, And]
    };

    /// The binary operation of the loop IR; `None` for assignment.
    pub fn binary(self) -> Option<BinaryOp> {
        Some(match self {
            AccumOp::Assign => return None,
            AccumOp::Add => BinaryOp::Add,
            AccumOp::Sub => BinaryOp::Sub,
            AccumOp::Mul => BinaryOp::Mul,
            AccumOp::Div => BinaryOp::Div,
            AccumOp::Pow => BinaryOp::Pow,
            AccumOp::Max => BinaryOp::Max,
            AccumOp::Min => BinaryOp::Min,
            AccumOp::ReluGate => BinaryOp::ReluGate,
            AccumOp::Satur01Gate => BinaryOp::Satur01Gate,
            AccumOp::Or => BinaryOp::Or,
            AccumOp::And => BinaryOp::And,
        })
    }

    /// The token before the `=` in assignment text; empty for assignment.
    pub fn token(self) -> &'static str {
        self.binary().map_or("", BinaryOp::token)
    }

    /// The initial value: the neutral element, as far as the operation has one.
    ///
    /// For types without infinities, `max` and `min` start from the extreme values.
    pub fn neutral(self, dtype: DType) -> Scalar {
        let start = match self {
            AccumOp::Assign | AccumOp::Add | AccumOp::Sub | AccumOp::Or => 0.0,
            AccumOp::Mul | AccumOp::Div | AccumOp::Pow | AccumOp::ReluGate | AccumOp::And => 1.0,
            AccumOp::Satur01Gate => 0.5,
            AccumOp::Max => return extreme(dtype, -1.0),
            AccumOp::Min => return extreme(dtype, 1.0),
        };
        Scalar::from_f64(dtype, start)
    }

    /// `old ⊕ new`, both of the same type.
    pub fn apply(self, old: Expr, new: Expr) -> Expr {
        match self.binary() {
            None => new,
            Some(op) if op.takes_new_first() => Expr::binary(op, new, old),
            Some(op) => Expr::binary(op, old, new),
        }
    }

    /// `neutral ⊕ new`, simplified: the value to store if the element accumulates one value only.
    pub fn apply_to_neutral(self, dtype: DType, new: Expr) -> Expr {
        use AccumOp::{Add, And, Assign, Div, Max, Min, Mul, Or, Pow, ReluGate, Satur01Gate, Sub};
        match self {
            Assign | Add | Mul | Max | Min | ReluGate => new,
            Satur01Gate if dtype.is_float() => new,
            Sub => Expr::unary(UnaryOp::Neg, new),
            Div => Expr::unary(UnaryOp::Recip, new),
            Or | And | Pow | Satur01Gate => self.apply(Expr::Const(self.neutral(dtype)), new),
        }
    }
}

impl fmt::Display for AccumOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=", self.token())
    }
}

/// The lowest (`sign < 0`) or highest value of a type, infinite if it has infinities.
fn extreme(dtype: DType, sign: f64) -> Scalar {
    match dtype {
        DType::Bool => Scalar::from_f64(dtype, sign.max(0.0)),
        DType::Fp8E4m3fn => Scalar::from_f64(dtype, 448.0 * sign),
        _ => Scalar::from_f64(dtype, f64::INFINITY * sign),
    }
}

/// The type in which a unary operation computes.
pub fn unary_dtype(op: UnaryOp, operand: DType) -> DType {
    match op {
        _ if op.is_float_function() && !operand.is_float() => DType::F32,
        UnaryOp::Neg | UnaryOp::Abs if operand == DType::Bool => DType::I32,
        _ => operand,
    }
}

/// The type in which a binary operation computes; comparisons then give `bool`.
///
/// This is the promotion of both operands, with two exceptions: arithmetic on two booleans computes in `i32`,
/// and generators of random bits convert key and counter to `u32x4`.
pub fn binary_dtype(op: BinaryOp, a: DType, b: DType) -> DType {
    if op.is_random() {
        return DType::U32x4;
    }
    let promoted = a.promote(b);
    let logical = op.is_comparison() || op.is_bitwise() || matches!(op, BinaryOp::And | BinaryOp::Or);
    if promoted == DType::Bool && !logical { DType::I32 } else { promoted }
}

/// The type in which a ternary operation computes. The condition of `where` is always `bool`.
pub fn ternary_dtype(op: TernaryOp, a: DType, b: DType, c: DType) -> DType {
    match op {
        TernaryOp::Where => b.promote(c),
        TernaryOp::Fma => binary_dtype(BinaryOp::Add, binary_dtype(BinaryOp::Mul, a, b), c),
        TernaryOp::Mul3 => binary_dtype(BinaryOp::Mul, binary_dtype(BinaryOp::Mul, a, b), c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neutral_elements() {
        let f32_of = |op: AccumOp| op.neutral(DType::F32).as_f32();
        let expected = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, f32::NEG_INFINITY, f32::INFINITY, 1.0, 0.5, 0.0, 1.0];
        assert_eq!(AccumOp::ALL.map(f32_of), expected);
        assert_eq!(AccumOp::Max.neutral(DType::I32).as_i64(), i64::from(i32::MIN));
        assert_eq!(AccumOp::Min.neutral(DType::U8).as_i64(), 255);
        assert_eq!(AccumOp::Max.neutral(DType::Bool).as_i64(), 0);
        assert_eq!(AccumOp::Max.neutral(DType::Fp8E4m3fn).as_f64(), -448.0);
        assert_eq!(AccumOp::Max.neutral(DType::Fp8E5m2).as_f64(), f64::NEG_INFINITY);
    }
}
