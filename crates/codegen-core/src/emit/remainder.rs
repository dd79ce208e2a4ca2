//! The exact remainder of floats: long division of the significands, several bits at a time.
//!
//! The operators of shading languages compute `a - b * trunc(a / b)`, which is wrong for large quotients.

/// The format of a float whose remainder is computed, by its bits as an unsigned integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatLayout {
    /// Bits of the float: 32 or 64.
    pub width: u32,
    /// Stored bits of the significand.
    pub mantissa: u32,
    /// The exponent field of 1, plus the number of stored bits of the significand.
    bias: u32,
    /// The bits of infinity.
    infinity: u64,
    /// The bits of the NaN that the remainder yields.
    nan: u64,
}

impl FloatLayout {
    /// The format of `f32`.
    pub const SINGLE: FloatLayout =
        FloatLayout { width: 32, mantissa: 23, bias: 150, infinity: 0x7f80_0000, nan: 0x7fc0_0000 };

    /// The format of `f64`.
    pub const DOUBLE: FloatLayout = FloatLayout {
        width: 64,
        mantissa: 52,
        bias: 1075,
        infinity: 0x7ff0_0000_0000_0000,
        nan: 0x7ff8_0000_0000_0000,
    };
}

/// The size of an unsigned integer of [`RemainderEmitter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntSize {
    /// 32 bits.
    Word,
    /// As many bits as the float.
    Float,
}

/// An operation on two unsigned integers of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemainderOp {
    /// Sum; does not overflow.
    Add,
    /// Difference, which wraps.
    Sub,
    /// Remainder; the divisor is not 0.
    Rem,
    /// The lesser.
    Min,
    /// The greater.
    Max,
    /// Bitwise conjunction.
    And,
    /// Bitwise disjunction.
    Or,
    /// Shift to the left, by a [word](IntSize::Word) less than the width.
    ShiftLeft,
    /// Shift to the right with zeros, by a [word](IntSize::Word) less than the width.
    ShiftRight,
    /// Whether the first is less, as a truth value; so are the next three.
    Less,
    /// Whether the first is greater.
    Greater,
    /// Whether the first is greater or equal.
    GreaterEqual,
    /// Whether both are equal.
    Equal,
}

/// The instructions of which [`float_remainder`] consists. Values are floats, unsigned integers of two sizes,
/// and truth values.
pub trait RemainderEmitter {
    /// A value.
    type Value: Copy;
    /// A variable that holds an unsigned integer.
    type Variable: Copy;

    /// An integer that is known.
    fn number(&mut self, size: IntSize, x: u64) -> Self::Value;
    /// The float with known bits.
    fn float(&mut self, bits: u64) -> Self::Value;
    /// `a op b`, of integers of a size.
    fn binary(&mut self, op: RemainderOp, size: IntSize, a: Self::Value, b: Self::Value) -> Self::Value;
    /// The disjunction of truth values.
    fn either(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    /// `then` if the condition is true, else `otherwise`: integers of a size.
    fn select(
        &mut self,
        size: IntSize,
        condition: Self::Value,
        then: Self::Value,
        otherwise: Self::Value,
    ) -> Self::Value;
    /// Like [`RemainderEmitter::select`], of floats.
    fn select_float(
        &mut self,
        condition: Self::Value,
        then: Self::Value,
        otherwise: Self::Value,
    ) -> Self::Value;
    /// The integer zero-extended or truncated to a size, from the other size.
    fn resize(&mut self, to: IntSize, x: Self::Value) -> Self::Value;
    /// The float with these bits.
    fn bits_to_float(&mut self, bits: Self::Value) -> Self::Value;
    /// The bits of a float.
    fn float_to_bits(&mut self, float: Self::Value) -> Self::Value;
    /// The float with this value. The integer has no more bits than a significand.
    fn int_to_float(&mut self, int: Self::Value) -> Self::Value;
    /// Declares a variable. `name` is for readers of the code.
    fn declare(&mut self, name: &str, size: IntSize) -> Self::Variable;
    /// The value of a variable.
    fn get(&mut self, variable: Self::Variable) -> Self::Value;
    /// Changes a variable.
    fn set(&mut self, variable: Self::Variable, value: Self::Value);
    /// Repeats the code that `body` emits while a word variable is greater than `zero`. `body` gets the
    /// variable's value, decreases the variable, and may run once more when it is 0.
    fn while_positive(
        &mut self,
        variable: Self::Variable,
        zero: Self::Value,
        body: impl Fn(&mut Self, Self::Value),
    );
}

/// Emits C's `fmod`: it has the sign of `a`; NaN if `a` is infinite or `b` is 0, and `a` if `b` is infinite.
pub fn float_remainder<E: RemainderEmitter>(
    e: &mut E,
    format: FloatLayout,
    a: E::Value,
    b: E::Value,
) -> E::Value {
    Division { e, format }.remainder(a, b)
}

use IntSize::{Float, Word};
use RemainderOp as Op;

struct Division<'e, E> {
    e: &'e mut E,
    format: FloatLayout,
}

