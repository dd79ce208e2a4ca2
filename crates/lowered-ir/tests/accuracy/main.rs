//! The accuracy that `lowered_ir::math` states, measured and asserted.
//!
//! Every function is compared with arithmetic of 192 bits on arguments of every kind: spread over its range,
//! around its thresholds and zeros, subnormal, huge, close to multiples of π/2, and with random bits. `f32`
//! and the narrower types are also compared over millions of patterns (the narrower ones: all) with the
//! platform's `f64` functions, whose own error is far below an ulp of the narrower types, and is itself
//! measured here.
//!
//! The worst errors are printed (`cargo test -p lowered-ir --test accuracy -- --nocapture`). With
//! `EFFORT=100` in the environment, as `cargo xtask ci --full` sets it, the sweeps are a hundred times as
//! long, and the sweep over `f32` takes every fiftieth pattern.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and report")]

mod alone;
mod arguments;
mod distance;
mod edges;
mod reference;

use astro_float::Consts;
use lowered_ir::eval::{binary, unary};
use lowered_ir::ir::{BinaryOp, UnaryOp};
use lowered_ir::math::unary_f64;
use tnode::{DType, Scalar};

use arguments::Random;
use distance::{Format, ulps, ulps_from};
use reference::Reference;

/// A function, its bounds in ulp for `f32` and `f64`, and the platform's function: a row of the table of
/// `lowered_ir::math`.
pub(crate) struct Bound {
    pub(crate) op: UnaryOp,
    pub(crate) single: f64,
    pub(crate) double: f64,
    pub(crate) platform: fn(f64) -> f64,
}

const fn bound(op: UnaryOp, single: f64, double: f64, platform: fn(f64) -> f64) -> Bound {
    Bound { op, single, double, platform }
}

pub(crate) const BOUNDS: [Bound; 16] = [
    bound(UnaryOp::Exp, 1.1, 1.1, f64::exp),
    bound(UnaryOp::Exp2, 1.0, 1.0, f64::exp2),
    bound(UnaryOp::Expm1, 2.0, 2.5, f64::exp_m1),
    bound(UnaryOp::Log, 1.0, 1.0, f64::ln),
    bound(UnaryOp::Log1p, 1.5, 1.5, f64::ln_1p),
    bound(UnaryOp::Log2, 2.0, 1.0, f64::log2),
    bound(UnaryOp::Sin, 0.501, 1.0, f64::sin),
    bound(UnaryOp::Cos, 0.501, 1.0, f64::cos),
    bound(UnaryOp::Tanh, 1.5, 1.5, f64::tanh),
    bound(UnaryOp::Sigmoid, 2.5, 2.5, |x| 1.0 / (1.0 + (-x).exp())),
    bound(UnaryOp::Atan, 1.5, 2.0, f64::atan),
    bound(UnaryOp::Erf, 1.5, 1.5, |x| unary_f64(UnaryOp::Erf, x)),
    bound(UnaryOp::Erfc, 6.0, 4.0, |x| unary_f64(UnaryOp::Erfc, x)),
    bound(UnaryOp::Sqrt, 0.5, 0.5, f64::sqrt),
    bound(UnaryOp::Recip, 0.5, 0.5, |x| 1.0 / x),
    bound(UnaryOp::RecipSqrt, 1.5, 1.5, |x| 1.0 / x.sqrt()),
];
/// The bounds of `pow` for `f32` and `f64`.
const POW: [f64; 2] = [0.501, 1.0];
/// The bound of every function of a narrow type: the result is the nearest value, unless the true value is
/// nearly halfway between two values.
const NARROW: f64 = 0.501;

