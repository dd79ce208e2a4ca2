//! Conversions between elements, where the processor has none by several steps that round once.

use smallvec::SmallVec;

use super::arithmetic::predicate;
use super::{Lanes, Lower};
use crate::avx2::Op as Machine;
use crate::code::Refusal;
use crate::machine::Reg;
use crate::program::{Element, Type, Value};

impl Lower<'_> {
    /// A value's numbers in another element.
    pub(super) fn convert(&mut self, a: Value, ty: Type) -> Result<Lanes, Refusal> {
        let from = self.ty(a);
        let of = self.values[a.0 as usize].clone();
        let mut result = Lanes { parts: SmallVec::new(), everywhere: of.everywhere };
        let wide = |element: Element| element.bits() == 64;
        // One lane that stands for all.
        let count = if from.lanes == 1 { 1 } else { self.parts(ty) };
        for part in 0..count {
            self.part = part as u32;
            let register = match (wide(from.element), wide(ty.element)) {
                (false, true) => {
                    let half = self.half(of.parts[part / 2], part % 2);
                    self.widen(from.element, ty.element, half)?
                }
                (true, false) => {
                    let low = self.narrow(from.element, ty.element, of.parts[part * 2 % of.parts.len()])?;
                    match of.parts.get(part * 2 + 1) {
                        None if from.lanes == 1 && of.everywhere => {
                            self.emit_imm(Machine::InsertHalf, &[low, low], 1)
                        }
                        None => low,
                        Some(&high) => {
                            let high = self.narrow(from.element, ty.element, high)?;
                            self.emit_imm(Machine::InsertHalf, &[low, high], 1)
                        }
                    }
                }
                _ => self.same_size(from.element, ty.element, of.parts[part])?,
            };
            result.parts.push(register);
        }
        if from.lanes == 1 {
            result.parts = SmallVec::from_elem(result.parts[0], self.parts(ty));
        }
        Ok(result)
    }

    /// Half of a register, in the lower half of another.
    fn half(&mut self, a: Reg, half: usize) -> Reg {
        if half == 0 { a } else { self.emit_imm(Machine::ExtractHalf, &[a], 1) }
    }

    fn refuse(from: Element, to: Element) -> Refusal {
        Refusal::Conversion { from, to }
    }

    /// Four numbers of 32 bits in the lower half of a register to 64 bits.
    fn widen(&mut self, from: Element, to: Element, a: Reg) -> Result<Reg, Refusal> {
        Ok(match (from, to) {
            (Element::F32, Element::F64) => self.emit(Machine::F32ToF64, &[a]),
            (Element::I32, Element::F64) => self.emit(Machine::I32ToF64, &[a]),
            // As a signed number that is 2³¹ less.
            (Element::U32, Element::F64) => {
                let sign = self.constant32(1 << 31);
                let less = self.emit(Machine::Xor, &[a, sign]);
                let less = self.emit(Machine::I32ToF64, &[less]);
                let shift = self.constant64(2_147_483_648.0_f64.to_bits());
                self.emit(Machine::AddF64, &[less, shift])
            }
            (Element::I32, _) => self.emit(Machine::ExtendI32, &[a]),
            (Element::U32, _) => self.emit(Machine::ExtendU32, &[a]),
            (Element::F32, to) => {
                let double = self.emit(Machine::F32ToF64, &[a]);
                self.same_size(Element::F64, to, double)?
            }
            _ => return Err(Self::refuse(from, to)),
        })
    }

    /// Four numbers of 64 bits to 32 bits, in the lower half of a register.
    fn narrow(&mut self, from: Element, to: Element, a: Reg) -> Result<Reg, Refusal> {
        Ok(match (from, to) {
            (Element::F64, Element::F32) => self.emit(Machine::F64ToF32, &[a]),
            // Within the range the conversion truncates exactly; NaN is masked to 0.
            (Element::F64, Element::I32) => {
                let a = self.clamp(a, -2_147_483_648.0, 2_147_483_647.0);
                self.emit(Machine::F64ToI32, &[a])
            }
            // 2⁵² + n holds n in its low bits.
            (Element::F64, Element::U32) => {
                let a = self.clamp(a, 0.0, 4_294_967_295.0);
                let whole = self.emit_imm(Machine::RoundF64, &[a], 11);
                let shift = self.constant64(4_503_599_627_370_496.0_f64.to_bits());
                let shifted = self.emit(Machine::AddF64, &[whole, shift]);
                self.low_words(shifted)
            }
            (Element::I64 | Element::U64, Element::I32 | Element::U32) => self.low_words(a),
            _ => return Err(Self::refuse(from, to)),
        })
    }

    /// The lower word of each lane of 64 bits, in the lower half of a register.
    fn low_words(&mut self, a: Reg) -> Reg {
        let half = self.words() / 2;
        let words = std::array::from_fn(|i| (i < half).then_some((a, 2 * i as u8)));
        self.gather_words(&words)
    }

    /// Doubles within bounds; NaN is 0.
    fn clamp(&mut self, a: Reg, least: f64, most: f64) -> Reg {
        let ordered = self.emit_imm(Machine::CmpF64, &[a, a], predicate::ORDERED);
        let (least, most) = (self.constant64(least.to_bits()), self.constant64(most.to_bits()));
        let a = self.emit(Machine::MaxF64, &[a, least]);
        let a = self.emit(Machine::MinF64, &[a, most]);
        self.emit(Machine::AndF, &[a, ordered])
    }

    fn same_size(&mut self, from: Element, to: Element, a: Reg) -> Result<Reg, Refusal> {
        Ok(match (from, to) {
            (Element::I32, Element::F32) => self.emit(Machine::I32ToF32, &[a]),
            (Element::U32, Element::F32) => self.u32_to_f32(a),
            (Element::F32, Element::I32) => self.f32_to_i32(a),
            (Element::F32, Element::U32) => self.f32_to_u32(a),
            (Element::I64 | Element::U64, Element::F64) => self.i64_to_f64(from, a),
            (Element::F64, Element::I64) => self.f64_to_i64(a),
            _ if from == to || !from.is_float() && !to.is_float() => a,
            _ => return Err(Self::refuse(from, to)),
        })
    }

    /// Both halves of 16 bits become exact floats (2²³ + low, and 2³⁹ + 2¹⁶ · high), and their sum is rounded once.
    fn u32_to_f32(&mut self, a: Reg) -> Reg {
        let (low_mask, low_float) = (self.constant32(0xffff), self.constant32(0x4b00_0000));
        let low = self.emit(Machine::And, &[a, low_mask]);
        let low = self.emit(Machine::Or, &[low, low_float]);
        let high_float = self.constant32(0x5300_0000);
        let high = self.emit_imm(Machine::Shr32, &[a], 16);
        let high = self.emit(Machine::Or, &[high, high_float]);
        let shifts = self.constant32((549_755_813_888.0_f32 + 8_388_608.0).to_bits());
        let high = self.emit(Machine::SubF32, &[high, shifts]);
        self.emit(Machine::AddF32, &[low, high])
    }

    /// What is out of range becomes `i32::MIN`, of which all bits are flipped where the number was large; NaN is masked to 0.
    fn f32_to_i32(&mut self, a: Reg) -> Reg {
        let limit = self.constant32(2_147_483_648.0_f32.to_bits());
        let number = self.emit(Machine::F32ToI32, &[a]);
        let large = self.emit_imm(Machine::CmpF32, &[a, limit], predicate::GREATER_EQUAL);
        let number = self.emit(Machine::Xor, &[number, large]);
        let ordered = self.emit_imm(Machine::CmpF32, &[a, a], predicate::ORDERED);
        self.emit(Machine::And, &[number, ordered])
    }

    /// Numbers from 2³¹ on are converted less 2³¹, which is then added; from 2³² on all bits are set.
    fn f32_to_u32(&mut self, a: Reg) -> Reg {
        let (zero, half) = (self.constant32(0), self.constant32(2_147_483_648.0_f32.to_bits()));
        let (whole, sign) = (self.constant32(4_294_967_296.0_f32.to_bits()), self.constant32(1 << 31));
        let a = self.emit(Machine::MaxF32, &[a, zero]);
        let upper = self.emit_imm(Machine::CmpF32, &[a, half], predicate::GREATER_EQUAL);
        let less = self.emit(Machine::AndF, &[upper, half]);
        let rest = self.emit(Machine::SubF32, &[a, less]);
        let number = self.emit(Machine::F32ToI32, &[rest]);
        let back = self.emit(Machine::And, &[upper, sign]);
        let number = self.emit(Machine::Xor, &[number, back]);
        let beyond = self.emit_imm(Machine::CmpF32, &[a, whole], predicate::GREATER_EQUAL);
        self.emit(Machine::Or, &[number, beyond])
    }

    /// Both words become exact doubles (2⁵² + low, and 2⁸⁴ + 2³² · high, the high one moved by 2³¹ if it is signed), and their sum is
    /// rounded once.
    fn i64_to_f64(&mut self, from: Element, a: Reg) -> Reg {
        let low_double = self.constant64(0x4330_0000_0000_0000);
        let low = self.emit_imm(Machine::Blend, &[low_double, a], 0x5555);
        let high = self.emit_imm(Machine::Shr64, &[a], 32);
        // The bits of 2⁸⁴ (and 2⁶³ with a signed number), and what is too much: that and 2⁵².
        let (bits, shifts) = if from.is_signed() {
            (0x4530_0000_8000_0000, 0x4530_0000_8010_0000)
        } else {
            (0x4530_0000_0000_0000, 0x4530_0000_0010_0000)
        };
        let (bits, shifts) = (self.constant64(bits), self.constant64(shifts));
        let high = self.emit(Machine::Xor, &[high, bits]);
        let high = self.emit(Machine::SubF64, &[high, shifts]);
        self.emit(Machine::AddF64, &[low, high])
    }

    /// The mantissa with its leading bit, shifted by the exponent: left by what it exceeds 52, right by what 52 exceeds it. Shifts
    /// of 64 and more give 0. Then the sign; what is too large saturates, NaN is masked to 0.
    fn f64_to_i64(&mut self, a: Reg) -> Reg {
        let (rest, exponents) = (self.constant64((1 << 52) - 1), self.constant64(0x7ff));
        let (leading, bias) = (self.constant64(1 << 52), self.constant64(1075));
        let (zero, limit) = (self.constant32(0), self.constant64(9_223_372_036_854_775_808.0_f64.to_bits()));
        let most = self.constant64(i64::MAX as u64);
        let exponent = self.emit_imm(Machine::Shr64, &[a], 52);
        let exponent = self.emit(Machine::And, &[exponent, exponents]);
        let mantissa = self.emit(Machine::And, &[a, rest]);
        let mantissa = self.emit(Machine::Or, &[mantissa, leading]);
        let (up, down) =
            (self.emit(Machine::SubI64, &[exponent, bias]), self.emit(Machine::SubI64, &[bias, exponent]));
        let (large, small) =
            (self.emit(Machine::ShlV64, &[mantissa, up]), self.emit(Machine::ShrV64, &[mantissa, down]));
        // One of them is 0 unless both shift by nothing, when they are equal.
        let magnitude = self.emit(Machine::Or, &[large, small]);
        let negative = self.emit(Machine::GtI64, &[zero, a]);
        let flipped = self.emit(Machine::Xor, &[magnitude, negative]);
        let number = self.emit(Machine::SubI64, &[flipped, negative]);
        let sign = self.constant64(1 << 63);
        let magnitude = self.emit(Machine::AndNotF, &[sign, a]);
        let beyond = self.emit_imm(Machine::CmpF64, &[magnitude, limit], predicate::GREATER_EQUAL);
        let ends = self.emit(Machine::Xor, &[most, negative]);
        let number = self.emit(Machine::BlendV, &[number, ends, beyond]);
        let ordered = self.emit_imm(Machine::CmpF64, &[a, a], predicate::ORDERED);
        self.emit(Machine::And, &[number, ordered])
    }
}
