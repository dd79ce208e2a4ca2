//! Epilogue with coalesced stores, staged in the shared memory of the operand pipeline.
//!
//! Each warp has a part of that memory. It fills staging tiles until the part is full or no results are left.
//! Then its lanes read them row by row, 16 bytes each, and store these.

use ptx_asm::{AddressOperand, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, PtxStmt, Reg, StateSpace, Ty};

use super::tile::MmaTile;
use crate::tensor_cores::accumulators::{AccumulatorLayout, Accumulators, below, both};
use crate::tensor_cores::staging::{self, StagedResults, StagingWriter};
use crate::tensor_cores::tile_scheduler::TileCoord;
use crate::tensor_cores::{Matmul, MatmulCallbacks, MatmulMemory, OutputView};

/// Bytes that a lane stores at a time.
const STORE_BYTES: u32 = 16;

/// Writes the epilogue and its stores.
pub(super) fn finish(
    callbacks: &mut dyn MatmulCallbacks,
    matmul: &Matmul,
    tile: &MmaTile,
    coord: &TileCoord,
    (layout, accumulators): (&AccumulatorLayout, &Accumulators),
    (window, thread): (Reg, Reg),
) {
    let b = callbacks.builder();
    // Other warps may still read the last stage.
    b.push(Inst::CpAsyncWait { pending: 0 });
    b.barrier();
    let count = tile.stages * tile.stage_bytes() / (tile.num_warps() * staging::BYTES);
    let lane = b.binary(PtxBinaryOp::And, Ty::B32, thread, 31_u32);
    let warp = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, thread, 5_u32);
    let first = b.mul_add(Ty::U32, warp, count * staging::BYTES, window);
    let corner =
        [b.add(Ty::U32, coord.row, layout.corner[0]), b.add(Ty::U32, coord.column, layout.corner[1])];
    let stores = (0..).zip(&matmul.outputs).map(|(number, store)| {
        let base = callbacks.base_address(MatmulMemory::Output(number));
        let writer = StagingWriter::new(callbacks.builder(), store.element, lane, first, false);
        (base, writer)
    });
    let stores: Vec<(Reg, StagingWriter)> = stores.collect();
    let tiles = StagingTiles { matmul, tile, first, lane, corner };
    let mut written: Vec<StagedResults> = Vec::new();
    layout.staged_results(callbacks, matmul, coord, accumulators, &mut |callbacks, results| {
        let b = callbacks.builder();
        if written.len() as u32 == count {
            tiles.store_all(b, &stores, &mut written);
            b.push(Inst::WarpBarrier);
        }
        stores[results.store].1.write(b, &results, written.len() as u32);
        written.push(results);
    });
    tiles.store_all(callbacks.builder(), &stores, &mut written);
}

/// The staging tiles of a warp.
struct StagingTiles<'a> {
    matmul: &'a Matmul,
    tile: &'a MmaTile,
    /// Address of the first staging tile.
    first: Reg,
    lane: Reg,
    /// Row and column of the warp's first output.
    corner: [Reg; 2],
}

/// The chunks that a lane stores: one in its first row of a staging tile, and one in every `lines`-th row
/// after that.
struct LaneStore {
    /// The lane's first row.
    line: Reg,
    /// The chunk within each row.
    chunk: Reg,
    /// Rows that the warp stores at a time.
    lines: u32,
    /// Address of the chunk in the first staging tile, for even and for odd steps; the swizzle differs.
    from: [Reg; 2],
}

impl StagingTiles<'_> {
    /// Stores the staging tiles that have been filled.
    fn store_all(
        &self,
        b: &mut PtxBuilder,
        stores: &[(Reg, StagingWriter)],
        written: &mut Vec<StagedResults>,
    ) {
        b.push(Inst::WarpBarrier);
        for (number, results) in (0..).zip(written.drain(..)) {
            let store = &self.matmul.outputs[results.store];
            let chunks = self.lane_store(b, results.line(store.element));
            self.store(b, store, stores[results.store].0, &chunks, &results, number);
        }
    }

    /// The chunks that this lane stores of a staging tile whose rows have `bytes` bytes, which is 128 or 64.
    fn lane_store(&self, b: &mut PtxBuilder, bytes: u32) -> LaneStore {
        let chunks = bytes / STORE_BYTES;
        let lines = 32 / chunks;
        let chunk = b.binary(PtxBinaryOp::And, Ty::B32, self.lane, chunks - 1);
        let line = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, self.lane, 3_u32);
        let line = match chunks {
            8 => line,
            // Eight lanes read at once, from two rows. These are four rows apart, so that they are in
            // different banks.
            _ => {
                let other = b.binary(PtxBinaryOp::And, Ty::B32, self.lane, chunks);
                b.add(Ty::U32, line, other)
            }
        };
        let swizzled = b.binary(PtxBinaryOp::Xor, Ty::B32, chunk, line);
        let start = b.mul_add(Ty::U32, line, staging::LINE, self.first);
        let even = b.mul_add(Ty::U32, swizzled, STORE_BYTES, start);
        let odd = if lines.is_multiple_of(8) {
            even
        } else {
            b.binary(PtxBinaryOp::Xor, Ty::B32, even, lines * STORE_BYTES)
        };
        LaneStore { line, chunk, lines, from: [even, odd] }
    }

    /// Stores the rows of a staging tile.
    fn store(
        &self,
        b: &mut PtxBuilder,
        store: &OutputView,
        base: Reg,
        chunks: &LaneStore,
        results: &StagedResults,
        number: u32,
    ) {
        let element = store.element.bytes();
        let row = b.add(Ty::U32, self.corner[0], chunks.line);
        let column = b.mul_add(Ty::U32, chunks.chunk, STORE_BYTES / element, self.corner[1]);
        let line = b.mul_add_wide(Ty::U32, row, store.stride * element, base);
        let to = b.mul_add_wide(Ty::U32, column, element, line);
        for at in 0..staging::ROWS / chunks.lines {
            let from = (number * staging::BYTES + at * chunks.lines * staging::LINE) as i32;
            let from = AddressOperand::at(chunks.from[at as usize % 2]).plus(from);
            let values = b.load_vector(StateSpace::Shared, Ty::B32, false, from, 4);
            let [down, along] = [results.at[0] + at * chunks.lines, results.at[1]];
            let behind = u64::from(down) * u64::from(store.stride) + u64::from(along);
            let to = AddressOperand::at(b.add(Ty::U64, to, behind * u64::from(element)));
            let srcs = values.iter().map(|&value| value.into()).collect();
            let inst = Inst::Store { space: StateSpace::Global, ty: Ty::B32, to, srcs };
            match self.inside(b, [row, column], [down, along]) {
                None => b.push(inst),
                Some(inside) => b.push_stmt(PtxStmt::Predicated(GuardPredicate::on(inside), inst)),
            }
        }
    }

    /// Predicate for outputs that exist at this distance from a row and column; `None` if all of them do.
    fn inside(&self, b: &mut PtxBuilder, [row, column]: [Reg; 2], [down, along]: [u32; 2]) -> Option<Reg> {
        let [rows, columns, _] = self.matmul.sizes;
        let [tall, wide] = self.tile.sizes();
        let row = (rows % tall != 0).then(|| below(b, row, down, rows));
        let column = (columns % wide != 0).then(|| below(b, column, along, columns));
        both(b, row, column)
    }
}
