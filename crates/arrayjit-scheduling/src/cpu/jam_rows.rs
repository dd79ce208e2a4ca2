//! This pass tiles products of a few rows, each of which has partial results in vectors.
//!
//! ```text
//! for row in 0..4, n { for k strip { acc[lane] := fma(a(row, k), b(n, k), acc[lane]) }; fold acc }
//! =
//! for n, row pair { for k strip { v[lane] := b(n, k)
//!                                 for row { acc[row, lane] := fma(a(row, k), v[lane], acc[row, lane]) } }
//!                   fold acc }
//! ```
//!
//! The long operand `b` passes once from memory, in order, and the rows of a tile load and convert each of
//! its vectors once. Partial results of a tile take half of the registers. Several `n` at a time would load
//! less, but hardware does not foresee several such streams: 13 GB/s instead of 31 in rows of 2 KB.
//!
//! If a row `a` takes half of the innermost cache or more, `b` drives it out of there. Several `n` at a time
//! then share each load of `a`: 26 GB/s instead of 20 in rows of 32 KB, 31 instead of 28 in rows of 16 KB.

use lowered_ir::ir::{Block, Expr, LoopId, LoopKind, LoweredRoutine, Stmt, walk};

use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop, Nest};
use crate::common::unroll_and_jam::{self, Strip};
use codegen_core::Caps;
use codegen_core::dependence::mentions;

/// The most rows.
const ROWS: i64 = 8;
/// The most iterations that share long vectors.
const COLUMNS: usize = 4;

/// Moves loops over a few rows inside of the other loops, in tiles, where the rows read the same vectors.
pub(crate) fn jam_rows(routine: &mut LoweredRoutine, caps: &Caps) {
    if caps.vector_bytes == 0 || !routine.body.iter().any(has_vectors) {
        return;
    }
    let mut names = Names::of(routine);
    let jammed = |stmt: Stmt| match Nest::of(&stmt).and_then(|nest| jam(&nest, caps, &mut names)) {
        Some(tiles) => tiles,
        None => vec![stmt],
    };
    routine.body = std::mem::take(&mut routine.body).into_iter().flat_map(jammed).collect();
}

fn has_vectors(stmt: &Stmt) -> bool {
    nest::has_lanes(std::slice::from_ref(stmt))
}

/// The nest with a loop over a few rows innermost and unrolled, if its vectors are reduced and some of them
/// are the same for all rows; or with some iterations of a loop that share long vectors.
fn jam(nest: &Nest, caps: &Caps, names: &mut Names) -> Option<Block> {
    let vectors = reduced_vectors(&nest.body);
    let bytes = vectors.iter().map(|vector| vector.lanes as usize * vector.value.dtype(names).size_bytes());
    let registers = bytes.max()?.div_ceil(caps.vector_bytes).max(1);
    let moves =
        |vector: &ReducedVector<'_>, row: &Loop| nest.loops.iter().any(|n| vector.is_shared(n.var, row.var));
    let is_row = |l: &Loop| {
        l.extent().is_some_and(|rows| (2..=ROWS).contains(&rows)) && vectors.iter().any(|v| moves(v, l))
    };
    let is_long = |vector: &ReducedVector<'_>| vector.bytes(names) >= caps.l1_bytes / 2;
    let loops = nest.possible_lanes(names);
    let (jammed, tile) = match loops.iter().find(|l| is_row(l)) {
        Some(rows) => (rows, ((caps.vector_registers / 2 / registers).max(1) as i64).min(rows.hi.limit)),
        None => {
            let long = |l: &&Loop| vectors.iter().any(|v| is_long(v) && v.shares_with(l.var));
            let columns = loops.iter().find(long)?;
            let most = (caps.vector_registers / registers).min(COLUMNS) as i64;
            let extent = columns.extent()?;
            (columns, (2..=most).rev().find(|tile| extent % tile == 0)?)
        }
    };
    let strip = Strip { lanes: tile, kind: LoopKind::Unrolled };
    let tiles = unroll_and_jam::strips(jammed.var, jammed.hi.limit, &nest.body, strip, names);
    let others: Vec<Loop> = nest.loops.iter().filter(|l| *l != jammed).cloned().collect();
    Some(nest::wrap(&others, tiles))
}

/// A vector that accumulates inside of a serial loop.
struct ReducedVector<'a> {
    lane: LoopId,
    lanes: i64,
    /// The iterations of the serial loop.
    steps: i64,
    value: &'a Expr,
}

impl ReducedVector<'_> {
    /// Whether a vector of memory moves with the loop `var` and is the same for all rows, while another one
    /// moves with the rows.
    fn is_shared(&self, var: LoopId, row: LoopId) -> bool {
        let moves = |e: &Expr| mentions(e, var) && !mentions(e, row);
        self.loads().any(moves) && self.loads().any(|e| mentions(e, row))
    }

    /// Whether one vector of memory moves with a loop, and another one does not.
    fn shares_with(&self, var: LoopId) -> bool {
        self.loads().any(|e| mentions(e, var)) && self.loads().any(|e| !mentions(e, var))
    }

    fn loads(&self) -> impl Iterator<Item = &Expr> {
        walk::parts(self.value).filter(|e| matches!(e, Expr::Get { .. })).filter(|e| mentions(e, self.lane))
    }

    /// The bytes of the largest vector of memory over all steps.
    fn bytes(&self, names: &Names) -> usize {
        let elements = (self.steps * self.lanes) as usize;
        self.loads().map(|e| elements * e.dtype(names).size_bytes()).max().unwrap_or(0)
    }
}

/// The vectors that accumulate inside of the serial loops of a body.
fn reduced_vectors(body: &[Stmt]) -> Vec<ReducedVector<'_>> {
    let mut found = Vec::new();
    for stmt in body {
        let Stmt::For { hi: steps, kind: LoopKind::Serial, body, .. } = stmt else { continue };
        walk::stmts(body).for_each(|stmt| {
            if let Stmt::For { var, hi, kind: LoopKind::Vector, body, .. } = stmt
                && let [Stmt::SetLocal { value, .. }] = body.as_slice()
            {
                found.push(ReducedVector { lane: *var, lanes: hi.limit, steps: steps.limit, value });
            }
        });
    }
    found
}