/// The documentation of `lowered_ir::math` states exactly these bounds.
#[test]
fn the_documentation_states_these_bounds() {
    let rows: Vec<Vec<&str>> = include_str!("../../src/math/mod.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//! | "))
        .map(|row| row.split('|').map(str::trim).collect())
        .collect();
    let stated = |cell: &str| cell.split(' ').next().unwrap().parse::<f64>();
    let all = BOUNDS.iter().map(|b| (b.op.token(), [b.single, b.double]));
    for (name, bounds) in all.chain([("pow", POW)]) {
        let row = rows.iter().find(|row| row[0].split(", ").any(|n| n == name)).unwrap();
        assert_eq!([stated(row[1]), stated(row[2])], bounds.map(Ok), "{name}");
    }
}

/// The factor by which to multiply the default numbers of arguments.
fn effort() -> usize {
    random_programs::effort::cases(1) as usize
}

/// The greatest distance so far, and where.
#[derive(Clone, Copy, Debug, Default)]
struct Worst {
    ulps: f64,
    at: [f64; 2],
    count: usize,
}

impl Worst {
    fn see(&mut self, ulps: f64, at: [f64; 2]) {
        self.count += 1;
        if ulps > self.ulps || ulps.is_nan() {
            (self.ulps, self.at) = (ulps, at);
        }
    }

    /// Whether the greatest distance is within the bound, and not so small that nothing can have been
    /// measured.
    fn check(self, what: &str, bound: f64) -> bool {
        let Worst { ulps, at: [x, y], count } = self;
        let verdict = if ulps > bound { "too far" } else { "within" };
        println!("{what:<20} {ulps:.4} ulp at worst of {count}, {verdict} {bound}, at {x:e} {y:e}");
        0.4 < ulps && ulps <= bound
    }
}

fn apply(op: UnaryOp, dtype: DType, x: f64) -> f64 {
    unary(op, Scalar::from_f64(dtype, x)).as_f64()
}

fn power(dtype: DType, x: f64, y: f64) -> f64 {
    let [x, y] = [x, y].map(|x| Scalar::from_f64(dtype, x));
    binary(BinaryOp::Pow, x, y).as_f64()
}

/// Compares results with 192-bit arithmetic at all listed arguments of a type.
fn measure(dtype: DType, bound: impl Fn(&Bound) -> f64, count: usize) {
    let (format, mut constants) = (Format::of(dtype), Consts::new().unwrap());
    let mut kept = true;
    for function in &BOUNDS {
        let mut worst = Worst::default();
        for x in arguments::of(function.op, dtype, count * effort()) {
            let truth = Reference::unary(function.op, x, &mut constants);
            worst.see(ulps(apply(function.op, dtype, x), &truth, format), [x, 0.0]);
        }
        kept &= worst.check(&format!("{} {dtype}", function.op), bound(function));
    }
    assert!(kept, "see the output");
}

#[test]
fn double_functions_keep_their_bounds() {
    measure(DType::F64, |b| b.double, 300);
}

#[test]
fn single_functions_keep_their_bounds() {
    measure(DType::F32, |b| b.single, 100);
}

#[test]
fn powers_keep_their_bounds() {
    let mut constants = Consts::new().unwrap();
    for (dtype, bound) in [DType::F32, DType::F64].into_iter().zip(POW) {
        let mut worst = Worst::default();
        for (x, y) in arguments::of_power(dtype, 400 * effort()) {
            let truth = Reference::power(x, y, &mut constants);
            worst.see(ulps(power(dtype, x, y), &truth, Format::of(dtype)), [x, y]);
        }
        assert!(worst.check(&format!("pow {dtype}"), bound), "{worst:?}");
    }
}

/// The sweeps below use the platform's `f64` functions as the reference for narrower types. Their error is
/// below 4 ulps of `f64`, which are 2⁻²⁷ ulp of `f32`.
#[test]
fn the_platform_is_a_reference_for_narrower_types() {
    let mut constants = Consts::new().unwrap();
    for function in &BOUNDS {
        let mut worst = Worst::default();
        for x in arguments::of(function.op, DType::F32, 40) {
            let truth = Reference::unary(function.op, x, &mut constants);
            worst.see(ulps((function.platform)(x), &truth, Format::of(DType::F64)), [x, 0.0]);
        }
        assert!(worst.ulps < 4.0, "{}: {worst:?}", function.op);
    }
}

