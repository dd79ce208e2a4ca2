//! Equations that keep every bit.
//!
//! `x`, `y` stand for any expressions, `c` for constants; *exact* types are the integers and `bool`. No equation is about
//! `u32x4`, whose operations see one lane of four.

use tnode::{DType, Scalar};

use crate::eval;
use crate::ir::{BinaryOp, Expr, TernaryOp, UnaryOp};

use super::Ctx;
use super::constant::{is, is_negative_zero, literal};

/// Equations of one operand.
pub(super) fn unary(expr: &Expr, ctx: &Ctx<'_>) -> Option<Expr> {
    use UnaryOp::{Abs, Floor, Neg, Not, Relu, RoundEven, Satur01, Trunc};
    let Expr::Unary { op, arg } = expr else { return None };
    let dtype = ctx.dtype(arg);
    let inner = match &**arg {
        Expr::Unary { op, arg } => Some((*op, &**arg)),
        _ => None,
    };
    match (op, inner) {
        _ if dtype == DType::U32x4 => None,
        // neg(neg(x)) = x
        (Neg, Some((Neg, x))) => Some(x.clone()),
        // abs(neg(x)) = abs(x);  abs(abs(x)) = abs(x)
        (Abs, Some((Neg | Abs, x))) => Some(Expr::unary(Abs, x.clone())),
        // abs(x) = relu(x) = x, where x is never negative by its type
        (Abs | Relu, _) if !dtype.is_signed() => Some((**arg).clone()),
        // relu(relu(x)) = relu(x);  relu(satur01(x)) = satur01(x);  satur01(satur01(x)) = satur01(x)
        (Relu, Some((Relu | Satur01, _))) | (Satur01, Some((Satur01, _))) => Some((**arg).clone()),
        // not(not(x)) = x on bool;  not(not(not(x))) = not(x)
        (Not, Some((Not, x))) if dtype == DType::Bool => Some(x.clone()),
        (Not, Some((Not, Expr::Unary { op: Not, arg: x }))) => Some(Expr::unary(Not, (**x).clone())),
        // r(x) = x, where r rounds to integers and x is exact or rounded already
        (Trunc | Floor | RoundEven, _) if !dtype.is_float() => Some((**arg).clone()),
        (Trunc | Floor | RoundEven, Some((Trunc | Floor | RoundEven, _))) => Some((**arg).clone()),
        _ => None,
    }
}

/// Equations of two operands.
pub(super) fn binary(expr: &Expr, ctx: &Ctx<'_>) -> Option<Expr> {
    use BinaryOp::{Add, And, BitAnd, BitOr, BitXor, Div, Max, Min, Mul, Or, Pow, Rem, Shl, Shr, Sub};
    let Expr::Binary { op, a, b } = expr else { return None };
    let dtype = ctx.dtype(a);
    if dtype == DType::U32x4 {
        return None;
    }
    if commutes(*op) && literal(a).is_some() && literal(b).is_none() {
        // c + x = x + c, and so for every commutative operation
        return Some(Expr::binary(*op, (**b).clone(), (**a).clone()));
    }
    let exact = !dtype.is_float();
    match op {
        Add => add(a, b, exact),
        Sub => sub(a, b, exact, dtype),
        Mul => mul(a, b, exact, dtype),
        Div => div(a, b, exact, dtype),
        // x % 1 = 0 and x % 0 = 0 on exact types
        Rem if exact && (is(b, 1) || is(b, 0)) => Some(zero(dtype)),
        // max(x, x) = min(x, x) = x
        Max | Min if a == b => Some((**a).clone()),
        Pow if dtype.is_integer() => integer_pow(a, b),
        And | Or if dtype == DType::Bool => logical(*op, a, b),
        BitAnd | BitOr | BitXor => bits(*op, a, b, dtype),
        // x << 0 = x >> 0 = x
        Shl | Shr if is(b, 0) => Some((**a).clone()),
        _ if op.is_comparison() && exact && a == b => Some(reflexive(*op)),
        _ => None,
    }
}

