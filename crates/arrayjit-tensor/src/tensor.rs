//! Tensors: the results of operations of a graph.

use std::fmt;

use arrayjit::{DType, TensorNode};

use crate::{error::TensorError, graph::Graph, operand::Argument};

/// A value of a graph: an array with a shape and an element type, which a run of the graph computes. Cloning
/// is cheap.
///
/// A tensor has no values of its own before the graph runs. Its operations add statements to the graph, check
/// shapes and types, and return the result; nothing is computed twice, and values that no result needs are
/// not computed at all.
///
/// Every operation fails with a [`TensorError`](crate::TensorError) that names the operation, the module and
/// the caller's line.
///
/// In the examples of operations, `tensor` makes a constant of these values, and `check` compares the type,
/// the shape and the values of a result:
///
/// ```
/// # use arrayjit_tensor::example::*;
/// let x = tensor([[1., 2., 3.], [4., 5., 6.]]);
/// assert_eq!(x.shape(), [2, 3]);
/// check(x.sum(0)? * 10.0, [50., 70., 90.]);
/// # Ok::<(), arrayjit_tensor::TensorError>(())
/// ```
#[derive(Clone)]
pub struct Tensor {
    graph: Graph,
    node: TensorNode,
    shape: Vec<usize>,
    dtype: DType,
}

impl Tensor {
    pub(crate) fn new(graph: Graph, node: TensorNode) -> Result<Tensor, arrayjit::TensorNodeError> {
        let shape = node.dims_without_padding()?.to_vec();
        let dtype = node.dtype();
        Ok(Tensor { graph, node, shape, dtype })
    }

    /// The size of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    pub fn num_elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The name that dumps and messages show: the path of the module and the operation.
    pub fn name(&self) -> String {
        self.node.name()
    }

    /// The error of a shape other than the expected one.
    pub(crate) fn misshapen(&self, expected: impl Into<String>) -> TensorError {
        Argument::Tensor(self).misshapen(expected)
    }

    /// The graph to which the tensor belongs.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The node that holds the values.
    pub fn node(&self) -> &TensorNode {
        &self.node
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{:?}", self.name(), self.dtype, self.shape)
    }
}
