//! Conversions: published bit patterns, exhaustive comparison with independent definitions, and random
//! values.

use half::{bf16, f16};
use proptest::prelude::*;
use tnode::convert::*;
use tnode::{DType, Scalar};

const FLOATS: [DType; 6] =
    [DType::F16, DType::Bf16, DType::F32, DType::F64, DType::Fp8E5m2, DType::Fp8E4m3fn];

fn bits(dtype: DType, x: f64) -> u128 {
    Scalar::from_f64(dtype, x).bits()
}

/// Bit patterns from tables 1 and 2 of the OCP 8-bit floating point specification, and corresponding values
/// of the IEEE formats and of bfloat16.
#[test]
fn published_bit_patterns() {
    let exp2 = |e: i32| 2f64.powi(e);
    let vectors = [
        (DType::Fp8E5m2, 0x7b, 57344.0),
        (DType::Fp8E5m2, 0x04, exp2(-14)),
        (DType::Fp8E5m2, 0x03, 0.75 * exp2(-14)),
        (DType::Fp8E5m2, 0x01, exp2(-16)),
        (DType::Fp8E5m2, 0x7c, f64::INFINITY),
        (DType::Fp8E5m2, 0xfc, f64::NEG_INFINITY),
        (DType::Fp8E5m2, 0x80, -0.0),
        (DType::Fp8E5m2, 0x3c, 1.0),
        (DType::Fp8E4m3fn, 0x7e, 448.0),
        (DType::Fp8E4m3fn, 0xfe, -448.0),
        (DType::Fp8E4m3fn, 0x08, exp2(-6)),
        (DType::Fp8E4m3fn, 0x07, 0.875 * exp2(-6)),
        (DType::Fp8E4m3fn, 0x01, exp2(-9)),
        (DType::Fp8E4m3fn, 0x80, -0.0),
        (DType::Fp8E4m3fn, 0x38, 1.0),
        (DType::F16, 0x7bff, 65504.0),
        (DType::F16, 0x0400, exp2(-14)),
        (DType::F16, 0x0001, exp2(-24)),
        (DType::F16, 0x7c00, f64::INFINITY),
        (DType::F16, 0x3555, 0.333251953125),
        (DType::Bf16, 0x3f80, 1.0),
        (DType::Bf16, 0x7f7f, 3.3895313892515355e38),
        (DType::Bf16, 0x0080, exp2(-126)),
        (DType::Bf16, 0x0001, exp2(-133)),
        (DType::F32, 0x7f7f_ffff, f64::from(f32::MAX)),
        (DType::F32, 0x0000_0001, exp2(-149)),
    ];
    for (dtype, pattern, value) in vectors {
        assert_eq!(bits(dtype, value), pattern, "{value} to {dtype}");
        assert_eq!(Scalar::new(dtype, pattern).as_f64().to_bits(), value.to_bits(), "{dtype} {pattern:#x}");
    }
}

#[test]
fn overflow_and_nan() {
    // Halfway between the largest number and the next one, if exponents continued, and just below.
    let halfway = |step: i32, exponent: i32| (2.0 - 2f64.powi(step)) * 2f64.powi(exponent);
    let edges = [
        (DType::Fp8E5m2, halfway(-3, 15), 0x7c, 0x7b),
        (DType::F16, halfway(-11, 15), 0x7c00, 0x7bff),
        (DType::Bf16, halfway(-8, 127), 0x7f80, 0x7f7f),
        (DType::F32, halfway(-24, 127), 0x7f80_0000, 0x7f7f_ffff),
    ];
    for (dtype, x, over, under) in edges {
        assert_eq!(bits(dtype, x), over, "{dtype}");
        assert_eq!(bits(dtype, f64::from_bits(x.to_bits() - 1)), under, "{dtype}");
    }
    // Here the largest number is even, so halfway rounds down to it, and infinity converts to NaN.
    assert_eq!(bits(DType::Fp8E4m3fn, 464.0), 0x7e);
    assert_eq!(bits(DType::Fp8E4m3fn, 464.0 + 1e-9), 0x7f);
    assert_eq!(bits(DType::Fp8E4m3fn, f64::NEG_INFINITY), 0xff);
    for dtype in FLOATS {
        assert!(Scalar::from_f64(dtype, f64::NAN).as_f64().is_nan());
        assert!(bits(dtype, -f64::NAN) > bits(dtype, f64::NAN), "{dtype} keeps the sign");
    }
    for pattern in 0x7du128..=0x7f {
        assert!(Scalar::new(DType::Fp8E5m2, pattern).as_f64().is_nan());
    }
}

