//! Loop-invariant code motion: if a value is the same in every iteration of a loop, it is computed once,
//! before the loop.
//!
//! The pass moves pure regions (a local with the statements that compute it) that contain a loop or an
//! expensive operation, and expensive subexpressions. Plain reads and cheap arithmetic stay, so that
//! perfectly nested loops stay perfectly nested unless moving pays. Equal regions moved out of two loops of a
//! block are then computed once, as by the pass [`cse`](super::cse).
//!
//! The scheduler partitions kernels and distributes threads at outermost loops, but not at a loop that reads
//! a local declared before it. So a region leaves an outermost loop only if it takes 64 times as long as the
//! rest of the loop body.
//!
//! # Why this is safe
//! Evaluation is total, so an additional evaluation can only do harm by reading memory out of bounds. The
//! verifier proves a read in bounds from the ranges of the variables in its index and guard. A moved
//! expression does not mention the loop's variable, and the other variables are in scope, with the same
//! ranges, before the loop. The pass treats only loops that certainly run, so no moved computation is wasted,
//! and only serial and unrolled ones, since the iterations of other loops share nothing but memory.

use std::ops::RangeInclusive;

use crate::ir::{
    Block, Expr, IdMap, IdSet, LocalId, LoopId, LoopKind, LoweredRoutine, NodeRef, Stmt, Var, walk,
};

use super::bind::Binder;
use super::cost::{is_expensive, work};
use super::cse::share_equal_regions;
use super::effects::Effects;
use super::pure_regions::{PureRegion, RegionIndex};
use super::ranges::LoopInfo;

/// The approximate number of threads among which the scheduler could distribute an outermost loop.
const THREADS: u64 = 64;

/// Moves invariant computations out of loops, and computes equal ones once.
pub(crate) fn licm(routine: &mut LoweredRoutine) {
    Binder::rewrite(routine, |binder, body| Hoister { binder }.block(body, true));
    share_equal_regions(routine);
}

struct Hoister<'a> {
    binder: Binder<'a>,
}

impl Hoister<'_> {
    fn block(&mut self, block: Block, outermost: bool) -> Block {
        let mut out = Block::with_capacity(block.len());
        for stmt in block {
            let Stmt::For { var, lo, hi, kind, body } = stmt else {
                out.push(stmt);
                continue;
            };
            let mut body = self.block(body, false);
            let in_order = matches!(kind, LoopKind::Serial | LoopKind::Unrolled);
            if in_order && LoopInfo::new(lo, &hi, kind, self.binder.symbols()).runs {
                lift_groups(var, &mut body, &mut out, outermost);
                if !outermost {
                    self.lift_expressions(var, &mut body, &mut out);
                }
            }
            out.push(Stmt::For { var, lo, hi, kind, body });
        }
        out
    }

    /// Moves expensive invariant parts of the values of the body's own statements into locals before the
    /// loop.
    fn lift_expressions(&mut self, var: LoopId, body: &mut Block, out: &mut Block) {
        if !body.iter().flat_map(Stmt::values).any(is_expensive) {
            return;
        }
        let inside = Effects::of(body);
        let mut bound = IdMap::default();
        for stmt in body.iter_mut() {
            walk::map_own_values(stmt, &mut |value| self.lift(value, var, &inside, &mut bound, out));
        }
    }

    fn lift(
        &mut self,
        expr: Expr,
        var: LoopId,
        inside: &Effects,
        bound: &mut IdMap<Expr, LocalId>,
        out: &mut Block,
    ) -> Expr {
        if !is_expensive(&expr) {
            return expr;
        }
        if !is_invariant(&expr, var, inside) {
            return walk::map_children(expr, &mut |child| self.lift(child, var, inside, bound, out));
        }
        let local = bound.get(&expr).copied().unwrap_or_else(|| self.binder.bind(expr.clone(), out));
        bound.insert(expr, local);
        Expr::local(local)
    }
}

/// Moves invariant regions of the body before the loop, until none is left; one may depend on another.
fn lift_groups(var: LoopId, body: &mut Block, out: &mut Block, outermost: bool) {
    while body.iter().any(|stmt| matches!(stmt, Stmt::Declare { .. })) {
        let before = out.len();
        lift_groups_once(var, body, out, outermost);
        if out.len() == before {
            return;
        }
    }
}

