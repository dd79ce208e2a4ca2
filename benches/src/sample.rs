//! Samples rows of arrays that are too large to be converted and checked completely. A row spans the last
//! axis.

use arrayjit::{DType, HostArray};
use half::bf16;

/// The number of sampled rows.
const ROWS: usize = 32;

/// The positions of the sampled rows of an array with `count` rows: the first, the last, and some between
/// that depend on the seed; ascending, without duplicates.
pub(crate) fn chosen(seed: &str, count: usize) -> Vec<usize> {
    if count <= ROWS {
        return (0..count).collect();
    }
    let seed = seed.bytes().fold(11, |seed: u64, b| seed.wrapping_mul(31).wrapping_add(u64::from(b)));
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut rows = std::collections::BTreeSet::from([0, count - 1]);
    while rows.len() < ROWS {
        rows.insert(rng.usize(..count));
    }
    rows.into_iter().collect()
}

/// The number of rows of an array.
pub(crate) fn count(array: &HostArray) -> usize {
    array.num_values() / columns(array)
}

/// The number of elements of a row.
pub(crate) fn columns(array: &HostArray) -> usize {
    array.dims().last().copied().unwrap_or(1).max(1)
}

/// The values of some rows, one row after the other.
pub(crate) fn rows(array: &HostArray, rows: &[usize]) -> Vec<f64> {
    let columns = columns(array);
    rows.iter().flat_map(|row| part(array, row * columns, columns)).collect()
}

/// `count` values of an array without margins, from position `first` on.
pub(crate) fn part(array: &HostArray, first: usize, count: usize) -> Vec<f64> {
    assert!(array.padding().is_none(), "large arrays have no margins");
    let size = array.dtype().size_bytes();
    let bytes = &array.bytes()[first * size..][..count * size];
    match array.dtype() {
        DType::F32 => bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b).into()).collect(),
        DType::Bf16 => bytes.as_chunks().0.iter().map(|&b| bf16::from_le_bytes(b).into()).collect(),
        other => panic!("large arrays are not of {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_the_seed_with_both_ends() {
        let rows = chosen("a case", 8192);
        assert!(rows.len() == ROWS && rows.is_sorted_by(|a, b| a < b));
        assert_eq!((rows[0], rows[ROWS - 1]), (0, 8191));
        assert_eq!(rows, chosen("a case", 8192));
        assert_ne!(rows, chosen("another", 8192));
        assert_eq!(chosen("a case", 3), [0, 1, 2]);
    }

    #[test]
    fn rows_are_what_the_array_has() {
        let values: Vec<f32> = (0..24).map(|i| i as f32 - 7.5).collect();
        let narrow: Vec<bf16> = values.iter().map(|&v| bf16::from_f32(v)).collect();
        for array in [
            HostArray::from_slice(&values, [2, 3, 4]).unwrap(),
            HostArray::from_slice(&narrow, [2, 3, 4]).unwrap(),
        ] {
            let all = array.values();
            assert_eq!((count(&array), columns(&array)), (6, 4));
            assert_eq!(rows(&array, &[1, 5]), [&all[4..8], &all[20..]].concat());
        }
    }
}
