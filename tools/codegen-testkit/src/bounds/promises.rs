//! The error bound of each operation: how far a device's result may be from the interpreter's, for the same
//! operands.
//!
//! The unit is the last place of the interpreter's result, which is correctly rounded for arithmetic: within
//! half a unit of the exact result. The bounds follow "floating point accuracy" of the WGSL specification;
//! for functions that our code generators compute by polynomials, they follow the accuracy of these:
//!
//! | operation | units | why |
//! |---|---|---|
//! | `+ - *`, conversions | 0 if the result is exact, else 1 | correctly rounded, but in either direction |
//! | `a * b + c` contracted | | the rounding of the product, which is counted already |
//! | `fma` | 1, and 1 of the product | may be two operations |
//! | `/`, `recip` | 3 | 2.5 from the truth |
//! | `sqrt` | 5 | the reciprocal of `inverseSqrt`, which has 2, by a division |
//! | `recip_sqrt` | 8 | both |
//! | `exp log sin erf …`, `pow` | 8 | polynomials, at most 4 off on either side |
//! | `erfc` | 128 | 120 where an `fma` is rounded twice |
//! | `%` | 1 | by our own exact steps |
//! | `max min neg abs floor …`, comparisons, gates | 0 | exact |
//!
//! Types that compute in `f32` round its result, whose error is far below half a unit of theirs, so the bound
//! is at most 1. Subnormal operands and results of `f16`, `bf16`, `f32` and `f64` may be flushed to zero.

use lowered_ir::eval::computes_in;
use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};
use tnode::{DType, Scalar};

/// The units of functions that are computed by polynomials.
const POLYNOMIAL: f64 = 8.0;
/// The units of `erfc`.
const COMPLEMENT: f64 = 128.0;
/// The units of a division.
const DIVISION: f64 = 3.0;
/// The units of a square root.
const ROOT: f64 = 5.0;

/// The distance between a float and its neighbor away from zero; 0 if `x` is not a finite float.
pub(super) fn last_place(x: f64, dtype: DType) -> f64 {
    let Some(bits) = dtype.significand_bits().filter(|_| x.is_finite()) else { return 0.0 };
    let exponent = if x == 0.0 { i32::MIN } else { x.abs().log2().floor() as i32 };
    2f64.powi(exponent.max(smallest_exponent(dtype)) - (bits as i32 - 1))
}

/// The exponent of the smallest normal number of a float type.
pub(super) fn smallest_exponent(dtype: DType) -> i32 {
    match dtype {
        DType::F64 => -1022,
        DType::F32 | DType::Bf16 => -126,
        DType::F16 | DType::Fp8E5m2 => -14,
        DType::Fp8E4m3fn => -6,
        DType::Bool
        | DType::U8
        | DType::I8
        | DType::U16
        | DType::I32
        | DType::U32
        | DType::I64
        | DType::U64
        | DType::U32x4 => 0,
    }
}

/// The error of flushing the number to zero: its magnitude if it is subnormal and its type may be flushed.
pub(super) fn flushed(x: Scalar) -> f64 {
    let may = matches!(x.dtype(), DType::F16 | DType::Bf16 | DType::F32 | DType::F64);
    let magnitude = x.as_f64().abs();
    if may && magnitude < 2f64.powi(smallest_exponent(x.dtype())) { magnitude } else { 0.0 }
}

/// `count` units of the last place of `result`, as a distance. Types that compute in a wider type deviate at
/// most by their own rounding.
fn units(count: f64, result: Scalar) -> f64 {
    let dtype = result.dtype();
    let count = if computes_in(dtype) == dtype { count } else { count.min(1.0) };
    count * last_place(result.as_f64(), dtype)
}

/// The error bound of `result = op x`.
pub(super) fn unary(op: UnaryOp, result: Scalar) -> f64 {
    match op {
        UnaryOp::Erfc => units(COMPLEMENT, result),
        _ if op.is_transcendental() => units(POLYNOMIAL, result),
        UnaryOp::Sqrt => units(ROOT, result),
        UnaryOp::Recip => units(DIVISION, result),
        UnaryOp::RecipSqrt => units(ROOT + DIVISION, result),
        _ => 0.0,
    }
}

