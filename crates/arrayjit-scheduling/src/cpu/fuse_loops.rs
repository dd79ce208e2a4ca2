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
//! * a contraction would lose its form ([`ContractionShapes`]): its tiles need loops over rows and over
//!   columns, and inside of these no loop but its own;
//! * different loops are contiguous, so that one nest would stride through memory, or only one of them can
//!   run in lanes;
//! * the innermost loop would access more arrays than a cache keeps apart, or need more registers for
//!   accumulators than there are;
//! * they contain many statements, or long values, already ([`FUSED_STATEMENTS`], [`FUSED_COST`]).
//!
//! Pairs of statements that are equal but for their names fuse alike, so one of them is tried
//! ([`EqualParts`]).

use std::collections::BTreeSet;

use lowered_ir::ir::{
    Affine, Block, Bound, LocalDecl, LocalId, Locals, LoopId, LoopKind, LoweredRoutine, NodeRef, Space, Stmt,
    walk,
};

use crate::analysis::access::{self, Effects};
use crate::analysis::cost::{FUSED_COST, FUSED_STATEMENTS};
use crate::analysis::names::Names;
use crate::analysis::nest;
use crate::analysis::shape;
use crate::cpu::equal_parts::EqualParts;
use crate::cpu::forward_stores::forward_stores;
use crate::cpu::fusible_contractions;
use crate::cpu::interchange;
use crate::cpu::placed_stmt::{LaneChoice, PlacedStmt};
use crate::cpu::unroll_short_rows;
use codegen_core::Caps;
use codegen_core::dependence::{self, Touch};

/// The most statements between two loops that fuse.
const REACH: usize = 32;
/// The most arrays that one innermost loop streams through.
const STREAMS: usize = 12;
/// The most statements of a whole nest. [`FUSED_STATEMENTS`] limits the statements of each single loop.
const ALL_STATEMENTS: usize = 8 * FUSED_STATEMENTS;

/// Fuses the strips that [`vectorize`](super::vectorize) makes and the vector loops in them, forwards values
/// that a fused body stores and reads back, and normalizes the loops.
pub(crate) fn fuse_strips(routine: &mut LoweredRoutine, caps: &Caps) {
    fuse_loops(routine, caps);
    forward_stores(routine);
}

/// Fuses the loops of a routine wherever that is legal and pays.
pub(crate) fn fuse_loops(routine: &mut LoweredRoutine, caps: &Caps) {
    let (names, locals) = (Names::of(routine), routine.locals());
    let fuser = Fuser { names, locals, caps, equal: EqualParts::default() };
    let mut body = std::mem::take(&mut routine.body);
    let remarks = shape::number_remarks(&mut body);
    routine.body = fuser.top_level(body).into_iter().map(|placed| placed.stmt).collect();
    shape::restore_remarks(&mut routine.body, &remarks);
}

struct Fuser<'a> {
    names: Names,
    locals: Locals,
    caps: &'a Caps,
    equal: EqualParts,
}

/// The statement that moves to the other one.
enum Direction {
    /// The later statement moves up.
    Up,
    /// The earlier statement moves down.
    Down,
}

