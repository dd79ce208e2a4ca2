//! Scalar expansion: top-level locals become local nodes, so that each nest that uses one can be a kernel.

use std::collections::BTreeMap;

use lowered_ir::ir::{Block, Expr, LocalId, NodeDecl, NodeRef, Routine, Stmt, walk};
use tnode::{MemoryMode, ModeState, Reason};

/// Replaces every top-level local by a node that lives for one run.
pub(crate) fn expand_scalars(routine: &mut Routine) {
    let mut body = std::mem::take(&mut routine.body);
    let mut expanded: BTreeMap<LocalId, NodeRef> = BTreeMap::new();
    body.retain(|stmt| {
        let Stmt::Declare { local, dtype, dims, .. } = stmt else { return true };
        expanded.insert(*local, NodeRef(routine.nodes.len() as u32));
        let mode = ModeState::decided(MemoryMode::Local, Reason::new("shared by kernels"));
        routine.nodes.push(NodeDecl { name: local.to_string(), dtype: *dtype, dims: dims.clone(), mode });
        false
    });
    replace(&mut body, &expanded);
    routine.body = body;
}

fn replace(block: &mut Block, expanded: &BTreeMap<LocalId, NodeRef>) {
    for stmt in block.iter_mut() {
        walk::map_own_values(stmt, &mut |value| walk::map_expr(value, &mut |e| read(e, expanded)));
        match stmt {
            Stmt::For { body, .. } => replace(body, expanded),
            Stmt::SetLocal { local, index, value } => {
                if let Some(&node) = expanded.get(local) {
                    let (index, value) = (std::mem::take(index), value.clone());
                    *stmt = Stmt::Set { node, index, value };
                }
            }
            _ => {}
        }
    }
}

fn read(expr: Expr, expanded: &BTreeMap<LocalId, NodeRef>) -> Expr {
    match expr {
        Expr::GetLocal { local, index } => match expanded.get(&local) {
            Some(&node) => Expr::Get { node, index },
            None => Expr::GetLocal { local, index },
        },
        other => other,
    }
}
