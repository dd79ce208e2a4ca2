//! Errors of differentiation, with source spans.

use std::fmt;

use assignments::Origin;
use assignments::indexing::IndexError;
use lowered_ir::SourceSpan;
use tnode::DType;

/// The result of a part of differentiation.
pub(crate) type Result<T, E = GradientError> = std::result::Result<T, E>;

/// A reason why a program has no gradient. Displays the message and, for a program from a text, the line with
/// carets under the statement.
pub struct GradientError {
    kind: Box<GradientErrorKind>,
    span: Option<SourceSpan>,
}

/// The kind of an error of differentiation.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum GradientErrorKind {
    /// An error about a node, such as unsettled dimensions.
    #[error(transparent)]
    Node(#[from] tnode::TensorNodeError),
    /// The copies of a scan that ends early cannot leave a node as it is.
    #[error(transparent)]
    EarlyEnd(#[from] assignments::EarlyEndError),
    /// The accesses of an assignment do not fit together.
    #[error("assignment to node {node}: {source}")]
    Index { node: String, source: IndexError },
    /// The number of projections differs from the number of operands.
    #[error("assignment to node {node}: {operands} operands, but {projections} projections")]
    Operands { node: String, operands: usize, projections: usize },
    /// The loss or a parameter holds no floats.
    #[error("node {node} is of {dtype}; {role} is expected to be of floats")]
    NotFloat { node: String, dtype: DType, role: &'static str },
    /// The loss is no scalar and there is no seed.
    #[error(
        "the loss {loss} has dimensions {dims:?}, expected a scalar; sum its elements, or give the gradient by \
         them as a seed"
    )]
    NotScalar { loss: String, dims: Vec<usize> },
    /// No step writes the loss.
    #[error("no statement writes the loss {loss}")]
    LossNotWritten { loss: String },
    /// No step mentions the parameter; `known` are the nodes of floats that the program reads.
    #[error("no statement mentions the parameter {parameter}; expected {}", one_of(known))]
    UnknownParameter { parameter: String, known: Vec<String> },
    /// The loss depends on values that a parameter had before a step wrote it, and on those after it.
    #[error(
        "the loss {loss} depends on values of {parameter} from before and after this statement, and the gradient by \
         {parameter} would lack a part; write the new values to another node, or `detach` those before"
    )]
    OlderValues { loss: String, parameter: String },
    /// The gradient node or the seed does not have the dimensions of its node.
    #[error("node {node} has dimensions {found:?}, expected {expected:?} as node {of} has")]
    Shape { node: String, found: Vec<usize>, of: String, expected: Vec<usize> },
    /// A reduction has no derivative here.
    #[error("node {node}: `{op}` of several values per element has no derivative in this form; {instead}")]
    Reduction { node: String, op: String, instead: &'static str },
    /// A statement reads elements that it writes in another iteration.
    #[error(
        "node {node} is read at elements that other iterations of the statement write, so its old values are lost; \
         write to another node first"
    )]
    ReadsWhatItWrites { node: String },
    /// A statement writes a slice, which may be a view.
    #[error(
        "node {node} is a slice of {of}, and a write may change both; copy the slice to a node of its own before it \
         is differentiated"
    )]
    WritesSlice { node: String, of: String },
    /// A slice is read after its parent has changed.
    #[error(
        "node {node} is a slice of {of}, which has changed since; slice it again, or copy it before the change"
    )]
    StaleSlice { node: String, of: String },
    /// A node to be computed again depends on a node that has changed since.
    #[error(
        "node {node} cannot be computed again in the backward pass, because {input}, which it is computed from, \
         changes after it; write the new values to another node, or remove `recompute {node}`"
    )]
    RecomputedInput { node: String, input: String },
    /// A node to be computed again has values that the program does not compute.
    #[error(
        "node {node} cannot be computed again in the backward pass, because it has values from before the program, or \
         its own id; remove `recompute {node}`"
    )]
    RecomputedValues { node: String },
    /// The copies of scans, which a derivative needs, are too many.
    #[error(
        "a derivative takes a copy of the steps of each scan for each of its values, {steps} in all, expected at most \
         {max}"
    )]
    ScanSteps { steps: u64, max: u64 },
    /// Forward mode comes to a gradient that a front end gives.
    #[error(
        "a gradient by {input} is one that the program gives, and forward mode needs the rules of its statements"
    )]
    CustomGradient { input: String },
    /// A padded read has an index with a symbol of unknown range.
    #[error(
        "node {node} is read beyond its dimensions at an index with symbols; expected a range for them, as in \
         `where @t < 10`"
    )]
    OpenSymbol { node: String },
}

impl GradientErrorKind {
    /// Attaches a source span, if there is one.
    pub(crate) fn at(self, span: Option<SourceSpan>) -> GradientError {
        GradientError { kind: Box::new(self), span }
    }

    /// Attaches the span of a statement.
    pub(crate) fn of(self, origin: &Origin) -> GradientError {
        self.at(origin.statement())
    }
}

impl GradientError {
    /// The kind of the error. Its message uses the user's names of nodes.
    pub fn kind(&self) -> &GradientErrorKind {
        &self.kind
    }

    /// The source span; `None` for assignments that are built without a text.
    pub fn span(&self) -> Option<&SourceSpan> {
        self.span.as_ref()
    }

    /// Attaches a source span, unless the error has one.
    pub(crate) fn or_at(mut self, span: Option<SourceSpan>) -> GradientError {
        self.span = self.span.or(span);
        self
    }
}

impl From<GradientErrorKind> for GradientError {
    fn from(kind: GradientErrorKind) -> GradientError {
        kind.at(None)
    }
}

impl From<tnode::TensorNodeError> for GradientError {
    fn from(error: tnode::TensorNodeError) -> GradientError {
        GradientErrorKind::Node(error).into()
    }
}

impl From<assignments::EarlyEndError> for GradientError {
    fn from(error: assignments::EarlyEndError) -> GradientError {
        GradientErrorKind::EarlyEnd(error).into()
    }
}

impl fmt::Display for GradientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.span {
            None => write!(f, "{}", self.kind),
            Some(span) => write!(f, "{}: {}\n{span}", span.position(), self.kind),
        }
    }
}

impl std::error::Error for GradientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.kind.as_ref() {
            GradientErrorKind::Node(error) => Some(error),
            GradientErrorKind::EarlyEnd(error) => error.source(),
            GradientErrorKind::Index { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// A choice among the nodes of floats that a program reads, in words.
fn one_of(known: &[String]) -> String {
    match known {
        [] => "a node that the program reads, but it reads no floats".to_owned(),
        known => format!("one of {}", known.join(", ")),
    }
}
