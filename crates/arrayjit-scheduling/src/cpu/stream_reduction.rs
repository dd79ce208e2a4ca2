//! Streamed reductions: adds one row after another to many accumulators, in nests whose contiguous axis is an
//! axis of the outputs.
//!
//! ```text
//! for j { for i { acc := acc + x[i, j] }; s[j] := acc }
//! =
//! for blocks of j {
//!   for groups of i {
//!     for strips of the block {
//!       t[lane] := acc[lane]
//!       for i of the group unrolled { t[lane] := t[lane] + x[i, lane] }
//!       acc[lane] := t[lane]
//!     }
//!   }
//!   …
//! }
//! ```
//!
//! The accumulators of a block take a fixed part of the innermost cache, so that memory is read in long runs.
//! The accumulators of a strip stay in registers while a group of rows passes. Each output adds its elements
//! in the original order, so no bit changes.

use lowered_ir::ir::{Affine, Block, Expr, Indices, LocalId, LoopId, LoopKind, Space, Stmt, Types, walk};
use smallvec::smallvec;
use tnode::Dims;

use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop, Nest};
use crate::common::unroll_and_jam::{self, Strip, VECTORS};
use codegen_core::Caps;
use codegen_core::dependence::{self, mentions};

/// Rows of a group: additions per load and store of an accumulator.
const ROWS: i64 = 8;
/// The most lanes of a vector loop.
const LANES: i64 = 1024;

/// The nest with blocks of `lane` inside the loops over rows, if it reduces rows as the module describes.
pub(crate) fn stream_reduction(
    nest: &Nest,
    lane: &Loop,
    lanes: i64,
    caps: &Caps,
    names: &mut Names,
) -> Option<Block> {
    let extent = lane.extent()?;
    if extent < 2 * lanes || !reduces_rows(&nest.body, lane.var, extent, names) {
        return None;
    }
    let others: Vec<Loop> = nest.loops.iter().filter(|l| *l != lane).cloned().collect();
    let columns = columns(&others, &nest.body, extent, lanes, caps);
    let strip = Strip { lanes: columns, kind: LoopKind::Vector };
    let blocks = unroll_and_jam::strips(lane.var, extent, &nest.body, strip, names);
    names.note(&blocks);
    let mut stream = ReductionStream { lanes, names };
    let blocks = stream.block(blocks);
    Some(nest::wrap(&others, blocks))
}

/// Whether all loops of the body read contiguous memory along `lane`, of `extent` iterations, and iterations
/// of the innermost loops read different rows.
fn reduces_rows(body: &[Stmt], lane: LoopId, extent: i64, names: &Names) -> bool {
    let mut reads = 0;
    let mut plain = !nest::has_lanes(body);
    let mut inner = Vec::new();
    walk::stmts(body).for_each(|stmt| {
        if let Stmt::For { var, hi, body, .. } = stmt
            && let [Stmt::SetLocal { index, value, .. }] = body.as_slice()
            && index.is_empty()
            && hi.constant().is_some_and(|limit| limit >= ROWS)
        {
            inner.push((*var, value));
        }
    });
    for (var, value) in inner {
        walk::parts(value).for_each(|e| {
            if let Expr::Get { node, index } = e
                && let position = names.position(*node, index)
                && position.mentions(lane)
            {
                let in_rows = position.coefficient(lane) == 1 && position.coefficient(var) >= extent;
                plain &= in_rows || !mentions(e, var);
                reads += usize::from(in_rows);
            }
        });
    }
    plain && reads > 0
}

/// The number of columns of a block: a multiple of a strip.
fn columns(others: &[Loop], body: &[Stmt], extent: i64, lanes: i64, caps: &Caps) -> i64 {
    let strips = (caps.l1_bytes / 8 / (VECTORS * caps.vector_bytes.max(1))).max(1) as i64;
    let most = (lanes * strips).min(LANES / lanes * lanes).max(lanes);
    let threads = caps.threads.max(1) as i64;
    let is_shared = others.iter().any(|l| l.hi.limit >= threads) || has_chunks(body, threads);
    let each = ((extent + threads - 1) / threads / lanes).max(1) * lanes;
    if is_shared { most } else { most.min(each) }
}

