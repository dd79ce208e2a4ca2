//! Floats narrower than `f32` on targets that do not compute with them: operations of the target convert them
//! ([`Caps::conversions`](codegen_core::Caps::conversions)), or [`lowered_ir::math::narrow`] expands the
//! conversion.

use lowered_ir::ir::{BinaryOp, Expr, UnaryOp};
use lowered_ir::math::narrow::{self, NarrowAlgebra, bits_type};
use tnode::{DType, Scalar};

use super::error::{LegalizeError, Result};
use super::legalizer::{Legalizer, bitcast};

/// Whether computing in `f32` and rounding gives the result of the operation in the narrow type, so that a
/// target with the type can compute it there.
pub(crate) fn is_one_rounding(op: BinaryOp) -> bool {
    use BinaryOp::*;
    op.is_comparison() || matches!(op, Add | Sub | Mul | Div | Rem | Max | Min)
}

pub(crate) fn is_one_rounding_unary(op: UnaryOp) -> bool {
    use UnaryOp::*;
    matches!(op, Neg | Abs | Sqrt | Trunc | Floor | RoundEven)
}

impl Legalizer<'_> {
    /// Converts a narrow float to `f32`.
    pub(crate) fn widen(&mut self, dtype: DType, x: Expr) -> Result<Expr> {
        if !self.is_emulated(dtype) {
            return Ok(Expr::convert(DType::F32, x));
        }
        self.require(DType::F32, "convert f32", dtype)?;
        match x {
            Expr::Const(bits) => Ok(Expr::Const(Scalar::new(dtype, bits.bits()).convert(DType::F32))),
            x if self.converts(dtype) => Ok(Expr::convert(DType::F32, self.stored(dtype, x))),
            x => {
                self.require(DType::U32, "convert f32", dtype)?;
                narrow::decode(self, dtype, x)
            }
        }
    }

    /// Rounds an `f32` to a narrow float.
    pub(crate) fn narrow(&mut self, dtype: DType, x: Expr) -> Result<Expr> {
        if !self.is_emulated(dtype) {
            return Ok(Expr::convert(dtype, x));
        }
        self.require(DType::F32, format!("convert {dtype}"), dtype)?;
        match x {
            Expr::Const(x) => Ok(Expr::Const(Scalar::new(bits_type(dtype), x.convert(dtype).bits()))),
            x if self.converts(dtype) => Ok(bitcast(bits_type(dtype), Expr::convert(dtype, x))),
            x => {
                self.require(DType::U32, format!("convert {dtype}"), dtype)?;
                narrow::encode(self, dtype, x)
            }
        }
    }
}

impl NarrowAlgebra for Legalizer<'_> {
    type Value = Expr;
    type Error = LegalizeError;

    fn constant(&mut self, x: Scalar) -> Expr {
        Expr::Const(x)
    }

    fn binary(&mut self, op: BinaryOp, _dtype: DType, a: Expr, b: Expr) -> Result<Expr> {
        Ok(Expr::binary(op, a, b))
    }

    fn shift(&mut self, op: BinaryOp, x: Expr, by: u32) -> Result<Expr> {
        Ok(Expr::binary(op, x, Expr::Const(Scalar::new(DType::U32, u128::from(by)))))
    }

    fn select(&mut self, condition: Expr, then: Expr, otherwise: Expr) -> Expr {
        Expr::select(condition, then, otherwise)
    }

    fn convert(&mut self, _from: DType, to: DType, x: Expr) -> Expr {
        Expr::convert(to, x)
    }

    fn bitcast(&mut self, _from: DType, to: DType, x: Expr) -> Expr {
        Expr::bitcast(to, x)
    }

    fn shared(&mut self, x: Expr) -> Expr {
        Legalizer::shared(self, x, DType::U32)
    }
}
