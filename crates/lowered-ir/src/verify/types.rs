//! Rules V14, V16 and V17 on the types of operations.

use tnode::DType;

use super::Violation;
use crate::ir::{BinaryOp, TernaryOp, UnaryOp};

/// The type of `op x`.
pub(super) fn unary(op: UnaryOp, x: DType) -> Result<DType, Violation> {
    computable(x, || format!("the operand of `{op}`"))?;
    Ok(x)
}

/// The type of `a op b`.
pub(super) fn binary(op: BinaryOp, a: DType, b: DType) -> Result<DType, Violation> {
    match op {
        BinaryOp::Arg1 | BinaryOp::Arg2 => {}
        _ if op.is_random() => same(a, DType::U32x4, || format!("the left operand of `{op}`"))?,
        _ => computable(a, || format!("the left operand of `{op}`"))?,
    }
    if op.is_bitwise() && a.is_float() {
        return Err(operand(format!("the left operand of `{op}`"), "an integer type or bool", a));
    }
    same(b, a, || format!("the right operand of `{op}`"))?;
    Ok(op.result(a))
}

/// The type of `op(a, b, c)`.
pub(super) fn ternary(op: TernaryOp, a: DType, b: DType, c: DType) -> Result<DType, Violation> {
    match op {
        TernaryOp::Where => same(a, DType::Bool, || "the condition of `where`".into())?,
        TernaryOp::Fma | TernaryOp::Mul3 => same(b, a, || format!("the second operand of `{op}`"))?,
    }
    computable(b, || format!("the second operand of `{op}`"))?;
    same(c, b, || format!("the third operand of `{op}`"))?;
    Ok(b)
}

/// Checks rules V16 and V17 for `convert to(x)`.
pub(super) fn convert(to: DType, x: DType) -> Result<DType, Violation> {
    computable(x, || "the operand of `convert`".into())?;
    computable(to, || "the result of `convert`".into())?;
    Ok(to)
}

/// Checks rules V16 and V17 for `bitcast to(x)`.
pub(super) fn bitcast(to: DType, x: DType) -> Result<DType, Violation> {
    computable(x, || "the operand of `bitcast`".into())?;
    computable(to, || "the result of `bitcast`".into())?;
    if x.size_bytes() != to.size_bytes() {
        return Err(Violation::Bitcast { from: x, to, expected: "types of one size" });
    }
    if to == DType::Bool && x != DType::Bool {
        return Err(Violation::Bitcast {
            from: x,
            to,
            expected: "a conversion or a comparison to get a bool",
        });
    }
    Ok(to)
}

/// Checks rule V14 for `lane k(x)`.
pub(super) fn lane(x: DType) -> Result<DType, Violation> {
    same(x, DType::U32x4, || "the operand of `lane`".into())?;
    Ok(DType::U32)
}

/// Checks rule V14 for one operand of `lanes`.
pub(super) fn lane_of_lanes(x: DType) -> Result<(), Violation> {
    same(x, DType::U32, || "an operand of `lanes`".into())
}

/// Checks rule V14 for a computed index.
pub(super) fn computed_index(x: DType, array: impl FnOnce() -> String) -> Result<(), Violation> {
    match x.is_integer() {
        true => Ok(()),
        false => Err(operand(format!("the computed index of {}", array()), "an integer type", x)),
    }
}

/// Checks rule V21 for the operation of an accumulating store.
pub(super) fn accumulation(op: BinaryOp, dtype: DType) -> Result<(), Violation> {
    match op.accumulates() {
        true => binary(op, dtype, dtype).map(drop),
        false => Err(Violation::NotAccumulating { op: op.token() }),
    }
}

/// Checks rule V14 for two types that must agree.
pub(super) fn same(found: DType, expected: DType, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if found == expected { Ok(()) } else { Err(operand(what(), expected.token(), found)) }
}

/// Checks rule V16.
fn computable(dtype: DType, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if dtype == DType::U32x4 { Err(Violation::RandomBits { what: what() }) } else { Ok(()) }
}

fn operand(what: String, expected: &str, found: DType) -> Violation {
    Violation::Operand { what, expected: expected.to_owned(), found }
}
