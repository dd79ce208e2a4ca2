//! Combines the values that reach one element.

use random_programs::{Accumulation, BinaryFunction, format};
use tnode::DType;

use super::value::{self, Class, Interval, Value};

/// The operation that combines the element with a value.
fn operation(op: Accumulation) -> BinaryFunction {
    match op {
        Accumulation::Add => BinaryFunction::Add,
        Accumulation::Sub => BinaryFunction::Sub,
        Accumulation::Mul => BinaryFunction::Mul,
        Accumulation::Div => BinaryFunction::Div,
        Accumulation::Pow => BinaryFunction::Pow,
        Accumulation::Max => BinaryFunction::Max,
        Accumulation::Min => BinaryFunction::Min,
        Accumulation::ReluGate => BinaryFunction::ReluGate,
        Accumulation::Satur01Gate => BinaryFunction::Satur01Gate,
        Accumulation::Or => BinaryFunction::Or,
        Accumulation::And => BinaryFunction::And,
        Accumulation::Store => unreachable!("a store combines nothing"),
    }
}

/// The neutral element of the accumulation, which the element starts from.
pub(crate) fn neutral(op: Accumulation, dtype: DType) -> Value {
    let number = |value: i64| {
        if dtype.is_float() { Value::float(value as f64) } else { Value::integer(i128::from(value)) }
    };
    let (low, high) = format::range(dtype);
    match op {
        Accumulation::ReluGate | Accumulation::Satur01Gate => unreachable!("a gate has no neutral element"),
        Accumulation::Store | Accumulation::Add | Accumulation::Sub | Accumulation::Or => number(0),
        Accumulation::Mul | Accumulation::Div | Accumulation::Pow | Accumulation::And => number(1),
        // The documented start of extrema is "−∞, ∞; the lowest and highest value of types without".
        Accumulation::Max if dtype == DType::Fp8E4m3fn => Value::float(-448.0),
        Accumulation::Min if dtype == DType::Fp8E4m3fn => Value::float(448.0),
        Accumulation::Max if dtype.is_float() => Value::float(f64::NEG_INFINITY),
        Accumulation::Min if dtype.is_float() => Value::float(f64::INFINITY),
        Accumulation::Max => Value::integer(low),
        Accumulation::Min => Value::integer(high),
    }
}

/// Computes `old operator value`; an extremum compares the value with the old element.
fn step(class: Class, op: Accumulation, dtype: DType, old: Value, new: Value) -> Value {
    match op {
        Accumulation::Store => new,
        Accumulation::Max | Accumulation::Min => value::binary(class, operation(op), dtype, new, old),
        _ => value::binary(class, operation(op), dtype, old, new),
    }
}

/// Combines the old value of an element with the values that reach it, in the order of the loops. With
/// `is_gathered`, class `Fast` may skip those terms of a sum that a comparison multiplies by 0, so their
/// infinities and NaNs may be missing.
pub(crate) fn combine(
    class: Class,
    op: Accumulation,
    dtype: DType,
    old: Value,
    values: &[Value],
    is_gathered: bool,
) -> Value {
    let in_order = || values.iter().fold(old, |old, new| step(class, op, dtype, old, *new));
    if class == Class::Strict || !dtype.is_float() {
        return in_order();
    }
    let terms: Vec<Interval> = values.iter().map(|value| value.interval()).collect();
    let result = match op {
        Accumulation::Add => sum(dtype, old.interval(), &terms),
        Accumulation::Sub => {
            let negated: Vec<Interval> =
                terms.iter().map(|t| Interval { low: -t.high, high: -t.low, nan: t.nan }).collect();
            sum(dtype, old.interval(), &negated)
        }
        Accumulation::Mul => product(dtype, old.interval(), &terms),
        Accumulation::Max | Accumulation::Min => extremum(op, old.interval(), &terms),
        _ => return in_order(),
    };
    let all_finite = terms.iter().all(|term| term.has_numbers() && !term.nan && term.magnitude().is_finite());
    if is_gathered && !all_finite {
        return Value::anything(dtype);
    }
    Value::Float(result)
}

const ANYTHING: Interval = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY, nan: true };

