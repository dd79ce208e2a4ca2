//! The walk over an expression: operands first, then the operation.
//!
//! An operation on known values is folded by the definition of the operation, so that compilers of the code
//! need not agree with it. The emitter supplies the instructions for everything else.

use lowered_ir::eval;
use lowered_ir::ir::{
    Affine, BinaryOp, Expr, Guard, Indices, LocalId, LoweredRoutine, NodeRef, Range, TernaryOp, UnaryOp,
};
use tnode::{DType, Scalar};

use super::lacking;
use super::scope::{FoldedCondition, LoopScope, RangeTest};
use crate::Caps;
use crate::rejection::{Checked, reject};

/// The instructions of an emitter, called by [`expr`] after the operands' instructions.
///
/// Operations get at least one operand that is not known. Kernels are legalized, so a method may reject
/// the operations that legalization replaces.
pub trait ExprEmitter {
    /// A value that the code computes: a register, or a variable of the target's language.
    type Computed: Copy + PartialEq;
    /// The value of an expression: known, or computed.
    type Value: Copy;

    /// Whether two equal operands of an operation are emitted once. Emitted twice, they are two values, and a
    /// compiler of the code may or may not see that they are equal.
    const EMITS_EQUAL_OPERANDS_ONCE: bool = false;

    /// The capabilities of the target.
    fn caps(&self) -> &Caps;
    /// The routine of the kernel.
    fn routine(&self) -> &LoweredRoutine;
    /// The element type of a local in scope.
    fn local_type(&self, local: LocalId) -> DType;
    /// The loops around the current statement.
    fn scope(&self) -> &LoopScope<'_, Self::Computed>;

    /// A known value.
    fn known(scalar: Scalar) -> Self::Value;
    /// The number, if the value is known.
    fn as_known(value: Self::Value) -> Option<Scalar>;

    /// An index that is not known, as a number of type `i32` or `i64`.
    ///
    /// # Errors
    ///
    /// A rejection if the target does not compute in the type.
    fn emit_index(&mut self, index: &Affine, dtype: DType) -> Checked<Self::Value>;
    /// Compares an index with the lower end of a range, the upper end, or both: at least one of them.
    fn emit_range(&mut self, range: &Range, lower: bool, upper: bool) -> Self::Computed;
    /// The conjunction of two truth values.
    fn emit_and(&mut self, a: Self::Computed, b: Self::Computed) -> Self::Computed;

    /// Reads an element of a node or merge buffer.
    fn emit_get(&mut self, node: NodeRef, index: &Indices) -> Self::Value;
    /// Reads an element where the guard is known to hold in the current copy of unrolled loops.
    fn emit_get_inside(&mut self, guard: &Guard, node: NodeRef, index: &Indices) -> Self::Value;
    /// Reads an element of a non-empty node where the condition holds, and yields `otherwise` elsewhere.
    fn emit_get_where(
        &mut self,
        condition: Self::Computed,
        node: NodeRef,
        index: &Indices,
        otherwise: Self::Value,
    ) -> Self::Value;
    /// Reads an element at an index that is computed along one dimension.
    ///
    /// # Errors
    ///
    /// The rejections of the two operands.
    fn emit_gather(
        &mut self,
        element: (NodeRef, &Indices, usize),
        at: &Expr,
        otherwise: &Expr,
    ) -> Checked<Self::Value>;
    /// Reads an element of a local.
    ///
    /// # Errors
    ///
    /// A rejection if the element cannot be read.
    fn emit_get_local(&mut self, local: LocalId, index: &Indices) -> Checked<Self::Value>;

