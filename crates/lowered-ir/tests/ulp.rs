//! The bounds that `lowered_ir::math` states, measured.
//!
//! `f32` results are compared with the platform's `f64` functions, whose error of about one `f64` ulp is 2⁻²⁹ of an `f32`
//! one; `f64` results with 192-bit arithmetic.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use astro_float::{BigFloat, Consts, RoundingMode};
use lowered_ir::eval::{binary, unary};
use lowered_ir::ir::{BinaryOp, UnaryOp};
use tnode::{DType, Scalar};

type Reference = fn(f64) -> f64;

/// Operation, bound for `f32`, bound for `f64`, reference for `f32`: the table of the module's documentation.
const BOUNDS: [(UnaryOp, f64, f64, Reference); 7] = [
    (UnaryOp::Exp, 1.0, 1.0, f64::exp),
    (UnaryOp::Exp2, 1.0, 1.0, f64::exp2),
    (UnaryOp::Log, 1.0, 1.0, f64::ln),
    (UnaryOp::Log2, 1.5, 1.0, f64::log2),
    (UnaryOp::Tanh, 1.5, 1.5, f64::tanh),
    (UnaryOp::Sin, 1.0, 1.0, f64::sin),
    (UnaryOp::Cos, 1.0, 1.0, f64::cos),
];
const POW_BOUND: f64 = 1.0;

fn single(x: f32) -> Scalar {
    Scalar::new(DType::F32, u128::from(x.to_bits()))
}

fn double(x: f64) -> Scalar {
    Scalar::new(DType::F64, u128::from(x.to_bits()))
}

fn pow64(x: f64, y: f64) -> f64 {
    binary(BinaryOp::Pow, double(x), double(y)).as_f64()
}

/// The distance of an `f32` from the true value, in units of the last place of the latter's binade.
fn ulps_single(found: f32, expected: f64) -> f64 {
    let rounded = expected as f32;
    if found.is_nan() || expected.is_nan() || rounded.is_infinite() || found.is_infinite() {
        let same = found == rounded || (found.is_nan() && expected.is_nan());
        return if same { 0.0 } else { f64::INFINITY };
    }
    let binade = expected.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor();
    (f64::from(found) - expected).abs() / (binade - 23.0).exp2()
}

#[test]
fn single_functions_keep_their_bounds_over_all_patterns() {
    for (op, bound, _, reference) in BOUNDS {
        let mut worst = (0.0, 0.0);
        for bits in (0..=u32::MAX).step_by(4_001) {
            let x = f32::from_bits(bits);
            let ulps = ulps_single(unary(op, single(x)).as_f32(), reference(f64::from(x)));
            if ulps > worst.0 {
                worst = (ulps, x);
            }
        }
        assert!(worst.0 <= bound, "{op}: {} ulp at {:e}, expected at most {bound}", worst.0, worst.1);
        assert!(worst.0 > 0.4, "{op}: {} ulp at worst is too good to have been measured", worst.0);
    }
}

/// Around 1, where logarithms vanish, and around 0 and the multiples of π/2, where the relative error is hardest to keep.
#[test]
fn single_functions_keep_their_bounds_where_they_vanish() {
    for (op, bound, _, reference) in BOUNDS {
        for center in [
            1.0f32,
            0.0,
            1e-3,
            std::f32::consts::FRAC_PI_2,
            std::f32::consts::PI,
            710.0 * std::f32::consts::PI,
        ] {
            for d in -300i32..300 {
                let x = f32::from_bits(center.to_bits().wrapping_add_signed(d));
                let ulps = ulps_single(unary(op, single(x)).as_f32(), reference(f64::from(x)));
                assert!(ulps <= bound, "{op}: {ulps} ulp at {x:e}, expected at most {bound}");
            }
        }
    }
}

#[test]
fn single_powers_keep_their_bound() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..200_000 {
        let x = f32::from_bits(random.next() as u32 & 0x7fff_ffff);
        let y = (random.unit() * 2.0 - 1.0) as f32 * 160.0 / x.log2().abs().max(1e-3);
        let found = binary(BinaryOp::Pow, single(x), single(y)).as_f32();
        let ulps = ulps_single(found, f64::from(x).powf(f64::from(y)));
        assert!(ulps <= POW_BOUND, "pow({x:e}, {y:e}): {ulps} ulp");
    }
}

