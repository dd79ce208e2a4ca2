//! Natural and binary logarithm: split off the exponent, then the logarithm of a number between √½ and √2.

use super::algebra::{Algebra, Format, fast_two_sum, fma_const, polynomial, two_product, two_sum};
use super::exp::{ln2_parts, where_tiny};

/// ln(1 + f) = f − f²/2 + f³·P(f) for 1 + f between √½ and √2; relative error 2⁻³⁰.
const LOG_SINGLE: [f64; 9] = [
    0.3333331258605909,
    -0.2500000959288788,
    0.20002120075057625,
    -0.16667997146412553,
    0.14219521279800837,
    -0.12405544570305299,
    0.11888369122911024,
    -0.11676031547886485,
    0.06746621293359037,
];
/// log₂(1 + f) = f·P(f) on the same interval; relative error 2⁻³¹.
const LOG2_SINGLE: [f64; 11] = [
    1.4426950418006006,
    -0.721347515652872,
    0.48089788877605505,
    -0.3606741496160212,
    0.2885762008105609,
    -0.24046722683284696,
    0.20504294447341415,
    -0.17890794715487157,
    0.17206019778729775,
    -0.16906978807984407,
    0.09703426369266449,
];
/// 2·atanh(s) = 2s + s·z·P(z) with z = s², s = f / (2 + f); relative error 2⁻⁶⁶.
const ATANH_DOUBLE: [f64; 8] = [
    0.6666666666666666,
    0.4000000000000633,
    0.28571428569058255,
    0.22222222650981682,
    0.18181775329077787,
    0.15387105529656048,
    0.1324978371615964,
    0.13254381837788867,
];

/// log₂ e beyond the first 53 bits.
pub(super) const LOG2_E_LOW: f64 = 2.0355273740931033e-17;

/// The natural logarithm of `x`: NaN below 0, −∞ at 0.
pub(super) fn log<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let (exponent, f) = split(a, x);
    let result = log_of_split(a, exponent, f);
    at_the_edges(a, x, result)
}

/// ln(1 + x): the logarithm of the rounded sum, whose rounding error is added to `f` in `sum = 2ⁿ (1 + f)`.
pub(super) fn log1p<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let one = a.float(1.0);
    let (sum, error) = two_sum(a, one, x);
    // With half of the sum, the power of two by which the error is divided is never infinite.
    let half = a.float(0.5);
    let (half_sum, half_error) = (a.mul(sum, half), a.mul(error, half));
    let Split { exponent, f, in_place } = split_normal(a, half_sum);
    let one_bits = a.bits(one);
    let inverse = a.int_sub(one_bits, in_place);
    let inverse = a.with_bits(inverse);
    let f = a.fma(half_error, inverse, f);
    let exponent = a.to_float(exponent);
    let exponent = a.add(exponent, one);
    let result = log_of_split(a, exponent, f);
    let result = at_the_edges(a, sum, result);
    // Below this limit, `x²/2` is lost beside `x`.
    let tiny = match a.format() {
        Format::Single => 2f64.powi(-26),
        Format::Double => 2f64.powi(-55),
    };
    where_tiny(a, x, tiny, result)
}

/// ln(2ⁿ (1 + f)).
fn log_of_split<A: Algebra>(a: &mut A, exponent: A::Float, f: A::Float) -> A::Float {
    let (high, low) = ln2_parts(a.format());
    let (f, tail) = match a.format() {
        Format::Single => (f, log_tail_single(a, f)),
        Format::Double => log_double(a, f),
    };
    // The terms are added from the smallest to the largest, so that each rounding error is small beside the
    // result.
    let tail = fma_const(a, exponent, low, tail);
    let sum = a.add(f, tail);
    fma_const(a, exponent, high, sum)
}

/// ln(1 + f) − f.
fn log_tail_single<A: Algebra>(a: &mut A, f: A::Float) -> A::Float {
    let p = polynomial(a, f, &LOG_SINGLE);
    let half = a.float(-0.5);
    let p = a.fma(f, p, half);
    let square = a.mul(f, f);
    a.mul(square, p)
}

