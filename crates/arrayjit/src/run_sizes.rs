//! Sizes that a run gives: arrays of the host in the memory of nodes, whose dimensions are the bounds.

use std::collections::BTreeMap;

use tnode::{DType, Dims, HostArray, TensorNode, TensorNodeError};

use crate::error::ErrorKind;

/// The values of sizes, each with the node whose array gave it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SizeValues(BTreeMap<String, (usize, String)>);

impl SizeValues {
    /// Enters the sizes that an array of these dimensions gives to the axes of a node.
    pub(crate) fn enter(&mut self, node: &TensorNode, dims: &[usize]) -> Result<(), ErrorKind> {
        for (axis, &value) in dims.iter().enumerate() {
            if let Some(size) = node.run_size(axis) {
                self.give(size, value, node.name())?;
            }
        }
        Ok(())
    }

    /// Gives a size a value, which must be the one that it has, if it has one.
    pub(crate) fn give(&mut self, size: &str, second: usize, and: String) -> Result<(), ErrorKind> {
        let (first, by) = self.0.entry(size.to_owned()).or_insert_with(|| (second, and.clone()));
        if *first == second {
            return Ok(());
        }
        Err(ErrorKind::SizesDiffer { size: size.to_owned(), first: *first, by: by.clone(), second, and })
    }

    /// The value of a size.
    pub(crate) fn get(&self, size: &str) -> Option<usize> {
        self.0.get(size).map(|(value, _)| *value)
    }
}

/// Checks that an array of these dimensions may hold values of a node.
pub(crate) fn check_dims(node: &TensorNode, dims: &[usize]) -> Result<(), ErrorKind> {
    let expected = node.dims_without_padding()?;
    let is_constant = |axis: usize| node.run_size(axis).is_none();
    let fits = |(axis, (bound, dim)): (usize, (&usize, &usize))| !is_constant(axis) || bound == dim;
    if expected.len() != dims.len() || !expected.iter().zip(dims).enumerate().all(fits) {
        return Err(TensorNodeError::ArrayDims { node: node.name(), expected, found: dims.to_vec() }.into());
    }
    for (axis, (&bound, &value)) in expected.iter().zip(dims).enumerate() {
        if let Some(size) = node.run_size(axis).filter(|_| !(1..=bound).contains(&value)) {
            let (size, node) = (size.to_string(), node.name());
            return Err(ErrorKind::Size { size, bound, value, node, axis });
        }
    }
    Ok(())
}

/// The dimensions of the part of a node that has values. A size without a value counts as its bound.
pub(crate) fn dims_of(node: &TensorNode, values: impl Fn(&str) -> Option<usize>) -> Result<Dims, ErrorKind> {
    let mut dims = node.dims_without_padding()?;
    for (axis, dim) in dims.iter_mut().enumerate() {
        *dim = node.run_size(axis).and_then(|size| values(size)).unwrap_or(*dim).min(*dim);
    }
    Ok(dims)
}

/// The array in one of larger dimensions, from the first position of each axis on.
pub(crate) fn widened(array: &HostArray, to: &[usize]) -> Result<HostArray, TensorNodeError> {
    copied(array, HostArray::zeros(array.dtype(), to.iter().copied())?, array.dims())
}

/// The part of these dimensions of an array, from the first position of each axis on.
pub(crate) fn cropped(array: &HostArray, to: &[usize]) -> Result<HostArray, TensorNodeError> {
    copied(array, HostArray::zeros(array.dtype(), to.iter().copied())?, to)
}

/// Copies the first positions of each axis, as many as `part` has, from one array to another.
fn copied(from: &HostArray, mut to: HostArray, part: &[usize]) -> Result<HostArray, TensorNodeError> {
    if part.contains(&0) {
        return Ok(to);
    }
    let (sources, targets) = (from.dims().clone(), to.dims().clone());
    // Whole axes at the end are copied at once.
    let is_whole = |axis: &usize| sources[*axis] == part[*axis] && targets[*axis] == part[*axis];
    let whole = (0..part.len()).rev().take_while(is_whole).count();
    let outer = part.len().saturating_sub(whole + 1);
    let length = bytes(&part[outer..], from.dtype());
    let mut point = vec![0; outer];
    loop {
        let [source, target] = [&sources, &targets].map(|dims| {
            let row = point.iter().zip(&dims[..]).fold(0, |row, (at, dim)| row * dim + at);
            row * bytes(&dims[outer..], from.dtype())
        });
        to.bytes_mut()[target..target + length].copy_from_slice(&from.bytes()[source..source + length]);
        let Some(axis) = (0..outer).rev().find(|&axis| point[axis] + 1 < part[axis]) else { return Ok(to) };
        point[axis] += 1;
        point[axis + 1..].fill(0);
    }
}

fn bytes(dims: &[usize], dtype: DType) -> usize {
    dims.iter().product::<usize>() * dtype.size_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_copied_to_the_same_indices() -> Result<(), TensorNodeError> {
        let array = HostArray::from_slice(&[1i32, 2, 3, 4, 5, 6], [3, 2])?;
        let wide = widened(&array, &[4, 3])?;
        assert_eq!(wide.values(), [1., 2., 0., 3., 4., 0., 5., 6., 0., 0., 0., 0.]);
        assert_eq!(cropped(&wide, &[3, 2])?.values(), array.values());
        assert_eq!(cropped(&wide, &[2, 3])?.values(), [1., 2., 0., 3., 4., 0.]);
        let one = HostArray::from_slice(&[7i32], [])?;
        assert_eq!(widened(&one, &[])?.values(), [7.]);
        Ok(())
    }
}
