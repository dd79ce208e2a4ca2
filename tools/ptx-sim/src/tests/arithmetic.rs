//! Arithmetic on integers and floats, compared with independent formulas.

use half::{bf16, f16};

use crate::arith::{atomic, binary, compare, signed, ternary, truncate, unary, width};
use crate::float::{BF16, F16, F32, F64, FloatFormat, RoundingDirection, fma};
use ptx_asm::{AtomicOp, CmpOp, PtxBinaryOp, PtxTernaryOp, PtxUnaryOp, StateSpace, Ty};

/// Corner cases, and random words.
fn numbers(seed: u64) -> Vec<u64> {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut found = vec![0, 1, 2, 31, 32, 33, 63, 64, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000];
    found.extend([0xffff_ffff, 1 << 63, u64::MAX, u64::MAX - 1, i64::MAX as u64]);
    found.extend((0..60).map(|_| chance.u64(..) >> chance.u32(0..64)));
    found
}

const INTEGERS: [Ty; 6] = [Ty::U16, Ty::S16, Ty::U32, Ty::S32, Ty::U64, Ty::S64];

/// The low bits of a word as a number of the type.
fn value(ty: Ty, bits: u64) -> i128 {
    match ty {
        Ty::U16 => i128::from(bits as u16),
        Ty::S16 => i128::from(bits as i16),
        Ty::U32 => i128::from(bits as u32),
        Ty::S32 => i128::from(bits as i32),
        Ty::U64 => i128::from(bits),
        _ => i128::from(bits as i64),
    }
}

#[test]
fn integers_wrap() {
    for ty in INTEGERS {
        let bits = width(ty);
        for &a in &numbers(1) {
            for &b in &numbers(2) {
                let (x, y) = (value(ty, a), value(ty, b));
                let expect = |op, exact: i128| {
                    assert_eq!(
                        binary(op, ty, a, b),
                        Some(truncate(exact as u64, bits)),
                        "{op:?} {ty:?} {a:#x} {b:#x}"
                    );
                };
                expect(PtxBinaryOp::Add, x + y);
                expect(PtxBinaryOp::Sub, x - y);
                expect(PtxBinaryOp::Mul, x.wrapping_mul(y));
                expect(PtxBinaryOp::Min, if x < y { x } else { y });
                expect(PtxBinaryOp::Max, if x < y { y } else { x });
                expect(PtxBinaryOp::And, x & y);
                expect(PtxBinaryOp::Or, x | y);
                expect(PtxBinaryOp::Xor, x ^ y);
                if y != 0 {
                    expect(PtxBinaryOp::Div, x / y);
                    expect(PtxBinaryOp::Rem, x - x / y * y);
                }
                // 128 bits hold the sign of a signed product, or all of an unsigned one.
                let high =
                    if ty.is_signed() { (x * y) >> bits } else { ((x as u128 * y as u128) >> bits) as i128 };
                expect(PtxBinaryOp::MulHigh, high);
                if bits <= 32 {
                    let wide = truncate((x * y) as u64, 2 * bits);
                    assert_eq!(binary(PtxBinaryOp::MulWide, ty, a, b), Some(wide));
                }
                let sum = x.wrapping_mul(y).wrapping_add(x);
                assert_eq!(ternary(PtxTernaryOp::MulAdd, ty, a, b, a), Some(truncate(sum as u64, bits)));
                assert_eq!(compare(CmpOp::Lt, ty, a, b), Some(x < y));
                assert_eq!(compare(CmpOp::Le, ty, a, b), Some(x <= y));
                assert_eq!(compare(CmpOp::Gt, ty, a, b), Some(x > y));
                assert_eq!(compare(CmpOp::Ge, ty, a, b), Some(x >= y));
                assert_eq!(compare(CmpOp::Eq, ty, a, b), Some(x == y));
                assert_eq!(compare(CmpOp::Ne, ty, a, b), Some(x != y));
            }
        }
    }
    assert_eq!(ternary(PtxTernaryOp::MulAddWide, Ty::S32, 0xffff_ffff, 3, 10), Some(7));
    assert_eq!(ternary(PtxTernaryOp::MulAddWide, Ty::U32, 0xffff_ffff, 3, 10), Some(3 * 0xffff_ffff + 10));
    assert_eq!(binary(PtxBinaryOp::MulWide, Ty::U64, 1, 1), None);
}

