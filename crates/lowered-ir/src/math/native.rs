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

/// Defines methods of one expression.
macro_rules! methods {
    ($(fn $name:ident($($parameter:ident: $type:ty),*) -> $result:ty $body:block)*) => {
        $(
            #[inline(always)]
            fn $name(&mut self, $($parameter: $type),*) -> $result $body
        )*
    };
}

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

            methods! {
                fn float(x: f64) -> $float { x as $float }
                fn int(x: i64) -> $int { x as $int }
                fn add(a: $float, b: $float) -> $float { a + b }
                fn sub(a: $float, b: $float) -> $float { a - b }
                fn mul(a: $float, b: $float) -> $float { a * b }
                fn div(a: $float, b: $float) -> $float { a / b }
                fn fma(a: $float, b: $float, c: $float) -> $float { $fma(a, b, c) }
                fn max(a: $float, b: $float) -> $float { if b > a || b.is_nan() { b } else { a } }
                fn min(a: $float, b: $float) -> $float { if b < a || b.is_nan() { b } else { a } }
                fn neg(x: $float) -> $float { -x }
                fn abs(x: $float) -> $float { x.abs() }
                fn round_even(x: $float) -> $float { x.round_ties_even() }
                fn lt(a: $float, b: $float) -> bool { a < b }
                fn eq(a: $float, b: $float) -> bool { a == b }
                fn int_eq(a: $int, b: $int) -> bool { a == b }
                fn select(c: bool, a: $float, b: $float) -> $float { if c { a } else { b } }
                fn int_select(c: bool, a: $int, b: $int) -> $int { if c { a } else { b } }
                fn bits(x: $float) -> $int { x.to_bits() as $int }
                fn with_bits(x: $int) -> $float { $float::from_bits(x as $bits) }
                fn to_float(x: $int) -> $float { x as $float }
                fn int_add(a: $int, b: $int) -> $int { a.wrapping_add(b) }
                fn int_sub(a: $int, b: $int) -> $int { a.wrapping_sub(b) }
                fn int_mul(a: $int, b: $int) -> $int { a.wrapping_mul(b) }
                fn and(a: $int, b: $int) -> $int { a & b }
                fn or(a: $int, b: $int) -> $int { a | b }
                fn shl(x: $int, by: u32) -> $int { x.wrapping_shl(by) }
                fn shr(x: $int, by: u32) -> $int { x.wrapping_shr(by) }
                fn shl_by(x: $int, by: $int) -> $int { x.wrapping_shl(by as u32) }
                fn shr_by(x: $int, by: $int) -> $int { x.wrapping_shr(by as u32) }
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
