//! Fused multiply-add without an instruction for it.
//!
//! The product of two `f32` is exact as `f64`. The sum is rounded to odd: toward zero, and then its last bit
//! is set if it is inexact. As `f64` has more than two bits beyond those of `f32`, rounding that to `f32`
//! gives the sum rounded once (Boldo and Melquiond, *Emulation of FMA and correctly rounded sums*, 2008).
//! Products and sums of `f32` neither overflow nor underflow as `f64`.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{Opcode, Value, types};
use lowered_ir::ir::BinaryOp;
use tnode::DType;

use super::Emitter;
use super::repr::Val;

impl Emitter<'_> {
    /// `a * b + c` of `f32`, rounded once, by operations on `f64`.
    pub(super) fn fma_by_f64(&mut self, a: &Val, b: &Val, c: &Val) -> Val {
        let [a, b, c] = [a, b, c].map(|x| self.convert(DType::F32, DType::F64, x));
        let product = self.binary(BinaryOp::Mul, DType::F64, &a, &b);
        let sum = self.binary(BinaryOp::Add, DType::F64, &product, &c);
        let error = self.error_of_sum(&product, &c, &sum);
        let odd = self.each(DType::F64, &[&sum, &error], |s, v| s.rounded_to_odd(v[0], v[1]));
        self.convert(DType::F64, DType::F32, &odd)
    }

    /// The difference of the sum of two `f64` from its rounded value (Knuth's TwoSum), exactly. It is NaN if
    /// the sum is not finite.
    fn error_of_sum(&mut self, a: &Val, b: &Val, sum: &Val) -> Val {
        let mut subtract = |a: &Val, b: &Val| self.binary(BinaryOp::Sub, DType::F64, a, b);
        let part_of_b = subtract(sum, a);
        let part_of_a = subtract(sum, &part_of_b);
        let [missing_a, missing_b] = [subtract(a, &part_of_a), subtract(b, &part_of_b)];
        self.binary(BinaryOp::Add, DType::F64, &missing_a, &missing_b)
    }

    /// A sum with this error, rounded to odd.
    fn rounded_to_odd(&mut self, sum: Value, error: Value) -> Value {
        let ty = self.ssa.type_of(sum);
        let int = if ty.is_vector() { types::I64X2 } else { types::I64 };
        let [bits, error_bits] = [sum, error].map(|x| self.ssa.bitcast(int, x));
        // A sum beyond the true one is one step too far from zero if its error has the other sign.
        let signs = self.ssa.binary(Opcode::Bxor, bits, error_bits);
        let shift = self.ssa.int(types::I32, 63);
        let is_beyond = self.ssa.binary(Opcode::Ushr, signs, shift);
        let toward_zero = self.ssa.binary(Opcode::Isub, bits, is_beyond);
        let one = self.splat_bits(int, 1);
        let odd = self.ssa.binary(Opcode::Bor, toward_zero, one);
        let odd = self.ssa.bitcast(ty, odd);
        // The comparison with NaN is false, so sums that are not finite stay.
        let magnitude = self.ssa.unary(Opcode::Fabs, ty, error);
        let zero = self.constant(DType::F64, ty, 0.0);
        let is_inexact = self.ssa.fcmp(FloatCC::LessThan, zero, magnitude);
        self.choose(is_inexact, odd, sum)
    }
}
