//! Errors of loading and running models.

use std::path::PathBuf;

use arrayjit_tensor::{ModelError, TensorError};

use crate::budget::Exceeded;

/// An error of a model that is loaded or run.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// A file that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// There is no memory for the stack on which models are compiled.
    #[error(transparent)]
    Stack(#[from] lowered_ir::stack::NoStack),
    /// Bytes that are no protobuf message.
    #[error("the file is no ONNX model: {0}")]
    Decode(#[from] prost::DecodeError),
    /// A model that contradicts itself or the ONNX specification.
    #[error("{place}: {problem}")]
    Invalid {
        /// The part of the model.
        place: String,
        /// The problem.
        problem: String,
    },
    /// A part of a model that needs more than the limits of the model.
    #[error("{place}: {exceeded}")]
    Limit {
        /// The part of the model.
        place: String,
        /// The need and the limit.
        exceeded: Exceeded,
    },
    /// Operators, or versions of operators, that this crate does not have. All of a model are listed.
    #[error("{}", list(nodes))]
    Unsupported {
        /// The nodes.
        nodes: Vec<UnsupportedNode>,
    },
    /// A node that cannot be evaluated.
    #[error("node `{node}`, {operator} of opset {opset}: {problem}")]
    Node {
        /// The name of the node, or of its first result.
        node: String,
        /// The operator.
        operator: String,
        /// The version of the operator set.
        opset: i64,
        /// The problem.
        problem: Box<NodeProblem>,
    },
    /// An input of a run that is missing, unknown, or of another type or shape.
    #[error("input `{name}` {problem}")]
    Input {
        /// The name of the input.
        name: String,
        /// The problem.
        problem: String,
    },
    /// A graph that does not compile, or an error of the device.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// An array that cannot be made.
    #[error(transparent)]
    Array(#[from] tnode::Error),
}

/// A node whose operator this crate does not have.
#[derive(Clone, Debug, PartialEq)]
pub struct UnsupportedNode {
    /// The name of the node, or of its first result.
    pub node: String,
    /// The operator.
    pub operator: String,
    /// The domain of the operator; empty for `ai.onnx`.
    pub domain: String,
    /// The version of the operator set.
    pub opset: i64,
    /// The missing part.
    pub missing: String,
}

/// The problem of a node.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum NodeProblem {
    /// An operation that cannot be added to a graph.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A graph that does not compile, or an error of the device.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// An array that cannot be made.
    #[error(transparent)]
    Array(#[from] tnode::Error),
    /// More memory or steps than the limits of the model.
    #[error(transparent)]
    Limit(#[from] Exceeded),
    /// A node of a subgraph that cannot be evaluated.
    #[error(transparent)]
    Inner(#[from] Box<OnnxError>),
    /// An attribute that is missing or has another type or value.
    #[error("attribute `{attribute}`: expected {expected}")]
    Attribute {
        /// The name of the attribute.
        attribute: String,
        /// The expected value.
        expected: String,
    },
    /// An operand that is missing or has another type, shape or value.
    #[error("operand {operand}: {problem}")]
    Operand {
        /// The position of the operand, from 0.
        operand: usize,
        /// The problem.
        problem: String,
    },
    /// A case of the operator that this crate does not have.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// Any other problem.
    #[error("{0}")]
    Other(String),
}

impl NodeProblem {
    pub(crate) fn operand(operand: usize, problem: impl Into<String>) -> NodeProblem {
        NodeProblem::Operand { operand, problem: problem.into() }
    }

    pub(crate) fn attribute(attribute: &str, expected: impl Into<String>) -> NodeProblem {
        NodeProblem::Attribute { attribute: attribute.into(), expected: expected.into() }
    }

    pub(crate) fn overflow() -> NodeProblem {
        NodeProblem::Other("a size overflows".into())
    }
}

impl OnnxError {
    /// The problem of a node by its name, operator and version of the operator set.
    pub(crate) fn at_node((node, operator, opset): (&str, &str, i64), problem: NodeProblem) -> OnnxError {
        OnnxError::Node { node: node.into(), operator: operator.into(), opset, problem: Box::new(problem) }
    }

    /// The error of a part of a model that needs too much.
    pub(crate) fn limit(place: impl Into<String>) -> impl FnOnce(Exceeded) -> OnnxError {
        let place = place.into();
        |exceeded| OnnxError::Limit { place, exceeded }
    }

    pub(crate) fn invalid(place: impl Into<String>, problem: impl Into<String>) -> OnnxError {
        OnnxError::Invalid { place: place.into(), problem: problem.into() }
    }
}

fn list(nodes: &[UnsupportedNode]) -> String {
    let line = |node: &UnsupportedNode| {
        let domain = if node.domain.is_empty() { "ai.onnx" } else { &node.domain };
        let UnsupportedNode { node, operator, opset, missing, .. } = node;
        format!("node `{node}`: {domain}.{operator} of opset {opset}: {missing}")
    };
    let lines: Vec<String> = nodes.iter().map(line).collect();
    format!("{} nodes are not supported:\n{}", nodes.len(), lines.join("\n"))
}

tnode::debug_as_display!(OnnxError, NodeProblem);
