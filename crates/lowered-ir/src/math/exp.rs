//! eˣ and 2ˣ: reduce to a half-octave around 1, polynomial, scale by a power of two.

use super::algebra::{Algebra, Format, fma_const, polynomial};

/// e^r = 1 + r + r²·P(r) for |r| ≤ ln 2 / 2; relative error 2⁻²⁸.
const EXP_SINGLE: [f64; 5] =
    [0.4999999344937648, 0.1666652063455933, 0.04166838758226733, 0.00836871673643461, 0.0013814627146004899];
/// The same polynomial with relative error 2⁻⁵⁸.
const EXP_DOUBLE: [f64; 10] = [
    0.5000000000000011,
    0.16666666666666413,
    0.041666666666530155,
    0.008333333333494399,
    0.0013888888943631085,
    0.00019841269506688846,
    2.4801493097828538e-05,
    2.755758629088442e-06,
    2.763024879588082e-07,
    2.500008442577437e-08,
];
/// 2^r = 1 + r·P(r) for |r| ≤ 1/2; relative error 2⁻²⁹.
const EXP2_SINGLE: [f64; 6] = [
    0.6931472028785518,
    0.24022647910347003,
    0.05550332412037917,
    0.00961843758432358,
    0.0013398899707107814,
    0.00015353349474041557,
];
/// The same polynomial with relative error 2⁻⁶⁴.
const EXP2_DOUBLE: [f64; 12] = [
    std::f64::consts::LN_2,
    0.24022650695910072,
    0.05550410866482169,
    0.00961812910762833,
    0.0013333558146392634,
    0.00015403530393641126,
    1.5252733854378214e-05,
    1.3215486594690722e-06,
    1.0178051914790542e-07,
    7.05497452260325e-09,
    4.456574919640752e-10,
    2.562540883699842e-11,
];

pub(super) const LOG2_E: f64 = std::f64::consts::LOG2_E;

/// ln 2 in two parts, the first short enough that its product with any exponent is exact.
pub(super) fn ln2_parts(format: Format) -> (f64, f64) {
    match format {
        Format::Single => (0.693145751953125, 1.4286068203094173e-06),
        Format::Double => (0.6931471803691238, 1.9082149292705877e-10),
    }
}

/// eˣ.
pub(super) fn exp<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    // Beyond these bounds the result is 0 or infinity, with and without clamping. Within them, both powers of
    // two by which `scale` multiplies are normal numbers.
    let (lowest, highest) = match a.format() {
        Format::Single => (-105.0, 90.0),
        Format::Double => (-747.0, 711.0),
    };
    let x = clamp(a, x, lowest, highest);
    let plus = twice_bias(a);
    let (power, exponent) = significand_of_exp(a, x, plus);
    scale(a, power, exponent)
}

/// eˣ for an `x` of at most 0 whose exponential is normal.
pub(super) fn normal_exp<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let plus = a.format().bias();
    let (power, exponent) = significand_of_exp(a, x, plus);
    let scale = with_exponent(a, exponent);
    a.mul(power, scale)
}

/// `factor · eˣ` with one rounding to a subnormal result, for an `x` that is at most 0 and above the
/// logarithm of half the smallest subnormal, and a normal factor that is not far from 1.
pub(super) fn exp_times<A: Algebra>(a: &mut A, x: A::Float, factor: A::Float) -> A::Float {
    // Between a power of two that is normal for every exponent, and the result.
    let shift = match a.format() {
        Format::Single => 64,
        Format::Double => 512,
    };
    let plus = a.format().bias() + shift;
    let (power, exponent) = significand_of_exp(a, x, plus);
    let power = a.mul(power, factor);
    let scale = with_exponent(a, exponent);
    let power = a.mul(power, scale);
    let down = a.float(2f64.powi(-(shift as i32)));
    a.mul(power, down)
}

/// The factors of eˣ: a number near 1, and an integer with the exponent of the power of two plus `plus` in
/// its low bits.
fn significand_of_exp<A: Algebra>(a: &mut A, x: A::Float, plus: i64) -> (A::Float, A::Int) {
    let (r, exponent) = reduce(a, x, plus);
    let p = exp_polynomial(a, r);
    let one = a.float(1.0);
    let slope = a.fma(p, r, one);
    (a.fma(slope, r, one), exponent)
}

/// eˣ − 1, as `2·(2ⁿ⁻¹·(e^r − 1) + (2ⁿ⁻¹ − ½))`, whose power of two does not overflow before the result.
pub(super) fn expm1<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    // Beyond these bounds the result is −1 or infinity. Below the last one, `x²/2` is lost beside `x`.
    let (lowest, highest, tiny) = match a.format() {
        Format::Single => (-26.0, 89.0, 2f64.powi(-26)),
        Format::Double => (-56.0, 710.0, 2f64.powi(-55)),
    };
    let clamped = clamp(a, x, lowest, highest);
    let plus = a.format().bias() - 1;
    let (r, exponent) = reduce(a, clamped, plus);
    let tail = exp_polynomial(a, r);
    let square = a.mul(r, r);
    let tail = a.fma(square, tail, r);
    let power = with_exponent(a, exponent);
    let half = a.float(-0.5);
    let power_less_half = a.add(power, half);
    let result = a.fma(power, tail, power_less_half);
    let result = a.add(result, result);
    where_tiny(a, x, tiny, result)
}

