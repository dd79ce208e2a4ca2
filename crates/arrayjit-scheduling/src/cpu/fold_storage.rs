//! Storage folding: a local array reuses the storage of one whose elements are dead.
//!
//! `for i { … A[i] …; B[i] := v }; … B …` stores into `A` instead of `B`, for local nodes of one type and
//! shape, if no element of `A` is read after the element of `B` with the same index is written. There are
//! two passes. [`fold_storage`] folds nodes that only one top-level statement accesses: this halves the
//! memory that passes through the caches. [`fold_lifetimes`] folds a node that lives across statements into
//! one that the statement which first writes it is the last to read: this needs less memory for a run, and
//! changes nothing else, as far as kernels can tell.
//!
//! The proof goes from the outermost block inwards. In each block, the first statement that mentions `B` must
//! be the last one that mentions `A`. If this statement is a loop that mentions both, the same must hold in
//! its body, and no element may be accessed by two iterations, even if `A` and `B` are regarded as one array.
//! So the iterations of each such loop stay independent, and threads and lanes may share it as before.

use std::collections::BTreeMap;

use lowered_ir::ir::{Expr, IdMap, IdSet, LoweredRoutine, NodeRef, Stmt, walk};

use crate::analysis::access::{self, Effects};
use crate::analysis::nodes::{is_local, node_bytes};
use crate::common::split_triangles::store_elsewhere;
use codegen_core::dependence::{self, VariableRanges};

/// The most nodes of one statement that are compared.
const NODES: usize = 12;

/// Stores each local node in the first node of the same statement whose elements are dead by then.
pub(crate) fn fold_storage(routine: &mut LoweredRoutine) {
    let ranges = VariableRanges::of(routine);
    let owners = access::owners(&routine.body);
    let mut owned: BTreeMap<usize, Vec<NodeRef>> = BTreeMap::new();
    for (node, _) in routine.node_refs().filter(|(_, decl)| is_local(decl) && decl.dims.len() > 1) {
        if let Some(Some(at)) = owners.get(&node) {
            owned.entry(*at).or_default().push(node);
        }
    }
    for (at, nodes) in owned {
        merge(routine, at, nodes, &ranges);
    }
}

/// Folds the storage of nodes that only the statement at position `at` accesses.
fn merge(routine: &mut LoweredRoutine, at: usize, mut nodes: Vec<NodeRef>, ranges: &VariableRanges) {
    nodes.truncate(NODES);
    let others = without_index(&routine.body[at..=at]);
    nodes.retain(|node| !others.contains(node));
    for new in nodes.clone() {
        if let Some(old) = nodes.iter().copied().find(|&old| may_replace(routine, at, old, new, ranges)) {
            store_elsewhere(&mut routine.body[at..=at], |node| (node == new).then_some(old));
            nodes.retain(|&node| node != new);
        }
    }
}

/// Stores each local node that takes more than `limit` bytes in one that the first statement of its life is
/// the last to access. Smaller ones may become scratch memory of a kernel.
pub(crate) fn fold_lifetimes(routine: &mut LoweredRoutine, limit: usize) {
    let is_large = |node: NodeRef| is_local(routine.node(node)) && node_bytes(routine.node(node)) > limit;
    let mut lives: IdMap<NodeRef, (usize, usize)> = IdMap::default();
    for (at, stmt) in routine.body.iter().enumerate() {
        for touch in dependence::touches(std::slice::from_ref(stmt)) {
            lives.entry(touch.node).or_insert((at, at)).1 = at;
        }
    }
    lives.retain(|&node, _| is_large(node));
    if lives.len() < 2 {
        return;
    }
    let others = without_index(&routine.body);
    let mut starting: Vec<_> = lives.into_iter().filter(|(node, _)| !others.contains(node)).collect();
    starting.sort_unstable_by_key(|&(node, (start, _))| (start, node));
    let ranges = VariableRanges::of(routine);
    // The nodes that each statement is the last to access.
    let mut ending: BTreeMap<usize, Vec<NodeRef>> = BTreeMap::new();
    for (new, (start, end)) in starting {
        let dying = ending.entry(start).or_default();
        let found = dying.iter().position(|&old| may_replace(routine, start, old, new, &ranges));
        let old = found.map(|at| dying.remove(at));
        if let Some(old) = old {
            store_elsewhere(&mut routine.body[start..=end], |node| (node == new).then_some(old));
        }
        ending.entry(end).or_default().push(old.unwrap_or(new));
    }
}

/// Whether `new` may be stored where `old` is, if no statement before the one at position `at` accesses `new`
/// and none behind it `old`.
fn may_replace(
    routine: &LoweredRoutine,
    at: usize,
    old: NodeRef,
    new: NodeRef,
    ranges: &VariableRanges,
) -> bool {
    let (a, b) = (routine.node(old), routine.node(new));
    old != new
        && a.dtype == b.dtype
        && a.dims == b.dims
        && is_used_up(&routine.body[at..=at], old, new, ranges)
}

/// The nodes that a block also accesses in other ways than at a known index that exists.
fn without_index(block: &[Stmt]) -> IdSet<NodeRef> {
    let touches = dependence::touches(block).into_iter().filter(|touch| touch.index.is_none());
    let guarded = walk::parts_in(block).filter_map(|e| match e {
        Expr::GetGuarded { node, .. } => Some(*node),
        _ => None,
    });
    touches.map(|touch| touch.node).chain(guarded).collect()
}

/// Whether the block reads no element of `old` after it writes the element of `new` with the same index.
fn is_used_up(block: &[Stmt], old: NodeRef, new: NodeRef, ranges: &VariableRanges) -> bool {
    let effects = |stmt: &Stmt| Effects::of(std::slice::from_ref(stmt));
    let mentions = |stmt: &Stmt, node: NodeRef| effects(stmt).nodes.contains(&node);
    let Some(at) = block.iter().position(|stmt| mentions(stmt, new)) else { return false };
    if block[at + 1..].iter().any(|stmt| mentions(stmt, old)) {
        return false;
    }
    match &block[at] {
        stmt if !mentions(stmt, old) => effects(stmt).written.contains(&new),
        Stmt::For { var, body, .. } => {
            let mut all = dependence::touches(body);
            all.iter_mut().filter(|touch| touch.node == new).for_each(|touch| touch.node = old);
            dependence::separates_iterations(old, *var, &all, &walk::loops_in(body), ranges)
                && is_used_up(body, old, new, ranges)
        }
        Stmt::Set { node, .. } => *node == new,
        _ => false,
    }
}
