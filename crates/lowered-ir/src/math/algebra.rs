//! The arithmetic in which transcendental functions are written: operations on one float format, and on
//! integers of the same width.

use crate::ir::UnaryOp;

/// One of the two formats with native arithmetic, with the numbers that describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `f32` and `i32`.
    Single,
    /// `f64` and `i64`.
    Double,
}

impl Format {
    /// Stored bits of the mantissa.
    pub const fn mantissa_bits(self) -> u32 {
        match self {
            Format::Single => 23,
            Format::Double => 52,
        }
    }

    /// The exponent field of 1.
    pub const fn bias(self) -> i64 {
        match self {
            Format::Single => 127,
            Format::Double => 1023,
        }
    }

    /// The integer whose only bit is the sign bit.
    pub const fn sign_bit(self) -> i64 {
        match self {
            Format::Single => i32::MIN as i64,
            Format::Double => i64::MIN,
        }
    }

    /// One and a half times the power of two at which the last bit of the mantissa is worth 1: adding it to a
    /// number of smaller magnitude rounds that number to an integer, whose value is then in the low bits of
    /// the sum.
    pub const fn rounder(self) -> f64 {
        match self {
            Format::Single => 12_582_912.0,
            Format::Double => 6_755_399_441_055_744.0,
        }
    }
}

/// Arithmetic in one format. Each method is one operation of the IR.
pub trait Algebra {
    /// A float of the format.
    type Float: Copy;
    /// A signed integer of the same width.
    type Int: Copy;
    /// A truth value.
    type Bool: Copy;

    /// The format of the floats.
    fn format(&self) -> Format;

    /// A constant, rounded to the format.
    fn float(&mut self, x: f64) -> Self::Float;
    /// An integer constant.
    fn int(&mut self, x: i64) -> Self::Int;

    /// `a + b`.
    fn add(&mut self, a: Self::Float, b: Self::Float) -> Self::Float;
    /// `a - b`.
    fn sub(&mut self, a: Self::Float, b: Self::Float) -> Self::Float;
    /// `a * b`.
    fn mul(&mut self, a: Self::Float, b: Self::Float) -> Self::Float;
    /// `a / b`.
    fn div(&mut self, a: Self::Float, b: Self::Float) -> Self::Float;
    /// `a * b + c`, rounded once.
    fn fma(&mut self, a: Self::Float, b: Self::Float, c: Self::Float) -> Self::Float;
    /// `b` if `b > a` or `b` is NaN, else `a`; cheapest if `b` is a constant.
    fn max(&mut self, a: Self::Float, b: Self::Float) -> Self::Float;
    /// `b` if `b < a` or `b` is NaN, else `a`; cheapest if `b` is a constant.
    fn min(&mut self, a: Self::Float, b: Self::Float) -> Self::Float;
    /// `-x`.
    fn neg(&mut self, x: Self::Float) -> Self::Float;
    /// `|x|`.
    fn abs(&mut self, x: Self::Float) -> Self::Float;
    /// The nearest integer, ties to even.
    fn round_even(&mut self, x: Self::Float) -> Self::Float;

    /// `a < b`.
    fn lt(&mut self, a: Self::Float, b: Self::Float) -> Self::Bool;
    /// `a == b`.
    fn eq(&mut self, a: Self::Float, b: Self::Float) -> Self::Bool;
    /// `a == b` of integers.
    fn int_eq(&mut self, a: Self::Int, b: Self::Int) -> Self::Bool;
    /// `c ? a : b`.
    fn select(&mut self, c: Self::Bool, a: Self::Float, b: Self::Float) -> Self::Float;
    /// `c ? a : b` of integers.
    fn int_select(&mut self, c: Self::Bool, a: Self::Int, b: Self::Int) -> Self::Int;

