//! Assignments to nodes without values.
//!
//! Such an assignment has no loops, so nothing else shows later passes that the routine writes the node. A
//! `zero` statement at the beginning of the routine, before every read, shows this. The node may have
//! margins; the statement sets them to 0.

use std::collections::BTreeSet;

use super::Result;
use super::view::Views;
use crate::Assignments;
use lowered_ir::ir::{Block, NodeRef, Stmt};
use tnode::TensorNode;

/// The nodes that the program writes and that have a dimension of size 0 (without padding).
pub(super) fn written(assignments: &Assignments, views: &Views) -> Result<BTreeSet<TensorNode>> {
    let written = crate::all_steps(&assignments.steps).flat_map(crate::written);
    let mut empty = BTreeSet::new();
    for node in written.map(|node| views.home(node).0) {
        if node.dims_without_padding()?.contains(&0) {
            empty.insert(node);
        }
    }
    Ok(empty)
}

/// `zero` for each of the nodes, in order.
pub(super) fn zeros(empty: &BTreeSet<TensorNode>, node_ref: impl Fn(&TensorNode) -> NodeRef) -> Block {
    empty.iter().map(|node| Stmt::Zero { node: node_ref(node) }).collect()
}
