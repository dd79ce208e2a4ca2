//! Sums nodes with one term on each stream.
//!
//! There is a routine `g += g.merge` for each node and each stream that adds; a merge is a transfer into the
//! merge buffer of that stream and a run of the routine. Everything is a task of some stream, ordered by
//! events, and no function here blocks.

use assignments::{
    AccumOp, Assignments, Operand, Rhs,
    builder::{self, BuildError},
    indexing::{Projections, identity_projections},
};
use device_runtime::{Context, MergeBufferUse, RunError};
use tnode::TensorNode;

use super::merge_tree::{Merge, merge_tree};
use crate::{
    backend::Backend,
    error::{Error, ParallelError},
};

/// How a term is transferred to the stream that adds it. The sum has the same bits either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MergeMethod {
    /// Copied into the merge buffer. The source stream may overwrite the term as soon as the copy is done.
    Copy,
    /// Read in place. The source stream may overwrite the term only after the addition. Where the adding
    /// device cannot read the memory, the term is copied.
    #[default]
    Streaming,
}

/// Sums that are linked for the contexts of several streams.
#[derive(Clone, Debug)]
pub(super) struct TreeSum {
    contexts: Vec<Context>,
    nodes: Vec<SummedNode>,
    by: MergeMethod,
}

/// A node, and the routines that add to it by stream.
#[derive(Clone, Debug)]
struct SummedNode {
    node: TensorNode,
    merging: Vec<device_runtime::LinkedRoutine>,
}

impl TreeSum {
    /// Compiles and links routines that sum the nodes over the contexts.
    ///
    /// # Errors
    ///
    /// A node that a context lacks, or that two of them share; a kernel that the backend rejects.
    pub(super) fn link(
        backend: &Backend,
        contexts: &[Context],
        nodes: &[TensorNode],
        by: MergeMethod,
    ) -> Result<TreeSum, Error> {
        let summed = nodes.iter().map(|node| SummedNode::link(backend, contexts, node));
        Ok(TreeSum { contexts: contexts.to_vec(), nodes: summed.collect::<Result<_, _>>()?, by })
    }

    /// Schedules the sums over the first `streams` streams; the result is on stream 0, and the other streams
    /// have partial sums.
    ///
    /// # Errors
    ///
    /// A term without value; a device error.
    pub(super) fn merge(&self, streams: usize) -> Result<(), RunError> {
        for merge in merge_tree(streams.min(self.contexts.len())) {
            self.nodes.iter().try_for_each(|summed| self.merge_node(summed, merge))?;
        }
        Ok(())
    }

    fn merge_node(&self, summed: &SummedNode, Merge { from, to }: Merge) -> Result<(), RunError> {
        let (source, target, routine) = (&self.contexts[from], &self.contexts[to], &summed.merging[to]);
        let how = match self.by {
            MergeMethod::Copy => MergeBufferUse::Copy,
            MergeMethod::Streaming => MergeBufferUse::StreamingFor(routine, &[]),
        };
        let _ = target.device_to_device(&summed.node, how, source)?;
        match self.by {
            MergeMethod::Copy => routine.run(&[]).map(drop),
            MergeMethod::Streaming => Ok(()),
        }
    }
}

impl SummedNode {
    fn link(backend: &Backend, contexts: &[Context], node: &TensorNode) -> Result<SummedNode, Error> {
        check_apart(contexts, node)?;
        let code = backend.compile_assignments(&merging(node)?)?;
        // The upper half of the streams never adds.
        let adding = contexts.iter().take(contexts.len().div_ceil(2));
        let link = |context: &Context| {
            let (node, backend) = (node.name(), backend.name().to_owned());
            let whole = code.link(context)?.whole().cloned();
            whole.ok_or_else(|| Error::from(ParallelError::Fallback { node, backend }))
        };
        Ok(SummedNode { node: node.clone(), merging: adding.map(link).collect::<Result<_, _>>()? })
    }
}

/// `node += node.merge`.
fn merging(node: &TensorNode) -> Result<Assignments, Error> {
    let dims = node.dims_without_padding().map_err(BuildError::from)?;
    let whole = (dims.clone(), identity_projections(&dims));
    let projections = Projections::new(&dims, whole.clone(), vec![whole], "merge");
    let projections = projections.map_err(|source| BuildError::Index { node: node.name(), source })?;
    let term = Rhs::Copy(Operand::MergeBuffer(node.clone()));
    let assignments = builder::accumulate(false, AccumOp::Add, node, term, projections);
    Ok(assignments.named(format!("merging {}", node.name())))
}

/// Fails if two contexts share the memory of the node.
fn check_apart(contexts: &[Context], node: &TensorNode) -> Result<(), ParallelError> {
    let place =
        |context: &Context| context.location(node).map(|at| (context.stream().device().device_id(), at));
    for (at, context) in contexts.iter().enumerate() {
        let same =
            contexts[..at].iter().find(|other| place(other).is_some() && place(other) == place(context));
        if let Some(first) = same {
            let (first, second) = (first.stream().name(), context.stream().name());
            return Err(ParallelError::SameMemory { node: node.name(), first, second });
        }
    }
    Ok(())
}
