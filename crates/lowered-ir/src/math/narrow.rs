//! Floats narrower than `f32`, by operations on `u32` and `f32`: their bits are decoded to `f32`, and `f32`
//! is rounded to their bits.
//!
//! Both directions agree with [`tnode::Scalar::convert`] on every bit pattern: they round once, to nearest
//! even, keep subnormals and signs, and map every NaN to the quiet one of its sign.

use tnode::{DType, Scalar};

use crate::ir::BinaryOp;

const F32_MANTISSA: u32 = 23;
const F32_BIAS: u32 = 127;
const F32_INFINITY: u32 = 0x7f80_0000;
const F32_NAN: u32 = 0x7fc0_0000;

/// The operations of the conversions. Each is one operation of the IR on `u32`, `f32` or truth values.
pub trait NarrowAlgebra {
    /// A value of any of these types.
    type Value: Clone;
    /// The reason why an operation is impossible.
    type Error;

    /// A constant.
    fn constant(&mut self, x: Scalar) -> Self::Value;

    /// `a op b` on operands of a type. Shifts have [`NarrowAlgebra::shift`].
    ///
    /// # Errors
    ///
    /// The algebra lacks the operation.
    fn binary(
        &mut self,
        op: BinaryOp,
        dtype: DType,
        a: Self::Value,
        b: Self::Value,
    ) -> Result<Self::Value, Self::Error>;

    /// A `u32` shifted left or right by fewer than 32 bits.
    ///
    /// # Errors
    ///
    /// The algebra lacks the operation.
    fn shift(&mut self, op: BinaryOp, x: Self::Value, by: u32) -> Result<Self::Value, Self::Error>;

    /// `then` where the truth value `condition` holds, else `otherwise`; both are `u32`.
    fn select(&mut self, condition: Self::Value, then: Self::Value, otherwise: Self::Value) -> Self::Value;

    /// Converts an integer.
    fn convert(&mut self, from: DType, to: DType, x: Self::Value) -> Self::Value;

    /// Reinterprets 32 bits.
    fn bitcast(&mut self, from: DType, to: DType, x: Self::Value) -> Self::Value;

    /// A `u32` as a value that is used several times.
    fn shared(&mut self, x: Self::Value) -> Self::Value {
        x
    }
}

/// The layout of a narrow float.
struct Layout {
    bits: u32,
    mantissa: u32,
    bias: u32,
    /// The bit pattern after the largest finite number, without sign: infinity, or NaN in formats without
    /// infinity.
    overflow: u32,
    nan: u32,
}

fn layout(dtype: DType) -> Layout {
    match dtype {
        DType::F16 => Layout { bits: 16, mantissa: 10, bias: 15, overflow: 0x7c00, nan: 0x7e00 },
        DType::Bf16 => Layout { bits: 16, mantissa: 7, bias: 127, overflow: 0x7f80, nan: 0x7fc0 },
        DType::Fp8E5m2 => Layout { bits: 8, mantissa: 2, bias: 15, overflow: 0x7c, nan: 0x7e },
        _ => Layout { bits: 8, mantissa: 3, bias: 7, overflow: 0x7f, nan: 0x7f },
    }
}

/// The unsigned integer of a narrow float's width.
pub fn bits_type(dtype: DType) -> DType {
    if dtype.size_bytes() == 1 { DType::U8 } else { DType::U16 }
}

/// Converts the bits of a narrow float, in the type [`bits_type`], to `f32`.
///
/// It moves the magnitude to its place in an `f32`. The result is wrong by a power of two, which a
/// multiplication corrects exactly, subnormals included.
///
/// # Errors
///
/// The algebra lacks an operation.
pub fn decode<A: NarrowAlgebra>(algebra: &mut A, dtype: DType, x: A::Value) -> Result<A::Value, A::Error> {
    let format = layout(dtype);
    let mut a = Words(algebra);
    let bits = a.0.convert(bits_type(dtype), DType::U32, x);
    let bits = a.0.shared(bits);
    let magnitude = a.op(BinaryOp::BitAnd, bits.clone(), (1 << (format.bits - 1)) - 1)?;
    let magnitude = a.0.shared(magnitude);
    let mut moved = a.0.shift(BinaryOp::Shl, magnitude.clone(), F32_MANTISSA - format.mantissa)?;
    if format.bias != F32_BIAS {
        let scale = a.float((2 * F32_BIAS - format.bias) << F32_MANTISSA);
        let moved_float = a.0.bitcast(DType::U32, DType::F32, moved);
        let scaled = a.0.binary(BinaryOp::Mul, DType::F32, moved_float, scale)?;
        moved = a.0.bitcast(DType::F32, DType::U32, scaled);
    }
    if format.bias != F32_BIAS && format.overflow != format.nan {
        let is_infinite = a.op(BinaryOp::Eq, magnitude.clone(), format.overflow)?;
        moved = a.select(is_infinite, F32_INFINITY, moved);
    }
    let is_nan = match format.overflow == format.nan {
        true => a.op(BinaryOp::Eq, magnitude, format.nan)?,
        false => a.is_less(format.overflow, magnitude)?,
    };
    let moved = a.select(is_nan, F32_NAN, moved);
    let sign = a.op(BinaryOp::BitAnd, bits, 1 << (format.bits - 1))?;
    let sign = a.0.shift(BinaryOp::Shl, sign, 32 - format.bits)?;
    let signed = a.0.binary(BinaryOp::BitOr, DType::U32, moved, sign)?;
    Ok(a.0.bitcast(DType::U32, DType::F32, signed))
}

