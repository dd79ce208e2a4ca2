//! Work distribution: the iterations of a loop among the threads of a workgroup, cyclically.
//!
//! Thread `t` of `w` gets the iterations `t`, `t + w`, `t + 2·w`, …, or the runs of consecutive iterations
//! with these numbers. Neighboring threads thus get neighboring iterations. The IR cannot test a thread's
//! number, so iterations that are too few for all threads are a share of their own, with fewer threads.

use lowered_ir::ir::{Affine, Block, Indices, LoopId, LoopKind, Stmt, walk};

use crate::analysis::names::Names;
use crate::analysis::nest::Loop;

/// A loop whose iterations threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedLoop {
    pub(crate) var: LoopId,
    pub(crate) extent: i64,
    /// Threads that share the loop, at most one per run.
    pub(crate) threads: i64,
    /// Consecutive iterations that a thread runs together: a divisor of the extent.
    pub(crate) run: i64,
}

impl SharedLoop {
    /// A loop distributed by single iterations.
    pub(crate) fn one_by_one(var: LoopId, extent: i64, threads: i64) -> SharedLoop {
        SharedLoop { var, extent, threads, run: 1 }
    }

    /// Steps in which all threads run.
    fn whole_steps(&self) -> i64 {
        self.extent / (self.threads * self.run)
    }

    /// Iterations that remain after the whole steps.
    fn rest(&self) -> i64 {
        self.extent % (self.threads * self.run)
    }

    /// Steps in which all or some threads run.
    pub(crate) fn steps(&self) -> i64 {
        self.whole_steps() + i64::from(self.rest() > 0)
    }
}

/// Iterations that one set of threads runs: the whole steps of every loop, or the remainder of some.
pub(crate) struct LoopShare {
    /// Workgroup loops, the first outermost.
    pub(crate) threads: Vec<Loop>,
    /// Loops over steps, which each thread runs.
    pub(crate) steps: Vec<Loop>,
    /// The loop over the iterations of a run.
    lanes: Option<Loop>,
    /// The number of the innermost loop's step.
    step: Affine,
    /// The index of each shared loop, by the variables of threads, steps and runs.
    index: Vec<(LoopId, Affine)>,
    /// The thread's number, counted as if every loop had all of its threads.
    pub(crate) slot: Affine,
}

/// Distributes nested loops, the first outermost. The first share has all threads. Only the innermost loop
/// may have runs.
pub(crate) fn distribute_loops(loops: &[SharedLoop], names: &mut Names) -> Vec<LoopShare> {
    let zero = Affine::constant(0);
    let none = LoopShare {
        threads: vec![],
        steps: vec![],
        lanes: None,
        step: zero.clone(),
        index: vec![],
        slot: zero,
    };
    loops.iter().fold(vec![none], |shares, shared| {
        let whole: Vec<LoopShare> = shares.iter().map(|p| p.in_rounds(shared, names)).collect();
        let left = shares.iter().filter(|_| shared.rest() > 0).map(|p| p.in_rest(shared, names));
        let left: Vec<LoopShare> = left.collect();
        whole.into_iter().chain(left).collect()
    })
}

impl LoopShare {
    fn in_rounds(&self, shared: &SharedLoop, names: &mut Names) -> LoopShare {
        let steps = shared.whole_steps();
        let mut share = self.with(shared, shared.threads, names);
        let mut start = Affine::constant(0);
        if steps > 1 {
            let step = names.loop_id();
            share.steps.push(Loop { var: step, lo: 0, hi: steps.into() });
            share.step = Affine::var(step);
            start = Affine::term(step, shared.threads * shared.run);
        }
        share.from(shared, &start)
    }

    fn in_rest(&self, shared: &SharedLoop, names: &mut Names) -> LoopShare {
        let mut share = self.with(shared, shared.rest() / shared.run, names);
        share.step = Affine::constant(shared.whole_steps());
        share.from(shared, &Affine::constant(shared.extent - shared.rest()))
    }

    /// A share with one more loop, for this many threads.
    fn with(&self, shared: &SharedLoop, threads: i64, names: &mut Names) -> LoopShare {
        let thread = names.loop_id();
        let mut loops = self.threads.clone();
        loops.push(Loop { var: thread, lo: 0, hi: threads.into() });
        let slot = self.slot.times(shared.threads).plus(&Affine::var(thread));
        let one = |extent: i64, names: &mut Names| Loop { var: names.loop_id(), lo: 0, hi: extent.into() };
        let lanes = (shared.run > 1).then(|| one(shared.run, names));
        let (steps, step) = (self.steps.clone(), Affine::constant(0));
        LoopShare { threads: loops, steps, lanes, step, index: self.index.clone(), slot }
    }

    /// A share whose innermost loop begins at the iteration `start`.
    fn from(mut self, shared: &SharedLoop, start: &Affine) -> LoopShare {
        let thread = self.threads.last().map(|thread| Affine::term(thread.var, shared.run));
        let index = thread.unwrap_or_default().plus(&self.lane()).plus(start);
        self.index.push((shared.var, index));
        self
    }

    /// The number of an iteration in its run.
    pub(crate) fn lane(&self) -> Affine {
        self.lanes.as_ref().map_or(Affine::constant(0), |lane| Affine::var(lane.var))
    }

    /// The index of an element that each thread has of its own: the threads' variables, then `others`.
    pub(crate) fn own(&self, others: impl IntoIterator<Item = Affine>) -> Indices {
        self.threads.iter().map(|thread| Affine::var(thread.var)).chain(others).collect()
    }

    /// The index into an array that has one entry per thread and iteration: the threads' variables, the step
    /// of the innermost loop, and the position of the iteration within the step.
    pub(crate) fn place(&self) -> Indices {
        self.own([self.step.clone(), self.lane()])
    }

    /// The body of the shared loops with their variables replaced.
    pub(crate) fn renumbered(&self, mut block: Block) -> Block {
        self.index.iter().for_each(|(var, index)| walk::substitute(&mut block, *var, index));
        block
    }

    /// The loops over steps and runs around a block. The loops over steps have the kind `kind`.
    pub(crate) fn in_every_step(&self, block: Block, kind: LoopKind) -> Block {
        let block = self.in_every_lane(block);
        let around = |body, l: &Loop| vec![Stmt::looped(l.var, l.hi.limit, kind, body)];
        self.steps.iter().rev().fold(block, around)
    }

    /// The loop over a run around a block.
    pub(crate) fn in_every_lane(&self, block: Block) -> Block {
        let around =
            |lane: &Loop, body| vec![Stmt::looped(lane.var, lane.hi.limit, LoopKind::Unrolled, body)];
        match &self.lanes {
            Some(lane) => around(lane, block),
            None => block,
        }
    }

    /// The loops over threads around a block, under fresh names.
    pub(crate) fn on_threads(&self, block: Block, names: &mut Names) -> Block {
        let around = |body, l: &Loop| vec![Stmt::looped(l.var, l.hi.limit, LoopKind::Workgroup, body)];
        names.refreshed(&self.threads.iter().rev().fold(block, around))
    }
}
