//! Sine and cosine: subtract the nearest multiple of π/2, then a polynomial chosen by the quadrant.
//!
//! In `f32` algebras [`quarters`] reduces all arguments. To find the multiple for a large `f64` takes up to a
//! thousand bits of π. Steps for such angles would cost every other argument more than the polynomials do.
//! Such angles are rare and of little use, so one step handles them: [`Algebra::call`].

use super::algebra::{Algebra, Format, fma_const, polynomial, signed_one, two_product, two_sum};
use super::exp::round;
use super::native::Native;
use super::{quarters, turns};
use crate::ir::UnaryOp;

const TWO_OVER_PI: f64 = std::f64::consts::FRAC_2_PI;
/// π/2 in three parts of 53 bits.
const HALF_PI: [f64; 3] = [std::f64::consts::FRAC_PI_2, 6.123233995736766e-17, -1.4973849048591698e-33];

/// sin r = r + r·z·P(z) with z = r², for |r| slightly above π/4; relative error 2⁻⁶⁸.
const SIN: [f64; 7] = [
    -0.16666666666666666,
    0.008333333333333321,
    -0.00019841269841254028,
    2.7557319213660108e-06,
    -2.505210477526495e-08,
    1.6058349442211388e-10,
    -7.577853139964251e-13,
];
/// cos r = 1 − z/2 + z²·P(z); error 2⁻⁶⁴.
const COS: [f64; 6] = [
    0.041666666666666595,
    -0.0013888888888873385,
    2.4801587289000517e-05,
    -2.7557314207719783e-07,
    2.0875702930894893e-09,
    -1.1358561624974819e-11,
];
/// Like [`SIN`], with relative error 2⁻³⁷.
const SIN_OF_SINGLE: [f64; 4] =
    [-0.16666666639741295, 0.008333329182204948, -0.00019839272785146116, 2.7177451208734896e-06];
/// Like [`COS`], with error 2⁻⁴³.
const COS_OF_SINGLE: [f64; 4] =
    [0.04166666662105229, -0.0013888883598191766, 2.4799478583710646e-05, -2.720678328729808e-07];

/// An argument as `n·π/2 + r + r'`: the quadrant `n`, `r` up to slightly above π/4, and `r'` far below it.
pub(super) struct ReducedAngle<A: Algebra> {
    pub(super) quadrant: A::Int,
    pub(super) r: A::Float,
    pub(super) low: A::Float,
}

/// The least angle that [`turns`] reduces.
const LARGE: f64 = 1_099_511_627_776.0;

pub(super) fn sin<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    match a.format() {
        Format::Single => sin_in_single(a, x),
        Format::Double => sin_in_double(a, x),
    }
}

pub(super) fn cos<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    match a.format() {
        Format::Single => cos_in_single(a, x),
        Format::Double => cos_in_double(a, x),
    }
}

/// The sine of the magnitude, times the sign; so ±0 keeps its sign.
fn sin_in_single<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let reduced = quarters::reduce(a, x);
    let sine = sine_of(a, &reduced);
    let sign = signed_one(a, x);
    let result = a.mul(sine, sign);
    quarters::or_no_number(a, x, result)
}

fn cos_in_single<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let reduced = quarters::reduce(a, x);
    let result = cosine_of(a, &reduced);
    quarters::or_no_number(a, x, result)
}

fn sin_in_double<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let reduced = reduce(a, x);
    let result = sine_of(a, &reduced);
    let result = zero_keeps_sign(a, x, result);
    or_of_large(a, UnaryOp::Sin, x, result)
}

fn cos_in_double<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let reduced = reduce(a, x);
    let result = cosine_of(a, &reduced);
    or_of_large(a, UnaryOp::Cos, x, result)
}

/// The sine or cosine of an angle from [`LARGE`] on, NaN for infinities and NaN. Smaller angles are returned
/// unchanged.
pub(super) fn of_large(op: UnaryOp, x: f64) -> f64 {
    if x.abs() < LARGE {
        return x;
    }
    if !x.is_finite() {
        return f64::NAN;
    }
    let turns::Angle { quadrant, r, low } = turns::reduce(x);
    let (mut native, reduced) = (Native::<f64>::default(), ReducedAngle { quadrant, r, low });
    match op {
        UnaryOp::Sin => sine_of(&mut native, &reduced),
        _ => cosine_of(&mut native, &reduced),
    }
}

