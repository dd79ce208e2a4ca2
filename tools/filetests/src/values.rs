//! Elements of an array in the syntax of test files.
//!
//! | written | elements |
//! |---|---|
//! | `[1, 2.5, -inf, nan]`, `[true]`, `[0x7f]` | exactly these, in row-major order; `0x` gives bits |
//! | `fill(1)` | all the same |
//! | `iota`, `iota(5)`, `iota(0, 0.5)` | a start (0) and a step (1): 0, 1, 2 … |
//! | `random(7)`, `random(7, -3, 3)` | samples for a seed in −1..1 (integers −8..8 or 0..16), or in a range |

use std::ops::Range;

use random_programs::SplitMix64;
use tnode::{DType, Scalar};

/// The bytes of `elems` elements.
pub(crate) fn parse(text: &str, dtype: DType, elems: usize) -> Result<Vec<u8>, String> {
    let text = text.trim();
    if let Some(list) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        return listed(list, dtype, elems);
    }
    let (name, args) = match text.split_once('(') {
        Some((name, args)) => {
            (name, args.strip_suffix(')').ok_or_else(|| format!("`{text}` lacks its `)`"))?)
        }
        None => (text, ""),
    };
    let args: Vec<&str> = args.split(',').map(str::trim).filter(|arg| !arg.is_empty()).collect();
    let values: Vec<Scalar> = match (name, args.as_slice()) {
        ("fill", [value]) => vec![scalar(value, dtype)?; elems],
        ("iota", []) => iota(dtype, 0.0, 1.0, elems),
        ("iota", [start]) => iota(dtype, number(start)?, 1.0, elems),
        ("iota", [start, step]) => iota(dtype, number(start)?, number(step)?, elems),
        ("random", [seed]) => random(dtype, number(seed)?, default_range(dtype), elems),
        ("random", [seed, lo, hi]) => random(dtype, number(seed)?, number(lo)?..number(hi)?, elems),
        _ => return Err(format!("`{text}` is neither a list of elements nor `fill`, `iota` or `random`")),
    };
    Ok(bytes(&values))
}

fn listed(list: &str, dtype: DType, elems: usize) -> Result<Vec<u8>, String> {
    let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
    let values = items.map(|item| scalar(item, dtype)).collect::<Result<Vec<_>, _>>()?;
    match values.len() == elems {
        true => Ok(bytes(&values)),
        false => Err(format!("expected {elems} elements, found {}", values.len())),
    }
}

/// Parses one element.
fn scalar(text: &str, dtype: DType) -> Result<Scalar, String> {
    let wrong = || format!("`{text}` is no value of {dtype}");
    if let Some(hex) = text.strip_prefix("0x") {
        let bits = u128::from_str_radix(hex, 16).map_err(|_| wrong())?;
        return Some(Scalar::new(dtype, bits)).filter(|s| s.bits() == bits).ok_or_else(wrong);
    }
    match dtype {
        DType::Bool => text.parse().map(|b: bool| Scalar::new(dtype, b.into())).map_err(|_| wrong()),
        DType::F32 => text.parse().map(|x: f32| Scalar::new(dtype, x.to_bits().into())).map_err(|_| wrong()),
        _ if dtype.is_float() => Ok(Scalar::from_f64(dtype, number(text)?)),
        _ => {
            let value: i128 = text.parse().map_err(|_| wrong())?;
            // A value out of range wraps around and prints as another number.
            Some(Scalar::new(dtype, value as u128))
                .filter(|s| s.to_string() == value.to_string())
                .ok_or_else(wrong)
        }
    }
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn iota(dtype: DType, start: f64, step: f64, elems: usize) -> Vec<Scalar> {
    (0..elems).map(|i| Scalar::from_f64(dtype, start + step * i as f64)).collect()
}

fn default_range(dtype: DType) -> Range<f64> {
    match dtype {
        DType::Bool => 0.0..2.0,
        _ if dtype.is_float() => -1.0..1.0,
        _ if dtype.is_signed() => -8.0..8.0,
        _ => 0.0..16.0,
    }
}

fn random(dtype: DType, seed: f64, range: Range<f64>, elems: usize) -> Vec<Scalar> {
    let mut words = SplitMix64::new(seed as u64);
    let mut draw = || {
        let bits = words.word();
        if dtype == DType::U32x4 {
            return Scalar::new(dtype, u128::from(bits) << 64 | u128::from(words.word()));
        }
        let unit = (bits >> 11) as f64 / (1u64 << 53) as f64;
        let x = range.start + (range.end - range.start) * unit;
        Scalar::from_f64(dtype, if dtype.is_float() { x } else { x.floor() })
    };
    (0..elems).map(|_| draw()).collect()
}

fn bytes(values: &[Scalar]) -> Vec<u8> {
    let each = |value: &Scalar| value.bits().to_le_bytes().into_iter().take(value.dtype().size_bytes());
    values.iter().flat_map(each).collect()
}

/// The elements of an array, as a list that [`parse`] reads back.
pub(crate) fn print(bytes: &[u8], dtype: DType) -> String {
    let values: Vec<String> = scalars(bytes, dtype).map(|value| value.to_string()).collect();
    format!("[{}]", values.join(", "))
}

/// The elements of an array.
pub(crate) fn scalars(bytes: &[u8], dtype: DType) -> impl Iterator<Item = Scalar> + '_ {
    bytes.chunks_exact(dtype.size_bytes()).filter_map(move |chunk| Scalar::read(dtype, chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str, dtype: DType, elems: usize) -> String {
        print(&parse(text, dtype, elems).unwrap(), dtype)
    }

    #[test]
    fn lists_and_generators() {
        assert_eq!(again("[1, 2.5, -inf, nan]", DType::F32, 4), "[1.0, 2.5, -inf, nan]");
        assert_eq!(again("[true, false]", DType::Bool, 2), "[true, false]");
        assert_eq!(again("[-1, 0x7f]", DType::I8, 2), "[-1, 127]");
        assert_eq!(again("iota(5)", DType::U8, 3), "[5, 6, 7]");
        assert_eq!(again("iota(0, 0.5)", DType::F16, 3), "[0.0, 0.5, 1.0]");
        assert_eq!(again("fill(3)", DType::I64, 2), "[3, 3]");
        assert_eq!(again("[]", DType::I64, 0), "[]");
    }

    #[test]
    fn seeds_draw_within_their_range() {
        let drawn = parse("random(7, -3, 3)", DType::I32, 1000).unwrap();
        let values: std::collections::BTreeSet<i64> =
            scalars(&drawn, DType::I32).map(Scalar::as_i64).collect();
        assert_eq!(values.into_iter().collect::<Vec<_>>(), [-3, -2, -1, 0, 1, 2]);
        assert_eq!(drawn, parse("random(7, -3, 3)", DType::I32, 1000).unwrap());
        assert_ne!(drawn, parse("random(8, -3, 3)", DType::I32, 1000).unwrap());
    }

    #[test]
    fn what_does_not_fit_is_rejected() {
        for bad in ["[1, 2]", "[300]", "[x]", "[0x1ff]", "iota(1", "iota(a)", "zeros", "fill(1, 2)"] {
            assert!(parse(bad, DType::U8, 1).is_err(), "{bad}");
        }
    }
}
