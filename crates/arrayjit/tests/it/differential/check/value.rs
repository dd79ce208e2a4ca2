//! Sets of possible values of an element, where the numeric class leaves it undetermined.
//!
//! A determined value is a set of one element. Functions without an exact definition, and roundings that
//! class `Fast` may omit, have intervals as results. An operation on intervals gives an interval that
//! contains its results for all members.

use random_programs::{BinaryFunction, UnaryFunction, format};
use tnode::DType;

/// The numeric class of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Every operation rounds as written.
    Strict,
    /// A product may enter a sum unrounded, reductions have any order, and zeros either sign.
    Fast,
}

/// The possible values of an element.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// The integers of a range; 0 and 1 for truth values.
    Integer(i128, i128),
    Float(Interval),
}

/// The floats from `low` to `high`, and NaN if `nan`; no numbers if `low` exceeds `high`. An interval of
/// several numbers that contains one zero contains both zeros.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) nan: bool,
}

const ONLY_NAN: Interval = Interval { low: f64::INFINITY, high: f64::NEG_INFINITY, nan: true };
const ANYTHING: Interval = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY, nan: true };

impl Interval {
    pub(crate) fn exactly(value: f64) -> Interval {
        if value.is_nan() { ONLY_NAN } else { Interval { low: value, high: value, nan: false } }
    }

    /// The smallest interval that contains both ends; a NaN end adds only NaN.
    pub(crate) fn between(a: f64, b: f64) -> Interval {
        Interval::exactly(a).hull(Interval::exactly(b))
    }

    pub(crate) fn hull(self, other: Interval) -> Interval {
        if !self.has_numbers() || !other.has_numbers() {
            let numbers = if self.has_numbers() { self } else { other };
            return Interval { nan: self.nan || other.nan, ..numbers };
        }
        let low = if self.low.total_cmp(&other.low).is_lt() { self.low } else { other.low };
        let high = if self.high.total_cmp(&other.high).is_gt() { self.high } else { other.high };
        Interval { low, high, nan: self.nan || other.nan }
    }

    pub(crate) fn has_numbers(self) -> bool {
        self.low <= self.high
    }

    /// The only value, if the interval has just one.
    pub(crate) fn single(self) -> Option<f64> {
        match self.has_numbers() {
            true if !self.nan && self.low.to_bits() == self.high.to_bits() => Some(self.low),
            false if self.nan => Some(f64::NAN),
            _ => None,
        }
    }

    /// The only value, if it is a number.
    pub(crate) fn number(self) -> Option<f64> {
        self.single().filter(|value| !value.is_nan())
    }

    fn contains_zero(self) -> bool {
        self.low <= 0.0 && self.high >= 0.0
    }

    /// The greatest magnitude of the numbers.
    pub(crate) fn magnitude(self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// Adds the other zero to an interval that contains one zero.
    fn with_both_zeros(self) -> Interval {
        let low = if self.low == 0.0 { -0.0 } else { self.low };
        let high = if self.high == 0.0 { 0.0 } else { self.high };
        Interval { low, high, ..self }
    }
}

impl Value {
    pub(crate) fn integer(value: i128) -> Value {
        Value::Integer(value, value)
    }

    pub(crate) fn float(value: f64) -> Value {
        Value::Float(Interval::exactly(value))
    }

    /// Every value of the type.
    pub(crate) fn anything(dtype: DType) -> Value {
        if dtype.is_float() {
            return Value::Float(ANYTHING);
        }
        let (low, high) = format::range(dtype);
        Value::Integer(low, high)
    }

    /// Decodes a bit pattern.
    pub(crate) fn decode(dtype: DType, bits: u64) -> Value {
        if dtype.is_float() {
            Value::float(format::decode(dtype, bits))
        } else {
            Value::integer(format::decode_integer(dtype, bits))
        }
    }

    pub(crate) fn hull(self, other: Value) -> Value {
        match (self, other) {
            (Value::Integer(a, b), Value::Integer(c, d)) => Value::Integer(a.min(c), b.max(d)),
            (Value::Float(a), Value::Float(b)) => Value::Float(a.hull(b)),
            _ => unreachable!("values of one type"),
        }
    }

    pub(crate) fn interval(self) -> Interval {
        match self {
            Value::Float(interval) => interval,
            Value::Integer(..) => unreachable!("a float"),
        }
    }

    pub(crate) fn integers(self) -> (i128, i128) {
        match self {
            Value::Integer(low, high) => (low, high),
            Value::Float(_) => unreachable!("an integer"),
        }
    }

