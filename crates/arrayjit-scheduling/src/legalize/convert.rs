//! Conversions. Between two types of the target a conversion is one operation. Other types are converted by
//! way of a type of the target; nevertheless the result is rounded only once.

use lowered_ir::ir::{BinaryOp, Expr, UnaryOp};
use tnode::{DType, Scalar};

use super::error::{LegalizeError, Result};
use super::legalizer::{Legalizer, constant};

impl Legalizer<'_> {
    pub(crate) fn convert(&mut self, from: DType, to: DType, x: Expr) -> Result<Expr> {
        if from == to {
            return Ok(x);
        }
        if from == DType::U32x4 || to == DType::U32x4 {
            return Err(self.no_arithmetic(format!("convert {to}"), from));
        }
        if is_narrow_float(from) && !(self.computes(from) && self.computes(to)) {
            let wide = self.widen(from, x)?;
            return self.convert(DType::F32, to, wide);
        }
        if is_narrow_float(to) && !(self.computes(from) && self.computes(to)) {
            return self.round_to_narrow(from, to, x);
        }
        self.between_wide(from, to, x)
    }

    /// A conversion in which only integers may be narrow.
    fn between_wide(&mut self, from: DType, to: DType, x: Expr) -> Result<Expr> {
        let op = format!("convert {to}");
        match (from, to) {
            (_, DType::Bool) => {
                let zero = constant(from, 0);
                self.binary(BinaryOp::Ne, from, x, zero)
            }
            _ if self.is_between_narrow(from, to) => {
                let wide = if from == DType::Bool { wide_integer(to) } else { wide_integer(from) };
                self.require(wide, op, from)?;
                Ok(Expr::convert(to, Expr::convert(wide, x)))
            }
            _ if to.is_float() && !self.computes(from) && is_narrow_integer(from) => {
                let wide = wide_integer(from);
                self.require(wide, &op, from)?;
                self.require(to, &op, from)?;
                Ok(Expr::convert(to, Expr::convert(wide, x)))
            }
            _ if from.is_float() && !self.computes(to) && is_narrow_integer(to) => self.saturate(from, to, x),
            _ => {
                for needed in [from, to].into_iter().filter(|&d| d != DType::Bool && !is_narrow_integer(d)) {
                    self.require(needed, &op, from)?;
                }
                Ok(Expr::convert(to, x))
            }
        }
    }

    /// Whether both types are narrower than every integer that the target may compute with.
    fn is_between_narrow(&self, from: DType, to: DType) -> bool {
        let narrow = (from == DType::Bool || is_narrow_integer(from)) && is_narrow_integer(to);
        narrow && !(self.computes(from) && self.computes(to))
    }

    /// Converts a float to a narrow integer that the target does not compute with: by way of `i32`, clamped
    /// to the narrow range.
    fn saturate(&mut self, from: DType, to: DType, x: Expr) -> Result<Expr> {
        self.require(from, format!("convert {to}"), from)?;
        self.require(DType::I32, format!("convert {to}"), from)?;
        let [least, greatest] =
            [f64::NEG_INFINITY, f64::INFINITY].map(|end| Scalar::from_f64(to, end).as_i64());
        let wide = Expr::convert(DType::I32, x);
        let wide = Expr::binary(BinaryOp::Max, wide, constant(DType::I32, least));
        Ok(Expr::convert(to, Expr::binary(BinaryOp::Min, wide, constant(DType::I32, greatest))))
    }

    /// Converts to a narrow float with one rounding, although by way of `f32`.
    fn round_to_narrow(&mut self, from: DType, to: DType, x: Expr) -> Result<Expr> {
        let single = match from {
            DType::F32 => x,
            DType::F64 => self.rounded_to_odd(to, x)?,
            DType::Bool => Expr::select(x, constant(DType::F32, 1), constant(DType::F32, 0)),
            DType::I32 | DType::U32 | DType::I64 | DType::U64 if to == DType::Bf16 => {
                self.integer_without_ties(from, x)?
            }
            // The other formats overflow long before an integer stops being exact in `f32`.
            _ => self.convert(from, DType::F32, x)?,
        };
        self.narrow(to, single)
    }

    /// Converts an `f64` to an `f32` that every narrower format rounds as it would round the `f64`:
    /// truncated, with the last bit set if the truncation lost a bit ("rounding to odd").
    fn rounded_to_odd(&mut self, to: DType, x: Expr) -> Result<Expr> {
        for needed in [DType::F64, DType::U32] {
            self.require(needed, format!("convert {to}"), DType::F64)?;
        }
        let x = self.shared(x, DType::F64);
        let nearest = self.shared(Expr::convert(DType::F32, x.clone()), DType::F32);
        let back = self.shared(Expr::convert(DType::F64, nearest.clone()), DType::F64);
        let abs = |x: &Expr| Expr::unary(UnaryOp::Abs, x.clone());
        let too_far = Expr::binary(BinaryOp::Lt, abs(&x), abs(&back));
        let [zero, one] = [0, 1].map(|k| constant(DType::U32, k));
        let truncated = Expr::binary(
            BinaryOp::Sub,
            Expr::bitcast(DType::U32, nearest),
            Expr::select(too_far, one.clone(), zero.clone()),
        );
        let inexact = Expr::select(Expr::binary(BinaryOp::Ne, back, x), one, zero);
        Ok(Expr::bitcast(DType::F32, Expr::binary(BinaryOp::BitOr, truncated, inexact)))
    }

    /// Converts an integer to an `f32` that rounds to `bf16` as the integer does. From 2²⁴ on, the low 16
    /// bits only decide whether the rest is exact, so they are replaced by one bit; then `f32` has room for
    /// 32-bit integers, and `f64` for 64-bit ones.
    fn integer_without_ties(&mut self, from: DType, x: Expr) -> Result<Expr> {
        self.require(from, "convert bf16", from)?;
        let x = self.shared(x, from);
        let binary = |op, a: Expr, k: i64| Expr::binary(op, a, constant(from, k));
        let rest = binary(BinaryOp::Ne, binary(BinaryOp::BitAnd, x.clone(), 0xffff), 0);
        let sticky = Expr::select(rest, constant(from, 0x8000), constant(from, 0));
        let high = binary(BinaryOp::BitAnd, x.clone(), !0xffff);
        let folded = Expr::binary(BinaryOp::BitOr, high, sticky);
        let magnitude = if from.is_signed() { Expr::unary(UnaryOp::Abs, x.clone()) } else { x.clone() };
        let exact = Expr::select(binary(BinaryOp::Lt, magnitude, 1 << 24), x, folded);
        match from.size_bytes() {
            4 => self.convert(from, DType::F32, exact),
            _ => {
                let double = self.convert(from, DType::F64, exact)?;
                self.rounded_to_odd(DType::Bf16, double)
            }
        }
    }

    pub(crate) fn no_arithmetic(&self, op: String, dtype: DType) -> LegalizeError {
        LegalizeError::Unsupported {
            target: self.caps.target.clone(),
            routine: self.routine.name.clone(),
            op,
            dtype,
            why: "random bits are only moved".into(),
        }
    }
}

fn is_narrow_float(dtype: DType) -> bool {
    dtype.is_float() && dtype.size_bytes() < 4
}

fn is_narrow_integer(dtype: DType) -> bool {
    dtype.is_integer() && dtype.size_bytes() < 4
}

fn wide_integer(dtype: DType) -> DType {
    if dtype.is_signed() { DType::I32 } else { DType::U32 }
}
