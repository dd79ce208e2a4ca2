//! Loops shared out among the threads of a workgroup: thread `t` of `w` has the iterations `t`, `t + w`, `t + 2·w`, …
//!
//! There is no test of a thread's number in the IR, so iterations beyond the last whole round of threads are a piece of their own,
//! run by fewer threads. Neighbouring threads have neighbouring iterations.

use lowered_ir::ir::{Affine, Block, LoopId, LoopKind, Stmt, walk};

use super::super::names::Names;
use super::super::nest::{self, Loop};

/// A loop that threads share.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    pub(super) var: LoopId,
    pub(super) extent: i64,
    /// How many threads, at most `extent`.
    pub(super) threads: i64,
}

/// Iterations that the same threads run: whole rounds of every loop, or what is left of some.
pub(super) struct Piece {
    /// Workgroup loops, the first outermost.
    pub(super) threads: Vec<Loop>,
    /// Rounds, in each thread.
    pub(super) rounds: Vec<Loop>,
    /// The shared loops' variables by those of threads and rounds.
    index: Vec<(LoopId, Affine)>,
    /// The thread's number, as if every loop had all of its threads.
    pub(super) slot: Affine,
}

/// The pieces of some loops, the first outermost; the first piece has all threads.
pub(super) fn pieces(loops: &[Shared], names: &mut Names) -> Vec<Piece> {
    let none = Piece { threads: vec![], rounds: vec![], index: vec![], slot: Affine::constant(0) };
    loops.iter().fold(vec![none], |pieces, shared| {
        let rest = shared.extent % shared.threads;
        let whole: Vec<Piece> = pieces.iter().map(|p| p.in_rounds(shared, names)).collect();
        let left = pieces.iter().filter(|_| rest > 0).map(|p| p.in_rest(shared, rest, names));
        let left: Vec<Piece> = left.collect();
        whole.into_iter().chain(left).collect()
    })
}

impl Piece {
    fn in_rounds(&self, shared: &Shared, names: &mut Names) -> Piece {
        let (thread, rounds) = (names.loop_id(), shared.extent / shared.threads);
        let mut piece = self.with(shared, thread, shared.threads);
        let mut index = Affine::var(thread);
        if rounds > 1 {
            let round = names.loop_id();
            piece.rounds.push(Loop { var: round, lo: 0, hi: rounds.into() });
            index.add_term(round.into(), shared.threads);
        }
        piece.index.push((shared.var, index));
        piece
    }

    fn in_rest(&self, shared: &Shared, rest: i64, names: &mut Names) -> Piece {
        let thread = names.loop_id();
        let mut piece = self.with(shared, thread, rest);
        piece.index.push((shared.var, Affine::var(thread).plus_constant(shared.extent - rest)));
        piece
    }

    fn with(&self, shared: &Shared, thread: LoopId, threads: i64) -> Piece {
        let mut loops = self.threads.clone();
        loops.push(Loop { var: thread, lo: 0, hi: threads.into() });
        let slot = self.slot.times(shared.threads).plus(&Affine::var(thread));
        Piece { threads: loops, rounds: self.rounds.clone(), index: self.index.clone(), slot }
    }

    /// A block of the shared loops' body, for this thread and round.
    pub(super) fn renumbered(&self, mut block: Block) -> Block {
        self.index.iter().for_each(|(var, index)| walk::substitute(&mut block, *var, index));
        block
    }

    /// The rounds around a block.
    pub(super) fn in_every_round(&self, block: Block) -> Block {
        nest::wrap(&self.rounds, block)
    }

    /// The threads around a block, under names of its own.
    pub(super) fn on_threads(&self, block: Block, names: &mut Names) -> Block {
        let around = |body, l: &Loop| vec![Stmt::looped(l.var, l.hi.limit, LoopKind::Workgroup, body)];
        names.refreshed(&self.threads.iter().rev().fold(block, around))
    }
}

/// The greatest power of two up to `n`.
pub(super) fn power_of_two(n: i64) -> i64 {
    let n = n.max(1) as u64;
    1 << (63 - n.leading_zeros())
}