impl Fuser<'_> {
    /// Fuses the statements of the body of a routine: first those inside each loop, then the loops.
    fn top_level(&self, body: Block) -> Vec<PlacedStmt> {
        let known = (&self.names, &self.locals);
        let shapes = self.equal.repeated(&body, &self.names, &self.locals);
        let placed = body.into_iter().zip(shapes).map(|(stmt, shape)| match shape {
            Some(shape) => self.equal.single(stmt, shape, known, |stmt| self.inside(stmt, 0)),
            None => self.inside(stmt, 0),
        });
        self.onto(Vec::new(), placed, 0)
    }

    /// Fuses the statements in the body of a loop `depth` loops deep.
    fn inside(&self, stmt: Stmt, depth: usize) -> PlacedStmt {
        match stmt {
            Stmt::For { var, lo, hi, kind, body } => {
                let inner = body.into_iter().map(|stmt| self.inside(stmt, depth + 1));
                let body = self.onto(Vec::new(), inner, depth + 1);
                PlacedStmt::looped(var, lo, hi, kind, body)
            }
            stmt => PlacedStmt::new(stmt),
        }
    }

    /// Appends statements to `before`, and fuses each of them with the nearest loop that accepts it.
    fn onto(
        &self,
        before: Vec<PlacedStmt>,
        next: impl Iterator<Item = PlacedStmt>,
        depth: usize,
    ) -> Vec<PlacedStmt> {
        let mut out = before;
        next.for_each(|next| self.place(&mut out, next, depth));
        out
    }

    /// Places a statement, fused with the nearest loop that accepts it. The fused loop is placed in the same
    /// way, since it may share data with loops before it.
    fn place(&self, out: &mut Vec<PlacedStmt>, next: PlacedStmt, depth: usize) {
        let Some((at, direction, fused)) = self.partner(out, &next, depth) else {
            out.push(next);
            return;
        };
        // The comments before the second loop are part of the fused loop now.
        out.truncate(out.len() - remarks(out).len());
        let behind = out.split_off(at + 1);
        out.pop();
        match direction {
            Direction::Up => {
                self.place(out, fused, depth);
                out.extend(behind);
            }
            Direction::Down => {
                out.extend(behind);
                self.place(out, fused, depth);
            }
        }
    }

    /// The nearest loop that fuses with the next statement, the direction, and the fused loop.
    fn partner(
        &self,
        out: &[PlacedStmt],
        next: &PlacedStmt,
        depth: usize,
    ) -> Option<(usize, Direction, PlacedStmt)> {
        loop_of(&next.stmt)?;
        let mut is_free = true;
        for (at, first) in out.iter().enumerate().rev().take(REACH) {
            let effects = &first.facts.effects;
            let sinks = || out[at + 1..].iter().all(|between| between.facts.effects.commute(effects));
            let shares = !effects.nodes.is_disjoint(&next.facts.effects.nodes);
            let turned = || interchange::like(&first.stmt, &next.stmt, &self.names).map(PlacedStmt::new);
            let between = remarks(out);
            let fused = |next: &PlacedStmt| self.fused(first, next, between, depth);
            let any = || fused(next).or_else(|| fused(&turned()?));
            if shares
                && first.facts.size + next.facts.size <= ALL_STATEMENTS
                && !streams_too_much(first, next)
                && (is_free || sinks())
                && let Some(fused) = self.equal.pair((first, next), between, (&self.names, &self.locals), any)
            {
                return Some((at, if is_free { Direction::Up } else { Direction::Down }, fused));
            }
            is_free = is_free && effects.commute(&next.facts.effects);
        }
        None
    }

    /// Fuses two loops of one kind and extent, if that is legal and pays. Comments go between the two bodies.
    fn fused(
        &self,
        first: &PlacedStmt,
        second: &PlacedStmt,
        remarks: &[PlacedStmt],
        depth: usize,
    ) -> Option<PlacedStmt> {
        let (a, b) = (loop_of(&first.stmt)?, loop_of(&second.stmt)?);
        let is_long = a.body.len() + b.body.len() > FUSED_STATEMENTS
            || first.facts.cost + second.facts.cost > FUSED_COST;
        if (a.kind, a.hi) != (b.kind, b.hi) || is_long {
            return None;
        }
        let (moved_first, moved_second) = (self.moving(first, &a), self.moving(second, &b));
        let pays = !moved_first.is_disjoint(moved_second)
            && self.same_independence(first, second, depth)
            && self.same_lanes(first, second)
            && !self.breaks_contraction(first, second);
        if !pays {
            return None;
        }
        let (accesses, more) = (&first.facts.effects, &second.facts.effects);
        if !access::can_fuse((a.var, a.body, accesses), (b.var, b.body, more), &self.names.ranges) {
            return None;
        }
        let mut second_body = b.body.to_vec();
        walk::substitute(&mut second_body, b.var, &Affine::var(a.var));
        let mut before: Vec<PlacedStmt> = first.facts.with_statements(a.body.to_vec()).collect();
        if a.kind == LoopKind::Serial {
            before.extend(remarks.iter().cloned());
        }
        let body = self.onto(before, second.facts.with_statements(second_body), depth + 1);
        let fused = PlacedStmt::looped(a.var, 0, a.hi.clone(), a.kind, body);
        let _ = fused.facts.moving.set(moved_first.union(moved_second).copied().collect());
        (self.keeps_contractions(first, second, &fused) && self.is_light(&fused)).then_some(fused)
    }

    /// The nodes that a loop accesses at indices that move with it, and by how many elements.
    fn moving<'p>(
        &self,
        placed: &'p PlacedStmt,
        outermost: &FusibleLoop<'_>,
    ) -> &'p BTreeSet<(NodeRef, i64)> {
        placed.facts.moving.get_or_init(|| moving(outermost.var, outermost.body, &self.names))
    }

    /// Whether one of two nests is a contraction that needs its outermost loop for itself. This foresees most
    /// of what [`Fuser::keeps_contractions`] rejects, before the nests are fused.
    fn breaks_contraction(&self, first: &PlacedStmt, second: &PlacedStmt) -> bool {
        let breaks = |one: &PlacedStmt, other: &PlacedStmt| {
            !one.contractions(&self.names).is_empty()
                && fusible_contractions::loses_loop(&one.stmt, &other.stmt)
        };
        breaks(first, second) || breaks(second, first)
    }

    /// Whether each contraction of two statements has the same shape in the fused statement.
    fn keeps_contractions(&self, first: &PlacedStmt, second: &PlacedStmt, fused: &PlacedStmt) -> bool {
        let [first, second] = [first, second].map(|placed| placed.contractions(&self.names));
        first.is_empty() && second.is_empty() || fused.contractions(&self.names).keep(first, second)
    }

    /// Whether both loops or neither have independent iterations. Inner loops that contain vector loops need
    /// no independence.
    fn same_independence(&self, first: &PlacedStmt, second: &PlacedStmt, depth: usize) -> bool {
        let (Some(a), Some(b)) = (loop_of(&first.stmt), loop_of(&second.stmt)) else { return true };
        let settled =
            a.kind == LoopKind::Vector || depth > 0 && nest::has_lanes(a.body) && nest::has_lanes(b.body);
        settled || self.is_independent(first, &a) == self.is_independent(second, &b)
    }

    fn is_independent(&self, placed: &PlacedStmt, outermost: &FusibleLoop<'_>) -> bool {
        let FusibleLoop { var, body, .. } = *outermost;
        *placed.facts.is_independent.get_or_init(|| dependence::independent(var, body, &self.names.ranges))
    }

    /// Whether the loops that two nests would use as lanes allow them to fuse. Nests of the same depth must
    /// use the same loop, or both none. If only one of the nests has further loops in its innermost body, the
    /// other nest must not use its outermost loop of several, because in the fused nest this loop would
    /// enclose the further loops.
    fn same_lanes(&self, first: &PlacedStmt, second: &PlacedStmt) -> bool {
        let lanes = |placed: &PlacedStmt| *placed.facts.lanes.get_or_init(|| self.lanes(&placed.stmt));
        match (lanes(first), lanes(second)) {
            (Some(a), Some(b)) if a.depth == b.depth => a == b,
            (Some(only), None) | (None, Some(only)) => only.depth == 1 || only.at != Some(0),
            _ => true,
        }
    }

    /// The loop that a nest would use as lanes: the loop over its rows if these are short. None if further
    /// loops stand in the body of its innermost loop, and are not short.
    fn lanes(&self, stmt: &Stmt) -> Option<LaneChoice> {
        let (loops, body) = nest::chain(stmt);
        let depth = loops.len();
        if let Some(at) = unroll_short_rows::row_loop(stmt, self.caps, &self.names) {
            return Some(LaneChoice { depth, at: Some(at) });
        }
        if body.iter().any(|stmt| matches!(stmt, Stmt::For { .. })) {
            return None;
        }
        let scores = loops.iter().map(|&var| nest::lane_score(body, var, &self.names));
        let (at, best) = scores.enumerate().max_by_key(|&(_, score)| score)?;
        let works = best > 0 && nest::vector_width(body, loops[at], &self.names).is_some();
        Some(LaneChoice { depth, at: works.then_some(at) })
    }

    /// Whether a loop without serial loops inside accesses few enough arrays and needs few enough
    /// accumulators.
    fn is_light(&self, placed: &PlacedStmt) -> bool {
        let Some(FusibleLoop { body, .. }) = loop_of(&placed.stmt) else { return true };
        let has_loops = body.iter().any(|s| matches!(s, Stmt::For { kind: LoopKind::Serial, .. }));
        let effects = &placed.facts.effects;
        has_loops || effects.nodes.len() <= STREAMS && self.accumulators(body, effects) <= self.registers()
    }

    /// Bytes of register arrays that a body changes and that live on after it.
    fn accumulators(&self, body: &[Stmt], effects: &Effects) -> usize {
        let own = dependence::declared(body);
        effects.set.difference(&own).map(|local| self.bytes(*local)).sum()
    }

    fn bytes(&self, local: LocalId) -> usize {
        let bytes = |decl: &LocalDecl| decl.dims.iter().product::<usize>() * decl.dtype.size_bytes();
        self.locals.get(&local).filter(|decl| decl.space == Space::Register).map_or(0, bytes)
    }

    fn registers(&self) -> usize {
        self.caps.vector_registers / 2 * self.caps.vector_bytes
    }
}

