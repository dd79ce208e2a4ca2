//! Memory without bytes: the accesses that a later one may conflict with.

use std::{fmt, ops::Range};

use super::clock::{Clock, Moment};

/// A pool, or an array of the host.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) name: String,
    accesses: Vec<Access>,
}

/// Something read or wrote a range.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) range: Range<usize>,
    pub(super) writes: bool,
    pub(super) moment: Moment,
    /// What it was, and where.
    pub(super) task: String,
}

/// Two accesses that nothing orders.
#[derive(Clone, Debug)]
pub(super) struct Race {
    memory: String,
    first: Access,
    second: Access,
}

impl Memory {
    pub(super) fn new(name: String) -> Memory {
        Memory { name, accesses: Vec::new() }
    }

    /// Enters an access of a thread with this clock; gives the races it makes.
    pub(super) fn access(&mut self, new: &Access, clock: &Clock) -> Vec<Race> {
        let conflicts = |old: &&Access| overlap(&old.range, &new.range) && (old.writes || new.writes);
        let races = self.accesses.iter().filter(conflicts).filter(|old| !clock.knows(old.moment));
        let race = |old: &Access| Race { memory: self.name.clone(), first: old.clone(), second: new.clone() };
        let races = races.map(race).collect();
        self.accesses.retain(|old| !stands_for(new, old, clock));
        self.accesses.push(new.clone());
        races
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Whether everything that races with the old access races with the new one: the new one comes later, on all the bytes, and
/// conflicts with as much.
fn stands_for(new: &Access, old: &Access, clock: &Clock) -> bool {
    let covers = new.range.start <= old.range.start && old.range.end <= new.range.end;
    covers && clock.knows(old.moment) && (new.writes || !old.writes)
}

impl fmt::Display for Access {
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
