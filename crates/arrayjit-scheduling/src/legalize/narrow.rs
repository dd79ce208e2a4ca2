//! Floats narrower than `f32` on targets that do not compute with them: their bits are decoded to `f32`, and
//! `f32` is rounded to their bits.
//!
//! Both directions agree with [`tnode::Scalar::convert`] on every bit pattern: they round once, to nearest
//! even, keep subnormals and signs, and map every NaN to the quiet one of its sign.

use lowered_ir::ir::{BinaryOp, Expr, UnaryOp};
use tnode::{DType, Scalar};

use super::error::Result;
use super::legalizer::Legalizer;

const F32_MANTISSA: i64 = 23;
const F32_BIAS: i64 = 127;
const F32_INFINITY: u32 = 0x7f80_0000;
const F32_NAN: u32 = 0x7fc0_0000;

/// The layout of a narrow float.
struct Layout {
    bits: i64,
    mantissa: i64,
    bias: i64,
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
pub(crate) fn bits_type(dtype: DType) -> DType {
    if dtype.size_bytes() == 1 { DType::U8 } else { DType::U16 }
}

/// Whether computing in `f32` and rounding gives the result of the operation in the narrow type, so that a
/// target with the type can compute it there.
pub(crate) fn is_one_rounding(op: BinaryOp) -> bool {
    use BinaryOp::*;
    op.is_comparison() || matches!(op, Add | Sub | Mul | Div | Rem | Max | Min)
}

pub(crate) fn is_one_rounding_unary(op: UnaryOp) -> bool {
    use UnaryOp::*;
    matches!(op, Neg | Abs | Sqrt | Trunc | Floor | RoundEven)
}

impl Legalizer<'_> {
    /// Converts a narrow float to `f32`.
    pub(crate) fn widen(&mut self, dtype: DType, x: Expr) -> Result<Expr> {
        if !self.is_emulated(dtype) {
            return Ok(Expr::convert(DType::F32, x));
        }
        self.require(DType::F32, "convert f32", dtype)?;
        self.require(DType::U32, "convert f32", dtype)?;
        Ok(match x {
            Expr::Const(bits) => Expr::Const(Scalar::new(dtype, bits.bits()).convert(DType::F32)),
            x => self.decode(dtype, x),
        })
    }

    /// Rounds an `f32` to a narrow float.
    pub(crate) fn narrow(&mut self, dtype: DType, x: Expr) -> Result<Expr> {
        if !self.is_emulated(dtype) {
            return Ok(Expr::convert(dtype, x));
        }
        self.require(DType::F32, format!("convert {dtype}"), dtype)?;
        self.require(DType::U32, format!("convert {dtype}"), dtype)?;
        Ok(match x {
            Expr::Const(x) => Expr::Const(Scalar::new(bits_type(dtype), x.convert(dtype).bits())),
            x => self.encode(dtype, x),
        })
    }

    /// Moves the magnitude to its place in an `f32`. The result is wrong by a power of two, which a
    /// multiplication corrects exactly, subnormals included.
    fn decode(&mut self, dtype: DType, x: Expr) -> Expr {
        let format = layout(dtype);
        let bits = self.shared(Expr::convert(DType::U32, x), DType::U32);
        let magnitude = and(bits.clone(), (1 << (format.bits - 1)) - 1);
        let magnitude = self.shared(magnitude, DType::U32);
        let mut moved = shl(magnitude.clone(), F32_MANTISSA - format.mantissa);
        if format.bias != F32_BIAS {
            let scale = f32::from_bits(((2 * F32_BIAS - format.bias) as u32) << F32_MANTISSA);
            let scaled = Expr::binary(BinaryOp::Mul, Expr::bitcast(DType::F32, moved), float(scale));
            moved = Expr::bitcast(DType::U32, scaled);
        }
        if format.bias != F32_BIAS && format.overflow != format.nan {
            moved = Expr::select(eq(magnitude.clone(), format.overflow), word(F32_INFINITY), moved);
        }
        let is_nan = match format.overflow == format.nan {
            true => eq(magnitude, format.nan),
            false => Expr::binary(BinaryOp::Lt, word(format.overflow), magnitude),
        };
        let moved = Expr::select(is_nan, word(F32_NAN), moved);
        let sign = shl(and(bits, 1 << (format.bits - 1)), 32 - format.bits);
        Expr::bitcast(DType::F32, or(moved, sign))
    }