    pub(crate) fn is_single(self) -> bool {
        match self {
            Value::Integer(low, high) => low == high,
            Value::Float(interval) => interval.single().is_some(),
        }
    }

    /// Whether the interval is too wide for a useful comparison.
    pub(crate) fn is_anything(self, dtype: DType) -> bool {
        match self {
            Value::Integer(low, high) => (low, high) == format::range(dtype),
            Value::Float(Interval { low, high, .. }) => low.is_infinite() && high.is_infinite() && low < high,
        }
    }

    /// Whether the value of the bit pattern is a member of the set.
    pub(crate) fn contains(self, class: Class, dtype: DType, bits: u64) -> bool {
        match self {
            Value::Integer(low, high) => {
                let found = format::decode_integer(dtype, bits);
                let is_truth_value = dtype != DType::Bool || bits & 0xff <= 1;
                low <= found && found <= high && is_truth_value
            }
            Value::Float(interval) => {
                let found = format::decode(dtype, bits);
                if found.is_nan() {
                    return interval.nan;
                }
                match interval.number() {
                    Some(value) if class == Class::Strict => value.to_bits() == found.to_bits(),
                    _ => interval.low <= found && found <= interval.high,
                }
            }
        }
    }

    /// The possible truth values, as `(can be false, can be true)`. NaN is true, because it differs from 0.
    pub(crate) fn truth(self) -> (bool, bool) {
        match self {
            Value::Integer(low, high) => (low <= 0 && 0 <= high, (low, high) != (0, 0)),
            Value::Float(i) => {
                let zero = i.has_numbers() && i.contains_zero();
                (zero, i.nan || i.has_numbers() && !(i.low == 0.0 && i.high == 0.0))
            }
        }
    }

    fn bool(can_be_false: bool, can_be_true: bool) -> Value {
        Value::Integer(i128::from(!can_be_false), i128::from(can_be_true))
    }

