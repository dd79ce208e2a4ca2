//! Expressions: the instructions for each operation, behind the walk that emitters share.

use codegen_core::emit::{self, ExprEmitter, LoopScope};
use codegen_core::ir::{
    Affine, BinaryOp, Expr, Guard, Indices, LocalId, LoweredRoutine, NodeRef, Range, UnaryOp,
};
use codegen_core::{Caps, Checked, DType, Scalar};
use ptx_asm::{CmpOp, PtxBinaryOp, PtxOperand, Reg, Ty};

use super::memory::{ElementAddress, MemoryObject};
use super::{Emitter, Value, carrier};

/// A value and its type in the routine.
pub(super) type TypedValue = (Value, DType);

impl ExprEmitter for Emitter<'_> {
    type Computed = Reg;
    type Value = Value;

    fn caps(&self) -> &Caps {
        self.setting.caps
    }

    fn routine(&self) -> &LoweredRoutine {
        self.routine
    }

    fn local_type(&self, local: LocalId) -> DType {
        self.locals[&local].dtype
    }

    fn scope(&self) -> &LoopScope<'_, Reg> {
        &self.scope
    }

    fn known(scalar: Scalar) -> Value {
        Value::Known(scalar)
    }

    fn as_known(value: Value) -> Option<Scalar> {
        match value {
            Value::Known(scalar) => Some(scalar),
            Value::In(_) | Value::Lanes(_) => None,
        }
    }

    fn emit_index(&mut self, index: &Affine, dtype: DType) -> Checked<Value> {
        let operand = if dtype == DType::I64 { self.wide_index(index) } else { self.index(index) };
        Ok(match operand {
            PtxOperand::Reg(reg) => Value::In(reg),
            PtxOperand::Const(bits) => Value::Known(Scalar::from_i64(dtype, bits as i64)),
        })
    }

    fn emit_range(&mut self, range: &Range, lower: bool, upper: bool) -> Reg {
        self.in_range(range, lower, upper)
    }

    fn emit_and(&mut self, a: Reg, b: Reg) -> Reg {
        self.b.index(PtxBinaryOp::And, Ty::Pred, a, b)
    }

    fn emit_get(&mut self, node: NodeRef, index: &Indices) -> Value {
        let decl = self.routine.node(node);
        self.load(MemoryObject::Node(node), decl.dtype, &Affine::row_major(index, &decl.dims))
    }

    fn emit_get_inside(&mut self, guard: &Guard, node: NodeRef, index: &Indices) -> Value {
        if self.holds_throughout(guard) {
            return self.emit_get(node, index);
        }
        // The element is loaded alone, because a vector load might read a neighbor that is out of bounds.
        let decl = self.routine.node(node);
        self.load_alone(MemoryObject::Node(node), decl.dtype, &Affine::row_major(index, &decl.dims))
    }

    fn emit_get_where(&mut self, condition: Reg, node: NodeRef, index: &Indices, otherwise: Value) -> Value {
        let decl = self.routine.node(node);
        let flat = Affine::row_major(index, &decl.dims);
        let element = self.element(MemoryObject::Node(node), &flat, decl.dtype.size_bytes());
        self.load_when(condition, element, decl.dtype, otherwise)
    }

    fn emit_gather(
        &mut self,
        (node, index, axis): (NodeRef, &Indices, usize),
        at: &Expr,
        otherwise: &Expr,
    ) -> Checked<Value> {
        let at = self.computed_index("gather", node, index, axis, at)?;
        let (other, dtype) = self.expr(otherwise)?;
        Ok(match at {
            Some((element, inside)) => self.load_when(inside, element, dtype, other),
            None => other,
        })
    }

    fn emit_get_local(&mut self, local: LocalId, index: &Indices) -> Checked<Value> {
        self.get_local(local, index)
    }

    fn emit_unary(&mut self, op: UnaryOp, dtype: DType, x: Value) -> Checked<Value> {
        let x = self.reg(x);
        Ok(Value::In(self.unary(op, dtype, x)?))
    }

    fn emit_binary(&mut self, op: BinaryOp, dtype: DType, a: Value, b: Value) -> Checked<Value> {
        Ok(Value::In(self.binary(op, dtype, a, b)?))
    }

    fn emit_select(&mut self, dtype: DType, condition: Value, then: Value, otherwise: Value) -> Value {
        let condition = self.reg(condition);
        self.chosen(condition, dtype, then, otherwise)
    }

    fn emit_fma(&mut self, dtype: DType, args: [Value; 3]) -> Checked<Value> {
        let [a, b, c] = args.map(|x| self.widened(dtype, x));
        let ty = if dtype == DType::F64 { Ty::F64 } else { Ty::F32 };
        let sum = self.b.fma(ty, a, b, c);
        Ok(Value::In(self.rounded(dtype, sum)))
    }

    fn emit_convert(&mut self, from: DType, to: DType, x: Value) -> Checked<Value> {
        self.convert(from, to, x)
    }

    fn emit_bitcast(&mut self, from: DType, to: DType, x: Value) -> Value {
        self.bitcast(from, to, x)
    }

    fn emit_lane(&mut self, lane: u8, x: Value) -> Value {
        match self.lanes(x)[usize::from(lane & 3)] {
            PtxOperand::Reg(reg) => Value::In(reg),
            PtxOperand::Const(bits) => Value::Known(Scalar::new(DType::U32, bits.into())),
        }
    }

    fn emit_lanes(&mut self, lanes: &[Expr; 4]) -> Checked<Value> {
        let mut words = [PtxOperand::Const(0); 4];
        for (word, lane) in words.iter_mut().zip(lanes) {
            let (lane, _) = self.expr(lane)?;
            let lane = self.kept(lane);
            *word = self.operand(lane);
        }
        Ok(Value::Lanes(words))
    }
}

impl Emitter<'_> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Checked<TypedValue> {
        emit::expr(self, expr)
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
        let Some(at) = emit::dynamic_index(self, op, node, axis, at)? else { return Ok(None) };
        let decl = self.routine.node(node);
        let at = self.reg(at);
        let inside = self.b.compare(CmpOp::Lt, Ty::U32, at, decl.dims[axis] as u32);
        let size = decl.dtype.size_bytes();
        let step = decl.dims[axis + 1..].iter().product::<usize>() * size;
        let first = Affine::row_major(index, &decl.dims);
        let element = self.element(MemoryObject::Node(node), &first, size);
        // The register may be a variable, so the address must not be remembered as an index.
        let element = self.gathered(element, at, step as i64);
        Ok(Some((element, inside)))
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
