//! What the warps of a cluster know of each other.
//!
//! Time is a list of columns: one for every warp, and others for what happens behind the threads' backs: phases of barriers in memory, products,
//! tile stores, and arrivals of single lanes. Every warp has a row: the last time of each column that it knows to be over. Barriers
//! advance the warp's own column and join rows. What a lane learns alone, by waiting or arriving without the others, it alone knows until the warp
//! meets somebody.

use std::collections::BTreeMap;

/// Who does something.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadRef {
    pub(super) block: u32,
    /// The block's number in its cluster.
    pub(super) rank: u32,
    /// The thread's number in the block, or [`SEVERAL_THREADS`].
    pub(super) thread: u16,
    pub(super) warp: u32,
}

/// Threads of a warp that do something together.
pub(super) const SEVERAL_THREADS: u16 = u16::MAX;

/// Times that are over, column by column; 0 where there is nothing.
pub(super) type VectorClock = Vec<u32>;

/// A time of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timestamp {
    pub(super) column: usize,
    pub(super) time: u32,
}

/// What the warps of a cluster know of each other.
#[derive(Debug)]
pub(super) struct VectorClocks {
    /// How many a block has.
    warps: usize,
    /// Of each warp, block after block.
    rows: Vec<VectorClock>,
    /// Of lanes that learned or told something alone, by block and thread.
    lanes: BTreeMap<(u32, u16), LaneClock>,
    columns: usize,
}

#[derive(Debug)]
struct LaneClock {
    /// What it knows besides its warp.
    knows: VectorClock,
    /// How often it arrived without the other lanes, and the column of that.
    turns: u32,
    column: usize,
}

/// Adds what another clock says.
pub(super) fn join(into: &mut VectorClock, other: &[u32]) {
    if into.len() < other.len() {
        into.resize(other.len(), 0);
    }
    for (time, &other) in into.iter_mut().zip(other) {
        *time = (*time).max(other);
    }
}

fn at(clock: &[u32], column: usize) -> u32 {
    clock.get(column).copied().unwrap_or(0)
}

/// Sets a time that is now over.
pub(super) fn advance(clock: &mut VectorClock, moment: Timestamp) {
    if clock.len() <= moment.column {
        clock.resize(moment.column + 1, 0);
    }
    clock[moment.column] = moment.time;
}

impl VectorClocks {
    pub(super) fn new(blocks: u32, warps: u32) -> VectorClocks {
        let (warps, all) = (warps as usize, (blocks * warps) as usize);
        VectorClocks { warps, rows: vec![vec![0; all]; all], lanes: BTreeMap::new(), columns: all }
    }

    /// A column for something else than a warp.
    pub(super) fn column(&mut self) -> usize {
        self.columns += 1;
        self.columns - 1
    }

    /// The column and row of a warp.
    pub(super) fn row(&self, rank: u32, warp: u32) -> usize {
        rank as usize * self.warps + warp as usize
    }

    /// The last time of a column that somebody knows to be over.
    #[inline]
    pub(super) fn over(&self, column: usize, who: &ThreadRef) -> u32 {
        let time = at(&self.rows[self.row(who.rank, who.warp)], column);
        match self.lanes.get(&(who.rank, who.thread)) {
            Some(lane) => time.max(at(&lane.knows, column)),
            None => time,
        }
    }

    /// Whether somebody knows this to be over.
    pub(super) fn knows(&self, who: &ThreadRef, moment: Timestamp) -> bool {
        moment.time <= self.over(moment.column, who)
    }

    /// The time that a warp's accesses bear.
    pub(super) fn now(&self, who: &ThreadRef) -> u32 {
        let row = self.row(who.rank, who.warp);
        self.rows[row][row] + 1
    }

    /// How often a thread arrived alone: what else its accesses bear.
    pub(super) fn turn(&self, who: &ThreadRef) -> u16 {
        let turns = self.lanes.get(&(who.rank, who.thread)).map_or(0, |lane| lane.turns);
        turns.try_into().unwrap_or(u16::MAX)
    }