    /// Converts the members of the set to another type.
    pub(crate) fn convert(self, from: DType, to: DType) -> Value {
        if from == to {
            return self;
        }
        if to == DType::Bool {
            let (can_be_false, can_be_true) = self.truth();
            return Value::bool(can_be_false, can_be_true);
        }
        match self {
            Value::Integer(low, high) if low == high && to.is_float() => {
                Value::float(format::round_integer(to, low))
            }
            Value::Integer(low, high) if to.is_float() => {
                let ends =
                    Interval { low: (low as f64).next_down(), high: (high as f64).next_up(), nan: false };
                Value::Float(rounded(to, ends))
            }
            Value::Integer(low, high) => {
                let (wrapped_low, wrapped_high) = (format::wrap(to, low), format::wrap(to, high));
                if wrapped_high - wrapped_low == high - low {
                    Value::Integer(wrapped_low, wrapped_high)
                } else {
                    Value::anything(to)
                }
            }
            Value::Float(interval) if to.is_float() => Value::Float(rounded(to, interval)),
            Value::Float(interval) => {
                let zero = interval.nan.then_some(Value::integer(0));
                let numbers = interval.has_numbers().then(|| {
                    Value::Integer(format::saturate(to, interval.low), format::saturate(to, interval.high))
                });
                match (zero, numbers) {
                    (Some(zero), Some(numbers)) => zero.hull(numbers),
                    (zero, numbers) => zero.or(numbers).unwrap_or(Value::anything(to)),
                }
            }
        }
    }
}

/// Rounds both ends to the type.
pub(crate) fn rounded(dtype: DType, interval: Interval) -> Interval {
    if !interval.has_numbers() {
        return interval;
    }
    let (low, high) = (format::round(dtype, interval.low), format::round(dtype, interval.high));
    let ends = Interval::between(low, high);
    let inside = if low.is_nan() != high.is_nan() {
        // Formats without infinities have NaN beyond the largest number.
        let largest = format::largest(dtype);
        ends.hull(Interval::exactly(if low.is_nan() { -largest } else { largest }))
    } else if low.is_nan() && interval.low < 0.0 && interval.high > 0.0 {
        ANYTHING
    } else {
        ends
    };
    Interval { nan: inside.nan || interval.nan, ..inside }
}

/// The interval of a result whose ends were computed in `f64` from operands that may be unrounded.
fn widened(dtype: DType, class: Class, low: f64, high: f64, nan: bool) -> Interval {
    if low.is_nan() || high.is_nan() {
        return ANYTHING;
    }
    let slack = match class {
        Class::Strict => 0.0,
        Class::Fast if dtype == DType::F64 => 0.0,
        // Narrow types compute in `f32` first.
        Class::Fast if format::is_narrow(dtype) => 2f64.powi(-22),
        Class::Fast => 2f64.powi(-50),
    };
    let down = if low.is_finite() { low - low.abs() * slack } else { low };
    let up = if high.is_finite() { high + high.abs() * slack } else { high };
    let result = rounded(dtype, Interval { low: down, high: up, nan });
    if class == Class::Fast { result.with_both_zeros() } else { result }
}

/// The interval of a result that the next operation may use before it is rounded. `exact` deviates from the
/// exact result by at most `2^-52` of itself.
fn unrounded(dtype: DType, exact: f64, is_exact: bool, result: f64) -> Interval {
    if exact.is_nan() || result.is_nan() && exact.is_infinite() {
        return Interval::exactly(result);
    }
    if is_exact && exact == result {
        return Interval::exactly(result);
    }
    if exact.is_infinite() {
        return Interval::between(f64::MAX.copysign(exact), exact);
    }
    let around = Interval::between(exact.next_down(), exact.next_up());
    around.hull(Interval::exactly(result)).hull(Interval::exactly(format::round(dtype, exact)))
}

/// Applies a unary operation; operand and result have the type `dtype`.
pub(crate) fn unary(class: Class, op: UnaryFunction, dtype: DType, a: Value) -> Value {
    match a {
        Value::Integer(low, high) => integer_unary(op, dtype, low, high),
        Value::Float(a) => Value::Float(float_unary(class, op, dtype, a)),
    }
}

fn integer_unary(op: UnaryFunction, dtype: DType, low: i128, high: i128) -> Value {
    let value = |x: i128| match op {
        UnaryFunction::Neg if dtype == DType::Bool => x,
        UnaryFunction::Neg => format::wrap(dtype, -x),
        UnaryFunction::Abs => format::wrap(dtype, x.abs()),
        UnaryFunction::Not => i128::from(x == 0),
        UnaryFunction::Relu => x.max(0),
        UnaryFunction::Satur01 => x.clamp(0, 1),
        _ => x,
    };
    if low == high {
        return Value::integer(value(low));
    }
    match op {
        UnaryFunction::Neg | UnaryFunction::Abs => Value::anything(dtype),
        UnaryFunction::Not => Value::Integer(0, 1),
        _ => Value::Integer(value(low), value(high)),
    }
}

fn float_unary(class: Class, op: UnaryFunction, dtype: DType, a: Interval) -> Interval {
    if op == UnaryFunction::Not {
        let (can_be_false, can_be_true) = Value::Float(a).truth();
        return Interval {
            low: if can_be_true { 0.0 } else { 1.0 },
            high: f64::from(can_be_false),
            nan: false,
        };
    }
    let numbers = if a.has_numbers() { Some(float_unary_on_numbers(class, op, dtype, a)) } else { None };
    let of_nan = a.nan.then_some(ONLY_NAN);
    match (numbers, of_nan) {
        (Some(a), Some(b)) => a.hull(b),
        (a, b) => a.or(b).unwrap_or(ANYTHING),
    }
}

fn float_unary_on_numbers(class: Class, op: UnaryFunction, dtype: DType, a: Interval) -> Interval {
    let Interval { low, high, .. } = a;
    let monotone = |f: fn(f64) -> f64| {
        if a.number().is_some() {
            return Interval::exactly(format::round(dtype, f(low)));
        }
        widened(dtype, class, f(low), f(high), false)
    };
    match op {
        UnaryFunction::Neg => Interval { low: -high, high: -low, nan: false },
        UnaryFunction::Abs if low.is_sign_positive() => Interval { low, high, nan: false },
        UnaryFunction::Abs if high.is_sign_negative() => Interval { low: -high, high: -low, nan: false },
        UnaryFunction::Abs => Interval { low: 0.0, high: a.magnitude(), nan: false },
        UnaryFunction::Relu => relu(low, high),
        UnaryFunction::Satur01 => {
            let Interval { low, high, .. } = relu(low, high);
            Interval { low: low.min(1.0), high: high.min(1.0), nan: false }
        }
        UnaryFunction::Trunc => monotone(f64::trunc),
        UnaryFunction::Floor => monotone(f64::floor),
        UnaryFunction::RoundEven => monotone(f64::round_ties_even),
        UnaryFunction::Sqrt if low >= 0.0 => monotone(f64::sqrt),
        UnaryFunction::Sqrt if high < 0.0 => ONLY_NAN,
        UnaryFunction::Sqrt => ANYTHING,
        UnaryFunction::Recip => division(class, dtype, Interval::exactly(1.0), a),
        UnaryFunction::RecipSqrt => recip_sqrt(class, dtype, a),
        UnaryFunction::Sin | UnaryFunction::Cos => match a.number() {
            Some(x) if x.is_infinite() => ONLY_NAN,
            Some(x) if x == 0.0 && op == UnaryFunction::Sin => Interval::exactly(x),
            Some(x) => approximate(dtype, if op == UnaryFunction::Sin { x.sin() } else { x.cos() }),
            None => Interval { low: -1.0, high: 1.0, nan: a.magnitude().is_infinite() },
        },
        UnaryFunction::Tanh if a.number() == Some(0.0) => a,
        UnaryFunction::Tanh => ends(a, |x| approximate(dtype, x.tanh())),
        UnaryFunction::Sigmoid => ends(a, |x| approximate_within(dtype, 1.0 / (1.0 + (-x).exp()), 3.0)),
        UnaryFunction::Exp => positive(ends(a, |x| approximate(dtype, x.exp()))),
        UnaryFunction::Expm1 | UnaryFunction::Log1p | UnaryFunction::Atan | UnaryFunction::Erf
            if a.number() == Some(0.0) =>
        {
            a
        }
        UnaryFunction::Expm1 => ends(a, |x| approximate_within(dtype, x.exp_m1(), 3.0)),
        UnaryFunction::Log1p if high < -1.0 => ONLY_NAN,
        UnaryFunction::Log1p if low < -1.0 => ANYTHING,
        UnaryFunction::Log1p => ends(a, |x| approximate(dtype, x.ln_1p())),
        UnaryFunction::Atan => ends(a, |x| approximate(dtype, x.atan())),
        // The platform has no error function, so only the signs are checked.
        UnaryFunction::Erf => {
            let (low, high) = (if low < 0.0 { -1.0 } else { 0.0 }, if high > 0.0 { 1.0 } else { 0.0 });
            Interval { low, high, nan: false }.with_both_zeros()
        }
        UnaryFunction::Erfc => Interval { low: 0.0, high: 2.0, nan: false },
        UnaryFunction::Exp2 => positive(ends(a, |x| approximate(dtype, x.exp2()))),
        UnaryFunction::Log | UnaryFunction::Log2 if high < 0.0 => ONLY_NAN,
        UnaryFunction::Log | UnaryFunction::Log2 if low < 0.0 => ANYTHING,
        UnaryFunction::Log => ends(a, |x| approximate(dtype, x.abs().ln())),
        UnaryFunction::Log2 => ends(a, |x| approximate(dtype, x.abs().log2())),
        UnaryFunction::Not => unreachable!("done before"),
    }
}

/// `max(x, 0)`; of two zeros it is the first.
fn relu(low: f64, high: f64) -> Interval {
    let (low, high) = match (low < 0.0, high < 0.0) {
        (_, true) => (0.0, 0.0),
        (true, false) => (-0.0, if high == 0.0 { 0.0 } else { high }),
        (false, false) => (low, high),
    };
    Interval { low, high, nan: false }
}

fn positive(a: Interval) -> Interval {
    Interval { low: a.low.max(0.0), ..a }
}

/// The hull of a monotone function's values at both ends.
fn ends(a: Interval, f: impl Fn(f64) -> Interval) -> Interval {
    f(a.low).hull(f(a.high))
}

/// The possible results of a function without an exact definition, around the result of the platform's `f64`
/// functions.
fn approximate(dtype: DType, value: f64) -> Interval {
    approximate_within(dtype, value, 2.0)
}

/// Like [`approximate`], within a number of units in the last place; narrow types compute in `f32`.
fn approximate_within(dtype: DType, value: f64, ulps: f64) -> Interval {
    if value.is_nan() || value.is_infinite() && dtype != DType::F64 && dtype != DType::F32 {
        return rounded(dtype, Interval::exactly(value));
    }
    if value.is_infinite() {
        // Near overflow, two implementations may differ by a few units, so that only one overflows.
        return Interval::between(format::largest(dtype).copysign(value), value);
    }
    let (unit, platform) = match dtype {
        DType::F64 => (format::ulp(DType::F64, value), 1.0),
        _ => (format::ulp(DType::F32, value), 0.01),
    };
    let error = unit * (ulps + platform);
    let around = rounded(dtype, Interval { low: value - error, high: value + error, nan: false });
    // The value above the largest finite one is infinity.
    if around.high.abs().max(around.low.abs()) >= format::largest(dtype) {
        return around.hull(rounded(dtype, Interval::exactly(value * (1.0 + 1e-12))));
    }
    around
}

fn recip_sqrt(class: Class, dtype: DType, a: Interval) -> Interval {
    if a.high < 0.0 {
        return ONLY_NAN;
    }
    if a.low < 0.0 {
        return ANYTHING;
    }
    // Narrow types compute both steps in `f32`.
    let steps = if format::is_narrow(dtype) { DType::F32 } else { dtype };
    let at = |x: f64| {
        let root = format::round(steps, x.sqrt());
        format::round(dtype, format::round(steps, 1.0 / root))
    };
    match a.number() {
        Some(x) if class == Class::Strict || x == 0.0 => Interval::exactly(at(x)),
        _ if a.contains_zero() => Interval { nan: false, ..ANYTHING },
        // Class `Fast` may leave the quotient unrounded.
        _ => {
            let (low, high) = (at(a.high), at(a.low));
            let (down, up) = (format::ulp(dtype, low), format::ulp(dtype, high));
            Interval::between(low - down, high + up).hull(Interval::between(at(a.low), at(a.high)))
        }
    }
}

fn division(class: Class, dtype: DType, a: Interval, b: Interval) -> Interval {
    if let (Some(x), Some(y)) = (a.single(), b.single()) {
        let quotient = x / y;
        let result = format::round(dtype, quotient);
        if class == Class::Strict || y == 0.0 || y.is_infinite() || x.is_infinite() || x == 0.0 {
            return Interval::exactly(result);
        }
        let is_exact = quotient.is_normal() && quotient.mul_add(y, -x) == 0.0;
        return unrounded(dtype, quotient, is_exact, result);
    }
    if !a.has_numbers() || !b.has_numbers() {
        return ONLY_NAN;
    }
    if b.contains_zero() {
        return ANYTHING;
    }
    corners(class, dtype, a, b, |x, y| x / y)
}

/// Whether some member of one interval is a zero and some member of the other is infinite.
fn has_zero_by_infinity(a: Interval, b: Interval) -> bool {
    a.contains_zero() && b.magnitude().is_infinite() || b.contains_zero() && a.magnitude().is_infinite()
}

fn corners(class: Class, dtype: DType, a: Interval, b: Interval, f: impl Fn(f64, f64) -> f64) -> Interval {
    let all = [f(a.low, b.low), f(a.low, b.high), f(a.high, b.low), f(a.high, b.high)];
    if all.iter().any(|corner| corner.is_nan()) || has_zero_by_infinity(a, b) {
        return ANYTHING;
    }
    let (low, high) = all.iter().fold((all[0], all[0]), |(low, high), &x| (low.min(x), high.max(x)));
    let result = widened(dtype, class, low, high, a.nan || b.nan);
    match class {
        Class::Strict => result.with_both_zeros(),
        // The product may be unrounded or rounded.
        Class::Fast => {
            let outside = Interval { low: low.next_down(), high: high.next_up(), nan: false };
            result.hull(outside).with_both_zeros()
        }
    }
}

/// Applies a binary operation to values of the type `dtype`. The result of a comparison is `bool`, all other
/// results have the type of the operands.
pub(crate) fn binary(class: Class, op: BinaryFunction, dtype: DType, a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Integer(..), Value::Integer(..)) => integer_binary(op, dtype, a.integers(), b.integers()),
        _ if op.is_comparison() => comparison(op, a.interval(), b.interval()),
        _ if op.is_logical() => {
            let ((f, t), (g, u)) = (a.truth(), b.truth());
            let both = match op {
                BinaryFunction::And => (f || g, t && u),
                _ => (f && g, t || u),
            };
            Value::Float(Interval { low: f64::from(!both.0), high: f64::from(both.1), nan: false })
        }
        _ => Value::Float(float_binary(class, op, dtype, a.interval(), b.interval())),
    }
}

