//! Repeats a producer's computation for one element: as an expression where it is one, else as statements on a fresh local.

use std::collections::BTreeMap;

use tnode::{DType, Scalar};

use crate::ir::{
    Affine, BinaryOp, Expr, Fresh, Guard, Indices, LocalId, LoopId, LoopKind, NodeRef, Range, Routine, Stmt,
    Var, walk,
};
use crate::passes::cost::{cost, depth};
use crate::passes::ranges::Ranges;
use crate::verify::proves_in_bounds;

use super::Refusal;
use super::producer::{Key, Piece, Producer};

/// One way that a statement reads the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Use {
    /// The element.
    pub(super) index: Indices,
    /// When it is read; `None` for always.
    pub(super) guard: Option<Guard>,
}

/// The computation for one use.
pub(super) struct Instance {
    /// What to run just before the using statement.
    pub(super) prelude: Vec<Stmt>,
    /// The element's value.
    pub(super) value: Expr,
}

/// The surroundings of an instantiation.
pub(super) struct Site<'a> {
    /// The ranges of the variables in scope.
    pub(super) ranges: &'a Ranges,
    /// Unused identifiers.
    pub(super) fresh: &'a mut Fresh,
    /// The routine being rewritten.
    pub(super) routine: &'a Routine,
}

/// Computes the element that `wanted` reads; `shared` says that the statement uses the value more than once.
pub(super) fn instantiate(
    producer: &Producer,
    wanted: &Use,
    shared: bool,
    site: &mut Site<'_>,
) -> Result<Instance, Refusal> {
    let local = site.fresh.local_id();
    let mut stmts = Vec::new();
    for piece in &producer.pieces {
        if applies(piece, wanted, site.ranges)? {
            stmts.extend(repeat(piece, producer.node, wanted, local, site)?);
        }
    }
    Ok(collapse(stmts, local, shared, site.routine.node(producer.node).dtype))
}

/// The value of a guarded read: the instance where the guard holds, else `otherwise`.
///
/// A value that is itself one read under the same guard takes over `otherwise`.
pub(super) fn select(guard: &Guard, value: Expr, otherwise: Expr) -> Expr {
    if let Expr::GetGuarded { guard: own, node, index, .. } = &value
        && own == guard
    {
        let (guard, index) = (guard.clone(), index.clone());
        return Expr::GetGuarded { guard, node: *node, index, otherwise: Box::new(otherwise) };
    }
    let holds = guard.iter().map(holds).reduce(|a, b| Expr::binary(BinaryOp::And, a, b));
    match holds {
        Some(holds) => Expr::select(holds, value, otherwise),
        None => value,
    }
}

fn holds(range: &Range) -> Expr {
    let limit = |x| Expr::Const(Scalar::from_i64(DType::I64, x));
    let index = || Expr::Index { index: range.index.clone(), dtype: DType::I64 };
    let above = Expr::binary(BinaryOp::Le, limit(range.lo), index());
    let below = Expr::binary(BinaryOp::Lt, index(), limit(range.hi));
    Expr::binary(BinaryOp::And, above, below)
}

/// Whether the piece is about the element; an error if that depends on the variables' values.
fn applies(piece: &Piece, wanted: &Use, ranges: &Ranges) -> Result<bool, Refusal> {
    let empty = Guard::new();
    let guard = wanted.guard.as_ref().unwrap_or(&empty);
    let mut inside = true;
    for (key, index) in piece.keys.iter().zip(&wanted.index) {
        let (lo, hi) = ranges.bounds_under(index, guard).ok_or(Refusal::PartialSetter)?;
        let (from, to) = match *key {
            Key::Fixed(at) => (at, at + 1),
            Key::Run(from, to) => (from, to),
        };
        match (from <= lo && hi < to, hi < from || to <= lo) {
            (true, _) => {}
            (false, true) => inside = false,
            (false, false) => return Err(Refusal::PartialSetter),
        }
    }
    Ok(inside)
}

/// The piece's statements for the element, storing to `local`.
fn repeat(
    piece: &Piece,
    node: NodeRef,
    wanted: &Use,
    local: LocalId,
    site: &mut Site<'_>,
) -> Result<Vec<Stmt>, Refusal> {
    let mut body = without_loops(vec![piece.stmt.clone()], piece);
    for (var, dim) in &piece.variables {
        walk::substitute(&mut body, *var, &wanted.index[*dim]);
    }
    if let Some(guard) = &wanted.guard {
        let moving: Vec<Var> = wanted.index.iter().flat_map(|i| i.terms().iter().map(|&(v, _)| v)).collect();
        let routine = site.routine;
        walk::map_values(&mut body, &mut |value| {
            walk::map_expr(value, &mut |e| guarded(e, node, guard, routine))
        });
        guardable(&body, &moving, site)?;
    }
    rename(&mut body, site.fresh);
    retarget(&mut body, node, local);
    Ok(body)
}

