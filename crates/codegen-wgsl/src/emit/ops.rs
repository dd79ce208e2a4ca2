//! The legal operations (the closed set of `scheduling::legalize`) in terms of the shading languages. Cases
//! that their functions leave undefined, such as `max` of NaN, are expanded.

use codegen_core::emit::lacking;
use codegen_core::ir::{BinaryOp, UnaryOp};
use codegen_core::{Checked, DType, Scalar};
use naga::{BinaryOperator as Op, MathFunction, UnaryOperator};

use super::Emitter;
use crate::builder::{Ty, Value};

impl Emitter<'_> {
    pub(super) fn unary(&mut self, op: UnaryOp, dtype: DType, x: Value) -> Checked<Value> {
        use UnaryOp::*;
        lacking::check_arithmetic(self.caps, op, dtype)?;
        let float = |fun: MathFunction| match dtype.is_float() {
            true => Ok(fun),
            false => Err(()),
        };
        let fun = match op {
            Neg => return Ok(self.negated(dtype, x)),
            Abs if !dtype.is_float() => return Ok(self.integer_abs(dtype, x)),
            Abs => float(MathFunction::Abs),
            Sqrt => float(MathFunction::Sqrt),
            Floor => float(MathFunction::Floor),
            Trunc => float(MathFunction::Trunc),
            RoundEven => float(MathFunction::Round),
            Exp | Exp2 | Expm1 | Log | Log1p | Log2 | Sin | Cos | Tanh | Sigmoid | Atan | Erf | Erfc => {
                return lacking::inaccurate(op, dtype);
            }
            Not | Relu | Satur01 | Recip | RecipSqrt => Err(()),
        };
        match fun {
            Ok(fun) => Ok(self.b.math1(fun, x)),
            Err(()) => lacking::expanded(op, dtype),
        }
    }

    /// Floats are negated by the operator, because 0 - x has the wrong sign for x = 0.
    fn negated(&mut self, dtype: DType, x: Value) -> Value {
        if dtype.is_float() || dtype.is_signed() {
            return self.b.unary(UnaryOperator::Negate, x);
        }
        let zero = self.known_value(Scalar::zero(dtype));
        self.b.binary(Op::Subtract, zero, x)
    }

    fn integer_abs(&mut self, dtype: DType, x: Value) -> Value {
        let zero = self.known_value(Scalar::zero(dtype));
        let negative = self.b.binary(Op::Less, x, zero);
        let negated = self.negated(dtype, x);
        self.b.select(negative, negated, x)
    }

    pub(super) fn binary(&mut self, op: BinaryOp, dtype: DType, a: Value, b: Value) -> Checked<Value> {
        if dtype == DType::Bool {
            return self.boolean(op, a, b);
        }
        lacking::check_arithmetic(self.caps, op, dtype)?;
        let simple = match op {
            BinaryOp::Add => Op::Add,
            BinaryOp::Sub => Op::Subtract,
            BinaryOp::Mul => Op::Multiply,
            BinaryOp::Div => Op::Divide,
            BinaryOp::Rem if dtype.is_float() => return Ok(self.float_remainder(dtype, a, b)),
            BinaryOp::Rem => Op::Modulo,
            BinaryOp::Lt => Op::Less,
            BinaryOp::Le => Op::LessEqual,
            BinaryOp::Eq => Op::Equal,
            BinaryOp::Ne => return Ok(self.not_equal(dtype, a, b)),
            BinaryOp::Max => return Ok(self.extreme(Op::Greater, a, b)),
            BinaryOp::Min => return Ok(self.extreme(Op::Less, a, b)),
            BinaryOp::BitAnd if !dtype.is_float() => Op::And,
            BinaryOp::BitOr if !dtype.is_float() => Op::InclusiveOr,
            BinaryOp::BitXor if !dtype.is_float() => Op::ExclusiveOr,
            BinaryOp::Shl | BinaryOp::Shr if !dtype.is_float() => return Ok(self.shift(op, a, b)),
            // Those that `lacking::check_binary` lists.
            _ => return lacking::expanded(op, dtype),
        };
        if dtype.is_float()
            && let Some(value) = self.checked_for_zero(simple, dtype, a, b)
        {
            return Ok(value);
        }
        if dtype.is_float() && matches!(op, BinaryOp::Add | BinaryOp::Sub) {
            let (left, right) = (self.protected(a, b), self.protected(b, a));
            return Ok(self.b.binary(simple, left, right));
        }
        Ok(self.b.binary(simple, a, b))
    }

    /// Makes a sum opaque if one of its terms is subtracted next. Such sums exist to round, and compilers
    /// would simplify `(x + y) - y` to `x`.
    fn protected(&mut self, sum: Value, term: Value) -> Value {
        if self.b.cancels(sum, term) { self.opaque(sum) } else { sum }
    }

    /// The same number, as the result of an operation that compilers cannot simplify. The operation changes
    /// one NaN to another by its bits.
    pub(super) fn opaque(&mut self, sum: Value) -> Value {
        let (bits, marked) = match sum.ty {
            Ty::F32 => (Ty::U32, 0x7fc0_0001),
            Ty::F64 => (Ty::U64, 0x7ff8_0000_0000_0001),
            _ => return sum,
        };
        let word = self.b.bitcast(bits, sum);
        let [marked, one, zero] = [marked, 1, 0].map(|k| self.b.bits(bits, k));
        let is_marked = self.b.binary(Op::Equal, word, marked);
        let change = self.b.select(is_marked, one, zero);
        let word = self.b.binary(Op::ExclusiveOr, word, change);
        self.b.bitcast(sum.ty, word)
    }

    /// `b` if the comparison of `b` with `a` holds or `b` is NaN, else `a`.
    fn extreme(&mut self, comparison: Op, a: Value, b: Value) -> Value {
        let mut takes_second = self.b.binary(comparison, b, a);
        if let Some(is_number) = self.is_number(b) {
            let is_nan = self.b.unary(UnaryOperator::LogicalNot, is_number);
            takes_second = self.b.binary(Op::LogicalOr, takes_second, is_nan);
        } else if let Some(is_number) = self.is_number(a) {
            // Compilers replace a bare comparison by their own maximum, which would skip the NaN.
            takes_second = self.b.binary(Op::LogicalAnd, takes_second, is_number);
        }
        self.b.select(takes_second, b, a)
    }

    /// Whether a float is not NaN, by its bits; `None` for values that cannot be NaN.
    fn is_number(&mut self, x: Value) -> Option<Value> {
        let (x, bits, magnitude, infinity) = match x.ty {
            _ if self.b.is_literal(x) => return None,
            Ty::F16 => (self.b.convert(Ty::F32, x), Ty::U32, 0x7fff_ffff, 0x7f80_0000),
            Ty::F32 => (x, Ty::U32, 0x7fff_ffff, 0x7f80_0000),
            Ty::F64 => (x, Ty::U64, i64::MAX as u64, 0x7ff0_0000_0000_0000),
            Ty::Bool | Ty::I32 | Ty::U32 | Ty::I64 | Ty::U64 | Ty::U32x4 => return None,
        };
        let word = self.b.bitcast(bits, x);
        let [magnitude, infinity] = [magnitude, infinity].map(|k| self.b.bits(bits, k));
        let size = self.b.binary(Op::And, word, magnitude);
        Some(self.b.binary(Op::LessEqual, size, infinity))
    }

    /// Shift amounts are `u32` for all types; legalization keeps them below the width.
    fn shift(&mut self, op: BinaryOp, x: Value, by: Value) -> Value {
        let by = self.b.convert(Ty::U32, by);
        self.b.binary(if op == BinaryOp::Shl { Op::ShiftLeft } else { Op::ShiftRight }, x, by)
    }

    fn boolean(&mut self, op: BinaryOp, a: Value, b: Value) -> Checked<Value> {
        let op = match op {
            BinaryOp::BitAnd => Op::And,
            BinaryOp::BitOr => Op::InclusiveOr,
            BinaryOp::BitXor | BinaryOp::Ne => Op::NotEqual,
            BinaryOp::Eq => Op::Equal,
            _ => return lacking::expanded(op, DType::Bool),
        };
        Ok(self.b.binary(op, a, b))
    }
}