impl<E: RemainderEmitter> Division<'_, E> {
    fn remainder(&mut self, a: E::Value, b: E::Value) -> E::Value {
        let sign = 1u64 << (self.format.width - 1);
        let [bits_a, bits_b] = [a, b].map(|x| self.e.float_to_bits(x));
        let magnitude = self.e.number(Float, sign - 1);
        let [size_a, size_b] = [bits_a, bits_b].map(|x| self.e.binary(Op::And, Float, x, magnitude));
        let rest = self.rest(size_a, size_b);
        let positive = self.scaled_back(rest, size_b);

        let sign = self.e.number(Float, sign);
        let sign = self.e.binary(Op::And, Float, bits_a, sign);
        let signed = self.e.binary(Op::Or, Float, positive, sign);
        let divided = self.e.bits_to_float(signed);
        let is_less = self.e.binary(Op::Less, Float, size_a, size_b);
        let result = self.e.select_float(is_less, a, divided);
        let nan = self.e.float(self.format.nan);
        let invalid = self.is_invalid(size_a, size_b);
        self.e.select_float(invalid, nan, result)
    }

    /// Whether `a` is infinite, `b` is 0, or either is NaN.
    fn is_invalid(&mut self, size_a: E::Value, size_b: E::Value) -> E::Value {
        let [zero, infinity] = [0, self.format.infinity].map(|x| self.e.number(Float, x));
        let is_zero = self.e.binary(Op::Equal, Float, size_b, zero);
        let not_finite = self.e.binary(Op::GreaterEqual, Float, size_a, infinity);
        let not_number = self.e.binary(Op::Greater, Float, size_b, infinity);
        let either = self.e.either(is_zero, not_finite);
        self.e.either(either, not_number)
    }

    /// The significand of the remainder, as a multiple of the last place of `b`; arbitrary if `a` < `b`.
    fn rest(&mut self, size_a: E::Value, size_b: E::Value) -> E::Value {
        let [significand_a, significand_b] = [size_a, size_b].map(|x| self.significand(x));
        let one = self.e.number(Float, 1);
        let divisor = self.e.binary(Op::Max, Float, significand_b, one);
        let [exponent_a, exponent_b] = [size_a, size_b].map(|x| self.exponent(x));
        let rest = self.e.declare("rest", Float);
        let steps = self.e.declare("steps", Word);
        let first = self.e.binary(Op::Rem, Float, significand_a, divisor);
        self.e.set(rest, first);
        let is_less = self.e.binary(Op::Less, Float, size_a, size_b);
        let difference = self.e.binary(Op::Sub, Word, exponent_a, exponent_b);
        let zero = self.e.number(Word, 0);
        let difference = self.e.select(Word, is_less, zero, difference);
        self.e.set(steps, difference);

        // Each step shifts by as many bits as fit above the significand, but by no more than are left.
        let room = u64::from(self.format.width - self.format.mantissa - 1);
        self.e.while_positive(steps, zero, |e, now| {
            let room = e.number(Word, room);
            let by = e.binary(Op::Min, Word, now, room);
            let before = e.get(rest);
            let moved = e.binary(Op::ShiftLeft, Float, before, by);
            let after = e.binary(Op::Rem, Float, moved, divisor);
            e.set(rest, after);
            let now = e.binary(Op::Sub, Word, now, by);
            e.set(steps, now);
        });
        self.e.get(rest)
    }

    /// The bits of the float that is `rest` times the last place of `b`.
    fn scaled_back(&mut self, rest: E::Value, size_b: E::Value) -> E::Value {
        let exponent = self.exponent(size_b);
        let zero = self.e.number(Float, 0);
        // Integers below 2²⁴, or 2⁵³, are exact as floats, whose exponent field gives their size.
        let float = self.e.int_to_float(rest);
        let bits = self.e.float_to_bits(float);
        let mantissa = self.e.number(Float, (1 << self.format.mantissa) - 1);
        let fraction = self.e.binary(Op::And, Float, bits, mantissa);
        let log = self.e.number(Word, self.format.mantissa.into());
        let own = self.e.binary(Op::ShiftRight, Float, bits, log);
        let own = self.e.resize(Word, own);
        let sum = self.e.binary(Op::Add, Word, own, exponent);
        let bias = self.e.number(Word, self.format.bias.into());
        let is_normal = self.e.binary(Op::Greater, Word, sum, bias);
        let field = self.e.binary(Op::Sub, Word, sum, bias);
        let field = self.e.resize(Float, field);
        let field = self.e.binary(Op::ShiftLeft, Float, field, log);
        let normal = self.e.binary(Op::Or, Float, field, fraction);
        // The exponent is that of the subnormal numbers, or close to it.
        let [one, most] = [1, self.format.mantissa.into()].map(|x| self.e.number(Word, x));
        let by = self.e.binary(Op::Sub, Word, exponent, one);
        let by = self.e.binary(Op::Min, Word, by, most);
        let subnormal = self.e.binary(Op::ShiftLeft, Float, rest, by);
        let scaled = self.e.select(Float, is_normal, normal, subnormal);
        let is_zero = self.e.binary(Op::Equal, Float, rest, zero);
        self.e.select(Float, is_zero, zero, scaled)
    }

    /// The exponent field of a magnitude. It is 1 for subnormal numbers, whose last place has the same value
    /// as for field 1.
    fn exponent(&mut self, size: E::Value) -> E::Value {
        let log = self.e.number(Word, self.format.mantissa.into());
        let field = self.e.binary(Op::ShiftRight, Float, size, log);
        let field = self.e.resize(Word, field);
        let one = self.e.number(Word, 1);
        self.e.binary(Op::Max, Word, field, one)
    }

    /// The significand of a magnitude, with its leading bit.
    fn significand(&mut self, size: E::Value) -> E::Value {
        let leading = 1u64 << self.format.mantissa;
        let [mask, leading] = [leading - 1, leading].map(|x| self.e.number(Float, x));
        let fraction = self.e.binary(Op::And, Float, size, mask);
        let whole = self.e.binary(Op::Or, Float, fraction, leading);
        let is_normal = self.e.binary(Op::GreaterEqual, Float, size, leading);
        self.e.select(Float, is_normal, whole, fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::{FloatLayout, IntSize, RemainderEmitter, RemainderOp, float_remainder};

    /// Evaluates the instructions instead of emitting them.
    struct Evaluator {
        format: FloatLayout,
        variables: Vec<u64>,
    }

    impl RemainderEmitter for Evaluator {
        type Value = u64;
        type Variable = usize;

        fn number(&mut self, _: IntSize, x: u64) -> u64 {
            x
        }

        fn float(&mut self, bits: u64) -> u64 {
            bits
        }

        fn binary(&mut self, op: RemainderOp, size: IntSize, a: u64, b: u64) -> u64 {
            let width = if size == IntSize::Word { 32 } else { self.format.width };
            let mask = u64::MAX >> (64 - width);
            match op {
                RemainderOp::Add => a + b,
                RemainderOp::Sub => a.wrapping_sub(b) & mask,
                RemainderOp::Rem => a % b,
                RemainderOp::Min => a.min(b),
                RemainderOp::Max => a.max(b),
                RemainderOp::And => a & b,
                RemainderOp::Or => a | b,
                RemainderOp::ShiftLeft => (a << b) & mask,
                RemainderOp::ShiftRight => a >> b,
                RemainderOp::Less => u64::from(a < b),
                RemainderOp::Greater => u64::from(a > b),
                RemainderOp::GreaterEqual => u64::from(a >= b),
                RemainderOp::Equal => u64::from(a == b),
            }
        }

        fn either(&mut self, a: u64, b: u64) -> u64 {
            a | b
        }

        fn select(&mut self, _: IntSize, condition: u64, then: u64, otherwise: u64) -> u64 {
            if condition == 1 { then } else { otherwise }
        }

        fn select_float(&mut self, condition: u64, then: u64, otherwise: u64) -> u64 {
            self.select(IntSize::Float, condition, then, otherwise)
        }

        fn resize(&mut self, _: IntSize, x: u64) -> u64 {
            x & u64::from(u32::MAX)
        }

        fn bits_to_float(&mut self, bits: u64) -> u64 {
            bits
        }

        fn float_to_bits(&mut self, float: u64) -> u64 {
            float
        }

        fn int_to_float(&mut self, int: u64) -> u64 {
            match self.format.width {
                32 => u64::from((int as f32).to_bits()),
                _ => (int as f64).to_bits(),
            }
        }

        fn declare(&mut self, _: &str, _: IntSize) -> usize {
            self.variables.push(0);
            self.variables.len() - 1
        }

        fn get(&mut self, variable: usize) -> u64 {
            self.variables[variable]
        }

        fn set(&mut self, variable: usize, value: u64) {
            self.variables[variable] = value;
        }

        fn while_positive(&mut self, variable: usize, zero: u64, body: impl Fn(&mut Self, u64)) {
            while self.variables[variable] > zero {
                body(self, self.variables[variable]);
            }
        }
    }

    fn single(a: f32, b: f32) -> f32 {
        let mut e = Evaluator { format: FloatLayout::SINGLE, variables: Vec::new() };
        let [a, b] = [a, b].map(|x| u64::from(x.to_bits()));
        f32::from_bits(float_remainder(&mut e, FloatLayout::SINGLE, a, b) as u32)
    }

    fn double(a: f64, b: f64) -> f64 {
        let mut e = Evaluator { format: FloatLayout::DOUBLE, variables: Vec::new() };
        f64::from_bits(float_remainder(&mut e, FloatLayout::DOUBLE, a.to_bits(), b.to_bits()))
    }

    #[test]
    fn remainders_are_those_of_the_operator() {
        let finite = [0.0, -0.0, 1.0, 1.5, -2.5, 3.0, 7.25, 1e30, -1.7e300, 1e-40, 3e-45, 1e-310, 5e-324];
        let numbers = || finite.into_iter().chain([f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
        for (a, b) in numbers().flat_map(|a| numbers().map(move |b| (a, b))) {
            let (expected, found) = (a % b, double(a, b));
            assert!(
                expected.to_bits() == found.to_bits() || expected.is_nan() && found.is_nan(),
                "{a} % {b}"
            );
            let (a, b) = (a as f32, b as f32);
            let (expected, found) = (a % b, single(a, b));
            assert!(
                expected.to_bits() == found.to_bits() || expected.is_nan() && found.is_nan(),
                "{a} % {b}"
            );
        }
    }
}
