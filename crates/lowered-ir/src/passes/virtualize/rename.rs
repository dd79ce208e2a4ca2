//! Fresh identifiers for the loops and locals of copied statements.

use std::collections::BTreeMap;

use crate::ir::{Affine, Expr, Fresh, LocalId, LoopId, Stmt, Var, walk};

/// Gives every loop and local of the block a fresh identifier. Returns the new name of each loop.
pub(crate) fn rename(block: &mut [Stmt], fresh: &mut Fresh) -> BTreeMap<LoopId, LoopId> {
    let mut locals = BTreeMap::new();
    walk::stmts(block).for_each(|stmt| {
        if let Stmt::Declare { local, .. } = stmt {
            locals.insert(*local, fresh.local_id());
        }
    });
    rename_locals(block, &locals);
    let mut loops = BTreeMap::new();
    rename_loops(block, &mut loops, fresh);
    loops
}

fn rename_loops(block: &mut [Stmt], names: &mut BTreeMap<LoopId, LoopId>, fresh: &mut Fresh) {
    for stmt in block {
        match stmt {
            Stmt::For { var, hi, body, .. } => {
                *hi = hi.map(|clip| renamed(clip, names));
                let new = fresh.loop_id();
                names.insert(*var, new);
                *var = new;
                rename_loops(body, names, fresh);
            }
            other => walk::map_indices(std::slice::from_mut(other), &mut |index| renamed(index, names)),
        }
    }
}

/// The index with other loop variables.
pub(super) fn renamed(index: &Affine, names: &BTreeMap<LoopId, LoopId>) -> Affine {
    let mut new = index.clone();
    new.rename(|var| match var {
        Var::Loop(id) => Var::Loop(names.get(&id).copied().unwrap_or(id)),
        Var::Symbol(_) => var,
    });
    new
}

/// Replaces locals by others: their declarations, stores and reads.
pub(crate) fn rename_locals(block: &mut [Stmt], names: &BTreeMap<LocalId, LocalId>) {
    if names.is_empty() {
        return;
    }
    let new = |local: LocalId| names.get(&local).copied().unwrap_or(local);
    for stmt in block.iter_mut() {
        match stmt {
            Stmt::For { body, .. } => rename_locals(body, names),
            Stmt::Declare { local, .. } | Stmt::SetLocal { local, .. } => *local = new(*local),
            Stmt::Set { .. }
            | Stmt::SetDynamic { .. }
            | Stmt::Zero { .. }
            | Stmt::Comment(_)
            | Stmt::Log { .. } => {}
        }
        walk::map_own_parts(stmt, &mut |e| match e {
            Expr::GetLocal { local, index } => Expr::GetLocal { local: new(local), index },
            other => other,
        });
    }
}
