//! The operations on integers of every width and sign, written once.

use tnode::{DType, Scalar};

use crate::ir::{BinaryOp, UnaryOp};

/// A native integer with the methods that its operations need.
pub(super) trait NativeInteger: Copy + Ord {
    const ZERO: Self;
    const ONE: Self;
    fn load(x: Scalar) -> Self;
    fn store(self) -> Scalar;
    /// The result of an operation that wraps or truncates, or of a bit operation; `a` for any other
    /// operation.
    fn arithmetic(op: BinaryOp, a: Self, b: Self) -> Self;
    fn wrapping_neg(self) -> Self;
    fn wrapping_abs(self) -> Self;
    fn is_odd(self) -> bool;
}

pub(super) fn unary<T: NativeInteger>(op: UnaryOp, x: T) -> T {
    use UnaryOp::*;
    match op {
        Neg => x.wrapping_neg(),
        Abs => x.wrapping_abs(),
        Not => truth(x == T::ZERO),
        Relu => x.max(T::ZERO),
        Satur01 => x.max(T::ZERO).min(T::ONE),
        Recip => T::arithmetic(BinaryOp::Div, T::ONE, x),
        Trunc | Floor | RoundEven => x,
        Exp | Exp2 | Expm1 | Log | Log1p | Log2 | Sin | Cos | Tanh | Sigmoid | Atan | Erf | Erfc | Sqrt
        | RecipSqrt => through_f64(op, x),
    }
}

fn through_f64<T: NativeInteger>(op: UnaryOp, x: T) -> T {
    let x = x.store();
    T::load(super::unary(op, x.convert(DType::F64)).convert(x.dtype()))
}

/// The result of an operation that is no comparison; the caller handles comparisons.
pub(super) fn binary<T: NativeInteger>(op: BinaryOp, a: T, b: T) -> T {
    use BinaryOp::*;
    match op {
        Add | Sub | Mul | Div | Rem | BitAnd | BitOr | BitXor | Shl | Shr => T::arithmetic(op, a, b),
        Pow => pow(a, b),
        Max => a.max(b),
        Min => a.min(b),
        ReluGate => pick(a > T::ZERO, b),
        Satur01Gate => pick(T::ZERO < a && a < T::ONE, b),
        And => truth(a != T::ZERO && b != T::ZERO),
        Or => truth(a != T::ZERO || b != T::ZERO),
        // Generators are defined on `u32x4` alone.
        Arg1 | Threefry | ThreefryCrypto | ThreefryLight => a,
        Arg2 => b,
        Lt => truth(a < b),
        Le => truth(a <= b),
        Eq => truth(a == b),
        Ne => truth(a != b),
    }
}

/// `base` to the power of `exponent`: by squaring, with products that wrap. A negative exponent gives `1 /
/// baseⁿ` truncated, where `baseⁿ` is the true power and not the wrapped one. So the result is 1 or −1 for
/// the bases 1 and −1, and 0 for all other bases, 0 included.
fn pow<T: NativeInteger>(base: T, exponent: T) -> T {
    if exponent < T::ZERO {
        let minus_one = T::ONE.wrapping_neg();
        return match base {
            _ if base == T::ONE => T::ONE,
            _ if base == minus_one && exponent.is_odd() => minus_one,
            _ if base == minus_one => T::ONE,
            _ => T::ZERO,
        };
    }
    let (mut result, mut square, mut left) = (T::ONE, base, exponent);
    while left > T::ZERO {
        if left.is_odd() {
            result = T::arithmetic(BinaryOp::Mul, result, square);
        }
        square = T::arithmetic(BinaryOp::Mul, square, square);
        left = T::arithmetic(BinaryOp::Shr, left, T::ONE);
    }
    result
}

fn pick<T: NativeInteger>(condition: bool, x: T) -> T {
    if condition { x } else { T::ZERO }
}

fn truth<T: NativeInteger>(condition: bool) -> T {
    pick(condition, T::ONE)
}

macro_rules! native {
    ($($type:ident as $unsigned:ident: $dtype:ident, $abs:expr;)*) => {$(
        impl NativeInteger for $type {
            const ZERO: Self = 0;
            const ONE: Self = 1;

            #[inline]
            fn load(x: Scalar) -> Self {
                x.bits() as $type
            }

            #[inline]
            fn store(self) -> Scalar {
                Scalar::new(DType::$dtype, u128::from(self as $unsigned))
            }

            #[inline]
            fn arithmetic(op: BinaryOp, a: Self, b: Self) -> Self {
                match op {
                    BinaryOp::Add => a.wrapping_add(b),
                    BinaryOp::Sub => a.wrapping_sub(b),
                    BinaryOp::Mul => a.wrapping_mul(b),
                    BinaryOp::Div if b == 0 => 0,
                    BinaryOp::Div => a.wrapping_div(b),
                    BinaryOp::Rem if b == 0 => 0,
                    BinaryOp::Rem => a.wrapping_rem(b),
                    BinaryOp::BitAnd => a & b,
                    BinaryOp::BitOr => a | b,
                    BinaryOp::BitXor => a ^ b,
                    // Only the low bits of `b` count, whatever its width and sign.
                    BinaryOp::Shl => a.wrapping_shl(b as u32),
                    BinaryOp::Shr => a.wrapping_shr(b as u32),
                    _ => a,
                }
            }

            #[inline]
            fn wrapping_neg(self) -> Self {
                self.wrapping_neg()
            }

            #[inline]
            fn wrapping_abs(self) -> Self {
                let abs: fn($type) -> $type = $abs;
                abs(self)
            }

            #[inline]
            fn is_odd(self) -> bool {
                self & 1 == 1
            }
        }
    )*};
}

native! {
    u8 as u8: U8, |x| x;
    u16 as u16: U16, |x| x;
    u32 as u32: U32, |x| x;
    u64 as u64: U64, |x| x;
    i8 as u8: I8, i8::wrapping_abs;
    i32 as u32: I32, i32::wrapping_abs;
    i64 as u64: I64, i64::wrapping_abs;
}
