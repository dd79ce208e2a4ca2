//! Expressions: the instructions for each operation, behind the walk that emitters share. Its folding matters
//! here, since compilers of shaders reject constants that overflow.

use codegen_core::emit::{self, ExprEmitter, LoopScope, lacking};
use codegen_core::ir::{
    Affine, BinaryOp, Expr, Guard, Indices, LocalId, LoweredRoutine, NodeRef, Range, UnaryOp,
};
use codegen_core::{Caps, Checked, DType, Scalar};
use naga::{BinaryOperator as Op, MathFunction};

use super::memory::Element;
use super::{Emitter, Operand};
use crate::builder::{Ty, Value};

/// An operand and its type in the routine.
pub(super) type TypedOperand = (Operand, DType);

impl ExprEmitter for Emitter<'_> {
    type Computed = Value;
    type Value = Operand;

    // Compilers that find equal values rely on it: see `checked_for_zero`.
    const EMITS_EQUAL_OPERANDS_ONCE: bool = true;

    fn caps(&self) -> &Caps {
        self.caps
    }

    fn routine(&self) -> &LoweredRoutine {
        self.routine
    }

    fn local_type(&self, local: LocalId) -> DType {
        self.locals[&local].dtype
    }

    fn scope(&self) -> &LoopScope<'_, Value> {
        &self.scope
    }

    fn known(scalar: Scalar) -> Operand {
        Operand::Known(scalar)
    }

    fn as_known(value: Operand) -> Option<Scalar> {
        match value {
            Operand::Known(scalar) => Some(scalar),
            Operand::Computed(_) => None,
        }
    }

    fn emit_index(&mut self, index: &Affine, dtype: DType) -> Checked<Operand> {
        if dtype == DType::I32 {
            return Ok(Operand::Computed(self.index(index)));
        }
        lacking::check_arithmetic(self.caps, "index", dtype)?;
        Ok(Operand::Computed(self.long_index(index)))
    }

    fn emit_range(&mut self, range: &Range, lower: bool, upper: bool) -> Value {
        self.in_range(range, lower, upper)
    }

    fn emit_and(&mut self, a: Value, b: Value) -> Value {
        self.b.binary(Op::And, a, b)
    }

    fn emit_get(&mut self, node: NodeRef, index: &Indices) -> Operand {
        let element = self.element(node, index);
        self.note_read(node);
        Operand::Computed(self.load(node, element))
    }

    fn emit_get_inside(&mut self, _: &Guard, node: NodeRef, index: &Indices) -> Operand {
        self.emit_get(node, index)
    }

    /// Where the condition does not hold, the node's first element is read, which is in memory, and
    /// discarded.
    fn emit_get_where(
        &mut self,
        condition: Value,
        node: NodeRef,
        index: &Indices,
        otherwise: Operand,
    ) -> Operand {
        let element = self.numbered_element(node, index);
        let element = self.guarded_element(condition, element);
        Operand::Computed(self.read_where(condition, node, element, otherwise))
    }

    fn emit_gather(
        &mut self,
        (node, index, axis): (NodeRef, &Indices, usize),
        at: &Expr,
        otherwise: &Expr,
    ) -> Checked<Operand> {
        let at = self.computed_index("gather", node, axis, at)?;
        let (other, _) = self.expr(otherwise)?;
        let Some((at, inside)) = at else { return Ok(other) };
        let element = self.numbered_element(node, index);
        let element = self.further(element, at, self.stride(node, axis));
        let element = self.guarded_element(inside, element);
        Ok(Operand::Computed(self.read_where(inside, node, element, other)))
    }

    fn emit_get_local(&mut self, local: LocalId, index: &Indices) -> Checked<Operand> {
        self.get_local(local, index)
    }

    fn emit_unary(&mut self, op: UnaryOp, dtype: DType, x: Operand) -> Checked<Operand> {
        let x = self.value(x);
        Ok(Operand::Computed(self.unary(op, dtype, x)?))
    }

    fn emit_binary(&mut self, op: BinaryOp, dtype: DType, a: Operand, b: Operand) -> Checked<Operand> {
        if let Some(nan) = carried_nan(op, a).or_else(|| carried_nan(op, b)) {
            return Ok(nan);
        }
        if let (BinaryOp::Sub, Operand::Computed(sum), Operand::Known(rounder)) = (op, a, b)
            && let Some(rounded) = self.minus_rounder(sum, rounder)
        {
            return Ok(Operand::Computed(rounded));
        }
        let b = match b {
            // Shift amounts are `u32` for all types.
            Operand::Known(by) if matches!(op, BinaryOp::Shl | BinaryOp::Shr) => {
                self.known_value(by.convert(DType::U32))
            }
            b => self.value(b),
        };
        let a = self.value(a);
        Ok(Operand::Computed(self.binary(op, dtype, a, b)?))
    }

    fn emit_select(&mut self, _: DType, condition: Operand, then: Operand, otherwise: Operand) -> Operand {
        let [condition, then, otherwise] = [condition, then, otherwise].map(|x| self.value(x));
        Operand::Computed(self.b.select(condition, then, otherwise))
    }

    fn emit_fma(&mut self, dtype: DType, args: [Operand; 3]) -> Checked<Operand> {
        if let Some(nan) = args.into_iter().find_map(|x| carried_nan(BinaryOp::Mul, x)) {
            return Ok(nan);
        }
        let [a, b, mut c] = args.map(|x| self.value(x));
        if let Some(product) = self.checked_for_zero(Op::Multiply, dtype, a, b) {
            return Ok(Operand::Computed(self.binary(BinaryOp::Add, dtype, product, c)?));
        }
        if self.b.collects(a, b, c) {
            // If a compiler combined the multiples, it would reduce an argument by the rounded sum of two
            // constants instead of by both.
            c = self.opaque(c);
        }
        Ok(Operand::Computed(self.b.math(MathFunction::Fma, a, Some(b), Some(c))))
    }

    fn emit_convert(&mut self, from: DType, to: DType, x: Operand) -> Checked<Operand> {
        let x = self.value(x);
        Ok(Operand::Computed(self.convert(from, to, x)?))
    }

    fn emit_bitcast(&mut self, from: DType, to: DType, x: Operand) -> Operand {
        let x = self.value(x);
        Operand::Computed(self.bitcast(from, to, x))
    }

    fn emit_lane(&mut self, lane: u8, x: Operand) -> Operand {
        let x = self.value(x);
        Operand::Computed(self.b.lane(x, lane.into(), Ty::U32))
    }

    fn emit_lanes(&mut self, lanes: &[Expr; 4]) -> Checked<Operand> {
        let mut words = Vec::with_capacity(4);
        for lane in lanes {
            let (word, _) = self.expr(lane)?;
            words.push(self.value(word));
        }
        Ok(Operand::Computed(self.b.lanes([words[0], words[1], words[2], words[3]])))
    }
}

