//! Warnings about legal statements that are often mistakes.

use std::fmt;

use tnode::{DType, MemoryMode};

use lowered_ir::SourceSpan;

/// A warning about a legal statement that is often a mistake. Displays the message and, if the program comes
/// from a text, the line with carets under the source span.
#[derive(Clone, Debug, PartialEq)]
pub struct Warning {
    kind: WarningKind,
    span: Option<SourceSpan>,
}

/// The kind of a warning, with the names in its message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum WarningKind {
    /// A node of floats stores a quotient of integers, which drops the fraction.
    IntegerDivision { division: String, dtype: DType, node: String, written: DType, instead: String },
    /// All elements that a statement writes get the same random number.
    OneRandomNumber { call: String, node: String, instead: String },
    /// A letter has the name of an integer without axes, whose value may be meant.
    LetterOfNode { name: String },
    /// The text declares an input that nothing reads.
    UnusedInput { name: String },
    /// A gradient is zero because the loss does not depend on the parameter.
    NoGradient { parameter: String, loss: String },
    /// No checkpoints make the gradient of a scan store as little as it is allowed to.
    ScanGradientBytes { letter: String, steps: i64, bytes: u64, limit: u64 },
    /// The routine does not use the values of a node without memory.
    UnusedValue { node: String, mode: MemoryMode },
}

impl Warning {
    /// A warning about the statement at `span`.
    pub fn new(kind: WarningKind, span: Option<SourceSpan>) -> Warning {
        Warning { kind, span }
    }

    /// The kind of the warning.
    pub fn kind(&self) -> &WarningKind {
        &self.kind
    }

    /// The source span; `None` for assignments that are built without a text.
    pub fn span(&self) -> Option<&SourceSpan> {
        self.span.as_ref()
    }
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WarningKind::IntegerDivision { division, dtype, node, written, instead } => write!(
                f,
                "`{division}` divides integers of {dtype} and drops the fraction, and node {node} is of {written}; expected \
                 `{instead}`, or `{written}({division})` if the integer is meant"
            ),
            WarningKind::OneRandomNumber { call, node, instead } => write!(
                f,
                "`{call}` is one number for all elements of node {node}; expected `{instead}` for a number each"
            ),
            WarningKind::LetterOfNode { name } => write!(
                f,
                "`{name}` is a letter here, which takes every value of its range, and not node {name}; expected \
                 `{name}[]` for the value of the node, or another letter"
            ),
            WarningKind::UnusedInput { name } => {
                write!(f, "nothing reads input `{name}`; expected a statement that does, or no declaration")
            }
            WarningKind::NoGradient { parameter, loss } => write!(
                f,
                "the gradient of node {loss} by {parameter} is zero: no statements with derivatives lead from \
                 {parameter} to {loss}"
            ),
            WarningKind::ScanGradientBytes { letter, steps, bytes, limit } => write!(
                f,
                "the gradient of the scan over {letter} stores at least {bytes} bytes of its {steps} steps, with the best \
                 checkpoints; expected at most {limit} bytes (`scan_gradient_bytes`)"
            ),
            WarningKind::UnusedValue { node, mode } => write!(
                f,
                "the values of node {node} are not used: its mode is {mode}, and this routine does not read it; \
                 `keep {node}` in the text, or `MemoryMode::Materialized`, keeps them"
            ),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.span {
            None => write!(f, "{}", self.kind),
            Some(span) => {
                write!(f, "{}: {}\n{span}", span.position(), self.kind)
            }
        }
    }
}
