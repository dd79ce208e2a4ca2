//! Lets loops that share data run in step.
//!
//! `for i in 0..n { A(i) }; C; for j in 0..n { B(j) } = C; for i in 0..n { A(i); B(i) }` (or with `C` last), if nothing of `B(i)`
//! depends on what `A` does in a later iteration ([`access::in_step`]), and one of the two loops may change places with `C`. What
//! stands in the fused body is fused in the same way, so nests meet on all the loops they share: elementwise operations become one
//! loop with several stores, an operation on the result of a contraction becomes its epilogue, operations on rows become one
//! loop over rows. The result feeds the next step while it is in a register or in the innermost cache. A nest whose loops stand in
//! another order is turned if that is free ([`interchange`]).
//!
//! Two loops stay apart if
//!
//! * they share nothing that differs between iterations: there is nothing to gain;
//! * only one of them has independent iterations: the other would keep it from running on several threads, or in lanes;
//! * a contraction would lose a loop of its own ([`matrices`]): its tiles want both rows and columns, and no loop beside its own;
//! * their contiguous axes are different loops, so that one of them would run across memory, or only one of them can be done in
//!   lanes;
//! * the innermost loop would stream through more arrays than a cache keeps apart, or need more registers for accumulators than
//!   there are;
//! * they hold many statements already ([`STATEMENTS`]).

use std::collections::BTreeSet;

use lowered_ir::ir::{
    Affine, Block, Bound, LocalDecl, LocalId, Locals, LoopId, LoopKind, NodeRef, Routine, Space, Stmt, walk,
};

use crate::analysis::names::Names;
use crate::analysis::nest;
use crate::cpu::{interchange, matrices};
use crate::fuse::STATEMENTS;
use codegen_core::Caps;
use codegen_core::access::{self, Effects};

/// How many statements a loop may pass on its way to another.
const REACH: usize = 32;
/// Arrays that one innermost loop streams through at most.
const STREAMS: usize = 12;
/// Statements of one nest at most, where [`STATEMENTS`] bounds each of its loops.
const ALL_STATEMENTS: usize = 8 * STATEMENTS;

/// Fuses the statements of a routine wherever that is legal and pays.
pub(crate) fn fuse(routine: &mut Routine, caps: &Caps) {
    let fuser = Fuser { names: Names::of(routine), locals: routine.locals(), caps };
    routine.body = fuser.block(std::mem::take(&mut routine.body), 0);
}

struct Fuser<'a> {
    names: Names,
    locals: Locals,
    caps: &'a Caps,
}

/// A statement and what it depends on.
struct Placed {
    stmt: Stmt,
    effects: Effects,
    /// How many statements it is, those inside counted.
    size: usize,
}

impl Placed {
    fn new(stmt: Stmt) -> Placed {
        let stmts = std::slice::from_ref(&stmt);
        let (effects, mut size) = (Effects::of(stmts), 0);
        walk::each_stmt(stmts, &mut |_| size += 1);
        Placed { stmt, effects, size }
    }
}

/// Which of two statements moves to the other.
enum Way {
    /// The later one moves up.
    Up,
    /// The earlier one moves down.
    Down,
}

