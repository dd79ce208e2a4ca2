//! Hyperbolic tangent: with `E = e^(−2|x|) − 1`, the quotient `−E / (2 + E)` carrying the sign of `x`.
//!
//! `E` is computed as `2ⁿ·(e^r − 1) + (2ⁿ − 1)`, which keeps its relative accuracy down to 0, where `n` is 0.
//! Numerator and denominator carry their rounding errors along, because near 1 the quotient doubles them.

use super::algebra::{Algebra, Format, fast_two_sum, signed_one};
use super::exp::{exp_polynomial, reduce, with_exponent};

pub(super) fn tanh<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let sign = signed_one(a, x);
    let magnitude = a.abs(x);
    // For greater magnitudes, the result rounds to 1.
    let highest = match a.format() {
        Format::Single => 10.0,
        Format::Double => 20.0,
    };
    let highest = a.float(highest);
    let magnitude = a.min(magnitude, highest);
    let minus_two = a.float(-2.0);
    let argument = a.mul(magnitude, minus_two);
    let bias = a.format().bias();
    let (r, exponent) = reduce(a, argument, bias);
    let p = exp_polynomial(a, r);
    let square = a.mul(r, r);
    let tail = a.fma(square, p, r);
    let power = with_exponent(a, exponent);
    let one = a.float(1.0);
    let power_less_one = a.sub(power, one);
    let less_one = a.fma(power, tail, power_less_one);
    let rounding = a.sub(power_less_one, less_one);
    let rounding = a.fma(power, tail, rounding);
    let quotient = quotient(a, less_one, rounding);
    let magnitude = a.abs(quotient);
    a.mul(magnitude, sign)
}

/// `(e + low) / (2 + e + low)`, rounded nearly once, for `e` between −1 and 0.
fn quotient<A: Algebra>(a: &mut A, e: A::Float, low: A::Float) -> A::Float {
    let (one, two) = (a.float(1.0), a.float(2.0));
    let (denominator, lost) = fast_two_sum(a, two, e);
    let lost = a.add(lost, low);
    let inverse = a.div(one, denominator);
    let quotient = a.mul(e, inverse);
    let minus_quotient = a.neg(quotient);
    let rest = a.fma(minus_quotient, denominator, e);
    let rest = a.add(rest, low);
    let rest = a.fma(minus_quotient, lost, rest);
    a.fma(rest, inverse, quotient)
}
