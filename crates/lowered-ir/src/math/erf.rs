//! The error function and its complement.
//!
//! Near 0, `erf(x)` is an odd polynomial; elsewhere it is `1 − e^P(|x|)`, where the exponential is small, so
//! that the polynomial `P` needs little accuracy. `erfc(|x|)` is `e^(−x²)` times a smooth function, which is
//! a polynomial in `t = K / (|x| + K)` for all `x`; `erfc(x)` of a negative `x` is `2 − erfc(|x|)`. The
//! square carries its rounding error along, which the exponential multiplies by `x²`; where an `fma` is
//! rounded twice, this error remains.

use super::algebra::{Algebra, Format, fma_const, polynomial, signed_one, two_sum};
use super::exp::{exp_times, normal_exp};

/// `erf(x)` is the odd polynomial below this magnitude.
const SMALL: f64 = 0.875;
/// erf(x) = x + x·P(x²) for |x| ≤ 7/8; relative error 2⁻²⁶·⁸.
const SMALL_SINGLE: [f64; 6] = [
    0.12837915750298573,
    -0.3761255050773404,
    0.11282455599080857,
    -0.026791468331307258,
    0.005032184329690169,
    -0.00062032515300146,
];
/// The same polynomial with relative error 2⁻⁶¹.
const SMALL_DOUBLE: [f64; 12] = [
    0.1283791670955126,
    -0.37612638903183737,
    0.11283791670954305,
    -0.026866170644932734,
    0.005223977622957159,
    -0.000854832683949455,
    0.00012055324327564924,
    -1.4925381515907667e-05,
    1.6456518858702762e-06,
    -1.6288382280746474e-07,
    1.4118062415764163e-08,
    -8.655113446393661e-10,
];
/// erf(x) = 1 − e^P(x) for x between 7/8 and 3.95; relative error 2⁻²⁹.
const LOG_SINGLE: [f64; 7] = [
    -0.00013356304345766163,
    -1.1279361787308264,
    -0.6367371385549576,
    -0.104327587626762,
    0.02242025797552632,
    -0.003092301997263759,
    0.0002009971551506636,
];
/// The same for x between 7/8 and 5.95; relative error 2⁻⁵⁷.
const LOG_DOUBLE: [f64; 19] = [
    -5.103477827228469e-08,
    -1.1283786213846452,
    -0.6366224389952493,
    -0.10276478516140182,
    0.019113390223443945,
    0.00022835668527904792,
    -0.0017101594199524785,
    0.0005893777695472959,
    -8.782314983745455e-06,
    -9.033596195690637e-05,
    5.3868326941874554e-05,
    -1.9623213837237514e-05,
    5.192137805736e-06,
    -1.0381966693434864e-06,
    1.5672647507476098e-07,
    -1.7399817051187787e-08,
    1.343620325914824e-09,
    -6.452138099431425e-11,
    1.4510487284386642e-12,
];
/// e^(x²)·erfc(x) = t·P(2t − 1) with t = K / (x + K) and K = 2, for x between 0 and 10.1; relative error
/// 2⁻²⁸.
const SCALED_SINGLE: [f64; 11] = [
    0.510791354339196,
    0.3435803485621335,
    0.13973588540671208,
    0.018220891375893642,
    -0.01075286086186952,
    -0.003237937134610549,
    0.0015313009822736088,
    0.0004160271989983108,
    -0.000296277014007746,
    -2.3467145838365084e-05,
    3.473773262295592e-05,
];
/// The same with K = 4, for x between 0 and 27.3; relative error 2⁻⁵⁸.
const SCALED_DOUBLE: [f64; 23] = [
    0.27399891525012277,
    0.24413718227022052,
    0.19330217556630921,
    0.13521345782830624,
    0.08271289696950575,
    0.043502734310072504,
    0.019095378727289336,
    0.006592513333654131,
    0.001528013914170066,
    7.023972897724915e-05,
    -0.00011376317206273415,
    -4.4203271740506734e-05,
    -9.087880027972152e-07,
    4.7154464281388084e-06,
    1.1735843322605533e-06,
    -3.565237581196333e-07,
    -2.1150441640239077e-07,
    1.9495297658394576e-08,
    3.098689412219838e-08,
    -6.532567855303418e-10,
    -3.8486853881363706e-09,
    9.607250186341055e-11,
    2.5427027554017673e-10,
];

/// 2/√π · ∫ exp(−t²) dt from 0 to `x`.
pub(super) fn erf<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let (near, far, highest): (&[f64], &[f64], f64) = match a.format() {
        Format::Single => (&SMALL_SINGLE, &LOG_SINGLE, 3.95),
        Format::Double => (&SMALL_DOUBLE, &LOG_DOUBLE, 5.95),
    };
    let square = a.mul(x, x);
    let p = polynomial(a, square, near);
    let small = a.fma(x, p, x);
    let sign = signed_one(a, x);
    let magnitude = a.abs(x);
    // For greater magnitudes, the result rounds to 1.
    let highest = a.float(highest);
    let bounded = a.min(highest, magnitude);
    let p = polynomial(a, bounded, far);
    let complement = normal_exp(a, p);
    let complement = a.neg(complement);
    let large = a.fma(complement, sign, sign);
    let limit = a.float(SMALL);
    let is_small = a.lt(magnitude, limit);
    a.select(is_small, small, large)
}

/// `1 − erf(x)`.
pub(super) fn erfc<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let (scaled, k, highest): (&[f64], f64, f64) = match a.format() {
        Format::Single => (&SCALED_SINGLE, 2.0, 10.1),
        Format::Double => (&SCALED_DOUBLE, 4.0, 27.3),
    };
    let (k, highest) = (a.float(k), a.float(highest));
    let [one, two, zero] = [1.0, 2.0, 0.0].map(|k| a.float(k));
    // For greater magnitudes, the result rounds to 0 or 2.
    let magnitude = a.abs(x);
    let magnitude = a.min(highest, magnitude);
    let (t, correction) = quotient_of_sum(a, k, magnitude);
    let minus_one = a.neg(one);
    let centered = fma_const(a, t, 2.0, minus_one);
    let centered = correction.map_or(centered, |low| fma_const(a, low, 2.0, centered));
    let p = polynomial(a, centered, scaled);
    let scaled = a.mul(t, p);
    let p = correction.map_or(scaled, |low| a.fma(low, p, scaled));
    let square = a.mul(magnitude, magnitude);
    let exponent = a.neg(square);
    let minus_lost = a.fma(magnitude, magnitude, exponent);
    let minus_lost = a.neg(minus_lost);
    let p = a.fma(minus_lost, p, p);
    let upper = exp_times(a, exponent, p);
    let lower = a.sub(two, upper);
    let is_negative = a.lt(x, zero);
    a.select(is_negative, lower, upper)
}

/// `k / (k + x)`, and in `f64` its error: `erfc` multiplies an error of the quotient by up to 4.
fn quotient_of_sum<A: Algebra>(a: &mut A, k: A::Float, x: A::Float) -> (A::Float, Option<A::Float>) {
    let (sum, lost) = two_sum(a, k, x);
    let quotient = a.div(k, sum);
    if a.format() == Format::Single {
        return (quotient, None);
    }
    let negated = a.neg(quotient);
    let rest = a.fma(negated, sum, k);
    let rest = a.fma(negated, lost, rest);
    (quotient, Some(a.div(rest, sum)))
}
