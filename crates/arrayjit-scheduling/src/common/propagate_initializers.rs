//! Initializer propagation: an accumulation starts from a constant instead of reading memory that was just
//! filled with it.
//!
//! `T[…] := c; for … { … T[i] … ; T[i] := … } = for … { … c … ; T[i] := … }`, if nothing accesses `T` in
//! between, and the nest reads each element only before the one store into it, in the same iteration. No bit
//! changes, because the removed reads would return `c`.
//!
//! The fill is removed if the nest writes every element. It is also removed if `T` is local, loops of the
//! nest end at symbols, and later statements access only elements that the nest writes: those whose indices
//! are variables of loops with the same ends. A fill whose own loops end at symbols counts if the nest writes
//! the same elements; then it is removed.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{Affine, Bound, Expr, Indices, LoopId, LoweredRoutine, NodeRef, Stmt, Var, walk};
use tnode::Scalar;

use crate::analysis::access;
use crate::analysis::nest;
use crate::analysis::nodes::{is_local, reads_guarded};
use crate::analysis::uses::RoutineUses;
use codegen_core::dependence::{self, VariableRanges};

/// Applies the rewrite to the top-level statements.
pub(crate) fn propagate_initializers(routine: &mut LoweredRoutine, uses: &mut RoutineUses) {
    let ranges = VariableRanges::of(routine);
    let mut body = std::mem::take(&mut routine.body);
    let mut known: BTreeMap<NodeRef, Fill> = BTreeMap::new();
    let mut spent: BTreeSet<usize> = BTreeSet::new();
    for at in 0..body.len() {
        let [stmt, later @ ..] = &mut body[at..] else { break };
        for node in access::nodes(std::slice::from_ref(stmt)) {
            if let Some(Fill { at: fill, value, stored }) = known.remove(&node)
                && reads_then_writes(stmt, node, &ranges)
                && (stored.is_none() || stored == StoredElements::of(stmt, node))
            {
                start_from(stmt, node, value);
                if stored.is_some() || access::overwrites(stmt, node, routine.node(node)) {
                    spent.insert(fill);
                } else if is_local(routine.node(node))
                    && StoredElements::of(stmt, node).is_some_and(|stored| stored.contain_accesses(later))
                {
                    spent.insert(fill);
                    uses.writes_part(node);
                }
            }
        }
        if let Some((node, value)) = fill(stmt, routine) {
            let stored = fill_end(stmt, node, routine);
            known.insert(node, Fill { at, value, stored });
        }
    }
    let kept = body.into_iter().enumerate().filter(|(at, _)| !spent.contains(at));
    routine.body = kept.map(|(_, stmt)| stmt).collect();
}

/// A statement that fills elements of a node with a constant.
struct Fill {
    /// Its position.
    at: usize,
    value: Scalar,
    /// The elements, if they are not all.
    stored: Option<StoredElements>,
}

/// The elements that a fill stores, if they are not all elements of the node.
fn fill_end(stmt: &Stmt, node: NodeRef, routine: &LoweredRoutine) -> Option<StoredElements> {
    let is_whole = matches!(stmt, Stmt::Zero { .. }) || access::overwrites(stmt, node, routine.node(node));
    if is_whole { None } else { StoredElements::of(stmt, node) }
}

/// The node that a statement fills with a constant, and the constant.
fn fill(stmt: &Stmt, routine: &LoweredRoutine) -> Option<(NodeRef, Scalar)> {
    if let Stmt::Zero { node } = stmt {
        return Some((*node, Scalar::zero(routine.node(*node).dtype)));
    }
    let (loops, body) = nest::chain(stmt);
    let is_own = |index: &Indices| loops.iter().all(|l| index.iter().any(|at| at.mentions(*l)));
    match body {
        [Stmt::Set { node, index, value: Expr::Const(value) }]
            if access::overwrites(stmt, *node, routine.node(*node))
                || is_own(index) && StoredElements::of(stmt, *node).is_some() =>
        {
            Some((*node, *value))
        }
        _ => None,
    }
}

