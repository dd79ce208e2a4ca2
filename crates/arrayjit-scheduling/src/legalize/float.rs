//! Operations on `f32` and `f64` that are not legal (see [`legalize`](super)), by their definitions.

use lowered_ir::ir::{BinaryOp, Expr, Numerics, UnaryOp};
use lowered_ir::math::{build, single_computes_in_double};
use tnode::DType;

use super::error::Result;
use super::legalizer::{Legalizer, constant};
use codegen_core::{Transcendental, has_approximation};

impl Legalizer<'_> {
    pub(crate) fn float_unary(&mut self, op: UnaryOp, dtype: DType, x: Expr) -> Result<Expr> {
        use UnaryOp::*;
        self.require(dtype, op, dtype)?;
        let [zero, one] = [0, 1].map(|k| constant(dtype, k));
        Ok(match op {
            Neg | Abs | Sqrt | Trunc | Floor | RoundEven => Expr::unary(op, x),
            Not => Expr::select(Expr::binary(BinaryOp::Eq, x, zero.clone()), one, zero),
            Relu => Expr::binary(BinaryOp::Max, x, zero),
            Satur01 => Expr::binary(BinaryOp::Min, Expr::binary(BinaryOp::Max, x, zero), one),
            Recip => Expr::binary(BinaryOp::Div, one, x),
            RecipSqrt => Expr::binary(BinaryOp::Div, one, Expr::unary(Sqrt, x)),
            Exp | Exp2 | Expm1 | Log | Log1p | Log2 | Sin | Cos | Tanh | Sigmoid | Atan | Erf | Erfc => {
                self.transcendental(op, dtype, x)?
            }
        })
    }

    fn transcendental(&mut self, op: UnaryOp, dtype: DType, x: Expr) -> Result<Expr> {
        let is_native = match self.caps.transcendental {
            Transcendental::Expanded => false,
            Transcendental::Approximate => {
                dtype == DType::F32 && self.routine.numerics == Numerics::Fast && has_approximation(op)
            }
            Transcendental::Native => true,
        };
        if is_native {
            return Ok(Expr::unary(op, x));
        }
        // On GPUs doubles are slow, and an fma of doubles that rounds twice would break the reduction of a
        // large angle.
        let through_double =
            single_computes_in_double(op) && self.has_double() && self.caps.workgroups.is_none();
        let computed_in = if through_double { DType::F64 } else { dtype };
        self.require(integer_of(computed_in), op, dtype)?;
        let (fresh, steps) = (&mut self.fresh, &mut self.steps);
        let expanded = match dtype == DType::F32 && !through_double {
            true => build::unary_in_single(op, x.clone(), fresh, steps),
            false => build::unary(op, dtype, x.clone(), fresh, steps),
        };
        Ok(expanded.unwrap_or_else(|| Expr::unary(op, x)))
    }

    pub(crate) fn float_binary(&mut self, op: BinaryOp, dtype: DType, a: Expr, b: Expr) -> Result<Expr> {
        use BinaryOp::*;
        self.require(dtype, op, dtype)?;
        Ok(match op {
            Add | Sub | Mul | Div | Rem | Max | Min | Lt | Le | Eq | Ne => Expr::binary(op, a, b),
            Pow => self.float_pow(dtype, a, b)?,
            // Handled before the type is examined.
            Arg1 | Threefry | ThreefryCrypto | ThreefryLight => a,
            Arg2 => b,
            ReluGate | Satur01Gate | And | Or => self.gate(op, dtype, a, b),
            BitAnd | BitOr | BitXor | Shl | Shr => self.on_bits(op, dtype, a, b)?,
        })
    }

    fn float_pow(&mut self, dtype: DType, a: Expr, b: Expr) -> Result<Expr> {
        if self.caps.transcendental == Transcendental::Native {
            return Ok(Expr::binary(BinaryOp::Pow, a, b));
        }
        if dtype == DType::F32 && !self.has_double() {
            self.require(DType::I32, BinaryOp::Pow, dtype)?;
            return Ok(build::pow_in_single(a, b, &mut self.fresh, &mut self.steps));
        }
        self.require(DType::I64, BinaryOp::Pow, dtype)?;
        let expanded = build::pow(dtype, a.clone(), b.clone(), &mut self.fresh, &mut self.steps);
        Ok(expanded.unwrap_or_else(|| Expr::binary(BinaryOp::Pow, a, b)))
    }

    /// Whether operations on `f32` may be computed in `f64`, whose bits need `i64`. Otherwise they are
    /// computed in `f32`, as [`lowered_ir::math`] documents.
    fn has_double(&self) -> bool {
        self.computes(DType::F64) && self.computes(DType::I64)
    }

    /// The gates and logical operations on any number type, computed in `dtype`.
    pub(crate) fn gate(&mut self, op: BinaryOp, dtype: DType, a: Expr, b: Expr) -> Expr {
        let [zero, one] = [0, 1].map(|k| constant(dtype, k));
        let truth = |x: Expr| Expr::binary(BinaryOp::Ne, x, zero.clone());
        let less = |x: Expr, y: Expr| Expr::binary(BinaryOp::Lt, x, y);
        match op {
            BinaryOp::ReluGate => Expr::select(less(zero.clone(), a), b, zero),
            BinaryOp::Satur01Gate => {
                let a = self.shared(a, dtype);
                let within = Expr::binary(BinaryOp::BitAnd, less(zero.clone(), a.clone()), less(a, one));
                Expr::select(within, b, zero)
            }
            BinaryOp::And => Expr::select(Expr::binary(BinaryOp::BitAnd, truth(a), truth(b)), one, zero),
            _ => Expr::select(Expr::binary(BinaryOp::BitOr, truth(a), truth(b)), one, zero),
        }
    }

    /// Bit operations on floats, which the verifier rejects and [`lowered_ir::eval`] defines: they act on the
    /// bits as unsigned integers.
    fn on_bits(&mut self, op: BinaryOp, dtype: DType, a: Expr, b: Expr) -> Result<Expr> {
        let bits = if dtype == DType::F32 { DType::U32 } else { DType::U64 };
        let result = self.integer_binary(op, bits, Expr::bitcast(bits, a), Expr::bitcast(bits, b))?;
        Ok(Expr::bitcast(dtype, result))
    }
}

/// The signed integer of a float's width.
fn integer_of(dtype: DType) -> DType {
    if dtype == DType::F32 { DType::I32 } else { DType::I64 }
}