impl Fuser<'_> {
    /// The statements of a block, so many loops deep: first those inside each loop, then the loops.
    fn block(&self, block: Block, depth: usize) -> Block {
        let inside = |stmt| match stmt {
            Stmt::For { var, lo, hi, kind, body } => {
                Stmt::For { var, lo, hi, kind, body: self.block(body, depth + 1) }
            }
            stmt => stmt,
        };
        self.onto(Vec::new(), block.into_iter().map(inside).collect(), depth)
    }

    /// The statements of a block behind others, each fused with the nearest that takes it.
    fn onto(&self, before: Vec<Placed>, block: Block, depth: usize) -> Block {
        let mut out = before;
        for stmt in block {
            self.place(&mut out, Placed::new(stmt), depth);
        }
        out.into_iter().map(|placed| placed.stmt).collect()
    }

    fn place(&self, out: &mut Vec<Placed>, next: Placed, depth: usize) {
        match self.partner(out, &next, depth) {
            None => out.push(next),
            Some((at, Way::Up, fused)) => {
                out[at] = Placed::new(fused);
                // A remark that stood before the second loop is in the fused one now.
                out.truncate(out.len() - remarks(out).len());
            }
            Some((at, Way::Down, fused)) => {
                out.truncate(out.len() - remarks(out).len());
                out.remove(at);
                out.push(Placed::new(fused));
            }
        }
    }

    /// The nearest loop that the next one can run in step with, and the two as one.
    fn partner(&self, out: &[Placed], next: &Placed, depth: usize) -> Option<(usize, Way, Stmt)> {
        loop_of(&next.stmt)?;
        let mut is_free = true;
        for (at, first) in out.iter().enumerate().rev().take(REACH) {
            let sinks = || out[at + 1..].iter().all(|between| between.effects.commute(&first.effects));
            let shares = !first.effects.nodes.is_disjoint(&next.effects.nodes);
            let turned = || interchange::like(&first.stmt, &next.stmt, &self.names);
            let fused = |next: &Stmt| self.fused(&first.stmt, next, remarks(out), depth);
            if shares
                && first.size + next.size <= ALL_STATEMENTS
                && !streams_too_much(first, next)
                && (is_free || sinks())
                && let Some(fused) = fused(&next.stmt).or_else(|| fused(&turned()?))
            {
                return Some((at, if is_free { Way::Up } else { Way::Down }, fused));
            }
            is_free &= first.effects.commute(&next.effects);
        }
        None
    }

    /// Two loops as one, if they have one kind and extent, and that is legal and pays; the remarks stand between the two bodies.
    fn fused(&self, first: &Stmt, second: &Stmt, remarks: &[Placed], depth: usize) -> Option<Stmt> {
        let (a, b) = (loop_of(first)?, loop_of(second)?);
        if (a.kind, a.extent) != (b.kind, b.extent) || a.body.len() + b.body.len() > STATEMENTS {
            return None;
        }
        let mut second_body = b.body.to_vec();
        walk::substitute(&mut second_body, b.var, &Affine::var(a.var));
        let legal = shares_moving(a.var, a.body, &second_body)
            && access::in_step(a.var, a.body, &second_body, &self.names.ranges)
            && self.same_independence(&a, &b, depth)
            && self.same_lanes(first, second);
        if !legal {
            return None;
        }
        let mut before: Vec<Placed> = a.body.iter().cloned().map(Placed::new).collect();
        if a.kind == LoopKind::Serial {
            before.extend(remarks.iter().map(|remark| Placed::new(remark.stmt.clone())));
        }
        let body = self.onto(before, second_body, depth + 1);
        let fused = Stmt::looped(a.var, a.extent, a.kind, body);
        (matrices::keeps(first, second, &fused, &self.names) && self.is_light(&fused)).then_some(fused)
    }

    /// Whether both loops have independent iterations, or neither; inner loops that hold lanes have no use for that.
    fn same_independence(&self, a: &Loop<'_>, b: &Loop<'_>, depth: usize) -> bool {
        let independent = |l: &Loop<'_>| access::independent(l.var, l.body, &self.names.ranges);
        let settled =
            a.kind == LoopKind::Vector || depth > 0 && nest::has_lanes(a.body) && nest::has_lanes(b.body);
        settled || independent(a) == independent(b)
    }

    /// Whether two nests of the same depth have the same loop for their lanes, or neither can have any; and whether a nest beside one
    /// with more in it keeps its contiguous loop inside.
    fn same_lanes(&self, first: &Stmt, second: &Stmt) -> bool {
        match (self.lanes(first), self.lanes(second)) {
            (Some(a), Some(b)) if a.depth == b.depth => a == b,
            (Some(only), None) | (None, Some(only)) => only.depth == 1 || only.at != Some(0),
            _ => true,
        }
    }

    /// What a nest without other loops can do in lanes.
    fn lanes(&self, stmt: &Stmt) -> Option<Lanes> {
        let (loops, body) = nest::chain(stmt);
        if body.iter().any(|stmt| matches!(stmt, Stmt::For { .. })) {
            return None;
        }
        let scores = loops.iter().map(|&var| nest::lane_score(body, var));
        let (at, best) = scores.enumerate().max_by_key(|&(_, score)| score)?;
        let works = best > 0 && nest::vector_width(body, loops[at], &self.names).is_some();
        Some(Lanes { depth: loops.len(), at: works.then_some(at) })
    }

    /// Whether a loop without serial loops inside has few enough streams and accumulators.
    fn is_light(&self, stmt: &Stmt) -> bool {
        let Some(Loop { body, .. }) = loop_of(stmt) else { return true };
        let has_loops = body.iter().any(|s| matches!(s, Stmt::For { kind: LoopKind::Serial, .. }));
        has_loops || access::nodes(body).len() <= STREAMS && self.accumulators(body) <= self.registers()
    }

    /// Bytes of the arrays in registers that a body changes and leaves to others.
    fn accumulators(&self, body: &[Stmt]) -> usize {
        let (own, set) = (access::declared(body), Effects::of(body).set);
        set.difference(&own).map(|local| self.bytes(*local)).sum()
    }

    fn bytes(&self, local: LocalId) -> usize {
        let bytes = |decl: &LocalDecl| decl.dims.iter().product::<usize>() * decl.dtype.size_bytes();
        self.locals.get(&local).filter(|decl| decl.space == Space::Register).map_or(0, bytes)
    }

    fn registers(&self) -> usize {
        self.caps.vector_registers / 2 * self.caps.vector_bytes
    }
}

