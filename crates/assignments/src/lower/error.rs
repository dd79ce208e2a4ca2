//! Errors of lowering, with source spans.

use std::fmt;

use tnode::RunSize;

use crate::AccumOp;
use lowered_ir::{SourceSpan, SpanList};

/// The result of a part of lowering.
pub(super) type Result<T, E = LowerError> = std::result::Result<T, E>;

/// A reason why assignments cannot be lowered. Displays the message and, for assignments from a text, the
/// line with carets under the source span; a message about two statements shows both lines.
pub struct LowerError {
    kind: Box<LowerErrorKind>,
    spans: Vec<SourceSpan>,
}

/// The kind of an error of lowering.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum LowerErrorKind {
    /// An error about a node, such as unsettled dimensions.
    #[error(transparent)]
    Node(#[from] tnode::TensorNodeError),
    /// A node and its projection have different dimensions.
    #[error("node {node} has dimensions {found:?}, but the assignment indexes dimensions {expected:?}")]
    Dims { node: String, found: Vec<usize>, expected: Vec<usize> },
    /// The number of projections differs from the number of operands.
    #[error("assignment to node {node}: {operands} operands, but {projections} projections")]
    Operands { node: String, operands: usize, projections: usize },
    /// An index is outside its axis.
    #[error(
        "node {node}: index {index} on axis {axis} takes values {lo}..={hi}, expected within {min}..{max}"
    )]
    OutOfBounds { node: String, axis: usize, index: String, lo: i64, hi: i64, min: i64, max: i64 },
    /// The value of an index overflows.
    #[error("node {node}: index {index} on axis {axis} overflows")]
    Overflow { node: String, axis: usize, index: String },
    /// An index mentions a symbol that the program does not have.
    #[error("node {node}: an index mentions symbol number {symbol}, but the assignments have {symbols}")]
    UnknownSymbol { node: String, symbol: u32, symbols: usize },
    /// A symbol has two ranges.
    #[error("symbol @{name} has range {first} and range {second}")]
    SymbolConflict { name: String, first: i64, second: i64 },
    /// Two sizes of axes would have one symbol.
    #[error("symbol @{name} is the size `{}` and the size `{}`; rename one of the sizes", sizes[0], sizes[1])]
    SizeConflict { name: String, sizes: Box<[RunSize; 2]> },
    /// A symbol has no range, and none follows from its uses.
    #[error(
        "symbol @{name} has no range, and no index bounds it alone; expected a range, as in `where @{name} < 10`"
    )]
    SymbolUnranged { name: String },
    /// The name of a symbol is no identifier of the loop IR.
    #[error(
        "symbol @{name} has a name that is none: expected a letter or `_` of ASCII, then letters, digits and `_`"
    )]
    SymbolName { name: String },
    /// The range of a symbol exceeds the limit.
    #[error("symbol @{name} has range {range}, expected at most {max}")]
    SymbolRange { name: String, range: i64, max: i64 },
    /// The name of the routine is no identifier of the loop IR.
    #[error("the routine is named {name:?}, expected a letter or `_` of ASCII, then letters, digits and `_`")]
    RoutineName { name: String },
    /// A node has too many bytes, its padding included. The number of bytes saturates.
    #[error(
        "node {node} of dimensions {dims:?} has {bytes} bytes, expected at most {max}; compute it in parts that are smaller"
    )]
    TooLarge { node: String, dims: Vec<usize>, bytes: u128, max: u64 },
    /// An assignment has more letters than the limit of nested loops.
    #[error("assignment to node {node}: {found} letters of more than one value, expected at most {max}")]
    TooManyLoops { node: String, found: usize, max: usize },
    /// The range of a letter exceeds the limit.
    #[error("assignment to node {node}: a letter runs over {found} values, expected at most {max}")]
    LoopRange { node: String, found: usize, max: i64 },
    /// A program has too many statements.
    #[error(
        "the program has more than {max} statements, loops and elements of lists included; split it into routines"
    )]
    TooManyStatements { max: u64 },
    /// The byte offset of an index overflows.
    #[error(
        "node {node}: index {index} on axis {axis} has the factor {factor}, which is farther than any node reaches"
    )]
    TooSteep { node: String, axis: usize, index: String, factor: i64 },
    /// The type of an index used as a value cannot represent it.
    #[error(
        "the value of index {index} is within {lo}..={hi}, which {dtype} does not hold; use it in a node of i64, or make it smaller"
    )]
    IndexValue { index: String, lo: i64, hi: i64, dtype: tnode::DType },
    /// A key of random numbers has too many parts.
    #[error(
        "node {node}: a random number has at most {max} numbers and symbols after the seed, found {found}"
    )]
    RandomKey { node: String, found: usize, max: usize },
    /// A loop would end at two sizes that a run gives.
    #[error(
        "assignment to node {node}: an index of an axis with the size `{size}` indexes another axis with another size"
    )]
    SizesDiffer { node: String, size: String },
    /// The values of a fill depend on an inner dimension that a run gives.
    #[error(
        "node {node}: `{fill}` numbers the elements of a node, and axis {axis} has the size `{size}`, which only a run knows; expected such a size on axis 0 alone"
    )]
    SizedFill { node: String, fill: &'static str, axis: usize, size: String },
    /// The range of a symbol is empty.
    #[error("symbol @{name} has range {range}, expected at least 1")]
    SymbolEmpty { name: String, range: i64 },
    /// A scan over a symbol that a run binds.
    #[error("symbol {symbol} is no letter of a scan; expected one that `StaticSymbol::step` makes")]
    ScanSymbol { symbol: String },
    /// The letter of a scan outside of it.
    #[error("letter {letter} of a scan is mentioned outside of the scan")]
    OutsideScan { letter: String },
    /// Every step of a scan starts a node of which each step writes another part.
    #[error(
        "node {node}: `:{op}` starts the whole node in each step of the scan over {letter}, and loses the elements of \
         other steps; expected an accumulation into a node without axis {letter}, or `{op}` after a fill before the scan"
    )]
    Restarted { node: String, op: AccumOp, letter: String },
    /// A write leaves elements of a node uninitialized.
    #[error(
        "node {node}: the assignment does not write all of axis {axis} (size {size}), and nothing initializes the node \
         before; expected an initialization such as `{fill}`, an operator such as `:+=` that starts the whole node, or a \
         node whose values stay: `param` in a text, `MemoryMode::Materialized` in Rust"
    )]
    Uninitialized { node: String, axis: usize, size: usize, fill: String },
    /// All values of a statement are overwritten before they are read. The statement is `this statement`
    /// where a text shows it, else its listing; the one that overwrites it is its line, or its listing.
    #[error(
        "every value that {statement} stores in node {node} is overwritten by {by} before anything reads it; {remedy}"
    )]
    LostValues { node: String, statement: String, by: String, remedy: String },
    /// The dimensions of a slice differ from the dimensions of its parent without the first.
    #[error("node {node} has dimensions {dims:?}, but a slice of {of} {parent:?} has {}", if parent.is_empty() { "no axis to be at".to_owned() } else { format!("{:?}", &parent[1..]) })]
    SliceShape { node: String, dims: Vec<usize>, of: String, parent: Vec<usize> },
    /// A statement reads, through a view, a node that it writes.
    #[error(
        "node {node} is read while node {target} is written, and the elements of both are in {home}; write to another \
         node first"
    )]
    ReadThroughView { node: String, target: String, home: String },
    /// The number of samples in a node differs from the number that the node to be filled needs.
    #[error(
        "node {node}: `{distribution}({of})` takes a sample for each chunk of the last axis, so {of} with dimensions {expected:?}, found {found:?}"
    )]
    SamplesShape {
        node: String,
        of: String,
        distribution: &'static str,
        found: Vec<usize>,
        expected: Vec<usize>,
    },
    /// Positions in sorted order do not fit the dimensions of the sorted node.
    #[error(
        "node {node}: positions along axis {axis} of {of}, which has dimensions {expected:?}, need the same dimensions or fewer elements on that axis, at most 2147483647; found {found:?}"
    )]
    OrderShape { node: String, of: String, axis: usize, found: Vec<usize>, expected: Vec<usize> },
    /// A random number has too many indices.
    #[error("node {node}: a random number has at most {limit} indices, found {found}")]
    RandomIndices { node: String, found: usize, limit: usize },
    /// A program reads the merge buffer of a view.
    #[error("node {node} is {view} and has no merge buffer of its own; read that of its parent")]
    MergeOfView { node: String, view: String },
    /// A program asks for the size of an axis that a node does not have.
    #[error("node {node} has dimensions {dims:?}, found axis {axis}")]
    NoSuchAxis { node: String, dims: Vec<usize>, axis: usize },
    /// A program reads two merge buffers.
    #[error("a routine reads at most one merge buffer, found those of nodes {first} and {second}")]
    TwoMergeBuffers { first: String, second: String },
    /// A list of constants is too long.
    #[error(
        "node {node}: a list of {found} constants, expected at most {limit}; give larger constants as host arrays"
    )]
    FillTooLong { node: String, found: usize, limit: usize },
    /// A list of constants has the wrong length.
    #[error("node {node} has {expected} elements, found a list of {found} constants")]
    FillLength { node: String, expected: usize, found: usize },
    /// The type of a computed index is no integer type.
    #[error("node {node}: the index on axis {axis} is computed in {dtype}, expected an integer type")]
    IndexType { node: String, axis: usize, dtype: tnode::DType },
    /// An operand without memory has a computed index.
    #[error("assignment to node {node}: {what} has a computed index, expected a node")]
    NothingToCompute { node: String, what: &'static str },
    /// The program has a gradient.
    #[error(
        "the gradient of node {loss} has no loops of its own; expected a call of `autodiff::expand`, which replaces it by \
         accumulations, before the program is lowered"
    )]
    Gradient { loss: String },
    /// An operation is not defined for its type.
    #[error("assignment to node {node}: operation {op} is not defined for {dtype}")]
    Type { node: String, op: &'static str, dtype: tnode::DType },
}

