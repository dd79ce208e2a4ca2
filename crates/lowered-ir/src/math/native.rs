//! The algebra of native floats: computes at once.

use super::{Algebra, Format, pow_of_single, trig, unary_of_single};
use crate::ir::UnaryOp;

/// Native arithmetic in `T`, which is `f32` or `f64`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native<T>(std::marker::PhantomData<T>);

/// A transcendental operation on `f32`; `x` itself for the other operations.
pub(crate) fn unary_f32(op: UnaryOp, x: f32) -> f32 {
    if super::single_computes_in_double(op) {
        return unary_of_single(&mut Native::<f64>::default(), op, f64::from(x)).map_or(x, |y| y as f32);
    }
    super::unary(&mut Native::<f32>::default(), op, x).unwrap_or(x)
}

/// A transcendental operation on `f64`; `x` itself for the other operations.
pub fn unary_f64(op: UnaryOp, x: f64) -> f64 {
    super::unary(&mut Native::<f64>::default(), op, x).unwrap_or(x)
}

pub(crate) fn pow_f32(x: f32, y: f32) -> f32 {
    pow_of_single(&mut Native::<f64>::default(), f64::from(x), f64::from(y)) as f32
}

pub(crate) fn pow_f64(x: f64, y: f64) -> f64 {
    super::pow(&mut Native::<f64>::default(), x, y)
}

/// `f32` arithmetic that rounds an `fma` twice, as shading languages allow; tests measure with it how much
/// accuracy the functions lose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unfused;

macro_rules! native {
    ($algebra:ty, $float:ident, $int:ident, $bits:ident, $format:ident, $fma:expr) => {
        impl Algebra for $algebra {
            type Float = $float;
            type Int = $int;
            type Bool = bool;

            #[inline(always)]
            fn format(&self) -> Format {
                Format::$format
            }
            #[inline(always)]
            fn float(&mut self, x: f64) -> $float {
                x as $float
            }
            #[inline(always)]
            fn int(&mut self, x: i64) -> $int {
                x as $int
            }
            #[inline(always)]
            fn add(&mut self, a: $float, b: $float) -> $float {
                a + b
            }
            #[inline(always)]
            fn sub(&mut self, a: $float, b: $float) -> $float {
                a - b
            }
            #[inline(always)]
            fn mul(&mut self, a: $float, b: $float) -> $float {
                a * b
            }
            #[inline(always)]
            fn div(&mut self, a: $float, b: $float) -> $float {
                a / b
            }
            #[inline(always)]
            fn fma(&mut self, a: $float, b: $float, c: $float) -> $float {
                $fma(a, b, c)
            }
            #[inline(always)]
            fn max(&mut self, a: $float, b: $float) -> $float {
                if b > a || b.is_nan() { b } else { a }
            }
            #[inline(always)]
            fn min(&mut self, a: $float, b: $float) -> $float {
                if b < a || b.is_nan() { b } else { a }
            }
            #[inline(always)]
            fn neg(&mut self, x: $float) -> $float {
                -x
            }
            #[inline(always)]
            fn abs(&mut self, x: $float) -> $float {
                x.abs()
            }
            #[inline(always)]
            fn round_even(&mut self, x: $float) -> $float {
                x.round_ties_even()
            }
            #[inline(always)]
            fn lt(&mut self, a: $float, b: $float) -> bool {
                a < b
            }
            #[inline(always)]
            fn eq(&mut self, a: $float, b: $float) -> bool {
                a == b
            }
            #[inline(always)]
            fn int_eq(&mut self, a: $int, b: $int) -> bool {
                a == b
            }
            #[inline(always)]
            fn select(&mut self, c: bool, a: $float, b: $float) -> $float {
                if c { a } else { b }
            }
            #[inline(always)]
            fn int_select(&mut self, c: bool, a: $int, b: $int) -> $int {
                if c { a } else { b }
            }
            #[inline(always)]
            fn bits(&mut self, x: $float) -> $int {
                x.to_bits() as $int
            }
            #[inline(always)]
            fn with_bits(&mut self, x: $int) -> $float {
                $float::from_bits(x as $bits)
            }
            #[inline(always)]
            fn to_float(&mut self, x: $int) -> $float {
                x as $float
            }
            #[inline(always)]
            fn int_add(&mut self, a: $int, b: $int) -> $int {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn int_sub(&mut self, a: $int, b: $int) -> $int {
                a.wrapping_sub(b)
            }
            #[inline(always)]
            fn int_mul(&mut self, a: $int, b: $int) -> $int {
                a.wrapping_mul(b)
            }
            #[inline(always)]
            fn and(&mut self, a: $int, b: $int) -> $int {
                a & b
            }
            #[inline(always)]
            fn or(&mut self, a: $int, b: $int) -> $int {
                a | b
            }
            #[inline(always)]
            fn shl(&mut self, x: $int, by: u32) -> $int {
                x.wrapping_shl(by)
            }
            #[inline(always)]
            fn shr(&mut self, x: $int, by: u32) -> $int {
                x.wrapping_shr(by)
            }
            #[inline(always)]
            fn shl_by(&mut self, x: $int, by: $int) -> $int {
                x.wrapping_shl(by as u32)
            }
            #[inline(always)]
            fn shr_by(&mut self, x: $int, by: $int) -> $int {
                x.wrapping_shr(by as u32)
            }
            fn call(&mut self, op: UnaryOp, x: $float) -> $float {
                trig::of_large(op, f64::from(x)) as $float
            }
        }
    };
}

native!(Native<f32>, f32, i32, u32, Single, f32::mul_add);
native!(Native<f64>, f64, i64, u64, Double, f64::mul_add);
native!(Unfused, f32, i32, u32, Single, |a: f32, b: f32, c: f32| a * b + c);
