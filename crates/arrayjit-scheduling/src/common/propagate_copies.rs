//! Copy propagation: statements read the original of a copy.
//!
//! `for … { T[i…] := S[i…] }; … T[e] …` = `… S[e] …`, if `T` is local and has the type and shape of `S`, the
//! nest copies every element, no other statement writes `T`, and no later one writes `S`. The copying nest
//! is removed. No bit changes.
//!
//! The optimizer keeps such a copy if its elements are read several times, because it counts reads before it
//! knows that a product with a constant 1, such as the gradient of a loss by itself, is a copy. A copy whose
//! axes are permuted stays: its elements have another order. So does one that guarded reads access, because
//! [`pad_nodes`](crate::cpu::pad_nodes) may give it margins.
//!
//! A node that is set to the same scalar local as an earlier one, `S[] := l; … T[] := l`, is a copy of it:
//! each call of a function that corrects a rate has the rate in a node of its own, and the optimizer computes
//! it once.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{ArrayRef, Expr, LocalId, LoweredRoutine, NodeRef, Stmt, walk};

use crate::analysis::access::{self, Effects};
use crate::analysis::nest;
use crate::analysis::nodes::is_local;

/// Removes copies among the top-level statements.
pub(crate) fn propagate_copies(routine: &mut LoweredRoutine) {
    let mut body = std::mem::take(&mut routine.body);
    let accesses = Accesses::of(&body);
    let mut originals: BTreeMap<NodeRef, NodeRef> = BTreeMap::new();
    let mut copies: BTreeSet<usize> = BTreeSet::new();
    let mut holders: BTreeMap<LocalId, NodeRef> = BTreeMap::new();
    for (at, stmt) in body.iter().enumerate() {
        let copied = copied(stmt, routine).or_else(|| accesses.holder(at, stmt, routine, &mut holders));
        if let Some((copy, source)) = copied
            && accesses.are_equal_after(at, copy, source)
        {
            // If the source is a copy, nothing writes its original later either.
            originals.insert(copy, originals.get(&source).copied().unwrap_or(source));
            copies.insert(at);
        }
    }
    if !copies.is_empty() {
        let kept = body.into_iter().enumerate().filter(|(at, _)| !copies.contains(at));
        body = kept.map(|(_, stmt)| stmt).collect();
        walk::move_elements(&mut body, &mut |array, index| match array {
            ArrayRef::Node(node) => Some((ArrayRef::Node(*originals.get(&node)?), index.clone())),
            ArrayRef::Local(_) => None,
        });
    }
    routine.body = body;
}

/// A local node and the node that all its elements are copied from, in the same order.
fn copied(stmt: &Stmt, routine: &LoweredRoutine) -> Option<(NodeRef, NodeRef)> {
    let (_, [Stmt::Set { node, index, value: Expr::Get { node: source, index: read } }]) = nest::chain(stmt)
    else {
        return None;
    };
    let (copy, original) = (routine.node(*node), routine.node(*source));
    let is_alike = (copy.dtype, &copy.dims) == (original.dtype, &original.dims) && index == read;
    (node != source && is_local(copy) && is_alike && access::overwrites(stmt, *node, copy))
        .then_some((*node, *source))
}

/// Where the top-level statements access each node.
#[derive(Default)]
struct Accesses {
    first: BTreeMap<NodeRef, usize>,
    last_write: BTreeMap<NodeRef, usize>,
    last_set: BTreeMap<LocalId, usize>,
    /// The nodes of guarded reads, of reads at computed indices, and of reads of the merge buffer.
    otherwise_read: BTreeSet<NodeRef>,
}

impl Accesses {
    fn of(body: &[Stmt]) -> Accesses {
        let mut accesses = Accesses::default();
        for (at, stmt) in body.iter().enumerate() {
            let effects = Effects::of(std::slice::from_ref(stmt));
            for &node in &effects.nodes {
                accesses.first.entry(node).or_insert(at);
            }
            accesses.last_write.extend(effects.written.iter().map(|&node| (node, at)));
            accesses.last_set.extend(effects.set.iter().map(|&local| (local, at)));
        }
        let reads = walk::parts_in(body).filter(|e| !matches!(e, Expr::Get { .. }));
        accesses.otherwise_read = reads
            .filter_map(Expr::array)
            .filter_map(|array| match array {
                ArrayRef::Node(node) => Some(node),
                ArrayRef::Local(_) => None,
            })
            .collect();
        accesses
    }

    /// A local node without axes that the statement at a position sets to a local, and the first node that
    /// `holders` has for this local: its only value is that of the local as well.
    fn holder(
        &self,
        at: usize,
        stmt: &Stmt,
        routine: &LoweredRoutine,
        holders: &mut BTreeMap<LocalId, NodeRef>,
    ) -> Option<(NodeRef, NodeRef)> {
        let Stmt::Set { node, index, value: Expr::GetLocal { local, index: of_local } } = stmt else {
            return None;
        };
        if !index.is_empty() || !of_local.is_empty() || self.last_set.get(local).is_some_and(|&set| set > at)
        {
            return None;
        }
        if let Some(&holder) = holders.get(local) {
            return (is_local(routine.node(*node)) && holder != *node).then_some((*node, holder));
        }
        if self.last_write.get(node) == Some(&at) {
            holders.insert(*local, *node);
        }
        None
    }

    /// Whether all other statements that access the node `copy` may read `source` instead, if the statement
    /// at a position makes it a copy.
    fn are_equal_after(&self, at: usize, copy: NodeRef, source: NodeRef) -> bool {
        let is_only_writer = self.first.get(&copy) == Some(&at) && self.last_write.get(&copy) == Some(&at);
        is_only_writer && !self.otherwise_read.contains(&copy) && self.is_unwritten_after(at, source)
    }

    fn is_unwritten_after(&self, at: usize, node: NodeRef) -> bool {
        self.last_write.get(&node).is_none_or(|&last| last < at)
    }
}
