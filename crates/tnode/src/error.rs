//! The errors of this crate.

use std::convert::Infallible;

use crate::conflict::ModeConflict;
use crate::dtype::DType;
use crate::padding::Dims;
use crate::predicates::ModeUndecided;

/// Why a request is rejected. Each message names the object, the expectation and the finding.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The dimensions of a node were needed before they were settled.
    #[error("node {node}: dimensions are not settled yet")]
    DimsUnsettled {
        /// The node's name.
        node: String,
    },
    /// The dimensions of a node were settled twice with different values.
    #[error("node {node}: dimensions are settled as {settled:?}, found {requested:?}")]
    DimsConflict {
        /// The node's name.
        node: String,
        /// The settled dimensions, without padding.
        settled: Dims,
        /// The rejected dimensions.
        requested: Dims,
    },
    /// The margins are for another number of axes than the array has.
    #[error("padding has {axes} axes, but the dimensions are {dims:?}")]
    PaddingRank {
        /// The dimensions.
        dims: Dims,
        /// Number of axes of the padding.
        axes: usize,
    },
    /// The margins are larger than the array that contains them.
    #[error("padding {padding:?} exceeds the padded dimensions {dims:?}")]
    PaddingExceeds {
        /// The dimensions with padding.
        dims: Dims,
        /// Left and right margins per axis.
        padding: Vec<(usize, usize)>,
    },
    /// An array is too large for the address space.
    #[error("an array of dimensions {dims:?} is too large to address")]
    TooLarge {
        /// The dimensions.
        dims: Dims,
    },
    /// There are more axes than [`MAX_RANK`](crate::MAX_RANK).
    #[error("an array has at most {limit} axes, found {found}")]
    TooManyAxes {
        /// Number of axes.
        found: usize,
        /// Largest number of axes.
        limit: usize,
    },
    /// An element type was specified or settled already, differently.
    #[error("node {node}: element type is {how} as {present}, found {requested}")]
    DTypeConflict {
        /// The node's name.
        node: String,
        /// `specified` or `settled`.
        how: &'static str,
        /// The specified or settled type.
        present: DType,
        /// The rejected type.
        requested: DType,
    },
    /// An inference came after the element type was used.
    #[error("node {node}: element type is settled as {present}, too late to infer it")]
    InferenceTooLate {
        /// The node's name.
        node: String,
        /// The type that was used.
        present: DType,
    },
    /// Two decisions about where a node lives exclude each other.
    #[error("node {node} {source}")]
    Mode {
        /// The node's name.
        node: String,
        /// The two decisions.
        source: ModeConflict,
    },
    /// A node was made a view in two different ways.
    #[error("node {node} is {present}, found {requested}")]
    View {
        /// The node's name.
        node: String,
        /// The present role of the node.
        present: String,
        /// The rejected role of the node.
        requested: String,
    },
    /// A memory mode was needed before anything was decided.
    #[error(transparent)]
    ModeUndecided(#[from] ModeUndecided),
    /// Another live node has the requested id.
    #[error("node id n{id} is taken by {taken_by}")]
    IdTaken {
        /// The id asked for.
        id: u64,
        /// Name of the node that has it.
        taken_by: String,
    },
    /// The system has no memory for an array.
    #[error("no memory for an array of {bytes} bytes")]
    OutOfMemory {
        /// The size asked for.
        bytes: usize,
    },
    /// The elements of an array were viewed as another type than they have.
    #[error("elements are {found}, expected {expected}")]
    ElementType {
        /// The type asked for.
        expected: DType,
        /// The type of the array.
        found: DType,
    },
    /// The number of elements differs from the product of the dimensions.
    #[error("dimensions {dims:?} need {expected} elements, found {found}")]
    ElementCount {
        /// The dimensions.
        dims: Dims,
        /// Their product.
        expected: usize,
        /// The number given.
        found: usize,
    },
    /// An array of which the only element is asked for has another number of them.
    #[error("dimensions {dims:?} have {found} elements, expected one")]
    NotOneElement {
        /// The dimensions, without margins.
        dims: Dims,
        /// Their product.
        found: usize,
    },
    /// An array has other dimensions than its node.
    #[error("node {node} has dimensions {expected:?} without margins, the array has {found:?}")]
    ArrayDims {
        /// The node's name.
        node: String,
        /// The node's dimensions without padding.
        expected: Dims,
        /// The array's dimensions without padding.
        found: Vec<usize>,
    },
    /// An index is outside the array.
    #[error("index {index:?} is outside the dimensions {dims:?}")]
    OutOfBounds {
        /// The index.
        index: Vec<usize>,
        /// The dimensions without padding.
        dims: Dims,
    },
    /// A file cannot be read or written.
    #[error("cannot read or write {format}: {source}")]
    File {
        /// The file format.
        format: &'static str,
        /// The error of the system or the archive.
        source: std::io::Error,
    },
    /// The content of a file is not in the file's format.
    #[error("malformed {format}: {why}")]
    Malformed {
        /// The file format.
        format: &'static str,
        /// The reason.
        why: String,
    },
    /// A file format has no counterpart of an element type of this crate, or the other way round.
    #[error("element type {what} in {format} has no counterpart")]
    UnsupportedElement {
        /// The file format.
        format: &'static str,
        /// The element type's name, in the file format or in this crate.
        what: String,
    },
    /// An array lacks the requested axis.
    #[error("no axis {axis} in the dimensions {dims:?}")]
    NoSuchAxis {
        /// The axis asked for.
        axis: usize,
        /// The dimensions without padding.
        dims: Dims,
    },
    /// A coordinate is beyond the end of its axis.
    #[error("no coordinate {coordinate} along axis {axis} of the dimensions {dims:?}")]
    NoSuchCoordinate {
        /// The coordinate asked for.
        coordinate: usize,
        /// The axis.
        axis: usize,
        /// The dimensions without padding.
        dims: Dims,
    },
}

/// For `impl TryInto<Arc<HostArray>>`, which an array that need not be copied implements without an error.
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Error {
        match never {}
    }
}