fn commutes(op: BinaryOp) -> bool {
    use BinaryOp::{Add, And, BitAnd, BitOr, BitXor, Eq, Mul, Ne, Or};
    matches!(op, Add | Mul | And | Or | BitAnd | BitOr | BitXor | Eq | Ne)
}

fn add(a: &Expr, b: &Expr, exact: bool) -> Option<Expr> {
    match b {
        // x + 0 = x on exact types;  x + -0.0 = x on floats (x + 0.0 is not: it turns -0.0 into 0.0)
        _ if (exact && is(b, 0)) || is_negative_zero(b) => Some(a.clone()),
        // (x + c1) + c2 = x + (c1 + c2) on exact types
        _ if exact => regroup(BinaryOp::Add, a, b),
        _ => None,
    }
}

fn sub(a: &Expr, b: &Expr, exact: bool, dtype: DType) -> Option<Expr> {
    // x - 0 = x;  for floats too: -0.0 - 0.0 = -0.0
    if is(b, 0) {
        return Some(a.clone());
    }
    // 0 - x = neg(x) on integers;  -0.0 - x = neg(x) on floats
    if (dtype.is_integer() && is(a, 0)) || is_negative_zero(a) {
        return Some(Expr::unary(UnaryOp::Neg, b.clone()));
    }
    // x - x = 0 on exact types
    if exact && a == b {
        return Some(zero(dtype));
    }
    // x - neg(y) = x + y
    if let Expr::Unary { op: UnaryOp::Neg, arg: y } = b
        && dtype != DType::Bool
    {
        return Some(Expr::binary(BinaryOp::Add, a.clone(), (**y).clone()));
    }
    // x - y * c = x + y * (-c): an accumulation of differences is one of sums
    if let Expr::Binary { op: BinaryOp::Mul, a: y, b: c } = b
        && let Some(c) = literal(c).filter(|_| dtype != DType::Bool)
    {
        let negated = Expr::binary(BinaryOp::Mul, (**y).clone(), Expr::Const(eval::unary(UnaryOp::Neg, c)));
        return Some(Expr::binary(BinaryOp::Add, a.clone(), negated));
    }
    // x - c = x + (-c) on integers
    let c = literal(b).filter(|_| dtype.is_integer())?;
    Some(Expr::binary(BinaryOp::Add, a.clone(), Expr::Const(eval::unary(UnaryOp::Neg, c))))
}

fn mul(a: &Expr, b: &Expr, exact: bool, dtype: DType) -> Option<Expr> {
    // x * 1 = x
    if is(b, 1) {
        return Some(a.clone());
    }
    // x * 0 = 0 on exact types (a float may be negative, infinite or NaN)
    if exact && is(b, 0) {
        return Some(zero(dtype));
    }
    // x * -1 = neg(x) on signed types
    if dtype.is_signed() && is(b, -1) {
        return Some(Expr::unary(UnaryOp::Neg, a.clone()));
    }
    match (a, b) {
        // neg(x) * neg(y) = x * y
        (Expr::Unary { op: UnaryOp::Neg, arg: x }, Expr::Unary { op: UnaryOp::Neg, arg: y })
            if dtype != DType::Bool =>
        {
            Some(Expr::binary(BinaryOp::Mul, (**x).clone(), (**y).clone()))
        }
        // neg(x) * c = x * (-c)
        (Expr::Unary { op: UnaryOp::Neg, arg: x }, Expr::Const(c)) if dtype != DType::Bool => {
            let negated = Expr::Const(eval::unary(UnaryOp::Neg, *c));
            Some(Expr::binary(BinaryOp::Mul, (**x).clone(), negated))
        }
        // (x * c1) * c2 = x * (c1 * c2) on exact types
        _ if exact => regroup(BinaryOp::Mul, a, b),
        _ => None,
    }
}

fn div(a: &Expr, b: &Expr, exact: bool, dtype: DType) -> Option<Expr> {
    // x / 1 = x
    if is(b, 1) {
        return Some(a.clone());
    }
    // 0 / x = 0 and x / 0 = 0 on exact types
    if exact && (is(a, 0) || is(b, 0)) {
        return Some(zero(dtype));
    }
    // x / c = x * (1/c) on floats, where c is a power of two and both c and 1/c are normal: both sides round x/c once
    let inverse = literal(b).filter(|_| literal(a).is_none()).and_then(exact_inverse)?;
    Some(Expr::binary(BinaryOp::Mul, a.clone(), Expr::Const(inverse)))
}

