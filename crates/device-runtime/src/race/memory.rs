//! Memory without contents: only the accesses with which a later access may conflict.

use std::{fmt, ops::Range};

use super::clock::{Clock, Timestamp};

/// The accesses to a pool, or to a host array.
#[derive(Debug)]
pub(super) struct AccessHistory {
    pub(super) name: String,
    accesses: Vec<RecordedAccess>,
}

/// An access to a range.
#[derive(Clone, Debug)]
pub(super) struct RecordedAccess {
    pub(super) range: Range<usize>,
    pub(super) writes: bool,
    pub(super) moment: Timestamp,
    /// The task and its stream.
    pub(super) task: String,
}

/// Two accesses that are not ordered.
#[derive(Clone, Debug)]
pub(super) struct Race {
    memory: String,
    first: RecordedAccess,
    second: RecordedAccess,
}

impl AccessHistory {
    pub(super) fn new(name: String) -> AccessHistory {
        AccessHistory { name, accesses: Vec::new() }
    }

    /// Records an access of a thread with this clock; returns the races that it causes.
    pub(super) fn access(&mut self, new: &RecordedAccess, clock: &Clock) -> Vec<Race> {
        let conflicts = |old: &&RecordedAccess| overlap(&old.range, &new.range) && (old.writes || new.writes);
        let races = self.accesses.iter().filter(conflicts).filter(|old| !clock.knows(old.moment));
        let race = |old: &RecordedAccess| Race {
            memory: self.name.clone(),
            first: old.clone(),
            second: new.clone(),
        };
        let races = races.map(race).collect();
        self.accesses.retain(|old| !stands_for(new, old, clock));
        self.accesses.push(new.clone());
        races
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Whether every access that races with the old one also races with the new one: the new one is later, covers
/// all bytes of the old one, and is a write if the old one is.
fn stands_for(new: &RecordedAccess, old: &RecordedAccess, clock: &Clock) -> bool {
    let covers = new.range.start <= old.range.start && old.range.end <= new.range.end;
    covers && clock.knows(old.moment) && (new.writes || !old.writes)
}

impl fmt::Display for RecordedAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.writes { "writes" } else { "reads" };
        write!(f, "{} {verb} bytes {:?}", self.task, self.range)
    }
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, and {}, in any order", self.memory, self.first, self.second)
    }
}