#[test]
fn every_f16_and_bf16_decodes_as_in_half() {
    for pattern in 0..=u16::MAX {
        let (a, b) = (f16_to_f32(pattern), f16::from_bits(pattern).to_f32());
        assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{pattern:#x}");
        let (a, b) = (bf16_to_f32(pattern), bf16::from_bits(pattern).to_f32());
        assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{pattern:#x}");
    }
}

#[test]
fn every_pattern_survives_a_round_trip() {
    for pattern in 0..=u16::MAX {
        if !f16_to_f32(pattern).is_nan() {
            assert_eq!(f16_from_f32(f16_to_f32(pattern)), pattern);
        }
        if !bf16_to_f32(pattern).is_nan() {
            assert_eq!(bf16_from_f32(bf16_to_f32(pattern)), pattern);
        }
    }
    for pattern in 0..=u8::MAX {
        if !e5m2_to_f32(pattern).is_nan() {
            assert_eq!(e5m2_from_f32(e5m2_to_f32(pattern)), pattern);
        }
        if !e4m3fn_to_f32(pattern).is_nan() {
            assert_eq!(e4m3fn_from_f32(e4m3fn_to_f32(pattern)), pattern);
        }
    }
}

/// Compares `encode` with the nearest of all finite patterns, the even one of two equally near, for every
/// `f16` within the limit.
fn check_nearest(limit: f64, encode: fn(f32) -> u8, decode: fn(u8) -> f32) {
    let finite: Vec<(u8, f64)> =
        (0..=u8::MAX).map(|p| (p, f64::from(decode(p)))).filter(|(_, x)| x.is_finite()).collect();
    for x in (0..=u16::MAX).map(f16_to_f32).filter(|x| f64::from(x.abs()) < limit) {
        let distance = |y: f64| (y - f64::from(x)).abs();
        let same_sign = finite.iter().filter(|(_, y)| y.is_sign_negative() == x.is_sign_negative());
        let nearest =
            same_sign.min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)).then((a.0 & 1).cmp(&(b.0 & 1))));
        assert_eq!(Some(encode(x)), nearest.map(|(p, _)| *p), "{x}");
    }
}

#[test]
fn every_f16_becomes_the_nearest_fp8() {
    check_nearest(61440.0, e5m2_from_f32, e5m2_to_f32);
    check_nearest(464.0, e4m3fn_from_f32, e4m3fn_to_f32);
}

/// The layout of a narrow float: bits of exponent and mantissa, and the patterns above the largest number
/// (without sign).
struct Layout {
    dtype: DType,
    exponent: u32,
    mantissa: u32,
    infinity: Option<u128>,
    first_nan: u128,
}

const LAYOUTS: [Layout; 4] = [
    Layout { dtype: DType::F16, exponent: 5, mantissa: 10, infinity: Some(0x7c00), first_nan: 0x7c01 },
    Layout { dtype: DType::Bf16, exponent: 8, mantissa: 7, infinity: Some(0x7f80), first_nan: 0x7f81 },
    Layout { dtype: DType::Fp8E5m2, exponent: 5, mantissa: 2, infinity: Some(0x7c), first_nan: 0x7d },
    Layout { dtype: DType::Fp8E4m3fn, exponent: 4, mantissa: 3, infinity: None, first_nan: 0x7f },
];

impl Layout {
    fn sign(&self) -> u128 {
        1 << (self.exponent + self.mantissa)
    }

    /// The value of a pattern without sign by the formats' specifications: (1 + m/2^k)·2^(e - bias), or
    /// m/2^k·2^(1 - bias).
    fn value(&self, pattern: u128) -> f64 {
        if pattern >= self.first_nan {
            return f64::NAN;
        }
        if self.infinity == Some(pattern) {
            return f64::INFINITY;
        }
        let bias = (1 << (self.exponent - 1)) - 1;
        let (e, m) = ((pattern >> self.mantissa) as i32, pattern & ((1 << self.mantissa) - 1));
        let fraction = m as f64 / 2f64.powi(self.mantissa as i32);
        if e == 0 { fraction * 2f64.powi(1 - bias) } else { (1.0 + fraction) * 2f64.powi(e - bias) }
    }

