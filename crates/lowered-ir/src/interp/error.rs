//! Errors of a run: unfit memory or bindings of the caller, or a routine that was never verified.

use std::ops::Range;

use tnode::DType;

use crate::stack::NoStack;

/// Why a routine did not run, or stopped.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum InterpError {
    /// The number of buffers differs from the number of nodes.
    #[error("routine `{routine}` has {expected} nodes, found {found} buffers")]
    BufferCount { routine: String, expected: usize, found: usize },
    /// A buffer is not as long as its node.
    #[error("{node} takes {expected} bytes, found a buffer of {found}")]
    BufferSize { node: String, expected: usize, found: usize },
    /// The routine reads the merge buffer, and there is none.
    #[error("the merge buffer holds nothing, expected a copy of {node}")]
    NoMergeBuffer { node: String },
    /// The routine writes a node whose memory was borrowed for reading only.
    #[error("{node} is written, found a read-only buffer")]
    ReadOnly { node: String },
    /// The number of bindings differs from the number of symbols.
    #[error("routine `{routine}` has {expected} symbols, found {found} bindings")]
    BindingCount { routine: String, expected: usize, found: usize },
    /// A binding is outside the range of its symbol.
    #[error("symbol @{symbol} takes {range:?}, found {value}")]
    BindingRange { symbol: String, range: Range<i64>, value: i64 },
    /// An index is outside its array. Dimensions count from 0.
    #[error("{array}: index {index} in dimension {dim} is outside 0..{extent}")]
    OutOfBounds { array: String, dim: usize, index: i64, extent: i64 },
    /// The routine mentions a node, local, loop variable or symbol that is not in scope there.
    #[error("routine `{routine}` mentions {what}, which is not in scope")]
    Unknown { routine: String, what: String },
    /// An array is indexed with the wrong number of indices.
    #[error("{array} has {expected} dimensions, found {found} indices")]
    Rank { array: String, expected: usize, found: usize },
    /// A value has the wrong type.
    #[error("{what} is {expected}, found {found}")]
    IllTyped { what: String, expected: DType, found: DType },
    /// An array is too large to address.
    #[error("{array} has more bytes than can be addressed")]
    TooLarge { array: String },
    /// There is no memory for the stack of the interpreter.
    #[error(transparent)]
    Stack(NoStack),
}

/// The error of a function that recurses. It has a type of its own, because two conversions to `InterpError`
/// would leave the types of `?` open everywhere.
pub(super) struct Stopped(pub(super) Box<InterpError>);

impl From<NoStack> for Stopped {
    fn from(error: NoStack) -> Stopped {
        Stopped(Box::new(InterpError::Stack(error)))
    }
}

impl From<InterpError> for Stopped {
    fn from(error: InterpError) -> Stopped {
        Stopped(Box::new(error))
    }
}
