//! The operations on `f32` and `f64`, written once for both types.

use tnode::{DType, Scalar};

use crate::ir::{BinaryOp, UnaryOp};
use crate::math::{pow_f32, pow_f64, unary_f32, unary_f64};

/// A native float with the methods that its operations need.
pub(super) trait NativeFloat: Copy + PartialOrd {
    const ZERO: Self;
    const ONE: Self;
    fn load(x: Scalar) -> Self;
    fn store(self) -> Scalar;
    /// The value; every NaN is replaced by the positive quiet NaN without payload.
    fn canonical(self) -> Self;
    fn arithmetic(op: BinaryOp, a: Self, b: Self) -> Self;
    fn fma(self, b: Self, c: Self) -> Self;
    fn exactly_rounded(op: UnaryOp, x: Self) -> Self;
    fn transcendental(op: UnaryOp, x: Self) -> Self;
    fn pow(self, exponent: Self) -> Self;
    fn bits_of(op: BinaryOp, a: Self, b: Self) -> Self;
}

pub(super) fn unary<T: NativeFloat>(op: UnaryOp, x: T) -> T {
    use UnaryOp::*;
    match op {
        Not => truth(x == T::ZERO),
        Relu => max(x, T::ZERO),
        Satur01 => min(max(x, T::ZERO), T::ONE),
        Exp | Exp2 | Expm1 | Log | Log1p | Log2 | Sin | Cos | Tanh | Sigmoid | Atan | Erf | Erfc => {
            T::transcendental(op, x).canonical()
        }
        Neg | Abs => T::exactly_rounded(op, x),
        Sqrt | Trunc | Floor | RoundEven => T::exactly_rounded(op, x).canonical(),
        Recip => T::arithmetic(BinaryOp::Div, T::ONE, x).canonical(),
        RecipSqrt => T::arithmetic(BinaryOp::Div, T::ONE, T::exactly_rounded(Sqrt, x)).canonical(),
    }
}

/// The result of an operation that is no comparison; the caller handles comparisons.
pub(super) fn binary<T: NativeFloat>(op: BinaryOp, a: T, b: T) -> T {
    use BinaryOp::*;
    match op {
        Add | Sub | Mul | Div | Rem => T::arithmetic(op, a, b).canonical(),
        Pow => a.pow(b).canonical(),
        Max => max(a, b),
        Min => min(a, b),
        ReluGate => pick(a > T::ZERO, b),
        Satur01Gate => pick(T::ZERO < a && a < T::ONE, b),
        And => truth(a != T::ZERO && b != T::ZERO),
        Or => truth(a != T::ZERO || b != T::ZERO),
        BitAnd | BitOr | BitXor | Shl | Shr => T::bits_of(op, a, b),
        // Generators are defined on `u32x4` alone.
        Arg1 | Threefry | ThreefryCrypto | ThreefryLight => a,
        Arg2 => b,
        Lt => truth(a < b),
        Le => truth(a <= b),
        Eq => truth(a == b),
        Ne => truth(a != b),
    }
}

fn max<T: NativeFloat>(a: T, b: T) -> T {
    if b > a || is_nan(b) { b } else { a }
}

fn min<T: NativeFloat>(a: T, b: T) -> T {
    if b < a || is_nan(b) { b } else { a }
}

#[expect(clippy::eq_op, reason = "only NaN differs from itself")]
fn is_nan<T: NativeFloat>(x: T) -> bool {
    x != x
}

fn pick<T: NativeFloat>(condition: bool, x: T) -> T {
    if condition { x } else { T::ZERO }
}

fn truth<T: NativeFloat>(condition: bool) -> T {
    pick(condition, T::ONE)
}

macro_rules! native {
    ($type:ident, $bits:ident, $dtype:ident, $unary:ident, $pow:ident) => {
        impl NativeFloat for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            #[inline]
            fn load(x: Scalar) -> Self {
                $type::from_bits(x.bits() as $bits)
            }

            #[inline]
            fn store(self) -> Scalar {
                Scalar::new(DType::$dtype, u128::from(self.to_bits()))
            }

            #[inline]
            fn canonical(self) -> Self {
                if self.is_nan() { $type::NAN } else { self }
            }

            #[inline]
            fn arithmetic(op: BinaryOp, a: Self, b: Self) -> Self {
                match op {
                    BinaryOp::Sub => a - b,
                    BinaryOp::Mul => a * b,
                    BinaryOp::Div => a / b,
                    BinaryOp::Rem => a % b,
                    _ => a + b,
                }
            }

            #[inline]
            fn fma(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }

            #[inline]
            fn exactly_rounded(op: UnaryOp, x: Self) -> Self {
                match op {
                    UnaryOp::Neg => -x,
                    UnaryOp::Abs => x.abs(),
                    UnaryOp::Sqrt => x.sqrt(),
                    UnaryOp::Floor => x.floor(),
                    UnaryOp::RoundEven => x.round_ties_even(),
                    _ => x.trunc(),
                }
            }

            fn transcendental(op: UnaryOp, x: Self) -> Self {
                $unary(op, x)
            }

            fn pow(self, exponent: Self) -> Self {
                $pow(self, exponent)
            }

            fn bits_of(op: BinaryOp, a: Self, b: Self) -> Self {
                $type::from_bits(super::integer::binary(op, a.to_bits(), b.to_bits()))
            }
        }
    };
}

native!(f32, u32, F32, unary_f32, pow_f32);
native!(f64, u64, F64, unary_f64, pow_f64);
