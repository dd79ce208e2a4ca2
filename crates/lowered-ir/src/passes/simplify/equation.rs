//! Equations of the table: two sides, a condition and a class.

use tnode::{DType, Scalar};

use crate::eval;
use crate::ir::{BinaryOp, Expr, UnaryOp};

use super::SimplifyContext;
use super::pattern::EquationMatch;

/// The class of routines that an equation applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EquationClass {
    /// Every routine: both sides have the same bits, signed zeros and infinities included. Only the choice of
    /// NaN is left open.
    Strict,
    /// Routines of class `Fast`: the right side rounds differently and is at least as exact. Over all values
    /// of the letters whose result is a normal number, the greatest relative error of the right side is not
    /// greater than that of the left side. Other results differ from the true value by less than the least
    /// normal number.
    Fast,
    /// Routines of class `Fast` where [`fast_math`](crate::passes::OptimizeSettings::fast_math) is on: the
    /// equation holds for real numbers, but rounding, overflow and NaN may change the result.
    Real,
}

impl EquationClass {
    /// The name of the class in listings.
    pub fn name(self) -> &'static str {
        match self {
            EquationClass::Strict => "strict",
            EquationClass::Fast => "fast",
            EquationClass::Real => "fast-math",
        }
    }
}

/// `left = right`, applied from left to right where the condition holds.
#[derive(Clone, Copy, Debug)]
pub struct Equation {
    /// The common name of the equation.
    pub name: &'static str,
    /// The left side. A pattern (the letters are listed in `docs/equations.md`), or words where the equation
    /// is applied by code.
    pub left: &'static str,
    /// The right side.
    pub right: &'static str,
    /// The condition under which it holds.
    pub when: Condition,
    /// The class of routines that it applies to.
    pub class: EquationClass,
    /// How it is applied.
    pub(super) how: EquationMethod,
}

