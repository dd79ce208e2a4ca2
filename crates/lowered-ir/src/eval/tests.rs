//! Hand-computed results of operations, by type.

use super::*;

fn f(x: f32) -> Scalar {
    Scalar::from_f64(DType::F32, f64::from(x))
}

fn int(dtype: DType, x: i64) -> Scalar {
    Scalar::from_i64(dtype, x)
}

const NAN: f32 = f32::NAN;

#[test]
fn extremes_return_nan_and_the_first_of_equal_operands() {
    for op in [BinaryOp::Max, BinaryOp::Min] {
        for dtype in DType::ALL.into_iter().filter(|d| d.is_float()) {
            let [nan, one] = [f64::NAN, 1.0].map(|x| Scalar::from_f64(dtype, x));
            for (a, b) in [(nan, one), (one, nan), (nan, nan)] {
                assert!(binary(op, a, b).as_f64().is_nan(), "{op} {a:?} {b:?}");
            }
        }
        assert_eq!(binary(op, f(0.0), f(-0.0)), f(0.0));
        assert_eq!(binary(op, f(-0.0), f(0.0)), f(-0.0));
    }
    for op in [UnaryOp::Relu, UnaryOp::Satur01] {
        assert!(unary(op, f(NAN)).as_f32().is_nan());
        assert_eq!(unary(op, f(-0.0)), f(-0.0));
        assert_eq!(unary(op, f(0.5)), f(0.5));
    }
    assert_eq!(unary(UnaryOp::Satur01, f(7.0)), f(1.0));
    assert_eq!(binary(BinaryOp::ReluGate, f(NAN), f(1.0)), f(0.0));
}

#[test]
fn nan_of_arithmetic_is_canonical_and_selection_keeps_bits() {
    let odd = Scalar::new(DType::F32, 0xffc1_2345);
    assert_eq!(binary(BinaryOp::Add, odd, f(1.0)).bits(), 0x7fc0_0000);
    assert_eq!(binary(BinaryOp::Max, f(1.0), odd), odd);
    assert_eq!(unary(UnaryOp::Neg, odd).bits(), 0x7fc1_2345);
}

#[test]
fn integers_never_trap() {
    for dtype in DType::ALL.into_iter().filter(|d| d.is_integer()) {
        let zero = int(dtype, 0);
        assert_eq!(binary(BinaryOp::Div, int(dtype, 7), zero), zero, "{dtype}");
        assert_eq!(binary(BinaryOp::Rem, int(dtype, 7), zero), zero, "{dtype}");
    }
    let min = int(DType::I32, i64::from(i32::MIN));
    assert_eq!(binary(BinaryOp::Div, min, int(DType::I32, -1)), min);
    assert_eq!(binary(BinaryOp::Rem, min, int(DType::I32, -1)), int(DType::I32, 0));
    assert_eq!(unary(UnaryOp::Abs, min), min);
    assert_eq!(unary(UnaryOp::Neg, int(DType::U8, 1)), int(DType::U8, 255));
}

#[test]
fn integers_truncate_and_wrap() {
    let i8 = |x| int(DType::I8, x);
    assert_eq!(binary(BinaryOp::Div, i8(-7), i8(2)), i8(-3));
    assert_eq!(binary(BinaryOp::Rem, i8(-7), i8(2)), i8(-1));
    assert_eq!(binary(BinaryOp::Add, i8(127), i8(1)), i8(-128));
    assert_eq!(binary(BinaryOp::Shl, i8(1), i8(9)), i8(2));
    assert_eq!(binary(BinaryOp::Shr, i8(-128), i8(7)), i8(-1));
    assert_eq!(binary(BinaryOp::Shr, i8(-128), i8(-1)), i8(-1));
    assert_eq!(ternary(TernaryOp::Fma, i8(100), i8(2), i8(3)), i8(-53));
}

#[test]
fn integer_powers() {
    let i32 = |x| int(DType::I32, x);
    let pow = |a, b| binary(BinaryOp::Pow, i32(a), i32(b)).as_i64();
    assert_eq!(pow(3, 4), 81);
    assert_eq!(pow(0, 0), 1);
    assert_eq!(pow(2, 31), i64::from(i32::MIN));
    assert_eq!(pow(2, -1), 0);
    assert_eq!(pow(-1, -3), -1);
    assert_eq!(pow(-1, -4), 1);
    assert_eq!(pow(0, -1), 0);
}

