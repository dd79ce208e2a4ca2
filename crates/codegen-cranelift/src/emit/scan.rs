//! Analyses of a kernel's statements that the emitter needs in advance.

use std::collections::BTreeSet;

use lowered_ir::ir::{
    Affine, ArrayRef, Expr, Indices, LocalId, LoopId, LoopKind, LoweredRoutine, Stmt, walk,
};
use lowered_ir::passes::cover::{Cuboid, WrittenPatches};
use lowered_ir::passes::ranges::LoopInfo;
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

/// Whether these statements store each element of a local before they read it. Recognizes nests of loops
/// around a single store.
pub(crate) fn overwrites_first(rest: &[Stmt], local: LocalId, dims: &[usize]) -> bool {
    let whole: Cuboid = dims.iter().map(|&dim| (0, dim as i64)).collect();
    let mut written = WrittenPatches::default();
    for stmt in rest.iter().filter(|stmt| mentions(stmt, local)) {
        if !only_stores(stmt, local, &mut written) {
            return false;
        }
        if written.covers_box(&whole) {
            return true;
        }
    }
    true
}

/// Whether a nest of loops has exactly one statement that accesses the local, a store that does not read it.
/// Adds the stored elements to `written`.
fn only_stores(mut stmt: &Stmt, local: LocalId, written: &mut WrittenPatches) -> bool {
    let mut loops = Vec::new();
    while let Stmt::For { var, lo, hi, kind, body } = stmt
        && hi.is_constant()
    {
        let mut mentioning = body.iter().filter(|stmt| mentions(stmt, local));
        let (Some(only), None) = (mentioning.next(), mentioning.next()) else { return false };
        loops.push((*var, LoopInfo::new(*lo, hi, *kind, &[])));
        stmt = only;
    }
    let Stmt::SetLocal { local: set, index, value } = stmt else { return false };
    let reads = walk::parts(value).any(|e| matches!(e, Expr::GetLocal { local: read, .. } if *read == local));
    let mark = written.mark();
    written.store(index);
    loops.iter().rev().for_each(|(var, info)| written.leave(mark, *var, Some(info)));
    *set == local && !reads
}

fn mentions(stmt: &Stmt, local: LocalId) -> bool {
    let (block, local) = (std::slice::from_ref(stmt), Some(ArrayRef::Local(local)));
    walk::stmts(block).any(|stmt| stmt.array() == local) || walk::parts_in(block).any(|e| e.array() == local)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the kernel's first statement declares a local of eight elements that the statements after it
    /// store before they read it.
    fn overwrites(rest: &str) -> bool {
        let source = format!(
            "routine @t strict {{\nnode %0 \"x\" f32[8] on_device\ndeclare l0 f32[8] stack\n{rest}\n}}\n"
        );
        let routine = lowered_ir::text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
        overwrites_first(&routine.body[1..], LocalId(0), &[8])
    }

    const READ: &str = "for i8 in 0..8 { %0[i8] := l0[i8] }";

    #[test]
    fn strips_of_a_local_need_no_zeros() {
        let strips = |more: &str| {
            format!(
                "for i0 in 0..2 {{ for i1 in 0..3 vector {{ l0[3*i0 + i1] := %0[i1] }} }}\n{more}\n{READ}"
            )
        };
        assert!(overwrites(&strips("for i2 in 0..2 vector { l0[i2 + 6] := %0[i2] }")));
        assert!(!overwrites(&strips("for i2 in 0..1 { l0[i2 + 6] := %0[i2] }")));
        assert!(!overwrites(&strips("l0[7] := l0[6]")));
    }

    #[test]
    fn locals_that_are_read_first_need_zeros() {
        assert!(!overwrites(READ));
        assert!(!overwrites("for i0 in 0..8 { l0[i0] := l0[i0] + %0[i0] }"));
        assert!(!overwrites(&format!("for i0 in 0..4 {{ l0[2*i0] := %0[i0] }}\n{READ}")));
        assert!(overwrites(&format!("for i0 in 0..8 {{ l0[i0] := %0[i0] }}\n{READ}")));
        assert!(overwrites("l0[3] := %0[3]"));
    }
}
