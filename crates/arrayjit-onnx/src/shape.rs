//! Shapes, axes, and the indices of assignment text.

use crate::error::NodeProblem;

/// The axis from 0 that `at` means in a shape of that rank.
pub(crate) fn axis(at: i64, rank: usize) -> Result<usize, NodeProblem> {
    let from_start = if at < 0 { at.checked_add(rank as i64) } else { Some(at) };
    from_start
        .and_then(|at| usize::try_from(at).ok())
        .filter(|&at| at < rank)
        .ok_or_else(|| NodeProblem::Other(format!("axis {at} is none of {rank} axes")))
}

/// The axes from 0, ascending and each once.
pub(crate) fn axes(given: &[i64], rank: usize) -> Result<Vec<usize>, NodeProblem> {
    let mut axes = given.iter().map(|&at| axis(at, rank)).collect::<Result<Vec<_>, _>>()?;
    axes.sort_unstable();
    axes.dedup();
    Ok(axes)
}

/// The shape to which two shapes broadcast.
pub(crate) fn broadcast(left: &[usize], right: &[usize]) -> Result<Vec<usize>, NodeProblem> {
    let rank = left.len().max(right.len());
    let size = |shape: &[usize], at: usize| (at + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
    let merged = |at| match (size(left, at), size(right, at)) {
        (a, b) if a == b || b == 1 => Ok(a),
        (1, b) => Ok(b),
        _ => Err(NodeProblem::Other(format!("shapes {left:?} and {right:?} do not broadcast"))),
    };
    (0..rank).map(merged).collect()
}

/// The number of elements of a shape.
pub(crate) fn elements(shape: &[usize]) -> Result<usize, NodeProblem> {
    let product = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
    product.filter(|&product| product < 1 << 40).ok_or_else(NodeProblem::overflow)
}

/// The row-major position in `shape` of the element that is broadcast to `index`.
pub(crate) fn broadcast_position(index: &[usize], shape: &[usize]) -> usize {
    let missing = index.len() - shape.len();
    let own = index.iter().skip(missing);
    own.zip(shape).fold(0, |flat, (&at, &size)| flat * size + if size == 1 { 0 } else { at })
}

/// The index letter of an axis of a result.
pub(crate) fn letter(axis: usize) -> String {
    format!("i{axis}")
}

/// The index letters of all axes of a rank.
pub(crate) fn letters(rank: usize) -> Vec<String> {
    (0..rank).map(letter).collect()
}

/// An access with these indices: `x[i0,i1]`.
pub(crate) fn access(name: &str, indices: &[String]) -> String {
    format!("{name}[{}]", indices.join(","))
}

/// A shape as text: `2,3`.
pub(crate) fn dims(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// The ranges of all letters of a shape, as a clause.
pub(crate) fn clause(shape: &[usize]) -> String {
    if shape.is_empty() { String::new() } else { format!(" where {}", ranges(shape)) }
}

/// Ranges of letters: `i0 < 2, i1 < 3`, without those of no axes.
pub(crate) fn ranges(shape: &[usize]) -> String {
    shape.iter().enumerate().map(|(at, size)| format!("i{at} < {size}")).collect::<Vec<_>>().join(", ")
}
