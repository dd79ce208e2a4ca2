//! Element types as number formats: rounding, bit patterns and ranges, by their definitions.

use tnode::DType;

/// A float format narrower than `f32`, or `f32` itself.
struct Format {
    /// Bits of the significand, the leading one included.
    precision: i32,
    /// The exponent of the least normal number.
    least_exponent: i32,
    /// The bits of the exponent field.
    exponent_bits: u32,
    largest: f64,
    has_infinity: bool,
}

fn format(dtype: DType) -> Format {
    let make = |precision, least_exponent, exponent_bits, largest, has_infinity| Format {
        precision,
        least_exponent,
        exponent_bits,
        largest,
        has_infinity,
    };
    match dtype {
        DType::F16 => make(11, -14, 5, 65504.0, true),
        DType::Bf16 => make(8, -126, 8, 255.0 * 2f64.powi(120), true),
        DType::Fp8E5m2 => make(3, -14, 5, 57344.0, true),
        DType::Fp8E4m3fn => make(4, -6, 4, 448.0, false),
        DType::F32 => make(24, -126, 8, f64::from(f32::MAX), true),
        _ => make(53, -1022, 11, f64::MAX, true),
    }
}

/// Bits of the significand.
pub fn precision(dtype: DType) -> i32 {
    format(dtype).precision
}

/// The largest finite value of the type.
pub fn largest(dtype: DType) -> f64 {
    format(dtype).largest
}

/// The least positive normal value.
pub fn least_normal(dtype: DType) -> f64 {
    2f64.powi(format(dtype).least_exponent)
}

/// The distance between the value and its neighbors in the format.
pub fn ulp(dtype: DType, value: f64) -> f64 {
    let Format { precision, least_exponent, .. } = format(dtype);
    scale(1.0, exponent(value).max(least_exponent) - (precision - 1))
}

/// Whether values of the type are floats narrower than `f32`, which compute in `f32`.
pub fn is_narrow(dtype: DType) -> bool {
    dtype.is_float() && precision(dtype) < 24
}

/// The exponent of the leading bit of a finite value. For 0 it is a number below the exponents of all
/// formats.
pub fn exponent(value: f64) -> i32 {
    match ((value.to_bits() >> 52) & 0x7ff) as i32 {
        0 => -1080,
        field => field - 1023,
    }
}

/// `value · 2^power`
pub fn scale(value: f64, power: i32) -> f64 {
    let half = power / 2;
    value * 2f64.powi(half) * 2f64.powi(power - half)
}

/// Rounds to the nearest value of the type, ties to even.
pub fn round(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F64 => value,
        DType::F32 => f64::from(value as f32),
        _ => {
            let Format { precision, least_exponent, largest, has_infinity, .. } = format(dtype);
            let outside = if has_infinity { f64::INFINITY.copysign(value) } else { f64::NAN };
            if value.is_infinite() {
                return outside;
            }
            if value.is_nan() || value == 0.0 {
                return value;
            }
            let unit = exponent(value).max(least_exponent) - (precision - 1);
            let rounded = scale(scale(value, -unit).round_ties_even(), unit);
            if rounded.abs() > largest { outside } else { rounded }
        }
    }
}

/// Rounds an integer to the nearest value of the type.
pub fn round_integer(dtype: DType, value: i128) -> f64 {
    // Truncates to 60 bits and sets the last one if any bit was lost, so that the second rounding gives the
    // correct result.
    let magnitude = value.unsigned_abs();
    let excess = (128 - magnitude.leading_zeros()).saturating_sub(52);
    let kept = magnitude >> excess;
    let lost = magnitude & ((1u128 << excess) - 1) != 0;
    let odd = scale((kept * 2 + u128::from(lost)) as f64, excess as i32 - 1);
    if dtype == DType::F64 {
        return value as f64;
    }
    round(dtype, if value < 0 { -odd } else { odd })
}

