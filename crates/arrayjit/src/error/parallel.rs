//! Why work or arrays were not divided.

use tnode::DType;

/// Why work was not divided over streams, or an array not divided or concatenated.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ParallelError {
    /// There is no stream to do the work.
    #[error("no contexts: work is divided over one stream at least")]
    NoContexts,
    /// Two contexts share the memory of a node, so there are no separate terms to sum.
    #[error("node `{node}` is one array on {first} and {second}, so it is no sum of terms")]
    SameMemory { node: String, first: String, second: String },
    /// The device cannot add values of this type, because the backend's code generator rejects it.
    #[error(
        "node `{node}`: sums over streams are computed on their device, but {backend} leaves this one to a fallback"
    )]
    Fallback { node: String, backend: String },
    /// The size of the first axis is not a multiple of the number of shards.
    #[error(
        "an array of sizes {dims:?} has no {shards} equal shards: its first axis does not divide by {shards}"
    )]
    Uneven { dims: Vec<usize>, shards: usize },
    /// There is no axis to divide or to concatenate along.
    #[error("{what} of rank 0 has no first axis")]
    NoAxis { what: String },
    /// There is no shard to concatenate.
    #[error("no shards to gather")]
    NoShards,
    /// A shard differs from the first one in type or in the size of another axis.
    #[error(
        "shard {at} is of type {found_type} and sizes {found:?}, but shard 0 of type {expected_type} and sizes {expected:?}: all but the first size must agree"
    )]
    ShardMismatch {
        at: usize,
        expected_type: DType,
        expected: Vec<usize>,
        found_type: DType,
        found: Vec<usize>,
    },
}
