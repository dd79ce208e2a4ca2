//! Register tiles for contractions.
//!
//! `for m, n { before; for k { acc := fma(a(m,k), b(k,n), acc) }; after }` becomes
//!
//! ```text
//! for n strip {
//!   packed[k, lane] := b(k, n)                       ; once per strip, contiguous; if enough rows use it
//!   for m tile {
//!     before; for k { acc[row, lane] := fma(a(m+row, k), packed[k, lane], acc[row, lane]) }; after
//!   }
//! }
//! ```
//!
//! The strip of `b` stays in the innermost cache while all rows pass over it, and a row tile reuses each
//! vector of it from a register. A strip too deep for that cache is packed and multiplied in blocks of `k`;
//! between blocks the accumulators are in `sums[m, lane]`. If there are fewer strips than threads need, rows
//! are split into blocks as well, and each block packs its own copy. Each output adds its terms in the order
//! of `k`, so no bit changes. In class `Strict`, `acc := acc + a * b` takes the place of the fma.
//!
//! If `b` is [decoded](super::decode_operand) and a few rows use it, a strip is so narrow that one tile has
//! all rows: each element is decoded once, in a register, and never packed.

use lowered_ir::ir::{
    Affine, BinaryOp, Block, Expr, Indices, LocalId, LoopId, LoopKind, Space, Stmt, Types, walk,
};
use smallvec::smallvec;
use tnode::{Dims, Scalar};

use crate::analysis::access;
use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop, Nest};
use crate::analysis::reduction::multiply_add;
use crate::common::unroll_and_jam::{self, Strip, VECTORS};
use crate::cpu::decode_operand::is_decoded;
use codegen_core::Caps;
use codegen_core::canonical::{Axis, Contraction, adds_products};
use codegen_core::dependence::{self, mentions};

/// The least number of rows for which packing saves more than it costs.
const ROWS_WORTH_PACKING: i64 = 8;
/// Rows of a block that packs its own copy.
const BLOCK_ROWS: i64 = 32;

/// The most rows that multiply streamed columns, each of which reads them again from a cache.
const STREAMED_ROWS: i64 = 4;
/// The least length of streamed columns.
const STREAMED_DEPTH: i64 = 64;

/// Rows whose accumulators fit into scratch memory.
const SUMMED_ROWS: i64 = 1024;

/// A contraction: its body is `before`, the loops `ks` around `acc := fma(a, b, acc)` or `acc := acc + a *
/// b`, and `after`.
struct FoundContraction {
    before: Block,
    ks: Vec<Loop>,
    acc: LocalId,
    /// Whether multiplication and addition are one fma.
    fused: bool,
    /// The operand that is equal in all lanes.
    a: Expr,
    /// The operand that differs between lanes and is equal in all rows.
    b: Expr,
    after: Block,
    rows: Loop,
}

/// The nest in register tiles with these lanes, if it is a contraction.
pub(crate) fn tile_contraction(
    nest: &Nest,
    lane: Loop,
    lanes: i64,
    caps: &Caps,
    names: &mut Names,
) -> Option<Block> {
    let found = find(nest, &lane, names)?;
    let outer: Vec<Loop> = nest.loops.iter().filter(|l| **l != lane && **l != found.rows).cloned().collect();
    let (rows, columns) = (found.rows.extent()?, lane.extent()?);
    let registers = accumulators(caps);
    let vector = (lanes / VECTORS as i64).max(1);
    let is_decoded = decodes_in_registers(&found.b, rows, caps, names);
    let lanes = if is_decoded { vector * (registers / rows).clamp(1, VECTORS as i64) } else { lanes };
    let depth = if is_decoded { None } else { depth(&found, lanes, caps, names) };
    let tiler = ContractionTiler { found, lane, columns, lanes, vector, registers, depth };
    let for_threads = if outer.is_empty() { row_blocks(rows, columns / lanes, caps) } else { 1 };
    let blocks = for_threads.max(if tiler.is_blocked() { rows / SUMMED_ROWS } else { 1 });
    let block_rows = rows / blocks / ROWS_WORTH_PACKING * ROWS_WORTH_PACKING;
    if blocks == 1 || block_rows == 0 {
        return Some(nest::wrap(&outer, tiler.tiles(Affine::constant(0), rows, names)));
    }
    let block = names.loop_id();
    let body = tiler.tiles(Affine::term(block, block_rows), block_rows, names);
    let mut all = vec![Stmt::serial(block, blocks, body)];
    let done = blocks * block_rows;
    if done < rows {
        all.extend(tiler.tiles(Affine::constant(done), rows - done, names));
    }
    Some(all)
}

