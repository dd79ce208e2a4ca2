//! Sizes that a run gives: arrays of the host in the memory of nodes, whose dimensions are the bounds.

use std::collections::BTreeMap;

use tnode::{Dims, HostArray, TensorNode, TensorNodeError};

use crate::error::{Error, ErrorKind};

/// The values of sizes, each with the node whose array gave it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SizeValues(BTreeMap<String, (usize, String)>);

impl SizeValues {
    /// Enters the sizes that an array of these dimensions gives to the axes of a node.
    pub(crate) fn enter(&mut self, node: &TensorNode, dims: &[usize]) -> Result<(), Error> {
        for (axis, &value) in dims.iter().enumerate() {
            if let Some(size) = node.run_size(axis) {
                self.give(size, value, node.name())?;
            }
        }
        Ok(())
    }

    /// Gives a size a value, which must be the one that it has, if it has one.
    pub(crate) fn give(&mut self, size: &str, second: usize, and: String) -> Result<(), Error> {
        let (first, by) = self.0.entry(size.to_owned()).or_insert_with(|| (second, and.clone()));
        if *first == second {
            return Ok(());
        }
        Err(ErrorKind::SizesDiffer { size: size.to_owned(), first: *first, by: by.clone(), second, and }
            .into())
    }

    /// The value of a size.
    pub(crate) fn get(&self, size: &str) -> Option<usize> {
        self.0.get(size).map(|(value, _)| *value)
    }
}

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
pub(crate) fn dims_of(node: &TensorNode, values: impl Fn(&str) -> Option<usize>) -> Result<Dims, Error> {
    let mut dims = node.dims_without_padding()?;
    for (axis, dim) in dims.iter_mut().enumerate() {
        *dim = node.run_size(axis).and_then(|size| values(size)).unwrap_or(*dim).min(*dim);
    }
    Ok(dims)
}
