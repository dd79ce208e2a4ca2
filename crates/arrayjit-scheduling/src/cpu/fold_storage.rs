//! Storage folding: a local array reuses the storage of one whose elements are dead.
//!
//! `for i { … A[i] …; B[i] := v }; … B …` stores into `A` instead of `B`, for local nodes of one type and
//! shape that only this top-level statement accesses, if no element of `A` is read after the element of `B`
//! with the same index is written. This halves the memory that passes through the caches.
//!
//! The proof goes from the outermost block inwards. In each block, the first statement that mentions `B` must
//! be the last one that mentions `A`. If this statement is a loop that mentions both, the same must hold in
//! its body, and no element may be accessed by two iterations, even if `A` and `B` are regarded as one array.

use std::collections::BTreeMap;

use lowered_ir::ir::{ArrayRef, LoweredRoutine, NodeRef, Stmt, walk};

use crate::analysis::access::{self, Effects};
use crate::analysis::nodes::{is_local, reads_guarded};
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
    nodes.retain(|&node| is_plain(&routine.body[at..=at], node));
    for new in nodes.clone() {
        let alike = |old: &NodeRef| {
            let (a, b) = (routine.node(*old), routine.node(new));
            *old != new && a.dtype == b.dtype && a.dims == b.dims
        };
        let block = &routine.body[at..=at];
        let fits = |old: &NodeRef| alike(old) && is_used_up(block, *old, new, ranges);
        if let Some(old) = nodes.iter().copied().find(fits) {
            rename(&mut routine.body[at..=at], new, old);
            nodes.retain(|&node| node != new);
        }
    }
}

/// Whether every access to a node has a known index.
fn is_plain(block: &[Stmt], node: NodeRef) -> bool {
    let has_index = |touch: &dependence::Touch<'_>| touch.node != node || touch.index.is_some();
    dependence::touches(block).iter().all(has_index) && !reads_guarded(block, node)
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

fn rename(block: &mut [Stmt], from: NodeRef, to: NodeRef) {
    walk::move_elements(block, &mut |array, index| {
        (array == ArrayRef::Node(from)).then(|| (ArrayRef::Node(to), index.clone()))
    });
}
