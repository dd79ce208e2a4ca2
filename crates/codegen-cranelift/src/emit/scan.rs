//! Facts about a kernel's statements that the emitter needs before it reaches them.

use std::collections::{BTreeSet, HashMap};

use lowered_ir::ir::{Affine, Bound, Expr, Indices, LocalId, LoopId, LoopKind, Routine, Stmt, walk};
use tnode::DType;

use super::repr::LANES;

/// Register arrays that some vector loop, long enough to be computed in lanes, indexes with its variable.
pub(super) fn lane_indexed(body: &[Stmt]) -> BTreeSet<LocalId> {
    let mut found = BTreeSet::new();
    walk::each_stmt(body, &mut |stmt| {
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

/// For each node, whether no statement writes it.
pub(super) fn read_only(routine: &Routine) -> Vec<bool> {
    let mut read_only = vec![true; routine.nodes.len()];
    walk::each_stmt(&routine.body, &mut |stmt| {
        if let Stmt::Set { node, .. } | Stmt::SetDynamic { node, .. } | Stmt::Zero { node } = stmt {
            read_only[node.index()] = false;
        }
    });
    read_only
}

/// The locals that the block assigns, declared inside or not.
pub(crate) fn assigned(body: &[Stmt]) -> BTreeSet<LocalId> {
    let mut assigned = BTreeSet::new();
    walk::each_stmt(body, &mut |stmt| {
        if let Stmt::SetLocal { local, .. } = stmt {
            assigned.insert(*local);
        }
    });
    assigned
}

/// Whether the first of these statements that mentions the local stores into each of its elements and reads none: a nest
/// whose loops are its dimensions, in which one statement mentions it.
pub(crate) fn overwrites_first(rest: &[Stmt], local: LocalId, dims: &[usize]) -> bool {
    let mentions = |stmt: &&Stmt| {
        let mut found = false;
        each_local_access(std::slice::from_ref(stmt), &mut |used, _| found |= used == local);
        found
    };
    let Some(mut stmt) = rest.iter().find(mentions) else { return true };
    let mut loops = Vec::new();
    while let Stmt::For { var, lo: 0, hi: Bound { limit, symbol: None }, body, .. } = stmt {
        let mut mentioning = body.iter().filter(mentions);
        let (Some(only), None) = (mentioning.next(), mentioning.next()) else { return false };
        loops.push((*var, *limit));
        stmt = only;
    }
    let Stmt::SetLocal { local: set, index, value } = stmt else { return false };
    let mut reads = false;
    walk::each_expr(value, &mut |e| {
        reads |= matches!(e, Expr::GetLocal { local: read, .. } if *read == local)
    });
    let runs_over = |(i, &dim): (&Affine, &usize)| {
        loops.iter().any(|&(var, limit)| *i == Affine::var(var) && limit == dim as i64)
    };
    let is_permutation =
        loops.iter().all(|&(var, limit)| limit > 0 && index.iter().filter(|i| i.mentions(var)).count() <= 1);
    *set == local && !reads && is_permutation && index.iter().zip(dims).all(runs_over)
}

/// About how many instructions the block becomes.
pub(crate) fn size(body: &[Stmt]) -> usize {
    body.iter().fold(0, |sum, stmt| {
        let one = match stmt {
            Stmt::Set { .. } | Stmt::SetLocal { .. } | Stmt::SetDynamic { .. } | Stmt::Log { .. } => {
                let mut parts = 1;
                for value in stmt.values() {
                    walk::each_expr(value, &mut |_| parts += 1);
                }
                parts
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

/// The number of each statement that logs, as [`lowered_ir::log`] counts them. Loops may write a statement several times, so the
/// numbers go by the statements' addresses.
pub(super) fn lines_logged(body: &[Stmt]) -> HashMap<*const Stmt, usize> {
    let mut lines = HashMap::new();
    walk::each_stmt(body, &mut |stmt| {
        if let Stmt::Log { .. } = stmt {
            lines.insert(std::ptr::from_ref(stmt), lines.len());
        }
    });
    lines
}

/// Whether the block has loops that stay loops in the code.
pub(crate) fn has_loops(body: &[Stmt]) -> bool {
    let mut found = false;
    walk::each_stmt(body, &mut |stmt| {
        found |= match stmt {
            Stmt::For { kind, .. } => matches!(kind, LoopKind::Serial | LoopKind::Parallel),
            Stmt::Zero { .. } => true,
            Stmt::Set { .. }
            | Stmt::SetLocal { .. }
            | Stmt::SetDynamic { .. }
            | Stmt::Log { .. }
            | Stmt::Declare { .. }
            | Stmt::Comment(_) => false,
        };
    });
    found
}

/// Whether the elements of some local are picked by the variable, so that the loop can only be replicated.
///
/// Locals in memory count too; they are declared by whoever knows, and replicating is always right.
pub(crate) fn picks_locals(var: LoopId, body: &[Stmt]) -> bool {
    let mut picks = false;
    each_local_access(body, &mut |_, index| picks |= index.iter().any(|i| i.mentions(var)));
    picks
}

/// Whether the body of a vector loop can be computed in lanes: each lane has its own locals, none of them in memory, writes
/// other locals only at its own place, and holds no type without lanes.
pub(super) fn has_lanes(var: LoopId, body: &[Stmt], has_u32x4: impl Fn(&Expr) -> bool) -> bool {
    let mut private = BTreeSet::new();
    let mut fits = true;
    for stmt in body {
        match stmt {
            Stmt::Declare { local, dtype, space, .. } => {
                fits &= *space == lowered_ir::ir::Space::Register && *dtype != DType::U32x4;
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
    walk::each_value(body, &mut |value| {
        walk::each_expr(value, &mut |e| {
            if let Expr::GetDynamic { at, .. } = e {
                fits &= is_uniform(at, var, &private);
            }
        });
    });
    each_local_access(body, &mut |local, index| {
        fits &= !private.contains(&local) || index.iter().all(|i| !i.mentions(var));
    });
    fits
}

/// Whether an index is the same in all lanes: nothing in it moves with the loop, and no local of a lane is in it.
fn is_uniform(at: &Expr, var: LoopId, private: &BTreeSet<LocalId>) -> bool {
    let mut uniform = true;
    walk::each_expr(at, &mut |e| {
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

/// Every access to a local in the block.
pub(crate) fn each_local_access(body: &[Stmt], f: &mut impl FnMut(LocalId, &Indices)) {
    walk::each_stmt(body, &mut |stmt| {
        if let Stmt::SetLocal { local, index, .. } = stmt {
            f(*local, index);
        }
    });
    walk::each_value(body, &mut |value| {
        walk::each_expr(value, &mut |e| {
            if let Expr::GetLocal { local, index } = e {
                f(*local, index);
            }
        });
    });
}
