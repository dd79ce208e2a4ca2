//! Conversions between element types, and between single values and lanes.

use std::convert::Infallible;

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{Opcode, Type, Value, types};
use lowered_ir::ir::BinaryOp;
use lowered_ir::math::narrow::{self, NarrowAlgebra};
use tnode::{DType, Scalar};

use super::Emitter;
use super::repr::{self, LANES, Val};
use crate::caps::CONVERTED_TYPES;

impl Emitter<'_> {
    /// Converts a value to another type, as [`tnode::Scalar::convert`] defines it.
    pub(super) fn convert(&mut self, from: DType, to: DType, x: &Val) -> Val {
        if from == to {
            return x.clone();
        }
        if CONVERTED_TYPES.contains(from) {
            let Ok(wide) = narrow::decode(self, from, x.clone());
            return wide;
        }
        if CONVERTED_TYPES.contains(to) {
            let Ok(bits) = narrow::encode(self, to, x.clone());
            return bits;
        }
        if !x.wide {
            return Val::one(self.convert_one(from, to, x.first()));
        }
        match self.convert_lanes(from, to, x) {
            Some(lanes) => lanes,
            None => self.lane_by_lane(to, &[(from, x)], |s, v| s.convert_one(from, to, v[0])),
        }
    }

    /// Reinterprets the bits as another type of the same size.
    pub(super) fn bitcast(&mut self, from: DType, to: DType, x: &Val) -> Val {
        if from == DType::Bool {
            return self.convert(from, DType::U8, x);
        }
        let ty = repr::register(to, x.wide);
        self.each(to, &[x], |s, v| s.ssa.bitcast(ty, v[0]))
    }

    pub(super) fn convert_one(&mut self, from: DType, to: DType, x: Value) -> Value {
        match (from, to) {
            _ if from == to => x,
            (DType::F32, DType::F64) => self.ssa.unary(Opcode::Fpromote, types::F64, x),
            (DType::F64, DType::F32) => self.ssa.unary(Opcode::Fdemote, types::F32, x),
            (_, DType::Bool) => self.is_not_zero(from, x),
            _ if from.is_float() => self.float_to_int(to, x),
            _ if to.is_float() => self.int_to_float(from, to, x),
            _ => {
                let ty = repr::one(to);
                if ty.bits() > repr::one(from).bits() { self.extend(from, ty, x) } else { self.reduce(ty, x) }
            }
        }
    }

    fn is_not_zero(&mut self, from: DType, x: Value) -> Value {
        let ty = self.ssa.type_of(x);
        let zero = self.splat_bits(ty, 0);
        if from.is_float() {
            self.ssa.fcmp(FloatCC::NotEqual, x, zero)
        } else {
            self.ssa.icmp(IntCC::NotEqual, x, zero)
        }
    }

    fn float_to_int(&mut self, to: DType, x: Value) -> Value {
        let ty = repr::one(to);
        if ty.bits() >= 32 {
            let opcode = if to.is_signed() { Opcode::FcvtToSintSat } else { Opcode::FcvtToUintSat };
            return self.ssa.unary(opcode, ty, x);
        }
        let wide = self.ssa.unary(Opcode::FcvtToSintSat, types::I32, x);
        let clamped = self.clamp(to, wide);
        self.reduce(ty, clamped)
    }

    /// Clamps 32-bit numbers to the range of a narrower type.
    fn clamp(&mut self, to: DType, x: Value) -> Value {
        let bits = 8 * to.size_bytes() as u32;
        let (least, greatest) = if to.is_signed() {
            (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1)
        } else {
            (0, (1i64 << bits) - 1)
        };
        let ty = self.ssa.type_of(x);
        let (least, greatest) = (self.splat_bits(ty, least as u64), self.splat_bits(ty, greatest as u64));
        let above = self.ssa.binary(Opcode::Smax, x, least);
        self.ssa.binary(Opcode::Smin, above, greatest)
    }

    fn int_to_float(&mut self, from: DType, to: DType, x: Value) -> Value {
        let ty = repr::one(to);
        match from {
            DType::U64 => self.ssa.unary(Opcode::FcvtFromUint, ty, x),
            DType::I64 => self.ssa.unary(Opcode::FcvtFromSint, ty, x),
            // A signed number of the next width represents every narrower number.
            _ => {
                let wide = if from == DType::U32 { types::I64 } else { types::I32 };
                let x = self.extend(from, wide, x);
                self.ssa.unary(Opcode::FcvtFromSint, ty, x)
            }
        }
    }

    /// Converts lanes, if there is a vector instruction.
    fn convert_lanes(&mut self, from: DType, to: DType, x: &Val) -> Option<Val> {
        let v = x.first();
        let is_small = |d: DType| d.size_bytes() <= 4 && !d.is_float();
        Some(match (from, to) {
            (DType::Bool, DType::F32) => {
                let one = self.splat_bits(types::F32X4, u64::from(1f32.to_bits()));
                let mask = self.ssa.bitcast(types::F32X4, v);
                Val::lanes([self.ssa.binary(Opcode::Band, mask, one)])
            }
            (DType::Bool, _) if is_small(to) => {
                let one = self.splat_bits(types::I32X4, 1);
                Val::lanes([self.ssa.binary(Opcode::Band, v, one)])
            }
            (DType::F32, DType::Bool) => Val::lanes([self.is_not_zero(from, v)]),
            (_, DType::Bool) if is_small(from) => Val::lanes([self.is_not_zero(from, v)]),
            (_, DType::Bool) => {
                let halves = [x.parts[0], x.parts[1]].map(|p| self.is_not_zero(from, p));
                Val::lanes([self.narrow_pair(halves[0], halves[1])])
            }
            (_, DType::F32) if is_small(from) => {
                let opcode = if from == DType::U32 { Opcode::FcvtFromUint } else { Opcode::FcvtFromSint };
                Val::lanes([self.ssa.unary(opcode, types::F32X4, v)])
            }
            (DType::F32, DType::I32) => Val::lanes([self.ssa.unary(Opcode::FcvtToSintSat, types::I32X4, v)]),
            (DType::F32, DType::U32) => Val::lanes([self.ssa.unary(Opcode::FcvtToUintSat, types::I32X4, v)]),
            (DType::F32, _) if is_small(to) => {
                let wide = self.ssa.unary(Opcode::FcvtToSintSat, types::I32X4, v);
                Val::lanes([self.clamp(to, wide)])
            }
            (DType::F32, DType::F64) => {
                let high =
                    self.ssa.shuffle(v, v, [8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15]);
                let high = self.ssa.bitcast(types::F32X4, high);
                Val::lanes([v, high].map(|p| self.ssa.unary(Opcode::FvpromoteLow, types::F64X2, p)))
            }
            (DType::F64, DType::F32) => {
                let halves =
                    [x.parts[0], x.parts[1]].map(|p| self.ssa.unary(Opcode::Fvdemote, types::F32X4, p));
                let both = self.ssa.shuffle(halves[0], halves[1], LOW_HALVES);
                Val::lanes([self.ssa.bitcast(types::F32X4, both)])
            }
            (_, DType::I64 | DType::U64) if is_small(from) && from != DType::Bool => {
                let opcodes = match from.is_signed() {
                    true => [Opcode::SwidenLow, Opcode::SwidenHigh],
                    false => [Opcode::UwidenLow, Opcode::UwidenHigh],
                };
                Val::lanes(opcodes.map(|opcode| self.ssa.unary(opcode, types::I32X4, v)))
            }
            (DType::I64 | DType::U64, DType::I64 | DType::U64) => x.clone(),
            (DType::I64 | DType::U64, _) if is_small(to) => {
                let low = self.narrow_pair(x.parts[0], x.parts[1]);
                self.each(to, &[&Val::lanes([low])], |_, v| v[0])
            }
            _ if is_small(from) && is_small(to) => self.each(to, &[x], |_, v| v[0]),
            _ => return None,
        })
    }

    /// A lane as a single value; a single value is returned unchanged.
    pub(super) fn lane(&mut self, dtype: DType, x: &Val, lane: usize) -> Value {
        if !x.wide {
            return x.first();
        }
        if repr::wide_parts(dtype) == 2 {
            return self.ssa.extract(x.parts[lane / 2], lane % 2);
        }
        let value = self.ssa.extract(x.first(), lane);
        let ty = repr::one(dtype);
        if dtype == DType::Bool {
            let (bits, one) = (self.reduce(ty, value), self.ssa.int(ty, 1));
            return self.ssa.binary(Opcode::Band, bits, one);
        }
        if ty.is_int() { self.reduce(ty, value) } else { value }
    }

    /// Assembles lanes from single values.
    pub(super) fn assemble(&mut self, dtype: DType, lanes: &[Value]) -> Val {
        if lanes.iter().all(|&v| v == lanes[0]) {
            return self.broadcast(dtype, lanes[0]);
        }
        let ty = repr::wide(dtype);
        let lanes: Vec<Value> = lanes.iter().map(|&v| self.lane_sized(dtype, v)).collect();
        let parts: Vec<Value> = lanes
            .chunks(LANES / repr::wide_parts(dtype))
            .map(|chunk| {
                let first = self.ssa.splat(ty, chunk[0]);
                (1..chunk.len()).fold(first, |v, lane| self.ssa.insert(v, lane, chunk[lane]))
            })
            .collect();
        if dtype == DType::Bool {
            Val::lanes([self.is_not_zero(DType::I32, parts[0])])
        } else {
            Val::lanes(parts)
        }
    }

    /// Broadcasts a single value to lanes.
    pub(super) fn broadcast(&mut self, dtype: DType, value: Value) -> Val {
        let ty = repr::wide(dtype);
        let value = match dtype {
            DType::Bool => self.ssa.unary(Opcode::Bmask, types::I32, value),
            _ => self.lane_sized(dtype, value),
        };
        let splat = self.ssa.splat(ty, value);
        Val::lanes(std::iter::repeat_n(splat, repr::wide_parts(dtype)))
    }

    /// Extends a value to the width of a lane.
    fn lane_sized(&mut self, dtype: DType, value: Value) -> Value {
        if repr::one(dtype).bits() < 32 { self.extend(dtype, types::I32, value) } else { value }
    }

    /// Packs the low halves of two pairs of 64-bit lanes to four 32-bit lanes.
    pub(super) fn narrow_pair(&mut self, low: Value, high: Value) -> Value {
        let bytes = [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27];
        let picked = self.ssa.shuffle(low, high, bytes);
        self.ssa.bitcast(types::I32X4, picked)
    }

    /// Converts a condition to masks as wide as the lanes of `dtype`.
    pub(super) fn masks_for(&mut self, dtype: DType, condition: &Val) -> Val {
        match (condition.parts.as_slice(), repr::wide_parts(dtype)) {
            (&[mask], 2) => {
                let opcodes = [Opcode::SwidenLow, Opcode::SwidenHigh];
                Val::lanes(opcodes.map(|opcode| self.ssa.unary(opcode, types::I32X4, mask)))
            }
            (&[low, high], 1) => Val::lanes([self.narrow_pair(low, high)]),
            _ => condition.clone(),
        }
    }

    /// Extends an integer to a wider register by the sign of its type.
    pub(super) fn extend(&mut self, from: DType, ty: Type, x: Value) -> Value {
        if self.ssa.type_of(x) == ty {
            return x;
        }
        let signed = from.is_integer() && from.is_signed();
        self.ssa.unary(if signed { Opcode::Sextend } else { Opcode::Uextend }, ty, x)
    }

    /// Truncates an integer to its low bits.
    pub(super) fn reduce(&mut self, ty: Type, x: Value) -> Value {
        if self.ssa.type_of(x) == ty { x } else { self.ssa.unary(Opcode::Ireduce, ty, x) }
    }
}

