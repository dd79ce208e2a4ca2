//! Moves small local nodes that one kernel alone uses into that kernel's scratch memory.
//!
//! Condition: the node's mode is local, every place that touches it is in one kernel, that kernel is not split over
//! threads (each thread would have its own copy), and no read of it is guarded.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{
    Affine, Block, Expr, Fresh, Indices, LocalId, LoopKind, NodeDecl, NodeRef, Routine, Space, Stmt, walk,
};
use tnode::Scalar;

use crate::is_local;
use crate::temps::node_bytes;
use codegen_core::access;

/// Promotes what fits into `limit` bytes per kernel.
pub(crate) fn promote(groups: &mut [Block], routine: &Routine, limit: usize) {
    let mut fresh = routine.fresh();
    let mut owned: Vec<Vec<NodeRef>> = vec![Vec::new(); groups.len()];
    for (node, owner) in owners(groups) {
        if let Some(at) = owner.filter(|_| is_local(routine.node(node))) {
            owned[at].push(node);
        }
    }
    for (group, nodes) in groups.iter_mut().zip(owned) {
        let mut left = limit;
        for node in candidates(group, nodes) {
            let decl = routine.node(node);
            if let Some(rest) = left.checked_sub(node_bytes(decl)) {
                left = rest;
                promote_node(group, node, decl, &mut fresh);
            }
        }
    }
}

/// The only group that touches each node, if there is only one.
fn owners(groups: &[Block]) -> BTreeMap<NodeRef, Option<usize>> {
    let mut owners = BTreeMap::new();
    for (at, group) in groups.iter().enumerate() {
        for node in access::nodes(group) {
            owners.entry(node).and_modify(|owner| *owner = None).or_insert(Some(at));
        }
    }
    owners
}

/// Which of the local nodes that a group alone touches may move.
fn candidates(group: &[Stmt], mut nodes: Vec<NodeRef>) -> Vec<NodeRef> {
    if nodes.is_empty() || matches!(group, [Stmt::For { kind: LoopKind::Parallel, .. }]) {
        return Vec::new();
    }
    let indirectly = read_indirectly(group);
    nodes.retain(|node| !indirectly.contains(node));
    nodes
}

/// The nodes that a guarded read or a computed index reaches; locals have no such access.
fn read_indirectly(group: &[Stmt]) -> BTreeSet<NodeRef> {
    let mut found = BTreeSet::new();
    walk::each_value(group, &mut |value| {
        walk::each_expr(value, &mut |e| {
            if let Expr::GetGuarded { node, .. } | Expr::GetDynamic { node, .. } = e {
                found.insert(*node);
            }
        });
    });
    walk::each_stmt(group, &mut |stmt| {
        if let Stmt::SetDynamic { node, .. } = stmt {
            found.insert(*node);
        }
    });
    found
}

fn promote_node(group: &mut Block, node: NodeRef, decl: &NodeDecl, fresh: &mut Fresh) {
    let local = fresh.local_id();
    // A local is zero when declared, so zeroing it first is no work.
    let first = group.iter().position(|s| access::nodes(std::slice::from_ref(s)).contains(&node));
    if let Some(at) = first
        && matches!(group[at], Stmt::Zero { .. })
    {
        group.remove(at);
    }
    replace(group, node, local, decl, fresh);
    let declare = Stmt::Declare { local, dtype: decl.dtype, dims: decl.dims.clone(), space: Space::Stack };
    group.insert(0, declare);
}

fn replace(block: &mut Block, node: NodeRef, local: LocalId, decl: &NodeDecl, fresh: &mut Fresh) {
    for stmt in block.iter_mut() {
        match stmt {
            Stmt::For { body, .. } => replace(body, node, local, decl, fresh),
            Stmt::Zero { node: zeroed } if *zeroed == node => *stmt = zeros(local, decl, fresh),
            Stmt::Set { node: set, index, value } if *set == node => {
                let (index, value) = (std::mem::take(index), std::mem::replace(value, Expr::local(local)));
                *stmt = Stmt::SetLocal { local, index, value };
            }
            _ => {}
        }
    }
    walk::map_values(block, &mut |value| {
        walk::map_expr(value, &mut |e| match e {
            Expr::Get { node: read, index } if read == node => Expr::GetLocal { local, index },
            other => other,
        })
    });
}

/// Stores 0 into every element of a local.
fn zeros(local: LocalId, decl: &NodeDecl, fresh: &mut Fresh) -> Stmt {
    let vars: Vec<_> = decl.dims.iter().map(|_| fresh.loop_id()).collect();
    let index: Indices = vars.iter().map(|&var| Affine::var(var)).collect();
    let set = Stmt::SetLocal { local, index, value: Expr::Const(Scalar::zero(decl.dtype)) };
    vars.iter()
        .zip(&decl.dims)
        .rev()
        .fold(set, |body, (&var, &dim)| Stmt::serial(var, dim as i64, vec![body]))
}