#[test]
fn single_functions_keep_their_bounds_over_all_patterns() {
    let (step, mut kept) = (100_003 / (effort() * effort()).min(2_000), true);
    for function in &BOUNDS {
        let mut worst = Worst::default();
        for bits in (0..=u32::MAX).step_by(step) {
            let x = f64::from(f32::from_bits(bits));
            let found = apply(function.op, DType::F32, x);
            worst.see(ulps_from(found, (function.platform)(x), Format::of(DType::F32)), [x, 0.0]);
        }
        kept &= worst.check(&format!("{} f32 sweep", function.op), function.single);
    }
    assert!(kept, "see the output");
}

#[test]
fn single_powers_keep_their_bound_over_random_patterns() {
    let (mut random, mut worst) = (Random::new(7), Worst::default());
    for _ in 0..20_000 * effort() {
        let x = f64::from(f32::from_bits(random.next() as u32 & 0x7fff_ffff));
        let y = f64::from(((random.unit() * 2.0 - 1.0) * 160.0 / x.log2().abs().max(1e-3)) as f32);
        worst.see(ulps_from(power(DType::F32, x, y), x.powf(y), Format::of(DType::F32)), [x, y]);
    }
    assert!(worst.check("pow f32 sweep", POW[0]), "{worst:?}");
}

/// Applies every function to every value of every narrow float. The result is the nearest value or, near
/// halfway, the next one.
#[test]
fn narrow_functions_are_as_good_as_correctly_rounded() {
    for dtype in [DType::F16, DType::Bf16, DType::Fp8E5m2, DType::Fp8E4m3fn] {
        let format = Format::of(dtype);
        for function in &BOUNDS {
            let mut worst = Worst::default();
            for bits in 0..1u128 << (8 * dtype.size_bytes()) {
                let x = Scalar::new(dtype, bits);
                let (found, truth) = (unary(function.op, x).as_f64(), (function.platform)(x.as_f64()));
                worst.see(ulps_from(found, truth, format), [x.as_f64(), 0.0]);
            }
            let what = format!("{} {dtype}", function.op);
            println!("{what:<20} {:.4} ulp at worst of all {}", worst.ulps, worst.count);
            assert!(worst.ulps <= NARROW, "{what}: {worst:?}");
        }
    }
}

/// Powers of narrow floats: all pairs of the 8-bit types, random ones of the others.
#[test]
fn narrow_powers_are_as_good_as_correctly_rounded() {
    for dtype in [DType::F16, DType::Bf16, DType::Fp8E5m2, DType::Fp8E4m3fn] {
        let mut worst = Worst::default();
        for [x, y] in pairs_of_patterns(dtype) {
            let [x, y] = [x, y].map(|bits| Scalar::new(dtype, bits.into()).as_f64());
            worst.see(ulps_from(power(dtype, x, y), x.powf(y), Format::of(dtype)), [x, y]);
        }
        println!("{:<20} {:.4} ulp at worst of {}", format!("pow {dtype}"), worst.ulps, worst.count);
        assert!(worst.ulps <= NARROW, "pow {dtype}: {worst:?}");
    }
}

/// Bits of bases and exponents. Of 16-bit types the exponents are mostly near 1, where powers neither vanish
/// nor overflow.
fn pairs_of_patterns(dtype: DType) -> Vec<[u16; 2]> {
    if dtype.size_bytes() == 1 {
        return (0..=255).flat_map(|x| (0..=255).map(move |y| [x, y])).collect();
    }
    let mut random = Random::new(11);
    let near_one = |random: &mut Random| {
        let y = (random.unit() * 2.0 - 1.0) * 4.0;
        Scalar::from_f64(dtype, y).bits() as u16
    };
    let pair = |k: usize| {
        let x = random.next() as u16;
        [x, if k.is_multiple_of(4) { random.next() as u16 } else { near_one(&mut random) }]
    };
    (0..100_000 * effort()).map(pair).collect()
}
