//! Element types of expressions.
//!
//! Types go upwards: operands promote. Numbers have no type of their own; they take that of the other
//! operand, or of the context: the node written, or what a conversion converts to. A number with a fraction
//! next to integers, and a function such as `exp` of them, makes the operation one of floats: of the larger
//! of `f32` and the type of the context.

use tnode::DType;

use super::ast::Number;
use super::resolve::{Tree, TreeKind};
use crate::{binary_dtype, unary_dtype};
use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};
use lowered_ir::random::Distribution;

/// The type of an expression, as far as it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// A type of its own.
    Of(DType),
    /// Made of integer numbers alone.
    Integer,
    /// Made of numbers alone, with a fraction.
    Fraction,
    /// Made of integer values, and of what makes floats of them.
    Widened,
}

impl Type {
    /// The type, with `wanted` for numbers.
    pub(super) fn or(self, wanted: DType) -> DType {
        match self {
            Type::Of(dtype) => dtype,
            Type::Integer => wanted,
            Type::Fraction => float(wanted),
            Type::Widened => float(wanted).promote(DType::F32),
        }
    }
}

fn float(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::F32 }
}

pub(super) fn type_of(tree: &Tree) -> Type {
    match &tree.kind {
        TreeKind::Number(Number { int: Some(_), .. }) => Type::Integer,
        TreeKind::Number(_) => Type::Fraction,
        // Like a number with a fraction, it has the type that is wanted; bits have one size.
        TreeKind::Random(random, _) if random.distribution == Distribution::Bits => Type::Of(DType::U32),
        TreeKind::Random(..) => Type::Fraction,
        TreeKind::Index(_) | TreeKind::Size(_) => Type::Of(DType::I32),
        TreeKind::Read(read) => Type::Of(read.node.dtype()),
        TreeKind::Cast(to, _) => Type::Of(*to),
        TreeKind::Binary(op, _) if op.is_comparison() => Type::Of(DType::Bool),
        TreeKind::Unary(..) | TreeKind::Binary(..) | TreeKind::Ternary(..) => common_type(tree),
    }
}

/// The type in which an operation computes.
fn common_type(tree: &Tree) -> Type {
    match &tree.kind {
        TreeKind::Unary(op, a) => match type_of(a) {
            Type::Of(dtype) if is_float_function(*op) && !dtype.is_float() => Type::Widened,
            Type::Of(dtype) => Type::Of(unary_dtype(*op, dtype)),
            Type::Integer if is_float_function(*op) => Type::Fraction,
            number => number,
        },
        TreeKind::Binary(op, args) => join(*op, type_of(&args[0]), type_of(&args[1])),
        TreeKind::Ternary(TernaryOp::Where, args) => join(BinaryOp::Or, type_of(&args[1]), type_of(&args[2])),
        TreeKind::Ternary(op @ (TernaryOp::Fma | TernaryOp::Mul3), args) => {
            let product = join(BinaryOp::Mul, type_of(&args[0]), type_of(&args[1]));
            let last = if *op == TernaryOp::Fma { BinaryOp::Add } else { BinaryOp::Mul };
            join(last, product, type_of(&args[2]))
        }
        TreeKind::Number(_)
        | TreeKind::Index(_)
        | TreeKind::Size(_)
        | TreeKind::Read(_)
        | TreeKind::Random(..)
        | TreeKind::Cast(..) => type_of(tree),
    }
}

/// Whether an operand is an integer that the operation takes as a float.
pub(super) fn is_widened(op: UnaryOp, operand: &Tree) -> bool {
    is_float_function(op) && matches!(type_of(operand), Type::Of(dtype) if !dtype.is_float())
}

fn is_float_function(op: UnaryOp) -> bool {
    unary_dtype(op, DType::I32).is_float()
}

fn join(op: BinaryOp, a: Type, b: Type) -> Type {
    match (a, b) {
        (Type::Of(a), Type::Of(b)) => Type::Of(binary_dtype(op, a, b)),
        // A number is no truth value.
        (Type::Of(DType::Bool), Type::Integer) | (Type::Integer, Type::Of(DType::Bool)) => {
            Type::Of(DType::I32)
        }
        (Type::Of(dtype), Type::Integer) | (Type::Integer, Type::Of(dtype)) => Type::Of(dtype),
        (Type::Of(dtype), Type::Fraction) | (Type::Fraction, Type::Of(dtype)) if dtype.is_float() => {
            Type::Of(dtype)
        }
        // Nothing is larger.
        (Type::Of(DType::F64), _) | (_, Type::Of(DType::F64)) => Type::Of(DType::F64),
        (Type::Of(_) | Type::Widened, _) | (_, Type::Of(_) | Type::Widened) => Type::Widened,
        (Type::Integer, Type::Integer) => Type::Integer,
        (Type::Fraction, _) | (_, Type::Fraction) => Type::Fraction,
    }
}

/// The type that the operands of an operation have, or are given if they have none: `wanted`, and of
/// comparisons, whose result says nothing about what is compared, `i32` or floats as far as `written`, the
/// type of the node written, needs them.
pub(super) fn operand_type(tree: &Tree, wanted: DType, written: DType) -> DType {
    match &tree.kind {
        TreeKind::Binary(op, _) if op.is_comparison() => match common_type(tree) {
            Type::Widened => Type::Widened.or(written),
            common => common.or(DType::I32),
        },
        _ => match common_type(tree) {
            Type::Integer if wanted == DType::Bool => DType::I32,
            common => common.or(wanted),
        },
    }
}
