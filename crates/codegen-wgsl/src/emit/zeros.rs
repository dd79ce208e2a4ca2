//! Divisions, products and differences whose result may be NaN or infinite. Shading languages let compilers
//! assume that there are no infinities and NaNs, so compilers simplify `x * 0`, `0 / x` and `x - x` to 0 and
//! `x / x` to 1, and give `x / 0` an arbitrary value.
//!
//! Where such an operation is visible in the code, the emitter also tests the operand's bits and selects a
//! constant by them. A compiler finds further zeros by itself, as in an accumulator that begins with 0.
//! Therefore every divisor is tested, at a cost of about eleven operations on words. Other products and
//! differences are not tested, nor is the sign of a zero.

use codegen_core::{DType, Scalar};
use naga::BinaryOperator as Op;

use super::Emitter;
use crate::builder::{Ty, Value};

/// The bits of a float, and masks of its format.
struct FloatBits {
    ty: Ty,
    word: Value,
    magnitude: Value,
    infinity: Value,
}

impl Emitter<'_> {
    /// `a op b` for floats, with a test for special values: if one operand is the literal 0, if both look
    /// equal, or if the operation is a division by a value that is not a literal. `None` if no test is
    /// needed.
    pub(super) fn checked_for_zero(&mut self, op: Op, dtype: DType, a: Value, b: Value) -> Option<Value> {
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

    /// `a / b`; the result is selected by the bits if `b` is 0.
    fn quotient(&mut self, dtype: DType, a: Value, b: Value) -> Value {
        let (is_valid, infinity) = (self.is_divisor(a), self.infinity_of(dtype, a, b));
        let by_zero = self.or_nan(dtype, is_valid, infinity);
        let quotient = self.b.binary(Op::Divide, a, b);
        let is_zero = self.has_bits_of_zero(b);
        self.b.select(is_zero, by_zero, quotient)
    }

    fn or_nan(&mut self, dtype: DType, is_valid: Value, result: Value) -> Value {
        let nan = self.known_value(Scalar::from_f64(dtype, f64::NAN));
        self.b.select(is_valid, result, nan)
    }

    /// Whether a float is a zero of either sign.
    fn has_bits_of_zero(&mut self, x: Value) -> Value {
        let FloatBits { ty, word, magnitude, .. } = self.bits_of(x);
        let size = self.b.binary(Op::And, word, magnitude);
        let zero = self.b.bits(ty, 0);
        self.b.binary(Op::Equal, size, zero)
    }

    /// An infinity with the sign of `a / b`.
    fn infinity_of(&mut self, dtype: DType, a: Value, b: Value) -> Value {
        let [plus, minus] =
            [f64::INFINITY, f64::NEG_INFINITY].map(|end| self.known_value(Scalar::from_f64(dtype, end)));
        let [a, b] = [a, b].map(|x| self.bits_of(x));
        let signs = self.b.binary(Op::ExclusiveOr, a.word, b.word);
        let positive = self.b.binary(Op::LessEqual, signs, a.magnitude);
        self.b.select(positive, plus, minus)
    }

    /// Whether the bits of two values differ.
    fn differ(&mut self, a: Value, b: Value) -> Value {
        let [a, b] = [a, b].map(|x| self.bits_of(x).word);
        self.b.binary(Op::NotEqual, a, b)
    }

    /// Whether a float is neither infinite nor NaN.
    fn is_finite(&mut self, x: Value) -> Value {
        let FloatBits { word, magnitude, infinity, .. } = self.bits_of(x);
        let size = self.b.binary(Op::And, word, magnitude);
        self.b.binary(Op::Less, size, infinity)
    }

    /// Whether a float is neither 0 nor NaN.
    fn is_divisor(&mut self, x: Value) -> Value {
        let FloatBits { ty, word, magnitude, infinity } = self.bits_of(x);
        let size = self.b.binary(Op::And, word, magnitude);
        let zero = self.b.bits(ty, 0);
        let is_nonzero = self.b.binary(Op::NotEqual, size, zero);
        let is_number = self.b.binary(Op::LessEqual, size, infinity);
        self.b.binary(Op::And, is_nonzero, is_number)
    }

    fn bits_of(&mut self, x: Value) -> FloatBits {
        let (x, ty, magnitude, infinity) = match x.ty {
            Ty::F64 => (x, Ty::U64, i64::MAX as u64, 0x7ff0_0000_0000_0000),
            // Converting a half to `f32` preserves whether it is 0, infinite or NaN.
            Ty::F16 => (self.b.convert(Ty::F32, x), Ty::U32, 0x7fff_ffff, 0x7f80_0000),
            _ => (x, Ty::U32, 0x7fff_ffff, 0x7f80_0000),
        };
        let word = self.b.bitcast(ty, x);
        let [magnitude, infinity] = [magnitude, infinity].map(|k| self.b.bits(ty, k));
        FloatBits { ty, word, magnitude, infinity }
    }
}