fn comparison(op: BinaryFunction, a: Interval, b: Interval) -> Value {
    let (a, b, op) = match op {
        BinaryFunction::Gt => (b, a, BinaryFunction::Lt),
        BinaryFunction::Ge => (b, a, BinaryFunction::Le),
        _ => (a, b, op),
    };
    let unordered = a.nan || b.nan;
    let have_numbers = a.has_numbers() && b.has_numbers();
    let (can, must) = match op {
        BinaryFunction::Lt => (a.low < b.high, a.high < b.low),
        BinaryFunction::Le => (a.low <= b.high, a.high <= b.low),
        BinaryFunction::Eq | BinaryFunction::Ne => {
            (a.low <= b.high && b.low <= a.high, a.low == b.high && a.high == b.low && a.low == a.high)
        }
        _ => unreachable!("a comparison"),
    };
    let (can_be_false, can_be_true) = (unordered || have_numbers && !must, have_numbers && can);
    if op == BinaryFunction::Ne {
        Value::bool(can_be_true, can_be_false)
    } else {
        Value::bool(can_be_false, can_be_true)
    }
}

fn integer_binary(op: BinaryFunction, dtype: DType, a: (i128, i128), b: (i128, i128)) -> Value {
    if a.0 == a.1 && b.0 == b.1 {
        return Value::integer(integer_result(op, dtype, a.0, b.0));
    }
    let corner = |f: fn(i128, i128) -> i128| {
        let all = [f(a.0, b.0), f(a.0, b.1), f(a.1, b.0), f(a.1, b.1)];
        let (low, high) = all.iter().fold((all[0], all[0]), |(low, high), &x| (low.min(x), high.max(x)));
        let (least, greatest) = format::range(dtype);
        if dtype != DType::Bool && least <= low && high <= greatest {
            Value::Integer(low, high)
        } else {
            Value::anything(dtype)
        }
    };
    let float = |(low, high): (i128, i128)| Interval { low: low as f64, high: high as f64, nan: false };
    match op {
        BinaryFunction::Add => corner(|x, y| x + y),
        BinaryFunction::Sub => corner(|x, y| x - y),
        BinaryFunction::Mul if format::width(dtype) < 64 => corner(|x, y| x * y),
        BinaryFunction::Max => Value::Integer(a.0.max(b.0), a.1.max(b.1)),
        BinaryFunction::Min => Value::Integer(a.0.min(b.0), a.1.min(b.1)),
        // Different large integers may be equal as doubles; the answer then allows more values than
        // necessary.
        _ if op.is_comparison() => match comparison(op, float(a), float(b)) {
            Value::Integer(low, high) if low == high && a.1 - a.0 < 1 << 50 && b.1 - b.0 < 1 << 50 => {
                Value::Integer(low, high)
            }
            _ => Value::Integer(0, 1),
        },
        _ if op.is_logical() => Value::Integer(0, 1),
        _ => Value::anything(dtype),
    }
}

