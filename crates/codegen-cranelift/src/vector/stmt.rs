//! Statements and loops.

use std::{collections::BTreeSet, ops::Range};

use codegen_core::{emit::LinearValue, kernel};
use lowered_ir::ir::{Bound, LoopId, LoopKind, Space, Stmt, walk};
use vector_asm::{Counter, CounterSum, Index, LoopRange};

use super::Translator;
use super::build::Array;
use super::memory::Resolved;
use super::reason::{BailoutReason, Result};
use crate::emit::scan;

/// Maximum number of iterations of a loop that is replicated although it need not be.
const MAX_REPLICAS: i64 = 64;

/// Maximum estimated number of operations of a loop that is replicated although it need not be.
const MAX_REPLICATED_SIZE: usize = 1 << 11;

/// Maximum estimated number of operations of a program.
const MAX_SIZE: usize = 1 << 15;

/// Maximum number of lanes of a value.
const MAX_LANES: i64 = 64;

/// Maximum number of strips of a vector loop that are emitted one after the other. More strips become a loop.
const MAX_STRIPS: i64 = 4;

/// The number of operations that an iteration of an unrolled loop should have, so that the loop overhead is
/// negligible.
const ROUND_SIZE: usize = 24;

/// The largest unroll factor.
const MAX_PER_ROUND: i64 = 4;

