//! Scalar expressions.

use std::hash::{Hash, Hasher};

use smallvec::SmallVec;
use tnode::{DType, Scalar};

use super::{Affine, BinaryOp, Guard, Indices, LocalId, NodeRef, TernaryOp, UnaryOp};

/// A scalar expression: a pure function of memory and the variables in scope. An index has one affine form
/// per dimension, and `arg`, `a`, `b` and `c` are operands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the documentation of a variant says what its fields are")]
pub enum Expr {
    /// A constant with its type and bits.
    Const(Scalar),
    /// The value of an index as a number of type `i32` or `i64`; the verifier proves that it fits.
    Index { index: Affine, dtype: DType },
    /// An element of a node. The index is within bounds for all values of its variables, which the verifier
    /// proves.
    Get { node: NodeRef, index: Indices },
    /// An element of a node where `guard` holds, else `otherwise`, which has the node's type; memory is
    /// touched only where the guard holds. Together with the ranges of the variables, the guard proves that
    /// the index is in bounds.
    GetGuarded { guard: Guard, node: NodeRef, index: Indices, otherwise: Box<Expr> },
    /// The element of a node whose index in the dimension `axis` is computed: `at`, of any integer type, as
    /// a mathematical integer. The index has 0 in that dimension. Where `at` is outside the dimension the
    /// value is `otherwise`, of the node's type, and memory is not touched.
    GetDynamic { node: NodeRef, index: Indices, axis: usize, at: Box<Expr>, otherwise: Box<Expr> },
    /// An element of the stream's merge buffer, which holds a copy of `node`.
    GetMerge { node: NodeRef, index: Indices },
    /// An element of a declared local; a scalar local has no indices.
    GetLocal { local: LocalId, index: Indices },
    /// An operation on one operand.
    Unary { op: UnaryOp, arg: Box<Expr> },
    /// An operation on two operands of one type.
    Binary { op: BinaryOp, a: Box<Expr>, b: Box<Expr> },
    /// An operation on three operands; `a` is the condition of `where`.
    Ternary { op: TernaryOp, a: Box<Expr>, b: Box<Expr>, c: Box<Expr> },
    /// The operand's value in the type `to`, by [`Scalar::convert`].
    Convert { to: DType, arg: Box<Expr> },
    /// The operand's bits read as the type `to`, which has the same size.
    Bitcast { to: DType, arg: Box<Expr> },
    /// One of the four lanes of a `u32x4`, 0 to 3, as `u32`.
    Lane { lane: u8, arg: Box<Expr> },
    /// The `u32x4` with these lanes, each a `u32`.
    Lanes(Box<[Expr; 4]>),
}

/// The element types of the nodes and locals that an expression mentions.
pub trait Types {
    /// The element type of a node.
    fn node(&self, node: NodeRef) -> DType;
    /// The element type of a local.
    fn local(&self, local: LocalId) -> DType;
}

impl Expr {
    /// `op arg`.
    pub fn unary(op: UnaryOp, arg: Expr) -> Expr {
        Expr::Unary { op, arg: Box::new(arg) }
    }