/// Vector registers for accumulators.
fn accumulators(caps: &Caps) -> i64 {
    caps.vector_registers as i64 / 2
}

/// Whether an operand is decoded, and so few rows use it that their accumulators fit into registers.
pub(crate) fn decodes_in_registers(operand: &Expr, rows: i64, caps: &Caps, names: &Names) -> bool {
    rows <= accumulators(caps) && is_decoded(operand, names)
}

/// A contraction that the target may compile whole, with its loops in an order that suits threads.
pub(crate) fn whole_contraction(nest: &Nest, caps: &Caps, names: &Names) -> Option<Block> {
    if caps.contractions.is_empty() || !adds_products(&nest.body) {
        return None;
    }
    let block = nest::wrap(&nest.loops, nest.body.clone());
    let [stmt] = block.as_slice() else { return None };
    let contraction = names.contraction(stmt)?;
    if streams(&contraction, caps, names) {
        return None;
    }
    let order = in_parts(&contraction, caps.threads);
    let loops: Vec<Loop> =
        order.iter().filter_map(|axis| nest.loops.iter().find(|l| l.var == axis.var)).cloned().collect();
    Some(nest::wrap(&loops, nest.body.clone()))
}

/// Whether a few rows multiply long columns that all fit into registers. Vectors then read the other operand
/// in order, each row of it once, where a tile would read a part of each row, which hardware foresees less.
fn streams(found: &Contraction, caps: &Caps, names: &Names) -> bool {
    let ([column], [k]) = (found.columns.as_slice(), found.depth.as_slice()) else { return false };
    let is_dynamic = |axis: &Axis| found.dynamic.iter().any(|(var, _)| *var == axis.var);
    let rows = found.rows.iter().fold(1i64, |rows, axis| rows.saturating_mul(axis.extent));
    let Expr::Get { node, index } = &found.right else { return false };
    // A local, such as a decoded panel, is in a cache.
    if !names.is_node(*node) {
        return false;
    }
    let position = names.position(*node, index);
    let bytes = column.extent as usize * found.right.dtype(names).size_bytes();
    rows <= STREAMED_ROWS
        && k.extent >= STREAMED_DEPTH
        && (4 * caps.vector_bytes..=caps.vector_registers / 2 * caps.vector_bytes).contains(&bytes)
        && position.coefficient(column.var) == 1
        && position.coefficient(k.var) == column.extent
        && !found.rows.iter().chain([column]).any(is_dynamic)
}

/// The outer loops in an order that gives each thread a part with little data in common with the others.
fn in_parts(whole: &Contraction, threads: usize) -> Vec<Axis> {
    let threads = threads as i64;
    let by_batch = whole.batch.first().is_some_and(|b| b.extent % threads == 0 || b.extent >= 4 * threads);
    // A part of the rows needs all columns of `right`, and a part of the columns all rows of `left`.
    let (first, second) = match whole.num_rows() >= whole.num_columns() {
        true => (&whole.rows, &whole.columns),
        false => (&whole.columns, &whole.rows),
    };
    let parts: [&[Axis]; 3] =
        if by_batch { [&whole.batch, first, second] } else { [first, &whole.batch, second] };
    parts.concat()
}

/// The number of blocks of rows that gives every thread work.
fn row_blocks(rows: i64, strips: i64, caps: &Caps) -> i64 {
    let wanted = 2 * caps.threads as i64;
    if caps.threads < 2 || strips >= wanted { 1 } else { (rows / BLOCK_ROWS).clamp(1, wanted) }
}

/// The iterations of the outermost loop over `k` that are packed at a time, so that they take half of the
/// innermost cache.
///
/// None if `b` cannot be copied ahead, because the nest changes what it reads, or if one iteration exceeds a
/// cache.
fn depth(found: &FoundContraction, lanes: i64, caps: &Caps, names: &Names) -> Option<i64> {
    let read = [Stmt::set_scalar(found.acc, found.b.clone())];
    let written: Block = found.before.iter().chain(&found.after).cloned().collect();
    let mut used = dependence::locals_used(&read);
    used.remove(&found.acc);
    let fixed = used.is_empty() && access::nodes(&read).is_disjoint(&dependence::written(&written));
    let width = found.b.dtype(names).size_bytes() as i64;
    let inner = found.ks.iter().skip(1).map(|k| k.hi.limit);
    let bytes = inner.fold(lanes * width, i64::saturating_mul).max(1);
    let depth = (caps.l1_bytes as i64 / 2 / bytes).max(1);
    (fixed && bytes <= caps.l2_bytes as i64 / 2).then_some(depth)
}

