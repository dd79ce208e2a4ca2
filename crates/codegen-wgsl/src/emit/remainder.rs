//! The exact remainder of floats by long division of the significands, several bits at a time. The operator
//! of the shading languages computes `a - b * trunc(a / b)`, which is wrong for large quotients.

use naga::BinaryOperator as Op;
use tnode::{DType, Scalar};

use super::Emitter;
use crate::builder::{Ty, Value};

/// The format of a float type.
#[derive(Clone, Copy)]
struct FloatLayout {
    dtype: DType,
    ty: Ty,
    bits: Ty,
    /// Number of stored bits of the significand.
    mantissa: u32,
    width: u32,
    /// The exponent field of the number 1, plus the number of stored bits of the significand.
    bias: u64,
    infinity: u64,
    nan: u64,
}

const SINGLE: FloatLayout = FloatLayout {
    dtype: DType::F32,
    ty: Ty::F32,
    bits: Ty::U32,
    mantissa: 23,
    width: 32,
    bias: 150,
    infinity: 0x7f80_0000,
    nan: 0x7fc0_0000,
};

const DOUBLE: FloatLayout = FloatLayout {
    dtype: DType::F64,
    ty: Ty::F64,
    bits: Ty::U64,
    mantissa: 52,
    width: 64,
    bias: 1075,
    infinity: 0x7ff0_0000_0000_0000,
    nan: 0x7ff8_0000_0000_0000,
};