    /// `op x`.
    ///
    /// # Errors
    ///
    /// A rejection if the target lacks the operation.
    fn emit_unary(&mut self, op: UnaryOp, dtype: DType, x: Self::Value) -> Checked<Self::Value>;
    /// `a op b`.
    ///
    /// # Errors
    ///
    /// A rejection if the target lacks the operation.
    fn emit_binary(
        &mut self,
        op: BinaryOp,
        dtype: DType,
        a: Self::Value,
        b: Self::Value,
    ) -> Checked<Self::Value>;
    /// `then` where the condition is true, else `otherwise`, of type `dtype`.
    fn emit_select(
        &mut self,
        dtype: DType,
        condition: Self::Value,
        then: Self::Value,
        otherwise: Self::Value,
    ) -> Self::Value;
    /// `a · b + c` on a float type in which the target computes, rounded once.
    ///
    /// # Errors
    ///
    /// A rejection if the target lacks the operation.
    fn emit_fma(&mut self, dtype: DType, args: [Self::Value; 3]) -> Checked<Self::Value>;
    /// Converts a number to another type.
    ///
    /// # Errors
    ///
    /// A rejection if the target lacks the conversion.
    fn emit_convert(&mut self, from: DType, to: DType, x: Self::Value) -> Checked<Self::Value>;
    /// The bits as a number of another type of the same size, other than `bool`.
    fn emit_bitcast(&mut self, from: DType, to: DType, x: Self::Value) -> Self::Value;
    /// One of the four words of random bits.
    fn emit_lane(&mut self, lane: u8, x: Self::Value) -> Self::Value;
    /// Random bits of four words.
    ///
    /// # Errors
    ///
    /// The rejections of the operands.
    fn emit_lanes(&mut self, lanes: &[Expr; 4]) -> Checked<Self::Value>;
}

/// Emits an expression; returns its value and its type.
///
/// # Errors
///
/// A rejection if the target lacks an operation.
pub fn expr<E: ExprEmitter>(e: &mut E, tree: &Expr) -> Checked<(E::Value, DType)> {
    match tree {
        Expr::Const(scalar) => Ok((E::known(*scalar), scalar.dtype())),
        Expr::Index { index, dtype } => match e.scope().known(index) {
            Some(known) => Ok((E::known(Scalar::from_i64(*dtype, known)), *dtype)),
            None => Ok((e.emit_index(index, *dtype)?, *dtype)),
        },
        Expr::Get { node, index } | Expr::GetMerge { node, index } => {
            Ok((e.emit_get(*node, index), e.routine().node(*node).dtype))
        }
        Expr::GetGuarded { guard, node, index, otherwise } => guarded(e, guard, *node, index, otherwise),
        Expr::GetDynamic { node, index, axis, at, otherwise } => {
            let dtype = e.routine().node(*node).dtype;
            Ok((e.emit_gather((*node, index, *axis), at, otherwise)?, dtype))
        }
        Expr::GetLocal { local, index } => Ok((e.emit_get_local(*local, index)?, e.local_type(*local))),
        Expr::Unary { op, arg } => {
            let (x, dtype) = expr(e, arg)?;
            match E::as_known(x) {
                Some(x) => Ok((E::known(eval::unary(*op, x)), dtype)),
                None => Ok((e.emit_unary(*op, dtype, x)?, dtype)),
            }
        }
        Expr::Binary { op, a, b } => binary(e, *op, a, b),
        Expr::Ternary { op, a, b, c } => ternary(e, *op, a, b, c),
        Expr::Convert { to, arg } => {
            let (x, from) = expr(e, arg)?;
            match E::as_known(x) {
                Some(x) => Ok((E::known(x.convert(*to)), *to)),
                None => Ok((e.emit_convert(from, *to, x)?, *to)),
            }
        }
        Expr::Bitcast { to, arg } => {
            let (x, from) = expr(e, arg)?;
            if let Some(x) = E::as_known(x) {
                return Ok((E::known(eval::bitcast(*to, x)), *to));
            }
            lacking::check_bitcast(from, *to)?;
            // Values of 16 bytes are random bits, which have one type.
            let is_same = from == *to || from.size_bytes() == 16;
            Ok((if is_same { x } else { e.emit_bitcast(from, *to, x) }, *to))
        }
        Expr::Lane { lane, arg } => {
            let (x, _) = expr(e, arg)?;
            match E::as_known(x) {
                Some(x) => Ok((E::known(eval::lane(*lane, x)), DType::U32)),
                None => Ok((e.emit_lane(*lane, x), DType::U32)),
            }
        }
        Expr::Lanes(lanes) => Ok((e.emit_lanes(lanes)?, DType::U32x4)),
    }
}

