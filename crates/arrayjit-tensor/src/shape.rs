//! Shapes: axes counted from either end, broadcasting, and the indices of texts.

use std::{fmt::Display, ops::RangeFull};

use crate::error::{Result, TensorError};

/// The axes of a reduction: `..` for all, `-1` for the last, or an array of axes. A negative axis counts from
/// the last one.
pub trait Axes {
    /// The axes of a tensor of this shape, ascending.
    ///
    /// # Errors
    /// An axis that the shape does not have, or one that is given twice.
    #[doc(hidden)]
    fn of_shape(&self, shape: &[usize]) -> Result<Vec<usize>>;
}

impl Axes for RangeFull {
    fn of_shape(&self, shape: &[usize]) -> Result<Vec<usize>> {
        Ok((0..shape.len()).collect())
    }
}

impl Axes for isize {
    fn of_shape(&self, shape: &[usize]) -> Result<Vec<usize>> {
        Ok(vec![axis_at(*self, shape)?])
    }
}

impl<const N: usize> Axes for [isize; N] {
    fn of_shape(&self, shape: &[usize]) -> Result<Vec<usize>> {
        self.as_slice().of_shape(shape)
    }
}

impl Axes for &[isize] {
    fn of_shape(&self, shape: &[usize]) -> Result<Vec<usize>> {
        let mut axes = self.iter().map(|&at| axis_at(at, shape)).collect::<Result<Vec<_>, _>>()?;
        axes.sort_unstable();
        match axes.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(TensorError::RepeatedAxis { axis: pair[0], shape: shape.to_vec() }),
            None => Ok(axes),
        }
    }
}

/// The axis from 0 that `at` means.
pub(crate) fn axis_at(at: isize, shape: &[usize]) -> Result<usize> {
    let from_start = if at < 0 { at.checked_add_unsigned(shape.len()) } else { Some(at) };
    from_start
        .and_then(|at| usize::try_from(at).ok())
        .filter(|&at| at < shape.len())
        .ok_or_else(|| TensorError::Axis { axis: at, shape: shape.to_vec() })
}

/// The shape to which two shapes broadcast, as in NumPy: axes are aligned at the last, and an axis of size 1
/// is repeated.
pub fn broadcast(left: &[usize], right: &[usize]) -> Result<Vec<usize>> {
    let rank = left.len().max(right.len());
    let size = |shape: &[usize], at: usize| (at + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
    let merged = |at| match (size(left, at), size(right, at)) {
        (a, b) if a == b || b == 1 => Ok(a),
        (1, b) => Ok(b),
        _ => Err(TensorError::Broadcast { left: left.to_vec(), right: right.to_vec() }),
    };
    (0..rank).map(merged).collect()
}

/// The index letter of an axis of a result.
pub fn letter(axis: usize) -> String {
    format!("i{axis}")
}

/// The index letters of all axes of a rank.
pub fn letters(rank: usize) -> Vec<String> {
    numbered("i", rank)
}

/// A letter with the numbers from 0: `k0`, `k1`.
pub fn numbered(letter: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{letter}{at}")).collect()
}

/// An access with these indices: `x[i0,i1]`.
pub fn access(name: &str, indices: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    format!("{name}[{}]", joined(indices))
}

fn joined(texts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    texts.into_iter().map(|text| text.as_ref().to_owned()).collect::<Vec<_>>().join(",")
}

/// A shape as text: `2,3`.
pub fn dims(shape: &[usize]) -> String {
    joined(shape.iter().map(usize::to_string))
}

/// Ranges of letters: `o0 < 2, o1 < 3`.
pub fn ranges_of(letters: &[String], sizes: impl IntoIterator<Item = impl Display>) -> String {
    let each = letters.iter().zip(sizes).map(|(letter, size)| format!("{letter} < {size}"));
    each.collect::<Vec<_>>().join(", ")
}

/// Ranges of the letters of a shape: `i0 < 2, i1 < 3`.
pub fn ranges(shape: &[usize]) -> String {
    ranges_of(&letters(shape.len()), shape.iter().copied())
}

/// Ranges of letters as a clause of a statement.
pub(crate) fn clause_of(letters: &[String], sizes: impl IntoIterator<Item = usize>) -> String {
    if letters.is_empty() { String::new() } else { format!(" where {}", ranges_of(letters, sizes)) }
}

/// The ranges of the letters of a shape, as a clause of a statement.
pub fn clause(shape: &[usize]) -> String {
    clause_of(&letters(shape.len()), shape.iter().copied())
}

/// The access of a whole node of that rank.
pub(crate) fn whole(name: &str, rank: usize) -> String {
    access(name, (0..rank).map(letter))
}

/// The access of an operand of shape `shape` that is broadcast to `to`. An axis of size 1 has index 0, since
/// a letter would need the same range everywhere.
pub fn broadcast_access(name: &str, shape: &[usize], to: &[usize]) -> String {
    access(name, broadcast_indices(shape, to.len()))
}

/// The indices of an operand that is broadcast to axes of that number.
pub(crate) fn broadcast_indices(shape: &[usize], rank: usize) -> Vec<String> {
    let missing = rank - shape.len();
    let index = |(at, &size): (usize, &usize)| if size == 1 { "0".into() } else { letter(at + missing) };
    shape.iter().enumerate().map(index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_broadcast_as_in_numpy() {
        assert_eq!(broadcast(&[8, 1, 6], &[7, 1]).unwrap(), [8, 7, 6]);
        assert_eq!(broadcast(&[], &[3]).unwrap(), [3]);
        assert_eq!(broadcast(&[0], &[1]).unwrap(), [0]);
        assert!(broadcast(&[2], &[3]).is_err());
        assert!(broadcast(&[0], &[2]).is_err());
    }

    #[test]
    fn axes_count_from_both_ends() {
        assert_eq!([-1, 0].of_shape(&[2, 3, 4]).unwrap(), [0, 2]);
        assert_eq!((..).of_shape(&[2, 3]).unwrap(), [0, 1]);
        assert!((-1isize).of_shape(&[]).is_err());
        assert!(2isize.of_shape(&[2, 3]).is_err());
        assert!([0, -2].of_shape(&[2, 3]).is_err());
        assert!(isize::MIN.of_shape(&[2]).is_err());
    }
}
