//! A value of any element type, and the definition of conversions between element types.
//!
//! The interpreter, the simplifier's constant folding and the generated code must agree on conversions.
//! [`Scalar::convert`] defines them, for every pair of types and every value.

use std::fmt;

use crate::convert::{self, Format, decode, encode_f64, encode_integer};
use crate::dtype::DType;

/// A value tagged with its element type, held as its little-endian bit pattern.
///
/// Equality is of types and bits: `0.0` differs from `-0.0`, and a NaN equals itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scalar {
    dtype: DType,
    bits: u128,
}

/// A value independent of its storage format. Every value of every type has exactly one representation here.
enum Value {
    Integer { negative: bool, magnitude: u64 },
    Float(f64),
}

impl Scalar {
    /// The value whose bit pattern is the low bits of `bits`; higher bits are dropped, and a non-zero bool
    /// becomes 1.
    pub const fn new(dtype: DType, bits: u128) -> Scalar {
        let bits = match dtype {
            DType::Bool => (bits != 0) as u128,
            DType::U32x4 => bits,
            _ => bits & ((1 << (8 * dtype.size_bytes())) - 1),
        };
        Scalar { dtype, bits }
    }

    /// The element type of this value.
    pub const fn dtype(self) -> DType {
        self.dtype
    }

    /// The bit pattern, zero-extended to 128 bits.
    pub const fn bits(self) -> u128 {
        self.bits
    }

    /// Zero; for floats the positive one.
    pub const fn zero(dtype: DType) -> Scalar {
        Scalar { dtype, bits: 0 }
    }

    /// One; for `u32x4` in the first lane.
    pub fn one(dtype: DType) -> Scalar {
        Scalar::from_i64(dtype, 1)
    }

    /// The value nearest to `x`: floats round to nearest even, integers truncate and saturate, NaN becomes
    /// integer 0.
    pub fn from_f64(dtype: DType, x: f64) -> Scalar {
        let bits = match dtype {
            DType::Bool => u128::from(x != 0.0),
            DType::U8 => u128::from(x as u8),
            DType::I8 => u128::from(x as i8 as u8),
            DType::U16 => u128::from(x as u16),
            DType::I32 => u128::from(x as i32 as u32),
            DType::U32 | DType::U32x4 => u128::from(x as u32),
            DType::I64 => u128::from(x as i64 as u64),
            DType::U64 => u128::from(x as u64),
            // Rust's conversion also rounds to nearest even, but leaves the bits of NaN unspecified.
            DType::F64 if !x.is_nan() => u128::from(x.to_bits()),
            DType::F32 if !x.is_nan() => u128::from((x as f32).to_bits()),
            DType::F16 | DType::Bf16 | DType::F32 | DType::F64 | DType::Fp8E5m2 | DType::Fp8E4m3fn => {
                u128::from(encode_f64(format(dtype), x))
            }
        };
        Scalar { dtype, bits }
    }

    /// The value of the integer `x`: integers wrap, floats round to nearest even.
    pub fn from_i64(dtype: DType, x: i64) -> Scalar {
        Scalar::from_integer(dtype, x < 0, x.unsigned_abs())
    }

    fn from_integer(dtype: DType, negative: bool, magnitude: u64) -> Scalar {
        if dtype.is_float() {
            return Scalar { dtype, bits: u128::from(encode_integer(format(dtype), negative, magnitude)) };
        }
        let wrapped = if negative { magnitude.wrapping_neg() } else { magnitude };
        match dtype {
            DType::Bool => Scalar { dtype, bits: u128::from(magnitude != 0) },
            DType::U32x4 => Scalar { dtype, bits: u128::from(wrapped as u32) },
            _ => Scalar::new(dtype, u128::from(wrapped)),
        }
    }

    /// The same value in another type: the definition of conversion for the whole project.
    ///
    /// * The same type: the same bits.
    /// * Float to integer truncates and saturates, NaN becomes 0.
    /// * Integer to integer wraps.
    /// * Anything to float rounds to nearest even from the exact value, once; NaN becomes the quiet one with
    ///   its sign.
    /// * Anything to bool is `!= 0` (so NaN is true); bool counts as 0 or 1.
    /// * `u32x4` counts as the `u32` in its first lane; the bits of a value converted to it fill its first
    ///   lanes, and the others are 0.
    pub fn convert(self, to: DType) -> Scalar {
        if self.dtype == to {
            return self;
        }
        match self.value() {
            _ if to == DType::U32x4 => Scalar { dtype: to, bits: self.bits },
            Value::Integer { negative, magnitude } => Scalar::from_integer(to, negative, magnitude),
            Value::Float(x) => Scalar::from_f64(to, x),
        }
    }

