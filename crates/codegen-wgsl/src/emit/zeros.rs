//! What compilers of shaders take for a number though it is none: `x * 0`, `0 / x` and `x - x` are 0 to them, `x / x` is 1, and `x / 0`
//! is whatever comes in handy, since their languages let them assume that there are no infinities and NaNs.
//!
//! Where such an operation is plain to see, its operand's bits are looked at as well, and constants are chosen by them. A compiler also
//! finds zeros by itself, as in an accumulator that begins with one: every divisor is therefore looked at, by some
//! eleven operations on words. Products and differences are not, nor is the sign of a zero.

use naga::BinaryOperator as Op;
use tnode::{DType, Scalar};

use super::Emitter;
use crate::builder::{Ty, Value};

/// The bits of a float, and those of a few numbers in its layout.
struct Bits {
    ty: Ty,
    word: Value,
    magnitude: Value,
    infinity: Value,
}

impl Emitter<'_> {
    /// `a op b` for floats, if one of them is the literal 0, or both look like one value, and every quotient by what is no literal.
    pub(super) fn at_zero(&mut self, op: Op, dtype: DType, a: Value, b: Value) -> Option<Value> {
        let (a_is_zero, b_is_zero, are_alike) =
            (self.b.is_zero(a), self.b.is_zero(b), self.b.looks_like(a, b));
        let is_valid = match op {
            Op::Multiply if a_is_zero => self.is_finite(b),
            Op::Multiply if b_is_zero => self.is_finite(a),
            Op::Divide if b_is_zero => self.is_divisor(a),
            Op::Divide if a_is_zero => self.is_divisor(b),
            Op::Subtract if are_alike => {
                let (is_finite, differ) = (self.is_finite(a), self.differ(a, b));
                self.b.binary(Op::InclusiveOr, is_finite, differ)
            }
            Op::Divide if are_alike => {
                let (is_finite, is_divisor, differ) =
                    (self.is_finite(a), self.is_divisor(a), self.differ(a, b));
                let is_one = self.b.binary(Op::And, is_finite, is_divisor);
                self.b.binary(Op::InclusiveOr, is_one, differ)
            }
            Op::Divide if !self.b.is_literal(b) => return Some(self.quotient(dtype, a, b)),
            _ => return None,
        };
        let result = match op {
            Op::Divide if b_is_zero => self.infinity_of(dtype, a, b),
            _ => self.b.binary(op, a, b),
        };
        Some(self.or_nan(dtype, is_valid, result))
    }

    /// `a / b`, by the bits where `b` is 0.
    fn quotient(&mut self, dtype: DType, a: Value, b: Value) -> Value {
        let (is_valid, infinity) = (self.is_divisor(a), self.infinity_of(dtype, a, b));
        let by_zero = self.or_nan(dtype, is_valid, infinity);
        let quotient = self.b.binary(Op::Divide, a, b);
        let is_zero = self.has_bits_of_zero(b);
        self.b.select(is_zero, by_zero, quotient)
    }

    fn or_nan(&mut self, dtype: DType, is_valid: Value, result: Value) -> Value {
        let nan = self.known(Scalar::from_f64(dtype, f64::NAN));
        self.b.select(is_valid, result, nan)
    }

    /// Whether a float is a zero of either sign.
    fn has_bits_of_zero(&mut self, x: Value) -> Value {
        let Bits { ty, word, magnitude, .. } = self.bits_of(x);
        let size = self.b.binary(Op::And, word, magnitude);
        let zero = self.b.bits(ty, 0);
        self.b.binary(Op::Equal, size, zero)
    }

    /// An infinity with the sign of `a / b`.
    fn infinity_of(&mut self, dtype: DType, a: Value, b: Value) -> Value {
        let [plus, minus] =
            [f64::INFINITY, f64::NEG_INFINITY].map(|end| self.known(Scalar::from_f64(dtype, end)));
        let [a, b] = [a, b].map(|x| self.bits_of(x));
        let signs = self.b.binary(Op::ExclusiveOr, a.word, b.word);
        let positive = self.b.binary(Op::LessEqual, signs, a.magnitude);
        self.b.select(positive, plus, minus)
    }

    /// Whether two values that look like one have different bits.
    fn differ(&mut self, a: Value, b: Value) -> Value {
        let [a, b] = [a, b].map(|x| self.bits_of(x).word);
        self.b.binary(Op::NotEqual, a, b)
    }

    /// Neither infinite nor NaN.
    fn is_finite(&mut self, x: Value) -> Value {
        let Bits { word, magnitude, infinity, .. } = self.bits_of(x);
        let size = self.b.binary(Op::And, word, magnitude);
        self.b.binary(Op::Less, size, infinity)
    }

    /// Neither 0 nor NaN.
    fn is_divisor(&mut self, x: Value) -> Value {
        let Bits { ty, word, magnitude, infinity } = self.bits_of(x);
        let size = self.b.binary(Op::And, word, magnitude);
        let zero = self.b.bits(ty, 0);
        let is_nonzero = self.b.binary(Op::NotEqual, size, zero);
        let is_number = self.b.binary(Op::LessEqual, size, infinity);
        self.b.binary(Op::And, is_nonzero, is_number)
    }

    fn bits_of(&mut self, x: Value) -> Bits {
        let (x, ty, magnitude, infinity) = match x.ty {
            Ty::F64 => (x, Ty::U64, i64::MAX as u64, 0x7ff0_0000_0000_0000),
            // A half is a normal number, 0, infinite or NaN as a float too.
            Ty::F16 => (self.b.convert(Ty::F32, x), Ty::U32, 0x7fff_ffff, 0x7f80_0000),
            _ => (x, Ty::U32, 0x7fff_ffff, 0x7f80_0000),
        };
        let word = self.b.bitcast(ty, x);
        let [magnitude, infinity] = [magnitude, infinity].map(|k| self.b.bits(ty, k));
        Bits { ty, word, magnitude, infinity }
    }
}
