//! Scalar expansion: top-level locals become local nodes, so that each nest that uses one can be a kernel.

use std::collections::BTreeMap;

use lowered_ir::ir::{LocalId, LoweredRoutine, NodeDecl, NodeRef, Stmt};
use tnode::{MemoryMode, ModeState, Reason};

use codegen_core::canonical::locals_as_nodes;

/// Replaces every top-level local by a node that lives for one run.
pub(crate) fn expand_scalars(routine: &mut LoweredRoutine) {
    expand(routine, &|_| true);
}

/// Replaces the top-level locals that `is_wanted` by nodes that live for one run.
pub(crate) fn expand(routine: &mut LoweredRoutine, is_wanted: &dyn Fn(LocalId) -> bool) {
    let mut body = std::mem::take(&mut routine.body);
    let mut expanded: BTreeMap<LocalId, NodeRef> = BTreeMap::new();
    body.retain(|stmt| {
        let Stmt::Declare { local, dtype, dims, .. } = stmt else { return true };
        if !is_wanted(*local) {
            return true;
        }
        expanded.insert(*local, NodeRef(routine.nodes.len() as u32));
        let mode = ModeState::decided(MemoryMode::Local, Reason::new("shared by kernels"));
        routine.nodes.push(NodeDecl { name: local.to_string(), dtype: *dtype, dims: dims.clone(), mode });
        false
    });
    locals_as_nodes(&mut body, &expanded);
    routine.body = body;
}
