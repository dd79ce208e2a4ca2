//! Element types of tensor nodes and host arrays.
//!
//! A [`DType`] names a bit layout. Values are [`Scalar`](crate::Scalar)s, and their conversions are in
//! [`convert`](mod@crate::convert). The text tokens are part of every text form of the project, so they never
//! change.

use std::fmt;
use std::str::FromStr;

/// The type of one element.
///
/// The declaration order is for listings only; [`DType::promote`] has its own order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// One byte holding 0 or 1.
    Bool,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 16-bit integer.
    U16,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 64-bit integer.
    U64,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of an [`F32`](DType::F32).
    Bf16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// OCP 8-bit float with 5 exponent and 2 mantissa bits, with infinities.
    Fp8E5m2,
    /// OCP 8-bit float with 4 exponent and 3 mantissa bits, without infinities.
    Fp8E4m3fn,
    /// Four 32-bit lanes of random bits, the state of counter-based generators. Lane 0 is the lowest in
    /// memory.
    U32x4,
}

impl DType {
    /// Every element type, in declaration order.
    pub const ALL: [DType; 15] = [
        DType::Bool,
        DType::U8,
        DType::I8,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::F16,
        DType::Bf16,
        DType::F32,
        DType::F64,
        DType::Fp8E5m2,
        DType::Fp8E4m3fn,
        DType::U32x4,
    ];

    /// Size of one element in memory, in bytes; also its natural alignment.
    pub const fn size_bytes(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 | DType::Fp8E5m2 | DType::Fp8E4m3fn => 1,
            DType::U16 | DType::F16 | DType::Bf16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 => 8,
            DType::U32x4 => 16,
        }
    }

    /// Whether values are floating-point numbers of any width.
    pub const fn is_float(self) -> bool {
        use DType::{Bf16, F16, F32, F64, Fp8E4m3fn, Fp8E5m2};
        matches!(self, F16 | Bf16 | F32 | F64 | Fp8E5m2 | Fp8E4m3fn)
    }

    /// Whether values are integers with arithmetic; neither [`Bool`](DType::Bool) nor [`U32x4`](DType::U32x4)
    /// is.
    pub const fn is_integer(self) -> bool {
        use DType::{I8, I32, I64, U8, U16, U32, U64};
        matches!(self, U8 | I8 | U16 | I32 | U32 | I64 | U64)
    }

    /// Whether values can be negative: signed integers and floats.
    pub const fn is_signed(self) -> bool {
        self.is_float() || matches!(self, DType::I8 | DType::I32 | DType::I64)
    }

    /// The bits of a float's significand, including the leading one; `None` for other types.
    pub const fn significand_bits(self) -> Option<u32> {
        match self {
            DType::F64 => Some(53),
            DType::F32 => Some(24),
            DType::F16 => Some(11),
            DType::Bf16 => Some(8),
            DType::Fp8E4m3fn => Some(4),
            DType::Fp8E5m2 => Some(3),
            DType::Bool
            | DType::U8
            | DType::I8
            | DType::U16
            | DType::I32
            | DType::U32
            | DType::I64
            | DType::U64
            | DType::U32x4 => None,
        }
    }

    /// The type of a value that combines values of two types, if the user asks for none.
    ///
    /// It is the higher one in a total order, so promotion is commutative, associative and idempotent, and
    /// inferences can be combined in any order. The order is a priority, not a containment of values: `i64`
    /// with `f16` is `f16`.
    pub const fn promote(self, other: DType) -> DType {
        if self.priority() >= other.priority() { self } else { other }
    }

    const fn priority(self) -> u8 {
        match self {
            DType::Bool => 0,
            DType::U8 => 1,
            DType::I8 => 2,
            DType::U16 => 3,
            DType::I32 => 4,
            DType::U32 => 5,
            DType::I64 => 6,
            DType::U64 => 7,
            DType::Fp8E4m3fn => 8,
            DType::Fp8E5m2 => 9,
            DType::F16 => 10,
            DType::Bf16 => 11,
            DType::F32 => 12,
            DType::F64 => 13,
            DType::U32x4 => 14,
        }
    }

    /// The text token, the same as [`Display`](fmt::Display) prints.
    pub const fn token(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::U16 => "u16",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::I64 => "i64",
            DType::U64 => "u64",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::Fp8E5m2 => "fp8_e5m2",
            DType::Fp8E4m3fn => "fp8_e4m3fn",
            DType::U32x4 => "u32x4",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.token())
    }
}

/// The error for a text that is not an element type.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no element type; expected one of {list}", list = token_list())]
pub struct UnknownDType(pub String);

fn token_list() -> String {
    DType::ALL.map(DType::token).join(", ")
}

impl FromStr for DType {
    type Err = UnknownDType;

    fn from_str(text: &str) -> Result<DType, UnknownDType> {
        DType::ALL.into_iter().find(|d| d.token() == text).ok_or_else(|| UnknownDType(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_parse_back() {
        for d in DType::ALL {
            assert_eq!(d.to_string().parse(), Ok(d));
        }
        assert_eq!("F32".parse::<DType>(), Err(UnknownDType("F32".into())));
    }

    #[test]
    fn every_type_has_one_class() {
        for d in DType::ALL {
            let other = matches!(d, DType::Bool | DType::U32x4);
            assert_eq!([d.is_float(), d.is_integer(), other].iter().filter(|&&b| b).count(), 1, "{d}");
        }
    }

    #[test]
    fn promotion_is_a_join() {
        for a in DType::ALL {
            assert_eq!(a.promote(a), a);
            for b in DType::ALL {
                assert_eq!(a.promote(b), b.promote(a));
                for c in DType::ALL {
                    assert_eq!(a.promote(b).promote(c), a.promote(b.promote(c)));
                }
            }
        }
        assert_eq!(DType::F16.promote(DType::F32), DType::F32);
        assert_eq!(DType::F16.promote(DType::Bf16), DType::Bf16);
        assert_eq!(DType::U64.promote(DType::Fp8E5m2), DType::Fp8E5m2);
        assert_eq!(DType::F64.promote(DType::U32x4), DType::U32x4);
    }
}
