//! `f32` functions computed in `f32` and `i32` alone, as targets without `f64` compute them: with each `fma`
//! rounded once, and with each rounded twice, as shading languages allow.

use astro_float::Consts;
use lowered_ir::ir::UnaryOp;
use lowered_ir::math::{self, Algebra, Native, Unfused};
use tnode::DType;

use crate::arguments::{self, Random};
use crate::distance::{Format, ulps, ulps_from};
use crate::reference::Reference;
use crate::{BOUNDS, Bound, Worst, effort};

/// An arithmetic whose accuracy is measured: its name, its unary functions, and its `pow`.
struct Arithmetic {
    name: &'static str,
    unary: fn(UnaryOp, f32) -> f32,
    pow: fn(f32, f32) -> f32,
}

fn unary<A: Algebra<Float = f32> + Default>(op: UnaryOp, x: f32) -> f32 {
    math::unary(&mut A::default(), op, x).unwrap()
}

fn pow<A: Algebra<Float = f32> + Default>(x: f32, y: f32) -> f32 {
    math::pow(&mut A::default(), x, y)
}

const FUSED: Arithmetic = Arithmetic { name: "alone", unary: unary::<Native<f32>>, pow: pow::<Native<f32>> };
const UNFUSED: Arithmetic = Arithmetic { name: "unfused", unary: unary::<Unfused>, pow: pow::<Unfused> };

/// Functions and their bounds in ulp: where `fma` rounds once, and where it rounds twice.
const ALONE: [(UnaryOp, [f64; 2]); 13] = [
    (UnaryOp::Exp, [1.1, 1.2]),
    (UnaryOp::Exp2, [1.0, 1.5]),
    (UnaryOp::Expm1, [2.0, 2.0]),
    (UnaryOp::Log, [1.0, 1.0]),
    (UnaryOp::Log1p, [1.5, 1.5]),
    (UnaryOp::Log2, [2.0, 2.0]),
    (UnaryOp::Tanh, [1.5, 2.5]),
    (UnaryOp::Sigmoid, [2.5, 3.0]),
    (UnaryOp::Atan, [1.5, 2.0]),
    (UnaryOp::Erf, [1.5, 2.0]),
    (UnaryOp::Erfc, [6.0, 120.0]),
    (UnaryOp::Sin, [1.0, 1.0]),
    (UnaryOp::Cos, [1.0, 1.0]),
];
const POW: [f64; 2] = [1.5, 1.5];

/// The documentation of `lowered_ir::math` states exactly these bounds.
#[test]
fn the_documentation_states_the_bounds_without_double() {
    let stated = |name: &str| -> [f64; 2] {
        let rows = include_str!("../../src/math/mod.rs").lines().filter_map(|l| l.strip_prefix("//! | "));
        let cells: Vec<Vec<&str>> = rows.map(|row| row.split('|').map(str::trim).collect()).collect();
        let of_name = |row: &&Vec<&str>| {
            row[0].strip_suffix(" alone").is_some_and(|names| names.split(", ").any(|n| n == name))
        };
        let row = cells.iter().find(of_name).unwrap();
        [1, 2].map(|at| row[at].split(' ').next().unwrap().parse().unwrap())
    };
    for (op, bounds) in ALONE {
        assert_eq!(stated(op.token()), bounds, "{op}");
    }
    assert_eq!(stated("pow"), POW);
}

#[test]
fn functions_without_double_keep_their_bounds() {
    let (mut constants, format) = (Consts::new().unwrap(), Format::of(DType::F32));
    let mut kept = true;
    for (at, arithmetic) in [FUSED, UNFUSED].into_iter().enumerate() {
        for (op, bounds) in ALONE {
            let mut worst = Worst::default();
            let mut see = |x: f64| {
                let truth = Reference::unary(op, x, &mut constants);
                worst.see(ulps((arithmetic.unary)(op, x as f32).into(), &truth, format), [x, 0.0]);
            };
            arguments::of(op, DType::F32, 30 * effort()).into_iter().for_each(&mut see);
            if matches!(op, UnaryOp::Sin | UnaryOp::Cos) {
                // The f32 nearest to a multiple of π/2.
                see(16_367_173.0 * 2f64.powi(72));
            }
            kept &= worst.check(&format!("{op} f32 {}", arithmetic.name), bounds[at]);
        }
    }
    assert!(kept, "see the output");
}

