//! Results at the edges, which are exact: zeros, infinities, NaN, powers of special numbers, angles of any
//! size.

use lowered_ir::eval::{binary, unary};
use lowered_ir::ir::{BinaryOp, UnaryOp};
use tnode::{DType, Scalar};

use crate::distance::{Format, ulps_from};

fn single(x: f32) -> Scalar {
    Scalar::new(DType::F32, u128::from(x.to_bits()))
}

fn double(x: f64) -> Scalar {
    Scalar::new(DType::F64, u128::from(x.to_bits()))
}

fn pow64(x: f64, y: f64) -> f64 {
    binary(BinaryOp::Pow, double(x), double(y)).as_f64()
}

#[test]
fn edges_are_exact() {
    let at = |op, x: f64| [unary(op, double(x)).as_f64(), f64::from(unary(op, single(x as f32)).as_f32())];
    let (inf, nan, half_pi) = (f64::INFINITY, f64::NAN, std::f64::consts::FRAC_PI_2);
    let cases = [
        (UnaryOp::Exp, [(0.0, 1.0), (-inf, 0.0), (inf, inf), (nan, nan), (1e4, inf), (-1e4, 0.0)]),
        (UnaryOp::Exp2, [(0.0, 1.0), (-inf, 0.0), (inf, inf), (nan, nan), (-3.0, 0.125), (1e4, inf)]),
        (UnaryOp::Log, [(1.0, 0.0), (0.0, -inf), (-0.0, -inf), (-1.0, nan), (inf, inf), (nan, nan)]),
        (UnaryOp::Log2, [(1.0, 0.0), (0.0, -inf), (8.0, 3.0), (-inf, nan), (inf, inf), (nan, nan)]),
        (UnaryOp::Expm1, [(0.0, 0.0), (-0.0, -0.0), (-inf, -1.0), (inf, inf), (nan, nan), (1e4, inf)]),
        (UnaryOp::Log1p, [(0.0, 0.0), (-0.0, -0.0), (-1.0, -inf), (-2.0, nan), (inf, inf), (nan, nan)]),
        (
            UnaryOp::Atan,
            [(0.0, 0.0), (-0.0, -0.0), (inf, half_pi), (-inf, -half_pi), (nan, nan), (1e-30, 1e-30)],
        ),
        (UnaryOp::Erf, [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (nan, nan), (40.0, 1.0)]),
        (UnaryOp::Erfc, [(0.0, 1.0), (-0.0, 1.0), (inf, 0.0), (-inf, 2.0), (nan, nan), (40.0, 0.0)]),
        (UnaryOp::Tanh, [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (40.0, 1.0), (nan, nan)]),
        (UnaryOp::Sigmoid, [(0.0, 0.5), (-0.0, 0.5), (inf, 1.0), (-inf, 0.0), (nan, nan), (-1e4, 0.0)]),
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

/// The exceptional cases of C's `pow`, which the standard library follows; where a result is not exact, to
/// one ulp.
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
            let ulps = ulps_from(f64::from(found), f64::from(x.powf(y)), Format::of(DType::F32));
            assert!(ulps <= 1.5, "pow({x:e}, {y:e}) in f32: {found:e}, {:e}", x.powf(y));
        }
    }
}

/// Values from 60-digit arithmetic.
#[test]
fn large_angles() {
    let sin = |x: f64| unary(UnaryOp::Sin, double(x)).as_f64();
    let cos = |x: f64| unary(UnaryOp::Cos, double(x)).as_f64();
    assert_eq!((sin(1e22), cos(1e22)), (-0.8522008497671888, 0.523214785395139));
    assert_eq!((sin(f64::MAX), cos(f64::MAX)), (0.004961954789184062, -0.9999876894265599));
    assert_eq!(sin(-1e22), 0.8522008497671888);
    // The double nearest to a multiple of π/2 but 0.
    assert_eq!(cos(6_381_956_970_095_103.0 * 2f64.powi(797)), -4.687165924254628e-19);
    // The f32 nearest to 1e22, and the largest f32.
    let narrow = |op, x: f32| unary(op, single(x)).as_f32();
    assert_eq!(narrow(UnaryOp::Sin, 1e22), -0.734_081_5);
    assert_eq!(narrow(UnaryOp::Sin, f32::MAX), -0.521_876_5);
}
