//! Expressions: operands first, then the operation. Operations on known values are evaluated by the
//! definition of the operation.

use lowered_ir::eval;
use lowered_ir::ir::{Affine, Expr, Guard, Indices, NodeRef, TernaryOp};
use ptx_asm::{CmpOp, PtxOperand, PtxTernaryOp, Reg, Ty};
use tnode::{DType, Scalar};

use super::index::{Condition, flat};
use super::memory::{ElementAddress, MemoryObject};
use super::{Emitter, Value, carrier};
use crate::unsupported::{Checked, reject};

/// A value and its type in the routine.
pub(super) type TypedValue = (Value, DType);

impl Emitter<'_> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Checked<TypedValue> {
        match expr {
            Expr::Const(scalar) => Ok((Value::Known(*scalar), scalar.dtype())),
            Expr::Index { index, dtype } => Ok((self.index_value(index, *dtype), *dtype)),
            Expr::Get { node, index } | Expr::GetMerge { node, index } => Ok(self.get(*node, index)),
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
                if let Value::Known(x) = x {
                    return Ok((Value::Known(eval::unary(*op, x)), dtype));
                }
                let x = self.reg(x);
                Ok((Value::In(self.unary(*op, dtype, x)?), dtype))
            }
            Expr::Binary { op, a, b } => {
                let ((a, dtype), (b, _)) = (self.expr(a)?, self.expr(b)?);
                if let (Value::Known(a), Value::Known(b)) = (a, b) {
                    return Ok((Value::Known(eval::binary(*op, a, b)), op.result(dtype)));
                }
                Ok((Value::In(self.binary(*op, dtype, a, b)?), op.result(dtype)))
            }
            Expr::Ternary { op, a, b, c } => self.ternary(*op, a, b, c),
            Expr::Convert { to, arg } => {
                let (x, from) = self.expr(arg)?;
                match x {
                    Value::Known(x) => Ok((Value::Known(x.convert(*to)), *to)),
                    x => Ok((self.convert(from, *to, x)?, *to)),
                }
            }
            Expr::Bitcast { to, arg } => {
                let (x, from) = self.expr(arg)?;
                match x {
                    Value::Known(x) => Ok((Value::Known(eval::bitcast(*to, x)), *to)),
                    x => Ok((self.bitcast(from, *to, x)?, *to)),
                }
            }
            Expr::Lane { lane, arg } => {
                let (x, _) = self.expr(arg)?;
                let x = match x {
                    Value::Known(x) => Value::Known(eval::lane(*lane, x)),
                    x => match self.lanes(x)[usize::from(*lane & 3)] {
                        PtxOperand::Reg(reg) => Value::In(reg),
                        PtxOperand::Const(bits) => Value::Known(Scalar::new(DType::U32, bits.into())),
                    },
                };
                Ok((x, DType::U32))
            }
            Expr::Lanes(lanes) => self.of_lanes(lanes),
        }
    }

    fn index_value(&mut self, index: &Affine, dtype: DType) -> Value {
        if let Some(known) = self.known_index(index) {
            return Value::Known(Scalar::from_i64(dtype, known));
        }
        let operand = if dtype == DType::I64 { self.wide_index(index) } else { self.index(index) };
        match operand {
            PtxOperand::Reg(reg) => Value::In(reg),
            PtxOperand::Const(bits) => Value::Known(Scalar::from_i64(dtype, bits as i64)),
        }
    }

    fn of_lanes(&mut self, lanes: &[Expr; 4]) -> Checked<TypedValue> {
        let mut words = [PtxOperand::Const(0); 4];
        for (word, lane) in words.iter_mut().zip(lanes) {
            let (lane, _) = self.expr(lane)?;
            let lane = self.kept(lane);
            *word = self.operand(lane);
        }
        Ok((Value::Lanes(words), DType::U32x4))
    }

    fn get(&mut self, node: NodeRef, index: &Indices) -> TypedValue {
        let decl = self.routine.node(node);
        let flat = flat(index, &decl.dims);
        (self.load(MemoryObject::Node(node), decl.dtype, &flat), decl.dtype)
    }

    fn guarded(
        &mut self,
        guard: &Guard,
        node: NodeRef,
        index: &Indices,
        otherwise: &Expr,
    ) -> Checked<TypedValue> {
        let decl = self.routine.node(node);
        let (other, _) = self.expr(otherwise)?;
        let condition = match self.guard(guard)? {
            Condition::Known(false) => return Ok((other, decl.dtype)),
            _ if decl.dims.contains(&0) => return Ok((other, decl.dtype)),
            Condition::Known(true) if self.holds_throughout(guard) => return Ok(self.get(node, index)),
            Condition::Known(true) => {
                // The element is loaded alone, because a vector load might read a neighbour that is out of
                // bounds.
                let flat = flat(index, &decl.dims);
                return Ok((self.load_alone(MemoryObject::Node(node), decl.dtype, &flat), decl.dtype));
            }
            Condition::Computed(condition) => condition,
        };
        let flat = flat(index, &decl.dims);
        let element = self.element(MemoryObject::Node(node), &flat, decl.dtype.size_bytes());
        Ok((self.load_when(condition, element, decl.dtype, other), decl.dtype))
    }

    fn gather(
        &mut self,
        node: NodeRef,
        index: &Indices,
        axis: usize,
        at: &Expr,
        otherwise: &Expr,
    ) -> Checked<TypedValue> {
        let dtype = self.routine.node(node).dtype;
        let at = self.computed_index("gather", node, index, axis, at)?;
        let (other, _) = self.expr(otherwise)?;
        let Some((element, inside)) = at else { return Ok((other, dtype)) };
        Ok((self.load_when(inside, element, dtype, other), dtype))
    }

    /// The element at a computed index, and whether it is in bounds: negative indices are large unsigned
    /// numbers. `None` for an index that is known to be out of bounds.
    pub(super) fn computed_index(
        &mut self,
        op: &str,
        node: NodeRef,
        index: &Indices,
        axis: usize,
        at: &Expr,
    ) -> Checked<Option<(ElementAddress, Reg)>> {
        let (at, dtype) = self.expr(at)?;
        if dtype != DType::I32 {
            return reject(format!("{op} at {dtype}"), "legalisation makes computed indices `i32`");
        }
        let decl = self.routine.node(node);
        let dim = decl.dims[axis] as u32;
        let is_outside = |at: Value| matches!(at, Value::Known(at) if at.bits() as u32 >= dim);
        if decl.dims.contains(&0) || is_outside(at) {
            return Ok(None);
        }
        let at = self.reg(at);
        let inside = self.b.compare(CmpOp::Lt, Ty::U32, at, dim);
        let size = decl.dtype.size_bytes();
        let step = decl.dims[axis + 1..].iter().product::<usize>() * size;
        let first = flat(index, &decl.dims);
        let element = self.element(MemoryObject::Node(node), &first, size);
        // The register may be a variable, so the address must not be remembered as an index.
        let element = self.gathered(element, at, step as i64);
        Ok(Some((element, inside)))
    }

    fn ternary(&mut self, op: TernaryOp, a: &Expr, b: &Expr, c: &Expr) -> Checked<TypedValue> {
        let ((a, first), (b, dtype), (c, _)) = (self.expr(a)?, self.expr(b)?, self.expr(c)?);
        if let (Value::Known(a), Value::Known(b), Value::Known(c)) = (a, b, c) {
            return Ok((Value::Known(eval::ternary(op, a, b, c)), dtype));
        }
        match op {
            TernaryOp::Where => {
                if let Value::Known(condition) = a {
                    return Ok((if condition.as_bool() { b } else { c }, dtype));
                }
                let condition = self.reg(a);
                Ok((self.chosen(condition, dtype, b, c), dtype))
            }
            TernaryOp::Fma => {
                self.check_arithmetic(&op, first)?;
                if !first.is_float() {
                    return reject(format!("`fma` on {first}"), "legalisation expands it");
                }
                let [a, b, c] = [a, b, c].map(|x| self.widened(first, x));
                let ty = if first == DType::F64 { Ty::F64 } else { Ty::F32 };
                let sum = self.b.ternary(PtxTernaryOp::Fma, ty, ty.class(), [a, b, c]);
                Ok((Value::In(self.rounded(first, sum)), first))
            }
            TernaryOp::Mul3 => reject(format!("`mul3` on {first}"), "legalisation expands it"),
        }
    }

    /// `then` if the condition is true, else `otherwise`.
    pub(super) fn chosen(&mut self, condition: Reg, dtype: DType, then: Value, otherwise: Value) -> Value {
        match dtype {
            DType::Bool => Value::In(self.chosen_truth(condition, then, otherwise)),
            DType::U32x4 => {
                let (then, otherwise) = (self.lanes(then), self.lanes(otherwise));
                Value::Lanes(
                    [0, 1, 2, 3]
                        .map(|lane| self.b.select(Ty::B32, condition, then[lane], otherwise[lane]).into()),
                )
            }
            _ => {
                let ty = match carrier(dtype) {
                    Ty::F16 | Ty::Bf16 => Ty::B16,
                    ty => ty,
                };
                let (then, otherwise) = (self.operand(then), self.operand(otherwise));
                Value::In(self.b.select(ty, condition, then, otherwise))
            }
        }
    }
}