impl Translator<'_> {
    /// Translates the whole kernel. If its body is one parallel loop that calls can divide, they run a range
    /// of its iterations.
    pub(super) fn kernel(&mut self) -> Result<()> {
        let body = &self.routine.body;
        match body.as_slice() {
            [Stmt::For { var, lo, hi, kind: LoopKind::Parallel, body }]
                if kernel::is_divisible(*lo, hi) && hi.limit > *lo =>
            {
                self.looped(*var, *lo..hi.limit, LoopRange::Call, 1, body)
            }
            body => self.block(body),
        }
    }

    pub(super) fn block(&mut self, body: &[Stmt]) -> Result<()> {
        for stmt in body {
            match stmt {
                Stmt::Declare { local, dtype, dims, space: Space::Register } => {
                    self.declare_register(*local, *dtype, dims)?;
                }
                Stmt::Declare { local, space, .. } => {
                    self.declare_scratch(*local, *space != Space::Scratch)?;
                }
                stmt => self.stmt(stmt)?,
            }
            if self.build.size() > MAX_SIZE {
                return Err(BailoutReason::TooLarge);
            }
        }
        for stmt in body {
            if let Stmt::Declare { local, .. } = stmt {
                self.forget_local(*local);
            }
        }
        Ok(())
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<()> {
        match stmt {
            Stmt::For { var, lo, hi, kind, body } => {
                if self.lane.is_some() {
                    return Err(BailoutReason::NotStraight);
                }
                self.repeat(*var, *lo, hi, *kind, body)
            }
            Stmt::Set { node, index, value } => self.set_node(*node, index, value),
            Stmt::SetLocal { local, index, value } => self.set_local(*local, index, value),
            Stmt::Zero { .. } if self.lane.is_some() => Err(BailoutReason::NotStraight),
            Stmt::Zero { node } => {
                self.zero(*node);
                Ok(())
            }
            Stmt::SetDynamic { .. } => Err(BailoutReason::ComputedIndex),
            Stmt::Log { .. } => Err(BailoutReason::Log),
            Stmt::Declare { .. } | Stmt::Comment(_) => Ok(()),
        }
    }

    fn repeat(&mut self, var: LoopId, lo: i64, hi: &Bound, kind: LoopKind, body: &[Stmt]) -> Result<()> {
        let count = hi.limit - lo;
        match kind {
            _ if count <= 0 => Ok(()),
            _ if hi.condition().is_some() => Err(BailoutReason::Condition),
            _ if !hi.is_constant() => {
                let range = LoopRange::Clipped { limit: count as u64, clips: self.clips(lo, hi) };
                self.looped(var, lo..hi.limit, range, 1, body)
            }
            _ if count == 1 => self.once(var, lo, body),
            LoopKind::Vector => self.vector(var, count, body),
            LoopKind::Unrolled if replicates(var, count, body) => {
                (lo..hi.limit).try_for_each(|at| self.once(var, at, body))
            }
            _ => self.counted(var, lo..hi.limit, body),
        }
    }

    /// The sums that end the counter of a loop, which starts at 0.
    fn clips(&self, lo: i64, hi: &Bound) -> Vec<CounterSum> {
        let from_zero = hi.clips().iter().map(|clip| self.resolve(&clip.plus_constant(-lo)));
        from_zero.map(|Resolved { offset, terms, .. }| CounterSum { offset, terms }).collect()
    }

    /// Translates an iteration with a constant index.
    fn once(&mut self, var: LoopId, at: i64, body: &[Stmt]) -> Result<()> {
        self.bind(var, LinearValue::known(at), (at, at));
        self.block(body)
    }

    /// Translates a serial loop: an unrolled loop, then the remaining iterations.
    fn counted(&mut self, var: LoopId, range: Range<i64>, body: &[Stmt]) -> Result<()> {
        let Range { start: lo, end: hi } = range;
        let per_round = per_round(hi - lo, body);
        let end = lo + (hi - lo) / per_round * per_round;
        let rounds = (end - lo) / per_round;
        if rounds > 1 {
            self.looped(var, lo..end, LoopRange::Constant(rounds as u64), per_round, body)?;
        }
        let done = if rounds > 1 { end } else { lo };
        (done..hi).try_for_each(|at| self.once(var, at, body))
    }

    /// Translates a loop over the values in `span`. Its body has `per_round` iterations of the original one.
    fn looped(
        &mut self,
        var: LoopId,
        span: Range<i64>,
        range: LoopRange,
        per_round: i64,
        body: &[Stmt],
    ) -> Result<()> {
        self.rounds(range, body, |s, counter| {
            (0..per_round).try_for_each(|at| {
                let position =
                    LinearValue { term: Some((Index::Counter(counter), per_round)), offset: span.start + at };
                s.bind(var, position, (span.start + at, span.end - per_round + at));
                s.block(body)
            })
        })
    }

    /// Translates a loop around the code that `round` emits, which stores to the same arrays as `body`.
    fn rounds(
        &mut self,
        range: LoopRange,
        body: &[Stmt],
        round: impl FnOnce(&mut Self, Counter) -> Result<()>,
    ) -> Result<()> {
        self.enter_loop(body);
        let counter = self.build.open(range, stored(body));
        round(self, counter)?;
        self.leave_loop(body);
        self.build.close();
        self.drop_hidden();
        Ok(())
    }

    /// Translates a vector loop as one strip, or as several if it is long. The assembler decides how many
    /// machine registers a strip takes.
    fn vector(&mut self, var: LoopId, count: i64, body: &[Stmt]) -> Result<()> {
        let width = count.min(MAX_LANES);
        let mut done = 0;
        if count / width > MAX_STRIPS && !scan::picks_locals(var, body) {
            let rounds = count / width;
            done = rounds * width;
            self.rounds(LoopRange::Constant(rounds as u64), body, |s, counter| {
                let position = LinearValue { term: Some((Index::Counter(counter), width)), offset: 0 };
                s.strip(var, position, (0, done - 1), width, body)
            })?;
        }
        while done < count {
            let lanes = width.min(count - done);
            let position = LinearValue::known(done);
            self.strip(var, position, (done, done + lanes - 1), lanes, body)?;
            done += lanes;
        }
        Ok(())
    }

    /// Translates neighboring iterations of a vector loop together.
    fn strip(
        &mut self,
        var: LoopId,
        at: LinearValue<Index>,
        range: (i64, i64),
        lanes: i64,
        body: &[Stmt],
    ) -> Result<()> {
        self.bind(var, at, range);
        self.lane = Some((var, lanes as u32));
        let result = self.block(body);
        self.lane = None;
        result
    }

    pub(super) fn bind(&mut self, var: LoopId, position: LinearValue<Index>, range: (i64, i64)) {
        self.vars.insert(var, position);
        self.ranges.insert(var, range);
    }
}

/// The arrays that a block stores to or declares.
pub(super) fn stored(body: &[Stmt]) -> BTreeSet<Array> {
    let mut stored = BTreeSet::new();
    walk::stmts(body).for_each(|stmt| match stmt {
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

/// Whether an unrolled loop is replicated. It must be if it selects registers by its variable.
fn replicates(var: LoopId, count: i64, body: &[Stmt]) -> bool {
    let fits =
        count <= MAX_REPLICAS && scan::size(body).saturating_mul(count as usize) <= MAX_REPLICATED_SIZE;
    fits || scan::picks_locals(var, body)
}

/// The unroll factor of a serial loop.
fn per_round(count: i64, body: &[Stmt]) -> i64 {
    if scan::has_loops(body) {
        return 1;
    }
    let wanted = (ROUND_SIZE / scan::size(body).max(1)) as i64;
    let most = wanted.clamp(1, MAX_PER_ROUND.min(count));
    // Remaining iterations would be replicated, so the factor divides the count.
    (1..=most).rev().find(|per_round| count % per_round == 0).unwrap_or(1)
}