/// Whether every iteration reads only the element of the node that it stores afterwards, and no other
/// iteration accesses that element.
fn reads_then_writes(stmt: &Stmt, node: NodeRef, ranges: &VariableRanges) -> bool {
    let (loops, block) = nest::chain(stmt);
    let Some((at, index)) = store(block, node) else { return false };
    let touches =
        |block| dependence::touches(block).into_iter().filter(|t| t.node == node).collect::<Vec<_>>();
    let before = touches(&block[..=at]);
    before.iter().filter(|t| t.write).count() == 1
        && before.iter().all(|t| t.index == Some(index))
        && touches(&block[at + 1..]).is_empty()
        && access::injective(index, &loops, ranges)
        && !reads_guarded(block, node)
}

/// The first statement of the block, loops aside, that stores into the node.
fn store(block: &[Stmt], node: NodeRef) -> Option<(usize, &Indices)> {
    block.iter().enumerate().find_map(|(at, stmt)| match stmt {
        Stmt::Set { node: set, index, .. } if *set == node => Some((at, index)),
        _ => None,
    })
}

/// The elements of a node that a nest stores: along each axis, those below a bound of symbols.
#[derive(PartialEq)]
struct StoredElements {
    node: NodeRef,
    ends: Vec<Bound>,
}

impl StoredElements {
    /// The elements that a nest stores in iterations of their own ([`reads_then_writes`]).
    fn of(stmt: &Stmt, node: NodeRef) -> Option<StoredElements> {
        let loops = loop_ends(stmt);
        let (vars, block) = nest::chain(stmt);
        let (_, index) = store(block, node)?;
        // A loop of no iteration stores nothing, whatever the loops around it do.
        let runs = |var: &LoopId| loops.get(var).is_some_and(|end| end.constant() >= Some(1));
        if !vars.iter().all(|var| index.iter().any(|at| at.mentions(*var)) || runs(var)) {
            return None;
        }
        // An axis has its own loop, or the element 0 alone.
        let mut used = BTreeSet::new();
        let is_own = |at: &Affine| at.as_constant().map_or_else(|| used.insert(at.as_var()), |at| at == 0);
        let is_plain = index.iter().all(is_own);
        let ends = index.iter().map(|at| end_of(at, &loops).filter(|end| is_plain && end.is_of_symbols()));
        Some(StoredElements { node, ends: ends.collect::<Option<_>>()? })
    }

    /// Whether all accesses of the statements to the node are to these elements.
    fn contain_accesses(&self, stmts: &[Stmt]) -> bool {
        stmts.iter().all(|stmt| {
            let loops = loop_ends(stmt);
            let is_stored = |at: &Affine, end: &Bound| {
                end_of(at, &loops).is_some_and(|found| found == *end || end.constant() >= Some(found.limit))
            };
            let within = |index: &Indices| index.iter().zip(&self.ends).all(|(at, end)| is_stored(at, end));
            let mut touches = dependence::touches(std::slice::from_ref(stmt)).into_iter();
            touches.all(|touch| touch.node != self.node || touch.index.is_some_and(within))
        })
    }
}

/// The ends of the loops from 0 in a statement.
fn loop_ends(stmt: &Stmt) -> BTreeMap<LoopId, &Bound> {
    let end = |stmt| match stmt {
        &Stmt::For { var, lo: 0, ref hi, .. } => Some((var, hi)),
        _ => None,
    };
    walk::stmts(std::slice::from_ref(stmt)).filter_map(end).collect()
}

/// The end of the values of an index that is the variable of a loop, or a constant.
fn end_of(index: &Affine, loops: &BTreeMap<LoopId, &Bound>) -> Option<Bound> {
    match index.as_var() {
        Some(Var::Loop(var)) => loops.get(&var).copied().cloned(),
        Some(Var::Symbol(_)) => None,
        None => index.as_constant().map(|constant| Bound::from(constant + 1)),
    }
}

fn start_from(stmt: &mut Stmt, node: NodeRef, value: Scalar) {
    walk::map_parts(std::slice::from_mut(stmt), &mut |e| match e {
        Expr::Get { node: read, .. } if read == node => Expr::Const(value),
        other => other,
    });
}