impl Emitter<'_> {
    /// C's `fmod`: has the sign of `a`; NaN if `a` is infinite or `b` is 0, and `a` if `b` is infinite.
    pub(super) fn float_remainder(&mut self, dtype: DType, a: Value, b: Value) -> Value {
        match dtype {
            DType::F64 => self.long_division(DOUBLE, a, b),
            DType::F16 => {
                // The remainder is a multiple of both numbers' last places and less than `b`, so it is exact
                // as a half.
                let [a, b] = [a, b].map(|x| self.b.convert(Ty::F32, x));
                let rest = self.long_division(SINGLE, a, b);
                self.b.convert(Ty::F16, rest)
            }
            _ => self.long_division(SINGLE, a, b),
        }
    }

    fn long_division(&mut self, format: FloatLayout, a: Value, b: Value) -> Value {
        let sign = 1u64 << (format.width - 1);
        let [bits_a, bits_b] = [a, b].map(|x| self.b.bitcast(format.bits, x));
        let magnitude = self.number(format, sign - 1);
        let [size_a, size_b] = [bits_a, bits_b].map(|x| self.b.binary(Op::And, x, magnitude));
        let rest = self.rest(format, size_a, size_b);
        let positive = self.scaled_back(format, rest, size_b);

        let sign = self.number(format, sign);
        let sign = self.b.binary(Op::And, bits_a, sign);
        let signed = self.b.binary(Op::InclusiveOr, positive, sign);
        let divided = self.b.bitcast(format.ty, signed);
        let is_less = self.b.binary(Op::Less, size_a, size_b);
        let result = self.b.select(is_less, a, divided);
        let nan = self.known(Scalar::new(format.dtype, format.nan.into()));
        let invalid = self.has_no_remainder(format, size_a, size_b);
        self.b.select(invalid, nan, result)
    }

    /// Whether `a` is infinite, `b` is 0, or either is NaN.
    fn has_no_remainder(&mut self, format: FloatLayout, size_a: Value, size_b: Value) -> Value {
        let [zero, infinity] = [0, format.infinity].map(|x| self.number(format, x));
        let is_zero = self.b.binary(Op::Equal, size_b, zero);
        let not_finite = self.b.binary(Op::GreaterEqual, size_a, infinity);
        let not_number = self.b.binary(Op::Greater, size_b, infinity);
        let either = self.b.binary(Op::InclusiveOr, is_zero, not_finite);
        self.b.binary(Op::InclusiveOr, either, not_number)
    }

    /// The significand of the remainder, as a multiple of the last place of `b`; arbitrary if `a` < `b`.
    fn rest(&mut self, format: FloatLayout, size_a: Value, size_b: Value) -> Value {
        let [significand_a, significand_b] = [size_a, size_b].map(|x| self.significand(format, x));
        let one = self.number(format, 1);
        let divisor = self.b.math(naga::MathFunction::Max, significand_b, Some(one), None);
        let [exponent_a, exponent_b] = [size_a, size_b].map(|x| self.exponent(format, x));
        let variable = self.b.local("rest", format.bits, None);
        let steps = self.b.local("steps", Ty::U32, None);
        let (rest, left) = (self.b.pointer_to(variable), self.b.pointer_to(steps));
        let first = self.b.binary(Op::Modulo, significand_a, divisor);
        self.b.store(rest, first);
        let is_less = self.b.binary(Op::Less, size_a, size_b);
        let difference = self.b.binary(Op::Subtract, exponent_a, exponent_b);
        let none = self.b.u32(0);
        let difference = self.b.select(is_less, none, difference);
        self.b.store(left, difference);

        self.b.open();
        let now = self.b.load(left);
        let continues = self.b.binary(Op::Greater, now, none);
        self.b.break_unless(continues);
        // Shift by as many bits as fit above the significand.
        let room = self.b.u32(format.width - format.mantissa - 1);
        let by = self.b.math(naga::MathFunction::Min, now, Some(room), None);
        let before = self.b.load(rest);
        let moved = self.b.binary(Op::ShiftLeft, before, by);
        let after = self.b.binary(Op::Modulo, moved, divisor);
        self.b.store(rest, after);
        let now = self.b.binary(Op::Subtract, now, by);
        self.b.store(left, now);
        let body = self.b.close();
        self.b.loop_(body, crate::builder::ClosedBlock::default());
        self.b.load(rest)
    }

    /// The bits of the float that is `rest` times the last place of `b`.
    fn scaled_back(&mut self, format: FloatLayout, rest: Value, size_b: Value) -> Value {
        let exponent = self.exponent(format, size_b);
        let zero = self.number(format, 0);
        // Integers below 2²⁴, or 2⁵³, are exact as floats, whose exponent field gives their size.
        let float = self.b.convert(format.ty, rest);
        let bits = self.b.bitcast(format.bits, float);
        let mantissa = self.number(format, (1 << format.mantissa) - 1);
        let fraction = self.b.binary(Op::And, bits, mantissa);
        let log = self.b.u32(format.mantissa);
        let own = self.b.binary(Op::ShiftRight, bits, log);
        let own = self.b.convert(Ty::U32, own);
        let sum = self.b.binary(Op::Add, own, exponent);
        let bias = self.b.u32(format.bias as u32);
        let is_normal = self.b.binary(Op::Greater, sum, bias);
        let field = self.b.binary(Op::Subtract, sum, bias);
        let field = self.b.convert(format.bits, field);
        let field = self.b.binary(Op::ShiftLeft, field, log);
        let normal = self.b.binary(Op::InclusiveOr, field, fraction);
        // The exponent is that of the subnormal numbers, or close to it.
        let [one, most] = [1, format.mantissa].map(|x| self.b.u32(x));
        let by = self.b.binary(Op::Subtract, exponent, one);
        let by = self.b.math(naga::MathFunction::Min, by, Some(most), None);
        let subnormal = self.b.binary(Op::ShiftLeft, rest, by);
        let scaled = self.b.select(is_normal, normal, subnormal);
        let is_zero = self.b.binary(Op::Equal, rest, zero);
        self.b.select(is_zero, zero, scaled)
    }

    /// The exponent field of a magnitude. It is 1 for subnormal numbers, whose last place has the same value
    /// as for field 1.
    fn exponent(&mut self, format: FloatLayout, size: Value) -> Value {
        let log = self.b.u32(format.mantissa);
        let field = self.b.binary(Op::ShiftRight, size, log);
        let field = self.b.convert(Ty::U32, field);
        let one = self.b.u32(1);
        self.b.math(naga::MathFunction::Max, field, Some(one), None)
    }

    /// The significand of a magnitude, with its leading bit.
    fn significand(&mut self, format: FloatLayout, size: Value) -> Value {
        let leading = 1u64 << format.mantissa;
        let [mask, leading] = [leading - 1, leading].map(|x| self.number(format, x));
        let fraction = self.b.binary(Op::And, size, mask);
        let whole = self.b.binary(Op::InclusiveOr, fraction, leading);
        let is_normal = self.b.binary(Op::GreaterEqual, size, leading);
        self.b.select(is_normal, whole, fraction)
    }

    fn number(&mut self, format: FloatLayout, x: u64) -> Value {
        self.b.bits(format.bits, x)
    }
}
