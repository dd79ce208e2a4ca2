//! Emits expressions: the operands before the operation. Operations on known operands are folded here by the
//! definition of the operation, since compilers of shaders reject constants that overflow.

use lowered_ir::eval;
use lowered_ir::ir::{BinaryOp, Expr, Guard, Indices, NodeRef, TernaryOp};
use naga::MathFunction;
use tnode::{DType, Scalar};

use super::index::Condition;
use super::{Emitter, Operand};
use crate::builder::{Ty, Value};
use crate::errors::{Checked, reject};

/// An operand and its type in the routine.
pub(super) type TypedOperand = (Operand, DType);

impl Emitter<'_> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Checked<TypedOperand> {
        match expr {
            Expr::Const(scalar) => Ok((Operand::Known(*scalar), scalar.dtype())),
            Expr::Index { index, dtype } => self.index_value(index, *dtype),
            Expr::Get { node, index } | Expr::GetMerge { node, index } => {
                let element = self.element(*node, index);
                self.note_read(*node);
                Ok((Operand::Computed(self.load(*node, element)), self.routine.node(*node).dtype))
            }
            Expr::GetGuarded { guard, node, index, otherwise } => {
                self.guarded(guard, *node, index, otherwise)
            }
            Expr::GetDynamic { node, index, axis, at, otherwise } => {
                self.gather(*node, index, *axis, at, otherwise)
            }
            Expr::GetLocal { local, index } => {
                let dtype = self.locals[local].dtype;
                Ok((self.get_local(*local, index)?, dtype))
            }
            Expr::Unary { op, arg } => {
                let (x, dtype) = self.expr(arg)?;
                if let Operand::Known(x) = x {
                    return Ok((Operand::Known(eval::unary(*op, x)), dtype));
                }
                let x = self.value(x);
                Ok((Operand::Computed(self.unary(*op, dtype, x)?), dtype))
            }
            Expr::Binary { op, a, b } => {
                let (left, dtype) = self.expr(a)?;
                // If an operand were emitted twice, the emitter would not know that the two values are equal,
                // but compilers would find out; see `checked_for_zero`.
                let (a, b) = (left, if a == b { left } else { self.expr(b)?.0 });
                if let (Operand::Known(a), Operand::Known(b)) = (a, b) {
                    return Ok((Operand::Known(eval::binary(*op, a, b)), op.result(dtype)));
                }
                if let Some(nan) = carried_nan(*op, a).or_else(|| carried_nan(*op, b)) {
                    return Ok((nan, dtype));
                }
                if let (BinaryOp::Sub, Operand::Computed(sum), Operand::Known(rounder)) = (op, a, b)
                    && let Some(rounded) = self.minus_rounder(sum, rounder)
                {
                    return Ok((Operand::Computed(rounded), dtype));
                }
                let b = match b {
                    // Shift amounts are `u32` for all types.
                    Operand::Known(by) if matches!(op, BinaryOp::Shl | BinaryOp::Shr) => {
                        self.known(by.convert(DType::U32))
                    }
                    b => self.value(b),
                };
                let a = self.value(a);
                Ok((Operand::Computed(self.binary(*op, dtype, a, b)?), op.result(dtype)))
            }
            Expr::Ternary { op, a, b, c } => self.ternary(*op, a, b, c),
            Expr::Convert { to, arg } => {
                let (x, from) = self.expr(arg)?;
                if let Operand::Known(x) = x {
                    return Ok((Operand::Known(x.convert(*to)), *to));
                }
                let x = self.value(x);
                Ok((Operand::Computed(self.convert(from, *to, x)?), *to))
            }
            Expr::Bitcast { to, arg } => {
                let (x, from) = self.expr(arg)?;
                if let Operand::Known(x) = x {
                    return Ok((Operand::Known(eval::bitcast(*to, x)), *to));
                }
                let x = self.value(x);
                Ok((Operand::Computed(self.bitcast(from, *to, x)?), *to))
            }
            Expr::Lane { lane, arg } => {
                let (x, _) = self.expr(arg)?;
                Ok((
                    match x {
                        Operand::Known(x) => Operand::Known(eval::lane(*lane, x)),
                        Operand::Computed(x) => Operand::Computed(self.b.lane(x, (*lane).into(), Ty::U32)),
                    },
                    DType::U32,
                ))
            }
            Expr::Lanes(lanes) => self.lanes(lanes),
        }
    }

    fn index_value(&mut self, index: &lowered_ir::ir::Affine, dtype: DType) -> Checked<TypedOperand> {
        if let Some(known) = self.known_index(index) {
            return Ok((Operand::Known(Scalar::from_i64(dtype, known)), dtype));
        }
        let ty = match dtype {
            DType::I32 => Ty::I32,
            _ => {
                self.check_arithmetic(&"index", dtype)?;
                Ty::I64
            }
        };
        Ok((Operand::Computed(self.embedded(index, ty)), dtype))
    }

    fn lanes(&mut self, lanes: &[Expr; 4]) -> Checked<TypedOperand> {
        let mut words = Vec::with_capacity(4);
        for lane in lanes {
            let (word, _) = self.expr(lane)?;
            words.push(self.value(word));
        }
        let lanes = self.b.lanes([words[0], words[1], words[2], words[3]]);
        Ok((Operand::Computed(lanes), DType::U32x4))
    }

    /// The element if the guard holds. Otherwise the node's first element, which always exists, is read and
    /// discarded.
    fn guarded(
        &mut self,
        guard: &Guard,
        node: NodeRef,
        index: &Indices,
        otherwise: &Expr,
    ) -> Checked<TypedOperand> {
        let decl = self.routine.node(node);
        let is_empty = decl.dims.contains(&0);
        let (other, _) = self.expr(otherwise)?;
        let condition = match self.guard(guard)? {
            Condition::Known(false) => return Ok((other, decl.dtype)),
            _ if is_empty => return Ok((other, decl.dtype)),
            Condition::Known(true) => {
                let element = self.element(node, index);
                self.note_read(node);
                return Ok((Operand::Computed(self.load(node, element)), decl.dtype));
            }
            Condition::Computed(condition) => condition,
        };
        let element = self.numbered_element(node, index);
        let element = self.guarded_element(condition, element);
        Ok((Operand::Computed(self.read_where(condition, node, element, other)), decl.dtype))
    }

    fn read_where(
        &mut self,
        condition: Value,
        node: NodeRef,
        element: super::memory::Element,
        other: Operand,
    ) -> Value {
        self.note_read(node);
        let read = self.load(node, element);
        let other = self.value(other);
        self.b.select(condition, read, other)
    }

    fn gather(
        &mut self,
        node: NodeRef,
        index: &Indices,
        axis: usize,
        at: &Expr,
        otherwise: &Expr,
    ) -> Checked<TypedOperand> {
        let dtype = self.routine.node(node).dtype;
        let at = self.computed_index("gather", node, axis, at)?;
        let (other, _) = self.expr(otherwise)?;
        let is_empty = self.routine.node(node).dims.contains(&0);
        let Some((at, inside)) = at.filter(|_| !is_empty) else { return Ok((other, dtype)) };
        let element = self.numbered_element(node, index);
        let element = self.further(element, at, self.stride(node, axis));
        let element = self.guarded_element(inside, element);
        Ok((Operand::Computed(self.read_where(inside, node, element, other)), dtype))
    }

    /// A computed index as `u32`, and whether it is inside of its dimension: negative ones become large
    /// numbers. `None` for an index that is known to be outside.
    pub(super) fn computed_index(
        &mut self,
        op: &str,
        node: NodeRef,
        axis: usize,
        at: &Expr,
    ) -> Checked<Option<(Value, Value)>> {
        let (at, dtype) = self.expr(at)?;
        if dtype != DType::I32 {
            return reject(format!("{op} at {dtype}"), "legalisation makes computed indices `i32`");
        }
        let dim = self.routine.node(node).dims[axis] as u32;
        if let Operand::Known(at) = at {
            // Compilers reject constants that overflow, and the address of an element outside of the node may
            // overflow.
            let at = at.bits() as u32;
            return Ok((at < dim).then(|| (self.b.u32(at), self.b.bits(Ty::Bool, 1))));
        }
        let at = self.value(at);
        let at = self.b.bitcast(Ty::U32, at);
        let dim = self.b.u32(dim);
        let inside = self.b.binary(naga::BinaryOperator::Less, at, dim);
        Ok(Some((at, inside)))
    }

    /// The number of elements from one index of a dimension to the next.
    pub(super) fn stride(&self, node: NodeRef, axis: usize) -> u32 {
        self.routine.node(node).dims[axis + 1..].iter().product::<usize>() as u32
    }

    fn ternary(&mut self, op: TernaryOp, a: &Expr, b: &Expr, c: &Expr) -> Checked<TypedOperand> {
        let ((a, first), (b, dtype), (c, _)) = (self.expr(a)?, self.expr(b)?, self.expr(c)?);
        if let (Operand::Known(a), Operand::Known(b), Operand::Known(c)) = (a, b, c) {
            return Ok((Operand::Known(eval::ternary(op, a, b, c)), dtype));
        }
        if op == TernaryOp::Fma
            && let Some(nan) = [a, b, c].into_iter().find_map(|x| carried_nan(BinaryOp::Mul, x))
        {
            return Ok((nan, first));
        }
        match op {
            TernaryOp::Where => {
                if let Operand::Known(condition) = a {
                    return Ok((if condition.as_bool() { b } else { c }, dtype));
                }
                let (condition, then, otherwise) = (self.value(a), self.value(b), self.value(c));
                Ok((Operand::Computed(self.b.select(condition, then, otherwise)), dtype))
            }
            TernaryOp::Fma => {
                self.check_arithmetic(&op, first)?;
                if !first.is_float() {
                    return reject(format!("`fma` on {first}"), "legalisation expands it");
                }
                let (a, b, mut c) = (self.value(a), self.value(b), self.value(c));
                if let Some(product) = self.checked_for_zero(naga::BinaryOperator::Multiply, first, a, b) {
                    return Ok((Operand::Computed(self.binary(BinaryOp::Add, first, product, c)?), first));
                }
                if self.b.collects(a, b, c) {
                    // If a compiler combined the multiples, it would reduce an argument by the rounded sum of
                    // two constants instead of by both.
                    c = self.opaque(c);
                }
                Ok((Operand::Computed(self.b.math(MathFunction::Fma, a, Some(b), Some(c))), first))
            }
            TernaryOp::Mul3 => reject(format!("`mul3` on {first}"), "legalisation expands it"),
        }
    }
}

/// The operand, if it is a NaN that makes the operation's result NaN for every other operand. Compilers
/// assume that there is no NaN, and fold the product of a NaN with 0 to 0.
fn carried_nan(op: BinaryOp, operand: Operand) -> Option<Operand> {
    let carries = matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem);
    let is_nan = |x: Scalar| x.dtype().is_float() && x.as_f64().is_nan();
    matches!(operand, Operand::Known(x) if carries && is_nan(x)).then_some(operand)
}
