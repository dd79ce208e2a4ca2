//! The computation of a virtual node, extracted from the routine in a form that can be instantiated for any
//! element.
//!
//! A producer is a list of setter nests in program order. Each is a loop nest with one index at which it
//! stores to the node; every other store is dropped. Stores at different indices within one nest become
//! separate setter nests, provided that they never store to the same element.

use std::collections::{BTreeMap, BTreeSet};

use tnode::DType;

use crate::ir::{Affine, Expr, IdSet, Indices, LocalId, LoopId, LoweredRoutine, NodeRef, Stmt, walk};
use crate::passes::cost;
use crate::passes::ranges::{LoopInfo, Ranges};
use crate::passes::solve::gcd;

use super::InlineRejection;
use super::body::IndexedBody;
use super::statement_position::{self, StatementPosition};

/// The computation of one node.
pub(super) struct Producer {
    /// The computed node.
    pub(super) node: NodeRef,
    /// The node's element type.
    pub(super) dtype: DType,
    /// The setter nests, in order. The node's elements count as zero before the first.
    pub(super) pieces: Vec<SetterNest>,
    /// The first and the last position in the body with a setter.
    pub(super) setters: (usize, usize),
    /// The nodes read, without the node itself.
    pub(super) inputs: IdSet<NodeRef>,
    /// The total size of the computed values, in nodes of expressions.
    pub(super) size: usize,
}

/// One top-level statement with setters, reduced to the computation of one index of the node.
pub(super) struct SetterNest {
    /// The position of the statement in the body.
    pub(super) top: usize,
    /// The loop nest.
    pub(super) stmt: Stmt,
    /// The element that it sets.
    pub(super) index: Indices,
    /// The loops around the first setter, outermost first. Loops whose variables occur in the index surround
    /// all setters.
    pub(super) loops: Vec<LoopId>,
    /// The position of each setter in the original statement.
    pub(super) setters: Vec<StatementPosition>,
}

/// Extracts the computation of `node` from the body.
pub(super) fn extract(
    routine: &LoweredRoutine,
    body: &IndexedBody,
    node: NodeRef,
    ranges: &Ranges,
) -> Result<Producer, InlineRejection> {
    let mut pieces = Vec::new();
    let tops: Vec<usize> = body.writers(node).collect();
    let (Some(&first), Some(&last)) = (tops.first(), tops.last()) else {
        return Err(InlineRejection::NoSetter);
    };
    for top in tops {
        match body.stmt(top) {
            Some(Stmt::Zero { .. }) => pieces.clear(),
            Some(stmt) => pieces.extend(split(top, stmt, node, ranges)?),
            None => {}
        }
    }
    let (mut inputs, mut size) = (IdSet::default(), 0);
    for piece in &pieces {
        let effects = super::Effects::of(std::slice::from_ref(&piece.stmt));
        inputs.extend(effects.reads.into_iter().filter(|&n| n != node));
        walk::values(std::slice::from_ref(&piece.stmt)).for_each(|value| size += cost::size(value));
    }
    let dtype = routine.node(node).dtype;
    Ok(Producer { node, dtype, pieces, setters: (first, last), inputs, size })
}

/// The setter nests of one statement.
fn split(
    top: usize,
    stmt: &Stmt,
    node: NodeRef,
    ranges: &Ranges,
) -> Result<Vec<SetterNest>, InlineRejection> {
    let mut setters: Vec<(Indices, Vec<StatementPosition>)> = Vec::new();
    let mut failure = None;
    let may_end_early = |var: &LoopId| ranges.get(*var).is_some_and(LoopInfo::may_end_early);
    statement_position::each(stmt, &mut |place, s| match s {
        Stmt::Set { node: n, .. } if *n == node && place.loops.iter().any(may_end_early) => {
            failure = Some(InlineRejection::EndedScan);
        }
        Stmt::Set { node: n, index, .. } if *n == node => {
            match setters.iter_mut().find(|(known, _)| known == index) {
                Some((_, places)) => places.push(place.clone()),
                None => setters.push((index.clone(), vec![place.clone()])),
            }
        }
        Stmt::SetDynamic { node: n, .. } if *n == node => failure = Some(InlineRejection::ComputedIndex),
        Stmt::Zero { node: n } if *n == node => failure = Some(InlineRejection::InconsistentSetters),
        _ => {}
    });
    if let Some(rejection) = failure {
        return Err(rejection);
    }
    let meet = |(at, (index, _)): (usize, &(Indices, _))| {
        setters[at + 1..].iter().any(|(other, _)| !apart(index, other, ranges))
    };
    if setters.iter().enumerate().any(meet) {
        return Err(InlineRejection::InconsistentSetters);
    }
    setters.into_iter().map(|(index, places)| piece(top, stmt, node, index, places)).collect()
}