    /// Patterns of finite numbers of one sign.
    fn finite(&self) -> std::ops::Range<u128> {
        0..self.infinity.unwrap_or(self.first_nan)
    }

    /// The pattern after that of the largest number.
    fn overflow(&self) -> u128 {
        self.infinity.unwrap_or(self.first_nan)
    }
}

#[test]
fn every_pattern_of_every_narrow_float_has_its_documented_value() {
    for layout in &LAYOUTS {
        for pattern in 0..layout.sign() {
            for (sign, pattern) in [(1.0, pattern), (-1.0, pattern | layout.sign())] {
                let (found, expected) =
                    (Scalar::new(layout.dtype, pattern), sign * layout.value(pattern & (layout.sign() - 1)));
                let same = found.as_f64().to_bits() == expected.to_bits();
                assert!(same || found.as_f64().is_nan() && expected.is_nan(), "{found:?}: {expected}");
                if !expected.is_nan() {
                    assert_eq!(bits(layout.dtype, expected), pattern, "{expected} to {}", layout.dtype);
                    assert_eq!(found.convert(DType::F32).convert(layout.dtype), found);
                }
            }
        }
    }
}

/// A value halfway between two neighbors becomes the even one. An `f64` ulp to either side of halfway, it
/// becomes the nearer one. Both hold beyond the largest number too.
#[test]
fn every_tie_of_every_narrow_float_goes_to_even() {
    for layout in &LAYOUTS {
        for pattern in layout.finite() {
            let last = pattern + 1 == layout.overflow();
            // The number after the largest one if exponents continued.
            let next = match last {
                true => 2.0 * layout.value(pattern) - layout.value(pattern - 1),
                false => layout.value(pattern + 1),
            };
            let tie = (layout.value(pattern) + next) / 2.0;
            let even = if pattern & 1 == 0 { pattern } else { pattern + 1 };
            let (below, above) = (f64::from_bits(tie.to_bits() - 1), f64::from_bits(tie.to_bits() + 1));
            for (x, expected) in [(below, pattern), (tie, even), (above, pattern + 1)] {
                assert_eq!(bits(layout.dtype, x), expected, "{x:e} to {}", layout.dtype);
                assert_eq!(bits(layout.dtype, -x), expected | layout.sign(), "-{x:e} to {}", layout.dtype);
            }
            // A tie is exact in f32 too.
            assert_eq!(Scalar::from_f64(DType::F32, tie).convert(layout.dtype).bits(), even);
        }
    }
}

#[test]
fn infinities_and_nans_of_every_float() {
    for layout in &LAYOUTS {
        let nan = layout.first_nan - 1 + (1 << (layout.mantissa - 1));
        let quiet = if layout.infinity.is_some() { nan } else { layout.first_nan };
        assert_eq!(bits(layout.dtype, f64::INFINITY), layout.overflow());
        assert_eq!(bits(layout.dtype, f64::MAX), layout.overflow());
        assert_eq!(bits(layout.dtype, f64::NEG_INFINITY), layout.overflow() | layout.sign());
        assert_eq!(bits(layout.dtype, f64::NAN), quiet, "{}", layout.dtype);
        assert_eq!(bits(layout.dtype, -f64::NAN), quiet | layout.sign());
        // Whatever its payload, a NaN converts to the quiet one.
        let signaling = Scalar::new(DType::F64, 0x7ff0_0000_0000_0001);
        assert_eq!(signaling.convert(layout.dtype).bits(), quiet);
    }
    let payload = Scalar::new(DType::F32, 0xff80_0001);
    assert_eq!(payload.convert(DType::F64).bits(), 0xfff8_0000_0000_0000);
    assert_eq!(payload.convert(DType::F32), payload);
}

/// Integer to float: to nearest even from the exact integer, at each type's limit of exactness and overflow.
#[test]
fn integers_round_to_floats() {
    let to = |dtype, n: i64| Scalar::from_i64(DType::I64, n).convert(dtype).as_f64();
    for (dtype, exact) in [
        (DType::F64, 1i64 << 53),
        (DType::F32, 1 << 24),
        (DType::F16, 1 << 11),
        (DType::Bf16, 1 << 8),
        (DType::Fp8E5m2, 1 << 3),
        (DType::Fp8E4m3fn, 1 << 4),
    ] {
        assert_eq!(to(dtype, exact - 1), (exact - 1) as f64);
        assert_eq!(to(dtype, exact + 1), exact as f64, "{dtype}: a tie goes to even");
        assert_eq!(to(dtype, exact + 3), (exact + 4) as f64, "{dtype}: a tie goes to even");
        assert_eq!(to(dtype, -exact - 1), -exact as f64);
    }
    assert_eq!(to(DType::F16, 65519), 65504.0);
    assert_eq!(to(DType::F16, 65520), f64::INFINITY);
    assert_eq!(to(DType::Fp8E5m2, -61440), f64::NEG_INFINITY);
    assert_eq!(to(DType::Fp8E4m3fn, 464), 448.0);
    assert!(to(DType::Fp8E4m3fn, 465).is_nan());
    assert_eq!(Scalar::new(DType::U64, u128::from(u64::MAX)).as_f64(), 2f64.powi(64));
}

