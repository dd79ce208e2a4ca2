//! Copies between arrays of different dimensions.

use super::HostArray;
use crate::error::{Result, TensorNodeError};
use crate::padding::Dims;

/// The elements of an array at the same indices of one with other dimensions.
pub(super) fn resized(from: &HostArray, dims: &Dims) -> Result<HostArray> {
    let mut to = HostArray::zeros(from.dtype(), dims.iter().copied())?;
    if from.dims().len() != dims.len() {
        let (expected, found) = (from.dims().len(), dims.to_vec());
        return Err(TensorNodeError::OutOfBounds { index: vec![0; expected], dims: found.into() });
    }
    let part: Dims = from.dims().iter().zip(dims).map(|(a, b)| *a.min(b)).collect();
    if part.contains(&0) {
        return Ok(to);
    }
    // Whole axes at the end are copied at once.
    let is_whole = |axis: &usize| from.dims()[*axis] == dims[*axis];
    let whole = (0..part.len()).rev().take_while(is_whole).count();
    let outer = part.len().saturating_sub(whole + 1);
    let bytes = |dims: &[usize]| dims[outer..].iter().product::<usize>() * from.dtype().size_bytes();
    let (length, steps) = (bytes(&part), [bytes(from.dims()), bytes(dims)]);
    let mut point = vec![0; outer];
    loop {
        let row = |dims: &[usize]| point.iter().zip(dims).fold(0, |row, (at, dim)| row * dim + at);
        let (source, target) = (row(from.dims()) * steps[0], row(dims) * steps[1]);
        to.bytes_mut()[target..target + length].copy_from_slice(&from.bytes()[source..source + length]);
        let Some(axis) = (0..outer).rev().find(|&axis| point[axis] + 1 < part[axis]) else { return Ok(to) };
        point[axis] += 1;
        point[axis + 1..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_keep_their_indices() -> Result<()> {
        let array = HostArray::from_slice(&[1i32, 2, 3, 4, 5, 6], [3, 2])?;
        let wide = array.resized([4, 3])?;
        assert_eq!(wide.values(), [1., 2., 0., 3., 4., 0., 5., 6., 0., 0., 0., 0.]);
        assert_eq!(wide.resized([3, 2])?.values(), array.values());
        assert_eq!(wide.resized([2, 3])?.values(), [1., 2., 0., 3., 4., 0.]);
        assert_eq!(array.resized([0, 2])?.num_values(), 0);
        assert_eq!(HostArray::from_slice(&[7i32], [])?.resized([])?.values(), [7.]);
        assert!(array.resized([6]).is_err());
        Ok(())
    }
}
