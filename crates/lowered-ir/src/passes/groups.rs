//! Groups: a local with the statements that compute it, as one movable thing.
//!
//! The group of a local declared in a block goes from its declaration to the last statement of the block that stores to
//! it. It is *pure* if everything in between only declares and stores to locals declared within the group: then it can be
//! moved, or dropped in favour of an equal one, as long as nothing it reads changes on the way.

use std::ops::RangeInclusive;

use crate::ir::{Block, Fresh, LocalId, Stmt};

use super::effects::Effects;
use super::virtualize::rename;

/// A pure group: its local and where it stands in its block.
pub(super) struct Group {
    pub(super) local: LocalId,
    pub(super) range: RangeInclusive<usize>,
    pub(super) effects: Effects,
}

/// The pure group that begins with the declaration at `at`, if there is one that stores something.
pub(super) fn group_at(block: &[Stmt], at: usize) -> Option<Group> {
    let Stmt::Declare { local, .. } = block.get(at)? else { return None };
    let stores = |stmt: &Stmt| Effects::of(std::slice::from_ref(stmt)).local_writes.contains(local);
    let last = at + block[at..].iter().rposition(stores)?;
    let effects = Effects::of(&block[at..=last]);
    let pure =
        effects.writes.is_empty() && !effects.logs && effects.local_writes.is_subset(&effects.declares);
    (pure && stays_inside(&block[at..=last], *local, &block[last + 1..])).then_some(Group {
        local: *local,
        range: at..=last,
        effects,
    })
}

/// Whether the rest of the block mentions none of the locals declared at the top of the group but its own.
fn stays_inside(group: &[Stmt], own: LocalId, rest: &[Stmt]) -> bool {
    let mut inner = group.iter().filter_map(|s| match s {
        Stmt::Declare { local, .. } if *local != own => Some(*local),
        _ => None,
    });
    let Some(first) = inner.next() else { return true };
    let rest = Effects::of(rest);
    let outside = |local: LocalId| !rest.local_reads.contains(&local) && !rest.local_writes.contains(&local);
    outside(first) && inner.all(outside)
}

impl Group {
    /// The statements with loops and locals renamed in order of appearance, so that equal groups are equal statements.
    pub(super) fn canonical(&self, block: &[Stmt]) -> Block {
        let mut stmts = block[self.range.clone()].to_vec();
        // Far from any identifier in use.
        rename(&mut stmts, &mut Fresh::starting_at(1 << 30));
        stmts
    }
}