/// A quotient by zero is unspecified, so it differs from every result that a program might expect.
#[test]
fn quotients_by_zero_are_nonsense() {
    for ty in INTEGERS {
        for op in [PtxBinaryOp::Div, PtxBinaryOp::Rem] {
            let found = binary(op, ty, 100, 0).expect("no fault");
            assert!(![0, 100, truncate(u64::MAX, width(ty))].contains(&found));
        }
    }
}

#[test]
fn shifts_end_at_the_width() {
    for &a in &numbers(3) {
        for by in [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 0xffff_ffff] {
            for ty in INTEGERS.into_iter().chain([Ty::B16, Ty::B32, Ty::B64]) {
                let bits = u64::from(width(ty));
                let by_less = by.min(127) as u32;
                let left = truncate((u128::from(a) << by_less) as u64, width(ty));
                let left = if by >= bits { 0 } else { left };
                assert_eq!(binary(PtxBinaryOp::ShiftLeft, ty, a, by), Some(left), "{ty:?} {a:#x} {by}");
                let number = if ty.is_signed() { value(ty, a) } else { i128::from(truncate(a, width(ty))) };
                let right = truncate((number >> by_less) as u64, width(ty));
                assert_eq!(binary(PtxBinaryOp::ShiftRight, ty, a, by), Some(right), "{ty:?} {a:#x} {by}");
            }
        }
    }
    // Only the low 32 bits of the distance count.
    assert_eq!(binary(PtxBinaryOp::ShiftLeft, Ty::B32, 3, (1 << 32) + 1), Some(6));
}

#[test]
fn bits_are_counted_and_moved() {
    for &a in &numbers(4) {
        let low = a as u32;
        assert_eq!(unary(PtxUnaryOp::CountOnes, Ty::B32, a), Some(u64::from(low.count_ones())));
        assert_eq!(unary(PtxUnaryOp::CountOnes, Ty::B64, a), Some(u64::from(a.count_ones())));
        assert_eq!(unary(PtxUnaryOp::LeadingZeros, Ty::B32, a), Some(u64::from(low.leading_zeros())));
        assert_eq!(unary(PtxUnaryOp::LeadingZeros, Ty::B64, a), Some(u64::from(a.leading_zeros())));
        assert_eq!(unary(PtxUnaryOp::Reverse, Ty::B32, a), Some(u64::from(low.reverse_bits())));
        assert_eq!(unary(PtxUnaryOp::Reverse, Ty::B64, a), Some(a.reverse_bits()));
        assert_eq!(unary(PtxUnaryOp::Not, Ty::B16, a), Some(u64::from(!(a as u16))));
        assert_eq!(unary(PtxUnaryOp::Neg, Ty::S32, a), Some(u64::from((a as i32).wrapping_neg() as u32)));
        assert_eq!(unary(PtxUnaryOp::Abs, Ty::S16, a), Some(u64::from((a as i16).wrapping_abs() as u16)));
    }
    assert_eq!(unary(PtxUnaryOp::Not, Ty::Pred, 0), Some(1));
    assert_eq!(binary(PtxBinaryOp::Xor, Ty::Pred, 1, 1), Some(0));
    assert_eq!(unary(PtxUnaryOp::CountOnes, Ty::B16, 1), None);
}