fn find(nest: &Nest, lane: &Loop, names: &Names) -> Option<FoundContraction> {
    let mut inner = nest.body.iter().enumerate().filter(|(_, stmt)| matches!(stmt, Stmt::For { .. }));
    let ((at, only), None) = (inner.next()?, inner.next()) else { return None };
    let Nest { loops: ks, body } = Nest::of(only)?;
    let [Stmt::SetLocal { local: acc, index, value }] = body.as_slice() else { return None };
    let (a, b, c, fused) = multiply_add(value)?;
    let (before, after) = (nest.body[..at].to_vec(), nest.body[at + 1..].to_vec());
    let own = dependence::declared(&before).contains(acc) && index.is_empty() && *c == Expr::local(*acc);
    if !own || has_arrays(&nest.body) || ks.iter().any(|k| k.extent().is_none()) {
        return None;
    }
    let (a, b) = match (mentions(a, lane.var), mentions(b, lane.var)) {
        (false, true) => (a, b),
        (true, false) => (b, a),
        _ => return None,
    };
    let movable =
        nest.possible_lanes(names).into_iter().filter(|l| l != lane && l.extent().is_some_and(|e| e > 1));
    let rows = movable.filter(|l| mentions(a, l.var) && !mentions(b, l.var)).max_by_key(|l| l.hi.limit)?;
    Some(FoundContraction { before, ks, acc: *acc, fused, a: a.clone(), b: b.clone(), after, rows })
}

fn has_arrays(body: &[Stmt]) -> bool {
    walk::stmts(body).any(|stmt| matches!(stmt, Stmt::Declare { space, .. } if space.is_private_memory()))
}

struct ContractionTiler {
    found: FoundContraction,
    lane: Loop,
    columns: i64,
    lanes: i64,
    /// The lanes of a vector.
    vector: i64,
    registers: i64,
    /// Iterations of `k` that are packed at a time; none if `b` must not be packed.
    depth: Option<i64>,
}

/// Neighboring columns that are computed in strips of as many lanes.
struct ColumnPiece {
    from: i64,
    extent: i64,
    lanes: i64,
}

impl ContractionTiler {
    /// The tiles of `rows` rows from `start`, in strips of lanes.
    fn tiles(&self, start: Affine, rows: i64, names: &mut Names) -> Block {
        let pieces = self.pieces();
        pieces.into_iter().flat_map(|piece| self.strips(&piece, &start, rows, names)).collect()
    }

    /// The columns as whole strips, whole vectors of the remainder, and single columns.
    fn pieces(&self) -> Vec<ColumnPiece> {
        let vector = self.vector;
        let (strips, rest) = (self.columns / self.lanes * self.lanes, self.columns % self.lanes);
        let (vectors, single) = (rest / vector * vector, rest % vector);
        let piece = |from, extent, lanes| ColumnPiece { from, extent, lanes };
        let all = [
            piece(0, strips, self.lanes),
            piece(strips, vectors, vectors),
            piece(strips + vectors, single, single),
        ];
        all.into_iter().filter(|piece| piece.extent > 0).collect()
    }

    /// Whether `b` is packed in several blocks.
    fn is_blocked(&self) -> bool {
        let outermost = self.found.ks.first().map_or(0, |k| k.hi.limit);
        self.depth.is_some_and(|depth| outermost > depth)
    }

    fn strips(&self, piece: &ColumnPiece, start: &Affine, rows: i64, names: &mut Names) -> Block {
        let &ColumnPiece { from, extent, lanes } = piece;
        let mut strip = match self.depth.filter(|_| rows >= ROWS_WORTH_PACKING) {
            None => self.direct(start, rows, names),
            Some(depth) if self.is_blocked() => self.blocked(start, rows, depth, names),
            Some(_) => self.packed(start, rows, names),
        };
        let lane = names.loop_id();
        walk::substitute(&mut strip, self.lane.var, &Affine::var(lane).plus_constant(from));
        let vector = Strip { lanes, kind: LoopKind::Vector };
        let mut strips = unroll_and_jam::strips(lane, extent, &strip, vector, names);
        let tile = Strip { lanes: self.row_tile(lanes), kind: LoopKind::Unrolled };
        for strip in &mut strips {
            if let Stmt::For { body, .. } = strip {
                tile_rows(body, rows, tile, names);
            }
        }
        strips
    }

