//! Lane-wise operations on one part of a value, that is, on one register.

use super::Lowering;
use crate::code::VectorCompileError;
use crate::machine::Reg;
use crate::op::Op;
use crate::program::{Binary, Comparison, LaneType, Unary, VectorOp, VectorType};

/// Predicates of `vcmpps` and `vcmppd` that do not signal on quiet NaN.
pub(super) mod predicate {
    pub(crate) const EQUAL: u16 = 0;
    pub(crate) const UNORDERED: u16 = 3;
    pub(crate) const NOT_EQUAL: u16 = 4;
    pub(crate) const ORDERED: u16 = 7;
    pub(crate) const LESS: u16 = 17;
    pub(crate) const LESS_EQUAL: u16 = 18;
    pub(crate) const GREATER_EQUAL: u16 = 29;
}

/// Selects an instruction by the size of the lane: 32 or 64 bits.
pub(super) fn sized(element: LaneType, single: Op, double: Op) -> Op {
    if element.bits() == 32 { single } else { double }
}

impl Lowering<'_> {
    /// Lowers an operation on registers.
    pub(super) fn arithmetic(
        &mut self,
        op: &VectorOp,
        ty: VectorType,
        srcs: &[Reg],
    ) -> Result<Reg, VectorCompileError> {
        if self.is_neon() {
            return Ok(self.neon_arithmetic(op, ty, srcs));
        }
        Ok(match op {
            VectorOp::Unary(op, _) if ty.element.is_float() => self.unary_float(*op, ty, srcs[0]),
            VectorOp::Unary(op, _) => self.unary_integer(*op, ty, srcs[0]),
            VectorOp::Binary(op @ (Binary::Maximum | Binary::Minimum), ..) if ty.element.is_float() => {
                self.extreme_float(*op, ty, srcs[0], srcs[1])
            }
            VectorOp::Binary(op, ..) if ty.element.is_float() => {
                self.emit(binary_float(*op, ty.element), srcs)
            }
            VectorOp::Binary(op, ..) => self.binary_integer(*op, ty, srcs[0], srcs[1]),
            VectorOp::Fma(..) => self.fma(ty, srcs[0], srcs[1], srcs[2]),
            VectorOp::Compare(comparison, a, _) => self.compare(*comparison, self.ty(*a), srcs[0], srcs[1]),
            VectorOp::Select(..) => self.emit(Op::BlendV, &[srcs[2], srcs[1], srcs[0]]),
            _ => unreachable!("these have no operands in registers"),
        })
    }

    fn unary_float(&mut self, op: Unary, ty: VectorType, a: Reg) -> Reg {
        let e = ty.element;
        let sign = 1 << (e.bits() - 1);
        match op {
            Unary::Negate => {
                let sign = self.constant_of(ty, sign);
                let negative = self.emit(Op::XorF, &[a, sign]);
                self.negations.insert(negative, a);
                negative
            }
            Unary::Absolute => {
                let rest = self.constant_of(ty, !sign);
                self.emit(Op::AndF, &[a, rest])
            }
            Unary::SquareRoot => self.emit(sized(e, Op::SqrtF32, Op::SqrtF64), &[a]),
            Unary::Floor => self.emit_imm(sized(e, Op::RoundF32, Op::RoundF64), &[a], 9),
            Unary::Truncate => self.emit_imm(sized(e, Op::RoundF32, Op::RoundF64), &[a], 11),
            Unary::RoundEven => self.emit_imm(sized(e, Op::RoundF32, Op::RoundF64), &[a], 8),
            Unary::Not => unreachable!("the check rejects it"),
        }
    }

    fn unary_integer(&mut self, op: Unary, ty: VectorType, a: Reg) -> Reg {
        let e = ty.element;
        let zero = self.constant32(0);
        match op {
            Unary::Negate => self.emit(sized(e, Op::SubI32, Op::SubI64), &[zero, a]),
            Unary::Absolute if !e.is_signed() => a,
            Unary::Absolute if e.bits() == 32 => self.emit(Op::AbsI32, &[a]),
            // Negative numbers are negated: their bits are flipped, and 1 is added.
            Unary::Absolute => {
                let negative = self.emit(Op::GtI64, &[zero, a]);
                let flipped = self.emit(Op::Xor, &[a, negative]);
                self.emit(Op::SubI64, &[flipped, negative])
            }
            _ => self.flip(a),
        }
    }

    /// Flips every bit.
    fn flip(&mut self, a: Reg) -> Reg {
        let ones = self.constant32(u32::MAX);
        self.emit(Op::Xor, &[a, ones])
    }

    fn fma(&mut self, ty: VectorType, a: Reg, b: Reg, c: Reg) -> Reg {
        use Op::{FmaF32, FmaF64, FmsF32, FmsF64, FnmaF32, FnmaF64, FnmsF32, FnmsF64};
        let take = |reg: Reg| self.negations.get(&reg).map_or((reg, false), |of| (*of, true));
        let ((a, minus_a), (b, minus_b), (c, minus_c)) = (take(a), take(b), take(c));
        let (single, double) = match (minus_a != minus_b, minus_c) {
            (false, false) => (FmaF32, FmaF64),
            (true, false) => (FnmaF32, FnmaF64),
            (false, true) => (FmsF32, FmsF64),
            (true, true) => (FnmsF32, FnmsF64),
        };
        self.emit(sized(ty.element, single, double), &[a, b, c])
    }

    /// The instruction returns its second operand if the two are equal or one is NaN. Thus, in this order,
    /// only a NaN in `b` is missing, which a constant seldom is.
    fn extreme_float(&mut self, op: Binary, ty: VectorType, a: Reg, b: Reg) -> Reg {
        let extreme = self.emit(binary_float(op, ty.element), &[b, a]);
        if self.is_number(ty, b) {
            return extreme;
        }
        let compare = sized(ty.element, Op::CmpF32, Op::CmpF64);
        let is_nan = self.emit_imm(compare, &[b, b], predicate::UNORDERED);
        self.emit(Op::BlendV, &[extreme, b, is_nan])
    }

    /// Whether the lanes are constants of which none is NaN.
    pub(super) fn is_number(&self, ty: VectorType, reg: Reg) -> bool {
        let Some(words) = self.unit.constant(reg) else { return false };
        let words = &words[..self.words()];
        if ty.element.bits() == 32 {
            return words.iter().all(|word| !f32::from_bits(*word).is_nan());
        }
        let double = |pair: &[u32]| f64::from_bits(u64::from(pair[1]) << 32 | u64::from(pair[0]));
        words.chunks(2).all(|pair| !double(pair).is_nan())
    }

    fn binary_integer(&mut self, op: Binary, ty: VectorType, a: Reg, b: Reg) -> Reg {
        let e = ty.element;
        match op {
            Binary::Add => self.emit(sized(e, Op::AddI32, Op::AddI64), &[a, b]),
            Binary::Subtract => self.emit(sized(e, Op::SubI32, Op::SubI64), &[a, b]),
            Binary::Multiply if e.bits() == 32 => self.emit(Op::MulI32, &[a, b]),
            Binary::Multiply => self.multiply_i64(a, b),
            Binary::And => self.emit(Op::And, &[a, b]),
            Binary::Or => self.emit(Op::Or, &[a, b]),
            Binary::Xor => self.emit(Op::Xor, &[a, b]),
            Binary::ShiftLeft | Binary::ShiftRight => self.shift(op, ty, a, b),
            Binary::Maximum => self.maximum(ty, a, b),
            Binary::Minimum => self.minimum(ty, a, b),
            Binary::Divide => unreachable!("the check rejects it"),
        }
    }

    fn maximum(&mut self, ty: VectorType, a: Reg, b: Reg) -> Reg {
        match ty.element {
            LaneType::I32 => self.emit(Op::MaxI32, &[a, b]),
            LaneType::U32 => self.emit(Op::MaxU32, &[a, b]),
            _ => {
                let more = self.greater(ty, a, b);
                self.emit(Op::BlendV, &[b, a, more])
            }
        }
    }

    fn minimum(&mut self, ty: VectorType, a: Reg, b: Reg) -> Reg {
        match ty.element {
            LaneType::I32 => self.emit(Op::MinI32, &[a, b]),
            LaneType::U32 => self.emit(Op::MinU32, &[a, b]),
            _ => {
                let less = self.greater(ty, b, a);
                self.emit(Op::BlendV, &[b, a, less])
            }
        }
    }

    /// `a · b` modulo 2⁶⁴, from the product of the low words and the low halves of the two cross products.
    fn multiply_i64(&mut self, a: Reg, b: Reg) -> Reg {
        let (a_high, b_high) = (self.emit_imm(Op::Shr64, &[a], 32), self.emit_imm(Op::Shr64, &[b], 32));
        let (left, right) = (self.emit(Op::MulLow, &[a_high, b]), self.emit(Op::MulLow, &[a, b_high]));
        let high = self.emit(Op::AddI64, &[left, right]);
        let high = self.emit_imm(Op::Shl64, &[high], 32);
        let low = self.emit(Op::MulLow, &[a, b]);
        self.emit(Op::AddI64, &[low, high])
    }

    /// The shift amount, if it is a constant and the same for all lanes.
    pub(super) fn known_amount(&self, b: Reg, bits: u32) -> Option<u16> {
        let words = &self.unit.constant(b)?[..self.words()];
        let same = if bits == 32 {
            words.iter().all(|w| w % 32 == words[0] % 32)
        } else {
            words.chunks(2).all(|w| w[0] % 64 == words[0] % 64)
        };
        same.then_some((words[0] % bits) as u16)
    }

    fn shift(&mut self, op: Binary, ty: VectorType, a: Reg, b: Reg) -> Reg {
        let e = ty.element;
        let arithmetic = op == Binary::ShiftRight && e.is_signed();
        if let Some(amount) = self.known_amount(b, e.bits()) {
            return match (op, arithmetic) {
                _ if amount == 0 => a,
                (Binary::ShiftLeft, _) => self.emit_imm(sized(e, Op::Shl32, Op::Shl64), &[a], amount),
                (_, false) => self.emit_imm(sized(e, Op::Shr32, Op::Shr64), &[a], amount),
                (_, true) if e.bits() == 32 => self.emit_imm(Op::Sar32, &[a], amount),
                (_, true) => {
                    let shifted = self.emit_imm(Op::Shr64, &[a], amount);
                    let sign = self.constant64(1 << 63 >> amount);
                    self.extend_sign(shifted, sign)
                }
            };
        }
        let rest = self.constant_of(ty, u64::from(e.bits() - 1));
        let amount = self.emit(Op::And, &[b, rest]);
        match (op, arithmetic) {
            (Binary::ShiftLeft, _) => self.emit(sized(e, Op::ShlV32, Op::ShlV64), &[a, amount]),
            (_, false) => self.emit(sized(e, Op::ShrV32, Op::ShrV64), &[a, amount]),
            (_, true) if e.bits() == 32 => self.emit(Op::SarV32, &[a, amount]),
            (_, true) => {
                let sign = self.constant64(1 << 63);
                let sign = self.emit(Op::ShrV64, &[sign, amount]);
                let shifted = self.emit(Op::ShrV64, &[a, amount]);
                self.extend_sign(shifted, sign)
            }
        }
    }

    /// Copies the bit `sign`, the highest bit that `a` has, to all bits above it: `(a ^ sign) - sign`.
    fn extend_sign(&mut self, a: Reg, sign: Reg) -> Reg {
        let flipped = self.emit(Op::Xor, &[a, sign]);
        self.emit(Op::SubI64, &[flipped, sign])
    }

    /// Compares integers: `a > b`.
    fn greater(&mut self, ty: VectorType, a: Reg, b: Reg) -> Reg {
        let e = ty.element;
        let greater = sized(e, Op::GtI32, Op::GtI64);
        if e.is_signed() {
            return self.emit(greater, &[a, b]);
        }
        let sign = self.constant_of(ty, 1 << (e.bits() - 1));
        let (a, b) = (self.emit(Op::Xor, &[a, sign]), self.emit(Op::Xor, &[b, sign]));
        self.emit(greater, &[a, b])
    }

    fn compare(&mut self, comparison: Comparison, ty: VectorType, a: Reg, b: Reg) -> Reg {
        let e = ty.element;
        if e.is_float() {
            let predicate = match comparison {
                Comparison::Less => predicate::LESS,
                Comparison::LessEqual => predicate::LESS_EQUAL,
                Comparison::Equal => predicate::EQUAL,
                Comparison::NotEqual => predicate::NOT_EQUAL,
            };
            return self.emit_imm(sized(e, Op::CmpF32, Op::CmpF64), &[a, b], predicate);
        }
        let equal = sized(e, Op::EqI32, Op::EqI64);
        match comparison {
            Comparison::Less => self.greater(ty, b, a),
            Comparison::LessEqual => {
                let greater = self.greater(ty, a, b);
                self.flip(greater)
            }
            Comparison::Equal => self.emit(equal, &[a, b]),
            Comparison::NotEqual => {
                let equal = self.emit(equal, &[a, b]);
                self.flip(equal)
            }
        }
    }
}

pub(super) fn binary_float(op: Binary, element: LaneType) -> Op {
    let (single, double) = match op {
        Binary::Add => (Op::AddF32, Op::AddF64),
        Binary::Subtract => (Op::SubF32, Op::SubF64),
        Binary::Multiply => (Op::MulF32, Op::MulF64),
        Binary::Maximum => (Op::MaxF32, Op::MaxF64),
        Binary::Minimum => (Op::MinF32, Op::MinF64),
        _ => (Op::DivF32, Op::DivF64),
    };
    sized(element, single, double)
}
