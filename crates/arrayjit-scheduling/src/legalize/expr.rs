//! Legalization of expressions: operands first, then the operation, by the type in which it computes.
//!
//! A [`Value`] is an expression together with the type that the value has in the routine. The expression
//! itself has the type in which the target holds such values ([`Legalizer::carrier`]).

use lowered_ir::ir::{BinaryOp, Expr, Guard, Indices, NodeRef, TernaryOp, UnaryOp};
use tnode::{DType, Scalar};

use super::dynamic::Computed;
use super::error::Result;
use super::legalizer::{Legalizer, bitcast};
use super::{boolean, narrow, random};

/// A legal expression, and the type that its value has in the routine.
pub(crate) type Value = (Expr, DType);

impl Legalizer<'_> {
    pub(crate) fn value(&mut self, expr: &Expr) -> Result<Value> {
        match expr {
            Expr::Const(scalar) => Ok(self.constant(*scalar)),
            Expr::Index { dtype, .. } => self.index(expr, *dtype),
            Expr::Get { node, .. } | Expr::GetMerge { node, .. } => Ok(self.read(expr.clone(), *node)),
            Expr::GetGuarded { guard, node, index, otherwise } => {
                self.guarded(guard, *node, index, otherwise)
            }
            Expr::GetDynamic { node, index, axis, at, otherwise } => {
                self.get_dynamic(&Computed { node: *node, index, axis: *axis }, at, otherwise)
            }
            Expr::Lane { lane, arg } => {
                let (arg, _) = self.value(arg)?;
                Ok((random::lane_of(*lane, arg), DType::U32))
            }
            Expr::Lanes(lanes) => {
                let mut word = |at: usize| self.value(&lanes[at]).map(|(lane, _)| lane);
                let lanes = [word(0)?, word(1)?, word(2)?, word(3)?];
                Ok((Expr::Lanes(Box::new(lanes)), DType::U32x4))
            }
            Expr::GetLocal { local, .. } => {
                let dtype = self.locals[local].dtype;
                let is_element = self.arrays.contains(local);
                Ok((if is_element { self.element(expr.clone(), dtype) } else { expr.clone() }, dtype))
            }
            Expr::Unary { op, arg } => {
                let (arg, dtype) = self.value(arg)?;
                Ok((self.unary(*op, dtype, arg)?, dtype))
            }
            Expr::Binary { op, a, b } => {
                let (first, dtype) = self.value(a)?;
                // Equal operands stay equal: targets look for `x - x`, which separate locals would hide.
                let second = if a == b { first.clone() } else { self.value(b)?.0 };
                Ok((self.binary(*op, dtype, first, second)?, op.result(dtype)))
            }
            Expr::Ternary { op, a, b, c } => self.ternary(*op, [a, b, c]),
            Expr::Convert { to, arg } => {
                let (arg, from) = self.value(arg)?;
                Ok((self.convert(from, *to, arg)?, *to))
            }
            Expr::Bitcast { to, arg } => {
                let (arg, from) = self.value(arg)?;
                Ok((self.recast(from, *to, arg), *to))
            }
        }
    }

    fn constant(&self, scalar: Scalar) -> Value {
        let carried = Scalar::new(self.carrier(scalar.dtype()), scalar.bits());
        (Expr::Const(carried), scalar.dtype())
    }

    fn index(&self, expr: &Expr, dtype: DType) -> Result<Value> {
        self.require(dtype, "index", dtype)?;
        Ok((expr.clone(), dtype))
    }

    /// A read of a node, as the carrier of the node's type.
    pub(crate) fn read(&self, read: Expr, node: NodeRef) -> Value {
        let dtype = self.routine.node(node).dtype;
        (self.element(read, dtype), dtype)
    }

    /// An element of a type as the carrier of the type.
    fn element(&self, read: Expr, dtype: DType) -> Expr {
        if self.is_emulated(dtype) { bitcast(self.carrier(dtype), read) } else { read }
    }

    fn guarded(&mut self, guard: &Guard, node: NodeRef, index: &Indices, otherwise: &Expr) -> Result<Value> {
        let (otherwise, dtype) = self.value(otherwise)?;
        let otherwise = Box::new(self.stored(dtype, otherwise));
        let read = Expr::GetGuarded { guard: guard.clone(), node, index: index.clone(), otherwise };
        Ok(self.read(read, node))
    }

    /// A value as the type that it has in memory: the inverse of [`Legalizer::read`].
    pub(crate) fn stored(&self, dtype: DType, value: Expr) -> Expr {
        match value {
            value if !self.is_emulated(dtype) => value,
            Expr::Bitcast { arg, .. }
                if matches!(
                    *arg,
                    Expr::Convert { .. }
                        | Expr::Get { .. }
                        | Expr::GetLocal { .. }
                        | Expr::GetMerge { .. }
                        | Expr::GetGuarded { .. }
                        | Expr::GetDynamic { .. }
                ) && self.routine.dtype_of(&arg, self.locals) == dtype =>
            {
                *arg
            }
            value => bitcast(dtype, value),
        }
    }

    fn recast(&self, from: DType, to: DType, arg: Expr) -> Expr {
        if self.carrier(from) == self.carrier(to) { arg } else { bitcast(self.carrier(to), arg) }
    }

    pub(crate) fn unary(&mut self, op: UnaryOp, dtype: DType, x: Expr) -> Result<Expr> {
        match dtype {
            DType::Bool => Ok(boolean::unary(op, x)),
            DType::F32 | DType::F64 => self.float_unary(op, dtype, x),
            _ if dtype.is_float() && self.computes(dtype) && narrow::is_one_rounding_unary(op) => {
                Ok(Expr::unary(op, x))
            }
            _ if dtype.is_float() => {
                let x = self.widen(dtype, x)?;
                let result = self.float_unary(op, DType::F32, x)?;
                self.narrow(dtype, result)
            }
            _ => self.integer_unary(op, dtype, x),
        }
    }

    pub(crate) fn binary(&mut self, op: BinaryOp, dtype: DType, a: Expr, b: Expr) -> Result<Expr> {
        match (op, dtype) {
            (BinaryOp::Arg1, _) => return Ok(a),
            (BinaryOp::Arg2, _) => return Ok(b),
            (_, DType::U32x4) => return self.random_binary(op, a, b),
            _ => {}
        }
        match dtype {
            DType::Bool => Ok(self.boolean_binary(op, a, b)),
            DType::F32 | DType::F64 => self.float_binary(op, dtype, a, b),
            _ if dtype.is_float() && self.computes(dtype) && narrow::is_one_rounding(op) => {
                Ok(Expr::binary(op, a, b))
            }
            _ if dtype.is_float() => {
                let (a, b) = if a == b {
                    let wide = self.widen(dtype, a)?;
                    (wide.clone(), wide)
                } else {
                    (self.widen(dtype, a)?, self.widen(dtype, b)?)
                };
                let result = self.float_binary(op, DType::F32, a, b)?;
                if op.is_comparison() { Ok(result) } else { self.narrow(dtype, result) }
            }
            _ => self.integer_binary(op, dtype, a, b),
        }
    }

    fn ternary(&mut self, op: TernaryOp, [a, b, c]: [&Expr; 3]) -> Result<Value> {
        let ((a, first), (b, dtype), (c, _)) = (self.value(a)?, self.value(b)?, self.value(c)?);
        match op {
            TernaryOp::Where => Ok((Expr::select(a, b, c), dtype)),
            TernaryOp::Fma => Ok((self.fma(first, a, b, c)?, first)),
            TernaryOp::Mul3 => Ok((self.mul3(first, a, b, c)?, first)),
        }
    }

    fn mul3(&mut self, dtype: DType, a: Expr, b: Expr, c: Expr) -> Result<Expr> {
        if dtype.is_float() && dtype.size_bytes() < 4 {
            let (a, b, c) = (self.widen(dtype, a)?, self.widen(dtype, b)?, self.widen(dtype, c)?);
            let product = self.float_binary(BinaryOp::Mul, DType::F32, a, b)?;
            let product = self.float_binary(BinaryOp::Mul, DType::F32, product, c)?;
            return self.narrow(dtype, product);
        }
        let product = self.binary(BinaryOp::Mul, dtype, a, b)?;
        self.binary(BinaryOp::Mul, dtype, product, c)
    }

    fn fma(&mut self, dtype: DType, a: Expr, b: Expr, c: Expr) -> Result<Expr> {
        match dtype {
            DType::F32 | DType::F64 => {
                self.require(dtype, TernaryOp::Fma, dtype)?;
                Ok(Expr::fma(a, b, c))
            }
            _ if dtype.is_float() && self.computes(dtype) => Ok(Expr::fma(a, b, c)),
            _ if dtype.is_float() => {
                let (a, b, c) = (self.widen(dtype, a)?, self.widen(dtype, b)?, self.widen(dtype, c)?);
                self.narrow(dtype, Expr::fma(a, b, c))
            }
            _ => {
                let product = self.binary(BinaryOp::Mul, dtype, a, b)?;
                self.binary(BinaryOp::Add, dtype, product, c)
            }
        }
    }
}
