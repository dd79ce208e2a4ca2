//! Errors that point into the text.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use tnode::{DType, Dims};

pub use super::synonyms::Synonym;
use lowered_ir::SourceSpan;

/// A range of bytes of the text.
pub type ByteRange = Range<usize>;

/// What is wrong with a text, and where. Prints the message, the line and a caret under the place.
pub struct TextError {
    kind: Box<TextErrorKind>,
    span: SourceSpan,
}

/// What is wrong with a text.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TextErrorKind {
    /// The grammar wants something else here.
    #[error("expected {expected}, found {found}")]
    Syntax {
        /// What could stand here.
        expected: String,
        /// What does.
        found: String,
    },
    /// Brackets or operations nested too deep to be read.
    #[error("the expression is nested deeper than {limit} levels; split it into statements")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// A name that no node has.
    #[error("unknown node `{name}`; {}", near_names(near))]
    UnknownNode {
        /// The name.
        name: String,
        /// Similar names, the nearest first; if there is none, all there are, or the nearest of many.
        near: Vec<String>,
    },
    /// A name that is nothing.
    #[error("`{name}` is neither an index letter of this statement nor a node; {}", near_names(near))]
    UnknownName {
        /// The name.
        name: String,
        /// Similar node names, the nearest first; if there is none, all there are, or the nearest of many.
        near: Vec<String>,
    },
    /// A name that several nodes have.
    #[error("`{name}` names several nodes: {}; give them different labels", nodes.join(", "))]
    AmbiguousNode {
        /// The name.
        name: String,
        /// The nodes.
        nodes: Vec<String>,
    },
    /// A name that is a node and a letter.
    #[error(
        "`{name}` is an index letter of this statement and a node; write `{name}[]` for the node, or rename the letter"
    )]
    NodeOrLetter {
        /// The name.
        name: String,
    },
    /// A name of no function.
    #[error("unknown function `{name}`{}", function_hint(near, *instead))]
    UnknownFunction {
        /// The name.
        name: String,
        /// Similar names, the nearest first.
        near: Vec<String>,
        /// What the function is called or written as here, if it is known elsewhere.
        instead: Option<Synonym>,
    },
    /// The wrong number of arguments.
    #[error(
        "function `{name}` takes {}, found {found}{}",
        counted(*expected, "argument", "arguments"),
        instead.map(|synonym| format!("; {synonym}")).unwrap_or_default()
    )]
    Arity {
        /// The function.
        name: String,
        /// How many it takes.
        expected: usize,
        /// How many there are.
        found: usize,
        /// What a call with so many is written as here, if functions of that name have them elsewhere.
        instead: Option<Synonym>,
    },
    /// The wrong number of indices.
    #[error("node `{node}` has dimensions {dims:?}, expected {}, found {found}", counted(dims.len(), "index", "indices"))]
    Rank {
        /// The node's name.
        node: String,
        /// Its dimensions.
        dims: Dims,
        /// How many indices there are.
        found: usize,
    },
    /// An index that is not a sum of multiples of letters and symbols.
    #[error("an index is a sum of integers and integer multiples of letters and symbols; found {found}")]
    NotAffine {
        /// What it is instead.
        found: &'static str,
    },
    /// Two axes of different sizes under one letter.
    #[error(
        "letter `{letter}` runs over {expected} elements (axis {from}), but axis {axis} of node `{node}` has {found}"
    )]
    Size {
        /// The letter.
        letter: String,
        /// Its range.
        expected: i64,
        /// Which axis it has the range from.
        from: String,
        /// The node that differs.
        node: String,
        /// Its axis.
        axis: usize,
        /// The size of that axis.
        found: usize,
    },
    /// A concatenated axis whose letters do not add up to it.
    #[error("`{letter}` has {} elements, but axis {axis} of node `{node}` has {found}", sum_text(parts))]
    ConcatSize {
        /// The letters.
        letter: String,
        /// The range of each.
        parts: Vec<i64>,
        /// The node that differs.
        node: String,
        /// Its axis.
        axis: usize,
        /// The size of that axis.
        found: usize,
    },
    /// A part of concatenated axes with no target or value, or more than one.
    #[error("ambiguous{}: expected one {what}, found {}", where_runs(letters), found_list(found))]
    Ambiguous {
        /// The letters that run there.
        letters: Vec<String>,
        /// `target` or `value`.
        what: &'static str,
        /// Those that could be meant.
        found: Vec<String>,
    },
    /// Too many ways to pick letters of concatenated axes.
    #[error("the concatenated axes have more than {limit} combinations of letters; split the statement")]
    TooManyParts {
        /// The limit.
        limit: usize,
    },
    /// A letter whose range does not follow from anything.
    #[error(
        "the range of letter `{letter}` is open; expected it as an index of its own somewhere, or a range as in `where {letter} < 8`"
    )]
    OpenRange {
        /// The letter.
        letter: String,
    },
    /// A range that contradicts another, or is none.
    #[error("`{name} < {range}` {conflict}")]
    BadRange {
        /// The letter or symbol.
        name: String,
        /// The range.
        range: i128,
        /// Why it cannot be.
        conflict: String,
    },
    /// A constrained letter that is not used.
    #[error("letter `{letter}` does not occur in the statement")]
    UnusedLetter {
        /// The letter.
        letter: String,
    },
    /// An index that leaves its array.
    #[error(
        "index `{index}` takes values {lo}..={hi}, but axis {axis} of node `{node}` has {size} elements{}",
        padded.as_ref().map(|padded| format!("; `{padded}` reads 0 outside")).unwrap_or_default()
    )]
    OutOfBounds {
        /// The index.
        index: String,
        /// Its least value.
        lo: i64,
        /// Its greatest value.
        hi: i64,
        /// The node's name.
        node: String,
        /// Its axis.
        axis: usize,
        /// The size of that axis.
        size: usize,
        /// The access that reads 0 outside, where one may.
        padded: Option<String>,
    },
    /// A computed index that is no integer.
    #[error("the index of axis {axis} of node `{node}` is of type {dtype}, expected an integer type")]
    IndexType {
        /// The node's name.
        node: String,
        /// The axis indexed.
        axis: usize,
        /// The type of the index.
        dtype: DType,
    },
    /// More than one computed index in an access.
    #[error("`{access}` has {found} computed indices, expected at most one")]
    SeveralComputed {
        /// The access.
        access: String,
        /// How many.
        found: usize,
    },
    /// A plain assignment of many values to one element.
    #[error(
        "`:=` stores one value per element, but `{letter}` is not among the indices of `{node}`; expected an accumulation such as `:+=`"
    )]
    NotReduced {
        /// The letter.
        letter: String,
        /// The node written.
        node: String,
    },
    /// A plain assignment whose indices may coincide.
    #[error(
        "`:=` stores one value per element, but these indices may reach an element of `{node}` more than once; expected an \
         accumulation such as `:+=`"
    )]
    Overlap {
        /// The node written.
        node: String,
    },
    /// A list of values of the wrong length, or too long to be written in a program.
    #[error("node `{node}` has {elements} elements, found {found} values; at most {limit} may be given")]
    Values {
        /// The node.
        node: String,
        /// How many elements it has.
        elements: usize,
        /// How many values there are.
        found: usize,
        /// The most there may be.
        limit: usize,
    },
    /// A function that fills a node, used as a value.
    #[error("`{name}` fills a whole node and is no value; expected a statement of its own: `{form}`")]
    NoValue {
        /// The function.
        name: String,
        /// How it is used.
        form: String,
    },
    /// A random number with too many indices.
    #[error("a random number has at most {limit} indices")]
    RandomIndices {
        /// How many there may be.
        limit: usize,
    },
    /// A size of no letter.
    #[error("`{name}` is no index letter of this statement, so it has no size")]
    NoLetter {
        /// The name.
        name: String,
    },
    /// A node read where it is being changed.
    #[error("node `{node}` is read while it is written: {why}; write to another node first")]
    SelfRead {
        /// The node.
        node: String,
        /// What makes the value depend on the order.
        why: &'static str,
    },
    /// A number that the type does not have.
    #[error("{value} is out of the range of {dtype}")]
    Literal {
        /// The number.
        value: String,
        /// The type.
        dtype: DType,
    },
    /// An integer in a list of values that `f64` does not have.
    #[error(
        "{value} is not exact in a list of values, which is one of f64; assign it to its element, as in `y[0] := {value}`"
    )]
    Inexact {
        /// The number.
        value: String,
    },
    /// Something about a node.
    #[error(transparent)]
    Node(#[from] tnode::Error),
}

