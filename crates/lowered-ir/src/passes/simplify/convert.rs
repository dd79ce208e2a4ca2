//! Equations of conversions, whose sides have parts of several types, and constant folding.

use tnode::DType;

use crate::ir::Expr;

use super::SimplifyContext;
use super::equation::{Equation, EquationClass};
use super::pattern;

pub(super) const EQUATIONS: &[Equation] = &[
    Equation::code(
        "fold",
        ("an operation on constants", "its result, as the interpreter computes it", ""),
        EquationClass::Strict,
        |expr, _| pattern::fold(expr).map(Expr::Const),
    ),
    Equation::code(
        "convert to the same",
        ("convert T(x), bitcast T(x)", "x", "x is of type T"),
        EquationClass::Strict,
        to_the_same,
    ),
    Equation::code(
        "bitcast twice",
        ("bitcast T(bitcast U(x))", "bitcast T(x)", ""),
        EquationClass::Strict,
        bitcast_twice,
    ),
    Equation::code(
        "convert twice",
        (
            "convert T(convert U(x))",
            "convert T(x)",
            "U holds every value of x's type, and T is a float or holds every such value if x is an integer and U a float",
        ),
        EquationClass::Strict,
        convert_twice,
    ),
    Equation::code(
        "compare converted",
        (
            "convert U(x) < convert U(y), and so <= == !=",
            "x < y",
            "x and y have one type, and U holds all its values",
        ),
        EquationClass::Strict,
        compare_converted,
    ),
];

fn to_the_same(expr: &Expr, ctx: &SimplifyContext<'_>) -> Option<Expr> {
    match expr {
        Expr::Convert { to, arg } | Expr::Bitcast { to, arg } if ctx.dtype(arg) == *to => {
            Some((**arg).clone())
        }
        _ => None,
    }
}

fn bitcast_twice(expr: &Expr, _: &SimplifyContext<'_>) -> Option<Expr> {
    let Expr::Bitcast { to, arg } = expr else { return None };
    let Expr::Bitcast { arg: x, .. } = &**arg else { return None };
    Some(Expr::bitcast(*to, (**x).clone()))
}

fn convert_twice(expr: &Expr, ctx: &SimplifyContext<'_>) -> Option<Expr> {
    let Expr::Convert { to, arg } = expr else { return None };
    let Expr::Convert { to: through, arg: x } = &**arg else { return None };
    passes_through(ctx.dtype(x), *through, *to).then(|| Expr::convert(*to, (**x).clone()))
}

fn compare_converted(expr: &Expr, ctx: &SimplifyContext<'_>) -> Option<Expr> {
    let Expr::Binary { op, a, b } = expr else { return None };
    let (Expr::Convert { to, arg: x }, Expr::Convert { arg: y, .. }) = (&**a, &**b) else { return None };
    let from = ctx.dtype(x);
    let same_order = op.is_comparison() && ctx.dtype(y) == from && holds(*to, from);
    same_order.then(|| Expr::binary(*op, (**x).clone(), (**y).clone()))
}

/// Whether a conversion from `from` to `to` by way of `through` equals the direct conversion.
///
/// `through` must hold every value of `from`. Then only integers by way of floats can differ: floats saturate
/// and integers wrap, so there `to` must hold every value too, or be a float.
pub(super) fn passes_through(from: DType, through: DType, to: DType) -> bool {
    let detour = !from.is_float() && through.is_float() && !to.is_float();
    holds(through, from) && (!detour || holds(to, from))
}

/// Whether every value of `small` is a value of `large`.
fn holds(large: DType, small: DType) -> bool {
    if large == small {
        return true;
    }
    match (format(large), format(small)) {
        (ValueRange::Integer { signed: l, bits: m }, ValueRange::Integer { signed: s, bits: n }) => {
            if s {
                l && m >= n
            } else {
                m - u32::from(l) >= n
            }
        }
        (ValueRange::Float { digits, .. }, ValueRange::Integer { signed, bits }) => {
            digits >= bits - u32::from(signed) && large != DType::F16 && digits > 8
        }
        (ValueRange::Float { digits: d, range: r }, ValueRange::Float { digits: e, range: s }) => {
            d >= e && r >= s
        }
        _ => false,
    }
}

enum ValueRange {
    Integer { signed: bool, bits: u32 },
    Float { digits: u32, range: u32 },
    Other,
}

fn format(dtype: DType) -> ValueRange {
    match dtype {
        DType::Bool => ValueRange::Integer { signed: false, bits: 1 },
        DType::F16 => ValueRange::Float { digits: 11, range: 5 },
        DType::Bf16 => ValueRange::Float { digits: 8, range: 8 },
        DType::F32 => ValueRange::Float { digits: 24, range: 8 },
        DType::F64 => ValueRange::Float { digits: 53, range: 11 },
        DType::Fp8E5m2 => ValueRange::Float { digits: 3, range: 5 },
        // Its largest value, 448, and its smallest lie within binary16 and bfloat16, so it counts as a type
        // with 4 bits of exponent.
        DType::Fp8E4m3fn => ValueRange::Float { digits: 4, range: 4 },
        DType::U32x4 => ValueRange::Other,
        integer => {
            let bits = 8 * integer.size_bytes() as u32;
            ValueRange::Integer { signed: integer.is_signed(), bits }
        }
    }
}