#[test]
fn rounding_happens_once() {
    // Just above halfway between two `f16`: rounded to `f32` first, it would become a tie and round down.
    let x = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    assert_eq!(bits(DType::F16, x), 0x3c01);
    // The same for an integer that f64 cannot hold.
    let n = (1u64 << 63) + (1 << 52) + 1;
    let n = Scalar::new(DType::U64, u128::from(n));
    assert_eq!(n.convert(DType::Bf16).bits(), u128::from(bf16::from_f64(2f64.powi(63)).to_bits()));
    let tie = (1u64 << 63) + (1 << 39) + 1;
    assert_eq!(Scalar::new(DType::U64, u128::from(tie)).as_f32().to_bits(), (tie as f32).to_bits());
}

#[test]
fn floats_saturate_to_integers() {
    let to = |dtype, x| Scalar::from_f64(DType::F64, x).convert(dtype).as_i64();
    assert_eq!(to(DType::U8, 300.7), 255);
    assert_eq!(to(DType::U8, -1.0), 0);
    assert_eq!(to(DType::I8, -200.0), -128);
    assert_eq!(to(DType::I32, 2.9), 2);
    assert_eq!(to(DType::I32, -2.9), -2);
    assert_eq!(to(DType::U32, f64::INFINITY), i64::from(u32::MAX));
    assert_eq!(to(DType::I64, 1e300), i64::MAX);
    for dtype in DType::ALL.into_iter().filter(|d| d.is_integer()) {
        assert_eq!(to(dtype, f64::NAN), 0);
    }
}

/// Conversions to every integer type at both of its ends, from every float type that reaches them.
#[test]
fn every_integer_type_saturates_at_its_ends() {
    let ends = [
        (DType::U8, 0, u64::from(u8::MAX)),
        (DType::I8, i64::from(i8::MIN), i8::MAX as u64),
        (DType::U16, 0, u64::from(u16::MAX)),
        (DType::I32, i64::from(i32::MIN), i32::MAX as u64),
        (DType::U32, 0, u64::from(u32::MAX)),
        (DType::I64, i64::MIN, i64::MAX as u64),
        (DType::U64, 0, u64::MAX),
    ];
    for (dtype, least, greatest) in ends {
        let (least, greatest) = (Scalar::from_i64(dtype, least), Scalar::new(dtype, u128::from(greatest)));
        for from in FLOATS {
            let to = |x: f64| Scalar::from_f64(from, x).convert(dtype);
            assert_eq!(to(f64::NAN), Scalar::zero(dtype), "{from} to {dtype}");
            assert_eq!(to(-0.0), Scalar::zero(dtype));
            assert_eq!(to(-0.75), Scalar::zero(dtype), "truncates");
            assert_eq!(to(3.5), Scalar::from_i64(dtype, 3));
            if from != DType::Fp8E4m3fn {
                assert_eq!(
                    [to(f64::NEG_INFINITY), to(f64::INFINITY)],
                    [least, greatest],
                    "{from} to {dtype}"
                );
            }
        }
        let to = |x: f64| Scalar::from_f64(DType::F64, x).convert(dtype);
        let (low, high) = (least.as_f64(), greatest.as_f64());
        assert_eq!([to(low - 1.0), to(low), to(high), to(high + 1.0)], [least, least, greatest, greatest]);
        let inside = 2f64.powi(40).min(high - 1.0);
        assert_eq!(to(inside + 0.5), Scalar::from_i64(dtype, inside as i64), "{dtype}");
    }
}

