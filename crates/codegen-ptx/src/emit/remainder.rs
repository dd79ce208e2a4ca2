//! The exact remainder of floats: long division of the significands, several bits at a time.

use ptx_asm::{CmpOp, Inst, PtxBinaryOp, PtxOperand, Reg, RegClass, RoundingMode, Ty};

use super::Emitter;

/// The format of a float.
#[derive(Clone, Copy)]
struct FloatLayout {
    ty: Ty,
    /// The type of its bits as an unsigned integer.
    bits: Ty,
    /// The number of stored bits of the significand.
    mantissa: u32,
    width: u32,
    /// The biased exponent of 1, plus the number of stored bits of the significand.
    bias: u32,
    infinity: u64,
    nan: u64,
}

const SINGLE: FloatLayout = FloatLayout {
    ty: Ty::F32,
    bits: Ty::U32,
    mantissa: 23,
    width: 32,
    bias: 150,
    infinity: 0x7f80_0000,
    nan: 0x7fc0_0000,
};

const DOUBLE: FloatLayout = FloatLayout {
    ty: Ty::F64,
    bits: Ty::U64,
    mantissa: 52,
    width: 64,
    bias: 1075,
    infinity: 0x7ff0_0000_0000_0000,
    nan: 0x7ff8_0000_0000_0000,
};

impl FloatLayout {
    /// Type for bitwise operations.
    fn logic(self) -> Ty {
        if self.width == 64 { Ty::B64 } else { Ty::B32 }
    }
}

