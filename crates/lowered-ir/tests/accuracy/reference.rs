//! The functions in 192-bit arithmetic.

use astro_float::{BigFloat, Consts, RoundingMode};
use lowered_ir::ir::UnaryOp;

pub(crate) const PRECISION: usize = 192;
pub(crate) const ROUND: RoundingMode = RoundingMode::ToEven;

/// Converts a number exactly. Small ones are scaled here, because the library misreads subnormals.
pub(crate) fn big(x: f64) -> BigFloat {
    if x != 0.0 && x.abs() < 1e-290 {
        let up = BigFloat::from_f64(2f64.powi(-100), PRECISION);
        return BigFloat::from_f64(x * 2f64.powi(100), PRECISION).mul(&up, PRECISION, ROUND);
    }
    BigFloat::from_f64(x, PRECISION)
}

/// The nearest `f64`, for numbers within the range of `f64`.
pub(crate) fn to_f64(x: &BigFloat) -> f64 {
    x.to_string().parse().unwrap_or(f64::INFINITY)
}

/// The functions that results are compared with.
pub(crate) struct Reference;

impl Reference {
    pub(crate) fn unary(op: UnaryOp, x: f64, constants: &mut Consts) -> BigFloat {
        if let Some(edge) = edge(op, x) {
            return BigFloat::from_f64(edge, PRECISION);
        }
        let x = big(x);
        match op {
            UnaryOp::Exp => x.exp(PRECISION, ROUND, constants),
            UnaryOp::Exp2 => big(2.0).pow(&x, PRECISION, ROUND, constants),
            UnaryOp::Log => x.ln(PRECISION, ROUND, constants),
            UnaryOp::Log2 => x.log2(PRECISION, ROUND, constants),
            UnaryOp::Sin => x.sin(PRECISION, ROUND, constants),
            UnaryOp::Cos => x.cos(PRECISION, ROUND, constants),
            UnaryOp::Tanh => x.tanh(PRECISION, ROUND, constants),
            UnaryOp::Sqrt => x.sqrt(PRECISION, ROUND),
            UnaryOp::Recip => x.reciprocal(PRECISION, ROUND),
            UnaryOp::RecipSqrt => x.sqrt(PRECISION, ROUND).reciprocal(PRECISION, ROUND),
            _ => panic!("{op} is no transcendental function"),
        }
    }

    /// `x` to the power of `y`, for positive finite `x` and finite `y`.
    pub(crate) fn power(x: f64, y: f64, constants: &mut Consts) -> BigFloat {
        big(x).pow(&big(y), PRECISION, ROUND, constants)
    }
}

/// Results at zeros, infinities and outside of the domain, where the library is not used.
fn edge(op: UnaryOp, x: f64) -> Option<f64> {
    use UnaryOp::{Cos, Exp, Exp2, Log, Log2, Recip, RecipSqrt, Sin, Sqrt, Tanh};
    let (infinite, nan) = (f64::INFINITY, f64::NAN);
    Some(match op {
        _ if x.is_nan() => nan,
        Exp | Exp2 if x.is_infinite() => x.max(0.0),
        Exp | Exp2 | Cos if x == 0.0 => 1.0,
        Sin | Tanh if x == 0.0 => 0.0,
        Sin | Cos if x.is_infinite() => nan,
        Tanh if x.is_infinite() => x.signum(),
        Log | Log2 | Sqrt | RecipSqrt if x < 0.0 => nan,
        Log | Log2 if x == 0.0 => -infinite,
        Log | Log2 if x == 1.0 => 0.0,
        Log | Log2 | Sqrt if x.is_infinite() => infinite,
        Sqrt if x == 0.0 => 0.0,
        Recip | RecipSqrt if x == 0.0 => infinite.copysign(x),
        Recip | RecipSqrt if x.is_infinite() => 0.0,
        // Far beyond the range, where the exact power would take forever.
        Exp | Exp2 if x.abs() > 1e5 => {
            if x > 0.0 {
                infinite
            } else {
                0.0
            }
        }
        Tanh if x.abs() > 1e4 => x.signum(),
        _ => return None,
    })
}
