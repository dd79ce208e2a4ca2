//! Vector clocks: the happens-before order between the warps of a cluster.
//!
//! A vector clock has a component for each warp, and further components for asynchronous events: mbarrier
//! phases, waits for `wgmma` and TMA stores, and arrivals of single lanes. Each warp has a clock: for each
//! component, the latest time that is ordered before the warp's next access. Barriers advance the warp's own
//! component and join clocks. A lane that waits or arrives without the other lanes has times of its own in
//! addition to its warp's clock, until the warp synchronizes.

use std::collections::BTreeMap;

/// A thread, or several lanes of a warp, as the origin of an access.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadRef {
    pub(super) block: u32,
    /// Rank of the block in its cluster.
    pub(super) rank: u32,
    /// Index of the thread in the block, or [`SEVERAL_THREADS`].
    pub(super) thread: u16,
    pub(super) warp: u32,
}

/// Stands for several lanes of a warp.
pub(super) const SEVERAL_THREADS: u16 = u16::MAX;

/// The time of each component, by its index; missing components are 0.
pub(super) type VectorClock = Vec<u32>;

/// A time of one component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timestamp {
    pub(super) column: usize,
    pub(super) time: u32,
}

/// The vector clocks of a cluster.
#[derive(Debug)]
pub(super) struct VectorClocks {
    /// Warps per block.
    warps: usize,
    /// The clock of each warp, block after block.
    rows: Vec<VectorClock>,
    /// Clocks of lanes that waited or arrived without the other lanes, by rank of the block and thread.
    lanes: BTreeMap<(u32, u16), LaneClock>,
    columns: usize,
}

#[derive(Debug)]
struct LaneClock {
    /// Times that the lane knows beyond its warp's clock.
    knows: VectorClock,
    /// Number of arrivals without the other lanes.
    turns: u32,
    /// The component that counts these arrivals.
    column: usize,
}

/// Takes the maximum of two clocks, component by component.
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

/// Sets a component to a later time.
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

    /// Allocates a component for asynchronous events.
    pub(super) fn column(&mut self) -> usize {
        self.columns += 1;
        self.columns - 1
    }

    /// The component of a warp, which is also the index of its clock.
    pub(super) fn row(&self, rank: u32, warp: u32) -> usize {
        rank as usize * self.warps + warp as usize
    }

    /// The latest time of a component that is ordered before the thread's next access.
    #[inline]
    pub(super) fn over(&self, column: usize, who: &ThreadRef) -> u32 {
        let time = at(&self.rows[self.row(who.rank, who.warp)], column);
        match self.lanes.get(&(who.rank, who.thread)) {
            Some(lane) => time.max(at(&lane.knows, column)),
            None => time,
        }
    }

    /// Whether a timestamp is ordered before the thread's next access.
    pub(super) fn knows(&self, who: &ThreadRef, moment: Timestamp) -> bool {
        moment.time <= self.over(moment.column, who)
    }

    /// The time of a warp's accesses, until it next synchronizes.
    pub(super) fn now(&self, who: &ThreadRef) -> u32 {
        let row = self.row(who.rank, who.warp);
        self.rows[row][row] + 1
    }

    /// The number of arrivals of a thread without the other lanes of its warp. Together with
    /// [`VectorClocks::now`] it is the time of the thread's accesses.
    pub(super) fn turn(&self, who: &ThreadRef) -> u16 {
        let turns = self.lanes.get(&(who.rank, who.thread)).map_or(0, |lane| lane.turns);
        turns.try_into().unwrap_or(u16::MAX)
    }

    /// Whether an arrival of `thread` with a number above `turn` is ordered before the next access of `who`.
    pub(super) fn knows_turn(&self, who: &ThreadRef, rank: u32, thread: u16, turn: u16) -> bool {
        match self.lanes.get(&(rank, thread)) {
            Some(lane) => turn < u16::MAX && self.over(lane.column, who) > u32::from(turn),
            None => false,
        }
    }

    /// Synchronizes warps: the earlier accesses of each warp are ordered before the later accesses of all of
    /// them.
    pub(super) fn synchronize(&mut self, rows: &[usize]) {
        let mut all = VectorClock::new();
        for &row in rows {
            self.sync(row);
            join(&mut all, &self.rows[row]);
        }
        for &row in rows {
            self.rows[row].clone_from(&all);
        }
    }

    /// Synchronizes the lanes of a warp.
    fn sync(&mut self, row: usize) {
        let (rank, warp) = ((row / self.warps) as u32, row % self.warps);
        let first = (warp * 32) as u16;
        for (_, lane) in self.lanes.range_mut((rank, first)..=(rank, first + 31)) {
            join(&mut self.rows[row], &std::mem::take(&mut lane.knows));
        }
        self.rows[row][row] += 1;
    }

    /// A release by all lanes of a warp: the clock to be acquired, and the timestamp of the release.
    pub(super) fn release_warp(&mut self, rank: u32, warp: u32) -> (VectorClock, Timestamp) {
        let row = self.row(rank, warp);
        self.sync(row);
        (self.rows[row].clone(), Timestamp { column: row, time: self.rows[row][row] })
    }

    /// A release by one lane: the clock to be acquired, and the timestamp of the release.
    pub(super) fn release(&mut self, who: &ThreadRef) -> (VectorClock, Timestamp) {
        let mut clock = self.rows[self.row(who.rank, who.warp)].clone();
        let lane = self.lane(who);
        lane.turns += 1;
        let moment = Timestamp { column: lane.column, time: lane.turns };
        advance(&mut lane.knows, moment);
        join(&mut clock, &lane.knows);
        (clock, moment)
    }

    /// The clock of a thread: its warp's clock and its own additions.
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

    /// Joins a released clock into the clock of a thread, or of its warp for [`SEVERAL_THREADS`].
    pub(super) fn acquire(&mut self, who: &ThreadRef, clock: &[u32]) {
        if who.thread == SEVERAL_THREADS {
            let row = self.row(who.rank, who.warp);
            join(&mut self.rows[row], clock);
        } else {
            join(&mut self.lane(who).knows, clock);
        }
    }

    /// Acquires a single timestamp.
    pub(super) fn note(&mut self, who: &ThreadRef, moment: Timestamp) {
        let mut clock = VectorClock::new();
        advance(&mut clock, moment);
        self.acquire(who, &clock);
    }

    /// Whether any thread of a block knows a timestamp.
    pub(super) fn block_knows(&self, rank: u32, moment: Timestamp) -> bool {
        let first = self.row(rank, 0);
        let mut rows = self.rows[first..first + self.warps].iter();
        let mut lanes = self.lanes.range((rank, 0)..=(rank, u16::MAX));
        rows.any(|row| at(row, moment.column) >= moment.time)
            || lanes.any(|(_, lane)| at(&lane.knows, moment.column) >= moment.time)
    }
}