/// Moves the pure regions of a loop body that can be moved, in one walk. A region follows the regions that it
/// depends on.
fn lift_groups_once(var: LoopId, body: &mut Block, out: &mut Block, outermost: bool) {
    let effects: Vec<Effects> = body.iter().map(|stmt| Effects::of(std::slice::from_ref(stmt))).collect();
    let places = RegionIndex::of(effects.iter());
    let mut inside = LoopBodyEffects::of(&effects, body);
    let (mut moved, mut at) = (Vec::new(), 0);
    while at < body.len() {
        let all = |range: RangeInclusive<usize>| {
            let mut all = Effects::default();
            effects[range].iter().for_each(|effects| all.add(effects));
            all
        };
        let group = places.region_at(body, at, all);
        match group.filter(|group| is_movable(group, &body[group.range.clone()], var, &inside, outermost)) {
            Some(PureRegion { range, .. }) => {
                inside.remove(&effects[range.clone()], &body[range.clone()]);
                at = range.end() + 1;
                moved.push(range);
            }
            None => at += 1,
        }
    }
    if moved.is_empty() {
        return;
    }
    let mut moved = moved.into_iter().peekable();
    for (at, stmt) in std::mem::take(body).into_iter().enumerate() {
        while moved.next_if(|range| *range.end() < at).is_some() {}
        let is_moved = moved.peek().is_some_and(|range| range.contains(&at));
        if is_moved { &mut *out } else { &mut *body }.push(stmt);
    }
}

/// The effects of a loop body that decide whether a region may leave it. Pure regions write no nodes.
struct LoopBodyEffects {
    writes: IdSet<NodeRef>,
    /// The number of statements that declare each local or store to it.
    locals: IdMap<LocalId, usize>,
    work: u64,
}

impl LoopBodyEffects {
    fn of(effects: &[Effects], body: &[Stmt]) -> LoopBodyEffects {
        let mut inside =
            LoopBodyEffects { writes: IdSet::default(), locals: IdMap::default(), work: work(body) };
        for effects in effects {
            inside.writes.extend(&effects.writes);
            for &local in effects.declares.iter().chain(&effects.local_writes) {
                *inside.locals.entry(local).or_default() += 1;
            }
        }
        inside
    }

    fn remove(&mut self, effects: &[Effects], stmts: &[Stmt]) {
        for local in effects.iter().flat_map(|e| e.declares.iter().chain(&e.local_writes)) {
            if let Some(count) = self.locals.get_mut(local) {
                *count -= 1;
            }
        }
        // Work that reached the maximum of `u64` stays there.
        self.work = if self.work == u64::MAX { u64::MAX } else { self.work - work(stmts) };
    }

    /// Whether the body declares the local or stores to it.
    fn changes(&self, local: LocalId) -> bool {
        self.locals.get(&local).is_some_and(|&count| count > 0)
    }
}

fn is_movable(
    group: &PureRegion,
    stmts: &[Stmt],
    var: LoopId,
    inside: &LoopBodyEffects,
    outermost: bool,
) -> bool {
    let effects = &group.effects;
    let mut free = effects.local_reads.difference(&effects.declares);
    is_worthwhile(stmts)
        && (!outermost || outweighs(stmts, inside.work))
        && !effects.vars.contains(&Var::Loop(var))
        && effects.reads.is_disjoint(&inside.writes)
        && free.all(|&local| !inside.changes(local))
}

/// Whether a region takes at least [`THREADS`] times as long as the rest of its block. If so, one thread that
/// computes the region once, and the rest in each iteration, takes about as long as [`THREADS`] threads that
/// divide the iterations among them and compute the region in each.
fn outweighs(group: &[Stmt], all: u64) -> bool {
    let own = work(group);
    own < u64::MAX && own / THREADS >= all - own
}

fn is_worthwhile(group: &[Stmt]) -> bool {
    group.iter().any(|s| matches!(s, Stmt::For { .. })) || walk::values(group).any(is_expensive)
}

/// Whether the value is the same in every iteration of the loop over `var`, whose body has the effects
/// `inside`.
fn is_invariant(expr: &Expr, var: LoopId, inside: &Effects) -> bool {
    let mut reads = Effects::default();
    reads.read(expr);
    !reads.vars.contains(&Var::Loop(var))
        && reads.reads.is_disjoint(&inside.writes)
        && reads.local_reads.is_disjoint(&inside.local_writes)
        && reads.local_reads.is_disjoint(&inside.declares)
}
