//! `x` to the power of `y` as 2^(y·log₂|x|), with the sign and the exceptions of C's `pow`.
//!
//! For operands of the algebra's format, the logarithm and the product are computed in two parts, with some
//! 66 bits in `f64` and 37 in `f32`, because the relative error of the power is proportional to the absolute
//! error of the exponent. For `f32` operands in an `f64` algebra, a single `f64` has enough bits.

use super::algebra::{Algebra, Format, fast_two_sum, polynomial, signed_one, two_product, two_sum};
use super::exp::{LOG2_E, clamp, exp2, exp2_of_sum};
use super::log::{LOG2_E_LOW, log2, split};

/// 2·atanh(s) = 2s + s·z·(2/3 + z·P(z)) with z = s²; relative error 2⁻⁷².
const ATANH: [f64; 8] = [
    0.39999999999999974,
    0.28571428571445334,
    0.2222222221748162,
    0.18181818877050285,
    0.15384556411113473,
    0.13336335125156437,
    0.11674458819789425,
    0.11992010982095305,
];
/// The number of these coefficients that the `f32` form uses, for a relative error of the logarithm of 2⁻⁴⁰.
const ATANH_OF_SINGLE: usize = 5;
/// 2/3 in two parts.
const TWO_THIRDS: [f64; 2] = [0.6666666666666666, 3.700743415417188e-17];

/// Converts a constant of two `f64` parts to two parts of the format.
fn in_two_parts<A: Algebra>(a: &mut A, [high, low]: [f64; 2]) -> (A::Float, A::Float) {
    match a.format() {
        Format::Single => {
            let first = f64::from(high as f32);
            (a.float(first), a.float(high - first))
        }
        Format::Double => (a.float(high), a.float(low)),
    }
}

pub(super) fn pow<A: Algebra>(a: &mut A, x: A::Float, y: A::Float) -> A::Float {
    let base = a.abs(x);
    let (high, low) = log2_in_two_parts(a, base);
    // Beyond this exponent, the power of every base other than 1 is 0 or infinite.
    let limit = match a.format() {
        Format::Single => 1e10,
        Format::Double => 7.4e19,
    };
    let clamped = clamp(a, y, -limit, limit);
    let (product, lost) = two_product(a, high, clamped);
    let lost = a.fma(low, clamped, lost);
    let (product, lost) = fast_two_sum(a, product, lost);
    // A large product overflows or vanishes whatever its low part is.
    let lost = clamp(a, lost, -1.0, 1.0);
    let power = exp2_of_sum(a, product, lost);
    let power = at_zero_and_infinity(a, base, y, power);
    with_exceptions(a, x, y, power)
}

/// `x` to the power of `y` for `f32` operands. 0 and ∞ need no special case, because their logarithms are
/// infinite.
pub(super) fn pow_of_single<A: Algebra>(a: &mut A, x: A::Float, y: A::Float) -> A::Float {
    let base = a.abs(x);
    let log = log2(a, base);
    // As in `pow`. An infinite exponent times a logarithm of zero would be NaN.
    let clamped = clamp(a, y, -1e12, 1e12);
    let product = a.mul(log, clamped);
    let power = exp2(a, product);
    with_exceptions(a, x, y, power)
}

/// log₂ of a positive finite number, to about 2⁻⁶⁶ relatively, in `f32` 2⁻³⁷.
fn log2_in_two_parts<A: Algebra>(a: &mut A, x: A::Float) -> (A::Float, A::Float) {
    let (exponent, f) = split(a, x);
    let (high, low) = log_in_two_parts(a, f);
    let (log2_e, log2_e_low) = in_two_parts(a, [LOG2_E, LOG2_E_LOW]);
    let (product, lost) = two_product(a, high, log2_e);
    let lost = a.fma(high, log2_e_low, lost);
    let lost = a.fma(low, log2_e, lost);
    let (sum, rounding) = two_sum(a, exponent, product);
    let low = a.add(lost, rounding);
    fast_two_sum(a, sum, low)
}

