//! Functions that kernels call for operations without instructions. They compute the bits of the definition
//! in every program, and do not unwind.

/// Defines functions with the calling convention of C, whose symbols are their names behind `arrayjit_rt_`.
/// All arguments of a function have the type of its result.
macro_rules! c_functions {
    ($($symbol:literal $name:ident($($x:ident),+) -> $ty:ty = $value:expr;)*) => {
        $(
            #[allow(unsafe_code, reason = "the symbol is of this crate, and no other may define it")]
            // SAFETY: the name is that of no function of another library.
            #[unsafe(export_name = $symbol)]
            extern "C" fn $name($($x: $ty),+) -> $ty {
                $value
            }
        )*
    };
}

c_functions! {
    "arrayjit_rt_rem_f32" rem_f32(a, b) -> f32 = libm::fmodf(a, b);
    "arrayjit_rt_rem_f64" rem_f64(a, b) -> f64 = libm::fmod(a, b);
    "arrayjit_rt_pow_i64" pow_i64(base, exponent) -> i64 = signed_power(base, exponent);
    "arrayjit_rt_pow_u64" pow_u64(base, exponent) -> u64 = power(base, exponent);
    "arrayjit_rt_fma_f64" fma_f64(a, b, c) -> f64 = libm::fma(a, b, c);
    "arrayjit_rt_ceil_f32" ceil_f32(x) -> f32 = libm::ceilf(x);
    "arrayjit_rt_ceil_f64" ceil_f64(x) -> f64 = libm::ceil(x);
    "arrayjit_rt_floor_f32" floor_f32(x) -> f32 = libm::floorf(x);
    "arrayjit_rt_floor_f64" floor_f64(x) -> f64 = libm::floor(x);
    "arrayjit_rt_trunc_f32" trunc_f32(x) -> f32 = libm::truncf(x);
    "arrayjit_rt_trunc_f64" trunc_f64(x) -> f64 = libm::trunc(x);
    "arrayjit_rt_nearest_f32" nearest_f32(x) -> f32 = libm::rintf(x);
    "arrayjit_rt_nearest_f64" nearest_f64(x) -> f64 = libm::rint(x);
}

/// `base` to the power of `exponent`; a negative exponent gives the truncated reciprocal of the true power.
fn signed_power(base: i64, exponent: i64) -> i64 {
    match (base, exponent) {
        (1, ..0) => 1,
        (-1, ..0) => 1 - 2 * (exponent & 1),
        (_, ..0) => 0,
        _ => power(base as u64, exponent as u64) as i64,
    }
}

/// `base` to the power of `exponent`, wrapping; by squaring.
fn power(base: u64, exponent: u64) -> u64 {
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
