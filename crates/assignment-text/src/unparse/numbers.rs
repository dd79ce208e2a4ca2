//! Numbers of printed text, with as few digits as their types need, and conversions to the types that their
//! places do not give them.

use tnode::{DType, Scalar};

use crate::ast::{Expr, ExprKind};
use crate::number::Number;
use assignments::{ByteRange, Operand};

/// The span of printed constructs, which stand in no text.
pub(super) const NOWHERE: ByteRange = 0..0;

/// An expression that is only printed, so its depth does not matter.
pub(super) fn expr(kind: ExprKind) -> Expr {
    Expr { kind, span: NOWHERE, depth: 0 }
}

/// The number that the text has for a value of its type. A whole number prints without a point if
/// `as_integer`, and so takes the type of its place even where that is an integer.
pub(super) fn number(value: Scalar, as_integer: bool) -> Number {
    let dtype = value.dtype();
    if !dtype.is_float() {
        let int = match dtype {
            // `as_i64` saturates.
            DType::U64 => value.bits().cast_signed(),
            _ => i128::from(value.as_i64()),
        };
        return Number { value: int as f64, int: Some(int), is_literal: true };
    }
    let exact = value.as_f64();
    if !exact.is_finite() {
        return Number { value: exact, int: None, is_literal: false };
    }
    let is_whole = exact.fract() == 0. && exact.abs() < 1e9 && !(exact == 0. && exact.is_sign_negative());
    let int = (as_integer && is_whole).then_some(exact as i128);
    Number { value: shortest(value), int, is_literal: true }
}

/// The decimal number of fewest digits that the type of `value` rounds to it.
fn shortest(value: Scalar) -> f64 {
    let exact = value.as_f64();
    let rounded = (0..17).filter_map(|digits| format!("{exact:.digits$e}").parse::<f64>().ok());
    let mut rounded = rounded.filter(|&number| Scalar::from_f64(value.dtype(), number) == value);
    rounded.next().unwrap_or(exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_few_digits() {
        let printed =
            |dtype, value, as_integer| number(Scalar::from_f64(dtype, value), as_integer).to_string();
        assert_eq!(printed(DType::F32, 0.1, true), "0.1");
        assert_eq!(printed(DType::F64, 0.1, true), "0.1");
        assert_eq!(printed(DType::F64, f64::from(0.1f32), true), "0.10000000149011612");
        assert_eq!(printed(DType::F16, 1. / 3., true), "0.3333");
        assert_eq!(printed(DType::F32, 2., true), "2");
        assert_eq!(printed(DType::F32, 2., false), "2.0");
        assert_eq!(printed(DType::F32, -0., true), "-0.0");
        assert_eq!(printed(DType::F32, 1e30, true), "1e30");
        assert_eq!(printed(DType::F32, f64::NEG_INFINITY, true), "-inf");
        assert_eq!(number(Scalar::from_i64(DType::U64, -1), true).to_string(), "18446744073709551615");
        assert_eq!(number(Scalar::from_i64(DType::I8, -3), true).to_string(), "-3");
    }
}

/// The type that the place of an operand gives to numbers.
#[derive(Clone, Copy)]
pub(super) struct NumberContext {
    /// The common type of the other operands that are no numbers, if there are any.
    pub(super) others: Option<DType>,
    /// The type that numbers take if there are none.
    pub(super) wanted: DType,
    /// Whether a whole number without a point takes the type `wanted`. Compared with each other, such numbers
    /// are integers.
    pub(super) as_integer: bool,
}

/// Whether the operand is a number, which has no type of its own in a text.
pub(super) fn is_number(operand: &Operand) -> bool {
    matches!(operand, Operand::Constant(_) | Operand::Random { .. })
}

/// A constant, converted to its type unless its place gives it this type.
pub(super) fn constant(value: Scalar, context: NumberContext) -> Expr {
    let dtype = value.dtype();
    let literal = |as_integer| expr(ExprKind::Number(number(value, as_integer)));
    // The operation converts the integer anyway.
    let is_exact =
        |to: DType| to.is_float() && !dtype.is_float() && value.convert(to).convert(dtype) == value;
    match context.others {
        Some(other) if is_exact(other) => literal(true),
        None if is_exact(context.wanted) => literal(true),
        None => cast_unless(dtype == context.wanted, dtype, literal(context.as_integer)),
        Some(other) if other == dtype && dtype != DType::Bool => literal(true),
        Some(other) if dtype.is_float() && !other.is_float() => {
            let widened = if context.wanted.is_float() { context.wanted } else { DType::F32 };
            cast_unless(dtype == widened.promote(DType::F32), dtype, literal(false))
        }
        Some(_) => cast_unless(false, dtype, literal(true)),
    }
}

pub(super) fn cast_unless(fits: bool, dtype: DType, value: Expr) -> Expr {
    if fits { value } else { expr(ExprKind::Cast(dtype, Box::new(value))) }
}