fn integer_result(op: BinaryFunction, dtype: DType, a: i128, b: i128) -> i128 {
    // A truth value has the bits of a byte.
    let shift = (b.rem_euclid(i128::from(format::width(dtype).max(8)))) as u32;
    let result = match op {
        BinaryFunction::Add => a + b,
        BinaryFunction::Sub => a - b,
        BinaryFunction::Mul => a.wrapping_mul(b),
        BinaryFunction::Div => a.checked_div(b).unwrap_or(0),
        BinaryFunction::Rem => a.checked_rem(b).unwrap_or(0),
        BinaryFunction::Lt => i128::from(a < b),
        BinaryFunction::Le => i128::from(a <= b),
        BinaryFunction::Gt => i128::from(a > b),
        BinaryFunction::Ge => i128::from(a >= b),
        BinaryFunction::Eq => i128::from(a == b),
        BinaryFunction::Ne => i128::from(a != b),
        BinaryFunction::Pow => integer_power(a, b),
        BinaryFunction::Max => a.max(b),
        BinaryFunction::Min => a.min(b),
        BinaryFunction::ReluGate if a > 0 => b,
        // No integer is between 0 and 1.
        BinaryFunction::ReluGate | BinaryFunction::Satur01Gate => 0,
        BinaryFunction::And => i128::from(a != 0 && b != 0),
        BinaryFunction::Or => i128::from(a != 0 || b != 0),
        BinaryFunction::BitAnd => a & b,
        BinaryFunction::BitOr => a | b,
        BinaryFunction::BitXor => a ^ b,
        BinaryFunction::Arg1 => a,
        BinaryFunction::Arg2 => b,
        BinaryFunction::Shl => a << shift,
        BinaryFunction::Shr => a >> shift,
    };
    if op.is_comparison() { result } else { format::wrap(dtype, result) }
}

