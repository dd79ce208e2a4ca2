//! Scalar expressions. A value has one lane if all lanes of the current vector loop have equal operands;
//! otherwise it has as many lanes as that loop.

use lowered_ir::ir::{Expr, TernaryOp};
use tnode::DType;
use vector_asm::Value;

use super::Translator;
use super::ops::no_instruction;
use super::reason::{BailoutReason, Result};
use super::repr;

impl Translator<'_> {
    /// Translates an expression; returns its type and value.
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<(DType, Value)> {
        Ok(match expr {
            Expr::Const(scalar) => {
                let element = repr::element(scalar.dtype()).ok_or(BailoutReason::RandomBits)?;
                (scalar.dtype(), self.build.constant(element, 1, repr::bits(*scalar)))
            }
            Expr::Index { index, dtype } => {
                let element = repr::element(*dtype).ok_or(BailoutReason::RandomBits)?;
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
                if *to == DType::F32
                    && let Some(value) = self.converted_read(arg)?
                {
                    return Ok((*to, value));
                }
                let (from, x) = self.expr(arg)?;
                (*to, self.convert(from, *to, x)?)
            }
            Expr::Bitcast { to, arg } => {
                let (from, x) = self.expr(arg)?;
                (*to, self.bitcast(from, *to, x))
            }
            Expr::GetDynamic { .. } => return Err(BailoutReason::ComputedIndex),
            Expr::Lane { .. } | Expr::Lanes(_) => return Err(BailoutReason::RandomBits),
        })
    }

    fn ternary(&mut self, op: TernaryOp, a: &Expr, b: &Expr, c: &Expr) -> Result<(DType, Value)> {
        let [(first, x), (dtype, y), (_, z)] = self.exprs([a, b, c])?;
        Ok(match op {
            TernaryOp::Where => (dtype, self.select_typed(dtype, x, y, z)),
            TernaryOp::Fma => (first, self.fma(first, x, y, z)),
            // Legalization expands `mul3`.
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

    /// Translates several expressions in descending order of register need, so that few values are live at
    /// once. Reads and constants come last, directly before their use.
    fn exprs<const N: usize>(&mut self, exprs: [&Expr; N]) -> Result<[(DType, Value); N]> {
        let mut order: [usize; N] = std::array::from_fn(|i| i);
        order.sort_by_key(|&i| std::cmp::Reverse(self.need(exprs[i])));
        let mut values = [None; N];
        for i in order {
            values[i] = Some(self.expr(exprs[i])?);
        }
        Ok(values.map(|value| value.expect("the order holds every position")))
    }

    /// The register need of an expression: the number of values that are live at once while it is computed.
    /// Reads and constants are memory operands, which need no register.
    fn need(&mut self, expr: &Expr) -> u32 {
        if is_leaf(expr) {
            return 0;
        }
        // The cache avoids repeated walks of nested expressions; their addresses are stable during a
        // translation.
        let key = std::ptr::from_ref(expr);
        if let Some(&need) = self.needs.get(&key) {
            return need;
        }
        let need = match expr {
            Expr::Unary { arg, .. } | Expr::Convert { arg, .. } | Expr::Bitcast { arg, .. } => self.need(arg),
            Expr::GetGuarded { otherwise, .. } => self.need(otherwise) + 1,
            Expr::Binary { a, b, .. } => self.need_of([a, b]),
            Expr::Ternary { a, b, c, .. } => self.need_of([a, b, c]),
            _ => 1,
        };
        self.needs.insert(key, need.max(1));
        need.max(1)
    }

    /// The register need of several operands. They are computed in descending order of need, and each result
    /// stays live while the following ones are computed.
    fn need_of<const N: usize>(&mut self, operands: [&Expr; N]) -> u32 {
        let mut needs = operands.map(|operand| self.need(operand));
        needs.sort_by_key(|&need| std::cmp::Reverse(need));
        let waiting = |at: usize| needs[at] + if needs[at] > 0 { at as u32 } else { 0 };
        (0..N).map(waiting).max().unwrap_or(0)
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
