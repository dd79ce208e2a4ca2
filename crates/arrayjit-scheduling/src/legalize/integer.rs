//! Operations on integers that are not legal (see [`legalize`](super)), and narrow integers on targets that
//! compute with wide ones only.

use lowered_ir::ir::{BinaryOp, Expr, UnaryOp};
use tnode::{DType, Scalar};

use super::error::Result;
use super::legalizer::{Legalizer, constant};

impl Legalizer<'_> {
    pub(crate) fn integer_unary(&mut self, op: UnaryOp, dtype: DType, x: Expr) -> Result<Expr> {
        use UnaryOp::*;
        let wide = self.computes_as(dtype, &op)?;
        let [zero, one] = [0, 1].map(|k| constant(wide, k));
        let result = match op {
            Trunc | Floor | RoundEven => return Ok(x),
            Abs | Relu if !dtype.is_signed() => return Ok(x),
            Exp | Exp2 | Expm1 | Log | Log1p | Log2 | Sin | Cos | Tanh | Sigmoid | Atan | Erf | Erfc
            | Sqrt | RecipSqrt => {
                return self.through_f64(op, dtype, x);
            }
            Neg | Abs => Expr::unary(op, cast(dtype, wide, x)),
            Not => Expr::select(Expr::binary(BinaryOp::Eq, cast(dtype, wide, x), zero.clone()), one, zero),
            Relu => Expr::binary(BinaryOp::Max, cast(dtype, wide, x), zero),
            Satur01 => {
                Expr::binary(BinaryOp::Min, Expr::binary(BinaryOp::Max, cast(dtype, wide, x), zero), one)
            }
            Recip => self.integer_recip(wide, cast(dtype, wide, x)),
        };
        Ok(cast(wide, dtype, result))
    }

    /// `1 / x`: `x` itself for 1 and −1, else 0.
    fn integer_recip(&mut self, dtype: DType, x: Expr) -> Expr {
        let x = self.shared(x, dtype);
        let equals = |k: i64| Expr::binary(BinaryOp::Eq, x.clone(), constant(dtype, k));
        let own_inverse = match dtype.is_signed() {
            true => Expr::binary(BinaryOp::BitOr, equals(1), equals(-1)),
            false => equals(1),
        };
        Expr::select(own_inverse, x.clone(), constant(dtype, 0))
    }

    fn through_f64(&mut self, op: UnaryOp, dtype: DType, x: Expr) -> Result<Expr> {
        self.require(DType::F64, op, dtype)?;
        let x = self.convert(dtype, DType::F64, x)?;
        let result = self.float_unary(op, DType::F64, x)?;
        self.convert(DType::F64, dtype, result)
    }

    pub(crate) fn integer_binary(&mut self, op: BinaryOp, dtype: DType, a: Expr, b: Expr) -> Result<Expr> {
        use BinaryOp::*;
        let wide = self.computes_as(dtype, &op)?;
        let (a, b) = (cast(dtype, wide, a), cast(dtype, wide, b));
        let result = match op {
            Add | Sub | Mul | Max | Min | BitAnd | BitOr | BitXor => Expr::binary(op, a, b),
            Lt | Le | Eq | Ne => return Ok(Expr::binary(op, a, b)),
            Div => self.divide(wide, a, b),
            Rem => self.remainder(wide, a, b),
            Shl | Shr => Expr::binary(op, a, shift_amount(dtype, wide, b)),
            Pow => self.integer_pow(dtype, wide, a, b),
            // Handled before the type is examined.
            Arg1 | Threefry | ThreefryCrypto | ThreefryLight => a,
            Arg2 => b,
            // The gate needs an integer strictly between 0 and 1, and there is none.
            Satur01Gate => constant(wide, 0),
            ReluGate | And | Or => self.gate(op, wide, a, b),
        };
        Ok(cast(wide, dtype, result))
    }

    /// The type in which operations on `dtype` are computed: itself, or the 32-bit integer of its sign.
    fn computes_as(&self, dtype: DType, op: &dyn std::fmt::Display) -> Result<DType> {
        let narrow = dtype.is_integer() && dtype.size_bytes() < 4;
        let wide = match narrow && !self.computes(dtype) {
            false => dtype,
            true if dtype.is_signed() => DType::I32,
            true => DType::U32,
        };
        self.require(wide, op, dtype)?;
        Ok(wide)
    }

    /// `a / b`, and 0 if `b` is 0. A quotient by −1 is a negation, so that no machine divides the least
    /// integer by −1.
    fn divide(&mut self, dtype: DType, a: Expr, b: Expr) -> Expr {
        if is_safe_divisor(&b) {
            return Expr::binary(BinaryOp::Div, a, b);
        }
        let b = self.shared(b, dtype);
        let is = |k: i64| Expr::binary(BinaryOp::Eq, b.clone(), constant(dtype, k));
        let zero = constant(dtype, 0);
        if !dtype.is_signed() {
            let safe = Expr::select(is(0), constant(dtype, 1), b.clone());
            return Expr::select(is(0), zero, Expr::binary(BinaryOp::Div, a, safe));
        }
        let a = self.shared(a, dtype);
        let safe = self.never_zero_or_minus_one(dtype, &b);
        let negated = Expr::unary(UnaryOp::Neg, a.clone());
        let quotient = Expr::binary(BinaryOp::Div, a, safe);
        Expr::select(is(0), zero, Expr::select(is(-1), negated, quotient))
    }

    /// `a % b`, and 0 if `b` is 0. If `b` is 0 or −1, the remainder by 1 is computed instead.
    fn remainder(&mut self, dtype: DType, a: Expr, b: Expr) -> Expr {
        if is_safe_divisor(&b) {
            return Expr::binary(BinaryOp::Rem, a, b);
        }
        let b = self.shared(b, dtype);
        let safe = self.never_zero_or_minus_one(dtype, &b);
        Expr::binary(BinaryOp::Rem, a, safe)
    }

    fn never_zero_or_minus_one(&mut self, dtype: DType, b: &Expr) -> Expr {
        let is = |k: i64| Expr::binary(BinaryOp::Eq, b.clone(), constant(dtype, k));
        let unsafe_divisor = match dtype.is_signed() {
            true => Expr::binary(BinaryOp::BitOr, is(0), is(-1)),
            false => is(0),
        };
        Expr::select(unsafe_divisor, constant(dtype, 1), b.clone())
    }
}

fn is_safe_divisor(b: &Expr) -> bool {
    matches!(b, Expr::Const(k) if k.as_i64() != 0 && !(k.dtype().is_signed() && k.as_i64() == -1))
}

/// `by` modulo the width of `dtype`, in the type `wide`.
fn shift_amount(dtype: DType, wide: DType, by: Expr) -> Expr {
    let mask = 8 * dtype.size_bytes() as i64 - 1;
    match by {
        Expr::Const(k) => Expr::Const(Scalar::new(wide, k.bits() & mask as u128)),
        by => Expr::binary(BinaryOp::BitAnd, by, constant(wide, mask)),
    }
}

/// An integer as another integer type.
fn cast(from: DType, to: DType, x: Expr) -> Expr {
    match x {
        x if from == to => x,
        Expr::Const(k) => Expr::Const(k.convert(to)),
        x => Expr::convert(to, x),
    }
}