/// Computed modulo 2^128, so the result is right modulo every width. A negative exponent gives the truncated
/// quotient, or 0 for base 0.
fn integer_power(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut left) = (1i128, base, exponent as u128);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    result
}

fn float_binary(class: Class, op: BinaryFunction, dtype: DType, a: Interval, b: Interval) -> Interval {
    match op {
        BinaryFunction::Max | BinaryFunction::Min => return extremum(class, op, a, b),
        BinaryFunction::ReluGate | BinaryFunction::Satur01Gate => return gate(op, a, b),
        BinaryFunction::Pow => return power(class, dtype, a, b),
        BinaryFunction::Div => return division(class, dtype, a, b),
        _ => {}
    }
    if let (Some(x), Some(y)) = (a.single(), b.single()) {
        return single_result(class, op, dtype, x, y);
    }
    if !a.has_numbers() || !b.has_numbers() {
        return ONLY_NAN;
    }
    // The sum is NaN for infinities of different sign; the difference, for infinities of the same sign.
    let (low, high) = if op == BinaryFunction::Sub { (-b.high, -b.low) } else { (b.low, b.high) };
    let is_opposite = |x: f64, y: f64| x.is_infinite() && y == -x;
    let no_sum = matches!(op, BinaryFunction::Add | BinaryFunction::Sub)
        && (is_opposite(a.low, high) || is_opposite(a.high, low));
    let nan = a.nan || b.nan || no_sum;
    match op {
        BinaryFunction::Add => widened(dtype, class, a.low + b.low, a.high + b.high, nan),
        BinaryFunction::Sub => widened(dtype, class, a.low - b.high, a.high - b.low, nan),
        BinaryFunction::Mul => corners(class, dtype, a, b, |x, y| x * y),
        _ if b.contains_zero() || a.magnitude().is_infinite() => ANYTHING,
        _ => {
            let largest = a.magnitude();
            Interval { low: -largest, high: largest, nan }
        }
    }
}

