//! Lets a local array take the place of one that is used up.
//!
//! `for i { … A[i] …; B[i] := v }; … B …` becomes the same with `A` in the place of `B`, for local nodes of one type and size that only
//! this top-level statement touches, if nothing reads an element of `A` after the one of `B` with the same index is written. Half as much
//! memory passes through the caches, and as much is saved.
//!
//! The proof goes inwards: the first statement that mentions `B` is the last that mentions `A`; and if it is a loop that mentions both, its
//! iterations touch different elements of the two taken as one array, and the same holds for its body.

use std::collections::BTreeMap;

use lowered_ir::ir::{Expr, NodeRef, Routine, Stmt, walk};

use crate::is_local;
use codegen_core::access::{self, Effects, Ranges};

/// How many nodes of one statement are looked at.
const NODES: usize = 12;

/// Merges such nodes, the first in order that fits.
pub(crate) fn reuse(routine: &mut Routine) {
    let ranges = Ranges::of(routine);
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

/// Merges what it can of the nodes that one statement owns.
fn merge(routine: &mut Routine, at: usize, mut nodes: Vec<NodeRef>, ranges: &Ranges) {
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

/// Whether every mention of a node is of one element, whose index is known.
fn is_plain(block: &[Stmt], node: NodeRef) -> bool {
    let mut plain = access::touches(block).iter().all(|touch| touch.node != node || touch.index.is_some());
    walk::each_value(block, &mut |value| {
        walk::each_expr(value, &mut |e| {
            plain &= !matches!(e, Expr::GetGuarded { node: read, .. } if *read == node);
        });
    });
    plain
}

/// Whether nothing in the block reads an element of `old` once `new` has one there.
fn is_used_up(block: &[Stmt], old: NodeRef, new: NodeRef, ranges: &Ranges) -> bool {
    let effects = |stmt: &Stmt| Effects::of(std::slice::from_ref(stmt));
    let mentions = |stmt: &Stmt, node: NodeRef| effects(stmt).nodes.contains(&node);
    let Some(at) = block.iter().position(|stmt| mentions(stmt, new)) else { return false };
    if block[at + 1..].iter().any(|stmt| mentions(stmt, old)) {
        return false;
    }
    match &block[at] {
        stmt if !mentions(stmt, old) => effects(stmt).written.contains(&new),
        Stmt::For { var, body, .. } => {
            let mut all = access::touches(body);
            all.iter_mut().filter(|touch| touch.node == new).for_each(|touch| touch.node = old);
            access::tells_apart(old, *var, &all, &walk::loops_in(body), ranges)
                && is_used_up(body, old, new, ranges)
        }
        Stmt::Set { node, .. } => *node == new,
        _ => false,
    }
}

fn rename(block: &mut [Stmt], from: NodeRef, to: NodeRef) {
    for stmt in block.iter_mut() {
        if let Stmt::Set { node, .. } = stmt
            && *node == from
        {
            *node = to;
        }
        walk::map_own_values(stmt, &mut |value| {
            walk::map_expr(value, &mut |e| match e {
                Expr::Get { node, index } if node == from => Expr::Get { node: to, index },
                other => other,
            })
        });
        if let Stmt::For { body, .. } = stmt {
            rename(body, from, to);
        }
    }
}
