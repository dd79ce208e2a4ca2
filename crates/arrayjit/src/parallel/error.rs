//! Why work was not divided over streams.

use assignments::builder::BuildError;

use crate::error::CompileError;

/// Why a sum over streams, or data-parallel work, was not linked.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ParallelError {
    /// There is no stream to do the work.
    #[error("no contexts: work is divided over one stream at least")]
    NoContexts,
    /// Two contexts share the memory of a node, so there are no separate terms to sum.
    #[error("node `{node}` is one array on {first} and {second}, so it is no sum of terms")]
    SameMemory {
        /// The name of the node.
        node: String,
        /// The name of the first stream.
        first: String,
        /// The name of the second stream.
        second: String,
    },
    /// The device cannot add values of this type, because the backend's code generator rejects it.
    #[error(
        "node `{node}`: sums over streams are computed on their device, but {backend} leaves this one to a fallback"
    )]
    Fallback {
        /// The name of the node.
        node: String,
        /// The name of the backend.
        backend: String,
    },
    /// The sizes of a node are not known yet.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The routine that adds does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// An error of the runtime, such as a node that a context lacks.
    #[error(transparent)]
    Run(#[from] device_runtime::RunError),
}