/// Whether two stores never reach the same element, for any values of their variables.
///
/// It holds if in some dimension the difference of the indices, each with variables of its own, is never 0:
/// by its bounds, or because the greatest common divisor of the coefficients does not divide its constant.
fn apart(a: &Indices, b: &Indices, ranges: &Ranges) -> bool {
    a.iter().zip(b).any(|(a, b)| never_equal(a, b, ranges).unwrap_or(false))
}

fn never_equal(a: &Affine, b: &Affine, ranges: &Ranges) -> Option<bool> {
    let ((a_lo, a_hi), (b_lo, b_hi)) = (ranges.bounds(a)?, ranges.bounds(b)?);
    let terms = a.terms().iter().chain(b.terms());
    let g = terms.fold(0, |g, &(_, c)| gcd(g, c.unsigned_abs()));
    let apart = a.offset().checked_sub(b.offset())?.unsigned_abs();
    let divisible = if g == 0 { apart == 0 } else { apart.is_multiple_of(g) };
    Some(a_hi < b_lo || b_hi < a_lo || !divisible)
}

fn piece(
    top: usize,
    stmt: &Stmt,
    node: NodeRef,
    index: Indices,
    setters: Vec<StatementPosition>,
) -> Result<SetterNest, InlineRejection> {
    let stmt = project(stmt, node, &index).and_then(without_dead_locals).ok_or(InlineRejection::NoSetter)?;
    own_element_only(&stmt, node, &index)?;
    let loops = setters.first().map_or_else(Vec::new, |place| place.loops.clone());
    Ok(SetterNest { top, stmt, index, loops, setters })
}

/// The statement without other stores and without loops that become empty; `None` if nothing is left.
fn project(stmt: &Stmt, node: NodeRef, index: &Indices) -> Option<Stmt> {
    match stmt {
        Stmt::For { var, lo, hi, kind, body } => {
            let mut body: Vec<Stmt> = body.iter().filter_map(|s| project(s, node, index)).collect();
            // Later routines may need the computation, so it is kept, and mostly has one statement per loop.
            body.shrink_to_fit();
            let active = body.iter().any(|s| !matches!(s, Stmt::Declare { .. }));
            active.then(|| Stmt::For { var: *var, lo: *lo, hi: hi.clone(), kind: *kind, body })
        }
        Stmt::Set { node: n, index: i, .. } => (*n == node && i == index).then(|| stmt.clone()),
        Stmt::SetDynamic { .. } | Stmt::Zero { .. } | Stmt::Comment(_) | Stmt::Log { .. } => None,
        Stmt::Declare { .. } | Stmt::SetLocal { .. } => Some(stmt.clone()),
    }
}

/// The statement without stores to locals that its stores to nodes do not depend on.
fn without_dead_locals(stmt: Stmt) -> Option<Stmt> {
    if !mentions_locals(&stmt) {
        return Some(stmt);
    }
    let mut feeds: BTreeMap<LocalId, BTreeSet<LocalId>> = BTreeMap::new();
    let mut open = Vec::new();
    walk::stmts(std::slice::from_ref(&stmt)).for_each(|s| {
        let mut reads = super::Effects::default();
        s.values().for_each(|value| reads.read(value));
        match s {
            Stmt::SetLocal { local, .. } => feeds.entry(*local).or_default().extend(reads.local_reads),
            _ => open.extend(reads.local_reads),
        }
    });
    let mut live = BTreeSet::new();
    while let Some(local) = open.pop() {
        if live.insert(local) {
            open.extend(feeds.get(&local).into_iter().flatten());
        }
    }
    keep_locals(stmt, &live)
}

/// Whether the statement declares a local or stores to one.
fn mentions_locals(stmt: &Stmt) -> bool {
    walk::stmts(std::slice::from_ref(stmt)).any(|s| matches!(s, Stmt::Declare { .. } | Stmt::SetLocal { .. }))
}

fn keep_locals(stmt: Stmt, live: &BTreeSet<LocalId>) -> Option<Stmt> {
    match stmt {
        Stmt::For { var, lo, hi, kind, body } => {
            let body: Vec<Stmt> = body.into_iter().filter_map(|s| keep_locals(s, live)).collect();
            (!body.is_empty()).then_some(Stmt::For { var, lo, hi, kind, body })
        }
        Stmt::Declare { local, .. } | Stmt::SetLocal { local, .. } if !live.contains(&local) => None,
        other => Some(other),
    }
}

/// Checks that the computation of an element reads no other element of the node.
fn own_element_only(stmt: &Stmt, node: NodeRef, index: &Indices) -> Result<(), InlineRejection> {
    let mut found = Ok(());
    walk::parts_in(std::slice::from_ref(stmt)).for_each(|part| match part {
        Expr::Get { node: n, index: i } if *n == node && i != index => {
            found = Err(InlineRejection::Recurrence)
        }
        Expr::GetGuarded { node: n, .. } if *n == node => found = Err(InlineRejection::Recurrence),
        Expr::GetDynamic { node: n, .. } if *n == node => found = Err(InlineRejection::ComputedIndex),
        _ => {}
    });
    found
}
