//! Inverse tangent: an odd polynomial up to 1, and π/2 minus that of the reciprocal beyond.

use super::algebra::{Algebra, Format, polynomial, signed_one};

/// atan(z) = z + z³·P(z²) for |z| ≤ 1; relative error 2⁻²⁸.
const ATAN_SINGLE: [f64; 9] = [
    -0.33333299094806856,
    0.1999854845830799,
    -0.14264243427541404,
    0.10952194226108447,
    -0.084034731964982,
    0.05795795940461422,
    -0.03117818978709606,
    0.010914781389099706,
    -0.0017936592862459555,
];
/// The same polynomial with relative error 2⁻⁵⁷.
const ATAN_DOUBLE: [f64; 20] = [
    -0.3333333333333307,
    0.19999999999951473,
    -0.142857142825759,
    0.1111111100704924,
    -0.09090907003390583,
    0.07692279843789401,
    -0.06666404092653674,
    0.05880528012259314,
    -0.052535193812207226,
    0.04722324851590223,
    -0.04219185400554198,
    0.03664203304470801,
    -0.029904038147671553,
    0.021985057766856435,
    -0.013900738156395096,
    0.007196619651274575,
    -0.002884973772888487,
    0.0008313398504866503,
    -0.00015216445373657074,
    1.3225405699294315e-05,
];

/// π/2 in two parts.
fn quarter_turn(format: Format) -> (f64, f64) {
    match format {
        Format::Single => (1.5707963705062866, -4.371139000186241e-08),
        Format::Double => (std::f64::consts::FRAC_PI_2, 6.123233995736766e-17),
    }
}

pub(super) fn atan<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let coefficients: &[f64] = match a.format() {
        Format::Single => &ATAN_SINGLE,
        Format::Double => &ATAN_DOUBLE,
    };
    let sign = signed_one(a, x);
    let magnitude = a.abs(x);
    let one = a.float(1.0);
    let is_large = a.lt(one, magnitude);
    let numerator = a.select(is_large, one, magnitude);
    let denominator = a.select(is_large, magnitude, one);
    let z = a.div(numerator, denominator);
    let square = a.mul(z, z);
    let p = polynomial(a, square, coefficients);
    let cube = a.mul(z, square);
    let angle = a.fma(cube, p, z);
    let (high, low) = quarter_turn(a.format());
    let (high, low) = (a.float(high), a.float(low));
    let rest = a.sub(low, angle);
    let complement = a.add(high, rest);
    let angle = a.select(is_large, complement, angle);
    a.mul(angle, sign)
}