/// The interval of a sum in any order, where each step rounds to the type.
fn sum(dtype: DType, old: Interval, terms: &[Interval]) -> Interval {
    if terms.is_empty() {
        return old;
    }
    let all = || std::iter::once(&old).chain(terms);
    if all().any(|term| !term.has_numbers()) {
        return Interval::exactly(f64::NAN);
    }
    let (mut low, mut high, mut magnitude) = (0.0, 0.0, 0.0);
    let mut infinity = None;
    for term in all() {
        if term.nan {
            return ANYTHING;
        }
        if term.magnitude().is_infinite() {
            let Some(value) = term.number() else { return ANYTHING };
            if *infinity.get_or_insert(value) != value {
                return Interval::exactly(f64::NAN);
            }
            continue;
        }
        (low, high, magnitude) = (low + term.low, high + term.high, magnitude + term.magnitude());
    }
    let count = terms.len() as f64 + 4.0;
    let unit = format::scale(1.0, -format::precision(dtype));
    let growth = (count * unit).exp() - 1.0;
    let bound = magnitude * (1.0 + growth);
    if bound.is_nan() || bound > format::largest(dtype) {
        return ANYTHING;
    }
    if let Some(infinity) = infinity {
        return Interval::exactly(format::round(dtype, infinity));
    }
    if is_exact(dtype, magnitude, all()) {
        return zeros(Interval::exactly(low));
    }
    let slack = magnitude * (growth + count * f64::EPSILON);
    let ends = Interval { low: low - slack, high: high + slack, nan: false };
    zeros(value::rounded(dtype, ends))
}

/// The interval of zeros of either sign.
fn zeros(a: Interval) -> Interval {
    if a.low == 0.0 && a.high == 0.0 { Interval { low: -0.0, high: 0.0, ..a } } else { a }
}

/// Whether every partial sum is a value of the type: all are multiples of one unit and none needs more
/// digits.
fn is_exact<'a>(dtype: DType, magnitude: f64, terms: impl Iterator<Item = &'a Interval>) -> bool {
    let mut unit = i32::MAX;
    for term in terms {
        let Some(value) = term.number() else { return false };
        if value != 0.0 {
            let significand = (value.to_bits() & ((1 << 52) - 1)) | (1 << 52);
            unit = unit.min(format::exponent(value) - 52 + significand.trailing_zeros() as i32);
        }
    }
    unit == i32::MAX
        || unit > -1000 && magnitude <= format::scale(1.0, unit.min(900) + format::precision(dtype))
}

/// The interval of a product in any order.
fn product(dtype: DType, old: Interval, terms: &[Interval]) -> Interval {
    if terms.is_empty() {
        return old;
    }
    let all = || std::iter::once(&old).chain(terms);
    if all().any(|term| !term.has_numbers()) {
        return Interval::exactly(f64::NAN);
    }
    if all().any(|term| term.nan || term.magnitude().is_infinite()) {
        return ANYTHING;
    }
    let largest: f64 = all().map(|term| term.magnitude().max(1.0)).product();
    if largest.is_nan() || largest > format::largest(dtype) / 2.0 {
        return ANYTHING;
    }
    if all().any(|term| term.number() == Some(0.0)) {
        return Interval { low: -0.0, high: 0.0, nan: false };
    }
    let least: f64 = all().map(|term| term.low.abs().min(term.high.abs()).min(1.0)).product();
    let underflow =
        if least < format::least_normal(dtype) * 2.0 { largest * format::least_normal(dtype) } else { 0.0 };
    let (mut low, mut high) = (1.0f64, 1.0f64);
    for term in all() {
        let corners = [low * term.low, low * term.high, high * term.low, high * term.high];
        low = corners.iter().copied().fold(f64::INFINITY, f64::min);
        high = corners.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    }
    let count = terms.len() as f64 + 4.0;
    let growth = (count * format::scale(1.0, -format::precision(dtype))).exp() - 1.0;
    let slack = low.abs().max(high.abs()) * growth * 1.01 + underflow * 2.0 * count;
    Interval { low: low - slack, high: high + slack, nan: false }
}

/// The interval of the greatest or least value, in any order; with a NaN among the values it is NaN.
fn extremum(op: Accumulation, old: Interval, terms: &[Interval]) -> Interval {
    if terms.is_empty() {
        return old;
    }
    if !old.has_numbers() || terms.iter().any(|term| !term.has_numbers()) {
        return Interval::exactly(f64::NAN);
    }
    let is_max = op == Accumulation::Max;
    let mut result = old;
    for term in terms {
        let (low, high) = match is_max {
            true => (result.low.max(term.low), result.high.max(term.high)),
            false => (result.low.min(term.low), result.high.min(term.high)),
        };
        result = Interval { low, high, nan: result.nan || term.nan };
    }
    if result.low == 0.0 && result.high == 0.0 { zeros(result) } else { result }
}