impl Emitter<'_> {
    /// C's `fmod`: the sign of `a`, NaN if `a` is infinite or `b` is 0, `a` if `b` is infinite.
    pub(super) fn float_remainder(&mut self, ty: Ty, a: PtxOperand, b: PtxOperand) -> Reg {
        let format = if ty == Ty::F64 { DOUBLE } else { SINGLE };
        let [a, b] = [a, b].map(|x| self.operand_register(ty, x));
        let [bits_a, bits_b] = [a, b].map(|x| self.b.recast(format.bits.class(), x));
        let sign = 1u64 << (format.width - 1);
        let [size_a, size_b] =
            [bits_a, bits_b].map(|x| self.b.binary(PtxBinaryOp::And, format.logic(), x, sign - 1));
        let rest = self.rest(format, size_a, size_b);
        let positive = self.scaled_back(format, rest, size_b);
        let sign = self.b.binary(PtxBinaryOp::And, format.logic(), bits_a, sign);
        let signed = self.b.binary(PtxBinaryOp::Or, format.logic(), positive, sign);
        let is_less = self.b.compare(CmpOp::Lt, format.bits, size_a, size_b);
        let result = self.b.select(format.bits, is_less, bits_a, signed);
        let invalid = self.has_no_remainder(format, size_a, size_b);
        let result = self.b.select(format.bits, invalid, format.nan, result);
        self.b.recast(ty.class(), result)
    }

    /// Whether `a` is infinite, `b` is 0, or either is NaN.
    fn has_no_remainder(&mut self, format: FloatLayout, size_a: Reg, size_b: Reg) -> Reg {
        let is_zero = self.b.compare(CmpOp::Eq, format.bits, size_b, PtxOperand::Const(0));
        let not_finite = self.b.compare(CmpOp::Ge, format.bits, size_a, format.infinity);
        let not_number = self.b.compare(CmpOp::Gt, format.bits, size_b, format.infinity);
        let either = self.b.binary(PtxBinaryOp::Or, Ty::Pred, is_zero, not_finite);
        self.b.binary(PtxBinaryOp::Or, Ty::Pred, either, not_number)
    }

    /// The significand of the remainder, as a multiple of the last place of `b`; unspecified if `a` is less
    /// than `b`.
    fn rest(&mut self, format: FloatLayout, size_a: Reg, size_b: Reg) -> Reg {
        let [significand_a, significand_b] = [size_a, size_b].map(|x| self.significand(format, x));
        let divisor = self.b.binary(PtxBinaryOp::Max, format.bits, significand_b, 1u64);
        let [exponent_a, exponent_b] = [size_a, size_b].map(|x| self.exponent(format, x));
        let rest = self.b.binary(PtxBinaryOp::Rem, format.bits, significand_a, divisor);
        let left = self.b.binary(PtxBinaryOp::Sub, Ty::S32, exponent_a, exponent_b);
        // Each step shifts by as many bits as fit above the significand, but by no more than are left.
        let room = format.width - format.mantissa - 1;
        self.repeated_while(|e| {
            let by = e.b.binary(PtxBinaryOp::Min, Ty::S32, left, room);
            let by = e.b.binary(PtxBinaryOp::Max, Ty::S32, by, 0u32);
            let moved = e.b.binary(PtxBinaryOp::ShiftLeft, format.logic(), rest, by);
            let (op, ty) = (PtxBinaryOp::Rem, format.bits);
            e.b.push(Inst::Binary { op, ty, dst: rest, a: moved.into(), b: divisor.into() });
            let (op, ty) = (PtxBinaryOp::Sub, Ty::S32);
            e.b.push(Inst::Binary { op, ty, dst: left, a: left.into(), b: room.into() });
            e.b.compare(CmpOp::Gt, Ty::S32, left, 0u32)
        });
        rest
    }

    /// The bits of the float that is `rest` last places of `b`.
    fn scaled_back(&mut self, format: FloatLayout, rest: Reg, size_b: Reg) -> Reg {
        let exponent = self.exponent(format, size_b);
        // Integers below 2²⁴, or 2⁵³, convert to floats exactly, which yields the exponent.
        let float = self.b.convert(format.ty, format.bits, RoundingMode::Nearest, rest);
        let bits = self.b.recast(format.bits.class(), float);
        let fraction = self.b.binary(PtxBinaryOp::And, format.logic(), bits, (1u64 << format.mantissa) - 1);
        let own = self.upper(format, bits);
        let sum = self.b.binary(PtxBinaryOp::Add, Ty::U32, own, exponent);
        let is_normal = self.b.compare(CmpOp::Gt, Ty::U32, sum, format.bias);
        let field = self.b.binary(PtxBinaryOp::Sub, Ty::U32, sum, format.bias);
        let field = match format.bits.class() {
            RegClass::B64 => self.b.convert(Ty::U64, Ty::U32, RoundingMode::None, field),
            _ => field,
        };
        let field = self.b.binary(PtxBinaryOp::ShiftLeft, format.logic(), field, format.mantissa);
        let normal = self.b.binary(PtxBinaryOp::Or, format.logic(), field, fraction);
        // The result is subnormal, or close to it.
        let by = self.b.binary(PtxBinaryOp::Sub, Ty::U32, exponent, 1u32);
        let by = self.b.binary(PtxBinaryOp::Min, Ty::U32, by, format.mantissa);
        let subnormal = self.b.binary(PtxBinaryOp::ShiftLeft, format.logic(), rest, by);
        let scaled = self.b.select(format.bits, is_normal, normal, subnormal);
        let is_zero = self.b.compare(CmpOp::Eq, format.bits, rest, PtxOperand::Const(0));
        self.b.select(format.bits, is_zero, PtxOperand::Const(0), scaled)
    }

    /// The exponent field of a magnitude. It is 1 for subnormal numbers, whose last place has the same value
    /// as for field 1.
    fn exponent(&mut self, format: FloatLayout, size: Reg) -> Reg {
        let field = self.upper(format, size);
        self.b.binary(PtxBinaryOp::Max, Ty::U32, field, 1u32)
    }

    /// The bits above the significand, as a word.
    fn upper(&mut self, format: FloatLayout, bits: Reg) -> Reg {
        let field = self.b.binary(PtxBinaryOp::ShiftRight, format.bits, bits, format.mantissa);
        match format.bits.class() {
            RegClass::B64 => self.b.convert(Ty::U32, Ty::U64, RoundingMode::None, field),
            _ => field,
        }
    }

    /// The significand of a magnitude, with its leading bit.
    fn significand(&mut self, format: FloatLayout, size: Reg) -> Reg {
        let leading = 1u64 << format.mantissa;
        let fraction = self.b.binary(PtxBinaryOp::And, format.logic(), size, leading - 1);
        let whole = self.b.binary(PtxBinaryOp::Or, format.logic(), fraction, leading);
        let is_normal = self.b.compare(CmpOp::Ge, format.bits, size, leading);
        self.b.select(format.bits, is_normal, whole, fraction)
    }
}
