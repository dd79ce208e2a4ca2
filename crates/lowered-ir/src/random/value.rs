//! The values of a sample.
//!
//! A sample is divided into parts as large as an element, from the lowest bits of lane 0 on; each element
//! takes one part. Every step is an operation of the IR that is exact, so all targets give the same bits.

use tnode::{DType, Scalar};

use super::key::Scheme;
use crate::ir::{BinaryOp, Expr, UnaryOp};

/// The probability distribution of random values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distribution {
    /// [`uniform`].
    Uniform,
    /// [`normal`], of float types alone.
    Normal,
    /// [`bits`].
    Bits,
}

impl Distribution {
    /// The name in the assignment text.
    pub fn token(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Normal => "normal",
            Distribution::Bits => "random",
        }
    }

    /// How many values of that type one sample gives: as many as fit 128 bits. Normals take 32 bits, or for
    /// `f64` 64.
    pub fn values_per_sample(self, dtype: DType) -> usize {
        let size = match self {
            Distribution::Normal => dtype.size_bytes().max(4),
            Distribution::Uniform | Distribution::Bits => dtype.size_bytes(),
        };
        16 / size
    }

    /// Whether the type has values of this distribution.
    pub fn has(self, dtype: DType) -> bool {
        self != Distribution::Normal || dtype.is_float()
    }
}

/// Value number `at` of a sample. The result mentions `sample` more than once. `at` is below
/// [`Distribution::values_per_sample`], and the type [has](Distribution::has) values of the distribution.
pub fn value(scheme: Scheme, distribution: Distribution, dtype: DType, sample: &Expr, at: usize) -> Expr {
    match (distribution, scheme) {
        (Distribution::Normal, _) => normal(dtype, sample, at),
        (Distribution::Bits, _) => bits(dtype, sample, at),
        (Distribution::Uniform, Scheme::Standard) => uniform(dtype, sample, at),
        (Distribution::Uniform, Scheme::CompatLight | Scheme::CompatCrypto) => {
            compat_uniform(dtype, sample, at)
        }
    }
}

/// A float uniform in [0, 1): the highest `p` bits of the part, times 2⁻ᵖ. `p` is the length of the
/// significand: 24 for `f32`, 53 for `f64`, 11 for `f16`, 8 for `bf16`, 4 for `fp8_e4m3fn`, 3 for `fp8_e5m2`,
/// so all values are exact and none is 1. For other types this is the same as [`bits`].
pub fn uniform(dtype: DType, sample: &Expr, at: usize) -> Expr {
    match dtype.significand_bits() {
        None => bits(dtype, sample, at),
        Some(53) => {
            let high = Expr::binary(BinaryOp::Shr, double_word(sample, at), word(DType::U64, 11));
            scaled(DType::F64, Expr::bitcast(DType::I64, high), 53)
        }
        Some(p) => {
            let fraction = scaled(DType::F32, Expr::bitcast(DType::I32, highest(dtype, sample, at, p)), p);
            narrowed(dtype, fraction)
        }
    }
}

/// The uniforms of compatible schemes. For `f32` they are those of [`uniform`]; for `f64`, `f16` and `bf16`
/// the part as an integer divided by its range and rounded, which may give 1; for 8-bit floats and integers
/// the bits; for `bool` one bit.
pub(crate) fn compat_uniform(dtype: DType, sample: &Expr, at: usize) -> Expr {
    match dtype {
        DType::F32 => uniform(dtype, sample, at),
        DType::F64 => scaled(DType::F64, double_word(sample, at), 64),
        DType::F16 | DType::Bf16 => {
            let part = Expr::bitcast(DType::I32, highest(dtype, sample, at, 16));
            narrowed(dtype, scaled(DType::F32, part, 16))
        }
        _ => bits(dtype, sample, at),
    }
}

