//! The tile scheduler: maps the index of a block or cluster to a tile of the output. A group consists of
//! several rows of tiles. Groups follow each other, and the tiles of a group are in column order, so that
//! blocks that run at about the same time share operand tiles in L2.

use ptx_asm::{PtxBinaryOp, PtxBuilder, Reg, Ty};

use super::Matmul;

/// The position of a tile in the output.
pub(super) struct TileCoord {
    /// Index of the matmul in the batch.
    pub(super) batch: Reg,
    /// First row.
    pub(super) row: Reg,
    /// First column.
    pub(super) column: Reg,
}

/// Rows of tiles in a group.
const GROUP: u32 = 8;

/// Number of tiles of this size, in rows and columns.
pub(super) fn tile_count(matmul: &Matmul, tile: [u32; 2]) -> u64 {
    let [rows, columns] = tiles(matmul, tile).map(u64::from);
    rows * columns * u64::from(matmul.batch)
}

/// The position of the tile with this index.
pub(super) fn tile_coord(b: &mut PtxBuilder, matmul: &Matmul, tile: [u32; 2], number: Reg) -> TileCoord {
    let [rows, columns] = tiles(matmul, tile);
    let each = rows * columns;
    let batch = b.binary(PtxBinaryOp::Div, Ty::U32, number, each);
    let number = b.binary(PtxBinaryOp::Rem, Ty::U32, number, each);
    let group = b.binary(PtxBinaryOp::Div, Ty::U32, number, GROUP * columns);
    let within = b.binary(PtxBinaryOp::Rem, Ty::U32, number, GROUP * columns);
    let first = b.binary(PtxBinaryOp::Mul, Ty::U32, group, GROUP);
    let left = b.binary(PtxBinaryOp::Sub, Ty::U32, rows, first);
    let height = b.binary(PtxBinaryOp::Min, Ty::U32, left, GROUP);
    let (column, row) = (
        b.binary(PtxBinaryOp::Div, Ty::U32, within, height),
        b.binary(PtxBinaryOp::Rem, Ty::U32, within, height),
    );
    let row = b.add(Ty::U32, first, row);
    let row = b.binary(PtxBinaryOp::Mul, Ty::U32, row, tile[0]);
    let column = b.binary(PtxBinaryOp::Mul, Ty::U32, column, tile[1]);
    TileCoord { batch, row, column }
}

fn tiles(matmul: &Matmul, tile: [u32; 2]) -> [u32; 2] {
    [matmul.sizes[0].div_ceil(tile[0]), matmul.sizes[1].div_ceil(tile[1])]
}