const PRECISION: usize = 192;
const ROUND: RoundingMode = RoundingMode::ToEven;

/// Exact; scaled by hand because the library misreads subnormals.
fn big(x: f64) -> BigFloat {
    let power = |p: i32| BigFloat::from_f64(2f64.powi(p), PRECISION);
    if x != 0.0 && x.abs() < 1e-290 {
        return BigFloat::from_f64(x * 2f64.powi(100), PRECISION).mul(&power(-100), PRECISION, ROUND);
    }
    BigFloat::from_f64(x, PRECISION)
}

fn reference(op: UnaryOp, x: f64, constants: &mut Consts) -> BigFloat {
    let x = big(x);
    match op {
        UnaryOp::Exp => x.exp(PRECISION, ROUND, constants),
        UnaryOp::Exp2 => big(2.0).pow(&x, PRECISION, ROUND, constants),
        UnaryOp::Log => x.ln(PRECISION, ROUND, constants),
        UnaryOp::Log2 => x.log2(PRECISION, ROUND, constants),
        UnaryOp::Sin => x.sin(PRECISION, ROUND, constants),
        UnaryOp::Cos => x.cos(PRECISION, ROUND, constants),
        _ => x.tanh(PRECISION, ROUND, constants),
    }
}

/// The distance of an `f64` from the true value, for normal results.
fn ulps_double(found: f64, expected: &BigFloat) -> f64 {
    let unit = big(found.abs()).exponent().unwrap_or(0) - 53;
    let mut error = big(found).sub(expected, PRECISION, ROUND);
    if let Some(exponent) = error.exponent() {
        error.set_exponent(exponent - unit);
    }
    error.to_string().parse::<f64>().map_or(f64::INFINITY, f64::abs)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Arguments of an operation whose results are normal numbers: spread over its range, near 1, and by bit pattern.
fn arguments(op: UnaryOp, random: &mut Random) -> Vec<f64> {
    let (low, high): (f64, f64) = match op {
        UnaryOp::Exp => (-708.0, 709.7),
        UnaryOp::Exp2 => (-1021.9, 1023.9),
        UnaryOp::Log | UnaryOp::Log2 => (0.0, 3.0),
        UnaryOp::Tanh => (-21.0, 21.0),
        _ => (-1e12, 1e12),
    };
    let mut arguments = Vec::new();
    for _ in 0..400 {
        arguments.push(low + (high - low) * random.unit());
        arguments.push(random.unit() * 2.0 - 1.0);
        arguments.push(0.5 + random.unit());
        arguments.push(f64::from_bits(random.next()));
    }
    let positive = matches!(op, UnaryOp::Log | UnaryOp::Log2);
    let valid = |x: &f64| match positive {
        true => *x > 0.0 && x.is_finite(),
        false => (low..high).contains(x) && x.abs() > 1e-280,
    };
    arguments.retain(valid);
    arguments
}

#[test]
fn double_functions_keep_their_bounds() {
    let mut constants = Consts::new().unwrap();
    let mut random = Random(88_172_645_463_325_252);
    for (op, _, bound, _) in BOUNDS {
        let arguments = arguments(op, &mut random);
        assert!(arguments.len() > 700, "{op}: {} arguments only", arguments.len());
        let mut worst = 0.0f64;
        for x in arguments {
            let ulps = ulps_double(unary(op, double(x)).as_f64(), &reference(op, x, &mut constants));
            assert!(ulps <= bound, "{op}: {ulps} ulp at {x:e}, expected at most {bound}");
            worst = worst.max(ulps);
        }
        assert!(worst > 0.4, "{op}: {worst} ulp at worst is too good to have been measured");
    }
}

#[test]
fn double_powers_keep_their_bound() {
    let mut constants = Consts::new().unwrap();
    let mut random = Random(362_436_069);
    for _ in 0..800 {
        let x = 2.0 * random.unit() + 1e-6;
        let y = (random.unit() * 2.0 - 1.0) * 1020.0 / x.log2().abs().max(1e-3);
        let expected = big(x).pow(&big(y), PRECISION, ROUND, &mut constants);
        let ulps = ulps_double(pow64(x, y), &expected);
        assert!(ulps <= POW_BOUND, "pow({x:e}, {y:e}): {ulps} ulp");
    }
}

#[test]
fn edges_are_exact() {
    let at = |op, x: f64| [unary(op, double(x)).as_f64(), f64::from(unary(op, single(x as f32)).as_f32())];
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let cases = [
        (UnaryOp::Exp, [(0.0, 1.0), (-inf, 0.0), (inf, inf), (nan, nan), (1e4, inf), (-1e4, 0.0)]),
        (UnaryOp::Exp2, [(0.0, 1.0), (-inf, 0.0), (inf, inf), (nan, nan), (-3.0, 0.125), (1e4, inf)]),
        (UnaryOp::Log, [(1.0, 0.0), (0.0, -inf), (-0.0, -inf), (-1.0, nan), (inf, inf), (nan, nan)]),
        (UnaryOp::Log2, [(1.0, 0.0), (0.0, -inf), (8.0, 3.0), (-inf, nan), (inf, inf), (nan, nan)]),
        (UnaryOp::Tanh, [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (40.0, 1.0), (nan, nan)]),
        (UnaryOp::Sin, [(0.0, 0.0), (-0.0, -0.0), (inf, nan), (-inf, nan), (nan, nan), (1e-30, 1e-30)]),
        (UnaryOp::Cos, [(0.0, 1.0), (-0.0, 1.0), (inf, nan), (-inf, nan), (nan, nan), (1e-30, 1.0)]),
    ];
    for (op, cases) in cases {
        for (x, expected) in cases {
            let [wide, narrow] = at(op, x);
            assert_same(wide, expected, &format!("{op}({x}) in f64"));
            assert_same(narrow, f64::from(expected as f32), &format!("{op}({x}) in f32"));
        }
    }
}

#[track_caller]
fn assert_same(found: f64, expected: f64, what: &str) {
    let same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
    assert!(same, "{what}: found {found}, expected {expected}");
}

/// The exceptional cases of C's `pow`, which the standard library follows; where a result is not exact, to one ulp.
#[test]
fn powers_of_special_numbers_are_those_of_c() {
    let inf = f64::INFINITY;
    let bases =
        [1.0, -1.0, 0.0, -0.0, inf, -inf, f64::NAN, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 5e-324, f64::MAX];
    let exponents =
        [0.0, -0.0, 1.0, -1.0, 2.0, 3.0, -3.0, 0.5, -0.5, inf, -inf, f64::NAN, 1e300, -1e300, 7.0];
    for x in bases {
        for y in exponents {
            let (found, expected) = (pow64(x, y), x.powf(y));
            let near = (found - expected).abs() <= expected.abs() * f64::EPSILON;
            let same_sign = found.is_sign_negative() == expected.is_sign_negative();
            let same = (found == expected || near) && same_sign;
            assert!(
                same || (found.is_nan() && expected.is_nan()),
                "pow({x:e}, {y:e}): {found:e}, {expected:e}"
            );

            let (x, y) = (x as f32, y as f32);
            let found = binary(BinaryOp::Pow, single(x), single(y)).as_f32();
            let ulps = ulps_single(found, f64::from(x.powf(y)));
            assert!(ulps <= 1.5, "pow({x:e}, {y:e}) in f32: {found:e}, {:e}", x.powf(y));
        }
    }
}

/// Beyond the reach of its reduction the `f64` sine is that of 0; the `f32` one knows every argument.
#[test]
fn large_angles() {
    assert_eq!(unary(UnaryOp::Sin, double(1e13)).as_f64(), 0.0);
    assert_eq!(unary(UnaryOp::Cos, double(1e13)).as_f64(), 1.0);
    // The f32 nearest to 1e22, and the largest f32: values from 60-digit arithmetic.
    let close = |op, x: f32, expected: f32| assert_eq!(unary(op, single(x)).as_f32(), expected, "{op} {x:e}");
    close(UnaryOp::Sin, 1e22, LARGE_SINES[0]);
    close(UnaryOp::Sin, f32::MAX, LARGE_SINES[1]);
}

const LARGE_SINES: [f32; 2] = [-0.734_081_5, -0.521_876_5];
