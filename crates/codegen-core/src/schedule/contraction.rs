//! Register tiles for contractions.
//!
//! `for m, n { … for k { acc := fma(a(m,k), b(k,n), acc) } … }` becomes
//!
//! ```text
//! for n strip {
//!   packed[k, lane] := b(k, n)                       ; once per strip, contiguous; if enough rows use it
//!   for m tile { acc[row, lane] … for k { acc[row, lane] := fma(a(m+row, k), packed[k, lane], acc[row, lane]) } … }
//! }
//! ```
//!
//! Each output still takes its terms in the order of `k`, so no bit changes. The strip of `b` stays in cache while all rows
//! pass over it, a row tile reuses each vector of it from a register. If there are too few strips for the threads, rows are
//! also cut into blocks that pack on their own.

use lowered_ir::ir::{Affine, Block, Expr, Indices, LocalId, LoopKind, Space, Stmt, TernaryOp, walk};
use tnode::Dims;

use super::jam::{self, Strip};
use super::names::Names;
use super::nest::{self, Loop, Nest};
use super::{access, numerics::mentions, vectorize::VECTORS};
use crate::Caps;

/// Rows below which packing costs more than it saves.
const ROWS_WORTH_PACKING: i64 = 8;
/// Rows of a block that packs on its own.
const BLOCK_ROWS: i64 = 32;

/// A contraction found in a nest.
struct Found {
    /// Where in the body the loops over `k` are.
    at: usize,
    ks: Vec<Loop>,
    acc: LocalId,
    /// The operand that the lanes move.
    b: Expr,
    rows: Loop,
}

/// The nest as register tiles with these lanes, if it is a contraction.
pub(super) fn tile(nest: &Nest, lane: Loop, lanes: i64, caps: &Caps, names: &mut Names) -> Option<Block> {
    let found = find(nest, lane, names)?;
    let outer: Vec<Loop> = nest.loops.iter().copied().filter(|l| *l != lane && *l != found.rows).collect();
    let (rows, columns) = (found.rows.extent()?, lane.extent()?);
    let tiler = Tiler { nest, found, lane, columns, lanes, row_tile: row_tile(caps) };
    let packs = tiler.may_pack(caps, names);
    let blocks = if outer.is_empty() { row_blocks(rows, columns / lanes, caps) } else { 1 };
    let block_rows = rows / blocks / tiler.row_tile * tiler.row_tile;
    if blocks == 1 || block_rows == 0 {
        let tiles = tiler.tiles(nest.body.clone(), Affine::constant(0), rows, packs, names);
        return Some(nest::wrap(&outer, tiles));
    }
    let block = names.loop_id();
    let body = tiler.tiles(nest.body.clone(), Affine::term(block, block_rows), block_rows, packs, names);
    let mut all = vec![Stmt::serial(block, blocks, body)];
    let done = blocks * block_rows;
    if done < rows {
        let copy = names.refreshed(&nest.body);
        all.extend(tiler.tiles(copy, Affine::constant(done), rows - done, false, names));
    }
    Some(all)
}

/// How many blocks of rows give every thread something to do.
fn row_blocks(rows: i64, strips: i64, caps: &Caps) -> i64 {
    let wanted = 2 * caps.threads as i64;
    if caps.threads < 2 || strips >= wanted { 1 } else { (rows / BLOCK_ROWS).clamp(1, wanted) }
}

/// Rows whose accumulators, a strip of vectors each, fill half of the vector registers.
fn row_tile(caps: &Caps) -> i64 {
    (caps.vector_registers / 2 / VECTORS).max(1) as i64
}

fn find(nest: &Nest, lane: Loop, names: &Names) -> Option<Found> {
    let mut inner = nest.body.iter().enumerate().filter(|(_, stmt)| matches!(stmt, Stmt::For { .. }));
    let ((at, only), None) = (inner.next()?, inner.next()) else { return None };
    let Nest { loops: ks, body } = Nest::of(only)?;
    let [Stmt::SetLocal { local: acc, index, value: Expr::Ternary { op: TernaryOp::Fma, a, b, c } }] =
        body.as_slice()
    else {
        return None;
    };
    if !index.is_empty() || **c != Expr::local(*acc) || ks.iter().any(|l| l.extent().is_none()) {
        return None;
    }
    let (a, b) = match (mentions(a, lane.var), mentions(b, lane.var)) {
        (false, true) => (a, b),
        (true, false) => (b, a),
        _ => return None,
    };
    let candidates =
        nest.movable(names).into_iter().filter(|l| *l != lane && mentions(a, l.var) && !mentions(b, l.var));
    let rows = candidates.filter(|l| l.extent().is_some_and(|e| e > 1)).max_by_key(|l| l.hi.limit)?;
    Some(Found { at, ks, acc: *acc, b: (**b).clone(), rows })
}

struct Tiler<'a> {
    nest: &'a Nest,
    found: Found,
    lane: Loop,
    columns: i64,
    lanes: i64,
    row_tile: i64,
}

