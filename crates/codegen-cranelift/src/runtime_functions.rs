//! Functions of this program that compiled kernels call for operations without instructions.
//!
//! They do not unwind, so code without unwind tables may call them. This module also has the functions that
//! Cranelift itself calls on CPUs without rounding or fused instructions.

use cranelift_codegen::ir::{LibCall, Type, types};
use lowered_ir::ir::UnaryOp;
use lowered_ir::math;

/// A function that kernels may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuntimeFunction {
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

impl RuntimeFunction {
    pub(crate) const ALL: [RuntimeFunction; 6] = [
        RuntimeFunction::RemF32,
        RuntimeFunction::RemF64,
        RuntimeFunction::PowI64,
        RuntimeFunction::PowU64,
        RuntimeFunction::SinF64,
        RuntimeFunction::CosF64,
    ];

    /// The function with a number. The number is its position in [`RuntimeFunction::ALL`], and its name in
    /// Cranelift's IR.
    pub(crate) fn from_number(number: u32) -> Option<RuntimeFunction> {
        RuntimeFunction::ALL.get(number as usize).copied()
    }

    /// The function's number.
    pub(crate) fn number(self) -> u32 {
        self as u32
    }

    /// The address of the function's code.
    pub(crate) fn address(self) -> *const u8 {
        self.facts().0
    }

    /// The number of parameters.
    pub(crate) fn arity(self) -> usize {
        self.facts().1
    }

    /// The type of the parameters and of the result.
    pub(crate) fn ty(self) -> Type {
        self.facts().2
    }

    /// The address, the number of parameters, their type, and the symbol in an object file.
    fn facts(self) -> (*const u8, usize, Type, Option<&'static str>) {
        use types::{F32, F64, I64};
        match self {
            RuntimeFunction::RemF32 => (rem_f32 as *const u8, 2, F32, Some("arrayjit_rt_rem_f32")),
            RuntimeFunction::RemF64 => (rem_f64 as *const u8, 2, F64, Some("arrayjit_rt_rem_f64")),
            RuntimeFunction::PowI64 => (pow_i64 as *const u8, 2, I64, Some("arrayjit_rt_pow_i64")),
            RuntimeFunction::PowU64 => (pow_u64 as *const u8, 2, I64, Some("arrayjit_rt_pow_u64")),
            RuntimeFunction::SinF64 => (sin_f64 as *const u8, 1, F64, None),
            RuntimeFunction::CosF64 => (cos_f64 as *const u8, 1, F64, None),
        }
    }
}

/// The address of a function.
type AddressOf = fn() -> *const u8;

/// The functions that Cranelift itself calls, with their symbols in object files. The fused multiply-add of
/// `f32` is none of them, as `emit::fma` emits it. Their numbers follow those of [`RuntimeFunction::ALL`].
const LIBRARY: [(LibCall, AddressOf, &str); 9] = [
    (LibCall::FmaF64, || fma_f64 as *const u8, "arrayjit_rt_fma_f64"),
    (LibCall::CeilF32, || ceil_f32 as *const u8, "arrayjit_rt_ceil_f32"),
    (LibCall::CeilF64, || ceil_f64 as *const u8, "arrayjit_rt_ceil_f64"),
    (LibCall::FloorF32, || floor_f32 as *const u8, "arrayjit_rt_floor_f32"),
    (LibCall::FloorF64, || floor_f64 as *const u8, "arrayjit_rt_floor_f64"),
    (LibCall::TruncF32, || trunc_f32 as *const u8, "arrayjit_rt_trunc_f32"),
    (LibCall::TruncF64, || trunc_f64 as *const u8, "arrayjit_rt_trunc_f64"),
    (LibCall::NearestF32, || nearest_f32 as *const u8, "arrayjit_rt_nearest_f32"),
    (LibCall::NearestF64, || nearest_f64 as *const u8, "arrayjit_rt_nearest_f64"),
];

/// The number of a function that Cranelift itself calls; `None` if kernels never need it.
pub(crate) fn library_number(called: LibCall) -> Option<u32> {
    let at = LIBRARY.iter().position(|(call, ..)| *call == called)?;
    Some((RuntimeFunction::ALL.len() + at) as u32)
}

/// The address of the function with a number, of either kind.
pub(crate) fn address(number: u32) -> Option<*const u8> {
    match RuntimeFunction::from_number(number) {
        Some(function) => Some(function.address()),
        None => library_function(number).map(|(_, address, _)| address()),
    }
}

/// The symbol of the function with a number in an object file, which `arrayjit-rt` defines. `None` for
/// functions that only a process has.
pub(crate) fn symbol(number: u32) -> Option<&'static str> {
    match RuntimeFunction::from_number(number) {
        Some(function) => function.facts().3,
        None => library_function(number).map(|(.., symbol)| *symbol),
    }
}

fn library_function(number: u32) -> Option<&'static (LibCall, AddressOf, &'static str)> {
    LIBRARY.get((number as usize).checked_sub(RuntimeFunction::ALL.len())?)
}

/// Defines functions with the calling convention of C. All arguments of a function have the type of its
/// result.
macro_rules! c_functions {
    ($($name:ident($($x:ident),+) -> $ty:ty = $value:expr;)*) => {
        $(extern "C" fn $name($($x: $ty),+) -> $ty {
            $value
        })*
    };
}

c_functions! {
    rem_f32(a, b) -> f32 = a % b;
    rem_f64(a, b) -> f64 = a % b;
    // The definitions in `lowered_ir::math` give the bits of the interpreter and of expanded code.
    sin_f64(x) -> f64 = math::unary_f64(UnaryOp::Sin, x);
    cos_f64(x) -> f64 = math::unary_f64(UnaryOp::Cos, x);
    fma_f64(a, b, c) -> f64 = a.mul_add(b, c);
    ceil_f32(x) -> f32 = x.ceil();
    ceil_f64(x) -> f64 = x.ceil();
    floor_f32(x) -> f32 = x.floor();
    floor_f64(x) -> f64 = x.floor();
    trunc_f32(x) -> f32 = x.trunc();
    trunc_f64(x) -> f64 = x.trunc();
    nearest_f32(x) -> f32 = x.round_ties_even();
    nearest_f64(x) -> f64 = x.round_ties_even();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_positions() {
        for function in RuntimeFunction::ALL {
            assert_eq!(RuntimeFunction::from_number(function.number()), Some(function));
        }
        assert_eq!(RuntimeFunction::from_number(RuntimeFunction::ALL.len() as u32), None);
    }
}
