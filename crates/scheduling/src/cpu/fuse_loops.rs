//! Loop fusion: loops that access the same data become one loop.
//!
//! `for i in 0..n { A(i) }; C; for j in 0..n { B(j) } = C; for i in 0..n { A(i); B(i) }` (or with `C` last),
//! if `B(i)` does not depend on a later iteration of `A` ([`access::can_fuse`]), and one of the two loops may
//! swap places with `C`. The statements of the fused body are fused in the same way, so nests share all
//! common loops: elementwise operations become one loop with several stores, an operation on the result of a
//! contraction becomes its epilogue, operations on rows become one loop over rows. The second statement finds
//! the result of the first in a register or in the innermost cache. If the loops of a nest are in another
//! order, they are interchanged, provided that costs nothing ([`interchange`]).
//!
//! Two loops stay apart if
//!
//! * they access no common node at indices that move alike with the loop: there is nothing to gain;
//! * only one of them has independent iterations: the other would keep it from running on several threads, or
//!   in lanes;
//! * a contraction would lose its form ([`fusible_contractions`]): its tiles need loops over rows and over
//!   columns, and inside of these no loop but its own;
//! * different loops are contiguous, so that one nest would stride through memory, or only one of them can
//!   run in lanes;
//! * the innermost loop would access more arrays than a cache keeps apart, or need more registers for
//!   accumulators than there are;
//! * they contain many statements already ([`FUSED_STATEMENTS`]).

use std::collections::BTreeSet;

use lowered_ir::ir::{
    Affine, Block, LocalDecl, LocalId, Locals, LoopId, LoopKind, NodeRef, Routine, Space, Stmt, walk,
};

use crate::analysis::access::{self, Effects};
use crate::analysis::cost::FUSED_STATEMENTS;
use crate::analysis::names::Names;
use crate::analysis::nest;
use crate::cpu::{fusible_contractions, interchange};
use codegen_core::Caps;
use codegen_core::dependence::{self, Touch};

/// The most statements between two loops that fuse.
const REACH: usize = 32;
/// The most arrays that one innermost loop streams through.
const STREAMS: usize = 12;
/// The most statements of a whole nest. [`FUSED_STATEMENTS`] limits the statements of each single loop.
const ALL_STATEMENTS: usize = 8 * FUSED_STATEMENTS;

/// Fuses the loops of a routine wherever that is legal and pays.
pub(crate) fn fuse_loops(routine: &mut Routine, caps: &Caps) {
    let fuser = Fuser { names: Names::of(routine), locals: routine.locals(), caps };
    routine.body = fuser.block(std::mem::take(&mut routine.body), 0);
}

struct Fuser<'a> {
    names: Names,
    locals: Locals,
    caps: &'a Caps,
}

/// A statement and its effects.
struct PlacedStmt {
    stmt: Stmt,
    effects: Effects,
    /// The number of statements, those in its loops included.
    size: usize,
}

impl PlacedStmt {
    fn new(stmt: Stmt) -> PlacedStmt {
        let stmts = std::slice::from_ref(&stmt);
        let (effects, mut size) = (Effects::of(stmts), 0);
        walk::each_stmt(stmts, &mut |_| size += 1);
        PlacedStmt { stmt, effects, size }
    }
}

/// The statement that moves to the other one.
enum Direction {
    /// The later statement moves up.
    Up,
    /// The earlier statement moves down.
    Down,
}