fn single_result(class: Class, op: BinaryFunction, dtype: DType, x: f64, y: f64) -> Interval {
    let exact = match op {
        BinaryFunction::Add => x + y,
        BinaryFunction::Sub => x - y,
        BinaryFunction::Mul => x * y,
        _ => x % y,
    };
    let result = Interval::exactly(format::round(dtype, exact));
    match op {
        _ if class == Class::Strict => result,
        BinaryFunction::Mul => {
            let is_exact = exact == 0.0 && (x == 0.0 || y == 0.0)
                || exact.is_infinite() && (x.is_infinite() || y.is_infinite())
                || exact.is_normal() && x.mul_add(y, -exact) == 0.0;
            unrounded(dtype, exact, is_exact, format::round(dtype, exact))
        }
        _ => result.with_both_zeros(),
    }
}

/// Computes the greater or the lesser value: `b` if it is beyond `a` or NaN, else `a`.
fn extremum(class: Class, op: BinaryFunction, a: Interval, b: Interval) -> Interval {
    if let (Some(x), Some(y)) = (a.single(), b.single()) {
        let is_beyond = if op == BinaryFunction::Max { y > x } else { y < x };
        let result = Interval::exactly(if is_beyond || y.is_nan() { y } else { x });
        let are_zeros = x == 0.0 && y == 0.0;
        return if class == Class::Fast && are_zeros { result.with_both_zeros() } else { result };
    }
    if !a.has_numbers() || !b.has_numbers() {
        return ONLY_NAN;
    }
    let (low, high) = match op {
        BinaryFunction::Max => (a.low.max(b.low), a.high.max(b.high)),
        _ => (a.low.min(b.low), a.high.min(b.high)),
    };
    Interval { low, high, nan: a.nan || b.nan }.with_both_zeros()
}

/// `b` if the gate `a` is open, otherwise 0.
fn gate(op: BinaryFunction, a: Interval, b: Interval) -> Interval {
    let limit = if op == BinaryFunction::ReluGate { f64::INFINITY } else { 1.0 };
    let is_open = |x: f64| x > 0.0 && (op == BinaryFunction::ReluGate || x < limit);
    let can_open = a.has_numbers() && a.high > 0.0 && (op == BinaryFunction::ReluGate || a.low < 1.0);
    let must_open = a.has_numbers() && !a.nan && is_open(a.low) && is_open(a.high);
    match (can_open, must_open) {
        (_, true) => b,
        (true, false) => b.hull(Interval::exactly(0.0)),
        (false, false) => Interval::exactly(0.0),
    }
}

