//! Scalar expressions as values: one lane, or as many as the current vector loop has where operands differ between them.

use lowered_ir::ir::{Expr, TernaryOp};
use tnode::DType;
use vector_asm::Value;

use super::Translator;
use super::ops::no_instruction;
use super::reason::Reason;
use super::repr;

impl Translator<'_> {
    /// The value of an expression and its type.
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<(DType, Value), Reason> {
        Ok(match expr {
            Expr::Const(scalar) => {
                let element = repr::element(scalar.dtype()).ok_or(Reason::RandomBits)?;
                (scalar.dtype(), self.build.constant(element, 1, repr::bits(*scalar)))
            }
            Expr::Index { index, dtype } => {
                let element = repr::element(*dtype).ok_or(Reason::RandomBits)?;
                (*dtype, self.index(index, element))
            }
            Expr::Get { node, index } | Expr::GetMerge { node, index } => {
                (self.routine.node(*node).dtype, self.get_node(*node, index)?)
            }
            Expr::GetGuarded { guard, node, index, otherwise } => {
                let (dtype, otherwise) = self.expr(otherwise)?;
                (dtype, self.guarded(guard, *node, index, otherwise)?)
            }
            Expr::GetLocal { local, index } => (self.locals[local].dtype, self.get_local(*local, index)?),
            Expr::Unary { op, arg } => {
                let (dtype, x) = self.expr(arg)?;
                (dtype, self.unary(*op, dtype, x)?)
            }
            Expr::Binary { op, a, b } => {
                let [(dtype, x), (_, y)] = self.exprs([a, b])?;
                (op.result(dtype), self.binary(*op, dtype, x, y)?)
            }
            Expr::Ternary { op, a, b, c } => self.ternary(*op, a, b, c)?,
            Expr::Convert { to, arg } => {
                let (from, x) = self.expr(arg)?;
                (*to, self.convert(from, *to, x))
            }
            Expr::Bitcast { to, arg } => {
                let (from, x) = self.expr(arg)?;
                (*to, self.bitcast(from, *to, x))
            }
            Expr::GetDynamic { .. } => return Err(Reason::ComputedIndex),
            Expr::Lane { .. } | Expr::Lanes(_) => return Err(Reason::RandomBits),
        })
    }

    fn ternary(&mut self, op: TernaryOp, a: &Expr, b: &Expr, c: &Expr) -> Result<(DType, Value), Reason> {
        let [(first, x), (dtype, y), (_, z)] = self.exprs([a, b, c])?;
        Ok(match op {
            TernaryOp::Where => (dtype, self.select_typed(dtype, x, y, z)),
            TernaryOp::Fma => (first, self.fma(first, x, y, z)),
            // Legalisation expands it.
            TernaryOp::Mul3 => return Err(no_instruction(op, first)),
        })
    }

    fn select_typed(&mut self, dtype: DType, mask: Value, then: Value, otherwise: Value) -> Value {
        if dtype != DType::Bool {
            return self.select(mask, then, otherwise);
        }
        let [then, otherwise] = self.masks_alike(then, otherwise);
        self.select(mask, then, otherwise)
    }

    /// Several values. What has operands of its own is computed first, so that reads and constants come right before their use.
    fn exprs<const N: usize>(&mut self, exprs: [&Expr; N]) -> Result<[(DType, Value); N], Reason> {
        let mut values = [None; N];
        for leaves in [false, true] {
            for (value, expr) in values.iter_mut().zip(exprs) {
                if is_leaf(expr) == leaves {
                    *value = Some(self.expr(expr)?);
                }
            }
        }
        Ok(values.map(|value| value.expect("every expression is a leaf or not")))
    }
}

/// Whether an expression is a read or a constant.
pub(super) fn is_leaf(expr: &Expr) -> bool {
    match expr {
        Expr::Const(_) | Expr::Index { .. } | Expr::Get { .. } => true,
        Expr::GetMerge { .. } | Expr::GetLocal { .. } => true,
        Expr::Bitcast { arg, .. } => is_leaf(arg),
        Expr::GetGuarded { .. }
        | Expr::GetDynamic { .. }
        | Expr::Unary { .. }
        | Expr::Binary { .. }
        | Expr::Ternary { .. }
        | Expr::Convert { .. }
        | Expr::Lane { .. }
        | Expr::Lanes(_) => false,
    }
}
