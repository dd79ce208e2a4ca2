//! Register promotion: a local node becomes a scalar if each iteration of one nest has an element of its own.
//!
//! The node must be local, only one top-level statement may mention it, all its indices must be equal and
//! constant within an iteration of the nest's outer loops, and the first statement of the body that mentions
//! it must store into it.

use lowered_ir::ir::{ArrayRef, Indices, LoweredRoutine, NodeRef, Stmt, walk};

use crate::analysis::access;
use crate::analysis::nest::innermost;
use crate::analysis::nodes::is_guarded;
use crate::analysis::nodes::is_local;
use codegen_core::dependence;

/// Replaces local nodes that meet the conditions of this module by scalar locals.
pub(crate) fn promote_registers(routine: &mut LoweredRoutine) {
    let mut fresh = routine.fresh();
    let mut body = std::mem::take(&mut routine.body);
    let owners = access::owners(&body);
    for (at, stmt) in body.iter_mut().enumerate() {
        let Some(block) = innermost(stmt) else { continue };
        for node in access::nodes(block) {
            let decl = routine.node(node);
            if is_local(decl) && owners.get(&node) == Some(&Some(at)) && is_kept(block, node) {
                let local = fresh.local_id();
                walk::move_elements(block, &mut |array, _| {
                    (array == ArrayRef::Node(node)).then(|| (ArrayRef::Local(local), Indices::new()))
                });
                block.insert(0, Stmt::scalar(local, decl.dtype));
            }
        }
    }
    routine.body = body;
}

fn is_kept(block: &[Stmt], node: NodeRef) -> bool {
    let inner = walk::loops_in(block);
    let touches: Vec<_> = dependence::touches(block).into_iter().filter(|t| t.node == node).collect();
    let Some(index) = touches.first().and_then(|t| t.index) else { return false };
    let stores = block.iter().filter(|stmt| matches!(stmt, Stmt::Set { node: set, .. } if *set == node));
    touches[0].write
        && touches.iter().all(|t| t.index == Some(index))
        && touches.iter().filter(|t| t.write).count() == stores.count()
        && !inner.iter().any(|&var| index.iter().any(|i| i.mentions(var)))
        && !is_guarded(block, node)
}
