//! Conversions between types.

use super::arith::{signed, truncate, width};
use super::float::{FloatFormat, RoundingDirection};
use ptx_asm::{RoundingMode, Ty};

/// Converts a number to type `to`, extended to the width of its register; `None` if PTX has no such
/// conversion.
pub(super) fn convert(to: Ty, from: Ty, rounding: RoundingMode, bits: u64) -> Option<u64> {
    let bits = truncate(bits, width(from));
    match (FloatFormat::of(to), FloatFormat::of(from)) {
        (Some(to), Some(from)) => between_floats(to, from, rounding, bits),
        (Some(to), None) => integer_to_float(to, from, rounding, bits),
        (None, Some(format)) => float_to_integer(to, from, rounding, format.decode(bits)),
        (None, None) => between_integers(to, from, rounding, bits),
    }
}

/// The rounding direction of a conversion to a float; `None` if the mode rounds to integers or not at all.
fn direction(rounding: RoundingMode) -> Option<RoundingDirection> {
    match rounding {
        RoundingMode::Nearest => Some(RoundingDirection::Nearest),
        RoundingMode::Zero => Some(RoundingDirection::Zero),
        RoundingMode::Down => Some(RoundingDirection::Down),
        RoundingMode::Up => Some(RoundingDirection::Up),
        _ => None,
    }
}

/// Rounds a float to an integral value.
fn to_integral(rounding: RoundingMode, value: f64) -> Option<f64> {
    match rounding {
        RoundingMode::NearestInteger => Some(value.round_ties_even()),
        RoundingMode::ZeroInteger => Some(value.trunc()),
        RoundingMode::DownInteger => Some(value.floor()),
        RoundingMode::UpInteger => Some(value.ceil()),
        _ => None,
    }
}

fn between_floats(to: FloatFormat, from: FloatFormat, rounding: RoundingMode, bits: u64) -> Option<u64> {
    let value = from.decode(bits);
    if to == from {
        return to_integral(rounding, value).map(|value| to.encode(value, RoundingDirection::Nearest));
    }
    match direction(rounding) {
        Some(direction) => Some(to.encode(value, direction)),
        // A conversion without rounding needs a format with at least the precision and range of the source.
        // `f16` has more precision than `bf16`, and less range.
        None if rounding == RoundingMode::None && to.fraction > from.fraction && to.bias >= from.bias => {
            Some(to.encode(value, RoundingDirection::Nearest))
        }
        None => None,
    }
}

/// Whether a type is a signed or unsigned integer.
fn is_integer(ty: Ty) -> bool {
    ty.is_signed() || ty.is_unsigned()
}

fn integer_to_float(to: FloatFormat, from: Ty, rounding: RoundingMode, bits: u64) -> Option<u64> {
    let direction = direction(rounding)?;
    if !is_integer(from) {
        return None;
    }
    let negative = from.is_signed() && signed(bits, width(from)) < 0;
    let magnitude = if negative { signed(bits, width(from)).unsigned_abs() } else { bits };
    Some(to.round(negative, magnitude, 0, direction))
}

/// Clamps values out of range. For NaN see [`nan`].
fn float_to_integer(to: Ty, from: Ty, rounding: RoundingMode, value: f64) -> Option<u64> {
    if !is_integer(to) {
        return None;
    }
    let value = to_integral(rounding, value)?;
    let bits = width(to);
    let result = if value.is_nan() {
        nan(to, from)
    } else if to.is_signed() {
        let most = i64::MAX >> (64 - bits);
        truncate((value as i64).clamp(-most - 1, most) as u64, bits)
    } else {
        (value as u64).min(u64::MAX >> (64 - bits))
    };
    Some(extend(to, result))
}

/// The integer for NaN: zero if neither type has 64 bits, else only the top bit.
fn nan(to: Ty, from: Ty) -> u64 {
    if from == Ty::F64 || width(to) == 64 { 1 << (width(to) - 1) } else { 0 }
}

fn between_integers(to: Ty, from: Ty, rounding: RoundingMode, bits: u64) -> Option<u64> {
    if rounding != RoundingMode::None || !is_integer(to) || !is_integer(from) {
        return None;
    }
    let wide = if from.is_signed() { signed(bits, width(from)) as u64 } else { bits };
    Some(extend(to, truncate(wide, width(to))))
}

/// The register content for an integer of type `ty`, extended by its signedness.
pub(super) fn extend(ty: Ty, bits: u64) -> u64 {
    if ty.is_signed() { truncate(signed(bits, width(ty)) as u64, ty.class().bits()) } else { bits }
}
