//! Assignments to nodes without elements.
//!
//! They have no loops, so nothing else in the routine tells that it writes the node. A `zero` statement does,
//! at the beginning, where it precedes every read.

use std::collections::BTreeSet;

use super::LowerError;
use super::view::Views;
use crate::assign::{self, Assignments};
use crate::ir::{Block, NodeRef, Stmt};
use tnode::TensorNode;

/// `zero` for every node without elements that the program writes, in order.
pub(super) fn zeros(
    assignments: &Assignments,
    views: &Views,
    node_ref: impl Fn(&TensorNode) -> NodeRef,
) -> Result<Block, LowerError> {
    let mut written = BTreeSet::new();
    assign::each_step(&assignments.steps, &mut |step| {
        written.extend(assign::written(step).into_iter().map(|node| views.home(node).0));
    });
    let mut zeros = Block::new();
    for node in written {
        if node.dims()?.contains(&0) {
            zeros.push(Stmt::Zero { node: node_ref(&node) });
        }
    }
    Ok(zeros)
}
