//! Replicates, broadcasts and sums nodes that every stream has a copy of.

use device_runtime::{Context, MergeBufferUse, RunError, Stream};
use tnode::TensorNode;

use super::tree_sum::{MergeMethod, TreeSum};
use crate::{backend::Backend, error::Error};

/// Contexts on further streams, of any devices, each with its own copy of the given nodes as they are in
/// `context`.
///
/// On streams of the context's own device, nodes that routines only read need not be given: the new contexts
/// share them. So list parameters, and leave out training data.
///
/// # Errors
///
/// A node that is not in the context; a failed allocation.
pub fn replicate<'s>(
    context: &Context,
    nodes: &[TensorNode],
    streams: impl IntoIterator<Item = &'s Stream>,
) -> Result<Vec<Context>, RunError> {
    let copy = |stream: &Stream| {
        nodes.iter().try_fold(Context::new(stream), |replica, node| replica.init_from_device(node, context))
    };
    streams.into_iter().map(copy).collect()
}

/// Schedules copying nodes from the first context to all others.
///
/// # Errors
///
/// A node without value; a device error.
pub fn broadcast(contexts: &[Context], nodes: &[TensorNode]) -> Result<(), RunError> {
    let Some((source, others)) = contexts.split_first() else { return Ok(()) };
    for context in others {
        for node in nodes {
            let _ = context.device_to_device(node, MergeBufferUse::No, source)?;
        }
    }
    Ok(())
}

/// Schedules an all-reduce: every context's values of a node are replaced by their sum over all contexts. The
/// order of additions is that of [`merge_tree`](super::merge_tree()), so all contexts get the same bits. Does
/// not block.
///
/// ```
/// # use arrayjit::{Backend, HostArray, TensorNode, parallel::all_reduce};
/// let x = TensorNode::builder("x").dims([2]).build()?;
/// let backend = Backend::open("multicore")?;
/// let mut contexts = Vec::new();
/// for n in 0..3 {
///     let term = HostArray::from_slice(&[1f32, n as f32], [2])?;
///     contexts.push(backend.context()?.init_from_host(&x, &term)?);
/// }
/// all_reduce(&backend, &contexts, &x)?;
/// for context in &contexts {
///     assert_eq!(context.to_host(&x)?.values(), [3.0, 0.0 + 1.0 + 2.0]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// A node that a context lacks, or that two of them share; a device error.
pub fn all_reduce(backend: &Backend, contexts: &[Context], node: &TensorNode) -> Result<(), Error> {
    let nodes = std::slice::from_ref(node);
    let sum = TreeSum::link(backend, contexts, nodes, MergeMethod::Streaming)?;
    sum.merge(contexts.len())?;
    Ok(broadcast(contexts, nodes)?)
}
