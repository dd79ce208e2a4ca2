//! Why a collective operation failed.

use std::{sync::Arc, time::Duration};

use arrayjit::{DType, RunError};

/// The result of a collective operation.
pub type Result<T, E = CollectiveError> = std::result::Result<T, E>;

/// Why a collective operation failed.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum CollectiveError {
    /// Ranks did not call the operation in time: they ended, hang, or call something else first.
    #[error(
        "rank {rank} of {size}: `{operation}`: no call of {} within {:.1} s",
        ranks(missing),
        timeout.as_secs_f64()
    )]
    Missing { rank: usize, size: usize, operation: String, missing: Vec<usize>, timeout: Duration },
    /// Ranks call different operations at the same time.
    #[error("rank {rank} calls `{operation}`, but rank {other} calls `{found}`")]
    Mismatch { rank: usize, operation: String, other: usize, found: String },
    /// A rank of this process ended with an error or a panic, and others waited for it.
    #[error("`{operation}`: rank {rank} failed: {message}")]
    RankFailed { operation: String, rank: usize, message: String },
    /// Elements of this type cannot be reduced.
    #[error("node `{node}`: elements of type {dtype} cannot be reduced")]
    Type { node: String, dtype: DType },
    /// Nodes that are reduced together have different types.
    #[error(
        "nodes `{first}` ({first_type}) and `{second}` ({second_type}) cannot be reduced in one operation"
    )]
    MixedTypes { first: String, first_type: DType, second: String, second_type: DType },
    /// A node that has not the elements of one part for each rank.
    #[error(
        "node `{whole}` has {found} bytes, expected {size} times the {part_bytes} bytes of node `{part}`"
    )]
    Parts { whole: String, found: usize, size: usize, part: String, part_bytes: usize },
    /// More parts than ranks.
    #[error("{parts} parts, one for each rank, but there are {size} ranks")]
    TooManyParts { parts: usize, size: usize },
    /// A node to be summed that the program of a gradient does not compute.
    #[error("node `{node}` is to be summed, but no step of the program writes it")]
    NotWritten { node: String },
    /// A program whose gradients cannot be computed.
    #[error(transparent)]
    Gradient(Arc<arrayjit::autodiff::GradientError>),
    /// A root that is no rank.
    #[error("rank {root} as root, but there are {size} ranks")]
    Root { root: usize, size: usize },
    /// Ranks whose values should be equal have different ones.
    #[error("{what}: the values of rank {rank} differ from those of rank 0")]
    Diverged { what: String, rank: usize },
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