/// Whether two loops without serial loops inside would access too many arrays as one loop.
fn streams_too_much(first: &PlacedStmt, second: &PlacedStmt) -> bool {
    let is_serial = |stmt: &Stmt| matches!(stmt, Stmt::For { kind: LoopKind::Serial, .. });
    let innermost =
        |placed: &PlacedStmt| loop_of(&placed.stmt).is_some_and(|l| !l.body.iter().any(is_serial));
    let (nodes, more) = (&first.facts.effects.nodes, &second.facts.effects.nodes);
    innermost(first) && innermost(second) && nodes.len() + more.difference(nodes).count() > STREAMS
}

/// The comments at the end of a list of statements.
fn remarks(placed: &[PlacedStmt]) -> &[PlacedStmt] {
    let start = placed.iter().rposition(|p| !matches!(p.stmt, Stmt::Comment(_))).map_or(0, |at| at + 1);
    &placed[start..]
}

/// A loop that can be fused.
struct FusibleLoop<'a> {
    var: LoopId,
    hi: &'a Bound,
    kind: LoopKind,
    body: &'a [Stmt],
}

/// Recognizes a serial or vector loop that starts at 0, and has the same end in the whole run.
fn loop_of(stmt: &Stmt) -> Option<FusibleLoop<'_>> {
    match stmt {
        Stmt::For { var, lo: 0, hi, kind: kind @ (LoopKind::Serial | LoopKind::Vector), body } => {
            hi.is_of_symbols().then_some(FusibleLoop { var: *var, hi, kind: *kind, body })
        }
        _ => None,
    }
}

