//! Formats of floats: what their bits mean, and rounding exact values to them once.
//!
//! Arithmetic on 16-bit floats is done exactly, or with what is cut off remembered ([`add_odd`]), and rounded here. So every result
//! has one rounding, as on the hardware, and no argument about double rounding is needed.

use ptx_asm::Ty;

/// A binary format of IEEE 754's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FloatFormat {
    /// Bits in all.
    pub(super) bits: u32,
    /// Bits behind the point.
    pub(super) fraction: u32,
    /// What is added to exponents; also the largest one.
    pub(super) bias: i32,
}

pub(super) const F16: FloatFormat = FloatFormat { bits: 16, fraction: 10, bias: 15 };
pub(super) const BF16: FloatFormat = FloatFormat { bits: 16, fraction: 7, bias: 127 };
pub(super) const F32: FloatFormat = FloatFormat { bits: 32, fraction: 23, bias: 127 };
pub(super) const F64: FloatFormat = FloatFormat { bits: 64, fraction: 52, bias: 1023 };

/// How what a format lacks is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundingDirection {
    /// To the nearest, of two the even one.
    Nearest,
    Zero,
    Down,
    Up,
}

impl FloatFormat {
    /// That of a type of one float.
    pub(super) fn of(ty: Ty) -> Option<FloatFormat> {
        match ty {
            Ty::F16 => Some(F16),
            Ty::Bf16 => Some(BF16),
            Ty::F32 => Some(F32),
            Ty::F64 => Some(F64),
            _ => None,
        }
    }

    /// Those of the halves of a type of two floats.
    pub(super) fn of_pair(ty: Ty) -> Option<FloatFormat> {
        match ty {
            Ty::F16x2 => Some(F16),
            Ty::Bf16x2 => Some(BF16),
            _ => None,
        }
    }

    /// The bits of infinity.
    fn infinity(self) -> u64 {
        (2 * self.bias as u64 + 1) << self.fraction
    }

    /// The bit of the sign.
    fn sign(self) -> u64 {
        1 << (self.bits - 1)
    }

    /// What arithmetic gives where there is no number: for `f64` the usual one, for narrower formats all bits but the sign.
    pub(super) fn nan(self) -> u64 {
        if self == F64 { f64::NAN.to_bits() } else { self.sign() - 1 }
    }

    /// The value of these bits; every format's values are `f64`s.
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
            // Both factors and the product are exact: 24 bits at most, and powers of two far inside the range of `f64`.
            (fraction | hidden) as f64 * power(exponent.max(1) - self.bias - self.fraction as i32)
        };
        if bits & self.sign() != 0 { -value } else { value }
    }

    /// The bits of the value, rounded once.
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

    /// The bits of `mantissa · 2^exponent`, with that sign, rounded once.
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
        let scale = leading.max(1 - self.bias); // the exponent of the result, before what rounding carries
        if scale > self.bias {
            return sign | self.overflow(negative, direction);
        }
        let cut = scale - self.fraction as i32 - exponent; // bits that the format has no room for
        let kept = if cut <= 0 { mantissa << -cut } else { shorten(mantissa, cut, negative, direction) };
        // The leading bit, where there is one, adds 1 to the exponent; so does what rounding carries.
        let magnitude = (((scale + self.bias - 1) as u64) << self.fraction) + kept;
        if magnitude >= self.infinity() {
            sign | self.overflow(negative, direction)
        } else {
            sign | magnitude
        }
    }

    /// What numbers too large become.
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

/// `a + b`, and if that is no `f64`, of its two neighbours the odd one. Rounded again to at most 51 bits, that gives what rounding
/// the exact sum would: an odd last bit says that the sum lies between, and on which side of every shorter number and of every
/// middle between two.
pub(super) fn add_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    // What rounding took away, exactly: Knuth's sum of two.
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    let bits = sum.to_bits();
    if error == 0.0 || bits & 1 == 1 {
        return sum;
    }
    let outwards = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if outwards { bits + 1 } else { bits - 1 })
}

/// `a * b + c` of two formats of 16 bits, rounded once.
pub(super) fn fma(format: FloatFormat, a: f64, b: f64, c: f64) -> u64 {
    // The product is exact: 22 bits at most.
    format.encode(add_odd(a * b, c), RoundingDirection::Nearest)
}