    fn value(self) -> Value {
        let low = self.bits as u64;
        let signed = |x: i64| Value::Integer { negative: x < 0, magnitude: x.unsigned_abs() };
        match self.dtype {
            DType::Bool | DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
                Value::Integer { negative: false, magnitude: low }
            }
            DType::U32x4 => Value::Integer { negative: false, magnitude: u64::from(low as u32) },
            DType::I8 => signed(i64::from(low as i8)),
            DType::I32 => signed(i64::from(low as i32)),
            DType::I64 => signed(low as i64),
            DType::F64 => Value::Float(f64::from_bits(low)),
            DType::F32 => Value::Float(f64::from(f32::from_bits(low as u32))),
            DType::F16 | DType::Bf16 | DType::Fp8E5m2 | DType::Fp8E4m3fn => {
                Value::Float(decode(format(self.dtype), low))
            }
        }
    }

    /// The value as `f64`: exact for all but 64-bit integers, which round to nearest even.
    pub fn as_f64(self) -> f64 {
        f64::from_bits(self.convert(DType::F64).bits as u64)
    }

    /// The value as `f32`, rounded to nearest even.
    pub fn as_f32(self) -> f32 {
        f32::from_bits(self.convert(DType::F32).bits as u32)
    }

    /// The value as `i64`: floats truncate, values outside the range saturate, NaN becomes 0.
    pub fn as_i64(self) -> i64 {
        match self.value() {
            Value::Integer { negative: true, magnitude } => 0i64.saturating_sub_unsigned(magnitude),
            Value::Integer { negative: false, magnitude } => 0i64.saturating_add_unsigned(magnitude),
            Value::Float(x) => x as i64,
        }
    }

    /// Whether the value is not zero; NaN is not zero.
    pub fn as_bool(self) -> bool {
        self.convert(DType::Bool).bits != 0
    }

    /// The value stored in the first [`DType::size_bytes`] bytes, or `None` if there are fewer.
    pub fn read(dtype: DType, bytes: &[u8]) -> Option<Scalar> {
        let stored = bytes.get(..dtype.size_bytes())?;
        let mut wide = [0; 16];
        wide[..stored.len()].copy_from_slice(stored);
        Some(Scalar::new(dtype, u128::from_le_bytes(wide)))
    }

    /// Stores the value in the first [`DType::size_bytes`] bytes. If there are fewer, returns `None` and
    /// writes nothing.
    pub fn write(&self, bytes: &mut [u8]) -> Option<()> {
        let size = self.dtype.size_bytes();
        bytes.get_mut(..size)?.copy_from_slice(&self.bits.to_le_bytes()[..size]);
        Some(())
    }
}

/// The layout of a float type.
fn format(dtype: DType) -> Format {
    match dtype {
        DType::F16 => convert::F16,
        DType::Bf16 => convert::BF16,
        DType::F32 => convert::F32,
        DType::Fp8E5m2 => convert::E5M2,
        DType::Fp8E4m3fn => convert::E4M3FN,
        _ => convert::F64,
    }
}

impl fmt::Display for Scalar {
    /// Prints a text that parses to the same value; all NaNs print alike, and `u32x4` prints as 128-bit hex.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            _ if self.dtype == DType::Bool => write!(f, "{}", self.bits != 0),
            _ if self.dtype == DType::U32x4 => write!(f, "{:#034x}", self.bits),
            Value::Integer { negative, magnitude } => {
                write!(f, "{}{magnitude}", if negative { "-" } else { "" })
            }
            Value::Float(x) if x.is_nan() => f.write_str("nan"),
            Value::Float(x) if self.dtype == DType::F64 => write!(f, "{x:?}"),
            Value::Float(x) => write!(f, "{:?}", x as f32),
        }
    }
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}:{}", self.dtype)
    }
}
