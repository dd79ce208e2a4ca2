//! Analyses of a kernel's statements that the emitter needs in advance.

use std::collections::BTreeSet;

use lowered_ir::ir::{Affine, Expr, Indices, LocalId, LoopId, LoopKind, LoweredRoutine, Space, Stmt, walk};
use tnode::DType;

use super::repr::LANES;

/// Register locals that a vector loop of at least [`LANES`] iterations indexes with its variable.
pub(super) fn lane_indexed(body: &[Stmt]) -> BTreeSet<LocalId> {
    let mut found = BTreeSet::new();
    walk::stmts(body).for_each(|stmt| {
        let Stmt::For { var, kind: LoopKind::Vector, hi, body, .. } = stmt else { return };
        if hi.limit >= LANES as i64 {
            each_local_access(body, &mut |local, index| {
                if index.iter().any(|i| i.mentions(*var)) {
                    found.insert(local);
                }
            });
        }
    });
    found
}

/// Whether each node is only read.
pub(super) fn read_only(routine: &LoweredRoutine) -> Vec<bool> {
    let mut read_only = vec![true; routine.nodes.len()];
    walk::stmts(&routine.body).for_each(|stmt| {
        if let Stmt::Set { node, .. } | Stmt::SetDynamic { node, .. } | Stmt::Zero { node } = stmt {
            read_only[node.index()] = false;
        }
    });
    read_only
}

/// The locals that the block assigns, including the block's own.
pub(crate) fn assigned(body: &[Stmt]) -> BTreeSet<LocalId> {
    let mut assigned = BTreeSet::new();
    walk::stmts(body).for_each(|stmt| {
        if let Stmt::SetLocal { local, .. } = stmt {
            assigned.insert(*local);
        }
    });
    assigned
}

/// Estimates the number of instructions of a block.
pub(crate) fn size(body: &[Stmt]) -> usize {
    body.iter().fold(0, |sum, stmt| {
        let one = match stmt {
            Stmt::Set { .. } | Stmt::SetLocal { .. } | Stmt::SetDynamic { .. } | Stmt::Log { .. } => {
                1 + stmt.parts().count()
            }
            Stmt::For { kind: LoopKind::Vector, hi, body, .. } => {
                size(body).saturating_mul((hi.limit.max(0) as usize).div_ceil(LANES))
            }
            Stmt::For { kind: LoopKind::Unrolled, lo, hi, body, .. } => {
                size(body).saturating_mul((hi.limit - lo).max(0) as usize)
            }
            Stmt::For { body, .. } => size(body).saturating_add(4),
            Stmt::Zero { .. } => 16,
            Stmt::Declare { .. } | Stmt::Comment(_) => 0,
        };
        sum.saturating_add(one)
    })
}

/// Whether the block has loops that remain loops in the code.
pub(crate) fn has_loops(body: &[Stmt]) -> bool {
    walk::stmts(body).any(|stmt| match stmt {
        Stmt::For { kind, .. } => matches!(kind, LoopKind::Serial | LoopKind::Parallel),
        Stmt::Zero { .. } => true,
        Stmt::Set { .. }
        | Stmt::SetLocal { .. }
        | Stmt::SetDynamic { .. }
        | Stmt::Log { .. }
        | Stmt::Declare { .. }
        | Stmt::Comment(_) => false,
    })
}

/// Whether the variable indexes a local, so that the loop must be replicated if the local is in registers.
///
/// Locals in memory count too: distinguishing them would need their declarations, and replication is always
/// correct.
pub(crate) fn picks_locals(var: LoopId, body: &[Stmt]) -> bool {
    let mut picks = false;
    each_local_access(body, &mut |_, index| picks |= index.iter().any(|i| i.mentions(var)));
    picks
}

/// Whether the body of a vector loop can be computed in lanes. It can if its own locals are in registers, it
/// assigns other locals only at its own index, and it has no `u32x4`.
pub(super) fn has_lanes(var: LoopId, body: &[Stmt], has_u32x4: impl Fn(&Expr) -> bool) -> bool {
    let mut private = BTreeSet::new();
    let mut fits = true;
    for stmt in body {
        match stmt {
            Stmt::Declare { local, dtype, space, .. } => {
                fits &= *space == Space::Register && *dtype != DType::U32x4;
                private.insert(*local);
            }
            Stmt::SetLocal { local, index, value } => {
                fits &= private.contains(local) || index.iter().any(|i| i.mentions(var));
                fits &= !has_u32x4(value);
            }
            Stmt::Set { value, .. } => fits &= !has_u32x4(value),
            Stmt::SetDynamic { at, value, .. } => {
                fits &= is_uniform(at, var, &private) && !has_u32x4(value) && !has_u32x4(at);
            }
            Stmt::For { .. } | Stmt::Zero { .. } | Stmt::Log { .. } => fits = false,
            Stmt::Comment(_) => {}
        }
    }
    walk::parts_in(body).for_each(|e| {
        if let Expr::GetDynamic { at, .. } = e {
            fits &= is_uniform(at, var, &private);
        }
    });
    each_local_access(body, &mut |local, index| {
        fits &= !private.contains(&local) || index.iter().all(|i| !i.mentions(var));
    });
    fits
}

/// Whether an index is the same in all lanes: neither the loop's variable nor a local of the body occurs in
/// it.
fn is_uniform(at: &Expr, var: LoopId, private: &BTreeSet<LocalId>) -> bool {
    let mut uniform = true;
    walk::parts(at).for_each(|e| {
        let (indices, own): (&[Affine], bool) = match e {
            Expr::Index { index, .. } => (std::slice::from_ref(index), false),
            Expr::Get { index, .. } | Expr::GetMerge { index, .. } | Expr::GetDynamic { index, .. } => {
                (index, false)
            }
            Expr::GetGuarded { index, guard, .. } => {
                uniform &= guard.iter().all(|range| !range.index.mentions(var));
                (index, false)
            }
            Expr::GetLocal { local, index } => (index, private.contains(local)),
            Expr::Const(_)
            | Expr::Unary { .. }
            | Expr::Binary { .. }
            | Expr::Ternary { .. }
            | Expr::Convert { .. }
            | Expr::Bitcast { .. }
            | Expr::Lane { .. }
            | Expr::Lanes(_) => (&[], false),
        };
        uniform &= !own && indices.iter().all(|index| !index.mentions(var));
    });
    uniform
}

/// Calls `f` for every access to a local in the block.
pub(crate) fn each_local_access(body: &[Stmt], f: &mut impl FnMut(LocalId, &Indices)) {
    walk::stmts(body).for_each(|stmt| {
        if let Stmt::SetLocal { local, index, .. } = stmt {
            f(*local, index);
        }
    });
    walk::parts_in(body).for_each(|e| {
        if let Expr::GetLocal { local, index } = e {
            f(*local, index);
        }
    });
}