/// Splices the bodies of the loops over the node's dimensions into their places.
fn without_loops(block: Vec<Stmt>, piece: &Piece) -> Vec<Stmt> {
    let mut out = Vec::new();
    for stmt in block {
        match stmt {
            Stmt::For { var, body, .. } if piece.variables.contains_key(&var) => {
                out.extend(without_loops(body, piece));
            }
            Stmt::For { var, lo, hi, kind, body } => {
                let kind = if kind == LoopKind::Unrolled { kind } else { LoopKind::Serial };
                out.push(Stmt::For { var, lo, hi, kind, body: without_loops(body, piece) });
            }
            other => out.push(other),
        }
    }
    out
}

/// Gives every loop and local of the block a fresh identifier.
pub(in crate::passes) fn rename(block: &mut [Stmt], fresh: &mut Fresh) {
    let mut locals = BTreeMap::new();
    walk::each_stmt(block, &mut |stmt| {
        if let Stmt::Declare { local, .. } = stmt {
            locals.insert(*local, fresh.local_id());
        }
    });
    rename_locals(block, &locals);
    rename_loops(block, &mut BTreeMap::new(), fresh);
}

fn rename_loops(block: &mut [Stmt], names: &mut BTreeMap<LoopId, LoopId>, fresh: &mut Fresh) {
    for stmt in block {
        match stmt {
            Stmt::For { var, body, .. } => {
                let new = fresh.loop_id();
                names.insert(*var, new);
                *var = new;
                rename_loops(body, names, fresh);
            }
            other => walk::map_indices(std::slice::from_mut(other), &mut |index| renamed(index, names)),
        }
    }
}

fn renamed(index: &Affine, names: &BTreeMap<LoopId, LoopId>) -> Affine {
    let mut new = Affine::constant(index.offset());
    for &(var, coefficient) in index.terms() {
        let var = match var {
            Var::Loop(id) => Var::Loop(names.get(&id).copied().unwrap_or(id)),
            Var::Symbol(_) => var,
        };
        new.add_term(var, coefficient);
    }
    new
}

/// Replaces locals by others: their declarations, stores and reads.
pub(in crate::passes) fn rename_locals(block: &mut [Stmt], names: &BTreeMap<LocalId, LocalId>) {
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
        if !matches!(stmt, Stmt::For { .. }) {
            walk::map_values(std::slice::from_mut(stmt), &mut |value| {
                walk::map_expr(value, &mut |e| match e {
                    Expr::GetLocal { local, index } => Expr::GetLocal { local: new(local), index },
                    other => other,
                })
            });
        }
    }
}

/// Makes stores to and reads of the node stores to and reads of the local.
fn retarget(block: &mut [Stmt], node: NodeRef, local: LocalId) {
    for stmt in block.iter_mut() {
        match stmt {
            Stmt::For { body, .. } => retarget(body, node, local),
            Stmt::Set { value, .. } => {
                let value = std::mem::replace(value, Expr::local(local));
                *stmt = Stmt::set_scalar(local, read_local(value, node, local));
            }
            // A producer stores to its node and its locals alone.
            Stmt::SetLocal { .. } | Stmt::SetDynamic { .. } | Stmt::Log { .. } => {
                walk::map_own_values(stmt, &mut |value| read_local(value, node, local));
            }
            Stmt::Zero { .. } | Stmt::Declare { .. } | Stmt::Comment(_) => {}
        }
    }
}

fn read_local(value: Expr, node: NodeRef, local: LocalId) -> Expr {
    walk::map_expr(value, &mut |e| match e {
        Expr::Get { node: n, .. } if n == node => Expr::local(local),
        other => other,
    })
}

/// The read protected by `guard` too; what it gives where the guard fails does not matter.
fn guarded(expr: Expr, own_node: NodeRef, guard: &Guard, routine: &Routine) -> Expr {
    match expr {
        Expr::Get { node, index } if node != own_node => {
            let otherwise = Box::new(Expr::Const(Scalar::zero(routine.node(node).dtype)));
            Expr::GetGuarded { guard: guard.clone(), node, index, otherwise }
        }
        Expr::GetGuarded { guard: own, node, index, otherwise } => {
            let mut both = own.clone();
            both.extend(guard.iter().filter(|r| !own.contains(r)).cloned());
            Expr::GetGuarded { guard: both, node, index, otherwise }
        }
        other => other,
    }
}

