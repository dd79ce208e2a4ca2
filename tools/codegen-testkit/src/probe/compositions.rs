//! Operations on the results of other operations.
//!
//! A code generator that computes narrow types in wide registers must cut or round each result before the
//! next operation sees it: `convert i32(a + b)` of two `u8` is less than 256. Stores cut by themselves, so
//! only operations within one expression show it.

use lowered_ir::ir::{BinaryOp, Expr, UnaryOp};
use tnode::{DType, Scalar};

use super::{Operands, Operation, special};

/// The rows of a probe: each special value with itself and with some of the others.
pub(super) fn rows(dtype: DType) -> Operands {
    let values = special(dtype);
    let at = |at: usize| values[at % values.len()];
    let pairs = (0..values.len()).flat_map(|first| [0, 1, 3, 6].map(|step| (first, first + step)));
    let pairs: Vec<(usize, usize)> = pairs.collect();
    let column = |pick: &dyn Fn(usize, (usize, usize)) -> usize| -> Vec<Scalar> {
        pairs.iter().enumerate().map(|(row, &pair)| at(pick(row, pair))).collect()
    };
    (column(&|_, (a, _)| a), column(&|_, (_, b)| b), column(&|row, (a, _)| a * 3 + row * 5 + 1))
}

/// For each inner operation on a type, the operations on its result. Conversions go to these types.
pub(super) fn families(dtype: DType, targets: &[DType]) -> Vec<(String, Vec<Operation>)> {
    let uses = |(name, value): (&str, Expr)| {
        let operations = operations(dtype, &value).into_iter().chain(conversions(dtype, &value, targets));
        (format!("uses of {name}"), operations.collect())
    };
    inner(dtype).into_iter().map(uses).collect()
}

/// Conversions of all inner operations on a type to these types.
pub(super) fn all_conversions(dtype: DType, targets: &[DType]) -> Vec<Operation> {
    let mut all = Vec::new();
    for (name, value) in inner(dtype) {
        let named = |op: Operation| Operation { name: format!("{} of {name}", op.name), ..op };
        all.extend(conversions(dtype, &value, targets).into_iter().map(named));
    }
    all
}

/// The operations whose results are used.
fn inner(dtype: DType) -> Vec<(&'static str, Expr)> {
    use BinaryOp::{Add, BitXor, Div, Mul, Shl, Sub};
    if dtype == DType::Bool {
        return Vec::new();
    }
    let binary = |op: BinaryOp| (op.token(), Expr::binary(op, Operation::at(0), Operation::at(1)));
    let mut inner: Vec<(&str, Expr)> = [Add, Sub, Mul].map(binary).into();
    inner.push((UnaryOp::Neg.token(), Expr::unary(UnaryOp::Neg, Operation::at(0))));
    match dtype.is_float() {
        true => inner.push(binary(Div)),
        false => inner.extend([binary(Shl), binary(BitXor)]),
    }
    inner
}

/// The operations on a value of a type. The other operand is the third; where equality matters, it is the
/// first, so that a small second operand is lost.
fn operations(dtype: DType, value: &Expr) -> Vec<Operation> {
    use BinaryOp::{Div, Eq, Le, Lt, Max, Min, Rem, Shl, Shr, Sub};
    let (value, other) = (|| value.clone(), || Operation::at(2));
    let mut uses = Vec::new();
    for op in [Lt, Le, Eq, Div, Rem, Max, Min, Shr, Shl] {
        let name = op.token();
        uses.push(Operation::plain(
            &format!("of {name}"),
            Expr::binary(op, value(), other()),
            op.result(dtype),
        ));
        uses.push(Operation::plain(
            &format!("in {name}"),
            Expr::binary(op, other(), value()),
            op.result(dtype),
        ));
    }
    uses.push(Operation::plain("abs", Expr::unary(UnaryOp::Abs, value()), dtype));
    let first = || Operation::at(0);
    uses.push(Operation::plain("== a", Expr::binary(Eq, value(), first()), DType::Bool));
    uses.push(Operation::plain("- a", Expr::binary(Sub, value(), first()), dtype));
    uses
}

/// Conversions of a value, and of a choice of it, to types that are not narrower.
fn conversions(dtype: DType, value: &Expr, targets: &[DType]) -> Vec<Operation> {
    let value = || value.clone();
    let other = || Operation::at(2);
    let less = Expr::binary(BinaryOp::Lt, Operation::at(0), other());
    let mut uses = Vec::new();
    for &to in targets.iter().filter(|to| to.size_bytes() >= dtype.size_bytes() && **to != DType::U32x4) {
        // A selected value is converted as well.
        let selected = Expr::select(less.clone(), value(), other());
        uses.push(Operation::plain(&format!("{to} of a choice"), Expr::convert(to, selected), to));
        uses.push(Operation::plain(&format!("{to}"), Expr::convert(to, value()), to));
    }
    uses
}