/// Whether the rows are reduced in enough chunks for the threads.
fn has_chunks(body: &[Stmt], threads: i64) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::For { hi, body, .. } => hi.limit >= threads && !dependence::declared(body).is_empty(),
        _ => false,
    })
}

struct ReductionStream<'a> {
    lanes: i64,
    names: &'a mut Names,
}

impl ReductionStream<'_> {
    fn block(&mut self, block: Block) -> Block {
        block.into_iter().flat_map(|stmt| self.stmt(stmt)).collect()
    }

    fn stmt(&mut self, stmt: Stmt) -> Block {
        match stmt {
            Stmt::Declare { local, dtype, dims, .. }
                if dims.last().is_some_and(|&n| n as i64 > self.lanes) =>
            {
                vec![Stmt::Declare { local, dtype, dims, space: Space::Stack }]
            }
            Stmt::For { var, hi, kind: LoopKind::Vector, body, .. } if hi.limit > self.lanes => {
                self.strips(var, hi.limit, &body)
            }
            Stmt::For { var, lo: 0, hi, kind: LoopKind::Serial, body } if let Some(limit) = hi.constant() => {
                let body = self.block(body);
                match update(&body, var) {
                    Some(_) => self.groups(var, limit, &body),
                    None => vec![Stmt::serial(var, limit, body)],
                }
            }
            stmt => vec![stmt],
        }
    }

    /// Replaces a vector loop by a loop over strips and the remaining lanes.
    fn strips(&mut self, lane: LoopId, extent: i64, body: &[Stmt]) -> Block {
        let (whole, rest) = (extent / self.lanes, extent % self.lanes);
        let mut block = vec![self.strip(lane, body, Affine::term, whole, self.lanes)];
        if rest > 0 {
            let from = whole * self.lanes;
            block.push(self.strip(lane, body, |_, _| Affine::constant(from), 1, rest));
        }
        block
    }

    fn strip(
        &mut self,
        lane: LoopId,
        body: &[Stmt],
        start: impl Fn(LoopId, i64) -> Affine,
        strips: i64,
        lanes: i64,
    ) -> Stmt {
        let (strip, own) = (self.names.loop_id(), self.names.loop_id());
        let mut body = self.names.refreshed(body);
        walk::substitute(&mut body, lane, &start(strip, lanes).plus(&Affine::var(own)));
        Stmt::serial(strip, strips, vec![Stmt::looped(own, lanes, LoopKind::Vector, body)])
    }

    /// Replaces the loop over rows by a loop over groups of rows and the remaining rows.
    fn groups(&mut self, row: LoopId, extent: i64, body: &[Stmt]) -> Block {
        let (whole, rest) = (extent / ROWS, extent % ROWS);
        let mut block = Block::new();
        if whole > 0 {
            let group = self.names.loop_id();
            let strips = self.group(row, &Affine::term(group, ROWS), ROWS, body);
            block.push(Stmt::serial(group, whole, strips));
        }
        if rest > 0 {
            block.extend(self.group(row, &Affine::constant(whole * ROWS), rest, body));
        }
        block
    }

    /// Adds `rows` rows, beginning at `start`, to every strip. The accumulators of a strip stay in registers.
    fn group(&mut self, row: LoopId, start: &Affine, rows: i64, body: &[Stmt]) -> Block {
        body.iter().filter_map(Update::of).map(|found| self.update(&found, row, start, rows)).collect()
    }

    fn update(&mut self, found: &Update<'_>, row: LoopId, start: &Affine, rows: i64) -> Stmt {
        let strip = self.names.loop_id();
        let dims: Dims = smallvec![found.lanes as usize];
        let dtype = self.names.local(found.acc);
        let (sums, declare) = self.names.declare(dtype, dims, Space::Register);
        let own = |lane: LoopId| Expr::GetLocal { local: sums, index: [Affine::var(lane)].into() };
        let at = |lane: LoopId| -> Indices {
            let index = found.index.iter().map(|i| i.substitute(found.strip, &Affine::var(strip)));
            index.map(|i| i.substitute(found.lane, &Affine::var(lane))).collect()
        };
        let set_own =
            |lane: LoopId, value| Stmt::SetLocal { local: sums, index: [Affine::var(lane)].into(), value };
        let (first, each, last, unrolled) =
            (self.names.loop_id(), self.names.loop_id(), self.names.loop_id(), self.names.loop_id());
        let load = set_own(first, Expr::GetLocal { local: found.acc, index: at(first) });
        let value = walk::map_expr(found.value.clone(), &mut |e| match e {
            Expr::GetLocal { local, .. } if local == found.acc => {
                Expr::GetLocal { local: sums, index: [Affine::var(found.lane)].into() }
            }
            other => other,
        });
        let value = walk::map_expr_indices(value, &mut |i| {
            let i = i.substitute(row, &start.plus(&Affine::var(unrolled)));
            i.substitute(found.strip, &Affine::var(strip)).substitute(found.lane, &Affine::var(each))
        });
        let store = Stmt::SetLocal { local: found.acc, index: at(last), value: own(last) };
        let lanes = |var, stmt| Stmt::looped(var, found.lanes, LoopKind::Vector, vec![stmt]);
        let rows = Stmt::looped(unrolled, rows, LoopKind::Unrolled, vec![lanes(each, set_own(each, value))]);
        Stmt::serial(strip, found.strips, vec![declare, lanes(first, load), rows, lanes(last, store)])
    }
}