    /// The number of rows whose accumulators fill the registers. A row has a register for each vector of its
    /// lanes; if it has fewer lanes than a vector, it has a register for each lane.
    fn row_tile(&self, lanes: i64) -> i64 {
        let each = if lanes < self.vector { lanes } else { lanes / self.vector };
        (self.registers / each).max(1)
    }

    /// Every row reads `b` itself.
    fn direct(&self, start: &Affine, rows: i64, names: &mut Names) -> Block {
        let body = self.row_body(self.found.b.clone(), names);
        vec![self.over_rows(names.loop_id(), start, rows, body, names)]
    }

    /// Every row reads a packed copy of `b`.
    fn packed(&self, start: &Affine, rows: i64, names: &mut Names) -> Block {
        let (mut strip, packed) = self.pack(&self.found.ks, &Affine::constant(0), names);
        let body = self.row_body(element(packed, &self.found.ks), names);
        strip.push(self.over_rows(names.loop_id(), start, rows, body, names));
        strip
    }

    /// Every row reads packed blocks of `b`, one after the other. Between blocks the accumulators are in an
    /// array.
    fn blocked(&self, start: &Affine, rows: i64, depth: i64, names: &mut Names) -> Block {
        let dtype = names.local(self.found.acc);
        let space = if self.starts_from_zero() { Space::Stack } else { Space::Scratch };
        let (sums, declare) = names.declare(dtype, smallvec![rows as usize], space);
        let mut strip = vec![declare];
        if !self.starts_from_zero() {
            let row = names.loop_id();
            let mut body = self.found.before.clone();
            body.push(set_sum(sums, row, Expr::local(self.found.acc)));
            strip.push(self.over_rows(row, start, rows, body, names));
        }
        let extent = self.found.ks.first().map_or(0, |k| k.hi.limit);
        let block = names.loop_id();
        let body = self.block(start, rows, sums, &Affine::term(block, depth), depth, names);
        strip.push(Stmt::serial(block, extent / depth, body));
        if extent % depth > 0 {
            let from = Affine::constant(extent / depth * depth);
            let body = self.block(start, rows, sums, &from, extent % depth, names);
            strip.push(Stmt::serial(names.loop_id(), 1, body));
        }
        let row = names.loop_id();
        let mut body = self.found.before.clone();
        body.push(Stmt::set_scalar(self.found.acc, sum(sums, row)));
        body.extend(self.found.after.iter().cloned());
        strip.push(self.over_rows(row, start, rows, body, names));
        strip
    }

    /// Packs `len` iterations of the outermost loop over `k` and multiplies them with all rows.
    fn block(
        &self,
        start: &Affine,
        rows: i64,
        sums: LocalId,
        from: &Affine,
        len: i64,
        names: &mut Names,
    ) -> Block {
        let mut ks = self.found.ks.clone();
        for (at, k) in ks.iter_mut().enumerate() {
            let hi = if at == 0 { len.into() } else { k.hi.clone() };
            *k = Loop { var: names.loop_id(), lo: 0, hi };
        }
        let (mut block, packed) = self.pack(&ks, from, names);
        let row = names.loop_id();
        let (acc, declare) = names.declare(names.local(self.found.acc), Dims::new(), Space::Register);
        let mut body = vec![declare, Stmt::set_scalar(acc, sum(sums, row))];
        let a = self.renumbered(&self.found.a, &ks, from);
        body.extend(self.products(&ks, acc, a, element(packed, &ks), names));
        body.push(set_sum(sums, row, Expr::local(acc)));
        block.push(self.over_rows(row, start, rows, body, names));
        block
    }

    /// The body of the nest for one row, with `b` replaced.
    fn row_body(&self, b: Expr, names: &mut Names) -> Block {
        let mut body = self.found.before.clone();
        body.extend(self.products(&self.found.ks, self.found.acc, self.found.a.clone(), b, names));
        body.extend(self.found.after.iter().cloned());
        body
    }