fn power(class: Class, dtype: DType, a: Interval, b: Interval) -> Interval {
    // Class `Fast` replaces small constant exponents by products.
    let ulps = if class == Class::Fast { 6.0 } else { 1.2 };
    if let (Some(x), Some(y)) = (a.single(), b.single()) {
        let result = x.powf(y);
        let near = if y == 0.0 || x == 1.0 || result.is_nan() || result == 0.0 && x == 0.0 {
            Interval::exactly(format::round(dtype, result))
        } else if y == 1.0 || x.is_infinite() {
            rounded(dtype, Interval::exactly(result))
        } else {
            approximate_within(dtype, result, ulps)
        };
        if class == Class::Strict {
            return near;
        }
        // Intermediate products may overflow, or lose digits below the normal range.
        let products = y == y.trunc() && y.abs() <= 4.0;
        let small = format::least_normal(dtype) * 16.0;
        return match result.abs() {
            _ if !products || result.is_nan() || x.is_infinite() || x == 0.0 => near,
            magnitude if magnitude < small => near.hull(Interval { low: -small, high: small, nan: false }),
            magnitude if magnitude > format::largest(dtype) / 16.0 => {
                near.hull(Interval::exactly(format::round(dtype, f64::INFINITY.copysign(result))))
            }
            // The rounding of narrow types adds an error.
            _ if format::is_narrow(dtype) || dtype == DType::F32 => {
                let error = result.abs() * scale_of(dtype);
                near.hull(rounded(dtype, Interval { low: result - error, high: result + error, nan: false }))
                    .hull(Interval::between(result, result))
            }
            _ => near,
        };
    }
    if !a.has_numbers() || !b.has_numbers() || a.nan || b.nan || a.low <= 0.0 || class == Class::Fast {
        return ANYTHING;
    }
    let all = [(a.low, b.low), (a.low, b.high), (a.high, b.low), (a.high, b.high)];
    let corners = all.map(|(x, y)| approximate_within(dtype, x.powf(y), ulps));
    corners.into_iter().reduce(Interval::hull).unwrap_or(ANYTHING)
}

fn scale_of(dtype: DType) -> f64 {
    format::scale(6.0, -format::precision(dtype))
}

/// `a · b + c` with one rounding.
pub(crate) fn fma(class: Class, dtype: DType, a: Value, b: Value, c: Value) -> Value {
    if let (Value::Integer(..), Value::Integer(..)) = (a, b) {
        return binary(class, BinaryFunction::Add, dtype, binary(class, BinaryFunction::Mul, dtype, a, b), c);
    }
    let (a, b, c) = (a.interval(), b.interval(), c.interval());
    if let (Some(x), Some(y), Some(z)) = (a.single(), b.single(), c.single()) {
        let result = match dtype {
            DType::F64 => x.mul_add(y, z),
            _ => f64::from((x as f32).mul_add(y as f32, z as f32)),
        };
        let result = Interval::exactly(format::round(dtype, result));
        return Value::Float(if class == Class::Fast { result.with_both_zeros() } else { result });
    }
    let product = corners_unrounded(a, b);
    let sum = if product.has_numbers() && c.has_numbers() {
        if product.magnitude().is_infinite() && c.magnitude().is_infinite() {
            return Value::anything(dtype);
        }
        let (low, high) = (product.low + c.low, product.high + c.high);
        // For `f32`, the definition computes the sum in `f64` and then rounds it to `f32`. The interval
        // allows for the rounding in `f64` too.
        widened(dtype, Class::Fast, low.next_down(), high.next_up(), product.nan || c.nan)
    } else {
        ONLY_NAN
    };
    Value::Float(sum)
}

fn corners_unrounded(a: Interval, b: Interval) -> Interval {
    if !a.has_numbers() || !b.has_numbers() {
        return ONLY_NAN;
    }
    let all = [a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high];
    if all.iter().any(|corner| corner.is_nan()) || has_zero_by_infinity(a, b) {
        return ANYTHING;
    }
    let (low, high) = all.iter().fold((all[0], all[0]), |(low, high), &x| (low.min(x), high.max(x)));
    Interval { low: low.next_down(), high: high.next_up(), nan: a.nan || b.nan }
}
