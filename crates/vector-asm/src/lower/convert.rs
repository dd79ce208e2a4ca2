//! Conversions between lane types. A conversion without an instruction takes several steps, of which only one
//! rounds.

use smallvec::SmallVec;

use super::arithmetic::predicate;
use super::{LoweredValue, Lowering};
use crate::code::VectorCompileError;
use crate::machine::Reg;
use crate::op::Op;
use crate::program::{LaneType, Value, VectorType};

impl Lowering<'_> {
    /// Lowers a conversion.
    pub(super) fn convert(&mut self, a: Value, ty: VectorType) -> Result<LoweredValue, VectorCompileError> {
        let from = self.ty(a);
        let of = self.values[a.0 as usize].clone();
        let mut result = LoweredValue { parts: SmallVec::new(), broadcast: of.broadcast };
        let wide = |element: LaneType| element.bits() == 64;
        // An operand of one lane is converted once.
        let count = if from.lanes == 1 { 1 } else { self.parts(ty) };
        for part in 0..count {
            self.part = part as u32;
            let register = match (wide(from.element), wide(ty.element)) {
                (false, true) if self.is_neon() => {
                    self.neon_widen(from.element, ty.element, of.parts[part / 2], part % 2 == 1)?
                }
                (true, false) if self.is_neon() => {
                    let low = of.parts[part * 2 % of.parts.len()];
                    let is_everywhere = from.lanes == 1 && of.broadcast;
                    let high = of.parts.get(part * 2 + 1).or(is_everywhere.then_some(&low));
                    self.neon_narrow(from.element, ty.element, low, high.copied())?
                }
                (false, true) => {
                    let half = self.half(of.parts[part / 2], part % 2);
                    self.widen(from.element, ty.element, half)?
                }
                (true, false) => {
                    let low = self.narrow(from.element, ty.element, of.parts[part * 2 % of.parts.len()])?;
                    match of.parts.get(part * 2 + 1) {
                        None if from.lanes == 1 && of.broadcast => {
                            self.emit_imm(Op::InsertHalf, &[low, low], 1)
                        }
                        None => low,
                        Some(&high) => {
                            let high = self.narrow(from.element, ty.element, high)?;
                            self.emit_imm(Op::InsertHalf, &[low, high], 1)
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

    /// Moves half of a register to the lower half.
    fn half(&mut self, a: Reg, half: usize) -> Reg {
        if half == 0 { a } else { self.emit_imm(Op::ExtractHalf, &[a], 1) }
    }

    pub(super) fn unsupported(from: LaneType, to: LaneType) -> VectorCompileError {
        VectorCompileError::Conversion { from, to }
    }

    /// Converts the 32-bit numbers in the lower half of a register to 64 bits.
    fn widen(&mut self, from: LaneType, to: LaneType, a: Reg) -> Result<Reg, VectorCompileError> {
        Ok(match (from, to) {
            (LaneType::F32, LaneType::F64) => self.emit(Op::F32ToF64, &[a]),
            (LaneType::I32, LaneType::F64) => self.emit(Op::I32ToF64, &[a]),
            // Converts `a - 2³¹` as a signed number, then adds 2³¹.
            (LaneType::U32, LaneType::F64) => {
                let sign = self.constant32(1 << 31);
                let less = self.emit(Op::Xor, &[a, sign]);
                let less = self.emit(Op::I32ToF64, &[less]);
                let shift = self.constant64(2_147_483_648.0_f64.to_bits());
                self.emit(Op::AddF64, &[less, shift])
            }
            (LaneType::I32, _) => self.emit(Op::ExtendI32, &[a]),
            (LaneType::U32, _) => self.emit(Op::ExtendU32, &[a]),
            (LaneType::F32, to) => {
                let double = self.emit(Op::F32ToF64, &[a]);
                self.same_size(LaneType::F64, to, double)?
            }
            _ => return Err(Self::unsupported(from, to)),
        })
    }

    /// Converts 64-bit numbers to 32 bits, in the lower half of a register.
    fn narrow(&mut self, from: LaneType, to: LaneType, a: Reg) -> Result<Reg, VectorCompileError> {
        Ok(match (from, to) {
            (LaneType::F64, LaneType::F32) => self.emit(Op::F64ToF32, &[a]),
            // Truncation is exact within the clamped range; NaN is masked to 0.
            (LaneType::F64, LaneType::I32) => {
                let a = self.clamp(a, -2_147_483_648.0, 2_147_483_647.0);
                self.emit(Op::F64ToI32, &[a])
            }
            // The low bits of the double 2⁵² + n are n.
            (LaneType::F64, LaneType::U32) => {
                let a = self.clamp(a, 0.0, 4_294_967_295.0);
                let whole = self.emit_imm(Op::RoundF64, &[a], 11);
                let shift = self.constant64(4_503_599_627_370_496.0_f64.to_bits());
                let shifted = self.emit(Op::AddF64, &[whole, shift]);
                self.low_words(shifted)
            }
            (LaneType::I64 | LaneType::U64, LaneType::I32 | LaneType::U32) => self.low_words(a),
            _ => return Err(Self::unsupported(from, to)),
        })
    }

    /// Packs the lower 32-bit word of each 64-bit lane into the lower half of a register.
    fn low_words(&mut self, a: Reg) -> Reg {
        let half = self.words() / 2;
        let words = std::array::from_fn(|i| (i < half).then_some((a, 2 * i as u8)));
        self.gather_words(&words)
    }

    /// Clamps doubles to bounds; NaN becomes 0.
    fn clamp(&mut self, a: Reg, least: f64, most: f64) -> Reg {
        let ordered = self.emit_imm(Op::CmpF64, &[a, a], predicate::ORDERED);
        let (least, most) = (self.constant64(least.to_bits()), self.constant64(most.to_bits()));
        let a = self.emit(Op::MaxF64, &[a, least]);
        let a = self.emit(Op::MinF64, &[a, most]);
        self.emit(Op::AndF, &[a, ordered])
    }

    fn same_size(&mut self, from: LaneType, to: LaneType, a: Reg) -> Result<Reg, VectorCompileError> {
        if self.is_neon() {
            return self.neon_same_size(from, to, a);
        }
        Ok(match (from, to) {
            (LaneType::I32, LaneType::F32) => self.emit(Op::I32ToF32, &[a]),
            (LaneType::U32, LaneType::F32) => self.u32_to_f32(a),
            (LaneType::F32, LaneType::I32) => self.f32_to_i32(a),
            (LaneType::F32, LaneType::U32) => self.f32_to_u32(a),
            (LaneType::I64 | LaneType::U64, LaneType::F64) => self.i64_to_f64(from, a),
            (LaneType::F64, LaneType::I64) => self.f64_to_i64(a),
            _ if from == to || !from.is_float() && !to.is_float() => a,
            _ => return Err(Self::unsupported(from, to)),
        })
    }

    /// Converts the 16-bit halves to exact floats, 2²³ + low and 2³⁹ + 2¹⁶ · high; only their sum rounds.
    fn u32_to_f32(&mut self, a: Reg) -> Reg {
        let (low_mask, low_float) = (self.constant32(0xffff), self.constant32(0x4b00_0000));
        let low = self.emit(Op::And, &[a, low_mask]);
        let low = self.emit(Op::Or, &[low, low_float]);
        let high_float = self.constant32(0x5300_0000);
        let high = self.emit_imm(Op::Shr32, &[a], 16);
        let high = self.emit(Op::Or, &[high, high_float]);
        let shifts = self.constant32((549_755_813_888.0_f32 + 8_388_608.0).to_bits());
        let high = self.emit(Op::SubF32, &[high, shifts]);
        self.emit(Op::AddF32, &[low, high])
    }

    /// The instruction converts every number out of range to `i32::MIN`. If the number is at least 2³¹, all
    /// bits of the result are flipped, which gives `i32::MAX`. If it is NaN, the result is masked to 0.
    fn f32_to_i32(&mut self, a: Reg) -> Reg {
        let limit = self.constant32(2_147_483_648.0_f32.to_bits());
        let number = self.emit(Op::F32ToI32, &[a]);
        let large = self.emit_imm(Op::CmpF32, &[a, limit], predicate::GREATER_EQUAL);
        let number = self.emit(Op::Xor, &[number, large]);
        let ordered = self.emit_imm(Op::CmpF32, &[a, a], predicate::ORDERED);
        self.emit(Op::And, &[number, ordered])
    }

    /// Numbers of at least 2³¹ are reduced by 2³¹ before the conversion, and 2³¹ is added to the result. For
    /// numbers of at least 2³², all bits of the result are set.
    fn f32_to_u32(&mut self, a: Reg) -> Reg {
        let (zero, half) = (self.constant32(0), self.constant32(2_147_483_648.0_f32.to_bits()));
        let (whole, sign) = (self.constant32(4_294_967_296.0_f32.to_bits()), self.constant32(1 << 31));
        let a = self.emit(Op::MaxF32, &[a, zero]);
        let upper = self.emit_imm(Op::CmpF32, &[a, half], predicate::GREATER_EQUAL);
        let less = self.emit(Op::AndF, &[upper, half]);
        let rest = self.emit(Op::SubF32, &[a, less]);
        let number = self.emit(Op::F32ToI32, &[rest]);
        let back = self.emit(Op::And, &[upper, sign]);
        let number = self.emit(Op::Xor, &[number, back]);
        let beyond = self.emit_imm(Op::CmpF32, &[a, whole], predicate::GREATER_EQUAL);
        self.emit(Op::Or, &[number, beyond])
    }

    /// Converts the 32-bit words to exact doubles, 2⁵² + low and 2⁸⁴ + 2³² · high, where a signed high word
    /// is offset by 2³¹; only their sum rounds.
    fn i64_to_f64(&mut self, from: LaneType, a: Reg) -> Reg {
        let low_double = self.constant64(0x4330_0000_0000_0000);
        let low = self.emit_imm(Op::Blend, &[low_double, a], 0x5555);
        let high = self.emit_imm(Op::Shr64, &[a], 32);
        // The bits of 2⁸⁴ (with the offset of a signed word), and the excess to subtract, which includes 2⁵².
        let (bits, shifts) = if from.is_signed() {
            (0x4530_0000_8000_0000, 0x4530_0000_8010_0000)
        } else {
            (0x4530_0000_0000_0000, 0x4530_0000_0010_0000)
        };
        let (bits, shifts) = (self.constant64(bits), self.constant64(shifts));
        let high = self.emit(Op::Xor, &[high, bits]);
        let high = self.emit(Op::SubF64, &[high, shifts]);
        self.emit(Op::AddF64, &[low, high])
    }

    /// Shifts the mantissa with its leading bit by the exponent: left by the exponent's excess over 52, or
    /// right by its deficit. Shifts of 64 or more give 0. The sign is applied afterwards; large numbers
    /// saturate, and NaN is masked to 0.
    fn f64_to_i64(&mut self, a: Reg) -> Reg {
        let (rest, exponents) = (self.constant64((1 << 52) - 1), self.constant64(0x7ff));
        let (leading, bias) = (self.constant64(1 << 52), self.constant64(1075));
        let (zero, limit) = (self.constant32(0), self.constant64(9_223_372_036_854_775_808.0_f64.to_bits()));
        let most = self.constant64(i64::MAX as u64);
        let exponent = self.emit_imm(Op::Shr64, &[a], 52);
        let exponent = self.emit(Op::And, &[exponent, exponents]);
        let mantissa = self.emit(Op::And, &[a, rest]);
        let mantissa = self.emit(Op::Or, &[mantissa, leading]);
        let (up, down) = (self.emit(Op::SubI64, &[exponent, bias]), self.emit(Op::SubI64, &[bias, exponent]));
        let (large, small) =
            (self.emit(Op::ShlV64, &[mantissa, up]), self.emit(Op::ShrV64, &[mantissa, down]));
        // At least one of the two is 0, or both are shifted by 0 and equal.
        let magnitude = self.emit(Op::Or, &[large, small]);
        let negative = self.emit(Op::GtI64, &[zero, a]);
        let flipped = self.emit(Op::Xor, &[magnitude, negative]);
        let number = self.emit(Op::SubI64, &[flipped, negative]);
        let sign = self.constant64(1 << 63);
        let magnitude = self.emit(Op::AndNotF, &[sign, a]);
        let beyond = self.emit_imm(Op::CmpF64, &[magnitude, limit], predicate::GREATER_EQUAL);
        let ends = self.emit(Op::Xor, &[most, negative]);
        let number = self.emit(Op::BlendV, &[number, ends, beyond]);
        let ordered = self.emit_imm(Op::CmpF64, &[a, a], predicate::ORDERED);
        self.emit(Op::And, &[number, ordered])
    }
}
