//! Bit-exact conversions between float formats.
//!
//! One encoder and one decoder serve every format, so the narrow formats cannot differ in how they round:
//!
//! * Rounding is to nearest, ties to even, from the exact value: never twice.
//! * Overflow becomes infinity, except in `e4m3fn`, which has none and becomes NaN (the OCP non-saturating
//!   mode).
//! * NaN becomes the format's quiet NaN with the sign kept and no payload.
//! * Subnormals and the sign of zero are kept.
//!
//! Formats of 8 bits follow the *OCP 8-bit Floating Point Specification (OFP8)*, 2023.

/// The layout of one binary float format: a sign bit, then exponent, then mantissa bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    /// Whether the all-ones exponent holds only infinities and NaNs. Otherwise (`e4m3fn`) it holds numbers,
    /// except that the all-ones mantissa is NaN.
    infinities: bool,
}

pub(crate) const E5M2: Format = Format { exponent_bits: 5, mantissa_bits: 2, infinities: true };
pub(crate) const E4M3FN: Format = Format { exponent_bits: 4, mantissa_bits: 3, infinities: false };
pub(crate) const F16: Format = Format { exponent_bits: 5, mantissa_bits: 10, infinities: true };
pub(crate) const BF16: Format = Format { exponent_bits: 8, mantissa_bits: 7, infinities: true };
pub(crate) const F32: Format = Format { exponent_bits: 8, mantissa_bits: 23, infinities: true };
pub(crate) const F64: Format = Format { exponent_bits: 11, mantissa_bits: 52, infinities: true };

/// `e5m2` bits of the value nearest to `x`; beyond 57,344 + half a step, infinity.
pub fn e5m2_from_f32(x: f32) -> u8 {
    encode_f64(E5M2, f64::from(x)) as u8
}

/// The exact value of `e5m2` bits.
pub fn e5m2_to_f32(bits: u8) -> f32 {
    decode(E5M2, u64::from(bits)) as f32
}

/// `e4m3fn` bits of the value nearest to `x`; beyond 448 + half a step, NaN.
pub fn e4m3fn_from_f32(x: f32) -> u8 {
    encode_f64(E4M3FN, f64::from(x)) as u8
}

/// The exact value of `e4m3fn` bits.
pub fn e4m3fn_to_f32(bits: u8) -> f32 {
    decode(E4M3FN, u64::from(bits)) as f32
}

/// IEEE binary16 bits of the value nearest to `x`; beyond 65,504 + half a step, infinity.
pub fn f16_from_f32(x: f32) -> u16 {
    encode_f64(F16, f64::from(x)) as u16
}

/// The exact value of IEEE binary16 bits.
pub fn f16_to_f32(bits: u16) -> f32 {
    decode(F16, u64::from(bits)) as f32
}

/// bfloat16 bits of the value nearest to `x`.
pub fn bf16_from_f32(x: f32) -> u16 {
    encode_f64(BF16, f64::from(x)) as u16
}

/// The exact value of bfloat16 bits.
pub fn bf16_to_f32(bits: u16) -> f32 {
    decode(BF16, u64::from(bits)) as f32
}

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    fn sign_bit(self) -> u64 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    fn exponent_ones(self) -> u64 {
        ((1 << self.exponent_bits) - 1) << self.mantissa_bits
    }

    fn mantissa_ones(self) -> u64 {
        (1 << self.mantissa_bits) - 1
    }

    fn nan(self) -> u64 {
        match self.infinities {
            true => self.exponent_ones() | 1 << (self.mantissa_bits - 1),
            false => self.exponent_ones() | self.mantissa_ones(),
        }
    }

    /// The bits that follow the largest finite number: infinity, or NaN in formats without infinity.
    fn overflow(self) -> u64 {
        if self.infinities { self.exponent_ones() } else { self.nan() }
    }
}

/// Bits in `format` of the value nearest to `x`.
pub(crate) fn encode_f64(format: Format, x: f64) -> u64 {
    let sign = if x.is_sign_negative() { format.sign_bit() } else { 0 };
    if x.is_nan() {
        return sign | format.nan();
    }
    if x.is_infinite() {
        return sign | format.overflow();
    }
    let bits = x.to_bits();
    let mantissa = bits & F64.mantissa_ones();
    let magnitude = match (bits & F64.exponent_ones()) >> F64.mantissa_bits {
        0 => encode_magnitude(format, mantissa, 1 - 1075),
        exponent => encode_magnitude(format, mantissa | 1 << 52, exponent as i32 - 1075),
    };
    sign | magnitude
}