/// Conversions of narrow floats from and to `f32`, which have no instruction here.
impl NarrowAlgebra for Emitter<'_> {
    type Value = Val;
    type Error = Infallible;

    fn constant(&mut self, x: Scalar) -> Val {
        self.scalar(x)
    }

    fn binary(&mut self, op: BinaryOp, dtype: DType, a: Val, b: Val) -> Result<Val, Infallible> {
        let [a, b] = self.alike([(dtype, a), (dtype, b)]);
        Ok(Emitter::binary(self, op, dtype, &a, &b))
    }

    fn shift(&mut self, op: BinaryOp, x: Val, by: u32) -> Result<Val, Infallible> {
        Ok(Emitter::shift(self, op, DType::U32, &x, u64::from(by)))
    }

    fn select(&mut self, condition: Val, then: Val, otherwise: Val) -> Val {
        let operands = [(DType::Bool, condition), (DType::U32, then), (DType::U32, otherwise)];
        let [condition, then, otherwise] = self.alike(operands);
        Emitter::select(self, DType::U32, &condition, &then, &otherwise)
    }

    fn convert(&mut self, from: DType, to: DType, x: Val) -> Val {
        Emitter::convert(self, from, to, &x)
    }

    fn bitcast(&mut self, from: DType, to: DType, x: Val) -> Val {
        Emitter::bitcast(self, from, to, &x)
    }
}

/// The byte positions that pack the first halves of two registers.
const LOW_HALVES: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
