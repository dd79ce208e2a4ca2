//! Initializes local nodes with zeros, unless the routine reads only elements that it has written.

use std::collections::BTreeSet;

use lowered_ir::ir::{Block, LoweredRoutine, NodeRef, Stmt};

use crate::analysis::access;
use crate::analysis::nodes::is_local;
use crate::analysis::uses::RoutineUses;

/// Inserts `zero` before the first top-level statement that accesses a local node, if a run may read an
/// element before writing it.
pub(crate) fn initialize_locals(routine: &mut LoweredRoutine, uses: &RoutineUses) {
    remove_empty_zeros(routine);
    let mut seen: BTreeSet<NodeRef> = BTreeSet::new();
    let mut body = Block::with_capacity(routine.body.len());
    for stmt in std::mem::take(&mut routine.body) {
        for node in access::nodes(std::slice::from_ref(&stmt)) {
            if seen.insert(node) && is_local(routine.node(node)) && uses.reads_from_before(node) {
                body.push(Stmt::Zero { node });
            }
        }
        body.push(stmt);
    }
    routine.body = body;
}

/// Removes `zero` of nodes without elements, which need no kernel.
fn remove_empty_zeros(routine: &mut LoweredRoutine) {
    let LoweredRoutine { nodes, body, .. } = routine;
    body.retain(|stmt| !matches!(stmt, Stmt::Zero { node } if nodes[node.index()].dims.contains(&0)));
}
