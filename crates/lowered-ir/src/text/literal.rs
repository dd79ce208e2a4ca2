//! Constants: how each value of each type is written, and read back as the same bits.
//!
//! | written | means |
//! |---|---|
//! | `true`, `false` | the two values of `bool` |
//! | `-3i32` | an integer with its type |
//! | `1.5f32`, `1e-45f32` | a float with its type: the nearest value, which for printed text is the printed one |
//! | `inff32`, `-inff32`, `nanf32` | infinities, and the NaN to which `f64::NAN` converts |
//! | `0x7f800001:f32` | any value by its bits |

use tnode::{DType, Scalar};

/// The text of a constant.
pub(super) fn print(value: Scalar) -> String {
    let dtype = value.dtype();
    match dtype {
        DType::Bool => value.to_string(),
        DType::U32x4 => bits(value),
        _ if dtype.is_float() => print_float(value),
        _ => format!("{value}{dtype}"),
    }
}

fn print_float(value: Scalar) -> String {
    let (x, dtype) = (value.as_f64(), value.dtype());
    if x.is_nan() && value != nan(dtype) {
        bits(value)
    } else if x.is_nan() {
        format!("nan{dtype}")
    } else if x.is_infinite() {
        format!("{}inf{dtype}", if x < 0.0 { "-" } else { "" })
    } else {
        format!("{value}{dtype}")
    }
}

fn bits(value: Scalar) -> String {
    let dtype = value.dtype();
    format!("{:#0width$x}:{dtype}", value.bits(), width = 2 + 2 * dtype.size_bytes())
}

fn nan(dtype: DType) -> Scalar {
    Scalar::from_f64(dtype, f64::NAN)
}

/// The constant that a word such as `true`, `inff32` or `nanf64` denotes; `negative` if a minus sign precedes
/// it.
pub(super) fn word(word: &str, negative: bool) -> Option<Scalar> {
    let float = |dtype: &str, value: f64| {
        let dtype = dtype.parse().ok().filter(|d: &DType| d.is_float())?;
        Some(Scalar::from_f64(dtype, value))
    };
    if let Some(dtype) = word.strip_prefix("inf") {
        let value = if negative { f64::NEG_INFINITY } else { f64::INFINITY };
        return float(dtype, value).filter(|s| s.as_f64() == value);
    }
    match word {
        _ if negative => None,
        "true" => Some(Scalar::new(DType::Bool, 1)),
        "false" => Some(Scalar::new(DType::Bool, 0)),
        _ => word.strip_prefix("nan").and_then(|dtype| float(dtype, f64::NAN)),
    }
}

/// Parses `digits` as a constant of a type. The error names the expected form.
pub(super) fn number(negative: bool, digits: &str, dtype: &str) -> Result<Scalar, String> {
    let Ok(dtype) = dtype.parse::<DType>() else {
        return Err("an element type after the number, as in `1.0f32`".into());
    };
    match dtype {
        DType::Bool => Err("`true` or `false` for a constant of type bool".into()),
        DType::U32x4 => Err("the bits of a u32x4, as in `0x2a:u32x4`".into()),
        _ if dtype.is_float() => float(negative, digits, dtype),
        _ => integer(negative, digits, dtype),
    }
}

fn float(negative: bool, digits: &str, dtype: DType) -> Result<Scalar, String> {
    let text = if negative { format!("-{digits}") } else { digits.to_owned() };
    // Straight to f32: a detour through f64 would round twice.
    let value = match dtype {
        DType::F32 => text.parse::<f32>().ok().map(|x| Scalar::new(dtype, x.to_bits().into())),
        _ => text.parse::<f64>().ok().map(|x| Scalar::from_f64(dtype, x)),
    };
    value.filter(|s| s.as_f64().is_finite()).ok_or_else(|| format!("a number that {dtype} can hold"))
}

fn integer(negative: bool, digits: &str, dtype: DType) -> Result<Scalar, String> {
    let bits = 8 * dtype.size_bytes() as u32;
    let (min, max) = match dtype.is_signed() {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    let magnitude = digits.parse::<i128>().ok();
    let value = magnitude.map(|m| if negative { -m } else { m });
    match value.filter(|v| (min..=max).contains(v)) {
        Some(value) => Ok(Scalar::new(dtype, value as u128)),
        None => Err(format!("an integer within {min}..={max} for {dtype}")),
    }
}

/// Parses `hex` (digits alone) as the bits of a constant. The error names the expected form.
pub(super) fn from_bits(hex: &str, dtype: &str) -> Result<Scalar, String> {
    let Ok(dtype) = dtype.parse::<DType>() else {
        return Err("an element type after the bits, as in `0x7f800001:f32`".into());
    };
    let value = u128::from_str_radix(hex, 16).ok().map(|bits| (bits, Scalar::new(dtype, bits)));
    match value {
        Some((bits, scalar)) if scalar.bits() == bits => Ok(scalar),
        _ => Err(format!("bits that {dtype} can have")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_print_as_people_write_them() {
        let f32 = |x: f32| print(Scalar::new(DType::F32, x.to_bits().into()));
        assert_eq!(f32(1.0), "1.0f32");
        assert_eq!(f32(-0.0), "-0.0f32");
        assert_eq!(f32(f32::NEG_INFINITY), "-inff32");
        assert_eq!(f32(f32::from_bits(1)), "1e-45f32");
        assert_eq!(f32(f32::from_bits(0x7f800001)), "0x7f800001:f32");
        assert_eq!(print(Scalar::from_f64(DType::F16, f64::NAN)), "nanf16");
        assert_eq!(print(Scalar::from_i64(DType::I8, -128)), "-128i8");
        assert_eq!(print(Scalar::new(DType::U32x4, 42)), "0x0000000000000000000000000000002a:u32x4");
    }

    #[test]
    fn what_a_type_cannot_hold_is_rejected() {
        assert_eq!(number(false, "256", "u8"), Err("an integer within 0..=255 for u8".into()));
        assert_eq!(number(true, "1", "u8"), Err("an integer within 0..=255 for u8".into()));
        assert!(number(true, "128", "i8").is_ok());
        assert!(number(false, "1e39", "f32").is_err());
        assert!(number(false, "1.5", "i32").is_err());
        assert!(number(false, "1", "bool").is_err());
        assert!(number(false, "1", "").is_err());
        assert!(from_bits("2", "bool").is_err());
        assert!(from_bits("100", "u8").is_err());
        assert_eq!(word("inffp8_e4m3fn", false), None, "fp8_e4m3fn has no infinity");
    }
}