/// `1/c` for a float power of two with a normal inverse.
fn exact_inverse(c: Scalar) -> Option<Scalar> {
    let (bits, bias) = match c.dtype() {
        DType::F32 => (23, 127),
        DType::F64 => (52, 1023),
        DType::F16 => (10, 15),
        DType::Bf16 => (7, 127),
        _ => return None,
    };
    let magnitude = c.bits() & ((1 << (8 * c.dtype().size_bytes() - 1)) - 1);
    let exponent = (magnitude >> bits) as i64;
    let power = magnitude & ((1 << bits) - 1) == 0 && (1..2 * bias).contains(&exponent);
    power.then(|| eval::unary(UnaryOp::Recip, c))
}

/// `(x op c1) op c2 = x op (c1 op c2)`.
fn regroup(op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
    let Expr::Binary { op: inner, a: x, b: c1 } = a else { return None };
    let (c1, c2) = (literal(c1)?, literal(b)?);
    (*inner == op).then(|| Expr::binary(op, (**x).clone(), Expr::Const(eval::binary(op, c1, c2))))
}

fn integer_pow(a: &Expr, b: &Expr) -> Option<Expr> {
    let dtype = literal(b)?.dtype();
    match () {
        // pow(x, 0) = 1 on integers
        () if is(b, 0) => Some(Expr::Const(Scalar::one(dtype))),
        // pow(x, 1) = x on integers
        () if is(b, 1) => Some(a.clone()),
        // pow(x, 2) = x * x on integers, where x is one part
        () if is(b, 2) && is_part(a) => Some(Expr::binary(BinaryOp::Mul, a.clone(), a.clone())),
        () => None,
    }
}

/// Whether repeating the expression repeats no operation.
pub(super) fn is_part(expr: &Expr) -> bool {
    matches!(expr, Expr::Get { .. } | Expr::GetLocal { .. } | Expr::Index { .. } | Expr::GetMerge { .. })
}

fn logical(op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
    match (op, literal(b).map(Scalar::as_bool)) {
        // and(x, true) = x;  or(x, false) = x
        (BinaryOp::And, Some(true)) | (BinaryOp::Or, Some(false)) => Some(a.clone()),
        // and(x, false) = false;  or(x, true) = true
        (BinaryOp::And, Some(false)) | (BinaryOp::Or, Some(true)) => Some(b.clone()),
        // and(x, x) = or(x, x) = x
        _ if a == b => Some(a.clone()),
        _ => None,
    }
}

fn bits(op: BinaryOp, a: &Expr, b: &Expr, dtype: DType) -> Option<Expr> {
    use BinaryOp::{BitAnd, BitOr, BitXor};
    match op {
        // bit_and(x, 0) = 0
        BitAnd if is(b, 0) => Some(b.clone()),
        // bit_or(x, 0) = bit_xor(x, 0) = x
        BitOr | BitXor if is(b, 0) => Some(a.clone()),
        // bit_and(x, x) = bit_or(x, x) = x
        BitAnd | BitOr if a == b => Some(a.clone()),
        // bit_xor(x, x) = 0
        BitXor if a == b => Some(zero(dtype)),
        _ => None,
    }
}

/// `x == x` and `x <= x` hold, `x != x` and `x < x` do not, on exact types.
fn reflexive(op: BinaryOp) -> Expr {
    Expr::Const(Scalar::new(DType::Bool, u128::from(matches!(op, BinaryOp::Eq | BinaryOp::Le))))
}

fn zero(dtype: DType) -> Expr {
    Expr::Const(Scalar::zero(dtype))
}

/// Equations of three operands.
pub(super) fn ternary(expr: &Expr, ctx: &Ctx<'_>) -> Option<Expr> {
    let Expr::Ternary { op, a, b, c } = expr else { return None };
    match op {
        TernaryOp::Where => select(a, b, c),
        TernaryOp::Fma => fma(a, b, c, ctx.dtype(a)),
    }
}

