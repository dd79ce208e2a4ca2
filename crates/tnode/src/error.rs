//! The errors of this crate.

use std::convert::Infallible;

use crate::conflict::ModeConflict;
use crate::dtype::DType;
use crate::padding::Dims;
use crate::predicates::ModeUndecided;

/// The result of a request about nodes or arrays.
pub(crate) type Result<T, E = TensorNodeError> = std::result::Result<T, E>;

/// Why a request is rejected. Each message names the object, the expectation and the finding.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum TensorNodeError {
    /// The dimensions of a node were needed before they were settled.
    #[error("node {node}: dimensions are not settled yet")]
    DimsUnsettled { node: String },
    /// The dimensions of a node, without padding, were settled twice with different values.
    #[error("node {node}: dimensions are settled as {settled:?}, found {requested:?}")]
    DimsConflict { node: String, settled: Dims, requested: Dims },
    /// The sizes that a run gives to the axes of a node were settled twice, differently.
    #[error("node {node}: dimensions are settled as {settled}, found {requested}")]
    SizesConflict { node: String, settled: String, requested: String },
    /// The margins of a node were settled twice, differently.
    #[error("node {node}: margins are settled as {settled}, found {requested}")]
    PaddingConflict { node: String, settled: String, requested: String },
    /// A node with margins has an axis whose size a run gives.
    #[error("an axis has the size `{size}`, which a run gives; a node with padding has constant dimensions")]
    SizeWithPadding { size: String },
    /// The margins are for another number of axes than the array has.
    #[error("padding has {axes} axes, but the dimensions are {dims:?}")]
    PaddingRank { dims: Dims, axes: usize },
    /// The margins, left and right of each axis, are larger than the array that contains them.
    #[error("padding {padding:?} exceeds the padded dimensions {dims:?}")]
    PaddingExceeds { dims: Dims, padding: Vec<(usize, usize)> },
    /// An array is too large for the address space.
    #[error("an array of dimensions {dims:?} is too large to address")]
    TooLarge { dims: Dims },
    /// There are more axes than [`MAX_RANK`](crate::MAX_RANK).
    #[error("an array has at most {limit} axes, found {found}")]
    TooManyAxes { found: usize, limit: usize },
    /// An element type was specified or settled already, differently.
    #[error("node {node}: element type is {how} as {present}, found {requested}")]
    DTypeConflict { node: String, how: &'static str, present: DType, requested: DType },
    /// An inference came after the element type was used.
    #[error("node {node}: element type is settled as {present}, too late to infer it")]
    InferenceTooLate { node: String, present: DType },
    /// Two decisions about where a node lives exclude each other.
    #[error("node {node} {source}")]
    Mode { node: String, source: ModeConflict },
    /// A node was made a view in two different ways: its present role, and the rejected one.
    #[error("node {node} is {present}, found {requested}")]
    View { node: String, present: String, requested: String },
    /// A memory mode was needed before anything was decided.
    #[error(transparent)]
    ModeUndecided(#[from] ModeUndecided),
    /// Another live node has the requested id.
    #[error("node id n{id} is taken by {taken_by}")]
    IdTaken { id: u64, taken_by: String },
    /// The system has no memory for an array.
    #[error("no memory for an array of {bytes} bytes")]
    OutOfMemory { bytes: usize },
    /// The elements of an array were viewed as another type than they have.
    #[error("elements are {found}, expected {expected}")]
    ElementType { expected: DType, found: DType },
    /// The number of elements differs from the product of the dimensions.
    #[error("dimensions {dims:?} need {expected} elements, found {found}")]
    ElementCount { dims: Dims, expected: usize, found: usize },
    /// An array of which the only element is asked for has another number of them.
    #[error("dimensions {dims:?} have {found} elements, expected one")]
    NotOneElement { dims: Dims, found: usize },
    /// An array has other dimensions than its node, both without padding.
    #[error("node {node} has dimensions {expected:?} without margins, the array has {found:?}")]
    ArrayDims { node: String, expected: Dims, found: Vec<usize> },
    /// An index is outside the array, whose dimensions are without padding.
    #[error("index {index:?} is outside the dimensions {dims:?}")]
    OutOfBounds { index: Vec<usize>, dims: Dims },
    /// A file cannot be read or written.
    #[error("cannot read or write {format}: {source}")]
    File { format: &'static str, source: std::io::Error },
    /// The content of a file is not in the file's format.
    #[error("malformed {format}: {why}")]
    Malformed { format: &'static str, why: String },
    /// The pickle of a file of torch mentions a function or a class that data does not need.
    #[error(
        "the pickle mentions `{name}`, which is not loaded; expected tensors alone, such as those of a \
         `state_dict`"
    )]
    PickledGlobal { name: String },
    /// A file format has no counterpart of an element type of this crate, or the other way round; the name
    /// is that of the side that has it.
    #[error("element type {what} in {format} has no counterpart")]
    UnsupportedElement { format: &'static str, what: String },
    /// An array lacks the requested axis.
    #[error("no axis {axis} in the dimensions {dims:?}")]
    NoSuchAxis { axis: usize, dims: Dims },
    /// A coordinate is beyond the end of its axis.
    #[error("no coordinate {coordinate} along axis {axis} of the dimensions {dims:?}")]
    NoSuchCoordinate { coordinate: usize, axis: usize, dims: Dims },
    /// A range of coordinates is beyond the end of its axis, or ends before its start.
    #[error("coordinates {start}..{end} along axis {axis} are not within the dimensions {dims:?}")]
    NoSuchRange { start: usize, end: usize, axis: usize, dims: Dims },
    /// No arrays are to be joined.
    #[error("no arrays, expected at least one")]
    NoArrays,
    /// An array that is joined has dimensions that do not fit those of the first one.
    #[error("array {position} has dimensions {found:?}, which do not fit {expected:?} of array 0")]
    PartDims { position: usize, expected: Dims, found: Dims },
}

/// For `impl TryInto<Arc<HostArray>>`, which an array that need not be copied implements without an error.
impl From<Infallible> for TensorNodeError {
    fn from(never: Infallible) -> TensorNodeError {
        match never {}
    }
}
