//! Lane-wise operations on one register.

use crate::lower::Lowering;
use crate::lower::arithmetic::{binary_float, sized};
use crate::machine::Reg;
use crate::op::Op;
use crate::program::{Binary, Comparison, LaneType, Unary, VectorOp, VectorType};

impl Lowering<'_> {
    /// Lowers an operation on registers.
    pub(in crate::lower) fn neon_arithmetic(&mut self, op: &VectorOp, ty: VectorType, srcs: &[Reg]) -> Reg {
        let (e, a) = (ty.element, srcs[0]);
        match op {
            VectorOp::Unary(op, _) if e.is_float() => self.neon_unary_float(*op, e, a),
            VectorOp::Unary(op, _) => self.neon_unary_integer(*op, e, a),
            VectorOp::Binary(op @ (Binary::Maximum | Binary::Minimum), ..) if e.is_float() => {
                self.neon_extreme(*op, ty, a, srcs[1])
            }
            VectorOp::Binary(Binary::Multiply, x, y) if e.is_float() => {
                match self.lane_first(ty, [(*x, a), (*y, srcs[1])]) {
                    Some(srcs) => self.emit(sized(e, Op::MulLaneF32, Op::MulLaneF64), &srcs),
                    None => self.emit(binary_float(Binary::Multiply, e), srcs),
                }
            }
            VectorOp::Binary(op, ..) if e.is_float() => self.emit(binary_float(*op, e), srcs),
            VectorOp::Binary(op, ..) => self.neon_binary_integer(*op, ty, a, srcs[1]),
            VectorOp::Fma(x, y, _) => {
                let negated = |reg: Reg| self.negations.get(&reg).map_or((reg, false), |of| (*of, true));
                let ((a, minus_a), (b, minus_b)) = (negated(a), negated(srcs[1]));
                let by_lane = self.lane_first(ty, [(*x, a), (*y, b)]);
                let op = match (by_lane.is_some(), minus_a != minus_b) {
                    (false, false) => sized(e, Op::FmaF32, Op::FmaF64),
                    (false, true) => sized(e, Op::FnmaF32, Op::FnmaF64),
                    (true, false) => sized(e, Op::FmaLaneF32, Op::FmaLaneF64),
                    (true, true) => sized(e, Op::FnmaLaneF32, Op::FnmaLaneF64),
                };
                let [a, b] = by_lane.unwrap_or([a, b]);
                self.emit(op, &[a, b, srcs[2]])
            }
            VectorOp::Compare(comparison, x, _) => {
                self.neon_compare(*comparison, self.ty(*x).element, a, srcs[1])
            }
            VectorOp::Select(..) => self.emit(Op::BlendV, &[srcs[2], srcs[1], a]),
            _ => unreachable!("these have no operands in registers"),
        }
    }

    /// The factors of a product of several lanes if one of them is in lane 0 only; that one first.
    fn lane_first(&self, ty: VectorType, factors: [(crate::program::Value, Reg); 2]) -> Option<[Reg; 2]> {
        let in_lane = |value: crate::program::Value| {
            self.ty(value).lanes == 1 && !self.values[value.0 as usize].broadcast
        };
        let [(x, a), (y, b)] = factors;
        match ty.lanes > 1 {
            true if in_lane(x) => Some([a, b]),
            true if in_lane(y) => Some([b, a]),
            _ => None,
        }
    }

    fn neon_unary_float(&mut self, op: Unary, e: LaneType, a: Reg) -> Reg {
        let (single, double) = match op {
            Unary::Negate => (Op::NegF32, Op::NegF64),
            Unary::Absolute => (Op::AbsF32, Op::AbsF64),
            Unary::SquareRoot => (Op::SqrtF32, Op::SqrtF64),
            Unary::Floor => (Op::FloorF32, Op::FloorF64),
            Unary::Truncate => (Op::TruncateF32, Op::TruncateF64),
            Unary::RoundEven => (Op::EvenF32, Op::EvenF64),
            Unary::Not => unreachable!("the check rejects it"),
        };
        let result = self.emit(sized(e, single, double), &[a]);
        if op == Unary::Negate {
            self.negations.insert(result, a);
        }
        result
    }

    fn neon_unary_integer(&mut self, op: Unary, e: LaneType, a: Reg) -> Reg {
        match op {
            Unary::Negate => self.emit(sized(e, Op::NegI32, Op::NegI64), &[a]),
            Unary::Absolute if !e.is_signed() => a,
            Unary::Absolute => self.emit(sized(e, Op::AbsI32, Op::AbsI64), &[a]),
            _ => self.emit(Op::Not, &[a]),
        }
    }

    /// The instruction orders zeros by their sign, and returns NaN if one operand is NaN. The result here is
    /// `a` if the operands are equal, which concerns zeros only.
    fn neon_extreme(&mut self, op: Binary, ty: VectorType, a: Reg, b: Reg) -> Reg {
        let (e, is_maximum) = (ty.element, op == Binary::Maximum);
        if self.is_number(ty, b) {
            let is_zero = |bits: u64| bits << 1 == 0;
            let lanes: Vec<u64> = self.constant_lanes(ty, b);
            if lanes.iter().all(|bits| *bits == 0) {
                let (single, double) = match is_maximum {
                    true => (Op::NegativeF32, Op::NegativeF64),
                    false => (Op::PositiveF32, Op::PositiveF64),
                };
                let beyond = self.emit(sized(e, single, double), &[a]);
                return self.emit(Op::AndNot, &[a, beyond]);
            }
            let sign = 64 - e.bits();
            if !lanes.iter().any(|bits| is_zero(bits << sign)) {
                return self.emit(binary_float(op, e), &[a, b]);
            }
        }
        let (greater, less) = if is_maximum { (a, b) } else { (b, a) };
        let first = self.emit(sized(e, Op::GeF32, Op::GeF64), &[greater, less]);
        let extreme = self.emit(binary_float(op, e), &[a, b]);
        self.emit(Op::BlendV, &[extreme, a, first])
    }

    /// The bits of each lane of a constant.
    fn constant_lanes(&self, ty: VectorType, reg: Reg) -> Vec<u64> {
        let words = self.unit.constant(reg).map_or(&[][..], |words| &words[..self.words()]);
        let size = (ty.element.bytes() / 4) as usize;
        let lane = |lane: &[u32]| lane.iter().rev().fold(0, |bits, word| bits << 32 | u64::from(*word));
        words.chunks(size).map(lane).collect()
    }

    fn neon_binary_integer(&mut self, op: Binary, ty: VectorType, a: Reg, b: Reg) -> Reg {
        let e = ty.element;
        match op {
            Binary::Add => self.emit(sized(e, Op::AddI32, Op::AddI64), &[a, b]),
            Binary::Subtract => self.emit(sized(e, Op::SubI32, Op::SubI64), &[a, b]),
            Binary::Multiply if e.bits() == 32 => self.emit(Op::MulI32, &[a, b]),
            Binary::Multiply => self.neon_multiply_i64(a, b),
            Binary::And => self.emit(Op::And, &[a, b]),
            Binary::Or => self.emit(Op::Or, &[a, b]),
            Binary::Xor => self.emit(Op::Xor, &[a, b]),
            Binary::ShiftLeft | Binary::ShiftRight => self.neon_shift(op, ty, a, b),
            Binary::Maximum | Binary::Minimum => {
                let is_maximum = op == Binary::Maximum;
                let single = match e {
                    LaneType::I32 if is_maximum => Op::MaxI32,
                    LaneType::I32 => Op::MinI32,
                    LaneType::U32 if is_maximum => Op::MaxU32,
                    LaneType::U32 => Op::MinU32,
                    _ => {
                        let (greater, less) = if is_maximum { (a, b) } else { (b, a) };
                        let first = self.neon_compare(Comparison::Less, e, less, greater);
                        return self.emit(Op::BlendV, &[b, a, first]);
                    }
                };
                self.emit(single, &[a, b])
            }
            Binary::Divide => unreachable!("the check rejects it"),
        }
    }

    /// `a · b` modulo 2⁶⁴, from the product of the low words and the low halves of the two cross products.
    fn neon_multiply_i64(&mut self, a: Reg, b: Reg) -> Reg {
        let swapped = self.emit(Op::SwapWords, &[b]);
        let cross = self.emit(Op::MulI32, &[a, swapped]);
        let cross = self.emit(Op::AddPairs, &[cross]);
        let high = self.emit_imm(Op::Shl64, &[cross], 32);
        let (a, b) = (self.emit(Op::PackU32, &[a]), self.emit(Op::PackU32, &[b]));
        let low = self.emit(Op::MulLow, &[a, b]);
        self.emit(Op::AddI64, &[low, high])
    }

    /// A shift by a variable amount is to the left, and to the right if the amount is negative.
    fn neon_shift(&mut self, op: Binary, ty: VectorType, a: Reg, b: Reg) -> Reg {
        let (e, is_left) = (ty.element, op == Binary::ShiftLeft);
        if let Some(amount) = self.known_amount(b, e.bits()) {
            let (single, double) = match (is_left, e.is_signed()) {
                (true, _) => (Op::Shl32, Op::Shl64),
                (false, true) => (Op::Sar32, Op::Sar64),
                (false, false) => (Op::Shr32, Op::Shr64),
            };
            return if amount == 0 { a } else { self.emit_imm(sized(e, single, double), &[a], amount) };
        }
        let rest = self.constant_of(ty, u64::from(e.bits() - 1));
        let mut amount = self.emit(Op::And, &[b, rest]);
        if !is_left {
            amount = self.emit(sized(e, Op::NegI32, Op::NegI64), &[amount]);
        }
        let (single, double) = match !is_left && e.is_signed() {
            true => (Op::SignedShlV32, Op::SignedShlV64),
            false => (Op::ShlV32, Op::ShlV64),
        };
        self.emit(sized(e, single, double), &[a, amount])
    }

    fn neon_compare(&mut self, comparison: Comparison, e: LaneType, a: Reg, b: Reg) -> Reg {
        let (greater, at_least, equal) = match e {
            LaneType::F32 => (Op::GtF32, Op::GeF32, Op::EqF32),
            LaneType::F64 => (Op::GtF64, Op::GeF64, Op::EqF64),
            LaneType::I32 => (Op::GtI32, Op::GeI32, Op::EqI32),
            LaneType::U32 => (Op::GtU32, Op::GeU32, Op::EqI32),
            LaneType::I64 => (Op::GtI64, Op::GeI64, Op::EqI64),
            LaneType::U64 => (Op::GtU64, Op::GeU64, Op::EqI64),
        };
        match comparison {
            Comparison::Less => self.emit(greater, &[b, a]),
            Comparison::LessEqual => self.emit(at_least, &[b, a]),
            Comparison::Equal => self.emit(equal, &[a, b]),
            Comparison::NotEqual => {
                let equal = self.emit(equal, &[a, b]);
                self.emit(Op::Not, &[equal])
            }
        }
    }
}
