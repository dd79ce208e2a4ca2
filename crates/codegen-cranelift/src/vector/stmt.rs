//! Statements and loops.

use std::collections::BTreeSet;

use lowered_ir::ir::{Bound, LoopId, LoopKind, Space, Stmt, walk};
use vector_asm::{Counter, LoopRange};

use super::Translator;
use super::build::Array;
use super::reason::Reason;
use crate::emit::scan;

/// What a loop variable is: `scale · counter + offset`, in a vector loop plus the lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub(super) counter: Option<(Counter, i64)>,
    pub(super) offset: i64,
}

/// Loops with more iterations than this are not replicated unless they must be.
const MAX_REPLICAS: i64 = 64;

/// The most operations, roughly, that a loop is replicated into unless it must be.
const MAX_REPLICATED_SIZE: usize = 1 << 11;

/// The most operations, roughly, of a program.
const MAX_SIZE: usize = 1 << 15;

/// The most lanes of a value.
const MAX_LANES: i64 = 64;

/// Pieces of a vector loop that are written out; more become a loop.
const MAX_PIECES: i64 = 4;

/// Operations that a round of a loop should have, so that counting and jumping do not show.
const ROUND_SIZE: usize = 24;

/// Iterations in a round, at most.
const MAX_PER_ROUND: i64 = 4;

impl Translator<'_> {
    /// The whole kernel; the part of the call of its parallel loop if that is all there is and its bounds are known.
    pub(super) fn kernel(&mut self) -> Result<(), Reason> {
        let body = &self.routine.body;
        match body.as_slice() {
            [Stmt::For { var, lo, hi: Bound { limit, symbol: None }, kind: LoopKind::Parallel, body }]
                if *limit > *lo =>
            {
                self.looped(*var, (*lo, *limit), (LoopRange::Call, 1), body)
            }
            body => self.block(body),
        }
    }

    pub(super) fn block(&mut self, body: &[Stmt]) -> Result<(), Reason> {
        for (at, stmt) in body.iter().enumerate() {
            match stmt {
                Stmt::Declare { local, dtype, dims, space: Space::Register } => {
                    self.declare_register(*local, *dtype, dims)?;
                }
                Stmt::Declare { local, dims, .. } => {
                    let needs_zeros = !scan::overwrites_first(&body[at + 1..], *local, dims);
                    self.declare_scratch(*local, needs_zeros)?;
                }
                stmt => self.stmt(stmt)?,
            }
            if self.build.size() > MAX_SIZE {
                return Err(Reason::TooLarge);
            }
        }
        for stmt in body {
            if let Stmt::Declare { local, .. } = stmt {
                self.forget_local(*local);
            }
        }
        Ok(())
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), Reason> {
        match stmt {
            Stmt::For { var, lo, hi, kind, body } => {
                if self.lane.is_some() {
                    return Err(Reason::NotStraight);
                }
                self.repeat(*var, (*lo, *hi), *kind, body)
            }
            Stmt::Set { node, index, value } => {
                let (_, value) = self.expr(value)?;
                self.set_node(*node, index, value)
            }
            Stmt::SetLocal { local, index, value } => {
                let (_, value) = self.expr(value)?;
                self.set_local(*local, index, value)
            }
            Stmt::Zero { .. } if self.lane.is_some() => Err(Reason::NotStraight),
            Stmt::Zero { node } => {
                self.zero(*node);
                Ok(())
            }
            Stmt::SetDynamic { .. } => Err(Reason::ComputedIndex),
            Stmt::Log { .. } => Err(Reason::Log),
            Stmt::Declare { .. } | Stmt::Comment(_) => Ok(()),
        }
    }

    fn repeat(
        &mut self,
        var: LoopId,
        (lo, hi): (i64, Bound),
        kind: LoopKind,
        body: &[Stmt],
    ) -> Result<(), Reason> {
        let count = hi.limit - lo;
        match kind {
            _ if count <= 0 => Ok(()),
            _ if hi.symbol.is_some() => Err(Reason::SymbolBound),
            _ if count == 1 => self.once(var, lo, body),
            LoopKind::Vector => self.vector(var, count, body),
            LoopKind::Unrolled if replicates(var, count, body) => {
                (lo..hi.limit).try_for_each(|at| self.once(var, at, body))
            }
            _ => self.counted(var, (lo, hi.limit), body),
        }
    }

    /// One iteration of known number.
    fn once(&mut self, var: LoopId, at: i64, body: &[Stmt]) -> Result<(), Reason> {
        self.bind(var, Position { counter: None, offset: at }, (at, at));
        self.block(body)
    }

    /// A serial loop: some iterations a round, then what is left.
    fn counted(&mut self, var: LoopId, (lo, hi): (i64, i64), body: &[Stmt]) -> Result<(), Reason> {
        let per_round = per_round(hi - lo, body);
        let end = lo + (hi - lo) / per_round * per_round;
        let rounds = (end - lo) / per_round;
        if rounds > 1 {
            self.looped(var, (lo, end), (LoopRange::Constant(rounds as u64), per_round), body)?;
        }
        let done = if rounds > 1 { end } else { lo };
        (done..hi).try_for_each(|at| self.once(var, at, body))
    }

    /// A loop in the program of so many iterations a round.
    fn looped(
        &mut self,
        var: LoopId,
        (lo, hi): (i64, i64),
        (range, per_round): (LoopRange, i64),
        body: &[Stmt],
    ) -> Result<(), Reason> {
        self.rounds(range, body, |s, counter| {
            (0..per_round).try_for_each(|at| {
                let position = Position { counter: Some((counter, per_round)), offset: lo + at };
                s.bind(var, position, (lo + at, hi - per_round + at));
                s.block(body)
            })
        })
    }

    /// A loop in the program around what `round` writes, which stores where `body` does.
    fn rounds(
        &mut self,
        range: LoopRange,
        body: &[Stmt],
        round: impl FnOnce(&mut Self, Counter) -> Result<(), Reason>,
    ) -> Result<(), Reason> {
        self.enter_loop(body);
        let counter = self.build.open(range, stored(body));
        round(self, counter)?;
        self.leave_loop(body);
        self.build.close();
        self.drop_hidden();
        Ok(())
    }

    /// A vector loop: one piece, or several if it is long. How many registers its lanes fill at a time is the assembler's business.
    fn vector(&mut self, var: LoopId, count: i64, body: &[Stmt]) -> Result<(), Reason> {
        let width = count.min(MAX_LANES);
        let mut done = 0;
        if count / width > MAX_PIECES && !scan::picks_locals(var, body) {
            let rounds = count / width;
            done = rounds * width;
            self.rounds(LoopRange::Constant(rounds as u64), body, |s, counter| {
                let position = Position { counter: Some((counter, width)), offset: 0 };
                s.piece(var, position, (0, done - 1), width, body)
            })?;
        }
        while done < count {
            let lanes = width.min(count - done);
            let position = Position { counter: None, offset: done };
            self.piece(var, position, (done, done + lanes - 1), lanes, body)?;
            done += lanes;
        }
        Ok(())
    }

    /// Neighbouring iterations of a vector loop together.
    fn piece(
        &mut self,
        var: LoopId,
        at: Position,
        range: (i64, i64),
        lanes: i64,
        body: &[Stmt],
    ) -> Result<(), Reason> {
        self.bind(var, at, range);
        self.lane = Some((var, lanes as u32));
        let result = self.block(body);
        self.lane = None;
        result
    }

    pub(super) fn bind(&mut self, var: LoopId, position: Position, range: (i64, i64)) {
        self.vars.insert(var, position);
        self.ranges.insert(var, range);
    }
}