#[test]
fn floats_are_those_of_rust() {
    let specials = [0.0, -0.0, 1.0, -1.5, f32::MIN_POSITIVE, 1e-42, f32::MAX, f32::INFINITY, f32::NAN, 3e38];
    for a in specials {
        for b in specials {
            let (x, y) = (u64::from(a.to_bits()), u64::from(b.to_bits()));
            let expect = |found: Option<u64>, expected: f32| {
                let bits = if expected.is_nan() { 0x7fff_ffff } else { expected.to_bits() };
                assert_eq!(found, Some(u64::from(bits)), "{a} {b}");
            };
            expect(binary(PtxBinaryOp::Add, Ty::F32, x, y), a + b);
            expect(binary(PtxBinaryOp::Sub, Ty::F32, x, y), a - b);
            expect(binary(PtxBinaryOp::Mul, Ty::F32, x, y), a * b);
            expect(binary(PtxBinaryOp::Div, Ty::F32, x, y), a / b);
            expect(ternary(PtxTernaryOp::Fma, Ty::F32, x, y, y), a.mul_add(b, b));
            expect(unary(PtxUnaryOp::Recip, Ty::F32, x), 1.0 / a);
            expect(unary(PtxUnaryOp::Sqrt, Ty::F32, x), a.sqrt());
            let (wide_x, wide_y) = (f64::from(a).to_bits(), f64::from(b).to_bits());
            let sum = f64::from(a) + f64::from(b);
            let bits = if sum.is_nan() { f64::NAN.to_bits() } else { sum.to_bits() };
            assert_eq!(binary(PtxBinaryOp::Add, Ty::F64, wide_x, wide_y), Some(bits));
        }
    }
    // Rounded once: the product alone would round to 1.
    let near = u64::from((1.0 + f32::EPSILON).to_bits());
    let below = u64::from((1.0 - f32::EPSILON).to_bits());
    let minus = u64::from((-1.0_f32).to_bits());
    let rest = ternary(PtxTernaryOp::Fma, Ty::F32, near, below, minus).expect("it is there");
    assert_eq!(f32::from_bits(rest as u32), -f32::EPSILON * f32::EPSILON);
}

/// NaN and signed zeros, in every format.
#[test]
fn the_lesser_and_the_greater() {
    for ty in [Ty::F16, Ty::Bf16, Ty::F32, Ty::F64] {
        let format = FloatFormat::of(ty).expect("a float");
        let bits = |value: f64| format.encode(value, RoundingDirection::Nearest);
        let (nan, one, two) = (bits(f64::NAN), bits(1.0), bits(2.0));
        let (plus, minus) = (bits(0.0), bits(-0.0));
        for (a, b, min, max) in [
            (one, two, one, two),
            (two, one, one, two),
            (nan, one, one, one),
            (one, nan, one, one),
            (nan, nan, nan, nan),
            (plus, minus, minus, plus),
            (minus, plus, minus, plus),
        ] {
            assert_eq!(binary(PtxBinaryOp::Min, ty, a, b), Some(min), "{ty:?} {a:#x} {b:#x}");
            assert_eq!(binary(PtxBinaryOp::Max, ty, a, b), Some(max), "{ty:?} {a:#x} {b:#x}");
        }
        assert_eq!(unary(PtxUnaryOp::Neg, ty, plus), Some(minus));
        assert_eq!(unary(PtxUnaryOp::Abs, ty, minus), Some(plus));
        let other_nan = (nan | minus) ^ 1;
        for op in [PtxUnaryOp::Neg, PtxUnaryOp::Abs] {
            assert_eq!(unary(op, ty, other_nan), Some(nan), "no program knows which NaN it is");
        }
        let holds = |cmp, a, b| compare(cmp, ty, a, b).expect("it is there");
        assert!(holds(CmpOp::Eq, plus, minus) && holds(CmpOp::Lt, one, two) && holds(CmpOp::IsNan, one, nan));
        for cmp in [CmpOp::Eq, CmpOp::Ne, CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge] {
            assert!(!holds(cmp, nan, one) && !holds(cmp, one, nan), "{cmp:?}");
        }
        for cmp in [CmpOp::NeOrNan, CmpOp::LtOrNan, CmpOp::LeOrNan, CmpOp::GtOrNan, CmpOp::GeOrNan] {
            assert!(holds(cmp, nan, one) && holds(cmp, one, nan), "{cmp:?}");
        }
        assert!(
            holds(CmpOp::LtOrNan, one, two)
                && !holds(CmpOp::GeOrNan, one, two)
                && !holds(CmpOp::IsNan, one, two)
        );
    }
}

