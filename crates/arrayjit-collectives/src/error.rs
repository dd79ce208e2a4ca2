//! Why a collective operation failed.

use std::{sync::Arc, time::Duration};

use arrayjit::{DType, RunError};

/// Why a collective operation failed.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    /// Ranks did not call the operation in time: they ended, hang, or call something else first.
    #[error(
        "rank {rank} of {size}: `{operation}`: no call of {} within {:.1} s",
        ranks(missing),
        timeout.as_secs_f64()
    )]
    Missing {
        /// The rank that waited.
        rank: usize,
        /// The number of ranks.
        size: usize,
        /// The operation for which it waited.
        operation: String,
        /// The ranks that did not come.
        missing: Vec<usize>,
        /// How long it waited.
        timeout: Duration,
    },
    /// Ranks call different operations at the same time.
    #[error("rank {rank} calls `{operation}`, but rank {other} calls `{found}`")]
    Mismatch {
        /// The rank that reports the difference.
        rank: usize,
        /// Its operation.
        operation: String,
        /// A rank with another operation.
        other: usize,
        /// The operation of that rank.
        found: String,
    },
    /// A rank of this process ended with an error or a panic, and others waited for it.
    #[error("`{operation}`: rank {rank} failed: {message}")]
    RankFailed {
        /// The operation that waited.
        operation: String,
        /// The rank that failed.
        rank: usize,
        /// Its error.
        message: String,
    },
    /// Elements of this type cannot be reduced.
    #[error("node `{node}`: elements of type {dtype} cannot be reduced")]
    Type {
        /// The name of the node.
        node: String,
        /// The element type.
        dtype: DType,
    },
    /// Nodes that are reduced together have different types.
    #[error(
        "nodes `{first}` ({first_type}) and `{second}` ({second_type}) cannot be reduced in one operation"
    )]
    MixedTypes {
        /// The name of a node.
        first: String,
        /// Its element type.
        first_type: DType,
        /// The name of another node.
        second: String,
        /// Its element type.
        second_type: DType,
    },
    /// A node that has not the elements of one part for each rank.
    #[error(
        "node `{whole}` has {found} bytes, expected {size} times the {part_bytes} bytes of node `{part}`"
    )]
    Parts {
        /// The name of the node with all parts.
        whole: String,
        /// Its size in bytes.
        found: usize,
        /// The number of ranks.
        size: usize,
        /// The name of the node with one part.
        part: String,
        /// Its size in bytes.
        part_bytes: usize,
    },
    /// More parts than ranks.
    #[error("{parts} parts, one for each rank, but there are {size} ranks")]
    TooManyParts {
        /// The number of parts.
        parts: usize,
        /// The number of ranks.
        size: usize,
    },
    /// A node to be summed that the program of a gradient does not compute.
    #[error("node `{node}` is to be summed, but no step of the program writes it")]
    NotWritten {
        /// The name of the node.
        node: String,
    },
    /// A program whose gradients cannot be computed.
    #[error(transparent)]
    Gradient(Arc<arrayjit::autodiff::GradientError>),
    /// A root that is no rank.
    #[error("rank {root} as root, but there are {size} ranks")]
    Root {
        /// The rank given.
        root: usize,
        /// The number of ranks.
        size: usize,
    },
    /// Ranks whose values should be equal have different ones.
    #[error("{what}: the values of rank {rank} differ from those of rank 0")]
    Diverged {
        /// The names of the nodes.
        what: String,
        /// The first rank with other values.
        rank: usize,
    },
    /// A timeline that cannot be read or written.
    #[error(transparent)]
    Timeline(Arc<arrayjit::trace::TraceError>),
    /// An error of NCCL, or nodes that it does not take.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Nccl(Arc<device_cuda::NcclError>),
    /// No operation after the first failure of a group.
    #[error("the group has failed: {0}")]
    Failed(String),
    /// An error of the runtime, such as a node that a context lacks.
    #[error(transparent)]
    Run(Arc<RunError>),
}

impl From<RunError> for CollectiveError {
    fn from(error: RunError) -> CollectiveError {
        CollectiveError::Run(Arc::new(error))
    }
}

#[cfg(feature = "cuda")]
impl From<device_cuda::NcclError> for CollectiveError {
    fn from(error: device_cuda::NcclError) -> CollectiveError {
        CollectiveError::Nccl(Arc::new(error))
    }
}

tnode::debug_as_display!(CollectiveError);

/// `rank 1` or `ranks 1, 3`.
fn ranks(ranks: &[usize]) -> String {
    let list: Vec<String> = ranks.iter().map(usize::to_string).collect();
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, list.join(", "))
}
