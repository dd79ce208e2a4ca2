//! Initial data of nodes.

use tnode::DType;

use crate::format;
use crate::weights::DataKind;

/// The bits of an element of the kind, derived from a random word.
pub(super) fn element(dtype: DType, kind: DataKind, random: u64) -> u64 {
    use DataKind::{Bits, Fractions, Mixture, Small, Special};
    let mask = u64::MAX >> (64 - 8 * dtype.size_bytes());
    if dtype == DType::Bool {
        return random & 1;
    }
    let kind = match kind {
        Mixture => [Small, Fractions, Small, Bits, Special][(random >> 60) as usize % 5],
        kind => kind,
    };
    match kind {
        Bits => (random >> 8) & mask,
        Special => special(dtype, (random >> 8) as usize % 10),
        Fractions if dtype.is_float() => {
            format::encode(dtype, ((random >> 8) % 65_536) as f64 / 32_768.0 - 1.0)
        }
        _ if dtype.is_float() => format::encode(dtype, ((random >> 8) % 9) as f64 - 4.0),
        _ => (random >> 8) % 7,
    }
}

/// The bits of a special value, chosen by `which` below 10.
fn special(dtype: DType, which: usize) -> u64 {
    if !dtype.is_float() {
        let (low, high) = format::range(dtype);
        let values = [0, 1, low, high, low + 1, high - 1, high / 2, 2, high, low];
        return (values[which] as u64) & (u64::MAX >> (64 - 8 * dtype.size_bytes()));
    }
    let (large, normal) = (format::largest(dtype), format::least_normal(dtype));
    let tiny = format::ulp(dtype, 0.0);
    let values = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, tiny, -normal, large, 1.0, -1.5];
    format::encode(dtype, values[which])
}