/// The nodes that a body accesses at indices that move with a loop, and by how many elements an iteration
/// moves them. A loop over rows and a loop over columns of a node have few elements in common.
fn moving(var: LoopId, body: &[Stmt], names: &Names) -> BTreeSet<(NodeRef, i64)> {
    let touches = dependence::touches(body).into_iter();
    let step = |touch: Touch<'_>| {
        let step = names.position(touch.node, touch.indices()?).coefficient(var);
        (step != 0).then_some((touch.node, step))
    };
    touches.filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use lowered_ir::text::{parse, print};

    use super::*;

    /// Layers of a product, an operation on its elements and one on its rows, each with nodes of its own.
    fn layers(count: usize) -> LoweredRoutine {
        let mut nodes = String::from("node %0 \"x\" f32[8, 16] on_device\n");
        let mut body = String::new();
        for layer in 0..count {
            let (x, w, h, y, s) = (4 * layer, 4 * layer + 1, 4 * layer + 2, 4 * layer + 4, 4 * layer + 3);
            let (i, l) = (7 * layer, 2 * layer);
            let [i0, i1, i2, i3, i4, i5, i6] = [0, 1, 2, 3, 4, 5, 6].map(|at| i + at);
            let l1 = l + 1;
            writeln!(
                nodes,
                "node %{w} \"w\" f32[16, 16] on_device node %{h} \"h\" f32[8, 16] local \
                 node %{s} \"s\" f32[8] on_device node %{y} \"y\" f32[8, 16] on_device"
            )
            .unwrap();
            writeln!(
                body,
                "for i{i0} in 0..8 {{ for i{i1} in 0..16 {{
                   declare l{l} f32[] register
                   for i{i2} in 0..16 {{ l{l} := l{l} + %{x}[i{i0}, i{i2}] * %{w}[i{i2}, i{i1}] }}
                   %{h}[i{i0}, i{i1}] := l{l} }} }}
                 comment \"layer {layer}\"
                 for i{i3} in 0..8 {{ for i{i4} in 0..16 {{
                   %{y}[i{i3}, i{i4}] := relu(%{h}[i{i3}, i{i4}]) }} }}
                 for i{i5} in 0..8 {{
                   declare l{l1} f32[] register
                   for i{i6} in 0..16 {{ l{l1} := max(%{y}[i{i5}, i{i6}], l{l1}) }}
                   %{s}[i{i5}] := l{l1} }}"
            )
            .unwrap();
        }
        parse(&format!("routine @layers fast {{ {nodes} {body} }}")).unwrap()
    }

    fn fuser<'a>(routine: &LoweredRoutine, caps: &'a Caps) -> Fuser<'a> {
        Fuser { names: Names::of(routine), locals: routine.locals(), caps, equal: EqualParts::default() }
    }

    #[test]
    fn equal_layers_are_fused_once_and_as_if_each_were_alone() {
        let caps = Caps { vector_bytes: 32, vector_registers: 16, ..Caps::host("test") };
        let attempts = [3, 6].map(|count| {
            let routine = layers(count);
            let alone = fuser(&routine, &caps);
            let inside = routine.body.iter().map(|stmt| alone.inside(stmt.clone(), 0));
            let expected = alone.onto(Vec::new(), inside, 0).into_iter().map(|placed| placed.stmt).collect();
            let expected = LoweredRoutine { body: expected, ..routine.clone() };
            assert!(expected.body.len() < routine.body.len(), "nothing was fused");
            let together = fuser(&routine, &caps);
            together.top_level(routine.body.clone());
            let mut fused = routine;
            fuse_loops(&mut fused, &caps);
            assert_eq!(print(&fused), print(&expected));
            together.equal.len()
        });
        assert_eq!(attempts[0], attempts[1]);
    }
}
