//! The logistic function: with `E = e^(−|x|)`, the quotient `1 / (1 + E)` where `x` is positive and
//! `E / (1 + E)` where it is negative, which keeps its relative accuracy down to the smallest subnormal.

use super::algebra::Algebra;
use super::exp::exp;

pub(super) fn sigmoid<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let (zero, one) = (a.float(0.0), a.float(1.0));
    let magnitude = a.abs(x);
    let argument = a.neg(magnitude);
    let power = exp(a, argument);
    let is_negative = a.lt(x, zero);
    let numerator = a.select(is_negative, power, one);
    let denominator = a.add(one, power);
    a.div(numerator, denominator)
}
