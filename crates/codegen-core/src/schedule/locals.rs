//! Gives local nodes a defined content: zeros, unless the first statement that touches one overwrites all of it.

use std::collections::BTreeSet;

use lowered_ir::ir::{Block, NodeRef, Routine, Stmt};

use super::{access, is_local};

/// Inserts `zero` before the first top-level statement that touches a local node without overwriting it.
pub(super) fn initialize(routine: &mut Routine) {
    let mut seen: BTreeSet<NodeRef> = BTreeSet::new();
    let mut body = Block::with_capacity(routine.body.len());
    for stmt in std::mem::take(&mut routine.body) {
        for node in access::nodes(std::slice::from_ref(&stmt)) {
            let decl = routine.node(node);
            if seen.insert(node) && is_local(decl) && !access::overwrites(&stmt, node, decl) {
                body.push(Stmt::Zero { node });
            }
        }
        body.push(stmt);
    }
    routine.body = body;
}