/// ln(1 + f) as a sum whose first part is `f − f²/2`, rounded; the second is small beside it.
fn log_double<A: Algebra>(a: &mut A, f: A::Float) -> (A::Float, A::Float) {
    let two = a.float(2.0);
    let denominator = a.add(f, two);
    let s = a.div(f, denominator);
    let z = a.mul(s, s);
    let p = polynomial(a, z, &ATANH_DOUBLE);
    let half = a.float(0.5);
    let half_f = a.mul(f, half);
    let (half_square, lost) = two_product(a, half_f, f);
    // 2s = f − s·f = f − f²/2 + s·f²/2.
    let inner = a.fma(z, p, half_square);
    let negated = a.neg(lost);
    let tail = a.fma(s, inner, negated);
    let minus_half_square = a.neg(half_square);
    let (high, rounding) = fast_two_sum(a, f, minus_half_square);
    let tail = a.add(tail, rounding);
    (high, tail)
}

/// The binary logarithm of `x`: NaN below 0, −∞ at 0.
pub(super) fn log2<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let (exponent, f) = split(a, x);
    let result = match a.format() {
        Format::Single => {
            let p = polynomial(a, f, &LOG2_SINGLE);
            a.fma(f, p, exponent)
        }
        Format::Double => {
            let (high, low) = log_double(a, f);
            let log2_e = a.float(super::exp::LOG2_E);
            let (product, error) = two_product(a, high, log2_e);
            let error = fma_const(a, high, LOG2_E_LOW, error);
            let error = a.fma(low, log2_e, error);
            let (sum, rounding) = fast_two_sum(a, exponent, product);
            let error = a.add(error, rounding);
            a.add(sum, error)
        }
    };
    at_the_edges(a, x, result)
}

/// `x = 2ⁿ (1 + f)` with 1 + f between √½ and √2: `n` as a float, and `f`, which is exact. For finite
/// positive `x`.
pub(super) fn split<A: Algebra>(a: &mut A, x: A::Float) -> (A::Float, A::Float) {
    let (x, shift) = normalize(a, x);
    let Split { exponent, f, .. } = split_normal(a, x);
    let exponent = a.to_float(exponent);
    let exponent = a.add(exponent, shift);
    (exponent, f)
}

/// The parts of `x = 2ⁿ (1 + f)`, with `n` also at the place of an exponent.
struct Split<A: Algebra> {
    exponent: A::Int,
    f: A::Float,
    in_place: A::Int,
}

/// As [`split`], for a normal number.
fn split_normal<A: Algebra>(a: &mut A, x: A::Float) -> Split<A> {
    let format = a.format();
    let bits = a.bits(x);
    let root_half = a.float(std::f64::consts::FRAC_1_SQRT_2);
    let root_half = a.bits(root_half);
    let above = a.int_sub(bits, root_half);
    let exponent = a.shr(above, format.mantissa_bits());
    let in_place = a.shl(exponent, format.mantissa_bits());
    let mantissa = a.int_sub(bits, in_place);
    let mantissa = a.with_bits(mantissa);
    let one = a.float(1.0);
    let f = a.sub(mantissa, one);
    Split { exponent, f, in_place }
}

/// Scales a subnormal number up to a normal one. Returns that number and the amount to add to its exponent.
fn normalize<A: Algebra>(a: &mut A, x: A::Float) -> (A::Float, A::Float) {
    let (smallest_normal, power, up) = match a.format() {
        Format::Single => (f64::from(f32::MIN_POSITIVE), 24.0, 16_777_216.0),
        Format::Double => (f64::MIN_POSITIVE, 54.0, 18_014_398_509_481_984.0),
    };
    let (smallest_normal, up, down) = (a.float(smallest_normal), a.float(up), a.float(-power));
    let zero = a.float(0.0);
    let scaled = a.mul(x, up);
    let small = a.lt(x, smallest_normal);
    let normal = a.select(small, scaled, x);
    let shift = a.select(small, down, zero);
    (normal, shift)
}

/// −∞ at 0, ∞ at ∞, NaN below 0 and at NaN; elsewhere `result`.
fn at_the_edges<A: Algebra>(a: &mut A, x: A::Float, result: A::Float) -> A::Float {
    let (zero, infinity, nan) = (a.float(0.0), a.float(f64::INFINITY), a.float(f64::NAN));
    let minus_infinity = a.float(f64::NEG_INFINITY);
    let finite = a.lt(x, infinity);
    let positive = a.lt(zero, x);
    let is_zero = a.eq(x, zero);
    let result = a.select(finite, result, infinity);
    let otherwise = a.select(is_zero, minus_infinity, nan);
    a.select(positive, result, otherwise)
}