/// Between integers the low bits are kept, extended by the sign of the source: all pairs of types, at the
/// ends.
#[test]
fn all_pairs_of_integer_types_wrap() {
    let integers: Vec<DType> = DType::ALL.into_iter().filter(|d| d.is_integer()).collect();
    for &from in &integers {
        for pattern in
            [0u64, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff_8000, 1 << 63, u64::MAX, 0x0123_4567_89ab_cdef]
        {
            let x = Scalar::new(from, u128::from(pattern));
            let unused = 64 - 8 * from.size_bytes() as u32;
            let extended = match from.is_signed() {
                true => ((pattern << unused) as i64 >> unused) as u64,
                false => pattern << unused >> unused,
            };
            for &to in &integers {
                assert_eq!(x.convert(to), Scalar::new(to, u128::from(extended)), "{x:?} to {to}");
            }
        }
    }
}

#[test]
fn all_pairs_promote_as_the_table_says() {
    let rows = include_str!("../promotion_table.txt").lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<(DType, Vec<DType>)> = rows
        .map(|line| {
            let (row, columns) = line.split_once(':').expect("a row names its type");
            let known = |token: &str| token.parse().expect("an element type");
            (known(row), columns.split_whitespace().map(known).collect())
        })
        .collect();
    assert_eq!(rows.len(), DType::ALL.len());
    for (a, columns) in &rows {
        for ((b, _), expected) in rows.iter().zip(columns) {
            assert_eq!(a.promote(*b), *expected, "{a} with {b}");
        }
        assert_eq!(columns.len(), rows.len());
    }
}

#[test]
fn integers_wrap() {
    let wrapped = |from, bits, to| Scalar::new(from, bits).convert(to).as_i64();
    assert_eq!(wrapped(DType::I32, 0xffff_ffff, DType::U8), 255);
    assert_eq!(wrapped(DType::U32, 0x180, DType::I8), -128);
    assert_eq!(wrapped(DType::I8, 0x80, DType::I64), -128);
    assert_eq!(wrapped(DType::I8, 0x80, DType::U32), i64::from(u32::MAX - 127));
    assert_eq!(Scalar::new(DType::U64, u128::from(u64::MAX)).as_i64(), i64::MAX);
    assert_eq!(Scalar::new(DType::U64, u128::from(u64::MAX)).convert(DType::I64).as_i64(), -1);
}

#[test]
fn bools_and_lanes() {
    let nan = Scalar::from_f64(DType::F32, f64::NAN);
    assert!(nan.as_bool() && !Scalar::from_f64(DType::F32, -0.0).as_bool());
    assert_eq!(Scalar::new(DType::Bool, 7), Scalar::one(DType::Bool));
    assert_eq!(Scalar::one(DType::Bool).convert(DType::F16).bits(), 0x3c00);
    let lanes = Scalar::new(DType::U32x4, 5 | 6 << 32 | 7 << 96);
    assert_eq!(lanes.convert(DType::F32).as_f64(), 5.0);
    assert_eq!(Scalar::from_i64(DType::I32, -1).convert(DType::U32x4).bits(), 0xffff_ffff);
    assert_eq!(Scalar::from_i64(DType::I64, -2).convert(DType::U32x4).bits(), 0xffff_ffff_ffff_fffe);
    assert_eq!(Scalar::from_f64(DType::F16, -1.0).convert(DType::U32x4).bits(), 0xbc00);
    assert_eq!(Scalar::from_f64(DType::F64, -1.0).convert(DType::U32x4).bits(), 0xbff0_0000_0000_0000);
    assert!(!Scalar::new(DType::U32x4, 6 << 32).as_bool());
}

#[test]
fn one_is_one_everywhere() {
    for dtype in DType::ALL {
        assert_eq!(Scalar::one(dtype).as_f64(), 1.0);
        assert_eq!(Scalar::one(dtype).as_i64(), 1);
        assert_eq!(Scalar::zero(dtype).as_f64().to_bits(), 0);
        // The bits of floats differ from those of integers, and conversion to random bits copies bits.
        for to in DType::ALL.into_iter().filter(|&to| to != DType::U32x4 || !dtype.is_float()) {
            assert_eq!(Scalar::one(dtype).convert(to), Scalar::one(to));
        }
    }
}