fn binary<E: ExprEmitter>(e: &mut E, op: BinaryOp, a: &Expr, b: &Expr) -> Checked<(E::Value, DType)> {
    let (left, dtype) = expr(e, a)?;
    let right = if E::EMITS_EQUAL_OPERANDS_ONCE && a == b { left } else { expr(e, b)?.0 };
    let value = match (E::as_known(left), E::as_known(right)) {
        (Some(a), Some(b)) => E::known(eval::binary(op, a, b)),
        _ => {
            lacking::check_binary(op, dtype)?;
            e.emit_binary(op, dtype, left, right)?
        }
    };
    Ok((value, op.result(dtype)))
}

fn ternary<E: ExprEmitter>(
    e: &mut E,
    op: TernaryOp,
    a: &Expr,
    b: &Expr,
    c: &Expr,
) -> Checked<(E::Value, DType)> {
    let ((a, first), (b, dtype), (c, _)) = (expr(e, a)?, expr(e, b)?, expr(e, c)?);
    if let (Some(a), Some(b), Some(c)) = (E::as_known(a), E::as_known(b), E::as_known(c)) {
        return Ok((E::known(eval::ternary(op, a, b, c)), dtype));
    }
    match op {
        TernaryOp::Where => match E::as_known(a) {
            Some(condition) => Ok((if condition.as_bool() { b } else { c }, dtype)),
            None => Ok((e.emit_select(dtype, a, b, c), dtype)),
        },
        TernaryOp::Fma => {
            lacking::check_arithmetic(e.caps(), op, first)?;
            if !first.is_float() {
                return lacking::expanded(op, first);
            }
            Ok((e.emit_fma(first, [a, b, c])?, first))
        }
        TernaryOp::Mul3 => lacking::expanded(op, first),
    }
}

fn guarded<E: ExprEmitter>(
    e: &mut E,
    guard: &Guard,
    node: NodeRef,
    index: &Indices,
    otherwise: &Expr,
) -> Checked<(E::Value, DType)> {
    let decl = e.routine().node(node);
    let (dtype, is_empty) = (decl.dtype, decl.dims.contains(&0));
    let (other, _) = expr(e, otherwise)?;
    let value = match condition(e, guard)? {
        FoldedCondition::Known(false) => other,
        _ if is_empty => other,
        FoldedCondition::Known(true) => e.emit_get_inside(guard, node, index),
        FoldedCondition::Computed(condition) => e.emit_get_where(condition, node, index, other),
    };
    Ok((value, dtype))
}

/// The conjunction of a guard's ranges.
fn condition<E: ExprEmitter>(e: &mut E, guard: &Guard) -> Checked<FoldedCondition<E::Computed>> {
    let mut all = FoldedCondition::Known(true);
    for range in guard {
        let next = match e.scope().test(range)? {
            RangeTest::Known(truth) => FoldedCondition::Known(truth),
            RangeTest::Compare { lower, upper } => {
                FoldedCondition::Computed(e.emit_range(range, lower, upper))
            }
        };
        all = all.and(next, |a, b| e.emit_and(a, b));
    }
    Ok(all)
}

/// Emits the computed index of a gather or scatter (`op`), of type `i32`, along dimension `axis` of a node.
/// `None` if no element has it: the node is empty, or the index is known and out of bounds.
///
/// # Errors
///
/// The rejections of the index's expression, and one if the index has another type.
pub fn dynamic_index<E: ExprEmitter>(
    e: &mut E,
    op: &str,
    node: NodeRef,
    axis: usize,
    at: &Expr,
) -> Checked<Option<E::Value>> {
    let (at, dtype) = expr(e, at)?;
    if dtype != DType::I32 {
        return reject(format!("{op} at {dtype}"), "legalization makes computed indices `i32`");
    }
    let dims = &e.routine().node(node).dims;
    let is_outside = E::as_known(at).is_some_and(|at| at.bits() as u32 >= dims[axis] as u32);
    Ok((!dims.contains(&0) && !is_outside).then_some(at))
}