/// `near`, or the result of a call where `x` is large or no number.
fn or_of_large<A: Algebra>(a: &mut A, op: UnaryOp, x: A::Float, near: A::Float) -> A::Float {
    let limit = a.float(LARGE);
    let magnitude = a.abs(x);
    let within = a.lt(magnitude, limit);
    let called = a.call(op, x);
    a.select(within, near, called)
}

fn sine_of<A: Algebra>(a: &mut A, x: &ReducedAngle<A>) -> A::Float {
    let (sine, cosine) = (sine_of_sum(a, x), cosine_of_sum(a, x));
    by_quadrant(a, x.quadrant, sine, cosine)
}

/// The cosine: the sine of the angle plus a quarter turn.
fn cosine_of<A: Algebra>(a: &mut A, x: &ReducedAngle<A>) -> A::Float {
    let (sine, cosine) = (sine_of_sum(a, x), cosine_of_sum(a, x));
    let one = a.int(1);
    let quadrant = a.int_add(x.quadrant, one);
    by_quadrant(a, quadrant, sine, cosine)
}

/// sin x for an `f32`.
pub(super) fn sin_of_single<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let reduced = reduce_single(a, x);
    let (sine, cosine) = short_polynomials(a, reduced.r);
    let result = by_quadrant(a, reduced.quadrant, sine, cosine);
    zero_keeps_sign(a, x, result)
}

/// cos x for an `f32`.
pub(super) fn cos_of_single<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let reduced = reduce_single(a, x);
    let (sine, cosine) = short_polynomials(a, reduced.r);
    let one = a.int(1);
    let quadrant = a.int_add(reduced.quadrant, one);
    by_quadrant(a, quadrant, sine, cosine)
}

/// Reduces an angle below 2⁴⁰ to about 2⁻¹¹⁰ absolutely.
fn reduce<A: Algebra>(a: &mut A, x: A::Float) -> ReducedAngle<A> {
    let (n, quadrant) = round(a, x, TWO_OVER_PI);
    // Exact: if `n` is 0, this is `x`; otherwise `x` and the product are multiples of 2⁻⁵³, and their
    // difference is below 1.
    let first = fma_const(a, n, -HALF_PI[0], x);
    let second = a.float(-HALF_PI[1]);
    let (second, second_lost) = two_product(a, n, second);
    let (r, lost) = two_sum(a, first, second);
    let low = a.add(lost, second_lost);
    let low = fma_const(a, n, -HALF_PI[2], low);
    ReducedAngle { quadrant, r, low }
}

/// Reduces any `f32`: a large one is `X·2ˢ` with an integer `X` below 2⁴⁶, which equals `X·c` with `c = 2ˢ
/// mod 2π` up to whole turns.
fn reduce_single<A: Algebra>(a: &mut A, x: A::Float) -> ReducedAngle<A> {
    let (x, low) = fold_turns(a, x);
    let (n, quadrant) = round(a, x, TWO_OVER_PI);
    let first = fma_const(a, n, -HALF_PI[0], x);
    let low = fma_const(a, n, -HALF_PI[1], low);
    let r = a.add(first, low);
    let low = a.float(0.0);
    ReducedAngle { quadrant, r, low }
}