#[test]
fn approximations_are_near_and_flush() {
    let call =
        |op, x: f32| f32::from_bits(unary(op, Ty::F32, u64::from(x.to_bits())).expect("it is there") as u32);
    assert_eq!(call(PtxUnaryOp::Exp2Approx, 3.0), 8.0);
    assert_eq!(call(PtxUnaryOp::Exp2Approx, -140.0).to_bits(), 0);
    assert_eq!(call(PtxUnaryOp::Log2Approx, 8.0), 3.0);
    assert_eq!(call(PtxUnaryOp::Log2Approx, 1e-40), f32::NEG_INFINITY);
    assert_eq!(call(PtxUnaryOp::RecipApprox, 4.0), 0.25);
    assert_eq!(call(PtxUnaryOp::RecipApprox, -1e-40), f32::NEG_INFINITY);
    assert_eq!(call(PtxUnaryOp::RecipApprox, 3e38).to_bits(), 0);
    assert_eq!(call(PtxUnaryOp::RsqrtApprox, 16.0), 0.25);
    assert_eq!(call(PtxUnaryOp::RsqrtApprox, -0.0), f32::NEG_INFINITY);
    assert_eq!(call(PtxUnaryOp::SqrtApprox, 16.0), 4.0);
    assert_eq!(call(PtxUnaryOp::TanhApprox, 0.5), 0.5_f64.tanh() as f32);
    assert_eq!(call(PtxUnaryOp::TanhApprox, 1e-40), 1e-40);
    assert_eq!(call(PtxUnaryOp::SinApprox, 1e-40), 0.0);
    assert_eq!(call(PtxUnaryOp::SinApprox, 0.5), 0.5_f64.sin() as f32);
    assert_eq!(call(PtxUnaryOp::CosApprox, 0.5), 0.5_f64.cos() as f32);
    assert!(call(PtxUnaryOp::SinApprox, f32::INFINITY).is_nan());
    let divide = |a: f32, b: f32| {
        let found = binary(PtxBinaryOp::DivApprox, Ty::F32, u64::from(a.to_bits()), u64::from(b.to_bits()));
        f32::from_bits(found.expect("it is there") as u32)
    };
    assert_eq!(divide(1.0, 3.0), 1.0 / 3.0);
    assert_eq!(divide(1e38, 2_f32.powi(126)), 1e38 / 2_f32.powi(126));
    assert_eq!(divide(-1e38, 2_f32.powi(127)).to_bits(), (-0.0_f32).to_bits());
    assert!(divide(f32::INFINITY, 2_f32.powi(127)).is_nan());
}

/// 16-bit floats, compared with the crate `half`, which computes in `f32` and rounds the result again. The
/// second rounding does no harm to sums and products of two 11-bit significands, since 24 ≥ 2 · 11 + 2, but
/// would change some results of `fma`.
#[test]
fn small_floats_are_rounded_once() {
    let mut chance = fastrand::Rng::with_seed(6);
    for _ in 0..200_000 {
        let (a, b) = (chance.u16(..), chance.u16(..));
        let (x, y) = (u64::from(a), u64::from(b));
        let f = |op| binary(op, Ty::F16, x, y);
        let canonical = |value: f16| Some(u64::from(if value.is_nan() { 0x7fff } else { value.to_bits() }));
        let (p, q) = (f16::from_bits(a), f16::from_bits(b));
        assert_eq!(f(PtxBinaryOp::Add), canonical(p + q), "{p} + {q}");
        assert_eq!(f(PtxBinaryOp::Sub), canonical(p - q), "{p} - {q}");
        assert_eq!(f(PtxBinaryOp::Mul), canonical(p * q), "{p} * {q}");
        let f = |op| binary(op, Ty::Bf16, x, y);
        let canonical = |value: bf16| Some(u64::from(if value.is_nan() { 0x7fff } else { value.to_bits() }));
        let (p, q) = (bf16::from_bits(a), bf16::from_bits(b));
        assert_eq!(f(PtxBinaryOp::Add), canonical(p + q), "{p} + {q}");
        assert_eq!(f(PtxBinaryOp::Mul), canonical(p * q), "{p} * {q}");
    }
    let pair = |low: f32, high: f32| {
        u64::from(f16::from_f32(low).to_bits()) | u64::from(f16::from_f32(high).to_bits()) << 16
    };
    assert_eq!(binary(PtxBinaryOp::Add, Ty::F16x2, pair(1.0, 2.0), pair(3.0, -4.0)), Some(pair(4.0, -2.0)));
    assert_eq!(
        ternary(PtxTernaryOp::Fma, Ty::F16x2, pair(1.0, 2.0), pair(3.0, 4.0), pair(5.0, 6.0)),
        Some(pair(8.0, 14.0))
    );
    assert_eq!(unary(PtxUnaryOp::Neg, Ty::F16x2, pair(1.0, -2.0)), Some(pair(-1.0, 2.0)));
}