impl LowerErrorKind {
    /// Attaches a source span, if there is one.
    pub(super) fn at(self, span: Option<SourceSpan>) -> LowerError {
        LowerError { kind: Box::new(self), spans: span.into_iter().collect() }
    }
}

impl LowerError {
    /// The kind of the error. Its message uses the user's names of nodes and symbols.
    pub fn kind(&self) -> &LowerErrorKind {
        &self.kind
    }

    /// The source spans of the error, the faulty one first; none for assignments that are built without a
    /// text.
    pub fn spans(&self) -> &[SourceSpan] {
        &self.spans
    }

    /// Attaches a source span, unless the error has one.
    pub(super) fn or_at(mut self, span: impl FnOnce() -> Option<SourceSpan>) -> LowerError {
        if self.spans.is_empty() {
            self.spans.extend(span());
        }
        self
    }

    /// Adds a source span.
    pub(super) fn and_at(mut self, span: Option<SourceSpan>) -> LowerError {
        self.spans.extend(span);
        self
    }
}

impl From<LowerErrorKind> for LowerError {
    fn from(kind: LowerErrorKind) -> LowerError {
        kind.at(None)
    }
}

impl From<tnode::TensorNodeError> for LowerError {
    fn from(error: tnode::TensorNodeError) -> LowerError {
        LowerErrorKind::Node(error).into()
    }
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(span) = self.spans.first() {
            write!(f, "{}: ", span.position())?;
        }
        write!(f, "{}", self.kind)?;
        if self.spans.is_empty() { Ok(()) } else { write!(f, "\n{}", SpanList(&self.spans)) }
    }
}

impl std::error::Error for LowerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.kind.as_ref() {
            LowerErrorKind::Node(error) => Some(error),
            _ => None,
        }
    }
}
