//! The error of loading and running models.

use std::path::PathBuf;

/// The result of loading and running.
pub(crate) type Result<T, E = OnnxError> = std::result::Result<T, E>;

/// An error of a model that is loaded or run. It names the file, the node with its operator, the input or
/// another part of the model, whose `problem` is an error of this type too.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum OnnxError {
    /// A file that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// There is no memory for the stack on which models are compiled.
    #[error(transparent)]
    Stack(#[from] lowered_ir::stack::NoStack),
    /// Bytes that are no protobuf message.
    #[error("the file is no ONNX model: {0}")]
    Decode(#[from] prost::DecodeError),
    /// Operators, or versions of operators, that this crate does not have. All of a model are listed.
    #[error("{}", list(nodes))]
    Unsupported { nodes: Vec<UnsupportedNode> },
    /// A part of a model that contradicts the model or the ONNX specification, or needs too much.
    #[error("{place}: {problem}")]
    Part { place: String, problem: Box<OnnxError> },
    /// A node that cannot be evaluated.
    #[error("node `{node}`, {operator} of opset {opset}: {problem}")]
    Node { node: String, operator: String, opset: i64, problem: Box<OnnxError> },
    /// An input of a run that is missing, unknown, or of another type or shape.
    #[error("input `{name}` {problem}")]
    Input { name: String, problem: String },

    /// More memory or steps than the limits of the model.
    #[error("{needed} {limit} are needed, more than the {most} that `OnnxLimits::{limit}` allows")]
    Limit { limit: &'static str, needed: u64, most: u64 },
    /// An attribute that is missing or has another type or value.
    #[error("attribute `{attribute}`: expected {expected}")]
    Attribute { attribute: String, expected: String },
    /// An operand that is missing or has another type, shape or value.
    #[error("operand {operand}: {problem}")]
    Operand { operand: usize, problem: String },
    /// A case of an operator that this crate does not have.
    #[error("{0} is not supported")]
    Case(String),
    /// Any other contradiction.
    #[error("{0}")]
    Invalid(String),
    /// A part of a model that needs numbers in place of sizes that each run gives. A run compiles the model
    /// for the numbers then, so no run fails with it.
    #[error("{problem}; it needs numbers in place of {}", quoted(sizes))]
    NeedsExtents { sizes: Vec<String>, problem: String },
    /// A graph that cannot be built, does not compile, or fails on the device.
    #[error(transparent)]
    Model(#[from] arrayjit_tensor::TensorError),
    /// An array that cannot be made.
    #[error(transparent)]
    Array(#[from] tnode::TensorNodeError),
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

impl OnnxError {
    /// The error within its places.
    pub(crate) fn cause(&self) -> &OnnxError {
        match self {
            OnnxError::Node { problem, .. } | OnnxError::Part { problem, .. } => problem.cause(),
            other => other,
        }
    }

    pub(crate) fn operand(operand: usize, problem: impl Into<String>) -> OnnxError {
        OnnxError::Operand { operand, problem: problem.into() }
    }

    pub(crate) fn attribute(attribute: &str, expected: impl Into<String>) -> OnnxError {
        OnnxError::Attribute { attribute: attribute.into(), expected: expected.into() }
    }

    pub(crate) fn overflow() -> OnnxError {
        OnnxError::Invalid("a size overflows".into())
    }

    /// The problem of a node by its name, operator and version of the operator set.
    pub(crate) fn at_node((node, operator, opset): (&str, &str, i64), problem: OnnxError) -> OnnxError {
        OnnxError::Node { node: node.into(), operator: operator.into(), opset, problem: Box::new(problem) }
    }

    /// The problem of a part of a model.
    pub(crate) fn at(place: impl Into<String>) -> impl FnOnce(OnnxError) -> OnnxError {
        let place = place.into();
        |problem| OnnxError::Part { place, problem: Box::new(problem) }
    }

    pub(crate) fn invalid(place: impl Into<String>, problem: impl Into<String>) -> OnnxError {
        OnnxError::at(place)(OnnxError::Invalid(problem.into()))
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
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

tnode::debug_as_display!(OnnxError);
