//! Where results wait for the copy engine, which stores them as tiles.
//!
//! ```text
//! each warp of a consumer, for each of its boxes in turn:
//!   its first lane waits until the engine has read what was in the box; the lanes meet
//!   each lane writes its results into the box, and fences them, since the engine has its own path to memory; the lanes meet
//!   the first lane tells the engine where the box goes
//! ```
//!
//! Nobody waits for what is stored but before a box is written again, and at the end, so that the next tile is multiplied meanwhile. What lies beyond
//! the last row and column, the engine leaves out.

use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBuilder, PtxOperand, PtxStmt, Reg, StateSpace, Ty,
};

use super::operand::TmaTensor;
use super::tile::{WARPS, WgmmaTile};
use crate::tensor_cores::accumulators::{AccumulatorLayout, Accumulators};
use crate::tensor_cores::staging::{self, StagedResults, StagingWriter};
use crate::tensor_cores::tile_scheduler::TileCoord;
use crate::tensor_cores::{Matmul, MatmulCallbacks, MatmulMemory, OutputView};

/// The most boxes of a warp: one is written while the other is read. More would take the room of a stage.
const MOST: u32 = 2;

impl WgmmaTile {
    /// The factors, and where results go if the copy engine stores them, as tensors.
    pub(crate) fn tensors(&self, matmul: &Matmul) -> Vec<TmaTensor> {
        let operands = self.operands(matmul).into_iter().flatten();
        operands.chain(stores(matmul).unwrap_or_default()).collect()
    }

    /// How many boxes each warp has: such a number that each tile begins with the first.
    fn boxes(&self, matmul: &Matmul) -> u32 {
        let bytes: u32 = matmul.outputs.iter().map(|store| store.element.bytes()).sum();
        let uses = self.columns * bytes / staging::LINE;
        (1..=MOST).rev().find(|boxes| uses.is_multiple_of(*boxes)).unwrap_or(1)
    }
}

/// Where results go as tensors of which a tile is a box, if there is something, and all batches can be axes.
fn stores(matmul: &Matmul) -> Option<Vec<TmaTensor>> {
    let [rows, columns, _] = matmul.sizes;
    let tensor = |store: &OutputView| {
        let element = store.element.bytes();
        let tile = [staging::LINE / element, staging::ROWS];
        Some(TmaTensor::of(element, [columns, rows], store.stride, tile, store.batch.as_ref()?))
    };
    matmul.outputs.iter().map(tensor).collect()
}

/// The boxes of a warp.
pub(super) struct TmaStoreEpilogue {
    /// How many.
    count: u32,
    /// The address of the first.
    first: Reg,
    /// Whether this lane deals with the copy engine.
    is_elected: GuardPredicate,
    /// By store, the tensor map, and how results are written.
    stores: Vec<(Reg, StagingWriter)>,
}

impl TmaStoreEpilogue {
    /// Of a warp of the consumers; nothing if results are stored one by one.
    pub(super) fn new(
        b: &mut PtxBuilder,
        matmul: &Matmul,
        tile: &WgmmaTile,
        lane: Reg,
        warp: Reg,
    ) -> Option<TmaStoreEpilogue> {
        stores(matmul).filter(|stores| !stores.is_empty())?;
        let count = tile.boxes(matmul);
        let all = b.shared(WARPS * tile.consumers * count * staging::BYTES, staging::ALIGN);
        let all = b.address(StateSpace::Shared, all);
        let first = b.mul_add(Ty::U32, warp, count * staging::BYTES, all);
        let is_elected = GuardPredicate::on(b.compare(CmpOp::Eq, Ty::U32, lane, 0_u32));
        let operands = 2;
        let mut store = |(at, store): (u32, &OutputView)| {
            let map = b.map_address(operands + at);
            b.push(Inst::PrefetchTensorMap { map });
            (map, StagingWriter::new(b, store.element, lane, first, true))
        };
        let stores = (0..).zip(&matmul.outputs).map(&mut store).collect();
        Some(TmaStoreEpilogue { count, first, is_elected, stores })
    }

    /// Stores what becomes of the sums of a tile.
    pub(super) fn finish(
        &self,
        callbacks: &mut dyn MatmulCallbacks,
        matmul: &Matmul,
        coord: &TileCoord,
        layout: &AccumulatorLayout,
        accumulators: &Accumulators,
    ) {
        let batch: Vec<Vec<Reg>> = (0..self.stores.len())
            .map(|store| callbacks.batch_coordinates(MatmulMemory::Output(store)))
            .collect();
        let mut uses = 0;
        layout.parts(callbacks, matmul, coord, accumulators, &mut |callbacks, part| {
            let b = callbacks.builder();
            let row = b.add(Ty::U32, coord.row, layout.corner[0]);
            let at = [b.add(Ty::U32, row, part.at[0]), b.add(Ty::U32, coord.column, part.at[1])];
            self.put(b, &part, uses % self.count, at, &batch[part.store]);
            uses += 1;
        });
    }

    /// Writes results into a box, and begins to store them at a row and a column.
    fn put(
        &self,
        b: &mut PtxBuilder,
        part: &StagedResults,
        number: u32,
        [row, column]: [Reg; 2],
        batch: &[Reg],
    ) {
        let (map, writer) = &self.stores[part.store];
        self.wait(b, self.count - 1);
        b.push(Inst::WarpBarrier);
        writer.write(b, part, number);
        b.push(Inst::FenceProxyAsync);
        b.push(Inst::WarpBarrier);
        let at = [column, row].iter().chain(batch).map(|&coord| PtxOperand::Reg(coord)).collect();
        let from = AddressOperand::at(self.first).plus((number * staging::BYTES) as i32);
        b.when(self.is_elected, |b| {
            b.push(Inst::TmaStore { map: *map, at, from });
            b.push(Inst::TmaStoreCommit);
        });
    }

    /// Waits until at most so many boxes, the latest, are still to be read.
    pub(super) fn wait(&self, b: &mut PtxBuilder, pending: u32) {
        b.push_stmt(PtxStmt::Predicated(self.is_elected, Inst::TmaStoreWait { pending }));
    }
}
