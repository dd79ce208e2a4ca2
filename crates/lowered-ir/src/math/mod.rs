//! The transcendental functions, each written once: as straight-line arithmetic over an [`Algebra`].
//!
//! One instance of the algebra computes native floats, for [`crate::eval`]; another ([`build`]) records the
//! same steps as IR, which legalization puts in the place of an operation. So the expansion of an operation
//! computes the bits of the operation on every target that rounds correctly: each step has an exact
//! counterpart in the IR, `fma` is explicit, nothing is contracted implicitly, and there are no branches,
//! only selections.
//!
//! # Accuracy
//!
//! The table bounds the distance from the true value, in units of the last place of the true value's binade.
//! `tests/accuracy` asserts the bounds against arithmetic of 192 bits and prints the measured distances; the
//! greatest measured distance is in parentheses. All functions take every argument, including subnormals,
//! infinities, NaN and angles of any size, and give subnormal results where these are due.
//!
//! | function | `f32`, ulp | `f64`, ulp | note |
//! |---|---|---|---|
//! | exp | 1.1 (0.86) | 1.1 (0.82) | |
//! | exp2 | 1 (0.94) | 1 (0.84) | |
//! | expm1 | 2 (1.35) | 2.5 (1.89) | relative accuracy down to 0 |
//! | log | 1 (0.83) | 1 (0.77) | |
//! | log1p | 1.5 (1.25) | 1.5 (1.15) | relative accuracy down to 0 |
//! | log2 | 2 (1.62) | 1 (0.67) | |
//! | sin, cos | 0.501 | 1 (0.79) | `f32` through `f64`; a call for `f64` from 2⁴⁰ on |
//! | tanh | 1.5 (1.42) | 1.5 (1.42) | relative accuracy down to 0 |
//! | sigmoid | 2.5 (1.69) | 2.5 (1.54) | relative accuracy down to the smallest subnormal |
//! | atan | 1.5 (1.27) | 2 (1.64) | relative accuracy down to 0 |
//! | erf | 1.5 (1.07) | 1.5 (1.10) | relative accuracy down to 0 |
//! | erfc | 6 (5.29) | 4 (3.48) | relative accuracy down to the smallest subnormal |
//! | pow | 0.501 | 1 (0.95) | `f32` through `f64` |
//! | sqrt, recip | 0.5 | 0.5 | one operation of the machine, correctly rounded |
//! | recip_sqrt | 1.5 (1.49) | 1.5 (1.46) | `1 / sqrt(x)`, both correctly rounded |
//!
//! On `f16`, `bf16`, `fp8_e5m2` and `fp8_e4m3fn` all of them are within 0.501 ulp on every argument: the
//! result is computed in `f32` and rounded, so it is the nearest value unless the truth is nearly halfway
//! between two.
//!
//! `f32` functions other than sin, cos and pow use nothing but `f32` and `i32`, so that four lanes fit a
//! 128-bit register. `f32` sin, cos and pow compute in `f64` and round once at the end: their exact
//! reduction needs the width.
//!
//! # `f32` without `f64`
//!
//! For targets without `f64` or `i64`, and for sin and cos on all GPUs, the functions sin, cos and pow have a
//! second form in `f32` and `i32` alone, which [`unary`] and [`pow`] give in an `f32` algebra. It is a
//! different function, with other bits. It reduces angles with integers and computes products in two parts
//! from halves of numbers, so, like the other functions, it tolerates a device that rounds an `fma` twice.
//! Other deviations of a device (less exact division, flushed subnormal numbers) come on top. The table has
//! bounds for an `fma` that rounds once and for one that rounds twice ([`Unfused`]); *alone* means without
//! `f64`:
//!
//! | function | `fma` rounded once, ulp | twice, ulp |
//! |---|---|---|
//! | exp alone | 1.1 (0.86) | 1.2 (1.13) |
//! | exp2 alone | 1 (0.94) | 1.5 (1.18) |
//! | expm1 alone | 2 (1.35) | 2 (1.45) |
//! | log alone | 1 (0.82) | 1 (0.82) |
//! | log1p alone | 1.5 (1.25) | 1.5 (1.20) |
//! | log2 alone | 2 (1.61) | 2 (1.69) |
//! | tanh alone | 1.5 (1.42) | 2.5 (1.96) |
//! | sigmoid alone | 2.5 (1.69) | 3 (1.69) |
//! | atan alone | 1.5 (1.25) | 2 (1.34) |
//! | erf alone | 1.5 (1.05) | 2 (1.40) |
//! | erfc alone | 6 (4.74) | 120 (32) |
//! | sin, cos alone | 1 (0.79) | 1 (0.80) |
//! | pow alone | 1.5 (1.02) | 1.5 (1.26) |
//!
//! # Source of the idea
//!
//! Reduction by rounding with a large constant and Cody–Waite splitting are folklore; the polynomials were
//! derived for this module by the Remez exchange in 60-digit arithmetic, minimizing the relative error of the
//! function (not of the polynomial) on the reduced interval, and then rounded to the format. The comment on
//! each polynomial gives its error before this rounding.

