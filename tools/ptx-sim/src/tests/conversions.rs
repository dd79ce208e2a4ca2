//! Conversions between types.

use half::{bf16, f16};

use crate::convert::convert;
use ptx_asm::{RoundingMode, Ty};

fn bits(value: f32) -> u64 {
    u64::from(value.to_bits())
}

#[test]
fn integers_are_truncated_or_extended() {
    let cases = [
        (Ty::U64, Ty::S32, 0xffff_fffe, 0xffff_ffff_ffff_fffe),
        (Ty::U64, Ty::U32, 0xffff_fffe, 0xffff_fffe),
        (Ty::S16, Ty::U64, 0x1_8001, 0x8001),
        (Ty::U8, Ty::U32, 0x1234, 0x34),
        (Ty::S8, Ty::U32, 0x1284, 0xff84),
        (Ty::S32, Ty::S8, 0x1284, 0xffff_ff84),
        (Ty::S32, Ty::U8, 0x1284, 0x84),
    ];
    for (to, from, number, expected) in cases {
        assert_eq!(convert(to, from, RoundingMode::None, number), Some(expected), "{to:?} {from:?}");
    }
    assert_eq!(convert(Ty::B32, Ty::U64, RoundingMode::None, 1), None);
    assert_eq!(convert(Ty::U32, Ty::U64, RoundingMode::Zero, 1), None);
}

#[test]
fn integers_become_floats() {
    let mut chance = fastrand::Rng::with_seed(1);
    for _ in 0..100_000 {
        let number = chance.u64(..) >> chance.u32(0..64);
        let nearest = |to, from| convert(to, from, RoundingMode::Nearest, number);
        assert_eq!(nearest(Ty::F32, Ty::U64), Some(bits(number as f32)));
        assert_eq!(nearest(Ty::F32, Ty::S64), Some(bits(number as i64 as f32)));
        assert_eq!(nearest(Ty::F32, Ty::S32), Some(bits(number as i32 as f32)));
        assert_eq!(nearest(Ty::F64, Ty::U64), Some((number as f64).to_bits()));
        assert_eq!(nearest(Ty::F64, Ty::S8), Some(f64::from(number as i8).to_bits()));
        // An `f32` represents every 16-bit integer, so rounding it to `f16` is the only rounding.
        let half = f16::from_f32(f32::from(number as u16));
        assert_eq!(nearest(Ty::F16, Ty::U16), Some(u64::from(half.to_bits())));
        let half = bf16::from_f32(f32::from(number as i16));
        assert_eq!(nearest(Ty::Bf16, Ty::S16), Some(u64::from(half.to_bits())));
    }
    let odd = (1 << 24) + 1;
    assert_eq!(convert(Ty::F32, Ty::U32, RoundingMode::Up, odd), Some(bits(16_777_218.0)));
    assert_eq!(convert(Ty::F32, Ty::U32, RoundingMode::Zero, odd), Some(bits(16_777_216.0)));
    assert_eq!(
        convert(Ty::F32, Ty::S32, RoundingMode::Down, (-(odd as i64)) as u64),
        Some(bits(-16_777_218.0))
    );
    assert_eq!(convert(Ty::F32, Ty::U32, RoundingMode::None, 1), None);
}

