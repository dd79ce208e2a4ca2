//! Moves small local nodes that only one kernel uses into its scratch memory.
//!
//! The node must be local, all accesses must be in one kernel, threads must not share that kernel (each would
//! have a copy), and no read may be guarded.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{
    Affine, Block, Expr, Fresh, Indices, LocalId, LoopKind, NodeDecl, NodeRef, Routine, Space, Stmt, walk,
};
use tnode::Scalar;

use crate::analysis::access;
use crate::analysis::nodes::is_local;
use crate::analysis::nodes::node_bytes;

/// Moves the nodes of each group that fit into `limit` bytes.
pub(crate) fn move_to_stack(groups: &mut [Block], routine: &Routine, limit: usize) {
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
                move_node_to_stack(group, node, decl, &mut fresh);
            }
        }
    }
}

/// The only group that accesses each node, if there is only one.
fn owners(groups: &[Block]) -> BTreeMap<NodeRef, Option<usize>> {
    let mut owners = BTreeMap::new();
    for (at, group) in groups.iter().enumerate() {
        for node in access::nodes(group) {
            owners.entry(node).and_modify(|owner| *owner = None).or_insert(Some(at));
        }
    }
    owners
}

/// Selects the nodes that may move. Only this group accesses `nodes`.
fn candidates(group: &[Stmt], mut nodes: Vec<NodeRef>) -> Vec<NodeRef> {
    if nodes.is_empty() || matches!(group, [Stmt::For { kind: LoopKind::Parallel, .. }]) {
        return Vec::new();
    }
    let indirectly = read_indirectly(group);
    nodes.retain(|node| !indirectly.contains(node));
    nodes
}

/// The nodes with guarded reads or computed indices. Locals have neither.
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

fn move_node_to_stack(group: &mut Block, node: NodeRef, decl: &NodeDecl, fresh: &mut Fresh) {
    let local = fresh.local_id();
    // A declared local is zero, so a leading `zero` statement is dropped.
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