#[test]
fn functions_without_double_keep_their_bounds_over_all_patterns() {
    let (step, mut kept) = (200_003 / (effort() * effort()).min(2_000), true);
    for (at, arithmetic) in [FUSED, UNFUSED].into_iter().enumerate() {
        for (op, bounds) in ALONE {
            let Bound { platform, .. } = BOUNDS.iter().find(|bound| bound.op == op).unwrap();
            let mut worst = Worst::default();
            for bits in (0..=u32::MAX).step_by(step) {
                let x = f32::from_bits(bits);
                let found = f64::from((arithmetic.unary)(op, x));
                worst.see(ulps_from(found, platform(x.into()), Format::of(DType::F32)), [x.into(), 0.0]);
            }
            kept &= worst.check(&format!("{op} f32 {} sweep", arithmetic.name), bounds[at]);
        }
    }
    assert!(kept, "see the output");
}

#[test]
fn powers_without_double_keep_their_bounds() {
    let (mut constants, format, mut kept) = (Consts::new().unwrap(), Format::of(DType::F32), true);
    for (arithmetic, bound) in [FUSED, UNFUSED].into_iter().zip(POW) {
        let (mut worst, mut random) = (Worst::default(), Random::new(9));
        for (x, y) in arguments::of_power(DType::F32, 150 * effort()) {
            let truth = Reference::power(x, y, &mut constants);
            worst.see(ulps((arithmetic.pow)(x as f32, y as f32).into(), &truth, format), [x, y]);
        }
        for _ in 0..20_000 * effort() {
            let x = f64::from(f32::from_bits(random.next() as u32 & 0x7fff_ffff));
            let y = f64::from(((random.unit() * 2.0 - 1.0) * 160.0 / x.log2().abs().max(1e-3)) as f32);
            let found = (arithmetic.pow)(x as f32, y as f32);
            worst.see(ulps_from(found.into(), x.powf(y), format), [x, y]);
        }
        kept &= worst.check(&format!("pow f32 {}", arithmetic.name), bound);
    }
    assert!(kept, "see the output");
}

/// Zeros keep their sign, NaN stays NaN, and powers have the exceptional cases of C's `pow`.
#[test]
fn edges_without_double_are_exact() {
    let inf = f32::INFINITY;
    for Arithmetic { unary, pow, .. } in [FUSED, UNFUSED] {
        assert_eq!(
            [0.0f32, -0.0, 1e-40].map(|x| unary(UnaryOp::Sin, x).to_bits()),
            [0f32.to_bits(), (-0f32).to_bits(), 1e-40f32.to_bits()]
        );
        assert_eq!([0.0, -0.0, 1e-30].map(|x| unary(UnaryOp::Cos, x)), [1.0; 3]);
        for x in [inf, -inf, f32::NAN] {
            assert!(unary(UnaryOp::Sin, x).is_nan() && unary(UnaryOp::Cos, x).is_nan());
        }
        let bases = [1.0, -1.0, 0.0, -0.0, inf, -inf, f32::NAN, 2.0, -2.0, 0.5, -3.0, 1e-45, f32::MAX];
        let exponents = [0.0, -0.0, 1.0, -1.0, 2.0, 3.0, -3.0, 0.5, -0.5, inf, -inf, f32::NAN, 1e30, -1e30];
        for (x, y) in bases.into_iter().flat_map(|x| exponents.map(|y| (x, y))) {
            let (found, expected) = (pow(x, y), x.powf(y));
            let ulps = ulps_from(found.into(), expected.into(), Format::of(DType::F32));
            let same_sign = found.is_nan() || found.is_sign_negative() == expected.is_sign_negative();
            assert!(ulps <= 1.5 && same_sign, "pow({x:e}, {y:e}): {found:e}, expected {expected:e}");
        }
    }
}
