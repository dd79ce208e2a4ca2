//! Conversions, all of them total.

use codegen_core::{Checked, DType, Scalar, reject};
use ptx_asm::{CmpOp, PtxBinaryOp, PtxOperand, Reg, RegClass, RoundingMode, Ty};

use super::ops::computed_in;
use super::{Emitter, Value, carrier, constant};

impl Emitter<'_> {
    /// Converts a value of type `from` to type `to`.
    pub(super) fn convert(&mut self, from: DType, to: DType, x: Value) -> Checked<Value> {
        if from == to {
            return Ok(x);
        }
        let is_emulated = |d: DType| d.is_float() && d.size_bytes() == 1;
        if from == DType::U32x4 || to == DType::U32x4 || is_emulated(from) || is_emulated(to) {
            return reject(format!("convert {to}({from})"), "legalization expands it");
        }
        let reg = self.reg(x);
        Ok(Value::In(match (from.is_float(), to.is_float()) {
            _ if from == DType::Bool => {
                let [one, zero] = [1, 0].map(|k| constant(Scalar::from_i64(to, k)));
                let ty = if carrier(to).class() == RegClass::B16 { Ty::B16 } else { carrier(to) };
                self.b.select(ty, reg, one, zero)
            }
            _ if to == DType::Bool => {
                let x = self.widened(from, x);
                let ne = if from.is_float() { CmpOp::NeOrNan } else { CmpOp::Ne };
                self.b.compare(ne, computed_in(from), x, PtxOperand::Const(0))
            }
            (true, true) => self.float_to_float(from, to, x),
            (true, false) => {
                let wide = self.saturated(from, to, x);
                self.wrapped(to, wide)
            }
            (false, true) => self.integer_to_float(from, to, reg),
            (false, false) => {
                let resized = self.resized(from, to, reg);
                self.wrapped(to, resized)
            }
        }))
    }

    fn float_to_float(&mut self, from: DType, to: DType, x: Value) -> Reg {
        let operand = self.widened(from, x);
        let (ty, reg) = (computed_in(from), self.operand_register(computed_in(from), operand));
        match (ty, to) {
            (Ty::F64, DType::F32) => self.b.convert(Ty::F32, ty, RoundingMode::Nearest, reg),
            (Ty::F64, _) => {
                let single = self.rounded_to_odd(ty, reg);
                self.rounded(to, single)
            }
            (_, DType::F64) => self.b.convert(Ty::F64, ty, RoundingMode::None, reg),
            _ => self.rounded(to, reg),
        }
    }

    fn integer_to_float(&mut self, from: DType, to: DType, x: Reg) -> Reg {
        let ty = carrier(from);
        match to {
            DType::F32 | DType::F64 => self.b.convert(carrier(to), ty, RoundingMode::Nearest, x),
            _ => {
                let single = self.rounded_to_odd(ty, x);
                self.rounded(to, single)
            }
        }
    }

    /// Converts a float to an integer of 32 or 64 bits: truncated, clamped to the range, 0 for NaN.
    /// Conversions from or to 64 bits give another integer for NaN.
    fn saturated(&mut self, from: DType, to: DType, x: Value) -> Reg {
        let operand = self.widened(from, x);
        let ty = computed_in(from);
        let x = self.operand_register(ty, operand);
        let integer = carrier(to);
        let converted = self.b.convert(integer, ty, RoundingMode::ZeroInteger, x);
        if ty == Ty::F32 && integer.class() == RegClass::B32 {
            return converted;
        }
        let is_nan = self.b.compare(CmpOp::IsNan, ty, x, x);
        self.b.select(integer, is_nan, PtxOperand::Const(0), converted)
    }

    /// An integer in the register of another integer type.
    fn resized(&mut self, from: DType, to: DType, x: Reg) -> Reg {
        match (carrier(from), carrier(to).class()) {
            (ty @ Ty::S32, RegClass::B64) => self.b.convert(Ty::S64, ty, RoundingMode::None, x),
            (ty @ Ty::U32, RegClass::B64) => self.b.convert(Ty::U64, ty, RoundingMode::None, x),
            (Ty::S64 | Ty::U64, RegClass::B32) => self.b.convert(Ty::U32, Ty::U64, RoundingMode::None, x),
            _ => x,
        }
    }

    /// Truncates a word to a narrow integer and extends it again.
    fn wrapped(&mut self, dtype: DType, x: Reg) -> Reg {
        match dtype {
            DType::U8 => self.b.binary(PtxBinaryOp::And, Ty::B32, x, 0xffu32),
            DType::U16 => self.b.binary(PtxBinaryOp::And, Ty::B32, x, 0xffffu32),
            DType::I8 => {
                let high = self.b.binary(PtxBinaryOp::ShiftLeft, Ty::B32, x, 24u32);
                self.b.binary(PtxBinaryOp::ShiftRight, Ty::S32, high, 24u32)
            }
            _ => x,
        }
    }

    /// The bits of a value as another type of the same size.
    pub(super) fn bitcast(&mut self, from: DType, to: DType, x: Value) -> Value {
        let reg = self.reg(x);
        let is_half = |d: DType| matches!(d, DType::F16 | DType::Bf16);
        Value::In(match (from, to) {
            (DType::Bool, _) => self.b.select(carrier(to), reg, 1u32, 0u32),
            (DType::I8, _) => self.b.binary(PtxBinaryOp::And, Ty::B32, reg, 0xffu32),
            (_, DType::I8) => self.wrapped(DType::I8, reg),
            _ if is_half(from) && is_half(to) => reg,
            _ if is_half(from) => self.b.convert(Ty::U32, Ty::U16, RoundingMode::None, reg),
            _ if is_half(to) => self.b.convert(Ty::U16, Ty::U32, RoundingMode::None, reg),
            _ => self.b.recast(carrier(to).class(), reg),
        })
    }
}
