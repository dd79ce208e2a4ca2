//! Functions of this program that compiled kernels call: what the machine has no instructions for.
//!
//! They do not unwind, so they may be called from code without unwind tables. Beside them are the functions that Cranelift itself
//! calls on machines without rounding or fused instructions.

use cranelift_codegen::ir::{LibCall, Type, types};
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

    /// The helper of a number, which is its position in [`Helper::ALL`] and how functions of Cranelift's IR refer to it.
    pub(crate) fn from_number(number: u32) -> Option<Helper> {
        Helper::ALL.get(number as usize).copied()
    }

    /// The number of the helper.
    pub(crate) fn number(self) -> u32 {
        self as u32
    }

    /// Where its code is.
    pub(crate) fn address(self) -> *const u8 {
        match self {
            Helper::RemF32 => rem_f32 as *const u8,
            Helper::RemF64 => rem_f64 as *const u8,
            Helper::PowI64 => pow_i64 as *const u8,
            Helper::PowU64 => pow_u64 as *const u8,
            Helper::SinF64 => sin_f64 as *const u8,
            Helper::CosF64 => cos_f64 as *const u8,
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

/// Where the code of a function is that Cranelift itself calls; `None` for those that kernels have no use for.
pub(crate) fn library_function(called: LibCall) -> Option<*const u8> {
    Some(match called {
        LibCall::FmaF32 => fma_f32 as *const u8,
        LibCall::FmaF64 => fma_f64 as *const u8,
        LibCall::CeilF32 => ceil_f32 as *const u8,
        LibCall::CeilF64 => ceil_f64 as *const u8,
        LibCall::FloorF32 => floor_f32 as *const u8,
        LibCall::FloorF64 => floor_f64 as *const u8,
        LibCall::TruncF32 => trunc_f32 as *const u8,
        LibCall::TruncF64 => trunc_f64 as *const u8,
        LibCall::NearestF32 => nearest_f32 as *const u8,
        LibCall::NearestF64 => nearest_f64 as *const u8,
        _ => return None,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_positions() {
        for helper in Helper::ALL {
            assert_eq!(Helper::from_number(helper.number()), Some(helper));
        }
        assert_eq!(Helper::from_number(Helper::ALL.len() as u32), None);
    }
}
