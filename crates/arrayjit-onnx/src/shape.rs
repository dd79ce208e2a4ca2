//! Shapes, axes, and the indices of assignment text.

use arrayjit_tensor::low_level;

use crate::error::{OnnxError, Result};

pub(crate) use low_level::{access, clause, dims, letter, letters, ranges};

/// The axis from 0 that `at` means in a shape of that rank.
pub(crate) fn axis(at: i64, rank: usize) -> Result<usize> {
    let from_start = if at < 0 { at.checked_add(rank as i64) } else { Some(at) };
    from_start
        .and_then(|at| usize::try_from(at).ok())
        .filter(|&at| at < rank)
        .ok_or_else(|| OnnxError::Invalid(format!("axis {at} is none of {rank} axes")))
}

/// The axes from 0, ascending and each once.
pub(crate) fn axes(given: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut axes = given.iter().map(|&at| axis(at, rank)).collect::<Result<Vec<_>, _>>()?;
    axes.sort_unstable();
    axes.dedup();
    Ok(axes)
}

/// The shape to which two shapes broadcast.
pub(crate) fn broadcast(left: &[usize], right: &[usize]) -> Result<Vec<usize>> {
    let problem = || OnnxError::Invalid(format!("shapes {left:?} and {right:?} do not broadcast"));
    low_level::broadcast(left, right).map_err(|_| problem())
}

/// The number of elements of a shape.
pub(crate) fn elements(shape: &[usize]) -> Result<usize> {
    let product = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
    product.filter(|&product| product < 1 << 40).ok_or_else(OnnxError::overflow)
}

/// The row-major position in `shape` of the element that is broadcast to `index`.
pub(crate) fn broadcast_position(index: &[usize], shape: &[usize]) -> usize {
    let missing = index.len() - shape.len();
    let own = index.iter().skip(missing);
    own.zip(shape).fold(0, |flat, (&at, &size)| flat * size + if size == 1 { 0 } else { at })
}
