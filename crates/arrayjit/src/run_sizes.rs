//! Sizes that a run gives: arrays of the host in the memory of nodes, whose dimensions are the bounds.

use tnode::{Dims, HostArray, SizeValues, TensorNode, TensorNodeError};

use crate::error::{Error, ErrorKind};

/// Checks that an array may hold values of a node.
pub(crate) fn check_dims(node: &TensorNode, array: &HostArray) -> Result<(), Error> {
    let (expected, dims) = (node.dims_without_padding()?, array.dims());
    let is_constant = |axis: usize| node.run_size(axis).is_none();
    let fits = |(axis, (bound, dim)): (usize, (&usize, &usize))| !is_constant(axis) || bound == dim;
    if array.padding().is_some()
        || expected.len() != dims.len()
        || !expected.iter().zip(dims).enumerate().all(fits)
    {
        return Err(TensorNodeError::ArrayDims { node: node.name(), expected, found: dims.to_vec() }.into());
    }
    for (axis, (&bound, &value)) in expected.iter().zip(dims).enumerate() {
        if let Some(size) = node.run_size(axis).filter(|_| !(1..=bound).contains(&value)) {
            let (size, node) = (size.to_string(), node.name());
            return Err(ErrorKind::Size { size, bound, value, node, axis }.into());
        }
    }
    Ok(())
}

/// The dimensions of the part of a node that has values. A size without a value counts as its bound.
pub(crate) fn dims_of(node: &TensorNode, values: &SizeValues) -> Result<Dims, Error> {
    let mut dims = node.dims_without_padding()?;
    for (axis, dim) in dims.iter_mut().enumerate() {
        *dim = node.run_size(axis).and_then(|size| values.get(size)).unwrap_or(*dim).min(*dim);
    }
    Ok(dims)
}