/// `x` if its magnitude is below `limit`, else `result`: keeps the sign of 0 and the bits of subnormals.
pub(super) fn where_tiny<A: Algebra>(a: &mut A, x: A::Float, limit: f64, result: A::Float) -> A::Float {
    let (magnitude, limit) = (a.abs(x), a.float(limit));
    let is_tiny = a.lt(magnitude, limit);
    a.select(is_tiny, x, result)
}

/// 2ˣ.
pub(super) fn exp2<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let (r, exponent) = reduce_of_two(a, x);
    exp2_of_reduced(a, r, exponent)
}

/// 2^(high + low), for a `low` that is small beside 1.
pub(super) fn exp2_of_sum<A: Algebra>(a: &mut A, high: A::Float, low: A::Float) -> A::Float {
    let (r, exponent) = reduce_of_two(a, high);
    let r = a.add(r, low);
    exp2_of_reduced(a, r, exponent)
}

/// Clamps `x` to the exponents of the format and splits it into `n + r` with an integer `n`. Returns `r`, and
/// an integer that has the exponent of [`scale`] for `n` in its low bits.
fn reduce_of_two<A: Algebra>(a: &mut A, x: A::Float) -> (A::Float, A::Int) {
    let (lowest, highest) = match a.format() {
        Format::Single => (-151.0, 129.0),
        Format::Double => (-1076.0, 1025.0),
    };
    let x = clamp(a, x, lowest, highest);
    let plus = twice_bias(a);
    let (rounded, exponent) = round_plus(a, x, 1.0, plus);
    (a.sub(x, rounded), exponent)
}

fn exp2_of_reduced<A: Algebra>(a: &mut A, r: A::Float, exponent: A::Int) -> A::Float {
    let p = match a.format() {
        Format::Single => polynomial(a, r, &EXP2_SINGLE),
        Format::Double => polynomial(a, r, &EXP2_DOUBLE),
    };
    let one = a.float(1.0);
    let power = a.fma(r, p, one);
    scale(a, power, exponent)
}

/// Splits `x` into `n ln 2 + r`. Returns `r`, and an integer with `n + plus` in its low bits. `n` must be
/// within the exponents of the format.
pub(super) fn reduce<A: Algebra>(a: &mut A, x: A::Float, plus: i64) -> (A::Float, A::Int) {
    let (rounded, exponent) = round_plus(a, x, LOG2_E, plus);
    let (high, low) = ln2_parts(a.format());
    let r = fma_const(a, rounded, -high, x);
    (fma_const(a, rounded, -low, r), exponent)
}

/// `(e^r - 1 - r) / r²`.
pub(super) fn exp_polynomial<A: Algebra>(a: &mut A, r: A::Float) -> A::Float {
    match a.format() {
        Format::Single => polynomial(a, r, &EXP_SINGLE),
        Format::Double => polynomial(a, r, &EXP_DOUBLE),
    }
}

/// The integer nearest to `factor · x`, as float and as integer; `x` is small beside [`Format::rounder`].
pub(super) fn round<A: Algebra>(a: &mut A, x: A::Float, factor: f64) -> (A::Float, A::Int) {
    let (rounded, bits) = round_plus(a, x, factor, 0);
    let rounder = a.format().rounder();
    let rounder = a.float(rounder);
    let zero = a.bits(rounder);
    (rounded, a.int_sub(bits, zero))
}

/// The integer nearest to `factor · x` as float, and that integer plus `plus` in the low bits of an integer.
/// The other bits are those of the rounder. The integer has at least twice as many bits as an exponent.
fn round_plus<A: Algebra>(a: &mut A, x: A::Float, factor: f64, plus: i64) -> (A::Float, A::Int) {
    let rounder = a.format().rounder() + plus as f64;
    let rounder = a.float(rounder);
    let shifted = match factor {
        1.0 => a.add(x, rounder),
        _ => fma_const(a, x, factor, rounder),
    };
    let rounded = a.sub(shifted, rounder);
    (rounded, a.bits(shifted))
}

/// `x` within bounds; NaN stays.
pub(super) fn clamp<A: Algebra>(a: &mut A, x: A::Float, lowest: f64, highest: f64) -> A::Float {
    let (lowest, highest) = (a.float(lowest), a.float(highest));
    let x = a.max(x, lowest);
    a.min(x, highest)
}

/// Twice the exponent bias of the format, the offset of the exponent that [`scale`] takes.
fn twice_bias<A: Algebra>(a: &A) -> i64 {
    2 * a.format().bias()
}

/// `x · 2ⁿ` for a normal `x` near 1, by multiplying with two powers of two. Only the second product can
/// round, so subnormal results are rounded once. The low bits of `exponent` are `n` plus twice the bias, so
/// that its halves are the exponent fields of the two powers.
fn scale<A: Algebra>(a: &mut A, x: A::Float, exponent: A::Int) -> A::Float {
    let half = a.shr(exponent, 1);
    let rest = a.int_sub(exponent, half);
    let (half, rest) = (with_exponent(a, half), with_exponent(a, rest));
    let x = a.mul(x, half);
    a.mul(x, rest)
}

/// The power of two whose exponent field is in the low bits of `field`.
pub(super) fn with_exponent<A: Algebra>(a: &mut A, field: A::Int) -> A::Float {
    let by = a.format().mantissa_bits();
    let bits = a.shl(field, by);
    a.with_bits(bits)
}