#[test]
fn floats_become_integers() {
    use RoundingMode::{DownInteger, NearestInteger, UpInteger, ZeroInteger};
    let to = |ty, rounding, value: f32| convert(ty, Ty::F32, rounding, bits(value));
    for (value, nearest, zero, down, up) in
        [(2.5, 2, 2, 2, 3), (3.5, 4, 3, 3, 4), (-2.5, -2, -2, -3, -2), (-0.4, 0, 0, -1, 0), (7.0, 7, 7, 7, 7)]
    {
        for (rounding, expected) in
            [(NearestInteger, nearest), (ZeroInteger, zero), (DownInteger, down), (UpInteger, up)]
        {
            let expected: i32 = expected;
            assert_eq!(
                to(Ty::S32, rounding, value),
                Some(u64::from(expected as u32)),
                "{value} {rounding:?}"
            );
            // Rounding to an integral float keeps the sign of zero.
            let float = to(Ty::F32, rounding, value).expect("it is there");
            assert_eq!(f32::from_bits(float as u32), expected as f32);
        }
    }
    for (ty, most, least) in [
        (Ty::U8, 0xff, 0),
        (Ty::S8, 0x7f, 0xff80),
        (Ty::U16, 0xffff, 0),
        (Ty::S16, 0x7fff, 0x8000),
        (Ty::U32, 0xffff_ffff, 0),
        (Ty::S32, 0x7fff_ffff, 0x8000_0000),
        (Ty::U64, u64::MAX, 0),
        (Ty::S64, i64::MAX as u64, 1 << 63),
    ] {
        for value in [1e30, f32::INFINITY] {
            assert_eq!(to(ty, ZeroInteger, value), Some(most), "{ty:?} {value}");
            assert_eq!(to(ty, ZeroInteger, -value), Some(least), "{ty:?} -{value}");
        }
    }
    assert_eq!(to(Ty::U8, NearestInteger, 255.4), Some(255));
    assert_eq!(to(Ty::S8, ZeroInteger, -128.9), Some(0xff80));
    assert_eq!(to(Ty::S32, RoundingMode::Nearest, 1.0), None);
    let half = u64::from(f16::from_f32(-3.75).to_bits());
    assert_eq!(convert(Ty::S16, Ty::F16, ZeroInteger, half), Some(0xfffd));
}

/// NaN gives 0, unless one of the types has 64 bits.
#[test]
fn nan_has_fixed_conversions() {
    let nan = bits(f32::NAN);
    for (ty, expected) in [(Ty::U8, 0), (Ty::S32, 0), (Ty::U32, 0), (Ty::U64, 1 << 63), (Ty::S64, 1 << 63)] {
        assert_eq!(convert(ty, Ty::F32, RoundingMode::ZeroInteger, nan), Some(expected), "{ty:?}");
    }
    let nan = f64::NAN.to_bits();
    for (ty, expected) in [(Ty::S16, 0x8000), (Ty::U32, 1 << 31), (Ty::S32, 1 << 31), (Ty::S64, 1 << 63)] {
        assert_eq!(convert(ty, Ty::F64, RoundingMode::ZeroInteger, nan), Some(expected), "{ty:?}");
    }
    assert_eq!(convert(Ty::F16, Ty::F32, RoundingMode::Nearest, bits(f32::NAN)), Some(0x7fff));
    assert_eq!(convert(Ty::F32, Ty::F16, RoundingMode::None, 0xfe00), Some(0x7fff_ffff));
}

#[test]
fn floats_become_wider_and_narrower() {
    for half in 0..=u16::MAX {
        let value = f16::from_bits(half);
        if !value.is_nan() {
            let wide = convert(Ty::F32, Ty::F16, RoundingMode::None, u64::from(half));
            assert_eq!(wide, Some(bits(value.to_f32())));
            let back = convert(Ty::F16, Ty::F32, RoundingMode::Nearest, bits(value.to_f32()));
            assert_eq!(back, Some(u64::from(half)));
        }
    }
    let narrow = |rounding, value: f64| convert(Ty::F32, Ty::F64, rounding, value.to_bits());
    let third = 1.0_f64 / 3.0;
    assert_eq!(narrow(RoundingMode::Nearest, third), Some(bits(1.0 / 3.0)));
    assert_eq!(narrow(RoundingMode::Zero, third), Some(bits(1.0 / 3.0) - 1));
    assert_eq!(narrow(RoundingMode::Up, -third), Some(bits(-1.0 / 3.0) - 1));
    assert_eq!(narrow(RoundingMode::Zero, 1e300), Some(bits(f32::MAX)));
    assert_eq!(narrow(RoundingMode::Nearest, 1e300), Some(bits(f32::INFINITY)));
    assert_eq!(narrow(RoundingMode::Up, 1e-300), Some(1));
    assert_eq!(narrow(RoundingMode::Nearest, -1e-300), Some(bits(-0.0)));
    assert_eq!(narrow(RoundingMode::None, 1.0), None);
    assert_eq!(convert(Ty::F64, Ty::F32, RoundingMode::None, bits(0.1)), Some(f64::from(0.1_f32).to_bits()));
    // Neither 16-bit format contains the other.
    assert_eq!(convert(Ty::Bf16, Ty::F16, RoundingMode::None, 0x3c01), None);
    assert_eq!(convert(Ty::F16, Ty::Bf16, RoundingMode::None, 0x3c01), None);
}