/// The part itself, as a bit pattern of the type; for `bool`, its highest bit.
pub fn bits(dtype: DType, sample: &Expr, at: usize) -> Expr {
    let part = |width: u32| highest(dtype, sample, at, width);
    match (dtype, dtype.size_bytes()) {
        (DType::U32x4, _) => sample.clone(),
        (DType::Bool, _) => Expr::convert(DType::Bool, part(1)),
        (_, 1) => recast(dtype, DType::U8, Expr::convert(DType::U8, part(8))),
        (_, 2) => recast(dtype, DType::U16, Expr::convert(DType::U16, part(16))),
        (_, 4) => recast(dtype, DType::U32, part(32)),
        _ => recast(dtype, DType::U64, double_word(sample, at)),
    }
}

/// A float from the normal distribution of mean 0 and variance 1, by the transform of Box and Muller. It is
/// computed in `f64` for `f64`, and in `f32` for all other types. If `u` and `v` are two consecutive uniforms
/// of the sample, the value is `√(-2·log(1 - u))` times `cos(2π·v)` for even `at`, and times `sin(2π·v)` for
/// odd `at`. As `1 - u` is at least 2⁻²⁴ in `f32` and 2⁻⁵³ in `f64`, no magnitude exceeds 5.77 in `f32` and
/// 8.58 in `f64`.
pub fn normal(dtype: DType, sample: &Expr, at: usize) -> Expr {
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let number = |x: f64| Expr::Const(Scalar::from_f64(wide, x));
    let (u, v) = (uniform(wide, sample, at & !1), uniform(wide, sample, at | 1));
    let log = Expr::unary(UnaryOp::Log, Expr::binary(BinaryOp::Sub, number(1.0), u));
    let radius = Expr::unary(UnaryOp::Sqrt, Expr::binary(BinaryOp::Mul, number(-2.0), log));
    let angle = Expr::binary(BinaryOp::Mul, number(std::f64::consts::TAU), v);
    let side = Expr::unary(if at & 1 == 0 { UnaryOp::Cos } else { UnaryOp::Sin }, angle);
    narrowed(dtype, Expr::binary(BinaryOp::Mul, radius, side))
}

/// The highest `keep` bits of part `at`, whose size is that of a `dtype` of at most 4 bytes, as `u32`.
fn highest(dtype: DType, sample: &Expr, at: usize, keep: u32) -> Expr {
    let width = 8 * dtype.size_bytes() as u32;
    let per_lane = 4 / dtype.size_bytes();
    let lowest = width * (at % per_lane) as u32 + (width - keep);
    let lane = Expr::lane((at / per_lane) as u8, sample.clone());
    let shifted = match lowest {
        0 => lane,
        by => Expr::binary(BinaryOp::Shr, lane, word(DType::U32, by.into())),
    };
    match lowest + keep {
        32 => shifted,
        _ => Expr::binary(BinaryOp::BitAnd, shifted, word(DType::U32, (1 << keep) - 1)),
    }
}

/// Lanes `2·at` and `2·at + 1` as one `u64`, the first in the low bits.
fn double_word(sample: &Expr, at: usize) -> Expr {
    let lane = |lane: usize| Expr::convert(DType::U64, Expr::lane(lane as u8, sample.clone()));
    let high = Expr::binary(BinaryOp::Shl, lane(2 * at + 1), word(DType::U64, 32));
    Expr::binary(BinaryOp::BitOr, high, lane(2 * at))
}

/// The integer in a float type, times 2⁻ᵖ.
fn scaled(dtype: DType, integer: Expr, p: u32) -> Expr {
    let scale = Scalar::from_f64(dtype, 0.5f64.powi(p as i32));
    Expr::binary(BinaryOp::Mul, Expr::convert(dtype, integer), Expr::Const(scale))
}

fn narrowed(dtype: DType, wide: Expr) -> Expr {
    match dtype {
        DType::F32 | DType::F64 => wide,
        _ => Expr::convert(dtype, wide),
    }
}

fn recast(dtype: DType, carrier: DType, bits: Expr) -> Expr {
    if dtype == carrier { bits } else { Expr::bitcast(dtype, bits) }
}

fn word(dtype: DType, value: u64) -> Expr {
    Expr::Const(Scalar::new(dtype, value.into()))
}
