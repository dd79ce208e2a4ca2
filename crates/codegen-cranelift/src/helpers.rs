//! Functions of this program that compiled kernels call: what the machine has no instructions for.
//!
//! They do not unwind, so they may be called from code without unwind tables. The same table holds what Cranelift itself
//! calls on machines without rounding or fused instructions; without it those symbols would be looked up in the process.

use cranelift_codegen::ir::{Type, types};
use lowered_ir::ir::UnaryOp;
use lowered_ir::math;

/// A function that kernels may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Helper {
    /// C's `fmodf`.
    RemF32,
    /// C's `fmod`.
    RemF64,
    /// Signed integer power, wrapping.
    PowI64,
    /// Unsigned integer power, wrapping.
    PowU64,
    /// Sine of any `f64`.
    SinF64,
    /// Cosine of any `f64`.
    CosF64,
}

impl Helper {
    pub(crate) const ALL: [Helper; 6] =
        [Helper::RemF32, Helper::RemF64, Helper::PowI64, Helper::PowU64, Helper::SinF64, Helper::CosF64];

    /// The symbol.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Helper::RemF32 => "rem_f32",
            Helper::RemF64 => "rem_f64",
            Helper::PowI64 => "pow_i64",
            Helper::PowU64 => "pow_u64",
            Helper::SinF64 => "sin_f64",
            Helper::CosF64 => "cos_f64",
        }
    }

    /// How many operands it takes.
    pub(crate) fn arity(self) -> usize {
        match self {
            Helper::RemF32 | Helper::RemF64 | Helper::PowI64 | Helper::PowU64 => 2,
            Helper::SinF64 | Helper::CosF64 => 1,
        }
    }

    /// The type of the operands and of the result.
    pub(crate) fn ty(self) -> Type {
        match self {
            Helper::RemF32 => types::F32,
            Helper::RemF64 | Helper::SinF64 | Helper::CosF64 => types::F64,
            Helper::PowI64 | Helper::PowU64 => types::I64,
        }
    }
}

/// Every symbol a kernel can refer to, with its address.
pub(crate) fn symbols() -> [(&'static str, *const u8); 16] {
    [
        (Helper::RemF32.name(), rem_f32 as *const u8),
        (Helper::RemF64.name(), rem_f64 as *const u8),
        (Helper::PowI64.name(), pow_i64 as *const u8),
        (Helper::PowU64.name(), pow_u64 as *const u8),
        (Helper::SinF64.name(), sin_f64 as *const u8),
        (Helper::CosF64.name(), cos_f64 as *const u8),
        ("fmaf", fma_f32 as *const u8),
        ("fma", fma_f64 as *const u8),
        ("ceilf", ceil_f32 as *const u8),
        ("ceil", ceil_f64 as *const u8),
        ("floorf", floor_f32 as *const u8),
        ("floor", floor_f64 as *const u8),
        ("truncf", trunc_f32 as *const u8),
        ("trunc", trunc_f64 as *const u8),
        ("nearbyintf", nearest_f32 as *const u8),
        ("nearbyint", nearest_f64 as *const u8),
    ]
}

extern "C" fn rem_f32(a: f32, b: f32) -> f32 {
    a % b
}

extern "C" fn rem_f64(a: f64, b: f64) -> f64 {
    a % b
}

/// `base` to the power of `exponent`; a negative exponent gives the truncated reciprocal of the true power.
extern "C" fn pow_i64(base: i64, exponent: i64) -> i64 {
    match (base, exponent) {
        (1, ..0) => 1,
        (-1, ..0) => 1 - 2 * (exponent & 1),
        (_, ..0) => 0,
        _ => pow_u64(base as u64, exponent as u64) as i64,
    }
}

/// `base` to the power of `exponent`, wrapping; by squaring.
extern "C" fn pow_u64(base: u64, exponent: u64) -> u64 {
    let (mut result, mut square, mut left) = (1u64, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    result
}

/// The definition itself, so that its bits are those of the interpreter and of the steps that kernels compute by themselves.
extern "C" fn sin_f64(x: f64) -> f64 {
    math::unary_f64(UnaryOp::Sin, x)
}

extern "C" fn cos_f64(x: f64) -> f64 {
    math::unary_f64(UnaryOp::Cos, x)
}

extern "C" fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

extern "C" fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}

extern "C" fn ceil_f32(x: f32) -> f32 {
    x.ceil()
}

extern "C" fn ceil_f64(x: f64) -> f64 {
    x.ceil()
}

extern "C" fn floor_f32(x: f32) -> f32 {
    x.floor()
}

extern "C" fn floor_f64(x: f64) -> f64 {
    x.floor()
}

extern "C" fn trunc_f32(x: f32) -> f32 {
    x.trunc()
}

extern "C" fn trunc_f64(x: f64) -> f64 {
    x.trunc()
}

extern "C" fn nearest_f32(x: f32) -> f32 {
    x.round_ties_even()
}

extern "C" fn nearest_f64(x: f64) -> f64 {
    x.round_ties_even()
}
