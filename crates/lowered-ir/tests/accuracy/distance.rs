//! The distance of a result from the true value, in units of the last place of the true value's binade.
//!
//! Infinity counts as the power of two that follows the largest number, so that a result that overflows too
//! early or too late is as far off as it would be without an end of the range. A format without infinities
//! (`e4m3fn`) has NaN there.

use astro_float::BigFloat;
use tnode::{DType, Scalar};

use crate::reference::{PRECISION, ROUND, big, to_f64};

/// The numbers that describe a format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// Stored bits of the mantissa.
    mantissa: i32,
    /// Exponents of the smallest normal number, and of the power of two above the largest.
    smallest: i32,
    beyond: i32,
    /// The largest number that rounds to a finite one, if overflow is to NaN.
    nan_above: Option<f64>,
}

impl Format {
    pub(crate) fn of(dtype: DType) -> Format {
        let format = |mantissa, smallest, beyond| Format { mantissa, smallest, beyond, nan_above: None };
        match dtype {
            DType::F64 => format(52, -1022, 1024),
            DType::F32 => format(23, -126, 128),
            DType::F16 => format(10, -14, 16),
            DType::Bf16 => format(7, -126, 128),
            DType::Fp8E5m2 => format(2, -14, 16),
            DType::Fp8E4m3fn => Format { nan_above: Some(464.0), ..format(3, -6, 9) },
            _ => panic!("{dtype} is no float"),
        }
    }

    /// The exponent of the last place of numbers whose leading bit is worth 2^binade.
    fn unit(self, binade: i32) -> i32 {
        binade.clamp(self.smallest, self.beyond - 1) - self.mantissa
    }
}

/// The distance of a result from an exact value.
pub(crate) fn ulps(found: f64, truth: &BigFloat, format: Format) -> f64 {
    if truth.is_nan() || found.is_nan() {
        return if truth.is_nan() && found.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let beyond = big(2f64.powi(512)).mul(&big(2f64.powi(format.beyond - 512)), PRECISION, ROUND);
    let (limit, sign) = (beyond.clone(), if truth.is_negative() { -1.0 } else { 1.0 });
    let truth = if truth.is_inf() || truth.abs().cmp(&limit) > Some(0) {
        beyond.mul(&big(sign), PRECISION, ROUND)
    } else {
        truth.clone()
    };
    let found =
        if found.is_infinite() { limit.mul(&big(found.signum()), PRECISION, ROUND) } else { big(found) };
    let binade = truth.exponent().filter(|_| !truth.is_zero()).map_or(i32::MIN, |e| e - 1);
    let mut error = found.sub(&truth, PRECISION, ROUND);
    if error.is_zero() {
        return 0.0;
    }
    let exponent = error.exponent().expect("it is not zero") - format.unit(binade);
    if exponent > 1000 {
        return f64::INFINITY;
    }
    error.set_exponent(exponent);
    to_f64(&error).abs()
}

/// The distance of a result of a narrow format from a nearly exact `f64`.
pub(crate) fn ulps_from(found: f64, truth: f64, format: Format) -> f64 {
    let overflows_to_nan = format.nan_above.is_some_and(|limit| truth.abs() > limit * (1.0 - 1e-9));
    if truth.is_nan() || found.is_nan() {
        let same = found.is_nan() && (truth.is_nan() || overflows_to_nan);
        return if same { 0.0 } else { f64::INFINITY };
    }
    let beyond = 2f64.powi(format.beyond);
    let (found, truth) = (found.clamp(-beyond, beyond), truth.clamp(-beyond, beyond));
    let binade = if truth == 0.0 { format.smallest } else { exponent_of(truth) };
    (found - truth).abs() / 2f64.powi(format.unit(binade))
}

/// The exponent of the leading bit.
fn exponent_of(x: f64) -> i32 {
    let bits = Scalar::from_f64(DType::F64, x.abs()).bits() as u64;
    if bits >> 52 == 0 { -1023 } else { (bits >> 52) as i32 - 1023 }
}
