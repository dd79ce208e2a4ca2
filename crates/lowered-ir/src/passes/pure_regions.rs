//! Groups: a local with the statements that compute it, as one movable thing.
//!
//! The group of a local declared in a block goes from its declaration to the last statement of the block that
//! stores to it. It is *pure* if everything in between only declares and stores to locals declared within the
//! group: then it can be moved, or dropped in favour of an equal one, as long as nothing it reads changes on
//! the way.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use crate::ir::{Block, Fresh, LocalId, Stmt};

use super::effects::Effects;
use super::virtualize::rename;

/// Groups are no longer than this: what is computed in so many steps is found in parts.
const MAX_LENGTH: usize = 256;

/// A pure group: its local and where it stands in its block.
pub(super) struct PureRegion {
    pub(super) local: LocalId,
    pub(super) range: RangeInclusive<usize>,
    pub(super) effects: Effects,
}

/// Where a block stores to each local and where it mentions it: groups are looked up, not searched for.
pub(super) struct RegionIndex {
    last_store: HashMap<LocalId, usize>,
    last_mention: HashMap<LocalId, usize>,
}

impl RegionIndex {
    /// Those of a block with these effects, statement by statement.
    pub(super) fn of<'a>(effects: impl Iterator<Item = &'a Effects>) -> RegionIndex {
        let mut places = RegionIndex { last_store: HashMap::new(), last_mention: HashMap::new() };
        for (at, effects) in effects.enumerate() {
            places.last_store.extend(effects.local_writes.iter().map(|&local| (local, at)));
            let mentioned = effects.local_reads.iter().chain(&effects.local_writes);
            places.last_mention.extend(mentioned.map(|&local| (local, at)));
        }
        places
    }

    /// The positions of the group that begins with the declaration at `at`, if that stores something.
    fn range(&self, block: &[Stmt], at: usize) -> Option<(LocalId, RangeInclusive<usize>)> {
        let Stmt::Declare { local, .. } = block.get(at)? else { return None };
        let last = *self.last_store.get(local)?;
        (last >= at && last - at < MAX_LENGTH).then_some((*local, at..=last))
    }

    /// The pure group that begins with the declaration at `at`, if there is one that stores something;
    /// `effects` are those of the statements in a range.
    pub(super) fn region_at(
        &self,
        block: &[Stmt],
        at: usize,
        effects: impl FnOnce(RangeInclusive<usize>) -> Effects,
    ) -> Option<PureRegion> {
        let (local, range) = self.range(block, at)?;
        let effects = effects(range.clone());
        let pure =
            effects.writes.is_empty() && !effects.logs && effects.local_writes.is_subset(&effects.declares);
        (pure && self.stays_inside(&block[range.clone()], local, *range.end())).then_some(PureRegion {
            local,
            range,
            effects,
        })
    }

    /// Whether nothing after the group mentions the locals declared at the top of it but its own.
    fn stays_inside(&self, group: &[Stmt], own: LocalId, last: usize) -> bool {
        group.iter().all(|stmt| match stmt {
            Stmt::Declare { local, .. } if *local != own => {
                self.last_mention.get(local).is_none_or(|&mention| mention <= last)
            }
            _ => true,
        })
    }
}

/// The statements with loops and locals renamed in order of appearance, so that equal groups are equal
/// statements.
pub(super) fn canonical(group: &[Stmt]) -> Block {
    let mut stmts = group.to_vec();
    // Far from any identifier in use.
    rename(&mut stmts, &mut Fresh::starting_at(1 << 30));
    stmts
}