/// How an equation is applied.
#[derive(Clone, Copy, Debug)]
pub(super) enum EquationMethod {
    /// By matching the left side as a pattern and building the right side.
    Pattern,
    /// By a function that gives the right side where the equation applies; the function checks the condition
    /// itself.
    Code(fn(&Expr, &SimplifyContext<'_>) -> Option<Expr>),
}

impl Equation {
    pub(super) const fn strict(
        name: &'static str,
        left: &'static str,
        right: &'static str,
        when: Condition,
    ) -> Equation {
        Equation { name, left, right, when, class: EquationClass::Strict, how: EquationMethod::Pattern }
    }

    pub(super) const fn fast(
        name: &'static str,
        left: &'static str,
        right: &'static str,
        when: Condition,
    ) -> Equation {
        Equation { class: EquationClass::Fast, ..Equation::strict(name, left, right, when) }
    }

    pub(super) const fn real(
        name: &'static str,
        left: &'static str,
        right: &'static str,
        when: Condition,
    ) -> Equation {
        Equation { class: EquationClass::Real, ..Equation::strict(name, left, right, when) }
    }

    pub(super) const fn code(
        name: &'static str,
        (left, right, when): (&'static str, &'static str, &'static str),
        class: EquationClass,
        apply: fn(&Expr, &SimplifyContext<'_>) -> Option<Expr>,
    ) -> Equation {
        let when = Condition { text: when, holds: |_| true };
        Equation { class, how: EquationMethod::Code(apply), ..Equation::strict(name, left, right, when) }
    }

    /// Whether the left side is a pattern.
    #[cfg(test)]
    pub(crate) fn is_pattern(&self) -> bool {
        matches!(self.how, EquationMethod::Pattern)
    }
}

/// A condition in words and as code.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// The words; empty where the equation always holds.
    pub text: &'static str,
    /// Whether it holds.
    pub holds: fn(&EquationMatch<'_>) -> bool,
}

const fn when(text: &'static str, holds: fn(&EquationMatch<'_>) -> bool) -> Condition {
    Condition { text, holds }
}

/// Holds for every type.
pub(super) const EVERY: Condition = when("", |_| true);
/// Holds for every type with arithmetic.
pub(super) const ANY: Condition = when("not on u32x4", |m| m.dtype() != DType::U32x4);
pub(super) const EXACT: Condition = when("on integers and bool", |m| is_exact(m.dtype()));
pub(super) const INTEGER: Condition = when("on integers", |m| m.dtype().is_integer());
pub(super) const SIGNED_INTEGER: Condition =
    when("on signed integers", |m| m.dtype().is_integer() && m.dtype().is_signed());
pub(super) const FLOAT: Condition = when("on floats", |m| m.dtype().is_float());
pub(super) const NATIVE: Condition = when("on f32 and f64", |m| matches!(m.dtype(), DType::F32 | DType::F64));
pub(super) const NUMBER: Condition = when("on integers and floats", |m| is_number(m.dtype()));
pub(super) const SIGNED: Condition = when("on signed types", |m| m.dtype().is_signed());
pub(super) const NEVER_NEGATIVE: Condition =
    when("on unsigned integers and bool", |m| is_exact(m.dtype()) && !m.dtype().is_signed());
pub(super) const BOOL: Condition = when("on bool", |m| m.dtype() == DType::Bool);

/// Conditions about the constants.
pub(super) const HAS_EXACT_INVERSE: Condition =
    when("on floats, c is a power of two, c and 1/c are normal", |m| has_exact_inverse(m.constant('c')));
pub(super) const C_IS_LEAST: Condition =
    when("c is the least value of an exact type", |m| is_exact(m.dtype()) && is_extreme(m, BinaryOp::Min));
pub(super) const C_IS_GREATEST: Condition =
    when("c is the greatest value of an exact type", |m| is_exact(m.dtype()) && is_extreme(m, BinaryOp::Max));
pub(super) const C_IS_MINUS_INFINITY: Condition =
    when("c is −∞", |m| m.dtype().is_float() && m.constant('c').as_f64() == f64::NEG_INFINITY);
pub(super) const C_IS_INFINITY: Condition =
    when("c is ∞", |m| m.dtype().is_float() && m.constant('c').as_f64() == f64::INFINITY);
pub(super) const C_IS_POSITIVE: Condition = when("c > 0", |m| m.constant('c').as_f64() > 0.0);
pub(super) const C_IS_NOT_POSITIVE: Condition =
    when("c > 0 does not hold, not on u32x4", |m| (ANY.holds)(m) && !is_positive(m));
pub(super) const C_IS_WITHIN_0_1: Condition =
    when("0 < c < 1", |m| is_positive(m) && m.constant('c').as_f64() < 1.0);
pub(super) const C_IS_NOT_WITHIN_0_1: Condition = when("0 < c < 1 does not hold, not on u32x4", |m| {
    (ANY.holds)(m) && !(is_positive(m) && m.constant('c').as_f64() < 1.0)
});
pub(super) const C_IS_NOT_ZERO: Condition =
    when("c is not 0, not on u32x4", |m| (ANY.holds)(m) && m.constant('c').as_f64() != 0.0);
pub(super) const ALL_ONES: Condition =
    when("c has all bits set", |m| m.constant('c') == eval::unary(UnaryOp::Neg, one(m)) && is_whole(m));
pub(super) const DIVISORS: Condition = when("on integers, c > 0, d > 0, c·d does not overflow", |m| {
    let (c, d) = (whole(m.constant('c')), whole(m.constant('d')));
    m.dtype().is_integer() && c > 0 && d > 0 && c.checked_mul(d) == Some(whole(product(m)))
});
pub(super) const SHORT_SHIFTS: Condition =
    when("on integers, 0 ≤ c, 0 ≤ d, c + d is less than the width", |m| {
        let (c, d) = (whole(m.constant('c')), whole(m.constant('d')));
        m.dtype().is_integer() && c >= 0 && d >= 0 && c + d < 8 * m.dtype().size_bytes() as i128
    });
pub(super) const X_VARIES: Condition =
    when("x is not a constant, not on u32x4", |m| varies(m) && (ANY.holds)(m));
pub(super) const X_VARIES_C_COMMUTES: Condition =
    when("x is not a constant, not on u32x4, c is no zero and no NaN of floats", |m| {
        let is_zero_or_nan = |c: f64| c == 0.0 || c.is_nan();
        (X_VARIES.holds)(m) && !(m.dtype().is_float() && is_zero_or_nan(m.constant('c').as_f64()))
    });

/// Conditions that keep re-associated constants from overflow, underflow and NaN.
pub(super) const FINITE_SUM: Condition = when("on floats, c + d and c − d are finite", |m| {
    m.dtype().is_float()
        && [BinaryOp::Add, BinaryOp::Sub].into_iter().all(|op| of_constants(m, op).as_f64().is_finite())
});
pub(super) const NORMAL_PRODUCT: Condition =
    when("on floats, c·d, c/d and d/c are normal", |m| m.dtype().is_float() && are_normal(m));

/// Conditions under which products of constants are exact.
pub(super) const EXACT_PRODUCT: Condition =
    when("on floats, c or d is a power of two, c·d, c/d and d/c are normal", |m| {
        m.dtype().is_float()
            && are_normal(m)
            && (has_exact_inverse(m.constant('c')) || has_exact_inverse(m.constant('d')))
    });
pub(super) const INVERSES: Condition = when("on floats, c is a power of two, c·d is 1", |m| {
    m.dtype().is_float() && has_exact_inverse(m.constant('c')) && product(m) == one(m)
});

fn is_exact(dtype: DType) -> bool {
    dtype.is_integer() || dtype == DType::Bool
}

fn is_number(dtype: DType) -> bool {
    dtype.is_integer() || dtype.is_float()
}

fn varies(m: &EquationMatch<'_>) -> bool {
    !matches!(m.get('x'), Some(Expr::Const(_)))
}

fn is_positive(m: &EquationMatch<'_>) -> bool {
    m.constant('c').as_f64() > 0.0
}

fn is_whole(m: &EquationMatch<'_>) -> bool {
    m.dtype().is_integer()
}

fn one(m: &EquationMatch<'_>) -> Scalar {
    Scalar::one(m.dtype())
}

/// The mathematical value of an integer.
fn whole(x: Scalar) -> i128 {
    if x.dtype() == DType::U64 { x.bits() as i128 } else { i128::from(x.as_i64()) }
}

fn product(m: &EquationMatch<'_>) -> Scalar {
    of_constants(m, BinaryOp::Mul)
}

fn of_constants(m: &EquationMatch<'_>, op: BinaryOp) -> Scalar {
    eval::binary(op, m.constant('c'), m.constant('d'))
}

/// Whether no value of the type is less (`Min`) or greater (`Max`) than `c`.
fn is_extreme(m: &EquationMatch<'_>, op: BinaryOp) -> bool {
    let (dtype, bits) = (m.dtype(), 8 * m.dtype().size_bytes());
    let top = 1u128 << (bits - 1);
    let (least, greatest) = match dtype {
        DType::Bool => (0, 1),
        _ if dtype.is_signed() => (top, top - 1),
        _ => (0, 2 * top - 1),
    };
    m.constant('c').bits() == if op == BinaryOp::Min { least } else { greatest }
}

/// Whether `c` is a float power of two whose inverse is normal too.
fn has_exact_inverse(c: Scalar) -> bool {
    let Some((digits, bias)) = layout(c.dtype()) else { return false };
    let magnitude = c.bits() & ((1 << (8 * c.dtype().size_bytes() - 1)) - 1);
    let exponent = (magnitude >> digits) as i64;
    magnitude & ((1 << digits) - 1) == 0 && (1..2 * bias).contains(&exponent)
}

/// Bits of the fraction, and the bias of the exponent.
fn layout(dtype: DType) -> Option<(u32, i64)> {
    match dtype {
        DType::F16 => Some((10, 15)),
        DType::Bf16 => Some((7, 127)),
        DType::F32 => Some((23, 127)),
        DType::F64 => Some((52, 1023)),
        _ => None,
    }
}

fn are_normal(m: &EquationMatch<'_>) -> bool {
    let (c, d) = (m.constant('c'), m.constant('d'));
    let values = [
        eval::binary(BinaryOp::Mul, c, d),
        eval::binary(BinaryOp::Div, c, d),
        eval::binary(BinaryOp::Div, d, c),
    ];
    values.into_iter().all(|v| match layout(v.dtype()) {
        Some((_, bias)) => {
            let magnitude = v.as_f64().abs();
            magnitude.is_finite() && magnitude >= (1.0 - bias as f64).exp2()
        }
        None => false,
    })
}