/// ln(1 + f) = 2·atanh(f / (2 + f)).
fn log_in_two_parts<A: Algebra>(a: &mut A, f: A::Float) -> (A::Float, A::Float) {
    let (s, s_low) = ratio(a, f);
    let (z, z_low) = two_product(a, s, s);
    let twice_s = a.add(s, s);
    let z_low = a.fma(twice_s, s_low, z_low);
    let p = match a.format() {
        Format::Single => polynomial(a, z, &ATANH[..ATANH_OF_SINGLE]),
        Format::Double => polynomial(a, z, &ATANH),
    };
    let zp = a.mul(z, p);
    // The factor 2/3 + z·P(z), then s·z times it, each in two parts.
    let (two_thirds, rest) = in_two_parts(a, TWO_THIRDS);
    let (factor, rounding) = fast_two_sum(a, two_thirds, zp);
    let factor_low = a.add(rounding, rest);
    let (cube, cube_low) = product_in_two_parts(a, (s, s_low), (z, z_low));
    let (tail, tail_low) = product_in_two_parts(a, (cube, cube_low), (factor, factor_low));
    let (sum, rounding) = fast_two_sum(a, twice_s, tail);
    let twice_s_low = a.add(s_low, s_low);
    let low = a.add(twice_s_low, tail_low);
    let low = a.add(low, rounding);
    fast_two_sum(a, sum, low)
}

/// f / (2 + f).
fn ratio<A: Algebra>(a: &mut A, f: A::Float) -> (A::Float, A::Float) {
    let two = a.float(2.0);
    let (denominator, lost) = fast_two_sum(a, two, f);
    let s = a.div(f, denominator);
    let minus_s = a.neg(s);
    let rest = match a.format() {
        Format::Single => {
            let (product, error) = two_product(a, s, denominator);
            let rest = a.sub(f, product);
            a.sub(rest, error)
        }
        Format::Double => a.fma(minus_s, denominator, f),
    };
    let rest = a.fma(minus_s, lost, rest);
    let low = a.div(rest, denominator);
    (s, low)
}

fn product_in_two_parts<A: Algebra>(
    a: &mut A,
    (x, x_low): (A::Float, A::Float),
    (y, y_low): (A::Float, A::Float),
) -> (A::Float, A::Float) {
    let (product, lost) = two_product(a, x, y);
    let lost = a.fma(x, y_low, lost);
    let lost = a.fma(x_low, y, lost);
    (product, lost)
}

/// The result if the base is 0, ∞ or NaN, which have no finite logarithm, or if `y` is NaN; otherwise
/// `power`.
fn at_zero_and_infinity<A: Algebra>(a: &mut A, base: A::Float, y: A::Float, power: A::Float) -> A::Float {
    let (zero, infinity) = (a.float(0.0), a.float(f64::INFINITY));
    let falling = a.lt(y, zero);
    let of_zero = a.select(falling, infinity, zero);
    let of_infinity = a.select(falling, zero, infinity);
    let (is_zero, is_infinite) = (a.eq(base, zero), a.eq(base, infinity));
    let power = a.select(is_zero, of_zero, power);
    let power = a.select(is_infinite, of_infinity, power);
    let (base_ordered, exponent_ordered) = (a.eq(base, base), a.eq(y, y));
    let nan = a.float(f64::NAN);
    let power = a.select(base_ordered, power, nan);
    a.select(exponent_ordered, power, nan)
}

/// From |x|^y to x^y: the sign of odd powers, NaN for fractional powers of negative numbers, 1 for `1^y` and
/// `x^0`.
fn with_exceptions<A: Algebra>(a: &mut A, x: A::Float, y: A::Float, power: A::Float) -> A::Float {
    let (zero, one, half) = (a.float(0.0), a.float(1.0), a.float(0.5));
    let (nan, minus_infinity) = (a.float(f64::NAN), a.float(f64::NEG_INFINITY));
    let rounded = a.round_even(y);
    let whole = a.eq(rounded, y);
    let half_y = a.mul(y, half);
    let half_rounded = a.round_even(half_y);
    let even = a.eq(half_rounded, half_y);

    let sign = signed_one(a, x);
    let signed = a.mul(power, sign);
    let of_whole = a.select(even, power, signed);
    let negative = a.lt(x, zero);
    let finite = a.lt(minus_infinity, x);
    let of_fraction = a.select(finite, nan, power);
    let of_fraction = a.select(negative, of_fraction, power);
    let result = a.select(whole, of_whole, of_fraction);

    let (base_one, exponent_zero) = (a.eq(x, one), a.eq(y, zero));
    let result = a.select(base_one, one, result);
    a.select(exponent_zero, one, result)
}
