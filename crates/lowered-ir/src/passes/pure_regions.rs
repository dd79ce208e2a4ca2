//! Pure regions: a local with the statements that compute it, which can be moved as a unit.
//!
//! The region of a local declared in a block goes from its declaration to the last statement of the block
//! that stores to it. It is *pure* if all statements in it only declare locals and store to locals declared
//! within the region. A pure region can be moved, or dropped in favor of an equal one, as long as nothing
//! changes the memory that it reads.

use std::ops::RangeInclusive;

use crate::ir::{Block, Fresh, IdMap, LocalId, Stmt};

use super::effects::Effects;
use super::virtualize::rename;

/// The maximum number of statements in a region; longer computations are treated in parts.
const MAX_LENGTH: usize = 256;

/// A pure region: its local, its range of statements in its block, and its effects.
pub(super) struct PureRegion {
    pub(super) local: LocalId,
    pub(super) range: RangeInclusive<usize>,
    pub(super) effects: Effects,
}

/// The last store and the last mention of each local in a block, so that regions are found without a search.
pub(super) struct RegionIndex {
    last_store: IdMap<LocalId, usize>,
    last_mention: IdMap<LocalId, usize>,
}

impl RegionIndex {
    /// Indexes a block, given the effects of each of its statements in order.
    pub(super) fn of<'a>(effects: impl Iterator<Item = &'a Effects>) -> RegionIndex {
        let mut places = RegionIndex { last_store: IdMap::default(), last_mention: IdMap::default() };
        for (at, effects) in effects.enumerate() {
            places.last_store.extend(effects.local_writes.iter().map(|&local| (local, at)));
            let mentioned = effects.local_reads.iter().chain(&effects.local_writes);
            places.last_mention.extend(mentioned.map(|&local| (local, at)));
        }
        places
    }

    /// The positions of the region that begins with the declaration at `at`, if that local is stored to.
    fn range(&self, block: &[Stmt], at: usize) -> Option<(LocalId, RangeInclusive<usize>)> {
        let Stmt::Declare { local, .. } = block.get(at)? else { return None };
        let last = *self.last_store.get(local)?;
        (last >= at && last - at < MAX_LENGTH).then_some((*local, at..=last))
    }

    /// The pure region that begins with the declaration at `at`, if its local is stored to and the region is
    /// pure; `effects` returns the effects of a range of statements.
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

    /// Whether no statement after the region mentions locals that are declared at its top level, except
    /// `own`.
    fn stays_inside(&self, group: &[Stmt], own: LocalId, last: usize) -> bool {
        group.iter().all(|stmt| match stmt {
            Stmt::Declare { local, .. } if *local != own => {
                self.last_mention.get(local).is_none_or(|&mention| mention <= last)
            }
            _ => true,
        })
    }
}

/// The statements with loops and locals renamed in order of appearance, so that equal regions become equal
/// statements.
pub(super) fn canonical(group: &[Stmt]) -> Block {
    let mut stmts = group.to_vec();
    // The new identifiers are far above all identifiers in use.
    rename(&mut stmts, &mut Fresh::starting_at(1 << 30));
    stmts
}