#[test]
fn integers_take_roots_through_f64() {
    assert_eq!(unary(UnaryOp::Sqrt, int(DType::I64, 99)), int(DType::I64, 9));
    assert_eq!(unary(UnaryOp::Sqrt, int(DType::I32, -4)), int(DType::I32, 0));
    assert_eq!(unary(UnaryOp::Log2, int(DType::U8, 0)), int(DType::U8, 0));
    assert_eq!(unary(UnaryOp::Recip, int(DType::I32, -1)), int(DType::I32, -1));
    assert_eq!(unary(UnaryOp::Recip, int(DType::I32, 0)), int(DType::I32, 0));
}

#[test]
fn bool_computes_as_zero_and_one() {
    let [no, yes] = [0, 1].map(|b| Scalar::new(DType::Bool, b));
    assert_eq!(binary(BinaryOp::Add, yes, yes), yes);
    assert_eq!(binary(BinaryOp::Mul, yes, no), no);
    assert_eq!(binary(BinaryOp::Sub, no, yes), yes);
    assert_eq!(unary(UnaryOp::Neg, yes), yes);
    assert_eq!(unary(UnaryOp::Not, yes), no);
    assert_eq!(binary(BinaryOp::Lt, no, yes), yes);
    assert_eq!(binary(BinaryOp::BitXor, yes, yes), no);
}

#[test]
fn narrow_floats_round_after_each_operation() {
    let half = |x| Scalar::from_f64(DType::F16, x);
    // 2048 + 1 is a tie between 2048 and 2050, which goes to the even mantissa.
    assert_eq!(binary(BinaryOp::Add, half(2048.0), half(1.0)), half(2048.0));
    assert_eq!(binary(BinaryOp::Mul, half(300.0), half(300.0)), half(f64::INFINITY));
    // The sum is rounded once: 1 · 2048 + 3 = 2051 is a tie between 2050 and 2052, which goes to the even
    // mantissa.
    assert_eq!(ternary(TernaryOp::Fma, half(1.0), half(2048.0), half(3.0)), half(2052.0));
    assert_eq!(binary(BinaryOp::Lt, half(1.0), half(2.0)).dtype(), DType::Bool);
}

#[test]
fn gates_pass_or_block() {
    assert_eq!(binary(BinaryOp::ReluGate, f(0.0), f(3.0)), f(0.0));
    assert_eq!(binary(BinaryOp::ReluGate, f(0.1), f(3.0)), f(3.0));
    assert_eq!(binary(BinaryOp::Satur01Gate, f(1.0), f(3.0)), f(0.0));
    assert_eq!(binary(BinaryOp::Satur01Gate, f(0.5), f(3.0)), f(3.0));
    assert_eq!(binary(BinaryOp::And, f(NAN), f(3.0)), f(1.0));
    assert_eq!(unary(UnaryOp::Not, f(NAN)), f(0.0));
}

#[test]
fn where_picks_bits() {
    let odd = Scalar::new(DType::Bf16, 0x7fc1);
    let condition = Scalar::new(DType::Bool, 1);
    assert_eq!(ternary(TernaryOp::Where, condition, odd, Scalar::zero(DType::Bf16)), odd);
}

#[test]
fn every_combination_is_total_and_has_the_promised_type() {
    let values = |d| [0, 1, 0x80, 0xff, 0x7f80_0000, u128::MAX].map(|bits| Scalar::new(d, bits));
    for dtype in DType::ALL {
        for a in values(dtype) {
            for &op in UnaryOp::ALL {
                assert_eq!(unary(op, a).dtype(), dtype, "{op} {a:?}");
            }
            for b in values(dtype) {
                for &op in BinaryOp::ALL {
                    assert_eq!(binary(op, a, b).dtype(), op.result(dtype), "{a:?} {op} {b:?}");
                }
                assert_eq!(ternary(TernaryOp::Fma, a, b, a).dtype(), dtype);
            }
        }
    }
}