/// An angle below 2⁴⁸ in two parts that differs from `x` by whole turns.
fn fold_turns<A: Algebra>(a: &mut A, x: A::Float) -> (A::Float, A::Float) {
    /// Each step has four numbers: the least angle 2^(s+23) that it handles, since every `f32` from there on
    /// is a multiple of 2ˢ; 2⁻ˢ; and 2ˢ mod 2π in two parts.
    const STEPS: [[f64; 4]; 4] = [
        [70368744177664.0, 1.1920928955078125e-07, 2.6946082202496946, 1.759818262153054e-16],
        [5.902958103587057e+20, 1.4210854715202004e-14, 1.6032615020339789, 8.291448458322833e-17],
        [4.951760157141521e+27, 1.6940658945086007e-21, -0.755222423933051, 1.51562429688808e-17],
        [4.153837486827862e+34, 2.0194839173657902e-28, 1.7630066155673831, -5.779826883578811e-17],
    ];
    let magnitude = a.abs(x);
    let mut scale = a.float(1.0);
    let mut turn = a.float(1.0);
    let mut turn_low = a.float(0.0);
    for [begin, down, high, low] in STEPS {
        let (begin, down, high, low) = (a.float(begin), a.float(down), a.float(high), a.float(low));
        let below = a.lt(magnitude, begin);
        scale = a.select(below, scale, down);
        turn = a.select(below, turn, high);
        turn_low = a.select(below, turn_low, low);
    }
    let scaled = a.mul(x, scale);
    let (angle, error) = two_product(a, scaled, turn);
    let low = a.fma(scaled, turn_low, error);
    (angle, low)
}

/// sin(r + r') ≈ sin r + r'·(1 − r²/2).
fn sine_of_sum<A: Algebra>(a: &mut A, x: &ReducedAngle<A>) -> A::Float {
    let z = a.mul(x.r, x.r);
    let p = match a.format() {
        Format::Single => polynomial(a, z, &SIN_OF_SINGLE),
        Format::Double => polynomial(a, z, &SIN),
    };
    let cube = a.mul(z, x.r);
    let (half, one) = (a.float(-0.5), a.float(1.0));
    let slope = a.fma(z, half, one);
    let correction = a.mul(x.low, slope);
    let tail = a.fma(cube, p, correction);
    a.add(x.r, tail)
}

/// cos(r + r') ≈ cos r − r·r', with the rounding of `1 − z/2` carried along.
fn cosine_of_sum<A: Algebra>(a: &mut A, x: &ReducedAngle<A>) -> A::Float {
    let z = a.mul(x.r, x.r);
    let p = match a.format() {
        Format::Single => polynomial(a, z, &COS_OF_SINGLE),
        Format::Double => polynomial(a, z, &COS),
    };
    let (half, one) = (a.float(0.5), a.float(1.0));
    let half_z = a.mul(z, half);
    let first = a.sub(one, half_z);
    let seen = a.sub(one, first);
    let lost = a.sub(seen, half_z);
    let minus_r = a.neg(x.r);
    let correction = a.fma(minus_r, x.low, lost);
    let fourth = a.mul(z, z);
    let tail = a.fma(fourth, p, correction);
    a.add(first, tail)
}

fn short_polynomials<A: Algebra>(a: &mut A, r: A::Float) -> (A::Float, A::Float) {
    let z = a.mul(r, r);
    let p = polynomial(a, z, &SIN_OF_SINGLE);
    let cube = a.mul(z, r);
    let sine = a.fma(cube, p, r);
    let q = polynomial(a, z, &COS_OF_SINGLE);
    let half = a.float(-0.5);
    let q = a.fma(z, q, half);
    let one = a.float(1.0);
    let cosine = a.fma(z, q, one);
    (sine, cosine)
}

/// The sine of an angle `n` quarter turns from one whose sine and cosine are given: cosine where `n` is odd,
/// negated in the second half of the turn.
fn by_quadrant<A: Algebra>(a: &mut A, n: A::Int, sine: A::Float, cosine: A::Float) -> A::Float {
    let (one, two, zero) = (a.int(1), a.int(2), a.int(0));
    let odd = a.and(n, one);
    let even = a.int_eq(odd, zero);
    let value = a.select(even, sine, cosine);
    let half = a.and(n, two);
    let first_half = a.int_eq(half, zero);
    let negated = a.neg(value);
    a.select(first_half, value, negated)
}

/// sin ±0 is ±0; the sums above lose the sign.
fn zero_keeps_sign<A: Algebra>(a: &mut A, x: A::Float, result: A::Float) -> A::Float {
    let zero = a.float(0.0);
    let is_zero = a.eq(x, zero);
    a.select(is_zero, x, result)
}