/// Rounds an `f32` to the bits of a narrow float, in the type [`bits_type`].
///
/// It adds just under half of the last kept bit. Below the normal range of the narrow format, an `f32`
/// addition rounds instead: it adds a power of two so large that the last bit of the sum has the weight of
/// the format's last bit.
///
/// # Errors
///
/// The algebra lacks an operation.
pub fn encode<A: NarrowAlgebra>(algebra: &mut A, dtype: DType, x: A::Value) -> Result<A::Value, A::Error> {
    let format = layout(dtype);
    let mut a = Words(algebra);
    let bits = a.0.bitcast(DType::F32, DType::U32, x);
    let bits = a.0.shared(bits);
    let magnitude = a.op(BinaryOp::BitAnd, bits.clone(), 0x7fff_ffff)?;
    let magnitude = a.0.shared(magnitude);
    let normal = a.round_normal(&format, &magnitude)?;
    let mut rounded = a.op(BinaryOp::Min, normal, format.overflow)?;
    if format.bias != F32_BIAS {
        let smallest_normal = (F32_BIAS - format.bias + 1) << F32_MANTISSA;
        let is_small = a.op(BinaryOp::Lt, magnitude.clone(), smallest_normal)?;
        let small = a.round_subnormal(&format, &magnitude)?;
        rounded = a.0.select(is_small, small, rounded);
    }
    let is_nan = a.is_less(F32_INFINITY, magnitude)?;
    let rounded = a.select(is_nan, format.nan, rounded);
    let sign = a.0.shift(BinaryOp::Shr, bits, 32 - format.bits)?;
    let sign = a.op(BinaryOp::BitAnd, sign, 1 << (format.bits - 1))?;
    let signed = a.0.binary(BinaryOp::BitOr, DType::U32, rounded, sign)?;
    Ok(a.0.convert(DType::U32, bits_type(dtype), signed))
}

/// Operations on `u32` with a constant.
struct Words<'a, A>(&'a mut A);

impl<A: NarrowAlgebra> Words<'_, A> {
    fn word(&mut self, bits: u32) -> A::Value {
        self.0.constant(Scalar::new(DType::U32, u128::from(bits)))
    }

    fn float(&mut self, bits: u32) -> A::Value {
        self.0.constant(Scalar::new(DType::F32, u128::from(bits)))
    }

    fn op(&mut self, op: BinaryOp, x: A::Value, k: u32) -> Result<A::Value, A::Error> {
        let k = self.word(k);
        self.0.binary(op, DType::U32, x, k)
    }

    fn is_less(&mut self, k: u32, x: A::Value) -> Result<A::Value, A::Error> {
        let k = self.word(k);
        self.0.binary(BinaryOp::Lt, DType::U32, k, x)
    }

    fn select(&mut self, condition: A::Value, then: u32, otherwise: A::Value) -> A::Value {
        let then = self.word(then);
        self.0.select(condition, then, otherwise)
    }

    fn round_normal(&mut self, format: &Layout, magnitude: &A::Value) -> Result<A::Value, A::Error> {
        let dropped = F32_MANTISSA - format.mantissa;
        let last_kept = self.0.shift(BinaryOp::Shr, magnitude.clone(), dropped)?;
        let last_kept = self.op(BinaryOp::BitAnd, last_kept, 1)?;
        let just_under_half = (1u32 << (dropped - 1)) - 1;
        let rebias = (F32_BIAS - format.bias) << F32_MANTISSA;
        let step = self.op(BinaryOp::Add, last_kept, just_under_half.wrapping_sub(rebias))?;
        let up = self.0.binary(BinaryOp::Add, DType::U32, magnitude.clone(), step)?;
        self.0.shift(BinaryOp::Shr, up, dropped)
    }

    fn round_subnormal(&mut self, format: &Layout, magnitude: &A::Value) -> Result<A::Value, A::Error> {
        let exponent = F32_MANTISSA + 1 + F32_BIAS - format.bias - format.mantissa;
        let aligner = self.float(exponent << F32_MANTISSA);
        let magnitude = self.0.bitcast(DType::U32, DType::F32, magnitude.clone());
        let aligned = self.0.binary(BinaryOp::Add, DType::F32, magnitude, aligner)?;
        let aligned = self.0.bitcast(DType::F32, DType::U32, aligned);
        self.op(BinaryOp::Sub, aligned, exponent << F32_MANTISSA)
    }
}