/// Decodes the bit pattern of a float.
pub fn decode(dtype: DType, bits: u64) -> f64 {
    match dtype {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        _ => {
            let Format { precision, least_exponent, exponent_bits, has_infinity, .. } = format(dtype);
            let mantissa_bits = precision as u32 - 1;
            let mantissa = bits & ((1 << mantissa_bits) - 1);
            let field = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
            let top = (1 << exponent_bits) - 1;
            let is_negative = (bits >> (mantissa_bits + exponent_bits)) & 1 == 1;
            let value = if has_infinity && field == top {
                if mantissa == 0 { f64::INFINITY } else { f64::NAN }
            } else if !has_infinity && field == top && mantissa == (1 << mantissa_bits) - 1 {
                f64::NAN
            } else if field == 0 {
                scale(mantissa as f64, least_exponent - mantissa_bits as i32)
            } else {
                let whole = mantissa | (1 << mantissa_bits);
                scale(whole as f64, field as i32 - 1 + least_exponent - mantissa_bits as i32)
            };
            if is_negative { -value } else { value }
        }
    }
}

/// Encodes a value of the type as a bit pattern; floats are rounded first.
pub fn encode(dtype: DType, value: f64) -> u64 {
    match dtype {
        DType::F64 => value.to_bits(),
        DType::F32 => u64::from((value as f32).to_bits()),
        _ if dtype.is_float() => {
            let value = round(dtype, value);
            let Format { precision, least_exponent, exponent_bits, has_infinity, .. } = format(dtype);
            let mantissa_bits = precision - 1;
            let top = (1u64 << exponent_bits) - 1;
            let sign = u64::from(value.is_sign_negative()) << (mantissa_bits + exponent_bits as i32);
            let magnitude = value.abs();
            if value.is_nan() {
                // The first NaN of the format: the pattern after infinity, or the only NaN of a format
                // without infinities.
                return (top << mantissa_bits) | if has_infinity { 1 } else { (1 << mantissa_bits) - 1 };
            }
            if magnitude.is_infinite() {
                return sign | (top << mantissa_bits);
            }
            let field = exponent(magnitude).max(least_exponent - 1) - least_exponent + 1;
            let unit = field.max(1) - 1 + least_exponent - mantissa_bits;
            let mantissa = scale(magnitude, -unit) as u64 & ((1 << mantissa_bits) - 1);
            sign | ((field as u64) << mantissa_bits) | mantissa
        }
        _ => (wrap(dtype, value as i128) as u64) & mask(dtype),
    }
}

fn mask(dtype: DType) -> u64 {
    u64::MAX >> (64 - 8 * dtype.size_bytes() as u32)
}

/// Decodes the bit pattern of an integer.
pub fn decode_integer(dtype: DType, bits: u64) -> i128 {
    if dtype == DType::Bool { i128::from(bits & 1) } else { wrap(dtype, i128::from(bits & mask(dtype))) }
}

/// The least and greatest value of an integer type or `bool`.
pub fn range(dtype: DType) -> (i128, i128) {
    let bits = 8 * dtype.size_bytes() as u32;
    match dtype {
        DType::Bool => (0, 1),
        DType::I8 | DType::I32 | DType::I64 => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        _ => (0, (1i128 << bits) - 1),
    }
}

/// Bits of an integer type.
pub fn width(dtype: DType) -> u32 {
    if dtype == DType::Bool { 1 } else { 8 * dtype.size_bytes() as u32 }
}

/// The value modulo 2^width; for `bool`, 1 unless the value is 0.
pub fn wrap(dtype: DType, value: i128) -> i128 {
    if dtype == DType::Bool {
        return i128::from(value != 0);
    }
    let (low, high) = range(dtype);
    let modulus = high - low + 1;
    (value - low).rem_euclid(modulus) + low
}

/// Converts a float to an integer: truncates, clamps to the range of the type, and maps NaN to 0.
pub fn saturate(dtype: DType, value: f64) -> i128 {
    if dtype == DType::Bool {
        return i128::from(value != 0.0);
    }
    let (low, high) = range(dtype);
    // The cast truncates, saturates and maps NaN to 0.
    (value as i128).clamp(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_of_a_narrow_float_is_encoded_again() {
        for dtype in [DType::F16, DType::Bf16, DType::Fp8E5m2, DType::Fp8E4m3fn] {
            for bits in 0..1u64 << (8 * dtype.size_bytes()) {
                let value = decode(dtype, bits);
                let again = encode(dtype, value);
                let is_same = if value.is_nan() { decode(dtype, again).is_nan() } else { again == bits };
                assert!(is_same, "{dtype}: {bits:x} is {value} and encoded as {again:x}");
            }
        }
    }
}
