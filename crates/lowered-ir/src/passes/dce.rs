//! Dead code elimination: removes statements without effect on nodes that outlive the routine.
//!
//! The pass removes stores to locals that are never read, stores to nodes without memory beyond this routine
//! (virtual and local ones) that are never read in it, declarations of unused locals, loops that never
//! run, loops whose body became empty, and stores that are overwritten before they are read. An
//! array counts as never read if only stores that the pass removes read it.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::{ArrayRef, Block, Expr, LocalId, LoweredRoutine, NodeRef, Stmt, walk};

use super::overwritten::remove_overwritten;
use super::ranges::Ranges;

/// Removes statements without effect.
pub fn dce(routine: &mut LoweredRoutine) {
    remove_unread(routine);
    if remove_overwritten(routine) {
        remove_unread(routine);
    }
}

fn remove_unread(routine: &mut LoweredRoutine) {
    remove_idle_loops(routine);
    let body = std::mem::take(&mut routine.body);
    let outlives = |node: NodeRef| !routine.node(node).mode.known_not_materialized();
    let unread = UnreadArrays::of(&body, &outlives);
    routine.body = body.into_iter().filter_map(|stmt| unread.without(stmt)).collect();
}

/// Removes loops that never run, whatever the symbols and the variables of enclosing loops are.
pub(crate) fn remove_idle_loops(routine: &mut LoweredRoutine) {
    let ranges = Ranges::of(routine);
    routine.body = without_idle_loops(std::mem::take(&mut routine.body), &ranges);
}

fn without_idle_loops(block: Block, ranges: &Ranges) -> Block {
    let is_idle = |stmt: &Stmt| matches!(stmt, Stmt::For { lo, hi, .. } if ranges.greatest(hi) <= *lo);
    let kept = block.into_iter().filter(|stmt| !is_idle(stmt));
    let inside = |stmt| match stmt {
        Stmt::For { var, lo, hi, kind, body } => {
            Stmt::For { var, lo, hi, kind, body: without_idle_loops(body, ranges) }
        }
        other => other,
    };
    kept.map(inside).collect()
}

/// The arrays that no live statement reads.
struct UnreadArrays {
    arrays: BTreeSet<ArrayRef>,
    /// Locals that a live statement mentions.
    mentioned: BTreeSet<LocalId>,
}

impl UnreadArrays {
    fn of(body: &[Stmt], outlives: &impl Fn(NodeRef) -> bool) -> UnreadArrays {
        // The arrays that the stores into each array read, except the array itself: an array that only its
        // own stores read is dead.
        let mut stores: BTreeMap<ArrayRef, Vec<ArrayRef>> = BTreeMap::new();
        // How many statements read each array.
        let mut readers: BTreeMap<ArrayRef, usize> = BTreeMap::new();
        walk::stmts(body).for_each(|stmt| {
            let target = stmt.array();
            let reads: Vec<ArrayRef> =
                reads_of(stmt).into_iter().filter(|read| Some(*read) != target).collect();
            reads.iter().for_each(|&read| *readers.entry(read).or_default() += 1);
            if let Some(target) = target {
                stores.entry(target).or_default().extend(reads);
            }
        });
        let matters = |array: &ArrayRef| matches!(array, ArrayRef::Node(node) if outlives(*node));
        let is_read = |array: &ArrayRef| readers.get(array).is_some_and(|&count| count > 0);
        let mut open: Vec<ArrayRef> =
            stores.keys().filter(|array| !matters(array) && !is_read(array)).copied().collect();
        let mut arrays = BTreeSet::new();
        // Removing the stores into an array removes one reader of each array that they read.
        while let Some(array) = open.pop() {
            arrays.insert(array);
            for read in stores.remove(&array).into_iter().flatten() {
                let count = readers.entry(read).or_default();
                *count -= 1;
                if *count == 0 && !matters(&read) && stores.contains_key(&read) {
                    open.push(read);
                }
            }
        }
        let stored = stores.into_keys();
        let read = readers.into_iter().filter(|(_, count)| *count > 0).map(|(array, _)| array);
        let mentioned = stored.chain(read).filter_map(ArrayRef::local);
        UnreadArrays { mentioned: mentioned.collect(), arrays }
    }

    /// The statement without dead stores and declarations; `None` if nothing remains.
    fn without(&self, stmt: Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::For { var, lo, hi, kind, body } => {
                let body: Block = body.into_iter().filter_map(|s| self.without(s)).collect();
                let active = body.iter().any(|s| !matches!(s, Stmt::Comment(_) | Stmt::Declare { .. }));
                active.then_some(Stmt::For { var, lo, hi, kind, body })
            }
            Stmt::Declare { local, .. } if !self.mentioned.contains(&local) => None,
            other if other.array().is_some_and(|target| self.arrays.contains(&target)) => None,
            other => Some(other),
        }
    }
}

/// The arrays that the values of the statement itself read.
fn reads_of(stmt: &Stmt) -> BTreeSet<ArrayRef> {
    let condition = stmt.condition().map(ArrayRef::Node);
    stmt.parts().filter_map(Expr::array).chain(condition).collect()
}