    /// A loop over rows, under fresh names.
    fn over_rows(&self, row: LoopId, start: &Affine, rows: i64, body: Block, names: &mut Names) -> Stmt {
        let mut body = names.refreshed(&body);
        walk::substitute(&mut body, self.found.rows.var, &start.plus(&Affine::var(row)));
        Stmt::serial(row, rows, body)
    }

    /// Declares and fills a copy of `b` for the iterations of `ks`, which begin at `from`.
    fn pack(&self, ks: &[Loop], from: &Affine, names: &mut Names) -> (Block, LocalId) {
        let dims: Dims = ks.iter().map(|k| k.hi.limit as usize).collect();
        let (packed, declare) = names.declare(self.found.b.dtype(names), dims, Space::Scratch);
        let value = self.renumbered(&self.found.b, ks, from);
        let index = ks.iter().map(|k| Affine::var(k.var)).collect();
        let fill = nest::wrap(ks, vec![Stmt::SetLocal { local: packed, index, value }]);
        let mut block = vec![declare];
        block.extend(names.refreshed(&fill));
        (block, packed)
    }

    /// An operand with the loops `ks` in the place of its own. The outermost begins at `from`.
    fn renumbered(&self, operand: &Expr, ks: &[Loop], from: &Affine) -> Expr {
        let mut operand = operand.clone();
        for (at, (old, new)) in self.found.ks.iter().zip(ks).enumerate() {
            let new = Affine::var(new.var);
            let index = if at == 0 { new.plus(from) } else { new };
            operand = walk::map_expr_indices(operand, &mut |i| i.substitute(old.var, &index));
        }
        operand
    }

    /// The loops over `k` and their multiplications. An operand `a` that is not a simple read gets a local,
    /// which all lanes share.
    fn products(&self, ks: &[Loop], acc: LocalId, a: Expr, b: Expr, names: &mut Names) -> Block {
        let sum = |a| match self.found.fused {
            true => Expr::fma(a, b, Expr::local(acc)),
            false => Expr::binary(BinaryOp::Add, Expr::local(acc), Expr::binary(BinaryOp::Mul, a, b)),
        };
        let add = |a| Stmt::set_scalar(acc, sum(a));
        if matches!(a, Expr::Get { .. } | Expr::Const(_)) {
            return nest::wrap(ks, vec![add(a)]);
        }
        let (shared, declare) = names.declare(a.dtype(names), Dims::new(), Space::Register);
        nest::wrap(ks, vec![declare, Stmt::set_scalar(shared, a), add(Expr::local(shared))])
    }

    /// Whether accumulators start from zero, the value of a declared local.
    fn starts_from_zero(&self) -> bool {
        self.found.before.iter().all(|stmt| match stmt {
            Stmt::SetLocal { local, value, .. } if *local == self.found.acc => {
                matches!(value, Expr::Const(x) if *x == Scalar::zero(x.dtype()))
            }
            _ => true,
        })
    }
}

/// Unrolls the loops over rows that contain loops over `k`.
fn tile_rows(block: &mut Block, rows: i64, tile: Strip, names: &mut Names) {
    for stmt in std::mem::take(block) {
        match stmt {
            Stmt::For { var, hi, body, .. } if hi.limit == rows && is_row(&body) => {
                names.note(&body);
                block.extend(unroll_and_jam::strips(var, rows, &body, tile, names));
            }
            Stmt::For { var, lo, hi, kind, mut body } => {
                tile_rows(&mut body, rows, tile, names);
                block.push(Stmt::For { var, lo, hi, kind, body });
            }
            stmt => block.push(stmt),
        }
    }
}

/// Whether a loop with this body is a loop over rows: the body contains loops over `k` and no copy of `b`.
fn is_row(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| matches!(stmt, Stmt::For { kind: LoopKind::Serial, .. }))
        && !body.iter().any(|stmt| matches!(stmt, Stmt::Declare { space, .. } if space.is_private_memory()))
}

fn element(packed: LocalId, ks: &[Loop]) -> Expr {
    let index: Indices = ks.iter().map(|k| Affine::var(k.var)).collect();
    Expr::GetLocal { local: packed, index }
}

fn sum(sums: LocalId, row: LoopId) -> Expr {
    Expr::GetLocal { local: sums, index: [Affine::var(row)].into() }
}

fn set_sum(sums: LocalId, row: LoopId, value: Expr) -> Stmt {
    Stmt::SetLocal { local: sums, index: [Affine::var(row)].into(), value }
}
