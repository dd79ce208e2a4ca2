//! The legal operations: the closed set that `scheduling::legalize` defines.
//!
//! Arithmetic rounds to nearest and is not contracted, as in the interpreter. Where instructions differ from
//! the interpreter, as `max` of NaN does, several instructions are emitted.

use codegen_core::emit::lacking;
use codegen_core::ir::{BinaryOp, UnaryOp};
use codegen_core::{Checked, DType, has_approximation};
use ptx_asm::{CmpOp, PtxBinaryOp, PtxOperand, PtxUnaryOp, Reg, RoundingMode, Ty};

use super::{Emitter, Value, approximate, carrier};

/// The type in which operations on a float are computed.
pub(super) fn computed_in(dtype: DType) -> Ty {
    if dtype.is_float() && dtype != DType::F64 { Ty::F32 } else { carrier(dtype) }
}

impl Emitter<'_> {
    pub(super) fn unary(&mut self, op: UnaryOp, dtype: DType, x: Reg) -> Checked<Reg> {
        use UnaryOp::*;
        lacking::check_arithmetic(self.setting.caps, op, dtype)?;
        if !dtype.is_float() {
            return self.integer_unary(op, dtype, x);
        }
        let ty = computed_in(dtype);
        let rounding = match op {
            Floor => RoundingMode::DownInteger,
            Trunc => RoundingMode::ZeroInteger,
            _ => RoundingMode::NearestInteger,
        };
        let x = self.widened(dtype, Value::In(x));
        let result = match op {
            Neg => self.b.unary(PtxUnaryOp::Neg, ty, x),
            Abs => self.b.unary(PtxUnaryOp::Abs, ty, x),
            Sqrt => self.b.unary(PtxUnaryOp::Sqrt, ty, x),
            Floor | Trunc | RoundEven => {
                let x = self.operand_register(ty, x);
                self.b.convert(ty, ty, rounding, x)
            }
            op if self.setting.options.approximate_functions && ty == Ty::F32 && has_approximation(op) => {
                let x = self.operand_register(ty, x);
                approximate::emit(&mut self.b, self.setting.target, op, x)
            }
            Exp | Exp2 | Expm1 | Log | Log1p | Log2 | Sin | Cos | Tanh | Sigmoid | Atan | Erf | Erfc => {
                return lacking::inaccurate(op, dtype);
            }
            Not | Relu | Satur01 | Recip | RecipSqrt => {
                return lacking::expanded(op, dtype);
            }
        };
        Ok(self.rounded(dtype, result))
    }

    fn integer_unary(&mut self, op: UnaryOp, dtype: DType, x: Reg) -> Checked<Reg> {
        let ty = carrier(dtype);
        match op {
            UnaryOp::Neg if dtype.is_signed() => Ok(self.b.unary(PtxUnaryOp::Neg, ty, x)),
            UnaryOp::Neg if dtype.is_integer() => Ok(self.b.binary(PtxBinaryOp::Sub, ty, 0u32, x)),
            UnaryOp::Abs if dtype.is_signed() => Ok(self.b.unary(PtxUnaryOp::Abs, ty, x)),
            _ => lacking::expanded(op, dtype),
        }
    }

    pub(super) fn binary(&mut self, op: BinaryOp, dtype: DType, a: Value, b: Value) -> Checked<Reg> {
        if dtype == DType::Bool {
            let (a, b) = (self.reg(a), self.reg(b));
            return self.boolean(op, a, b);
        }
        lacking::check_arithmetic(self.setting.caps, op, dtype)?;
        if matches!(op, BinaryOp::Shl | BinaryOp::Shr) && !dtype.is_float() {
            return Ok(self.shift(op, dtype, a, b));
        }
        let b_is_number = matches!(b, Value::Known(b) if !b.as_f64().is_nan());
        let (a, b) = (self.widened(dtype, a), self.widened(dtype, b));
        let ty = computed_in(dtype);
        let result = match op {
            BinaryOp::Add => self.b.binary(PtxBinaryOp::Add, ty, a, b),
            BinaryOp::Sub => self.b.binary(PtxBinaryOp::Sub, ty, a, b),
            BinaryOp::Mul => self.b.binary(PtxBinaryOp::Mul, ty, a, b),
            BinaryOp::Div => self.b.binary(PtxBinaryOp::Div, ty, a, b),
            BinaryOp::Rem if dtype.is_float() => self.float_remainder(ty, a, b),
            BinaryOp::Rem => self.b.binary(PtxBinaryOp::Rem, ty, a, b),
            BinaryOp::Max => self.extreme(CmpOp::Gt, ty, a, b, b_is_number),
            BinaryOp::Min => self.extreme(CmpOp::Lt, ty, a, b, b_is_number),
            BinaryOp::Lt => return Ok(self.b.compare(CmpOp::Lt, ty, a, b)),
            BinaryOp::Le => return Ok(self.b.compare(CmpOp::Le, ty, a, b)),
            BinaryOp::Eq => return Ok(self.b.compare(CmpOp::Eq, ty, a, b)),
            BinaryOp::Ne if dtype.is_float() => return Ok(self.b.compare(CmpOp::NeOrNan, ty, a, b)),
            BinaryOp::Ne => return Ok(self.b.compare(CmpOp::Ne, ty, a, b)),
            BinaryOp::BitAnd if !dtype.is_float() => self.b.binary(PtxBinaryOp::And, bits(ty), a, b),
            BinaryOp::BitOr if !dtype.is_float() => self.b.binary(PtxBinaryOp::Or, bits(ty), a, b),
            BinaryOp::BitXor if !dtype.is_float() => self.b.binary(PtxBinaryOp::Xor, bits(ty), a, b),
            // Those that `lacking::check_binary` lists.
            _ => return lacking::expanded(op, dtype),
        };
        Ok(self.rounded(dtype, result))
    }

    /// `b` if `b cmp a` or `b` is NaN, else `a`. The instructions of PTX order zeros by their sign, so they
    /// serve integers only.
    fn extreme(&mut self, cmp: CmpOp, ty: Ty, a: PtxOperand, b: PtxOperand, b_is_number: bool) -> Reg {
        if !ty.is_float() {
            let op = if cmp == CmpOp::Gt { PtxBinaryOp::Max } else { PtxBinaryOp::Min };
            return self.b.binary(op, ty, a, b);
        }
        let takes_second = self.b.compare(cmp, ty, b, a);
        let extreme = self.b.select(ty, takes_second, b, a);
        if b_is_number {
            return extreme;
        }
        let is_nan = self.b.compare(CmpOp::IsNan, ty, b, b);
        self.b.select(ty, is_nan, b, extreme)
    }

    /// Shift amounts have 32 bits for every type; legalization keeps them below the width.
    fn shift(&mut self, op: BinaryOp, dtype: DType, x: Value, by: Value) -> Reg {
        let ty = carrier(dtype);
        let x = self.operand(x);
        let by = match by {
            Value::Known(by) => PtxOperand::Const(by.bits() as u32 as u64),
            by => {
                let reg = self.reg(by);
                match ty {
                    Ty::S64 | Ty::U64 => self.b.convert(Ty::U32, Ty::U64, RoundingMode::None, reg).into(),
                    _ => reg.into(),
                }
            }
        };
        match op {
            BinaryOp::Shl => self.b.binary(PtxBinaryOp::ShiftLeft, bits(ty), x, by),
            _ => self.b.binary(PtxBinaryOp::ShiftRight, ty, x, by),
        }
    }

    fn boolean(&mut self, op: BinaryOp, a: Reg, b: Reg) -> Checked<Reg> {
        let op = match op {
            BinaryOp::BitAnd => PtxBinaryOp::And,
            BinaryOp::BitOr => PtxBinaryOp::Or,
            BinaryOp::BitXor | BinaryOp::Ne => PtxBinaryOp::Xor,
            BinaryOp::Eq => {
                let differ = self.b.binary(PtxBinaryOp::Xor, Ty::Pred, a, b);
                return Ok(self.b.unary(PtxUnaryOp::Not, Ty::Pred, differ));
            }
            _ => return lacking::expanded(op, DType::Bool),
        };
        Ok(self.b.binary(op, Ty::Pred, a, b))
    }

    /// A select between predicates, for which PTX has no instruction.
    pub(super) fn chosen_truth(&mut self, condition: Reg, then: Value, otherwise: Value) -> Reg {
        let (then, otherwise) = (self.reg(then), self.reg(otherwise));
        let chosen = self.b.binary(PtxBinaryOp::And, Ty::Pred, condition, then);
        let not = self.b.unary(PtxUnaryOp::Not, Ty::Pred, condition);
        let other = self.b.binary(PtxBinaryOp::And, Ty::Pred, not, otherwise);
        self.b.binary(PtxBinaryOp::Or, Ty::Pred, chosen, other)
    }

    pub(super) fn operand_register(&mut self, ty: Ty, operand: PtxOperand) -> Reg {
        match operand {
            PtxOperand::Reg(reg) => reg,
            PtxOperand::Const(_) => self.b.mov(ty.class(), operand),
        }
    }
}

/// The type for bitwise operations on an integer type.
fn bits(ty: Ty) -> Ty {
    match ty {
        Ty::S64 | Ty::U64 => Ty::B64,
        _ => Ty::B32,
    }
}