/// What a block stores into, or declares.
pub(super) fn stored(body: &[Stmt]) -> BTreeSet<Array> {
    let mut stored = BTreeSet::new();
    walk::each_stmt(body, &mut |stmt| match stmt {
        Stmt::Set { node, .. } | Stmt::SetDynamic { node, .. } | Stmt::Zero { node } => {
            stored.insert(Array::Node(*node));
        }
        Stmt::SetLocal { local, .. } | Stmt::Declare { local, .. } => {
            stored.insert(Array::Local(*local));
        }
        Stmt::For { .. } | Stmt::Comment(_) | Stmt::Log { .. } => {}
    });
    stored
}

/// Whether an unrolled loop is written out; it must be where it picks registers.
fn replicates(var: LoopId, count: i64, body: &[Stmt]) -> bool {
    let fits =
        count <= MAX_REPLICAS && scan::size(body).saturating_mul(count as usize) <= MAX_REPLICATED_SIZE;
    fits || scan::picks_locals(var, body)
}

/// How often a loop's body is repeated in the code.
fn per_round(count: i64, body: &[Stmt]) -> i64 {
    if scan::has_loops(body) {
        return 1;
    }
    let wanted = (ROUND_SIZE / scan::size(body).max(1)) as i64;
    let most = wanted.clamp(1, MAX_PER_ROUND.min(count));
    // What is left would be written out.
    (1..=most).rev().find(|per_round| count % per_round == 0).unwrap_or(1)
}
