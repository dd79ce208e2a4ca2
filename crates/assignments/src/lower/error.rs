//! Why lowering refuses a program, and where in its text.

use std::fmt;

use lowered_ir::SourceSpan;

/// Why assignments have no loops, with the place in their text. Displays the message and, for assignments
/// from a text, the line with carets under the place; a message about two statements shows both.
pub struct LowerError {
    kind: Box<LowerErrorKind>,
    spans: Vec<SourceSpan>,
}

/// Why assignments have no loops.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LowerErrorKind {
    /// Sizes are not settled, or something else about a node.
    #[error(transparent)]
    Node(#[from] tnode::Error),
    /// A node has other dimensions than its projection is for.
    #[error("node {node} has dimensions {found:?}, but the assignment indexes dimensions {expected:?}")]
    Dims {
        /// The node's name.
        node: String,
        /// Its dimensions.
        found: Vec<usize>,
        /// Those of the projection.
        expected: Vec<usize>,
    },
    /// The number of projections differs from that of operands.
    #[error("assignment to node {node}: {operands} operands, but {projections} projections")]
    Operands {
        /// The name of the node written.
        node: String,
        /// How many operands.
        operands: usize,
        /// How many projections.
        projections: usize,
    },
    /// An index leaves its array.
    #[error(
        "node {node}: index {index} on axis {axis} takes values {lo}..={hi}, expected within {min}..{max}"
    )]
    OutOfBounds {
        /// The node's name.
        node: String,
        /// The position of the index.
        axis: usize,
        /// The index.
        index: String,
        /// Its least value.
        lo: i64,
        /// Its greatest value.
        hi: i64,
        /// The least allowed value.
        min: i64,
        /// One past the greatest allowed value.
        max: i64,
    },
    /// An index too large to compute.
    #[error("node {node}: index {index} on axis {axis} overflows")]
    Overflow {
        /// The node's name.
        node: String,
        /// The position of the index.
        axis: usize,
        /// The index.
        index: String,
    },
    /// An index of a symbol that the program does not have.
    #[error("node {node}: an index mentions symbol number {symbol}, but the assignments have {symbols}")]
    UnknownSymbol {
        /// The name of the node written.
        node: String,
        /// The position.
        symbol: u32,
        /// How many there are.
        symbols: usize,
    },
    /// A symbol with two ranges.
    #[error("symbol @{name} has range {first} and range {second}")]
    SymbolConflict {
        /// The symbol's name.
        name: String,
        /// One range.
        first: i64,
        /// The other.
        second: i64,
    },
    /// A symbol whose range does not follow from its uses.
    #[error(
        "symbol @{name} has no range, and no index bounds it alone; expected a range, as in `where @{name} < 10`"
    )]
    SymbolUnranged {
        /// The symbol's name.
        name: String,
    },
    /// A symbol whose name is none in the loop IR.
    #[error(
        "symbol @{name} has a name that is none: expected a letter or `_` of ASCII, then letters, digits and `_`"
    )]
    SymbolName {
        /// The symbol's name.
        name: String,
    },
    /// A symbol of more values than a loop may count.
    #[error("symbol @{name} has range {range}, expected at most {max}")]
    SymbolRange {
        /// The symbol's name.
        name: String,
        /// The range.
        range: i64,
        /// The limit.
        max: i64,
    },
    /// A name for the routine that is none in the loop IR.
    #[error("the routine is named {name:?}, expected a letter or `_` of ASCII, then letters, digits and `_`")]
    RoutineName {
        /// The name.
        name: String,
    },
    /// A node of more bytes than any may have.
    #[error(
        "node {node} of dimensions {dims:?} has {bytes} bytes, expected at most {max}; compute it in parts that are smaller"
    )]
    TooLarge {
        /// The node's name.
        node: String,
        /// Its dimensions with padding.
        dims: Vec<usize>,
        /// The size; saturated.
        bytes: u128,
        /// The limit.
        max: u64,
    },
    /// An assignment over more letters than loops nest.
    #[error("assignment to node {node}: {found} letters of more than one value, expected at most {max}")]
    TooManyLoops {
        /// The name of the node written.
        node: String,
        /// How many there are.
        found: usize,
        /// The limit.
        max: usize,
    },
    /// A letter of more values than a loop may count.
    #[error("assignment to node {node}: a letter runs over {found} values, expected at most {max}")]
    LoopRange {
        /// The name of the node written.
        node: String,
        /// How many values.
        found: usize,
        /// The limit.
        max: i64,
    },
    /// A program of more statements than a routine may have.
    #[error(
        "the program has more than {max} statements, loops and elements of lists included; split it into routines"
    )]
    TooManyStatements {
        /// The limit.
        max: u64,
    },
    /// An index whose distance from the beginning of the node is too large to compute.
    #[error(
        "node {node}: index {index} on axis {axis} has the factor {factor}, which is farther than any node reaches"
    )]
    TooSteep {
        /// The node's name.
        node: String,
        /// The position of the index.
        axis: usize,
        /// The index.
        index: String,
        /// The coefficient or constant.
        factor: i64,
    },
    /// An index, used as a value, that its type does not have.
    #[error(
        "the value of index {index} is within {lo}..={hi}, which {dtype} does not hold; use it in a node of i64, or make it smaller"
    )]
    IndexValue {
        /// The index.
        index: String,
        /// Its least value.
        lo: i64,
        /// Its greatest value.
        hi: i64,
        /// The type.
        dtype: tnode::DType,
    },
    /// A key of random numbers with too many parts.
    #[error(
        "node {node}: a random number has at most {max} numbers and symbols after the seed, found {found}"
    )]
    RandomKey {
        /// The name of the node written.
        node: String,
        /// How many there are.
        found: usize,
        /// How many there may be.
        max: usize,
    },
    /// A symbol without values.
    #[error("symbol @{name} has range {range}, expected at least 1")]
    SymbolEmpty {
        /// The symbol's name.
        name: String,
        /// The range.
        range: i64,
    },
    /// A write that leaves elements without a value.
    #[error(
        "node {node}: the assignment does not write all of axis {axis} (size {size}), and nothing initialises the node \
         before; expected an initialisation such as `{fill}`, or a node of `MemoryMode::Materialized`, whose values stay"
    )]
    Uninitialised {
        /// The node's name.
        node: String,
        /// The axis with unwritten elements.
        axis: usize,
        /// Its size.
        size: usize,
        /// A statement that would initialise it.
        fill: String,
    },
    /// A statement without effect.
    #[error(
        "every value that {statement} stores in node {node} is overwritten by {by} before anything reads it; {remedy}"
    )]
    LostValues {
        /// The node's name.
        node: String,
        /// The statement whose values are lost: `this statement` where a text shows it, else its listing.
        statement: String,
        /// The one that overwrites them: its line, or its listing.
        by: String,
        /// A correction, in words.
        remedy: String,
    },
    /// A slice of other dimensions than its parent's but for the first.
    #[error("node {node} has dimensions {dims:?}, but a slice of {of} {parent:?} has {}", if parent.is_empty() { "no axis to be at".to_owned() } else { format!("{:?}", &parent[1..]) })]
    SliceShape {
        /// The node's name.
        node: String,
        /// Its dimensions.
        dims: Vec<usize>,
        /// The name of the node it is a slice of.
        of: String,
        /// The dimensions of that.
        parent: Vec<usize>,
    },
    /// A node read where it is being changed, under another name.
    #[error(
        "node {node} is read while node {target} is written, and the elements of both are in {home}; write to another \
         node first"
    )]
    ReadThroughView {
        /// The node read.
        node: String,
        /// The node written.
        target: String,
        /// The node that has the elements of both.
        home: String,
    },
    /// Samples that are too few or too many for the node that they fill.
    #[error(
        "node {node}: `{distribution}({of})` takes a sample for each chunk of the last axis, so {of} with dimensions {expected:?}, found {found:?}"
    )]
    SamplesShape {
        /// The node's name.
        node: String,
        /// The name of the node with the draws.
        of: String,
        /// What is made of them.
        distribution: &'static str,
        /// Its dimensions.
        found: Vec<usize>,
        /// What they should be.
        expected: Vec<usize>,
    },
    /// A random number with more indices than a counter holds.
    #[error("node {node}: a random number has at most {limit} indices, found {found}")]
    RandomIndices {
        /// The name of the node written.
        node: String,
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The merge buffer of a node without memory.
    #[error("node {node} is {view} and has no merge buffer of its own; read that of its parent")]
    MergeOfView {
        /// The node's name.
        node: String,
        /// What it is a view of.
        view: String,
    },
    /// The size of an axis that a node does not have.
    #[error("node {node} has dimensions {dims:?}, found axis {axis}")]
    NoSuchAxis {
        /// The node's name.
        node: String,
        /// Its dimensions.
        dims: Vec<usize>,
        /// The axis asked for.
        axis: usize,
    },
    /// Two merge buffers in one routine.
    #[error("a routine reads at most one merge buffer, found those of nodes {first} and {second}")]
    TwoMergeBuffers {
        /// One node.
        first: String,
        /// The other.
        second: String,
    },
    /// A list of constants that is too long.
    #[error(
        "node {node}: a list of {found} constants, expected at most {limit}; give larger constants as host arrays"
    )]
    FillTooLong {
        /// The node's name.
        node: String,
        /// The length.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// A list of constants of the wrong length.
    #[error("node {node} has {expected} elements, found a list of {found} constants")]
    FillLength {
        /// The node's name.
        node: String,
        /// How many elements.
        expected: usize,
        /// The length.
        found: usize,
    },
    /// A computed index of a type that is no integer.
    #[error("node {node}: the index on axis {axis} is computed in {dtype}, expected an integer type")]
    IndexType {
        /// The name of the node indexed.
        node: String,
        /// The position of the index.
        axis: usize,
        /// The type of the index.
        dtype: tnode::DType,
    },
    /// A computed index of an operand that has no memory to look into.
    #[error("assignment to node {node}: {what} has a computed index, expected a node")]
    NothingToCompute {
        /// The name of the node written.
        node: String,
        /// What the operand is.
        what: &'static str,
    },
    /// An operation that its type does not have.
    #[error("assignment to node {node}: operation {op} is not defined for {dtype}")]
    Type {
        /// The name of the node written.
        node: String,
        /// The operation.
        op: &'static str,
        /// The type in which it would compute.
        dtype: tnode::DType,
    },
}

impl LowerErrorKind {
    /// This error, at that place if there is one.
    pub(super) fn at(self, span: Option<SourceSpan>) -> LowerError {
        LowerError { kind: Box::new(self), spans: span.into_iter().collect() }
    }
}

impl LowerError {
    /// The kind of the error. Messages name nodes and symbols as the user does.
    pub fn kind(&self) -> &LowerErrorKind {
        &self.kind
    }

    /// The places that the message is about, the guilty one first; none for assignments that were built
    /// without a text.
    pub fn spans(&self) -> &[SourceSpan] {
        &self.spans
    }

    /// The error at that place, unless it has one.
    pub(super) fn or_at(mut self, span: impl FnOnce() -> Option<SourceSpan>) -> LowerError {
        if self.spans.is_empty() {
            self.spans.extend(span());
        }
        self
    }

    /// The error with a further place.
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

impl From<tnode::Error> for LowerError {
    fn from(error: tnode::Error) -> LowerError {
        LowerErrorKind::Node(error).into()
    }
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(span) = self.spans.first() {
            write!(f, "line {}, column {}: ", span.line(), span.column())?;
        }
        write!(f, "{}", self.kind)?;
        self.spans.iter().try_for_each(|span| write!(f, "\n{span}"))
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
