//! Values that every stream has a copy of.

use device_runtime::{Context, Error, MergeBufferUse, Stream};
use tnode::TensorNode;

use super::{
    error::ParallelError,
    tree_sum::{MergeBy, TreeSum},
};
use crate::backend::Backend;

/// Contexts on further streams, of any devices, each with its own copy of the nodes as they are in `context`.
///
/// What routines only read need not be among the nodes where the streams are of the context's device: they find it there. So
/// parameters are named here and training data is not.
///
/// # Errors
///
/// A node that is not in the context; want of memory.
pub fn replicate<'s>(
    context: &Context,
    nodes: &[TensorNode],
    streams: impl IntoIterator<Item = &'s Stream>,
) -> Result<Vec<Context>, Error> {
    let copy = |stream: &Stream| {
        nodes.iter().try_fold(Context::new(stream), |replica, node| replica.init_from_device(node, context))
    };
    streams.into_iter().map(copy).collect()
}

/// Schedules copying nodes from the first context to all others.
///
/// # Errors
///
/// A node without value; the device's refusal.
pub fn broadcast(contexts: &[Context], nodes: &[TensorNode]) -> Result<(), Error> {
    let Some((source, others)) = contexts.split_first() else { return Ok(()) };
    for context in others {
        for node in nodes {
            let _ = context.device_to_device(node, MergeBufferUse::No, source)?;
        }
    }
    Ok(())
}

/// Schedules replacing a node's values in every context by their sum over all contexts, which is the same bits in all of
/// them: those of [`merge_tree`](super::merge_tree()) for that number of streams. Waits for nothing.
///
/// ```
/// # use arrayjit::{Backend, HostArray, TensorNode, parallel::all_reduce};
/// let x = TensorNode::builder("x").dims([2]).build()?;
/// let backend = Backend::open("multicore")?;
/// let mut contexts = Vec::new();
/// for n in 0..3 {
///     contexts.push(backend.context()?.init_from_host(&x, &HostArray::from_slice(&[1f32, n as f32], [2])?)?);
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
/// A node that a context lacks, or that two of them share; the device's refusal.
pub fn all_reduce(backend: &Backend, contexts: &[Context], node: &TensorNode) -> Result<(), ParallelError> {
    let nodes = std::slice::from_ref(node);
    let sum = TreeSum::link(backend, contexts, nodes, MergeBy::Streaming)?;
    sum.merge(contexts.len())?;
    Ok(broadcast(contexts, nodes)?)
}