mod algebra;
mod atan;
pub mod build;
mod erf;
mod exp;
mod log;
pub mod narrow;
mod native;
mod pow;
mod quarters;
mod sigmoid;
mod tanh;
mod trig;
mod turns;

use crate::ir::UnaryOp;

pub use algebra::{Algebra, Format};
pub use native::{Native, Unfused, unary_f64};
pub(crate) use native::{pow_f32, pow_f64, unary_f32};

/// Whether the `f32` form of the operation is computed in `f64`, by `unary_of_single` and
/// `pow_of_single`.
pub fn single_computes_in_double(op: UnaryOp) -> bool {
    matches!(op, UnaryOp::Sin | UnaryOp::Cos)
}

/// A transcendental operation in the algebra's own format; `None` for the other operations. In an `f32`
/// algebra, the operations for which [`single_computes_in_double`] is true have their form for targets
/// without `f64`, which gives other bits than [`crate::eval`].
pub fn unary<A: Algebra>(a: &mut A, op: UnaryOp, x: A::Float) -> Option<A::Float> {
    Some(match op {
        UnaryOp::Exp => exp::exp(a, x),
        UnaryOp::Exp2 => exp::exp2(a, x),
        UnaryOp::Expm1 => exp::expm1(a, x),
        UnaryOp::Log => log::log(a, x),
        UnaryOp::Log1p => log::log1p(a, x),
        UnaryOp::Log2 => log::log2(a, x),
        UnaryOp::Tanh => tanh::tanh(a, x),
        UnaryOp::Sigmoid => sigmoid::sigmoid(a, x),
        UnaryOp::Atan => atan::atan(a, x),
        UnaryOp::Erf => erf::erf(a, x),
        UnaryOp::Erfc => erf::erfc(a, x),
        UnaryOp::Sin => trig::sin(a, x),
        UnaryOp::Cos => trig::cos(a, x),
        _ => return None,
    })
}

/// Sine or cosine of an `f32` held in an `f64` algebra, to well below half an `f32` ulp; `None` for other
/// operations.
pub(crate) fn unary_of_single<A: Algebra>(a: &mut A, op: UnaryOp, x: A::Float) -> Option<A::Float> {
    match op {
        UnaryOp::Sin => Some(trig::sin_of_single(a, x)),
        UnaryOp::Cos => Some(trig::cos_of_single(a, x)),
        _ => None,
    }
}

/// `x` to the power of `y`, as C's `pow`, in the algebra's own format.
pub fn pow<A: Algebra>(a: &mut A, x: A::Float, y: A::Float) -> A::Float {
    pow::pow(a, x, y)
}

/// `x` to the power of `y` for `f32` operands held in an `f64` algebra, to well below half an `f32` ulp.
pub(crate) fn pow_of_single<A: Algebra>(a: &mut A, x: A::Float, y: A::Float) -> A::Float {
    pow::pow_of_single(a, x, y)
}