    /// `a op b`.
    pub fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
        Expr::Binary { op, a: Box::new(a), b: Box::new(b) }
    }

    /// `op(a, b, c)`.
    pub fn ternary(op: TernaryOp, a: Expr, b: Expr, c: Expr) -> Expr {
        Expr::Ternary { op, a: Box::new(a), b: Box::new(b), c: Box::new(c) }
    }

    /// `where(condition, then, otherwise)`.
    pub fn select(condition: Expr, then: Expr, otherwise: Expr) -> Expr {
        Expr::ternary(TernaryOp::Where, condition, then, otherwise)
    }

    /// `a * b + c` with one rounding.
    pub fn fma(a: Expr, b: Expr, c: Expr) -> Expr {
        Expr::ternary(TernaryOp::Fma, a, b, c)
    }

    /// `arg` converted to `to`.
    pub fn convert(to: DType, arg: Expr) -> Expr {
        Expr::Convert { to, arg: Box::new(arg) }
    }

    /// The bits of `arg` read as `to`.
    pub fn bitcast(to: DType, arg: Expr) -> Expr {
        Expr::Bitcast { to, arg: Box::new(arg) }
    }

    /// Lane `lane` of `arg`.
    pub fn lane(lane: u8, arg: Expr) -> Expr {
        Expr::Lane { lane, arg: Box::new(arg) }
    }

    /// An element of a node.
    pub fn get(node: NodeRef, index: impl IntoIterator<Item = Affine>) -> Expr {
        Expr::Get { node, index: index.into_iter().collect() }
    }

    /// The value of a scalar local.
    pub fn local(local: LocalId) -> Expr {
        Expr::GetLocal { local, index: Indices::new() }
    }

    /// The operands of the outermost operation, left to right.
    pub fn children(&self) -> SmallVec<[&Expr; 4]> {
        let mut children = SmallVec::new();
        self.each_child_backwards(|child| children.push(child));
        children.reverse();
        children
    }

    /// Calls `f` with the operands of the outermost operation, right to left. Walks with a stack push them in
    /// this order.
    #[inline(always)]
    pub(crate) fn each_child_backwards<'a>(&'a self, mut f: impl FnMut(&'a Expr)) {
        match self {
            Expr::Const(_)
            | Expr::Index { .. }
            | Expr::Get { .. }
            | Expr::GetMerge { .. }
            | Expr::GetLocal { .. } => {}
            Expr::GetGuarded { otherwise: arg, .. }
            | Expr::Unary { arg, .. }
            | Expr::Convert { arg, .. }
            | Expr::Bitcast { arg, .. }
            | Expr::Lane { arg, .. } => f(arg),
            Expr::GetDynamic { at: a, otherwise: b, .. } | Expr::Binary { a, b, .. } => {
                f(b);
                f(a);
            }
            Expr::Ternary { a, b, c, .. } => {
                f(c);
                f(b);
                f(a);
            }
            Expr::Lanes(lanes) => lanes.iter().rev().for_each(f),
        }
    }

    /// Hashes the outermost operation without its operands.
    pub(crate) fn hash_own(&self, state: &mut impl Hasher) {
        std::mem::discriminant(self).hash(state);
        match self {
            Expr::Const(scalar) => scalar.hash(state),
            Expr::Index { index, dtype } => (index, dtype).hash(state),
            Expr::Get { node, index } | Expr::GetMerge { node, index } => (node, index).hash(state),
            Expr::GetGuarded { guard, node, index, .. } => (guard, node, index).hash(state),
            Expr::GetDynamic { node, index, axis, .. } => (node, index, axis).hash(state),
            Expr::GetLocal { local, index } => (local, index).hash(state),
            Expr::Unary { op, .. } => op.hash(state),
            Expr::Binary { op, .. } => op.hash(state),
            Expr::Ternary { op, .. } => op.hash(state),
            Expr::Convert { to, .. } | Expr::Bitcast { to, .. } => to.hash(state),
            Expr::Lane { lane, .. } => lane.hash(state),
            Expr::Lanes(_) => {}
        }
    }

    /// The element type of the expression's value, assuming that it is well typed (the verifier checks that).
    pub fn dtype(&self, types: &impl Types) -> DType {
        match self {
            Expr::Const(scalar) => scalar.dtype(),
            Expr::Index { dtype, .. } => *dtype,
            Expr::Get { node, .. }
            | Expr::GetGuarded { node, .. }
            | Expr::GetDynamic { node, .. }
            | Expr::GetMerge { node, .. } => types.node(*node),
            Expr::GetLocal { local, .. } => types.local(*local),
            Expr::Unary { arg, .. } => arg.dtype(types),
            Expr::Binary { op, a, .. } => op.result(a.dtype(types)),
            Expr::Ternary { op: TernaryOp::Where, b, .. } => b.dtype(types),
            Expr::Ternary { op: TernaryOp::Fma | TernaryOp::Mul3, a, .. } => a.dtype(types),
            Expr::Convert { to, .. } | Expr::Bitcast { to, .. } => *to,
            Expr::Lane { .. } => DType::U32,
            Expr::Lanes(_) => DType::U32x4,
        }
    }
}
