//! Errors of graphs: the call, the module and the line of the caller.

use std::{fmt, panic::Location};

use arrayjit::{DType, TextError};

/// An operation that cannot be added to a graph. Displays the operation, the module and the caller's line,
/// then the reason.
///
/// ```
/// use arrayjit_tensor::{DType, Graph};
///
/// let graph = Graph::new();
/// let x = graph.input("x", [32, 784], DType::F32)?;
/// let w = graph.input("w", [100, 10], DType::F32)?;
/// let error = x.matmul(&w).unwrap_err().to_string();
/// assert!(error.starts_with("matmul at "));
/// assert!(error.ends_with(
///     "the last axis of [32, 784] has 784 elements, but the one before the last of [100, 10] has 100"
/// ));
/// # Ok::<(), arrayjit_tensor::TensorError>(())
/// ```
pub struct TensorError(Box<ErrorParts>);

struct ErrorParts {
    kind: TensorErrorKind,
    op: &'static str,
    module: String,
    at: &'static Location<'static>,
}

/// The kind of an error of a graph.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TensorErrorKind {
    /// Two shapes that cannot be broadcast to one.
    #[error(
        "shapes {left:?} and {right:?} do not broadcast: an axis, counted from the last, has two sizes and \
         neither is 1"
    )]
    Broadcast {
        /// The shape of the first operand.
        left: Vec<usize>,
        /// The shape of the second operand.
        right: Vec<usize>,
    },
    /// The inner axes of a matrix product differ.
    #[error(
        "the last axis of {left:?} has {inner} elements, but the one before the last of {right:?} has {found}"
    )]
    InnerSize {
        /// The shape of the first operand.
        left: Vec<usize>,
        /// The shape of the second operand.
        right: Vec<usize>,
        /// The inner size of the first operand.
        inner: usize,
        /// The inner size of the second operand.
        found: usize,
    },
    /// A tensor of a rank or shape that the operation does not take.
    #[error("{what} has shape {found:?}, expected {expected}")]
    Shape {
        /// The operand or parameter.
        what: String,
        /// Its shape.
        found: Vec<usize>,
        /// The expected shape, in words.
        expected: String,
    },
    /// An axis that the tensor does not have.
    #[error("axis {axis} of shape {shape:?}: expected one of -{}..={}", shape.len(), shape.len().saturating_sub(1))]
    Axis {
        /// The axis, negative if counted from the last.
        axis: isize,
        /// The shape of the tensor.
        shape: Vec<usize>,
    },
    /// An axis that is given twice.
    #[error("axis {axis} of shape {shape:?} is given twice")]
    RepeatedAxis {
        /// The axis, from 0.
        axis: usize,
        /// The shape of the tensor.
        shape: Vec<usize>,
    },
    /// A new shape with another number of elements.
    #[error("shape {from:?} has {} elements, so it cannot become {to:?}", from.iter().product::<usize>())]
    Elements {
        /// The shape of the tensor.
        from: Vec<usize>,
        /// The new shape.
        to: Vec<isize>,
    },
    /// A range that is not within its axis.
    #[error("elements {start}..{end} of axis {axis} of shape {shape:?}, which has {} elements", shape[*axis])]
    Range {
        /// The first element.
        start: usize,
        /// The element after the last.
        end: usize,
        /// The axis.
        axis: usize,
        /// The shape of the tensor.
        shape: Vec<usize>,
    },
    /// An argument that the operation does not take.
    #[error("{argument} is {found}, expected {expected}")]
    Argument {
        /// The name of the argument.
        argument: &'static str,
        /// Its value.
        found: String,
        /// The expected values, in words.
        expected: String,
    },
    /// An element type that the operation does not take.
    #[error("{what} is of {found}, expected {expected}")]
    ElementType {
        /// The operand.
        what: String,
        /// Its type.
        found: DType,
        /// The expected types, in words.
        expected: &'static str,
    },
    /// A tensor of another graph.
    #[error("{tensor} belongs to another graph; a graph takes its own tensors and parameters")]
    OtherGraph {
        /// The name of the tensor.
        tensor: String,
    },
    /// A second input or parameter of one name.
    #[error("{what} `{name}` exists already")]
    Name {
        /// Input, parameter or buffer.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A text that writes a tensor.
    #[error("the text writes `{name}`, which is a tensor; only parameters and buffers change")]
    Written {
        /// The name in the text.
        name: String,
    },
    /// A text that declares a parameter with initial values.
    #[error("the text declares initial values; make the parameter with `Params`, and pass it to the text")]
    Declared,
    /// The loss has no gradient by a parameter.
    #[error("{0}")]
    Gradient(arrayjit::autodiff::GradientError),
    /// An error in a text, with the line of the text and a caret.
    #[error("{0}")]
    Text(TextError),
    /// An error about a node, such as a size that overflows.
    #[error(transparent)]
    Node(#[from] arrayjit::TensorNodeError),
}

impl TensorError {
    /// The reason.
    pub fn kind(&self) -> &TensorErrorKind {
        &self.0.kind
    }

    /// The name of the operation.
    pub fn operation(&self) -> &'static str {
        self.0.op
    }

    /// The path of the module that was evaluated, such as `encoder.0`; empty outside of modules.
    pub fn module(&self) -> &str {
        &self.0.module
    }

    /// The line that called the operation.
    pub fn location(&self) -> &'static Location<'static> {
        self.0.at
    }
}

impl fmt::Display for TensorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorParts { kind, op, module, at } = &*self.0;
        match module.is_empty() {
            true => write!(f, "{op} at {at}: {kind}"),
            false => write!(f, "{op} in module `{module}` at {at}: {kind}"),
        }
    }
}

impl std::error::Error for TensorError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.kind.source()
    }
}

/// A call of an operation: its name and the line of the caller, for errors.
#[derive(Clone, Copy)]
pub struct Call {
    pub(crate) op: &'static str,
    pub(crate) at: &'static Location<'static>,
}

impl Call {
    /// The call of the operation of that name by the caller of the public function.
    #[track_caller]
    pub fn new(op: &'static str) -> Call {
        Call { op, at: Location::caller() }
    }

    /// The error of this call, within a module.
    pub(crate) fn error(self, module: impl Into<String>, kind: TensorErrorKind) -> TensorError {
        TensorError(Box::new(ErrorParts { kind, op: self.op, module: module.into(), at: self.at }))
    }
}