impl Emitter<'_> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Checked<TypedOperand> {
        emit::expr(self, expr)
    }

    fn read_where(&mut self, condition: Value, node: NodeRef, element: Element, other: Operand) -> Value {
        self.note_read(node);
        let read = self.load(node, element);
        let other = self.value(other);
        self.b.select(condition, read, other)
    }

    /// A computed index as `u32`, and whether it is inside of its dimension: negative ones become large
    /// numbers. `None` if no element has the index.
    pub(super) fn computed_index(
        &mut self,
        op: &str,
        node: NodeRef,
        axis: usize,
        at: &Expr,
    ) -> Checked<Option<(Value, Value)>> {
        let Some(at) = emit::dynamic_index(self, op, node, axis, at)? else { return Ok(None) };
        if let Operand::Known(at) = at {
            // Compilers reject constants that overflow, and the address of an element outside of the node may
            // overflow.
            return Ok(Some((self.b.u32(at.bits() as u32), self.b.bits(Ty::Bool, 1))));
        }
        let at = self.value(at);
        let at = self.b.bitcast(Ty::U32, at);
        let dim = self.b.u32(self.routine.node(node).dims[axis] as u32);
        let inside = self.b.binary(Op::Less, at, dim);
        Ok(Some((at, inside)))
    }

    /// The number of elements from one index of a dimension to the next.
    pub(super) fn stride(&self, node: NodeRef, axis: usize) -> u32 {
        self.routine.node(node).dims[axis + 1..].iter().product::<usize>() as u32
    }
}

/// The operand, if it is a NaN that makes the operation's result NaN for every other operand. Compilers
/// assume that there is no NaN, and fold the product of a NaN with 0 to 0.
fn carried_nan(op: BinaryOp, operand: Operand) -> Option<Operand> {
    let carries = matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem);
    let is_nan = |x: Scalar| x.dtype().is_float() && x.as_f64().is_nan();
    matches!(operand, Operand::Known(x) if carries && is_nan(x)).then_some(operand)
}