/// Bits in `format` of the integer nearest to `sign * magnitude`.
pub(crate) fn encode_integer(format: Format, negative: bool, magnitude: u64) -> u64 {
    let sign = if negative { format.sign_bit() } else { 0 };
    sign | encode_magnitude(format, magnitude, 0)
}

/// Bits, without sign, of `mantissa * 2^exponent` rounded to nearest, ties to even.
///
/// Rounding may carry from the mantissa into the exponent. The bits are then those of the next larger number,
/// as they should be.
fn encode_magnitude(format: Format, mantissa: u64, exponent: i32) -> u64 {
    if mantissa == 0 {
        return 0;
    }
    let top = 63 - mantissa.leading_zeros() as i32;
    let smallest_normal = 1 - format.bias();
    // The weight of the last kept bit: fixed below the normal range, relative to the leading bit within it.
    let last = (top + exponent).max(smallest_normal) - format.mantissa_bits as i32;
    let kept = shift_rounding(mantissa, last - exponent);
    let biased = (last + format.mantissa_bits as i32 + format.bias()) as u64;
    // The leading bit of `kept` is bit `mantissa_bits` if the number is normal, and a lower one if it is
    // subnormal (`biased` = 1). Adding `kept` to the exponent `biased - 1` is right in both cases, and also
    // if rounding carried.
    let bits = ((biased - 1) << format.mantissa_bits) + kept;
    bits.min(format.overflow())
}

/// `mantissa / 2^shift` to nearest, ties to even; exact for a negative shift.
fn shift_rounding(mantissa: u64, shift: i32) -> u64 {
    if shift <= 0 {
        return mantissa << -shift;
    }
    if shift > 64 {
        return 0;
    }
    let wide = u128::from(mantissa);
    let floor = wide >> shift;
    let rest = wide - (floor << shift);
    let half = 1u128 << (shift - 1);
    let up = rest > half || (rest == half && floor & 1 == 1);
    (floor + u128::from(up)) as u64
}

/// The exact value of `bits` in `format`.
pub(crate) fn decode(format: Format, bits: u64) -> f64 {
    let mantissa = bits & format.mantissa_ones();
    let exponent = (bits & format.exponent_ones()) >> format.mantissa_bits;
    let sign = if bits & format.sign_bit() == 0 { 1.0 } else { -1.0 };
    let all_ones = bits & format.exponent_ones() == format.exponent_ones();
    if all_ones && (format.infinities || mantissa == format.mantissa_ones()) {
        let special = if format.infinities && mantissa == 0 { f64::INFINITY } else { f64::NAN };
        return special.copysign(sign);
    }
    let (mantissa, exponent) = match exponent {
        0 => (mantissa, 1),
        e => (mantissa | 1 << format.mantissa_bits, e as i32),
    };
    sign * scale(mantissa as f64, exponent - format.bias() - format.mantissa_bits as i32)
}

/// `x * 2^exponent`, exact whenever the result is a number of `f64`; in two steps because the factor may be
/// subnormal.
fn scale(x: f64, exponent: i32) -> f64 {
    let half = exponent / 2;
    x * power_of_two(half) * power_of_two(exponent - half)
}

fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + F64.bias()) as u64) << F64.mantissa_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The encoder also has a format for `f32`, where Rust's own conversion gives the expected bits.
    #[test]
    fn the_encoder_agrees_with_the_language() {
        let mut pattern = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..100_000 {
            pattern = pattern.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            // Exponents in and slightly beyond the range of `f32`, including subnormals and overflow.
            let mantissa = f64::from_bits(pattern >> 12 | 1023 << 52);
            let x = mantissa * power_of_two((pattern % 300) as i32 - 155);
            assert_eq!(encode_f64(F32, x), u64::from((x as f32).to_bits()), "{x:e}");
            assert_eq!(encode_f64(F64, x), x.to_bits());
            assert_eq!(decode(F64, x.to_bits()), x);
            assert_eq!(decode(F32, u64::from((x as f32).to_bits())), f64::from(x as f32));
        }
    }
}