/// `for strip { for lane { acc[…] := value } }`.
struct Update<'a> {
    strip: LoopId,
    strips: i64,
    lane: LoopId,
    lanes: i64,
    acc: LocalId,
    index: &'a Indices,
    value: &'a Expr,
}

impl<'a> Update<'a> {
    fn of(stmt: &'a Stmt) -> Option<Update<'a>> {
        let Stmt::For { var: strip, hi: strips, kind: LoopKind::Serial, body, .. } = stmt else {
            return None;
        };
        let [Stmt::For { var: lane, hi: lanes, kind: LoopKind::Vector, body, .. }] = body.as_slice() else {
            return None;
        };
        let [Stmt::SetLocal { local: acc, index, value }] = body.as_slice() else { return None };
        let (strip, strips, lane, lanes) = (*strip, strips.limit, *lane, lanes.limit);
        Some(Update { strip, strips, lane, lanes, acc: *acc, index, value })
    }

    /// Whether it accumulates over `row`.
    fn accumulates(&self, row: LoopId) -> bool {
        let mut own = 0;
        let mut others = 0;
        walk::parts(self.value).for_each(|e| {
            if let Expr::GetLocal { local, index } = e
                && *local == self.acc
            {
                own += usize::from(index == self.index);
                others += usize::from(index != self.index);
            }
        });
        let in_strips = self.strips == 1 || self.index.iter().any(|i| i.mentions(self.strip));
        in_strips && own == 1 && others == 0 && !self.index.iter().any(|i| i.mentions(row))
    }
}

/// Recognizes a body that consists of strips which accumulate over `row`, each into accumulators of its own.
fn update(body: &[Stmt], row: LoopId) -> Option<()> {
    let all: Option<Vec<Update<'_>>> = body.iter().map(Update::of).collect();
    let all = all.filter(|all| !all.is_empty() && all.iter().all(|found| found.accumulates(row)))?;
    let first = all.first()?.acc;
    // Strips of one accumulator are disjoint. Strips of several accumulators might read each other.
    all.iter().all(|found| found.acc == first).then_some(())
}
