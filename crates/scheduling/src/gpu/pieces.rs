//! Loops shared out among the threads of a workgroup: thread `t` of `w` has the iterations `t`, `t + w`, `t + 2·w`, …, or with runs of
//! neighbours the runs of these numbers.
//!
//! There is no test of a thread's number in the IR, so iterations beyond the last whole round of threads are a piece of their own,
//! run by fewer threads. Neighbouring threads have neighbouring iterations.

use lowered_ir::ir::{Affine, Block, Indices, LoopId, LoopKind, Stmt, walk};

use crate::analysis::names::Names;
use crate::analysis::nest::Loop;

/// A loop that threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    pub(crate) var: LoopId,
    pub(crate) extent: i64,
    /// How many threads, at most one for each run.
    pub(crate) threads: i64,
    /// Neighbours that a thread does together; a divisor of the extent.
    pub(crate) run: i64,
}

impl Shared {
    /// One iteration at a time.
    pub(crate) fn one_by_one(var: LoopId, extent: i64, threads: i64) -> Shared {
        Shared { var, extent, threads, run: 1 }
    }

    /// Rounds of all threads.
    fn whole_rounds(&self) -> i64 {
        self.extent / (self.threads * self.run)
    }

    /// Iterations behind them.
    fn rest(&self) -> i64 {
        self.extent % (self.threads * self.run)
    }

    /// Rounds of all or some threads.
    pub(crate) fn rounds(&self) -> i64 {
        self.whole_rounds() + i64::from(self.rest() > 0)
    }
}

/// Iterations that the same threads run: whole rounds of every loop, or what is left of some.
pub(crate) struct Piece {
    /// Workgroup loops, the first outermost.
    pub(crate) threads: Vec<Loop>,
    /// Rounds, in each thread.
    pub(crate) rounds: Vec<Loop>,
    /// The neighbours of a run.
    lanes: Option<Loop>,
    /// The number of the innermost loop's round.
    round: Affine,
    /// The shared loops' variables by those of threads, rounds and lanes.
    index: Vec<(LoopId, Affine)>,
    /// The thread's number, as if every loop had all of its threads.
    pub(crate) slot: Affine,
}

/// The pieces of some loops, the first outermost; the first piece has all threads. The innermost alone may have runs.
pub(crate) fn pieces(loops: &[Shared], names: &mut Names) -> Vec<Piece> {
    let zero = Affine::constant(0);
    let none = Piece {
        threads: vec![],
        rounds: vec![],
        lanes: None,
        round: zero.clone(),
        index: vec![],
        slot: zero,
    };
    loops.iter().fold(vec![none], |pieces, shared| {
        let whole: Vec<Piece> = pieces.iter().map(|p| p.in_rounds(shared, names)).collect();
        let left = pieces.iter().filter(|_| shared.rest() > 0).map(|p| p.in_rest(shared, names));
        let left: Vec<Piece> = left.collect();
        whole.into_iter().chain(left).collect()
    })
}

impl Piece {
    fn in_rounds(&self, shared: &Shared, names: &mut Names) -> Piece {
        let rounds = shared.whole_rounds();
        let mut piece = self.with(shared, shared.threads, names);
        let mut start = Affine::constant(0);
        if rounds > 1 {
            let round = names.loop_id();
            piece.rounds.push(Loop { var: round, lo: 0, hi: rounds.into() });
            piece.round = Affine::var(round);
            start = Affine::term(round, shared.threads * shared.run);
        }
        piece.from(shared, &start)
    }

    fn in_rest(&self, shared: &Shared, names: &mut Names) -> Piece {
        let mut piece = self.with(shared, shared.rest() / shared.run, names);
        piece.round = Affine::constant(shared.whole_rounds());
        piece.from(shared, &Affine::constant(shared.extent - shared.rest()))
    }

    /// With so many threads for one loop more.
    fn with(&self, shared: &Shared, threads: i64, names: &mut Names) -> Piece {
        let thread = names.loop_id();
        let mut loops = self.threads.clone();
        loops.push(Loop { var: thread, lo: 0, hi: threads.into() });
        let slot = self.slot.times(shared.threads).plus(&Affine::var(thread));
        let one = |extent: i64, names: &mut Names| Loop { var: names.loop_id(), lo: 0, hi: extent.into() };
        let lanes = (shared.run > 1).then(|| one(shared.run, names));
        let (rounds, round) = (self.rounds.clone(), Affine::constant(0));
        Piece { threads: loops, rounds, lanes, round, index: self.index.clone(), slot }
    }

    /// With the last loop's iterations from somewhere on.
    fn from(mut self, shared: &Shared, start: &Affine) -> Piece {
        let thread = self.threads.last().map(|thread| Affine::term(thread.var, shared.run));
        let index = thread.unwrap_or_default().plus(&self.lane()).plus(start);
        self.index.push((shared.var, index));
        self
    }

    /// The number of the neighbour in its run.
    pub(crate) fn lane(&self) -> Affine {
        self.lanes.map_or(Affine::constant(0), |lane| Affine::var(lane.var))
    }

    /// The indices of what threads of their own have: the threads' variables, and others.
    pub(crate) fn own(&self, others: impl IntoIterator<Item = Affine>) -> Indices {
        self.threads.iter().map(|thread| Affine::var(thread.var)).chain(others).collect()
    }

    /// The place of an element among those that its thread has: the thread, the round of the innermost loop, the neighbour.
    pub(crate) fn place(&self) -> Indices {
        self.own([self.round.clone(), self.lane()])
    }

    /// A block of the shared loops' body, for this thread, round and neighbour.
    pub(crate) fn renumbered(&self, mut block: Block) -> Block {
        self.index.iter().for_each(|(var, index)| walk::substitute(&mut block, *var, index));
        block
    }

    /// The rounds around a block, of one kind, and in them the neighbours.
    pub(crate) fn in_every_round(&self, block: Block, kind: LoopKind) -> Block {
        let block = self.in_every_lane(block);
        let around = |body, l: &Loop| vec![Stmt::looped(l.var, l.hi.limit, kind, body)];
        self.rounds.iter().rev().fold(block, around)
    }

    /// The neighbours around a block.
    pub(crate) fn in_every_lane(&self, block: Block) -> Block {
        let around = |lane: Loop, body| vec![Stmt::looped(lane.var, lane.hi.limit, LoopKind::Unrolled, body)];
        match self.lanes {
            Some(lane) => around(lane, block),
            None => block,
        }
    }

    /// The threads around a block, under names of its own.
    pub(crate) fn on_threads(&self, block: Block, names: &mut Names) -> Block {
        let around = |body, l: &Loop| vec![Stmt::looped(l.var, l.hi.limit, LoopKind::Workgroup, body)];
        names.refreshed(&self.threads.iter().rev().fold(block, around))
    }
}

/// The greatest power of two up to `n`.
pub(crate) fn power_of_two(n: i64) -> i64 {
    let n = n.max(1) as u64;
    1 << (63 - n.leading_zeros())
}