/// The error bound of `result = a op b`.
pub(super) fn binary(op: BinaryOp, a: Scalar, b: Scalar, result: Scalar) -> f64 {
    use BinaryOp::{
        Add, And, Arg1, Arg2, BitAnd, BitOr, BitXor, Div, Eq, Le, Lt, Max, Min, Mul, Ne, Or, Pow, ReluGate,
        Rem, Satur01Gate, Shl, Shr, Sub, Threefry, ThreefryCrypto, ThreefryLight,
    };
    match op {
        Add if is_sum(a.as_f64(), b.as_f64(), result) => 0.0,
        Sub if is_sum(a.as_f64(), -b.as_f64(), result) => 0.0,
        Mul if is_product(a.as_f64(), b.as_f64(), result) => 0.0,
        Add | Sub | Mul | Rem => units(1.0, result),
        Div => units(DIVISION, result),
        Pow => units(POLYNOMIAL, result),
        Max | Min | ReluGate | Satur01Gate | Lt | Le | Eq | Ne | And | Or | Arg1 | Arg2 => 0.0,
        BitAnd | BitOr | BitXor | Shl | Shr | Threefry | ThreefryCrypto | ThreefryLight => 0.0,
    }
}

/// The error bound of `result = op(a, b, c)`.
pub(super) fn ternary(op: TernaryOp, a: Scalar, b: Scalar, c: Scalar, result: Scalar) -> f64 {
    let product = a.as_f64() * b.as_f64();
    let rounded = Scalar::from_f64(result.dtype(), product);
    match op {
        TernaryOp::Where => 0.0,
        TernaryOp::Fma if is_product(a.as_f64(), b.as_f64(), rounded) => {
            if is_sum(product, c.as_f64(), result) { 0.0 } else { units(1.0, result) }
        }
        TernaryOp::Fma => units(1.0, result) + units(1.0, rounded),
        TernaryOp::Mul3 => units(2.0, result),
    }
}

/// The error bound of a conversion: 0 if it preserves the value.
pub(super) fn convert(arg: Scalar, result: Scalar) -> f64 {
    if result.convert(arg.dtype()) == arg { 0.0 } else { units(1.0, result) }
}

/// Whether `result` is exactly the sum.
fn is_sum(a: f64, b: f64, result: Scalar) -> bool {
    let sum = a + b;
    // The rounding error, by Knuth's two-sum.
    let b_kept = sum - a;
    let lost = (a - (sum - b_kept)) + (b - b_kept);
    sum == result.as_f64() && lost == 0.0
}

/// Whether `result` is exactly the product.
fn is_product(a: f64, b: f64, result: Scalar) -> bool {
    let product = a * b;
    product == result.as_f64() && a.mul_add(b, -product) == 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32(x: f32) -> Scalar {
        Scalar::from_f64(DType::F32, x.into())
    }

    #[test]
    fn units_are_those_of_the_type() {
        assert_eq!(last_place(1.0, DType::F32), 2f64.powi(-23));
        assert_eq!(last_place(1.5, DType::F16), 2f64.powi(-10));
        assert_eq!(last_place(-3.0, DType::Bf16), 2f64.powi(-6));
        assert_eq!(last_place(0.0, DType::F32), 2f64.powi(-149));
        assert_eq!(last_place(f64::INFINITY, DType::F32), 0.0);
        assert_eq!(last_place(3.0, DType::I32), 0.0);
    }

    #[test]
    fn what_is_exact_owes_nothing() {
        assert_eq!(binary(BinaryOp::Add, f32(1.0), f32(2.0), f32(3.0)), 0.0);
        let tenths = f32(0.1 + 0.2);
        assert_eq!(binary(BinaryOp::Add, f32(0.1), f32(0.2), tenths), 2f64.powi(-25));
        assert_eq!(binary(BinaryOp::Mul, f32(0.5), f32(0.3), f32(0.15)), 0.0);
        assert!(binary(BinaryOp::Mul, f32(0.1), f32(0.3), f32(0.1 * 0.3)) > 0.0);
        assert_eq!(ternary(TernaryOp::Fma, f32(2.0), f32(3.0), f32(4.0), f32(10.0)), 0.0);
        assert_eq!(convert(f32(0.5), Scalar::from_f64(DType::F16, 0.5)), 0.0);
        assert!(convert(f32(0.1), Scalar::from_f64(DType::F16, 0.1)) > 0.0);
    }

    #[test]
    fn divisions_owe_more_and_narrow_types_one_unit() {
        assert_eq!(binary(BinaryOp::Div, f32(4.0), f32(4.0), f32(1.0)), 3.0 * 2f64.powi(-23));
        let half = |x| Scalar::from_f64(DType::F16, x);
        assert_eq!(unary(UnaryOp::Exp, half(1.0)), 2f64.powi(-10));
    }

    #[test]
    fn subnormals_may_be_zeros_where_the_machine_has_the_type() {
        assert_eq!(flushed(f32(1e-40)), f32(1e-40).as_f64());
        assert_eq!(flushed(f32(1.0)), 0.0);
        assert_eq!(flushed(Scalar::from_f64(DType::Fp8E4m3fn, 2f64.powi(-9))), 0.0);
    }
}
