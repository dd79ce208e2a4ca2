//! Arrays with axes that join several.

use std::sync::Arc;

use crate::{extents::Extents, value::Value};

/// An array in which an axis joins several of another one, in row-major order, and a run gives the size of
/// one of these: `[b*t, 768]` of `[b, t, 768]`.
///
/// The number of elements of such an axis is no sum of sizes, and its elements are not beside each other in
/// memory, which has the bounds. So operators compute with the axes that are joined, and a reshape takes
/// them apart again.
pub(crate) struct JoinedArray {
    /// The array whose axes are joined, which is no other such array.
    split: Value,
    groups: Vec<usize>,
    shape: Vec<usize>,
}

impl JoinedArray {
    /// The array whose axis `k` joins as many axes of `split`, at least one, as `groups` says.
    pub(crate) fn new(split: Value, groups: Vec<usize>) -> JoinedArray {
        let mut dims = split.shape().iter();
        let shape = groups.iter().map(|&count| dims.by_ref().take(count).product()).collect();
        JoinedArray { split, groups, shape }
    }

    /// The array whose axes are joined.
    pub(crate) fn split(&self) -> &Value {
        &self.split
    }

    /// For each axis, the number of axes that it joins.
    pub(crate) fn groups(&self) -> &[usize] {
        &self.groups
    }

    /// The numbers of elements, where sizes have their bounds.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The axes that are joined.
    pub(crate) fn extents(&self) -> Extents {
        self.split.extents()
    }

    /// The same axes of another array.
    pub(crate) fn with_split(&self, split: Value) -> Value {
        Value::Joined(Arc::new(JoinedArray { split, groups: self.groups.clone(), shape: self.shape.clone() }))
    }
}
