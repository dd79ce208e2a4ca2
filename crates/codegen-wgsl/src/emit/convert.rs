//! Total conversions. The shading languages' own conversions leave NaN and numbers out of range to the
//! device.

use codegen_core::{Checked, DType, Scalar, reject};
use naga::BinaryOperator as Op;

use super::Emitter;
use crate::builder::{Ty, Value};

impl Emitter<'_> {
    /// Converts a value from type `from` to type `to`.
    pub(super) fn convert(&mut self, from: DType, to: DType, x: Value) -> Checked<Value> {
        if from == to {
            return Ok(x);
        }
        let (source, target) = (self.carrier(from), self.carrier(to));
        let emulated = |d: DType, ty: Ty| d.is_float() && ty == Ty::U32;
        if from == DType::U32x4 || to == DType::U32x4 || emulated(from, source) || emulated(to, target) {
            return reject(format!("convert {to}({from})"), "legalization expands it");
        }
        Ok(match (from, to) {
            (DType::Bool, _) => {
                let [zero, one] = [0, 1].map(|k| self.known_value(Scalar::from_i64(to, k)));
                self.b.select(x, one, zero)
            }
            (_, DType::Bool) => {
                let zero = self.known_value(Scalar::zero(from));
                self.not_equal(from, x, zero)
            }
            (DType::F32, DType::F16) => self.half(x),
            _ if from.is_float() && to.is_float() => self.b.convert(target, x),
            _ if from.is_float() => {
                let wide = self.saturated(from, to, x);
                self.wrapped(to, wide)
            }
            (_, DType::F16) => {
                // Integers in the range of a half are exact as `f32`.
                let single = self.b.convert(Ty::F32, x);
                self.half(single)
            }
            _ if to.is_float() => self.b.convert(target, x),
            _ => {
                let resized = self.resized(x, target);
                self.wrapped(to, resized)
            }
        })
    }

    /// Converts an `f32` to `f16`, infinite if it is out of range: drivers may return the greatest half
    /// instead.
    fn half(&mut self, x: Value) -> Value {
        let [above, below] =
            [65_520.0, -65_520.0].map(|end| self.known_value(Scalar::from_f64(DType::F32, end)));
        let [plus, minus] =
            [f64::INFINITY, f64::NEG_INFINITY].map(|end| self.known_value(Scalar::from_f64(DType::F16, end)));
        let half = self.b.convert(Ty::F16, x);
        let too_great = self.b.binary(Op::GreaterEqual, x, above);
        let half = self.b.select(too_great, plus, half);
        let too_small = self.b.binary(Op::LessEqual, x, below);
        self.b.select(too_small, minus, half)
    }

    /// Converts between integer types of the shader: first the size, then the sign, so that no step changes
    /// both.
    fn resized(&mut self, x: Value, to: Ty) -> Value {
        let x = match (x.ty, to.bytes()) {
            (Ty::I32, 8) => self.b.convert(Ty::I64, x),
            (Ty::U32, 8) => self.b.convert(Ty::U64, x),
            (Ty::I64, 4) => self.b.convert(Ty::I32, x),
            (Ty::U64, 4) => self.b.convert(Ty::U32, x),
            _ => x,
        };
        self.b.bitcast(to, x)
    }

    /// Reduces a 32-bit carrier to the bits of a narrow integer type.
    fn wrapped(&mut self, dtype: DType, x: Value) -> Value {
        let mask = match dtype {
            DType::U8 => 0xff,
            DType::U16 => 0xffff,
            DType::I8 => return self.sign_extended(x),
            _ => return x,
        };
        let mask = self.b.u32(mask);
        self.b.binary(Op::And, x, mask)
    }

    /// Converts a float to an integer: truncates, saturates out of range, and maps NaN to 0. Only numbers in
    /// range reach the conversion.
    fn saturated(&mut self, from: DType, to: DType, x: Value) -> Value {
        let ty = self.carrier(to);
        let integer = match ty {
            Ty::I64 => DType::I64,
            Ty::U64 => DType::U64,
            Ty::U32 => DType::U32,
            _ => DType::I32,
        };
        // A half is exact as `f32`, and its range fits the comparisons below.
        let (from, x) = match from {
            DType::F16 => (DType::F32, self.b.convert(Ty::F32, x)),
            _ => (from, x),
        };
        let bits = 8 * ty.bytes() as i32 - i32::from(integer.is_signed());
        let above = self.known_value(Scalar::from_f64(from, 2f64.powi(bits)));
        let below = self
            .known_value(Scalar::from_f64(from, if integer.is_signed() { -(2f64.powi(bits)) } else { 0.0 }));
        let [least, greatest] =
            [f64::NEG_INFINITY, f64::INFINITY].map(|end| self.known_value(Scalar::from_f64(integer, end)));
        let too_high = self.b.binary(Op::GreaterEqual, x, above);
        let low_enough = self.b.binary(Op::Less, x, above);
        let high_enough = self.b.binary(Op::Greater, x, below);
        let fits = self.b.binary(Op::And, low_enough, high_enough);
        let too_low = self.b.binary(Op::LessEqual, x, below);
        let zero = self.known_value(Scalar::zero(from));
        let safe = self.b.select(fits, x, zero);
        let converted = self.b.convert(ty, safe);
        let converted = self.b.select(too_high, greatest, converted);
        self.b.select(too_low, least, converted)
    }

    /// Reinterprets the bits of a value as another type of the same size.
    pub(super) fn bitcast(&mut self, from: DType, to: DType, x: Value) -> Value {
        if from.size_bytes() >= 4 {
            return self.b.bitcast(self.carrier(to), x);
        }
        let bits = match (from, x.ty) {
            (DType::Bool, _) => {
                let [zero, one] = [0, 1].map(|k| self.b.u32(k));
                self.b.select(x, one, zero)
            }
            (DType::I8, _) => {
                let word = self.b.bitcast(Ty::U32, x);
                let mask = self.b.u32(0xff);
                self.b.binary(Op::And, word, mask)
            }
            (_, Ty::F16) => self.b.bits_of_half(x),
            _ => x,
        };
        match (to, self.carrier(to)) {
            (DType::I8, _) => {
                let word = self.b.bitcast(Ty::I32, bits);
                self.sign_extended(word)
            }
            (_, Ty::F16) => self.b.half_of_bits(bits),
            _ => bits,
        }
    }

    /// `a != b`, true for NaN: some targets compare ordered numbers only.
    pub(super) fn not_equal(&mut self, dtype: DType, a: Value, b: Value) -> Value {
        if !dtype.is_float() {
            return self.b.binary(Op::NotEqual, a, b);
        }
        let equal = self.b.binary(Op::Equal, a, b);
        self.b.unary(naga::UnaryOperator::LogicalNot, equal)
    }
}
