//! Moves small local nodes that only one kernel uses into its scratch memory.
//!
//! The node must be local, all accesses must be in one kernel, threads must not share that kernel (each would
//! have a copy), and no read may be guarded.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{
    Affine, ArrayRef, Block, Expr, Fresh, IdSet, Indices, LocalId, LoopKind, LoweredRoutine, NodeDecl,
    NodeRef, Space, Stmt, walk,
};
use lowered_ir::passes::access::analyze;
use tnode::Scalar;

use crate::analysis::access;
use crate::analysis::nodes::is_local;
use crate::analysis::nodes::node_bytes;
use crate::common::groups::Group;

/// Moves the nodes of each group that fit into `limit` bytes.
pub(crate) fn move_to_stack(groups: &mut [Group], routine: &LoweredRoutine, fresh: &mut Fresh, limit: usize) {
    let mut owned: Vec<Vec<NodeRef>> = vec![Vec::new(); groups.len()];
    for (node, owner) in owners(groups) {
        if let Some(at) = owner.filter(|_| is_local(routine.node(node))) {
            owned[at].push(node);
        }
    }
    for (group, nodes) in groups.iter_mut().zip(owned) {
        let mut left = limit;
        let mut moved = BTreeMap::new();
        for node in candidates(group, nodes, routine) {
            let decl = routine.node(node);
            if let Some(rest) = left.checked_sub(node_bytes(decl)) {
                left = rest;
                moved.insert(node, StackArray { local: fresh.local_id(), decl });
            }
        }
        if !moved.is_empty() {
            move_nodes_to_stack(&mut group.body, &moved, fresh);
        }
    }
}

/// A local that takes the place of a node.
struct StackArray<'a> {
    local: LocalId,
    decl: &'a NodeDecl,
}

/// The only group that accesses each node, if there is only one.
fn owners(groups: &[Group]) -> BTreeMap<NodeRef, Option<usize>> {
    let mut owners = BTreeMap::new();
    for (at, group) in groups.iter().enumerate() {
        for node in access::nodes(&group.body) {
            owners.entry(node).and_modify(|owner| *owner = None).or_insert(Some(at));
        }
    }
    owners
}

/// Selects the nodes that may move. Only this group accesses `nodes`. A group in a scan keeps those that one
/// step leaves to the next.
fn candidates(group: &Group, mut nodes: Vec<NodeRef>, routine: &LoweredRoutine) -> Vec<NodeRef> {
    if nodes.is_empty() || matches!(group.body[..], [Stmt::For { kind: LoopKind::Parallel, .. }]) {
        return Vec::new();
    }
    let indirectly = read_indirectly(&group.body);
    nodes.retain(|node| !indirectly.contains(node));
    if group.is_in_scan && !nodes.is_empty() {
        let facts = analyze(&LoweredRoutine { body: group.body.clone(), ..routine.clone() });
        nodes.retain(|&node| !facts[node].read_before_write);
    }
    nodes
}

/// The nodes with guarded reads or computed indices, and those that end loops. Locals do none of it.
fn read_indirectly(group: &[Stmt]) -> BTreeSet<NodeRef> {
    let mut found = BTreeSet::new();
    walk::parts_in(group).for_each(|e| {
        if let Expr::GetGuarded { node, .. } | Expr::GetDynamic { node, .. } = e {
            found.insert(*node);
        }
    });
    walk::stmts(group).for_each(|stmt| {
        found.extend(stmt.condition());
        if let Stmt::SetDynamic { node, .. } = stmt {
            found.insert(*node);
        }
    });
    found
}

fn move_nodes_to_stack(group: &mut Block, moved: &BTreeMap<NodeRef, StackArray<'_>>, fresh: &mut Fresh) {
    // A local may be declared as zeros, so a leading `zero` statement is dropped.
    let (mut met, mut zeroed) = (IdSet::default(), IdSet::default());
    group.retain(|stmt| match stmt {
        Stmt::Zero { node } if moved.contains_key(node) && met.insert(*node) => !zeroed.insert(*node),
        _ => {
            met.extend(&access::nodes(std::slice::from_ref(stmt)));
            true
        }
    });
    replace_zeros(group, moved, fresh);
    walk::move_elements(group, &mut |array, index| match array {
        ArrayRef::Node(node) => Some((ArrayRef::Local(moved.get(&node)?.local), index.clone())),
        ArrayRef::Local(_) => None,
    });
    let declare = |(node, array): (&NodeRef, &StackArray<'_>)| Stmt::Declare {
        local: array.local,
        dtype: array.decl.dtype,
        dims: array.decl.dims.clone(),
        // Every element of a local node is written before it is read.
        space: if zeroed.contains(node) { Space::Stack } else { Space::Scratch },
    };
    group.splice(0..0, moved.iter().rev().map(declare));
}

/// Replaces `zero` of nodes by stores to the locals in their place.
fn replace_zeros(block: &mut Block, moved: &BTreeMap<NodeRef, StackArray<'_>>, fresh: &mut Fresh) {
    for stmt in block.iter_mut() {
        match stmt {
            Stmt::For { body, .. } => replace_zeros(body, moved, fresh),
            Stmt::Zero { node } if let Some(array) = moved.get(&*node) => *stmt = zeros(array, fresh),
            _ => {}
        }
    }
}

/// Stores 0 into every element of a local.
fn zeros(array: &StackArray<'_>, fresh: &mut Fresh) -> Stmt {
    let StackArray { local, decl } = *array;
    let vars: Vec<_> = decl.dims.iter().map(|_| fresh.loop_id()).collect();
    let index: Indices = vars.iter().map(|&var| Affine::var(var)).collect();
    let set = Stmt::SetLocal { local, index, value: Expr::Const(Scalar::zero(decl.dtype)) };
    vars.iter()
        .zip(&decl.dims)
        .rev()
        .fold(set, |body, (&var, &dim)| Stmt::serial(var, dim as i64, vec![body]))
}