    /// Rounds by adding just under half of the last kept bit. Below the normal range of the narrow format, an
    /// `f32` addition rounds instead: it adds a power of two so large that the last bit of the sum has the
    /// weight of the format's last bit.
    fn encode(&mut self, dtype: DType, x: Expr) -> Expr {
        let format = layout(dtype);
        let bits = self.shared(Expr::bitcast(DType::U32, x), DType::U32);
        let magnitude = self.shared(and(bits.clone(), 0x7fff_ffff), DType::U32);
        let mut rounded = min(round_normal(&format, &magnitude), format.overflow);
        if format.bias != F32_BIAS {
            let smallest_normal = ((F32_BIAS - format.bias + 1) as u32) << F32_MANTISSA;
            let is_small = Expr::binary(BinaryOp::Lt, magnitude.clone(), word(smallest_normal));
            rounded = Expr::select(is_small, round_subnormal(&format, &magnitude), rounded);
        }
        let is_nan = Expr::binary(BinaryOp::Lt, word(F32_INFINITY), magnitude);
        let rounded = Expr::select(is_nan, word(format.nan), rounded);
        let sign = and(shr(bits, 32 - format.bits), 1 << (format.bits - 1));
        Expr::convert(bits_type(dtype), or(rounded, sign))
    }
}

fn round_normal(format: &Layout, magnitude: &Expr) -> Expr {
    let dropped = F32_MANTISSA - format.mantissa;
    let last_kept = and(shr(magnitude.clone(), dropped), 1);
    let just_under_half = (1u32 << (dropped - 1)) - 1;
    let rebias = ((F32_BIAS - format.bias) as u32) << F32_MANTISSA;
    let up = add(magnitude.clone(), add(last_kept, word(just_under_half.wrapping_sub(rebias))));
    shr(up, dropped)
}

fn round_subnormal(format: &Layout, magnitude: &Expr) -> Expr {
    let exponent = F32_MANTISSA + 1 - format.bias - format.mantissa;
    let aligner = ((exponent + F32_BIAS) as u32) << F32_MANTISSA;
    let aligned = add(Expr::bitcast(DType::F32, magnitude.clone()), float(f32::from_bits(aligner)));
    Expr::binary(BinaryOp::Sub, Expr::bitcast(DType::U32, aligned), word(aligner))
}

fn word(bits: u32) -> Expr {
    Expr::Const(Scalar::new(DType::U32, u128::from(bits)))
}

fn float(x: f32) -> Expr {
    Expr::Const(Scalar::new(DType::F32, u128::from(x.to_bits())))
}

fn and(x: Expr, mask: u32) -> Expr {
    Expr::binary(BinaryOp::BitAnd, x, word(mask))
}

fn or(a: Expr, b: Expr) -> Expr {
    Expr::binary(BinaryOp::BitOr, a, b)
}

fn add(a: Expr, b: Expr) -> Expr {
    Expr::binary(BinaryOp::Add, a, b)
}

fn min(x: Expr, limit: u32) -> Expr {
    Expr::binary(BinaryOp::Min, x, word(limit))
}

fn eq(x: Expr, k: u32) -> Expr {
    Expr::binary(BinaryOp::Eq, x, word(k))
}

fn shl(x: Expr, by: i64) -> Expr {
    Expr::binary(BinaryOp::Shl, x, word(by as u32))
}

fn shr(x: Expr, by: i64) -> Expr {
    Expr::binary(BinaryOp::Shr, x, word(by as u32))
}