    /// Whether somebody knows that a thread arrived alone after that turn.
    pub(super) fn knows_turn(&self, who: &ThreadRef, rank: u32, thread: u16, turn: u16) -> bool {
        match self.lanes.get(&(rank, thread)) {
            Some(lane) => turn < u16::MAX && self.over(lane.column, who) > u32::from(turn),
            None => false,
        }
    }

    /// These warps meet, by their rows: what one did before, all know to be over.
    pub(super) fn meet(&mut self, rows: &[usize]) {
        let mut all = VectorClock::new();
        for &row in rows {
            self.sync(row);
            join(&mut all, &self.rows[row]);
        }
        for &row in rows {
            self.rows[row].clone_from(&all);
        }
    }

    /// The lanes of a warp meet: what one knows, all do.
    fn sync(&mut self, row: usize) {
        let (rank, warp) = ((row / self.warps) as u32, row % self.warps);
        let first = (warp * 32) as u16;
        for (_, lane) in self.lanes.range_mut((rank, first)..=(rank, first + 31)) {
            join(&mut self.rows[row], &std::mem::take(&mut lane.knows));
        }
        self.rows[row][row] += 1;
    }

    /// All lanes of a warp arrive somewhere: what those know who wait for it, and what they need to know of it.
    pub(super) fn release_warp(&mut self, rank: u32, warp: u32) -> (VectorClock, Timestamp) {
        let row = self.row(rank, warp);
        self.sync(row);
        (self.rows[row].clone(), Timestamp { column: row, time: self.rows[row][row] })
    }

    /// A lane arrives somewhere alone.
    pub(super) fn release(&mut self, who: &ThreadRef) -> (VectorClock, Timestamp) {
        let mut clock = self.rows[self.row(who.rank, who.warp)].clone();
        let lane = self.lane(who);
        lane.turns += 1;
        let moment = Timestamp { column: lane.column, time: lane.turns };
        advance(&mut lane.knows, moment);
        join(&mut clock, &lane.knows);
        (clock, moment)
    }

    /// What a thread knows.
    pub(super) fn known(&self, who: &ThreadRef) -> VectorClock {
        let mut clock = self.rows[self.row(who.rank, who.warp)].clone();
        if let Some(lane) = self.lanes.get(&(who.rank, who.thread)) {
            join(&mut clock, &lane.knows);
        }
        clock
    }

    fn lane(&mut self, who: &ThreadRef) -> &mut LaneClock {
        let VectorClocks { lanes, columns, .. } = self;
        lanes.entry((who.rank, who.thread)).or_insert_with(|| {
            *columns += 1;
            LaneClock { knows: VectorClock::new(), turns: 0, column: *columns - 1 }
        })
    }

    /// Somebody waited for what knows this: a thread, or if it is [`SEVERAL_THREADS`] the warp.
    pub(super) fn acquire(&mut self, who: &ThreadRef, clock: &[u32]) {
        if who.thread == SEVERAL_THREADS {
            let row = self.row(who.rank, who.warp);
            join(&mut self.rows[row], clock);
        } else {
            join(&mut self.lane(who).knows, clock);
        }
    }

    /// Somebody waited for something that has a column of its own.
    pub(super) fn note(&mut self, who: &ThreadRef, moment: Timestamp) {
        let mut clock = VectorClock::new();
        advance(&mut clock, moment);
        self.acquire(who, &clock);
    }

    /// Whether any thread of a block knows this to be over.
    pub(super) fn block_knows(&self, rank: u32, moment: Timestamp) -> bool {
        let first = self.row(rank, 0);
        let mut rows = self.rows[first..first + self.warps].iter();
        let mut lanes = self.lanes.range((rank, 0)..=(rank, u16::MAX));
        rows.any(|row| at(row, moment.column) >= moment.time)
            || lanes.any(|(_, lane)| at(&lane.knows, moment.column) >= moment.time)
    }
}