/// Which loop of a nest does best as lanes.
#[derive(PartialEq)]
struct Lanes {
    /// How many loops there are.
    depth: usize,
    /// The loop, counted from outside, if one gains from it.
    at: Option<usize>,
}

/// Whether two loops without serial loops inside would stream through too many arrays as one.
fn streams_too_much(first: &Placed, second: &Placed) -> bool {
    let is_serial = |stmt: &Stmt| matches!(stmt, Stmt::For { kind: LoopKind::Serial, .. });
    let innermost = |placed: &Placed| loop_of(&placed.stmt).is_some_and(|l| !l.body.iter().any(is_serial));
    innermost(first)
        && innermost(second)
        && first.effects.nodes.union(&second.effects.nodes).count() > STREAMS
}

/// The remarks at the end.
fn remarks(placed: &[Placed]) -> &[Placed] {
    let start = placed.iter().rposition(|p| !matches!(p.stmt, Stmt::Comment(_))).map_or(0, |at| at + 1);
    &placed[start..]
}

/// A loop that can be fused.
struct Loop<'a> {
    var: LoopId,
    extent: i64,
    kind: LoopKind,
    body: &'a [Stmt],
}

/// The loop that a statement is, if it starts at 0, has a constant bound, and is serial or stands for lanes.
fn loop_of(stmt: &Stmt) -> Option<Loop<'_>> {
    match stmt {
        Stmt::For {
            var,
            lo: 0,
            hi: Bound { limit, symbol: None },
            kind: kind @ (LoopKind::Serial | LoopKind::Vector),
            body,
        } => Some(Loop { var: *var, extent: *limit, kind: *kind, body }),
        _ => None,
    }
}

/// Whether both bodies touch a node at an index that moves with the loop.
fn shares_moving(var: LoopId, first: &[Stmt], second: &[Stmt]) -> bool {
    moving(var, first).intersection(&moving(var, second)).next().is_some()
}

fn moving(var: LoopId, body: &[Stmt]) -> BTreeSet<NodeRef> {
    let touches = access::touches(body).into_iter();
    touches
        .filter(|t| t.indices().is_some_and(|i| i.iter().any(|i| i.mentions(var))))
        .map(|t| t.node)
        .collect()
}
