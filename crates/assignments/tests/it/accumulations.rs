//! The laws of accumulating operations and their neutral elements.

use assignments::AccumOp;
use lowered_ir::eval::{binary, unary};
use lowered_ir::ir::{BinaryOp, Expr};
use tnode::{DType, Scalar};

/// All values of 8 bits, every seventh of 16, the edges of wider types.
fn values(dtype: DType) -> Vec<Scalar> {
    let width = 8 * dtype.size_bytes() as u32;
    if width <= 16 {
        let patterns = if dtype == DType::Bool { 2 } else { 1u128 << width };
        let step = if width == 16 { 7 } else { 1 };
        return (0..patterns).step_by(step).map(|bits| Scalar::new(dtype, bits)).collect();
    }
    let numbers =
        [0.0, -0.0, 0.5, 1.0, -1.0, 2.0, -3.75, 1e-40, 1e30, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let mut values: Vec<Scalar> = numbers.map(|x| Scalar::from_f64(dtype, x)).into();
    values.extend((0..width).map(|shift| Scalar::new(dtype, u128::MAX >> shift)));
    values
}

fn combine(op: AccumOp, old: Scalar, new: Scalar) -> Scalar {
    evaluated(op.apply(Expr::Const(old), Expr::Const(new)))
}

fn evaluated(expr: Expr) -> Scalar {
    match expr {
        Expr::Const(value) => value,
        Expr::Unary { op, arg } => unary(op, evaluated(*arg)),
        Expr::Binary { op, a, b } => binary(op, evaluated(*a), evaluated(*b)),
        other => panic!("{other:?} is no accumulation"),
    }
}

/// Whether two values are equal as numbers, or both NaN.
fn same(a: Scalar, b: Scalar) -> bool {
    a == b || a.as_f64() == b.as_f64() || (a.as_f64().is_nan() && b.as_f64().is_nan())
}

/// A predicate: the values for which a law holds.
type Holds = fn(Scalar) -> bool;

/// For the neutral element `e`: the new values `x` with `e ⊕ x = x`, and the old values `x` with `x ⊕ e = x`.
fn law(op: AccumOp, dtype: DType) -> (Holds, Holds) {
    let always: Holds = |_| true;
    let is_truth: Holds = |x| same(x, Scalar::zero(x.dtype())) || same(x, Scalar::one(x.dtype()));
    match op {
        AccumOp::Assign => (always, |x| x.as_f64() == 0.0),
        AccumOp::Add | AccumOp::Mul | AccumOp::Max | AccumOp::Min => (always, always),
        AccumOp::Sub => (|x| same(binary(BinaryOp::Sub, Scalar::zero(x.dtype()), x), x), always),
        AccumOp::Div => (|x| same(binary(BinaryOp::Div, Scalar::one(x.dtype()), x), x), always),
        AccumOp::Pow => (|x| same(x, Scalar::one(x.dtype())), always),
        AccumOp::ReluGate => (always, |x| x.as_f64() == 0.0 || x.as_f64() == 1.0),
        AccumOp::Satur01Gate if dtype.is_float() => (always, |x| x.as_f64() == 0.0 || x.as_f64() == 0.5),
        AccumOp::Satur01Gate => (|x| x.as_f64() == 0.0, |x| x.as_f64() == 0.0),
        AccumOp::Or | AccumOp::And => (is_truth, is_truth),
    }
}

#[test]
fn neutral_elements_are_neutral_where_stated() {
    for dtype in DType::ALL.into_iter().filter(|&d| d != DType::U32x4) {
        for op in AccumOp::ALL {
            let (neutral, (left, right)) = (op.neutral(dtype), law(op, dtype));
            for x in values(dtype) {
                let (started, kept) = (combine(op, neutral, x), combine(op, x, neutral));
                assert_eq!(same(started, x), left(x), "{dtype}: {neutral} {op} {x} gives {started}");
                assert_eq!(same(kept, x), right(x), "{dtype}: {x} {op} {neutral} gives {kept}");
            }
        }
    }
}

/// If an element accumulates one value only, the stored value is the result of accumulating it into the
/// neutral element.
#[test]
fn a_single_value_is_stored_as_if_accumulated() {
    for dtype in DType::ALL.into_iter().filter(|&d| d != DType::U32x4) {
        for op in AccumOp::ALL {
            for x in values(dtype) {
                let stored = evaluated(op.apply_to_neutral(dtype, Expr::Const(x)));
                let expected = combine(op, op.neutral(dtype), x);
                assert!(same(stored, expected), "{dtype}: {op} {x} stores {stored}, expected {expected}");
            }
        }
    }
}

#[test]
fn only_operations_with_a_neutral_element_accumulate() {
    for &op in BinaryOp::ALL {
        let accumulates = AccumOp::ALL.into_iter().any(|accum| accum.binary() == Some(op));
        assert_eq!(accumulates, op.accumulates(), "{op}");
    }
    let rejected = BinaryOp::ALL.iter().filter(|op| !op.accumulates()).map(|op| op.token());
    assert_eq!(
        rejected.collect::<Vec<_>>().join(" "),
        "% < <= == != bit_and bit_or bit_xor shl shr arg1 arg2 threefry threefry_crypto threefry_light"
    );
}