impl Tiler<'_> {
    /// Whether `b` may be copied ahead (nothing in the nest changes it) and the copy stays in cache.
    fn may_pack(&self, caps: &Caps, names: &Names) -> bool {
        let read = Stmt::set_scalar(self.found.acc, self.found.b.clone());
        let read = std::slice::from_ref(&read);
        let mut used = access::locals_used(read);
        used.remove(&self.found.acc);
        let depth: i64 = self.found.ks.iter().map(|l| l.hi.limit).product();
        let bytes = depth * self.lanes * self.found.b.dtype(names).size_bytes() as i64;
        access::nodes(read).is_disjoint(&access::written(&self.nest.body))
            && used.is_empty()
            && bytes <= caps.l2_bytes as i64 / 2
    }

    /// Gives the operand that the lanes do not move a local of its own, so that it is computed once for all of them.
    fn name_operand(&self, body: &mut Block, names: &mut Names) {
        let Some(nest) = body.get(self.found.at).and_then(Nest::of) else { return };
        let [Stmt::SetLocal { local, index, value: Expr::Ternary { a, b, c, .. } }] = nest.body.as_slice()
        else {
            return;
        };
        let (fixed, moved) = if mentions(a, self.lane.var) { (b, a) } else { (a, b) };
        if matches!(**fixed, Expr::Get { .. } | Expr::Const(_)) {
            return;
        }
        let (operand, declare) = names.declare(fixed.dtype(names), Dims::new(), Space::Register);
        let value = Expr::fma(Expr::local(operand), (**moved).clone(), (**c).clone());
        let set = Stmt::SetLocal { local: *local, index: index.clone(), value };
        let step = vec![declare, Stmt::set_scalar(operand, (**fixed).clone()), set];
        body.splice(self.found.at..=self.found.at, nest::wrap(&nest.loops, step));
    }

    /// Strips of lanes, in each the tiles of `rows` rows from `start`.
    fn tiles(&self, mut body: Block, start: Affine, rows: i64, packs: bool, names: &mut Names) -> Block {
        let row = names.loop_id();
        let mut strip = Block::new();
        self.name_operand(&mut body, names);
        if packs && rows >= ROWS_WORTH_PACKING {
            let packed = self.pack(&mut strip, names);
            self.read_packed(&mut body, packed);
        }
        walk::substitute(&mut body, self.found.rows.var, &start.plus(&Affine::var(row)));
        strip.push(Stmt::serial(row, rows, body));
        let vector = Strip { lanes: self.lanes, kind: LoopKind::Vector };
        let lane = names.loop_id();
        walk::substitute(&mut strip, self.lane.var, &Affine::var(lane));
        let mut strips = jam::strips(lane, self.columns, &strip, vector, names);
        for strip in &mut strips {
            self.tile_rows(strip, names);
        }
        strips
    }

    /// Declares the copy of `b` for one lane, fills it, and returns it.
    fn pack(&self, strip: &mut Block, names: &mut Names) -> LocalId {
        let dims: Dims = self.found.ks.iter().map(|l| l.hi.limit as usize).collect();
        let (packed, declare) = names.declare(self.found.b.dtype(names), dims, Space::Stack);
        let ks: Vec<Loop> = self.found.ks.iter().map(|l| Loop { var: names.loop_id(), ..*l }).collect();
        let mut value = self.found.b.clone();
        for (old, new) in self.found.ks.iter().zip(&ks) {
            value = walk::map_expr_indices(value, &mut |i| i.substitute(old.var, &Affine::var(new.var)));
        }
        let index = ks.iter().map(|l| Affine::var(l.var)).collect();
        let set = Stmt::SetLocal { local: packed, index, value };
        strip.push(declare);
        strip.extend(nest::wrap(&ks, vec![set]));
        packed
    }

    /// Replaces the product in the body by one with the copy of `b`.
    fn read_packed(&self, body: &mut Block, packed: LocalId) {
        let Some(nest) = body.get(self.found.at).and_then(Nest::of) else { return };
        let mut index: Indices = nest.loops.iter().map(|k| Affine::var(k.var)).collect();
        walk::map_values(&mut body[self.found.at..=self.found.at], &mut |value| match value {
            Expr::Ternary { op: TernaryOp::Fma, a, b, c } => {
                let packed = Expr::GetLocal { local: packed, index: std::mem::take(&mut index) };
                let (a, b) = if mentions(&a, self.lane.var) { (packed, *b) } else { (*a, packed) };
                Expr::fma(a, b, *c)
            }
            other => other,
        });
    }

    /// Unrolls the loop over rows, which is the last statement of a strip.
    fn tile_rows(&self, strip: &mut Stmt, names: &mut Names) {
        let Stmt::For { body, .. } = strip else { return };
        let Some(Stmt::For { var, hi, body: rows, .. }) = body.pop() else { return };
        names.note(&rows);
        let unrolled = Strip { lanes: self.row_tile, kind: LoopKind::Unrolled };
        body.extend(jam::strips(var, hi.limit, &rows, unrolled, names));
    }
}