/// A number in units of 2⁻⁴⁸, of which every `f16` and every product of two is a multiple.
fn fixed(value: f64) -> i128 {
    (value * 2_f64.powi(48)) as i128
}

/// `fma` of `f16`, compared with exact integers.
#[test]
fn fused_multiply_adds_of_f16_round_to_nearest() {
    let mut chance = fastrand::Rng::with_seed(7);
    for _ in 0..300_000 {
        let [a, b, c] = [(); 3].map(|()| F16.decode(u64::from(chance.u16(..))));
        if !(a.is_finite() && b.is_finite() && c.is_finite()) {
            continue;
        }
        // The sum is exact: the product has at most 22 bits and 2³² units of 2⁻⁴⁸, the addend at most 2⁶⁴
        // units.
        let exact = fixed(a * b) + fixed(c);
        let found = fma(F16, a, b, c);
        let most = fixed(65504.0);
        if exact.abs() >= most + fixed(16.0) {
            assert!(F16.decode(found).is_infinite(), "{a} {b} {c}");
            continue;
        }
        let distance = |bits: u64| (fixed(F16.decode(bits)) - exact).abs();
        let magnitude = found & 0x7fff;
        for neighbor in [magnitude.saturating_sub(1), (magnitude + 1).min(0x7bff)] {
            let neighbor = neighbor | found & 0x8000;
            let (here, there) = (distance(found), distance(neighbor));
            assert!(
                here < there || here == there && (found & 1 == 0 || neighbor == found),
                "{a} {b} {c}: {found:#x}"
            );
        }
    }
    // Without a difference of 2⁻³⁵, which comes from the addend, the sum would be a tie. Rounding the sum to
    // `f32` first would lose this difference.
    let (a, b, c) = (1.0 + 2_f64.powi(-10), 1.0 + 2_f64.powi(-10), 2_f64.powi(-24));
    let exact = a * b + c;
    assert_eq!(F16.decode(fma(F16, a, b, c)), 1.0 + 2.0 * 2_f64.powi(-10));
    assert!(exact > 1.0 + 2.0 * 2_f64.powi(-10));
}

/// A sum of two terms whose exponents differ by more than the 53 bits of an `f64`.
#[test]
fn distant_addends_break_ties() {
    let (ulp, far) = (2_f64.powi(-7), 2_f64.powi(-130));
    let half = ulp / 2.0;
    for sign in [1.0, -1.0] {
        for (c, expected) in [(far, 1.0 + ulp), (-far, 1.0), (0.0, 1.0)] {
            // 1 + ulp / 2 is the midpoint between 1, which is even, and the next `bf16`.
            let sum = crate::float::add_odd(sign * (1.0 + half), sign * c);
            assert_eq!(
                BF16.decode(BF16.encode(sum, RoundingDirection::Nearest)),
                sign * expected,
                "{sign} {c}"
            );
            // 1 + 3 ulp / 2 is the midpoint above an odd `bf16`.
            let sum = crate::float::add_odd(sign * (1.0 + 3.0 * half), sign * c);
            let expected = if c < 0.0 { 1.0 + ulp } else { 1.0 + 2.0 * ulp };
            assert_eq!(
                BF16.decode(BF16.encode(sum, RoundingDirection::Nearest)),
                sign * expected,
                "{sign} {c}"
            );
        }
        // The same with `fma`. The product (1 + 2 ulp) · 97 / 128 is no `bf16`; with the addend `rest` it is
        // exactly the midpoint between two.
        let (a, b) = (sign * (1.0 + 2.0 * ulp), 97.0 / 128.0);
        let product = a * b;
        let (below, above) =
            (BF16.encode(product, RoundingDirection::Down), BF16.encode(product, RoundingDirection::Up));
        let (below, above) = (BF16.decode(below), BF16.decode(above));
        let middle = (below + above) / 2.0;
        let rest = BF16.decode(BF16.encode(middle - product, RoundingDirection::Nearest));
        assert_eq!(product + rest, middle);
        let found = BF16.decode(fma(BF16, a, b, rest));
        assert!(found == below || found == above);
        assert_eq!(BF16.encode(found, RoundingDirection::Nearest) & 1, 0, "a tie");
    }
}

