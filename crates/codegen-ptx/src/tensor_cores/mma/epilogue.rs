//! Results go to memory in whole lines, through the shared memory that the pipeline leaves.
//!
//! Each warp has a part of it. It writes boxes of results until that is full or nothing is left, and then its lanes read them line by line, 16 bytes each, and store these.

use ptx_asm::{AddressOperand, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, PtxStmt, Reg, StateSpace, Ty};

use super::tile::MmaTile;
use crate::tensor_cores::accumulators::{AccumulatorLayout, Accumulators, below, both};
use crate::tensor_cores::staging::{self, StagedResults, StagingWriter};
use crate::tensor_cores::tile_scheduler::TileCoord;
use crate::tensor_cores::{Matmul, MatmulCallbacks, MatmulMemory, OutputView};

/// Bytes that a lane stores at a time.
const STORE_BYTES: u32 = 16;

/// Stores what becomes of the sums.
pub(super) fn finish(
    callbacks: &mut dyn MatmulCallbacks,
    matmul: &Matmul,
    tile: &MmaTile,
    coord: &TileCoord,
    (layout, accumulators): (&AccumulatorLayout, &Accumulators),
    (window, thread): (Reg, Reg),
) {
    let b = callbacks.builder();
    // The last stage may still be read by other warps.
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
    let boxes = StagingTiles { matmul, tile, first, lane, corner };
    let mut written: Vec<StagedResults> = Vec::new();
    layout.parts(callbacks, matmul, coord, accumulators, &mut |callbacks, part| {
        let b = callbacks.builder();
        if written.len() as u32 == count {
            boxes.empty(b, &stores, &mut written);
            b.push(Inst::WarpBarrier);
        }
        stores[part.store].1.write(b, &part, written.len() as u32);
        written.push(part);
    });
    boxes.empty(callbacks.builder(), &stores, &mut written);
}

/// The boxes of a warp.
struct StagingTiles<'a> {
    matmul: &'a Matmul,
    tile: &'a MmaTile,
    /// The address of the first.
    first: Reg,
    lane: Reg,
    /// The row and the column of the warp's first output.
    corner: [Reg; 2],
}

/// What of a box a lane stores at a time: a chunk of some line, and again some lines further.
struct LaneStore {
    /// The line and the chunk.
    line: Reg,
    chunk: Reg,
    /// Lines that the warp stores at a time.
    lines: u32,
    /// Where the chunk is in the first box, at even times and at odd ones.
    from: [Reg; 2],
}

impl StagingTiles<'_> {
    /// Stores what has been written into boxes.
    fn empty(&self, b: &mut PtxBuilder, stores: &[(Reg, StagingWriter)], written: &mut Vec<StagedResults>) {
        b.push(Inst::WarpBarrier);
        for (number, part) in (0..).zip(written.drain(..)) {
            let store = &self.matmul.outputs[part.store];
            let run = self.run(b, part.line(store.element));
            self.store(b, (store, stores[part.store].0), &run, &part, number);
        }
    }

    /// What this lane stores of lines of so many bytes: 128, or 64.
    fn run(&self, b: &mut PtxBuilder, bytes: u32) -> LaneStore {
        let chunks = bytes / STORE_BYTES;
        let lines = 32 / chunks;
        let chunk = b.binary(PtxBinaryOp::And, Ty::B32, self.lane, chunks - 1);
        let line = b.binary(PtxBinaryOp::ShiftRight, Ty::B32, self.lane, 3_u32);
        let line = match chunks {
            8 => line,
            // Eight lanes read at once, of two lines: these are four apart, and so in different banks.
            _ => {
                let other = b.binary(PtxBinaryOp::And, Ty::B32, self.lane, chunks);
                b.add(Ty::U32, line, other)
            }
        };
        let exchanged = b.binary(PtxBinaryOp::Xor, Ty::B32, chunk, line);
        let start = b.mul_add(Ty::U32, line, staging::LINE, self.first);
        let even = b.mul_add(Ty::U32, exchanged, STORE_BYTES, start);
        let odd = if lines.is_multiple_of(8) {
            even
        } else {
            b.binary(PtxBinaryOp::Xor, Ty::B32, even, lines * STORE_BYTES)
        };
        LaneStore { line, chunk, lines, from: [even, odd] }
    }

    /// Stores the lines of a box.
    fn store(
        &self,
        b: &mut PtxBuilder,
        (store, base): (&OutputView, Reg),
        run: &LaneStore,
        part: &StagedResults,
        number: u32,
    ) {
        let element = store.element.bytes();
        let row = b.add(Ty::U32, self.corner[0], run.line);
        let column = b.mul_add(Ty::U32, run.chunk, STORE_BYTES / element, self.corner[1]);
        let line = b.mul_add_wide(Ty::U32, row, store.stride * element, base);
        let to = b.mul_add_wide(Ty::U32, column, element, line);
        for at in 0..staging::ROWS / run.lines {
            let from = (number * staging::BYTES + at * run.lines * staging::LINE) as i32;
            let from = AddressOperand::at(run.from[at as usize % 2]).plus(from);
            let values = b.load_vector(StateSpace::Shared, Ty::B32, false, from, 4);
            let [down, along] = [part.at[0] + at * run.lines, part.at[1]];
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

    /// Whether there are outputs so much behind a row and a column, where there may be none.
    fn inside(&self, b: &mut PtxBuilder, [row, column]: [Reg; 2], [down, along]: [u32; 2]) -> Option<Reg> {
        let [rows, columns, _] = self.matmul.sizes;
        let [tall, wide] = self.tile.sizes();
        let row = (rows % tall != 0).then(|| below(b, row, down, rows));
        let column = (columns % wide != 0).then(|| below(b, column, along, columns));
        both(b, row, column)
    }
}
