//! 16-bit floats: kept in their own format, computed in `f32`, and rounded once.

use codegen_core::{DType, Scalar};
use ptx_asm::{CmpOp, PtxBinaryOp, PtxOperand, Reg, RegClass, RoundingMode, Target, Ty};

use super::{Emitter, Value};

impl Emitter<'_> {
    /// A value as an operand of the type in which it is computed.
    pub(super) fn widened(&mut self, dtype: DType, value: Value) -> PtxOperand {
        match (dtype, value) {
            (DType::F16 | DType::Bf16, Value::Known(scalar)) => {
                PtxOperand::Const(scalar.convert(DType::F32).bits() as u64)
            }
            (DType::F16, value) => {
                let reg = self.reg(value);
                self.b.convert(Ty::F32, Ty::F16, RoundingMode::None, reg).into()
            }
            (DType::Bf16, value) => {
                let low = self.b.mov(RegClass::B16, PtxOperand::Const(0));
                let high = self.reg(value);
                let word = self.b.pack(RegClass::B32, low, high);
                self.b.recast(RegClass::F32, word).into()
            }
            (_, value) => self.operand(value),
        }
    }

    /// Rounds an `f32` result to the value's type, to nearest even.
    pub(super) fn rounded(&mut self, dtype: DType, result: Reg) -> Reg {
        match dtype {
            DType::F16 => self.b.convert(Ty::F16, Ty::F32, RoundingMode::Nearest, result),
            DType::Bf16 if self.setting.target == Target::Sm70 => self.rounded_by_bits(result),
            DType::Bf16 => self.b.convert(Ty::Bf16, Ty::F32, RoundingMode::Nearest, result),
            _ => result,
        }
    }

    /// Rounds to `bf16` by adding the carry of the lower half to the bits. Must not be used for NaN.
    fn rounded_by_bits(&mut self, x: Reg) -> Reg {
        let word = self.b.recast(RegClass::B32, x);
        let high = self.b.binary(PtxBinaryOp::ShiftRight, Ty::U32, word, 16u32);
        let odd = self.b.binary(PtxBinaryOp::And, Ty::B32, high, 1u32);
        let sum = self.b.binary(PtxBinaryOp::Add, Ty::U32, word, 0x7fffu32);
        let sum = self.b.binary(PtxBinaryOp::Add, Ty::U32, sum, odd);
        let rounded = self.b.binary(PtxBinaryOp::ShiftRight, Ty::U32, sum, 16u32);
        let is_nan = self.b.compare(CmpOp::IsNan, Ty::F32, x, x);
        let nan = Scalar::from_f64(DType::Bf16, f64::NAN).bits() as u32;
        let kept = self.b.select(Ty::B32, is_nan, nan, rounded);
        self.b.convert(Ty::U16, Ty::U32, RoundingMode::None, kept)
    }

    /// Rounds a number to an `f32` to odd: truncated, with the last bit set if the result is inexact.
    /// Rounding that to a 16-bit float equals rounding the number itself. NaN stays NaN.
    pub(super) fn rounded_to_odd(&mut self, from: Ty, x: Reg) -> Reg {
        let near = self.b.convert(Ty::F32, from, RoundingMode::Zero, x);
        let back = match from {
            Ty::F64 => self.b.convert(Ty::F64, Ty::F32, RoundingMode::None, near),
            _ => self.b.convert(from, Ty::F32, RoundingMode::ZeroInteger, near),
        };
        let inexact = self.b.compare(CmpOp::Ne, from, back, x);
        let last = self.b.select(Ty::B32, inexact, 1u32, 0u32);
        let word = self.b.recast(RegClass::B32, near);
        let odd = self.b.binary(PtxBinaryOp::Or, Ty::B32, word, last);
        self.b.recast(RegClass::F32, odd)
    }
}