#[test]
fn formats_are_decoded_and_encoded() {
    for bits in 0..=u16::MAX {
        let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        assert!(same(F16.decode(u64::from(bits)), f16::from_bits(bits).to_f64()));
        assert!(same(BF16.decode(u64::from(bits)), bf16::from_bits(bits).to_f64()));
    }
    let mut chance = fastrand::Rng::with_seed(8);
    for _ in 0..200_000 {
        let narrow = f32::from_bits(chance.u32(..));
        if narrow.is_nan() {
            continue;
        }
        let value = f64::from(narrow);
        assert_eq!(F32.decode(u64::from(narrow.to_bits())).to_bits(), value.to_bits());
        assert_eq!(
            F16.encode(value, RoundingDirection::Nearest),
            u64::from(f16::from_f32(narrow).to_bits()),
            "{value}"
        );
        assert_eq!(
            BF16.encode(value, RoundingDirection::Nearest),
            u64::from(bf16::from_f32(narrow).to_bits()),
            "{value}"
        );
        let value = f64::from_bits(chance.u64(..));
        if value.is_nan() {
            continue;
        }
        assert_eq!(
            F32.encode(value, RoundingDirection::Nearest),
            u64::from((value as f32).to_bits()),
            "{value}"
        );
        assert_eq!(F64.encode(value, RoundingDirection::Nearest), value.to_bits(), "{value}");
        for format in [F16, BF16, F32] {
            directed(format, value);
            directed(format, f64::from(narrow));
        }
    }
}

/// Rounding down and rounding up give adjacent values, and rounding towards zero gives one of the two.
fn directed(format: FloatFormat, value: f64) {
    let [down, up, zero, nearest] =
        [RoundingDirection::Down, RoundingDirection::Up, RoundingDirection::Zero, RoundingDirection::Nearest]
            .map(|direction| format.encode(value, direction));
    let decode = |bits| format.decode(bits);
    assert!(decode(down) <= value && value <= decode(up), "{format:?} {value}");
    assert_eq!(zero, if value.is_sign_negative() { up } else { down }, "{format:?} {value}");
    assert!(nearest == down || nearest == up);
    let exact = decode(down) == value;
    assert_eq!(down == up, exact, "{format:?} {value}");
    if !exact && value > 0.0 {
        assert_eq!(down + 1, up, "{format:?} {value}");
    }
}

#[test]
fn atomic_operations_have_their_types() {
    let (half, two) = (1.5_f64.to_bits(), 2.0_f64.to_bits());
    assert_eq!(atomic(AtomicOp::Add, Ty::F64, StateSpace::Global, half, &[two]), Some(3.5_f64.to_bits()));
    assert_eq!(atomic(AtomicOp::Min, Ty::F32, StateSpace::Global, 0, &[0]), None);
    assert_eq!(atomic(AtomicOp::Add, Ty::U16, StateSpace::Global, 0, &[0]), None);
    assert_eq!(atomic(AtomicOp::CompareSwap, Ty::B32, StateSpace::Global, 0, &[0]), None);
    assert_eq!(atomic(AtomicOp::Exchange, Ty::B32, StateSpace::Global, 0, &[0, 0]), None);
    // Shared memory keeps subnormals, global memory does not.
    let tiny = u64::from(1e-40_f32.to_bits());
    let minus = 1 << 31;
    for (space, old, by, sum) in [
        (StateSpace::Shared, tiny, tiny, u64::from((1e-40_f32 + 1e-40).to_bits())),
        (StateSpace::Global, tiny, tiny, 0),
        (StateSpace::Global, tiny | minus, minus, minus),
        (StateSpace::Global, u64::from(1_f32.to_bits()), tiny, u64::from(1_f32.to_bits())),
    ] {
        assert_eq!(atomic(AtomicOp::Add, Ty::F32, space, old, &[by]), Some(sum), "{space:?}");
    }
    assert_eq!(signed(0xff, 8), -1);
}