#[test]
fn texts() {
    let texts = [
        (Scalar::from_f64(DType::F32, 1.0), "1.0"),
        (Scalar::from_f64(DType::F32, 0.1), "0.1"),
        (Scalar::from_f64(DType::F64, 1e300), "1e300"),
        (Scalar::from_f64(DType::Bf16, -0.0), "-0.0"),
        (Scalar::from_f64(DType::F16, f64::NEG_INFINITY), "-inf"),
        (Scalar::from_f64(DType::Fp8E4m3fn, f64::NAN), "nan"),
        (Scalar::from_i64(DType::I64, i64::MIN), "-9223372036854775808"),
        (Scalar::new(DType::U64, u128::from(u64::MAX)), "18446744073709551615"),
        (Scalar::one(DType::Bool), "true"),
        (Scalar::new(DType::U32x4, 1 | 2 << 32), "0x00000000000000000000000200000001"),
    ];
    for (scalar, text) in texts {
        assert_eq!(scalar.to_string(), text);
    }
}

#[test]
fn bytes_are_little_endian_and_checked() {
    let x = Scalar::from_i64(DType::I32, -2);
    let mut bytes = [0xaa; 5];
    assert_eq!(x.write(&mut bytes), Some(()));
    assert_eq!(bytes, [0xfe, 0xff, 0xff, 0xff, 0xaa]);
    assert_eq!(Scalar::read(DType::I32, &bytes), Some(x));
    assert_eq!(Scalar::read(DType::I64, &bytes), None);
    assert_eq!(x.write(&mut bytes[..3]), None);
}

proptest! {
    #[test]
    fn f32_to_narrow_agrees_with_half(pattern: u32) {
        let x = f32::from_bits(pattern);
        prop_assume!(!x.is_nan());
        prop_assert_eq!(f16_from_f32(x), f16::from_f32(x).to_bits());
        prop_assert_eq!(bf16_from_f32(x), bf16::from_f32(x).to_bits());
    }

    #[test]
    fn f64_to_f32_and_integers_agree_with_the_language(pattern: u64) {
        let x = f64::from_bits(pattern);
        let scalar = Scalar::from_f64(DType::F64, x);
        prop_assume!(!x.is_nan());
        prop_assert_eq!(scalar.bits(), u128::from(pattern));
        prop_assert_eq!(scalar.as_f32().to_bits(), (x as f32).to_bits());
        prop_assert_eq!(scalar.as_i64(), x as i64);
        prop_assert_eq!(scalar.convert(DType::U32).bits(), u128::from(x as u32));
    }

    #[test]
    fn integers_to_floats_agree_with_the_language(n: i64, shift in 0u32..64) {
        let n = n >> shift;
        prop_assert_eq!(Scalar::from_i64(DType::F32, n).as_f32().to_bits(), (n as f32).to_bits());
        prop_assert_eq!(Scalar::from_i64(DType::F64, n).as_f64().to_bits(), (n as f64).to_bits());
        let unsigned = Scalar::new(DType::U64, u128::from(n as u64));
        prop_assert_eq!(unsigned.as_f32().to_bits(), (n as u64 as f32).to_bits());
        prop_assert_eq!(Scalar::from_i64(DType::I64, n).convert(DType::I32).as_i64(), i64::from(n as i32));
    }

    /// No neighbor of the result is nearer, and of two equally near ones the result is the even one. Numbers
    /// that overflow have no two neighbors; `overflow_and_nan` tests them.
    #[test]
    fn f64_becomes_the_nearest(
        negative: bool,
        exponent in prop_oneof![-20i64..18, -160i64..130],
        fraction in 0u64..1 << 52,
        pick in 0usize..6,
    ) {
        let bits = u64::from(negative) << 63 | ((1023 + exponent) as u64) << 52 | fraction;
        let (dtype, x) = (FLOATS[pick], f64::from_bits(bits));
        let rounded = Scalar::from_f64(dtype, x);
        if !rounded.as_f64().is_finite() {
            return Ok(());
        }
        let distance = |bits: u128| (Scalar::new(dtype, bits).as_f64() - x).abs();
        let here = distance(rounded.bits());
        for neighbor in [rounded.bits().wrapping_sub(1), rounded.bits() + 1] {
            let there = distance(neighbor);
            prop_assert!(there.is_nan() || here < there || (here == there && rounded.bits() & 1 == 0));
        }
    }

    #[test]
    fn texts_of_floats_read_back(pattern: u64, pick in 0usize..6) {
        let x = Scalar::new(FLOATS[pick], u128::from(pattern));
        prop_assume!(!x.as_f64().is_nan());
        let read: f64 = x.to_string().parse().expect("a float");
        prop_assert_eq!(Scalar::from_f64(x.dtype(), read), x);
    }
}
