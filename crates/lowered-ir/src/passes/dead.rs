//! Dead code: what nobody reads, and loops that never run or do nothing.
//!
//! Removed are stores to locals that are never read, stores to nodes that have no memory beyond this routine and are never
//! read in it (virtual and local ones), declarations of locals that nothing mentions, loops with an empty constant range
//! and loops whose body became empty, and stores that are overwritten before they are read. Removal is repeated until
//! nothing changes, for the last reader of a value may itself be dead.

use std::collections::BTreeSet;

use crate::ir::{Expr, LocalId, NodeRef, Routine, Stmt, walk};

use super::effects::Effects;
use super::overwritten::remove_overwritten;

/// Removes statements without effect.
pub fn remove_dead(routine: &mut Routine) {
    while remove_once(routine) {}
    if remove_overwritten(routine) {
        while remove_once(routine) {}
    }
}

/// What is still of use.
struct Live {
    /// Nodes that outlive the routine or are read for something else than their own value.
    nodes: BTreeSet<NodeRef>,
    /// Locals read for something else than their own value.
    locals: BTreeSet<LocalId>,
    /// Locals that some statement mentions.
    mentioned: BTreeSet<LocalId>,
}

fn remove_once(routine: &mut Routine) -> bool {
    let live = live(routine);
    let mut changed = false;
    let body = std::mem::take(&mut routine.body);
    routine.body = body.into_iter().filter_map(|stmt| alive(stmt, &live, &mut changed)).collect();
    changed
}

fn live(routine: &Routine) -> Live {
    let outlives = routine.node_refs().filter(|(_, decl)| !decl.mode.known_not_materialized());
    let mut nodes: BTreeSet<NodeRef> = outlives.map(|(node, _)| node).collect();
    let mut locals = BTreeSet::new();
    walk::each_stmt(&routine.body, &mut |stmt| {
        let (own_node, own_local) = match stmt {
            Stmt::Set { node, .. } | Stmt::SetDynamic { node, .. } => (Some(*node), None),
            Stmt::SetLocal { local, .. } => (None, Some(*local)),
            _ => (None, None),
        };
        for value in stmt.values() {
            let reads = reads_of(value);
            nodes.extend(reads.reads.into_iter().filter(|n| Some(*n) != own_node));
            locals.extend(reads.local_reads.into_iter().filter(|l| Some(*l) != own_local));
        }
    });
    let effects = Effects::of(&routine.body);
    let mentioned = effects.local_reads.union(&effects.local_writes).copied().collect();
    Live { nodes, locals, mentioned }
}

fn reads_of(value: &Expr) -> Effects {
    let mut effects = Effects::default();
    effects.read(value);
    effects
}

fn alive(stmt: Stmt, live: &Live, changed: &mut bool) -> Option<Stmt> {
    let kept = match stmt {
        Stmt::For { lo, hi, .. } if hi.limit <= lo => None,
        Stmt::For { var, lo, hi, kind, body } => {
            let body: Vec<Stmt> = body.into_iter().filter_map(|s| alive(s, live, changed)).collect();
            let active = body.iter().any(|s| !matches!(s, Stmt::Comment(_) | Stmt::Declare { .. }));
            active.then_some(Stmt::For { var, lo, hi, kind, body })
        }
        Stmt::Set { node, .. } | Stmt::SetDynamic { node, .. } | Stmt::Zero { node }
            if !live.nodes.contains(&node) =>
        {
            None
        }
        Stmt::SetLocal { local, .. } if !live.locals.contains(&local) => None,
        Stmt::Declare { local, .. } if !live.mentioned.contains(&local) => None,
        other => Some(other),
    };
    *changed |= kept.is_none();
    kept
}
