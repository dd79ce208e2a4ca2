//! Operations lane by lane, on one register.

use super::Lower;
use crate::avx2::Op as Machine;
use crate::code::Refusal;
use crate::machine::Reg;
use crate::program::{Binary, Comparison, Element, Op, Type, Unary};

/// Predicates of `vcmpps` and `vcmppd` that do not complain about NaN.
pub(super) mod predicate {
    pub(crate) const EQUAL: u16 = 0;
    pub(crate) const UNORDERED: u16 = 3;
    pub(crate) const NOT_EQUAL: u16 = 4;
    pub(crate) const ORDERED: u16 = 7;
    pub(crate) const LESS: u16 = 17;
    pub(crate) const LESS_EQUAL: u16 = 18;
    pub(crate) const GREATER_EQUAL: u16 = 29;
}

/// The instruction of an element's size or format: first of single, then of double precision.
fn sized(element: Element, single: Machine, double: Machine) -> Machine {
    if element.bits() == 32 { single } else { double }
}

impl Lower<'_> {
    /// An operation on registers.
    pub(super) fn arithmetic(&mut self, op: &Op, ty: Type, srcs: &[Reg]) -> Result<Reg, Refusal> {
        Ok(match op {
            Op::Unary(op, _) if ty.element.is_float() => self.unary_float(*op, ty, srcs[0]),
            Op::Unary(op, _) => self.unary_integer(*op, ty, srcs[0]),
            Op::Binary(op, ..) if ty.element.is_float() => self.emit(binary_float(*op, ty.element), srcs),
            Op::Binary(op, ..) => self.binary_integer(*op, ty, srcs[0], srcs[1]),
            Op::Fma(..) => self.fma(ty, srcs[0], srcs[1], srcs[2]),
            Op::Compare(comparison, a, _) => self.compare(*comparison, self.ty(*a), srcs[0], srcs[1]),
            Op::Select(..) => self.emit(Machine::BlendV, &[srcs[2], srcs[1], srcs[0]]),
            _ => unreachable!("these have no operands in registers"),
        })
    }

    fn unary_float(&mut self, op: Unary, ty: Type, a: Reg) -> Reg {
        let e = ty.element;
        let sign = 1 << (e.bits() - 1);
        match op {
            Unary::Negate => {
                let sign = self.constant_of(ty, sign);
                let negative = self.emit(Machine::XorF, &[a, sign]);
                self.negations.insert(negative, a);
                negative
            }
            Unary::Absolute => {
                let rest = self.constant_of(ty, !sign);
                self.emit(Machine::AndF, &[a, rest])
            }
            Unary::SquareRoot => self.emit(sized(e, Machine::SqrtF32, Machine::SqrtF64), &[a]),
            Unary::Floor => self.emit_imm(sized(e, Machine::RoundF32, Machine::RoundF64), &[a], 9),
            Unary::Truncate => self.emit_imm(sized(e, Machine::RoundF32, Machine::RoundF64), &[a], 11),
            Unary::RoundEven => self.emit_imm(sized(e, Machine::RoundF32, Machine::RoundF64), &[a], 8),
            Unary::Not => unreachable!("the check refuses it"),
        }
    }

    fn unary_integer(&mut self, op: Unary, ty: Type, a: Reg) -> Reg {
        let e = ty.element;
        let zero = self.constant32(0);
        match op {
            Unary::Negate => self.emit(sized(e, Machine::SubI32, Machine::SubI64), &[zero, a]),
            Unary::Absolute if !e.is_signed() => a,
            Unary::Absolute if e.bits() == 32 => self.emit(Machine::AbsI32, &[a]),
            // With the bits flipped and 1 added where it is negative.
            Unary::Absolute => {
                let negative = self.emit(Machine::GtI64, &[zero, a]);
                let flipped = self.emit(Machine::Xor, &[a, negative]);
                self.emit(Machine::SubI64, &[flipped, negative])
            }
            _ => self.flip(a),
        }
    }

    /// Every bit flipped.
    fn flip(&mut self, a: Reg) -> Reg {
        let ones = self.constant32(u32::MAX);
        self.emit(Machine::Xor, &[a, ones])
    }

    fn fma(&mut self, ty: Type, a: Reg, b: Reg, c: Reg) -> Reg {
        use Machine::{FmaF32, FmaF64, FmsF32, FmsF64, FnmaF32, FnmaF64, FnmsF32, FnmsF64};
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

    fn binary_integer(&mut self, op: Binary, ty: Type, a: Reg, b: Reg) -> Reg {
        let e = ty.element;
        match op {
            Binary::Add => self.emit(sized(e, Machine::AddI32, Machine::AddI64), &[a, b]),
            Binary::Subtract => self.emit(sized(e, Machine::SubI32, Machine::SubI64), &[a, b]),
            Binary::Multiply if e.bits() == 32 => self.emit(Machine::MulI32, &[a, b]),
            Binary::Multiply => self.multiply_i64(a, b),
            Binary::And => self.emit(Machine::And, &[a, b]),
            Binary::Or => self.emit(Machine::Or, &[a, b]),
            Binary::Xor => self.emit(Machine::Xor, &[a, b]),
            Binary::ShiftLeft | Binary::ShiftRight => self.shift(op, ty, a, b),
            Binary::Maximum => self.maximum(ty, a, b),
            Binary::Minimum => self.minimum(ty, a, b),
            Binary::Divide => unreachable!("the check refuses it"),
        }
    }

    fn maximum(&mut self, ty: Type, a: Reg, b: Reg) -> Reg {
        match ty.element {
            Element::I32 => self.emit(Machine::MaxI32, &[a, b]),
            Element::U32 => self.emit(Machine::MaxU32, &[a, b]),
            _ => {
                let more = self.greater(ty, a, b);
                self.emit(Machine::BlendV, &[b, a, more])
            }
        }
    }

    fn minimum(&mut self, ty: Type, a: Reg, b: Reg) -> Reg {
        match ty.element {
            Element::I32 => self.emit(Machine::MinI32, &[a, b]),
            Element::U32 => self.emit(Machine::MinU32, &[a, b]),
            _ => {
                let less = self.greater(ty, b, a);
                self.emit(Machine::BlendV, &[b, a, less])
            }
        }
    }

    /// `a · b` modulo 2⁶⁴: the product of the low words, and those of a low and a high one, whose high words do not count.
    fn multiply_i64(&mut self, a: Reg, b: Reg) -> Reg {
        let (a_high, b_high) =
            (self.emit_imm(Machine::Shr64, &[a], 32), self.emit_imm(Machine::Shr64, &[b], 32));
        let (left, right) =
            (self.emit(Machine::MulLow, &[a_high, b]), self.emit(Machine::MulLow, &[a, b_high]));
        let high = self.emit(Machine::AddI64, &[left, right]);
        let high = self.emit_imm(Machine::Shl64, &[high], 32);
        let low = self.emit(Machine::MulLow, &[a, b]);
        self.emit(Machine::AddI64, &[low, high])
    }

    /// The amount of a shift that is the same for all lanes and known.
    fn known_amount(&self, b: Reg, bits: u32) -> Option<u16> {
        let words = &self.unit.constant(b)?[..self.words()];
        let same = if bits == 32 {
            words.iter().all(|w| w % 32 == words[0] % 32)
        } else {
            words.chunks(2).all(|w| w[0] % 64 == words[0] % 64)
        };
        same.then_some((words[0] % bits) as u16)
    }

    fn shift(&mut self, op: Binary, ty: Type, a: Reg, b: Reg) -> Reg {
        let e = ty.element;
        let arithmetic = op == Binary::ShiftRight && e.is_signed();
        if let Some(amount) = self.known_amount(b, e.bits()) {
            return match (op, arithmetic) {
                _ if amount == 0 => a,
                (Binary::ShiftLeft, _) => {
                    self.emit_imm(sized(e, Machine::Shl32, Machine::Shl64), &[a], amount)
                }
                (_, false) => self.emit_imm(sized(e, Machine::Shr32, Machine::Shr64), &[a], amount),
                (_, true) if e.bits() == 32 => self.emit_imm(Machine::Sar32, &[a], amount),
                (_, true) => {
                    let shifted = self.emit_imm(Machine::Shr64, &[a], amount);
                    let sign = self.constant64(1 << 63 >> amount);
                    self.extend_sign(shifted, sign)
                }
            };
        }
        let rest = self.constant_of(ty, u64::from(e.bits() - 1));
        let amount = self.emit(Machine::And, &[b, rest]);
        match (op, arithmetic) {
            (Binary::ShiftLeft, _) => self.emit(sized(e, Machine::ShlV32, Machine::ShlV64), &[a, amount]),
            (_, false) => self.emit(sized(e, Machine::ShrV32, Machine::ShrV64), &[a, amount]),
            (_, true) if e.bits() == 32 => self.emit(Machine::SarV32, &[a, amount]),
            (_, true) => {
                let sign = self.constant64(1 << 63);
                let sign = self.emit(Machine::ShrV64, &[sign, amount]);
                let shifted = self.emit(Machine::ShrV64, &[a, amount]);
                self.extend_sign(shifted, sign)
            }
        }
    }

    /// Copies the bit `sign`, the highest that `a` has, to all above it: `(a ^ sign) - sign`.
    fn extend_sign(&mut self, a: Reg, sign: Reg) -> Reg {
        let flipped = self.emit(Machine::Xor, &[a, sign]);
        self.emit(Machine::SubI64, &[flipped, sign])
    }

    /// `a > b` of integers.
    fn greater(&mut self, ty: Type, a: Reg, b: Reg) -> Reg {
        let e = ty.element;
        let greater = sized(e, Machine::GtI32, Machine::GtI64);
        if e.is_signed() {
            return self.emit(greater, &[a, b]);
        }
        let sign = self.constant_of(ty, 1 << (e.bits() - 1));
        let (a, b) = (self.emit(Machine::Xor, &[a, sign]), self.emit(Machine::Xor, &[b, sign]));
        self.emit(greater, &[a, b])
    }

    fn compare(&mut self, comparison: Comparison, ty: Type, a: Reg, b: Reg) -> Reg {
        let e = ty.element;
        if e.is_float() {
            let predicate = match comparison {
                Comparison::Less => predicate::LESS,
                Comparison::LessEqual => predicate::LESS_EQUAL,
                Comparison::Equal => predicate::EQUAL,
                Comparison::NotEqual => predicate::NOT_EQUAL,
            };
            return self.emit_imm(sized(e, Machine::CmpF32, Machine::CmpF64), &[a, b], predicate);
        }
        let equal = sized(e, Machine::EqI32, Machine::EqI64);
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

fn binary_float(op: Binary, element: Element) -> Machine {
    let (single, double) = match op {
        Binary::Add => (Machine::AddF32, Machine::AddF64),
        Binary::Subtract => (Machine::SubF32, Machine::SubF64),
        Binary::Multiply => (Machine::MulF32, Machine::MulF64),
        Binary::Maximum => (Machine::MaxF32, Machine::MaxF64),
        Binary::Minimum => (Machine::MinF32, Machine::MinF64),
        _ => (Machine::DivF32, Machine::DivF64),
    };
    sized(element, single, double)
}
