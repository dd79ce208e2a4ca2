//! Float formats: decoding, and rounding exact values once.
//!
//! Arithmetic on 16-bit floats computes an `f64` that is exact or rounded to odd ([`add_odd`]), and rounds it
//! here. Both give the same bits as rounding the exact result once, as hardware does.

use ptx_asm::Ty;

/// A binary format in the manner of IEEE 754.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FloatFormat {
    /// Width in bits.
    pub(super) bits: u32,
    /// Fraction bits.
    pub(super) fraction: u32,
    /// Exponent bias, which is also the largest exponent.
    pub(super) bias: i32,
}

pub(super) const F16: FloatFormat = FloatFormat { bits: 16, fraction: 10, bias: 15 };
pub(super) const BF16: FloatFormat = FloatFormat { bits: 16, fraction: 7, bias: 127 };
pub(super) const F32: FloatFormat = FloatFormat { bits: 32, fraction: 23, bias: 127 };
pub(super) const F64: FloatFormat = FloatFormat { bits: 64, fraction: 52, bias: 1023 };

/// Rounding directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundingDirection {
    /// To nearest, ties to even.
    Nearest,
    Zero,
    Down,
    Up,
}

impl FloatFormat {
    /// The format of a float type; `None` for other types and for pairs.
    pub(super) fn of(ty: Ty) -> Option<FloatFormat> {
        match ty {
            Ty::F16 => Some(F16),
            Ty::Bf16 => Some(BF16),
            Ty::F32 => Some(F32),
            Ty::F64 => Some(F64),
            _ => None,
        }
    }

    /// The format of the halves of a pair type.
    pub(super) fn of_pair(ty: Ty) -> Option<FloatFormat> {
        match ty {
            Ty::F16x2 => Some(F16),
            Ty::Bf16x2 => Some(BF16),
            _ => None,
        }
    }

    /// The encoding of positive infinity.
    fn infinity(self) -> u64 {
        (2 * self.bias as u64 + 1) << self.fraction
    }

    /// The mask of the sign bit.
    fn sign(self) -> u64 {
        1 << (self.bits - 1)
    }

    /// The NaN that arithmetic produces: the default NaN for `f64`, all bits except the sign for narrower
    /// formats.
    pub(super) fn nan(self) -> u64 {
        if self == F64 { f64::NAN.to_bits() } else { self.sign() - 1 }
    }

    /// Decodes a value; `f64` represents the values of all formats.
    pub(super) fn decode(self, bits: u64) -> f64 {
        if self == F64 {
            return f64::from_bits(bits);
        }
        let magnitude = bits & (self.sign() - 1);
        let exponent = (magnitude >> self.fraction) as i32;
        let fraction = magnitude & ((1 << self.fraction) - 1);
        let value = if magnitude > self.infinity() {
            f64::NAN
        } else if magnitude == self.infinity() {
            f64::INFINITY
        } else {
            let hidden = u64::from(exponent > 0) << self.fraction;
            // Both operands and the result are exact: at most 24 significant bits, with exponents well inside
            // the range of `f64`.
            (fraction | hidden) as f64 * power(exponent.max(1) - self.bias - self.fraction as i32)
        };
        if bits & self.sign() != 0 { -value } else { value }
    }

    /// Encodes a value, rounded once.
    pub(super) fn encode(self, value: f64, direction: RoundingDirection) -> u64 {
        if value.is_nan() {
            return self.nan();
        }
        let negative = value.is_sign_negative();
        if value.is_infinite() {
            return self.infinity() | if negative { self.sign() } else { 0 };
        }
        let bits = value.to_bits() & (u64::MAX >> 1);
        let exponent = (bits >> 52) as i32;
        let fraction = bits & ((1 << 52) - 1);
        let mantissa = fraction | (u64::from(exponent > 0) << 52);
        self.round(negative, mantissa, exponent.max(1) - 1075, direction)
    }

    /// Encodes `±mantissa · 2^exponent`, rounded once.
    pub(super) fn round(
        self,
        negative: bool,
        mantissa: u64,
        exponent: i32,
        direction: RoundingDirection,
    ) -> u64 {
        let sign = if negative { self.sign() } else { 0 };
        if mantissa == 0 {
            return sign;
        }
        let leading = exponent + 63 - mantissa.leading_zeros() as i32;
        let scale = leading.max(1 - self.bias); // the exponent of the result, before a carry from rounding
        if scale > self.bias {
            return sign | self.overflow(negative, direction);
        }
        let cut = scale - self.fraction as i32 - exponent; // number of low bits that do not fit the format
        let kept = if cut <= 0 { mantissa << -cut } else { shorten(mantissa, cut, negative, direction) };
        // The leading bit of the mantissa, if there is one, adds 1 to the exponent, and so does a carry from
        // rounding.
        let magnitude = (((scale + self.bias - 1) as u64) << self.fraction) + kept;
        if magnitude >= self.infinity() {
            sign | self.overflow(negative, direction)
        } else {
            sign | magnitude
        }
    }

    /// The encoding of values beyond the largest finite one.
    fn overflow(self, negative: bool, direction: RoundingDirection) -> u64 {
        let outwards = match direction {
            RoundingDirection::Nearest => true,
            RoundingDirection::Zero => false,
            RoundingDirection::Down => negative,
            RoundingDirection::Up => !negative,
        };
        self.infinity() - u64::from(!outwards)
    }
}

/// `mantissa / 2^cut`, rounded to an integer; `cut` is at least 1.
fn shorten(mantissa: u64, cut: i32, negative: bool, direction: RoundingDirection) -> u64 {
    let (kept, rest, half) = match cut {
        1..=63 => (mantissa >> cut, mantissa & ((1 << cut) - 1), 1 << (cut - 1)),
        64 => (0, mantissa, 1 << 63),
        _ => (0, 1, 2), // less than a half, more than nothing
    };
    let up = match direction {
        RoundingDirection::Nearest => rest > half || rest == half && kept & 1 == 1,
        RoundingDirection::Zero => false,
        RoundingDirection::Down => negative && rest != 0,
        RoundingDirection::Up => !negative && rest != 0,
    };
    kept + u64::from(up)
}

/// `2^exponent`, which must be a normal `f64`.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// `a + b`, rounded to odd: if no `f64` equals the sum, the result is the neighbor with an odd last bit.
/// Rounding this result to at most 51 bits equals rounding the exact sum, because an odd last bit shows on
/// which side of every shorter number, and of every midpoint between two, the sum lies.
pub(super) fn add_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    // The rounding error of the sum, exactly (Knuth's two-sum).
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    let bits = sum.to_bits();
    if error == 0.0 || bits & 1 == 1 {
        return sum;
    }
    let outwards = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if outwards { bits + 1 } else { bits - 1 })
}

/// `a * b + c` for 16-bit formats, rounded once.
pub(super) fn fma(format: FloatFormat, a: f64, b: f64, c: f64) -> u64 {
    // The product is exact: at most 22 significant bits.
    format.encode(add_odd(a * b, c), RoundingDirection::Nearest)
}