/// Whether everything in the guarded body can be computed harmlessly, and provably so, where the guard fails.
fn guardable(body: &[Stmt], moving: &[Var], site: &Site<'_>) -> Result<(), Refusal> {
    let mut inner = site.ranges.clone();
    inner.add(body);
    let mut obstacle = None;
    walk::each_value(body, &mut |value| {
        walk::each_expr(value, &mut |part| match part {
            Expr::GetMerge { index, .. } if index.iter().any(|i| moving.iter().any(|&v| i.mentions(v))) => {
                obstacle = Some("a read of the merge buffer");
            }
            Expr::GetGuarded { guard, node, index, .. } => {
                let (routine, dims) = (site.routine, &site.routine.node(*node).dims);
                let bounds = |id| inner.of_var(Var::Loop(id));
                if !proves_in_bounds(routine, bounds, guard, index, dims) {
                    obstacle = Some("a read at an index that the guard does not bound");
                }
            }
            Expr::GetDynamic { .. } => obstacle = Some("a read at a computed index"),
            Expr::Index { index, dtype: DType::I32 } if !fits_i32(index, &inner) => {
                obstacle = Some("an embedded index of 32 bits");
            }
            _ => {}
        });
    });
    match obstacle {
        Some(what) => Err(Refusal::Unguardable { what }),
        None => Ok(()),
    }
}

fn fits_i32(index: &Affine, ranges: &Ranges) -> bool {
    let limits = i64::from(i32::MIN)..=i64::from(i32::MAX);
    ranges.bounds(index).is_some_and(|(lo, hi)| limits.contains(&lo) && limits.contains(&hi))
}

/// Deeper values are bound to a local, so that chains of virtual nodes do not pile up into ever deeper expressions.
const MAX_DEPTH: usize = 32;

/// Turns statements that compute `local` into the shortest instance.
///
/// Straight-line stores to the local fold into one expression; a last store that nothing else depends on becomes the
/// value. A value used more than once stays in the local unless repeating it costs next to nothing.
fn collapse(mut stmts: Vec<Stmt>, local: LocalId, shared: bool, dtype: DType) -> Instance {
    if let Some(value) = fold(&stmts, local, dtype)
        && (!shared || cost(&value) <= 1)
        && depth(&value) <= MAX_DEPTH
    {
        return Instance { prelude: Vec::new(), value };
    }
    if !shared
        && stores(&stmts, local) == 1
        && !reads(&stmts, local)
        && let Some(Stmt::SetLocal { local: last, value, .. }) = stmts.last()
        && *last == local
        && depth(value) <= MAX_DEPTH
    {
        let value = value.clone();
        stmts.pop();
        return Instance { prelude: stmts, value };
    }
    let mut prelude = vec![Stmt::scalar(local, dtype)];
    prelude.append(&mut stmts);
    Instance { prelude, value: Expr::local(local) }
}

/// The value after straight-line stores to the local, if folding them repeats no work.
fn fold(stmts: &[Stmt], local: LocalId, dtype: DType) -> Option<Expr> {
    let mut current = Expr::Const(Scalar::zero(dtype));
    for stmt in stmts {
        let Stmt::SetLocal { local: target, value, .. } = stmt else { return None };
        if *target != local {
            return None;
        }
        let mut uses = 0;
        walk::each_expr(value, &mut |part| {
            uses += usize::from(matches!(part, Expr::GetLocal { local: l, .. } if *l == local));
        });
        if uses > 1 && cost(&current) > 1 {
            return None;
        }
        current = walk::map_expr(value.clone(), &mut |e| match e {
            Expr::GetLocal { local: l, .. } if l == local => current.clone(),
            other => other,
        });
    }
    Some(current)
}

fn stores(stmts: &[Stmt], local: LocalId) -> usize {
    let mut count = 0;
    walk::each_stmt(stmts, &mut |stmt| {
        count += usize::from(matches!(stmt, Stmt::SetLocal { local: l, .. } if *l == local));
    });
    count
}

fn reads(stmts: &[Stmt], local: LocalId) -> bool {
    super::Effects::of(stmts).local_reads.contains(&local)
}
