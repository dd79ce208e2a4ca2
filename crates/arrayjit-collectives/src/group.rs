//! The trait of groups of ranks.

use std::fmt;

use arrayjit::{Context, DType, Event, TensorNode};

use crate::error::{CollectiveError, Result};

/// Ranks that call the same operations in the same order. A rank is a process, or a thread of this one.
///
/// Each operation is a task of a stream: it starts after all earlier writes of its nodes, later uses of the
/// nodes wait for it, and the caller's thread does not wait. The nodes must have memory in the context. If an
/// operation fails on a rank, its nodes have no values there, and all later operations fail.
///
/// All ranks must call an operation with nodes of the same names, types and sizes.
///
/// The calls of several threads of a rank have no order that is the same on all ranks, so only one thread of
/// a rank calls operations of a group, or each thread those of a group of its own.
pub trait Group: Send + Sync {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// Reduces nodes over all ranks in place: every rank gets the same bits, which depend on the number of
    /// ranks and on nothing else. Reducing several nodes in one operation takes fewer messages.
    ///
    /// # Errors
    /// Nodes of different types, or of a type that cannot be reduced; a node that the context lacks.
    fn all_reduce(&self, context: &Context, nodes: &[TensorNode], by: Reduction) -> Result<Event>;

    /// Reduces a node over all ranks, and gives each rank the part of its number: `into` has the elements of
    /// one part, `from` those of as many parts as there are ranks. The bits are those of
    /// [`all_reduce`](Group::all_reduce). `from` keeps its values.
    ///
    /// # Errors
    /// Nodes of different types or of sizes that do not fit; a node that the context lacks.
    fn reduce_scatter(
        &self,
        context: &Context,
        from: &TensorNode,
        into: &TensorNode,
        by: Reduction,
    ) -> Result<Event>;

    /// Gives every rank the values of all ranks: `into` has as many parts as there are ranks, and part `r` is
    /// the node `from` of rank `r`.
    ///
    /// # Errors
    /// Nodes of sizes that do not fit; a node that the context lacks.
    fn all_gather(&self, context: &Context, from: &TensorNode, into: &TensorNode) -> Result<Event>;

    /// Reduces nodes over all ranks, each for one rank: afterwards the nodes of `parts[r]` have the reduced
    /// values on rank `r`, and no useful ones elsewhere. This is [`reduce_scatter`](Group::reduce_scatter) in
    /// place, of parts that need not be equal. Ranks beyond the parts get nothing.
    ///
    /// # Errors
    /// More parts than ranks; nodes of different types, or of a type that cannot be reduced; a node that the
    /// context lacks.
    fn reduce_scatter_nodes(
        &self,
        context: &Context,
        parts: &[Vec<TensorNode>],
        by: Reduction,
    ) -> Result<Event>;

    /// Gives the nodes of `parts[r]` the values of rank `r` on every rank. This is
    /// [`all_gather`](Group::all_gather) in place, of parts that need not be equal.
    ///
    /// # Errors
    /// More parts than ranks; a node that the context lacks.
    fn all_gather_nodes(&self, context: &Context, parts: &[Vec<TensorNode>]) -> Result<Event>;

    /// Gives every rank the values of rank `root`.
    ///
    /// # Errors
    /// A root that is no rank; a node that the context lacks.
    fn broadcast(&self, context: &Context, nodes: &[TensorNode], root: usize) -> Result<Event>;

    /// Waits until all ranks have called this function, and all earlier operations of this rank are done.
    ///
    /// # Errors
    /// A rank that does not come in time, or the failure of an earlier operation.
    fn barrier(&self) -> Result<()>;

    /// Checks that nodes have the same bits on all ranks, by a digest, and waits for the answer.
    ///
    /// # Errors
    /// [`CollectiveError::Diverged`] with the first rank that differs from rank 0, on all ranks alike; the
    /// errors of other operations.
    fn check_equal(&self, context: &Context, nodes: &[TensorNode]) -> Result<()>;

    /// The first failure of an operation.
    fn failure(&self) -> Option<CollectiveError>;
}

/// Nodes by their types, for operations on nodes of one type.
pub fn by_type(nodes: &[TensorNode]) -> Vec<Vec<TensorNode>> {
    let mut types: Vec<(DType, Vec<TensorNode>)> = Vec::new();
    for node in nodes {
        match types.iter_mut().find(|(dtype, _)| *dtype == node.dtype()) {
            Some((_, nodes)) => nodes.push(node.clone()),
            None => types.push((node.dtype(), vec![node.clone()])),
        }
    }
    types.into_iter().map(|(_, nodes)| nodes).collect()
}

/// How values are reduced over ranks: in the order of [`merge_tree`](arrayjit::parallel::merge_tree), like
/// the sums over the streams of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Sums. Integers wrap; sums of `f16` and `bf16` are rounded after each addition.
    #[default]
    Sum,
    /// The greatest value; NaN if a rank has NaN, except over NCCL, which defines no result then.
    Max,
    /// The least value; NaN if a rank has NaN, except over NCCL, which defines no result then.
    Min,
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reduction::Sum => "sum",
            Reduction::Max => "max",
            Reduction::Min => "min",
        })
    }
}
