//! Tiled transposes: nests that read along one axis and write along another, such as `y[j, i] := x[i, j]`.
//!
//! ```text
//! for i, j { y[j, i] := f(x[i, j]) }
//! =
//! for blocks of j, of i {
//!   for pieces of i, of j { for j of the piece unrolled { for i of the piece vector { … } } }
//! }
//! ```
//!
//! A piece is a square with as many rows as a vector has lanes. Its columns are whole vectors of the array
//! that is read, so a code generator can load these and transpose them in registers. A block is as long in
//! both directions as a cache line, so that each line is used completely. Consecutive blocks write adjacent
//! lines, which the processor can fetch ahead, and a line that is read is used before others can evict it:
//! rows whose distance is a power of two share few places of a cache. Iterations are independent, so no bit
//! changes.

use lowered_ir::ir::{Affine, Block, Expr, LoopId, LoopKind, Stmt, walk};

use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop, Nest};
use crate::common::unroll_and_jam::VECTORS;
use codegen_core::Caps;

/// Vectorizes the statements of a block.
type VectorizeFn = fn(Block, &Caps, &mut Names) -> Block;

/// Pieces of a block in each direction.
const PIECES: i64 = 2;

/// The nest in tiles, if it transposes. `lane` is the loop along which it writes contiguously, and a strip
/// has `lanes` iterations.
pub(crate) fn tile_transpose(
    nest: &Nest,
    lane: Loop,
    lanes: i64,
    caps: &Caps,
    names: &mut Names,
    vectorize: VectorizeFn,
) -> Option<Block> {
    let across = across(nest, &lane, names)?;
    let piece = lanes / VECTORS as i64;
    let block = PIECES * piece;
    let (columns, rows) = (lane.extent()?, across.extent()?);
    if columns < block || rows < block {
        return None;
    }
    let others: Vec<Loop> = nest.loops.iter().filter(|l| **l != lane && **l != across).cloned().collect();
    let tiler = TransposeTiler { nest, lane, across, piece, block };
    let mut all = vec![tiler.blocks(columns / block, rows / block, names)];
    let (done_columns, done_rows) = (columns / block * block, rows / block * block);
    all.extend(tiler.rest((0, done_columns), (done_rows, rows), caps, names, vectorize));
    all.extend(tiler.rest((done_columns, columns), (0, rows), caps, names, vectorize));
    Some(nest::wrap(&others, all))
}

/// The loop along which the reads that stride along `lane` are contiguous. Such a read gets from one
/// iteration over `lane` to the next past all elements that the other loop reads.
fn across(nest: &Nest, lane: &Loop, names: &Names) -> Option<Loop> {
    if nest.body.iter().any(|stmt| !matches!(stmt, Stmt::Set { .. } | Stmt::Comment(_))) {
        return None;
    }
    let mut found = None;
    walk::parts_in(&nest.body).for_each(|e| {
        if let Expr::Get { node, index } = e {
            let position = names.position(*node, index);
            let step = position.coefficient(lane.var);
            let contiguous = |l: &&Loop| {
                position.coefficient(l.var) == 1 && l.extent().is_some_and(|extent| step >= extent)
            };
            found = found.or(nest.loops.iter().find(contiguous));
        }
    });
    let across = found?;
    (across != lane && nest.possible_lanes(names).contains(across)).then(|| across.clone())
}

struct TransposeTiler<'a> {
    nest: &'a Nest,
    lane: Loop,
    across: Loop,
    piece: i64,
    block: i64,
}

impl TransposeTiler<'_> {
    /// The loops over this many blocks in each direction.
    fn blocks(&self, columns: i64, rows: i64, names: &mut Names) -> Stmt {
        let mut var = || names.loop_id();
        let (block_i, block_j, piece_i, piece_j, lane, row) = (var(), var(), var(), var(), var(), var());
        let at = |block: LoopId, piece: LoopId, own: LoopId| {
            Affine::term(block, self.block).plus(&Affine::term(piece, self.piece)).plus(&Affine::var(own))
        };
        let mut body = self.nest.body.clone();
        walk::substitute(&mut body, self.lane.var, &at(block_i, piece_i, lane));
        walk::substitute(&mut body, self.across.var, &at(block_j, piece_j, row));
        let vector = Stmt::looped(lane, self.piece, LoopKind::Vector, body);
        let piece = Stmt::looped(row, self.piece, LoopKind::Unrolled, vec![vector]);
        let pieces = Stmt::serial(piece_i, PIECES, vec![Stmt::serial(piece_j, PIECES, vec![piece])]);
        Stmt::serial(block_j, rows, vec![Stmt::serial(block_i, columns, vec![pieces])])
    }

    /// The iterations outside of whole blocks, in strips.
    fn rest(
        &self,
        columns: (i64, i64),
        rows: (i64, i64),
        caps: &Caps,
        names: &mut Names,
        vectorize: VectorizeFn,
    ) -> Block {
        if columns.0 == columns.1 || rows.0 == rows.1 {
            return Block::new();
        }
        let (lane, across) = (names.loop_id(), names.loop_id());
        let mut body = self.nest.body.clone();
        walk::substitute(&mut body, self.lane.var, &Affine::var(lane).plus_constant(columns.0));
        walk::substitute(&mut body, self.across.var, &Affine::var(across).plus_constant(rows.0));
        let inner = Stmt::serial(lane, columns.1 - columns.0, body);
        let outer = vec![Stmt::serial(across, rows.1 - rows.0, vec![inner])];
        names.note(&outer);
        vectorize(outer, caps, names)
    }
}