impl Fuser<'_> {
    /// Fuses the statements of a block `depth` loops deep: first those inside each loop, then the loops.
    fn block(&self, block: Block, depth: usize) -> Block {
        let inside = |stmt| match stmt {
            Stmt::For { var, lo, hi, kind, body } => {
                Stmt::For { var, lo, hi, kind, body: self.block(body, depth + 1) }
            }
            stmt => stmt,
        };
        self.onto(Vec::new(), block.into_iter().map(inside).collect(), depth)
    }

    /// Appends the statements of a block to `before`, and fuses each of them with the nearest loop that
    /// accepts it.
    fn onto(&self, before: Vec<PlacedStmt>, block: Block, depth: usize) -> Block {
        let mut out = before;
        for stmt in block {
            self.place(&mut out, PlacedStmt::new(stmt), depth);
        }
        out.into_iter().map(|placed| placed.stmt).collect()
    }

    fn place(&self, out: &mut Vec<PlacedStmt>, next: PlacedStmt, depth: usize) {
        match self.partner(out, &next, depth) {
            None => out.push(next),
            Some((at, Direction::Up, fused)) => {
                out[at] = PlacedStmt::new(fused);
                // The comments before the second loop are part of the fused loop now.
                out.truncate(out.len() - remarks(out).len());
            }
            Some((at, Direction::Down, fused)) => {
                out.truncate(out.len() - remarks(out).len());
                out.remove(at);
                out.push(PlacedStmt::new(fused));
            }
        }
    }

    /// The nearest loop that fuses with the next statement, the direction, and the fused loop.
    fn partner(
        &self,
        out: &[PlacedStmt],
        next: &PlacedStmt,
        depth: usize,
    ) -> Option<(usize, Direction, Stmt)> {
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
                return Some((at, if is_free { Direction::Up } else { Direction::Down }, fused));
            }
            is_free &= first.effects.commute(&next.effects);
        }
        None
    }

    /// Fuses two loops of one kind and extent, if that is legal and pays. Comments go between the two bodies.
    fn fused(&self, first: &Stmt, second: &Stmt, remarks: &[PlacedStmt], depth: usize) -> Option<Stmt> {
        let (a, b) = (loop_of(first)?, loop_of(second)?);
        if (a.kind, a.extent) != (b.kind, b.extent) || a.body.len() + b.body.len() > FUSED_STATEMENTS {
            return None;
        }
        let mut second_body = b.body.to_vec();
        walk::substitute(&mut second_body, b.var, &Affine::var(a.var));
        let legal = self.shares_moving(a.var, a.body, &second_body)
            && access::can_fuse(a.var, a.body, &second_body, &self.names.ranges)
            && self.same_independence(&a, &b, depth)
            && self.same_lanes(first, second);
        if !legal {
            return None;
        }
        let mut before: Vec<PlacedStmt> = a.body.iter().cloned().map(PlacedStmt::new).collect();
        if a.kind == LoopKind::Serial {
            before.extend(remarks.iter().map(|remark| PlacedStmt::new(remark.stmt.clone())));
        }
        let body = self.onto(before, second_body, depth + 1);
        let fused = Stmt::looped(a.var, a.extent, a.kind, body);
        (fusible_contractions::keeps_contractions(first, second, &fused, &self.names)
            && self.is_light(&fused))
        .then_some(fused)
    }

    /// Whether both bodies access a common node, and an iteration of the loop moves both accesses by as many
    /// elements. A loop over rows and a loop over columns have no elements in common that are worth a cache.
    fn shares_moving(&self, var: LoopId, first: &[Stmt], second: &[Stmt]) -> bool {
        self.moving(var, first).intersection(&self.moving(var, second)).next().is_some()
    }

    /// The nodes that a body accesses at indices that move with the loop, and by how many elements.
    fn moving(&self, var: LoopId, body: &[Stmt]) -> BTreeSet<(NodeRef, i64)> {
        let touches = dependence::touches(body).into_iter();
        let step = |touch: Touch<'_>| {
            let step = self.names.position(touch.node, touch.indices()?).coefficient(var);
            (step != 0).then_some((touch.node, step))
        };
        touches.filter_map(step).collect()
    }

    /// Whether both loops or neither have independent iterations. Inner loops that contain vector loops need
    /// no independence.
    fn same_independence(&self, a: &FusibleLoop<'_>, b: &FusibleLoop<'_>, depth: usize) -> bool {
        let independent = |l: &FusibleLoop<'_>| dependence::independent(l.var, l.body, &self.names.ranges);
        let settled =
            a.kind == LoopKind::Vector || depth > 0 && nest::has_lanes(a.body) && nest::has_lanes(b.body);
        settled || independent(a) == independent(b)
    }

    /// Whether the loops that two nests would use as lanes allow them to fuse. Nests of the same depth must
    /// use the same loop, or both none. If only one of the nests has further loops in its innermost body, the
    /// other nest must not use its outermost loop of several, because in the fused nest this loop would
    /// enclose the further loops.
    fn same_lanes(&self, first: &Stmt, second: &Stmt) -> bool {
        match (self.lanes(first), self.lanes(second)) {
            (Some(a), Some(b)) if a.depth == b.depth => a == b,
            (Some(only), None) | (None, Some(only)) => only.depth == 1 || only.at != Some(0),
            _ => true,
        }
    }

    /// The loop that a nest would use as lanes. None if further loops stand in the body of its innermost
    /// loop.
    fn lanes(&self, stmt: &Stmt) -> Option<LaneChoice> {
        let (loops, body) = nest::chain(stmt);
        if body.iter().any(|stmt| matches!(stmt, Stmt::For { .. })) {
            return None;
        }
        let scores = loops.iter().map(|&var| nest::lane_score(body, var));
        let (at, best) = scores.enumerate().max_by_key(|&(_, score)| score)?;
        let works = best > 0 && nest::vector_width(body, loops[at], &self.names).is_some();
        Some(LaneChoice { depth: loops.len(), at: works.then_some(at) })
    }

    /// Whether a loop without serial loops inside accesses few enough arrays and needs few enough
    /// accumulators.
    fn is_light(&self, stmt: &Stmt) -> bool {
        let Some(FusibleLoop { body, .. }) = loop_of(stmt) else { return true };
        let has_loops = body.iter().any(|s| matches!(s, Stmt::For { kind: LoopKind::Serial, .. }));
        has_loops || access::nodes(body).len() <= STREAMS && self.accumulators(body) <= self.registers()
    }

    /// Bytes of register arrays that a body changes and that live on after it.
    fn accumulators(&self, body: &[Stmt]) -> usize {
        let (own, set) = (dependence::declared(body), Effects::of(body).set);
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

/// The loop of a nest that is best as lanes.
#[derive(PartialEq)]
struct LaneChoice {
    /// The number of loops of the nest.
    depth: usize,
    /// The position of the loop, counted from outside; none if no loop gains from lanes.
    at: Option<usize>,
}

/// Whether two loops without serial loops inside would access too many arrays as one loop.
fn streams_too_much(first: &PlacedStmt, second: &PlacedStmt) -> bool {
    let is_serial = |stmt: &Stmt| matches!(stmt, Stmt::For { kind: LoopKind::Serial, .. });
    let innermost =
        |placed: &PlacedStmt| loop_of(&placed.stmt).is_some_and(|l| !l.body.iter().any(is_serial));
    innermost(first)
        && innermost(second)
        && first.effects.nodes.union(&second.effects.nodes).count() > STREAMS
}

/// The comments at the end of a list of statements.
fn remarks(placed: &[PlacedStmt]) -> &[PlacedStmt] {
    let start = placed.iter().rposition(|p| !matches!(p.stmt, Stmt::Comment(_))).map_or(0, |at| at + 1);
    &placed[start..]
}

/// A loop that can be fused.
struct FusibleLoop<'a> {
    var: LoopId,
    extent: i64,
    kind: LoopKind,
    body: &'a [Stmt],
}

/// Recognises a serial or vector loop that starts at 0 and has a constant bound.
fn loop_of(stmt: &Stmt) -> Option<FusibleLoop<'_>> {
    match stmt {
        Stmt::For { var, lo: 0, hi, kind: kind @ (LoopKind::Serial | LoopKind::Vector), body } => {
            Some(FusibleLoop { var: *var, extent: hi.constant()?, kind: *kind, body })
        }
        _ => None,
    }
}