    /// The bits of a float.
    fn bits(&mut self, x: Self::Float) -> Self::Int;
    /// The float of these bits.
    fn with_bits(&mut self, x: Self::Int) -> Self::Float;
    /// The float nearest to an integer.
    fn to_float(&mut self, x: Self::Int) -> Self::Float;
    /// `a + b`, wrapping.
    fn int_add(&mut self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// `a - b`, wrapping.
    fn int_sub(&mut self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// `a * b`, wrapping.
    fn int_mul(&mut self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// Bitwise and.
    fn and(&mut self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// Bitwise or.
    fn or(&mut self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// Left shift by less than the width.
    fn shl(&mut self, x: Self::Int, by: u32) -> Self::Int;
    /// Arithmetic right shift by less than the width.
    fn shr(&mut self, x: Self::Int, by: u32) -> Self::Int;
    /// Left shift by an amount modulo the width.
    fn shl_by(&mut self, x: Self::Int, by: Self::Int) -> Self::Int;
    /// Arithmetic right shift by an amount modulo the width.
    fn shr_by(&mut self, x: Self::Int, by: Self::Int) -> Self::Int;

    /// The operation as a single step, a call. The result is used only for arguments that the other steps do
    /// not handle.
    fn call(&mut self, op: UnaryOp, x: Self::Float) -> Self::Float;
}

/// `c₀ + c₁ x + c₂ x² + …`, by fma from the highest coefficient.
pub(super) fn polynomial<A: Algebra>(a: &mut A, x: A::Float, coefficients: &[f64]) -> A::Float {
    let (last, rest) = coefficients.split_last().unwrap_or((&0.0, &[]));
    let mut sum = a.float(*last);
    for &c in rest.iter().rev() {
        let c = a.float(c);
        sum = a.fma(sum, x, c);
    }
    sum
}

/// `x·k + b` for a constant `k`.
pub(super) fn fma_const<A: Algebra>(a: &mut A, x: A::Float, k: f64, b: A::Float) -> A::Float {
    let k = a.float(k);
    a.fma(x, k, b)
}

/// 1 with the sign of `x`. Multiplying a NaN by it gives the NaN that arithmetic yields; changing the sign
/// bit of a NaN might give another.
pub(super) fn signed_one<A: Algebra>(a: &mut A, x: A::Float) -> A::Float {
    let mask = a.format().sign_bit();
    let (bits, mask) = (a.bits(x), a.int(mask));
    let sign = a.and(bits, mask);
    let one = a.float(1.0);
    let one = a.bits(one);
    let signed = a.or(one, sign);
    a.with_bits(signed)
}

/// `x + y` as rounded sum and exact error, for `|x| ≥ |y|` or `x = 0`.
pub(super) fn fast_two_sum<A: Algebra>(a: &mut A, x: A::Float, y: A::Float) -> (A::Float, A::Float) {
    let sum = a.add(x, y);
    let seen = a.sub(sum, x);
    let error = a.sub(y, seen);
    (sum, error)
}

/// `x + y` as rounded sum and exact error.
pub(super) fn two_sum<A: Algebra>(a: &mut A, x: A::Float, y: A::Float) -> (A::Float, A::Float) {
    let sum = a.add(x, y);
    let y_seen = a.sub(sum, x);
    let x_seen = a.sub(sum, y_seen);
    let (x_lost, y_lost) = (a.sub(x, x_seen), a.sub(y, y_seen));
    let error = a.add(x_lost, y_lost);
    (sum, error)
}

/// `x · y` as rounded product and exact error. In `f32` the numbers are split into halves of 12 bits, whose
/// products are exact, because targets that compute in `f32` only may round an `fma` twice.
pub(super) fn two_product<A: Algebra>(a: &mut A, x: A::Float, y: A::Float) -> (A::Float, A::Float) {
    let product = a.mul(x, y);
    let error = match a.format() {
        Format::Single => product_error_by_halves(a, x, y, product),
        Format::Double => {
            let negated = a.neg(product);
            a.fma(x, y, negated)
        }
    };
    (product, error)
}

/// `x·y − product`, after Dekker.
fn product_error_by_halves<A: Algebra>(a: &mut A, x: A::Float, y: A::Float, product: A::Float) -> A::Float {
    let ((x_high, x_low), (y_high, y_low)) = (halves(a, x), halves(a, y));
    let [first, second, third, fourth] =
        [(x_high, y_high), (x_high, y_low), (x_low, y_high), (x_low, y_low)].map(|(x, y)| a.mul(x, y));
    let error = a.sub(first, product);
    let error = a.add(error, second);
    let error = a.add(error, third);
    a.add(error, fourth)
}

/// A number as the sum of two floats: the upper 12 bits of its significand, and the other 12 bits.
fn halves<A: Algebra>(a: &mut A, x: A::Float) -> (A::Float, A::Float) {
    let (bits, mask) = (a.bits(x), a.int(!0xfff));
    let high = a.and(bits, mask);
    let high = a.with_bits(high);
    let low = a.sub(x, high);
    (high, low)
}
