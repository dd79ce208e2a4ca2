//! Conversions between lane types. The instructions saturate, and convert NaN to 0.

use crate::code::VectorCompileError;
use crate::lower::Lowering;
use crate::machine::Reg;
use crate::op::Op;
use crate::program::LaneType::{self, F32, F64, I32, I64, U32, U64};

impl Lowering<'_> {
    /// Converts the 32-bit numbers in the lower or the upper half of a register to 64 bits.
    pub(in crate::lower) fn neon_widen(
        &mut self,
        from: LaneType,
        to: LaneType,
        a: Reg,
        is_high: bool,
    ) -> Result<Reg, VectorCompileError> {
        let (op, wide) = match (from, is_high) {
            (F32, false) => (Op::F32ToF64, F64),
            (F32, true) => (Op::F32ToF64High, F64),
            (I32, false) => (Op::ExtendI32, I64),
            (I32, true) => (Op::ExtendI32High, I64),
            (_, false) => (Op::ExtendU32, U64),
            (_, true) => (Op::ExtendU32High, U64),
        };
        let extended = self.emit(op, &[a]);
        self.neon_same_size(wide, to, extended)
    }

    /// Converts the 64-bit numbers of one or two registers to 32 bits.
    pub(in crate::lower) fn neon_narrow(
        &mut self,
        from: LaneType,
        to: LaneType,
        low: Reg,
        high: Option<Reg>,
    ) -> Result<Reg, VectorCompileError> {
        let (through, op, op_high) = match (from, to) {
            (F64, F32) => (F64, Op::F64ToF32, Op::F64ToF32High),
            (F64, I32) => (I64, Op::SaturateI32, Op::SaturateI32High),
            (F64, U32) => (U64, Op::SaturateU32, Op::SaturateU32High),
            (I64 | U64, I32 | U32) => (from, Op::PackU32, Op::PackU32High),
            _ => return Err(Self::unsupported(from, to)),
        };
        let low = self.neon_same_size(from, through, low)?;
        let packed = self.emit(op, &[low]);
        let Some(high) = high else { return Ok(packed) };
        let high = self.neon_same_size(from, through, high)?;
        Ok(self.emit(op_high, &[packed, high]))
    }

    pub(in crate::lower) fn neon_same_size(
        &mut self,
        from: LaneType,
        to: LaneType,
        a: Reg,
    ) -> Result<Reg, VectorCompileError> {
        let op = match (from, to) {
            (I32, F32) => Op::I32ToF32,
            (U32, F32) => Op::U32ToF32,
            (F32, I32) => Op::F32ToI32,
            (F32, U32) => Op::F32ToU32,
            (I64, F64) => Op::I64ToF64,
            (U64, F64) => Op::U64ToF64,
            (F64, I64) => Op::F64ToI64,
            (F64, U64) => Op::F64ToU64,
            _ if from == to || !from.is_float() && !to.is_float() => return Ok(a),
            _ => return Err(Self::unsupported(from, to)),
        };
        Ok(self.emit(op, &[a]))
    }
}
