//! Element types of expressions.
//!
//! Types are inferred bottom-up: operands promote to a common type. Numbers have no type of their own; they
//! take the type of the other operand, or of the context: the node written, or the type of an enclosing
//! conversion. If a fraction is combined with integers, or a function such as `exp` is applied to integers,
//! the operation computes in floats: in the larger of `f32` and the type of the context.
//!
//! An element of a node whose type is open, because only numbers were written to it, is like a number.

use tnode::DType;

use crate::number::Number;
use crate::tree::{ExprType, NodeAccess, ResolvedExpr, ResolvedExprKind};
use assignments::{AccumOp, binary_dtype, unary_dtype};
use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};
use lowered_ir::random::Distribution;

pub(crate) fn type_of(tree: &ResolvedExpr) -> ExprType {
    match &tree.kind {
        ResolvedExprKind::Number(Number { int: Some(_), .. }) => ExprType::Integer,
        ResolvedExprKind::Number(_) => ExprType::Fraction,
        // A random number takes the type of the context, as a fraction does; random bits are always `u32`.
        ResolvedExprKind::Random(random, _) if random.distribution == Distribution::Bits => {
            ExprType::Known(DType::U32)
        }
        ResolvedExprKind::Random(..) => ExprType::Fraction,
        ResolvedExprKind::Index(_) | ResolvedExprKind::Size(_) => ExprType::Known(DType::I32),
        ResolvedExprKind::NodeAccess(read) => access_type(read),
        ResolvedExprKind::Cast(to, _) => ExprType::Known(*to),
        ResolvedExprKind::Binary(op, _) if op.is_comparison() => ExprType::Known(DType::Bool),
        ResolvedExprKind::Unary(..) | ResolvedExprKind::Binary(..) | ResolvedExprKind::Ternary(..) => {
            common_type(tree)
        }
    }
}

/// The type of the elements that are read. Settles the node's type unless the node holds numbers only.
fn access_type(read: &NodeAccess) -> ExprType {
    match read.literals {
        Some(literals) if !read.node.is_dtype_settled() => literals,
        _ => ExprType::Known(read.node.dtype()),
    }
}

/// The type of a node that accumulates values of type `value` by `op`. Truth values are counted in `i32`.
pub(crate) fn accumulated_type(op: AccumOp, value: ExprType) -> ExprType {
    match (op.binary(), value) {
        (Some(op), ExprType::Known(dtype)) => ExprType::Known(binary_dtype(op, dtype, dtype)),
        _ => value,
    }
}

/// The type that holds values of both types.
pub(crate) fn either_type(a: ExprType, b: ExprType) -> ExprType {
    join(BinaryOp::Or, a, b)
}

/// The type in which an operation computes.
fn common_type(tree: &ResolvedExpr) -> ExprType {
    match &tree.kind {
        ResolvedExprKind::Unary(op, a) => match type_of(a) {
            ExprType::Known(dtype) if is_float_function(*op) && !dtype.is_float() => ExprType::Widened,
            ExprType::Known(dtype) => ExprType::Known(unary_dtype(*op, dtype)),
            ExprType::Integer if is_float_function(*op) => ExprType::Fraction,
            number => number,
        },
        ResolvedExprKind::Binary(op, args) => join(*op, type_of(&args[0]), type_of(&args[1])),
        ResolvedExprKind::Ternary(TernaryOp::Where, args) => {
            either_type(type_of(&args[1]), type_of(&args[2]))
        }
        ResolvedExprKind::Ternary(op @ (TernaryOp::Fma | TernaryOp::Mul3), args) => {
            let product = join(BinaryOp::Mul, type_of(&args[0]), type_of(&args[1]));
            let last = if *op == TernaryOp::Fma { BinaryOp::Add } else { BinaryOp::Mul };
            join(last, product, type_of(&args[2]))
        }
        ResolvedExprKind::Number(_)
        | ResolvedExprKind::Index(_)
        | ResolvedExprKind::Size(_)
        | ResolvedExprKind::NodeAccess(_)
        | ResolvedExprKind::Random(..)
        | ResolvedExprKind::Cast(..) => type_of(tree),
    }
}

/// Whether the operation converts its integer operand to a float.
pub(crate) fn is_widened(op: UnaryOp, operand: &ResolvedExpr) -> bool {
    is_float_function(op) && matches!(type_of(operand), ExprType::Known(dtype) if !dtype.is_float())
}

fn is_float_function(op: UnaryOp) -> bool {
    unary_dtype(op, DType::I32).is_float()
}

fn join(op: BinaryOp, a: ExprType, b: ExprType) -> ExprType {
    match (a, b) {
        (ExprType::Known(a), ExprType::Known(b)) => ExprType::Known(binary_dtype(op, a, b)),
        // An integer literal is no truth value.
        (ExprType::Known(DType::Bool), ExprType::Integer)
        | (ExprType::Integer, ExprType::Known(DType::Bool)) => ExprType::Known(DType::I32),
        (ExprType::Known(dtype), ExprType::Integer) | (ExprType::Integer, ExprType::Known(dtype)) => {
            ExprType::Known(dtype)
        }
        (ExprType::Known(dtype), ExprType::Fraction) | (ExprType::Fraction, ExprType::Known(dtype))
            if dtype.is_float() =>
        {
            ExprType::Known(dtype)
        }
        // No float type is larger.
        (ExprType::Known(DType::F64), _) | (_, ExprType::Known(DType::F64)) => ExprType::Known(DType::F64),
        (ExprType::Known(_) | ExprType::Widened, _) | (_, ExprType::Known(_) | ExprType::Widened) => {
            ExprType::Widened
        }
        (ExprType::Integer, ExprType::Integer) => ExprType::Integer,
        (ExprType::Fraction, _) | (_, ExprType::Fraction) => ExprType::Fraction,
    }
}

/// The common type of an operation's operands. Operands without a type take `wanted`. The result of a
/// comparison says nothing about the types compared, so operands of comparisons without a type take `i32`, or
/// a float type that depends on `written`, the type of the node written.
pub(crate) fn operand_type(tree: &ResolvedExpr, wanted: DType, written: DType) -> DType {
    match &tree.kind {
        ResolvedExprKind::Binary(op, _) if op.is_comparison() => match common_type(tree) {
            ExprType::Widened => ExprType::Widened.or(written),
            common => common.or(DType::I32),
        },
        _ => match common_type(tree) {
            ExprType::Integer if wanted == DType::Bool => DType::I32,
            common => common.or(wanted),
        },
    }
}
