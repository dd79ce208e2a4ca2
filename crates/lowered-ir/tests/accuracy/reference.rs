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
            return big(edge);
        }
        let x = big(x);
        match op {
            UnaryOp::Exp => x.exp(PRECISION, ROUND, constants),
            UnaryOp::Exp2 => big(2.0).pow(&x, PRECISION, ROUND, constants),
            UnaryOp::Log => x.ln(PRECISION, ROUND, constants),
            UnaryOp::Log2 => x.log2(PRECISION, ROUND, constants),
            UnaryOp::Sin => x.sin(PRECISION, ROUND, constants),
            UnaryOp::Cos => x.cos(PRECISION, ROUND, constants),
            UnaryOp::Expm1 => x.exp(PRECISION, ROUND, constants).sub(&big(1.0), PRECISION, ROUND),
            UnaryOp::Log1p => big(1.0).add(&x, PRECISION, ROUND).ln(PRECISION, ROUND, constants),
            UnaryOp::Tanh => x.tanh(PRECISION, ROUND, constants),
            UnaryOp::Sigmoid => {
                let inverse = x.neg().exp(PRECISION, ROUND, constants).add(&big(1.0), PRECISION, ROUND);
                inverse.reciprocal(PRECISION, ROUND)
            }
            UnaryOp::Atan => x.atan(PRECISION, ROUND, constants),
            UnaryOp::Erf => erf(&x, PRECISION, constants),
            UnaryOp::Erfc => {
                // The difference loses about −log₂ erfc(x) bits, fewer than 3 x² / 2.
                let size = to_f64(&x).max(0.0);
                let precision = PRECISION + (1.5 * size * size) as usize;
                big(1.0).sub(&erf(&x, precision, constants), precision, ROUND)
            }
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

/// 2/√π · exp(−x²) · Σ 2ⁿ x²ⁿ⁺¹ / (2n + 1)!!, whose terms have one sign.
pub(crate) fn erf(x: &BigFloat, precision: usize, constants: &mut Consts) -> BigFloat {
    let square = x.mul(x, precision, ROUND);
    let (mut term, mut sum) = (x.clone(), x.clone());
    for n in 1.. {
        let factor =
            square.mul(&big(2.0), precision, ROUND).div(&big(f64::from(2 * n + 1)), precision, ROUND);
        term = term.mul(&factor, precision, ROUND);
        sum = sum.add(&term, precision, ROUND);
        let is_lost = term.exponent() < sum.exponent().map(|e| e - precision as i32);
        if is_lost && f64::from(n) > to_f64(&square) {
            break;
        }
    }
    let root = constants.pi(precision, ROUND).sqrt(precision, ROUND);
    let density = square.neg().exp(precision, ROUND, constants).mul(&big(2.0), precision, ROUND);
    density.div(&root, precision, ROUND).mul(&sum, precision, ROUND)
}

/// Results at zeros, infinities and outside of the domain, where the library is not used.
fn edge(op: UnaryOp, x: f64) -> Option<f64> {
    use UnaryOp::{Atan, Cos, Erf, Erfc, Exp, Exp2, Expm1, Log, Log1p, Log2};
    use UnaryOp::{Recip, RecipSqrt, Sigmoid, Sin, Sqrt, Tanh};
    let (infinite, nan) = (f64::INFINITY, f64::NAN);
    Some(match op {
        _ if x.is_nan() => nan,
        Exp | Exp2 if x.is_infinite() => x.max(0.0),
        Exp | Exp2 | Cos | Erfc if x == 0.0 => 1.0,
        Sin | Tanh | Atan | Erf | Expm1 | Log1p if x == 0.0 => 0.0,
        // The next term is beyond 100 bits.
        Expm1 | Log1p | Atan if x.abs() < 2f64.powi(-100) => x,
        Expm1 if x < -200.0 => -1.0,
        Erf if x.abs() > 13.0 => x.signum(),
        Erfc if x < -13.0 => 2.0,
        Erfc if x > 40.0 => 0.0,
        Expm1 if x > 1e5 => infinite,
        Atan if x.is_infinite() => std::f64::consts::FRAC_PI_2.copysign(x),
        Log1p if x < -1.0 => nan,
        Log1p if x == -1.0 => -infinite,
        Sin | Cos if x.is_infinite() => nan,
        Tanh if x.is_infinite() => x.signum(),
        Log | Log2 | Sqrt | RecipSqrt if x < 0.0 => nan,
        Log | Log2 if x == 0.0 => -infinite,
        Log | Log2 if x == 1.0 => 0.0,
        Log | Log1p | Log2 | Sqrt if x.is_infinite() => infinite,
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
        Sigmoid if x == 0.0 => 0.5,
        Sigmoid if x.abs() > 1e4 => f64::from(u8::from(x > 0.0)),
        Tanh if x.abs() > 1e4 => x.signum(),
        _ => return None,
    })
}