fn sum_text(parts: &[i64]) -> String {
    parts.iter().map(i64::to_string).collect::<Vec<_>>().join(" + ")
}

fn where_runs(letters: &[String]) -> String {
    match letters {
        [] => String::new(),
        letters => format!(" where {} runs", found_list(letters)),
    }
}

fn found_list(found: &[String]) -> String {
    match found {
        [] => "none".to_owned(),
        found => found.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(" and "),
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn near_names(near: &[String]) -> String {
    match near {
        [] => "there are none".to_owned(),
        [name] => format!("expected {name}"),
        names => format!("expected one of {}", names.join(", ")),
    }
}

fn function_hint(near: &[String], instead: Option<Synonym>) -> String {
    match (instead, near) {
        (Some(synonym), _) => format!("; {synonym}"),
        (None, []) => ", and none has a similar name".to_owned(),
        (None, near) => format!("; {}", near_names(near)),
    }
}

impl TextError {
    pub(super) fn new(located: LocatedError, text: &Arc<str>) -> TextError {
        let LocatedError { kind, span } = located;
        TextError { kind, span: SourceSpan::new(text.clone(), span) }
    }

    /// What is wrong.
    pub fn kind(&self) -> &TextErrorKind {
        &self.kind
    }

    /// The place, in bytes of the text.
    pub fn span(&self) -> ByteRange {
        self.span.bytes()
    }

    /// The line, from 1.
    pub fn line(&self) -> usize {
        self.span.line()
    }

    /// The column, in characters from 1.
    pub fn column(&self) -> usize {
        self.span.column()
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}\n{}", self.line(), self.column(), self.kind, self.span)
    }
}

impl std::error::Error for TextError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.kind.as_ref() {
            TextErrorKind::Node(error) => Some(error),
            _ => None,
        }
    }
}

/// A located error before the text is at hand.
#[derive(Debug)]
pub(super) struct LocatedError {
    kind: Box<TextErrorKind>,
    span: ByteRange,
}

impl TextErrorKind {
    /// This error, at that place.
    pub(super) fn at(self, span: ByteRange) -> LocatedError {
        LocatedError { kind: Box::new(self), span }
    }
}
