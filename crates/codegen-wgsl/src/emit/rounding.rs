//! Rounding by adding and subtracting a large constant, as the expansions of `exp` and others do.
//!
//! Shading languages permit compilers to reorder sums, and drivers do simplify `(x + c) - c` to `x`. Where
//! the sum is in the binade of the constant, in which the last place has the value 1, the difference of the
//! floats equals the difference of their bits as integers, which compilers do not simplify.

use codegen_core::math::Format;
use codegen_core::{DType, Scalar};
use naga::BinaryOperator as Op;

use super::Emitter;
use crate::builder::{Ty, Value};

impl Emitter<'_> {
    /// `sum - rounder`, if `rounder` is the constant that rounds numbers of its type to integers.
    pub(super) fn minus_rounder(&mut self, sum: Value, rounder: Scalar) -> Option<Value> {
        let (format, integers) = match rounder.dtype() {
            DType::F32 => (Format::Single, Ty::I32),
            DType::F64 if self.caps.arithmetic.contains(DType::I64) => (Format::Double, Ty::I64),
            _ => return None,
        };
        if rounder.as_f64() != format.rounder() {
            return None;
        }
        let (bits, zero) = (self.b.bitcast(integers, sum), self.b.bits(integers, rounder.bits() as u64));
        let apart = self.b.binary(Op::Subtract, bits, zero);
        let half = 1i64 << (format.mantissa_bits() - 1);
        let (least, end) =
            (self.b.bits(integers, truncated(-half, integers)), self.b.bits(integers, half as u64));
        let (from, to) = (self.b.binary(Op::GreaterEqual, apart, least), self.b.binary(Op::Less, apart, end));
        let is_within = self.b.binary(Op::LogicalAnd, from, to);
        let rounded = self.b.convert(sum.ty, apart);
        let constant = self.known_value(rounder);
        // The difference of the floats, for numbers that are too large for this method, infinities and NaN.
        let difference = self.b.binary(Op::Subtract, sum, constant);
        Some(self.b.select(is_within, rounded, difference))
    }
}

/// The bits of an integer of the type.
fn truncated(x: i64, ty: Ty) -> u64 {
    if ty == Ty::I32 { u64::from(x as i32 as u32) } else { x as u64 }
}
