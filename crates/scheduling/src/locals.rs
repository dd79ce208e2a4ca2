//! Gives local nodes a defined content: zeros, unless only what the routine has written is ever read.

use std::collections::BTreeSet;

use lowered_ir::ir::{Block, NodeRef, Routine, Stmt};

use crate::analysis::uses::Whole;
use crate::is_local;
use codegen_core::access;

/// Inserts `zero` before the first top-level statement that touches a local node of which something may be read before it is written.
pub(crate) fn initialize(routine: &mut Routine, whole: &Whole) {
    let mut seen: BTreeSet<NodeRef> = BTreeSet::new();
    let mut body = Block::with_capacity(routine.body.len());
    for stmt in std::mem::take(&mut routine.body) {
        for node in access::nodes(std::slice::from_ref(&stmt)) {
            if seen.insert(node) && is_local(routine.node(node)) && whole.reads_from_before(node) {
                body.push(Stmt::Zero { node });
            }
        }
        body.push(stmt);
    }
    routine.body = body;
}