fn select(condition: &Expr, then: &Expr, otherwise: &Expr) -> Option<Expr> {
    match condition {
        // where(true, t, e) = t;  where(false, t, e) = e
        Expr::Const(c) => Some(if c.as_bool() { then.clone() } else { otherwise.clone() }),
        // where(x, t, t) = t
        _ if then == otherwise => Some(then.clone()),
        // where(not(x), t, e) = where(x, e, t)
        Expr::Unary { op: UnaryOp::Not, arg: x } => {
            Some(Expr::select((**x).clone(), otherwise.clone(), then.clone()))
        }
        _ => None,
    }
}

fn fma(a: &Expr, b: &Expr, c: &Expr, dtype: DType) -> Option<Expr> {
    if dtype == DType::U32x4 {
        return None;
    }
    // fma(x, 1, y) = x + y;  fma(1, x, y) = x + y
    if is(b, 1) || is(a, 1) {
        let x = if is(b, 1) { a } else { b };
        return Some(Expr::binary(BinaryOp::Add, x.clone(), c.clone()));
    }
    // fma(x, y, 0) = x * y on exact types;  fma(x, y, -0.0) = x * y on floats
    let nothing = (!dtype.is_float() && is(c, 0)) || is_negative_zero(c);
    nothing.then(|| Expr::binary(BinaryOp::Mul, a.clone(), b.clone()))
}

/// Equations of conversions.
pub(super) fn convert(expr: &Expr, ctx: &Ctx<'_>) -> Option<Expr> {
    match expr {
        // convert T(x) = bitcast T(x) = x, where x is of type T
        Expr::Convert { to, arg } | Expr::Bitcast { to, arg } if ctx.dtype(arg) == *to => {
            Some((**arg).clone())
        }
        // bitcast A(bitcast B(x)) = bitcast A(x)
        Expr::Bitcast { to, arg } => match &**arg {
            Expr::Bitcast { arg: x, .. } => Some(Expr::bitcast(*to, (**x).clone())),
            _ => None,
        },
        // convert A(convert B(x)) = convert A(x), where B holds every value of x's type and A does not tell the difference
        Expr::Convert { to, arg } => match &**arg {
            Expr::Convert { to: through, arg: x } if passes_through(ctx.dtype(x), *through, *to) => {
                Some(Expr::convert(*to, (**x).clone()))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether going from `from` to `to` by way of `through` gives what going directly gives.
///
/// `through` must hold every value of `from`. Then only integers by way of floats can differ: floats saturate and
/// integers wrap, so there `to` must hold every value too, or be a float.
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
        (Format::Integer { signed: l, bits: m }, Format::Integer { signed: s, bits: n }) => {
            if s {
                l && m >= n
            } else {
                m - u32::from(l) >= n
            }
        }
        (Format::Float { digits, .. }, Format::Integer { signed, bits }) => {
            digits >= bits - u32::from(signed) && large != DType::F16 && digits > 8
        }
        (Format::Float { digits: d, range: r }, Format::Float { digits: e, range: s }) => d >= e && r >= s,
        _ => false,
    }
}

enum Format {
    Integer { signed: bool, bits: u32 },
    Float { digits: u32, range: u32 },
    Other,
}

fn format(dtype: DType) -> Format {
    match dtype {
        DType::Bool => Format::Integer { signed: false, bits: 1 },
        DType::F16 => Format::Float { digits: 11, range: 5 },
        DType::Bf16 => Format::Float { digits: 8, range: 8 },
        DType::F32 => Format::Float { digits: 24, range: 8 },
        DType::F64 => Format::Float { digits: 53, range: 11 },
        DType::Fp8E5m2 => Format::Float { digits: 3, range: 5 },
        // Its largest value, 448, and its smallest lie within binary16 and bfloat16, so its range is that of 4 bits.
        DType::Fp8E4m3fn => Format::Float { digits: 4, range: 4 },
        DType::U32x4 => Format::Other,
        integer => {
            let bits = 8 * integer.size_bytes() as u32;
            Format::Integer { signed: integer.is_signed(), bits }
        }
    }
}
