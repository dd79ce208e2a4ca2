//! Epilogue with TMA stores from staging tiles.
//!
//! ```text
//! each consumer warp, for each of its staging tiles in turn:
//!   one lane waits until TMA has read the tile's previous content; warp barrier
//!   each lane writes its results to the tile, and fences them for the async proxy; warp barrier
//!   one lane issues the TMA store
//! ```
//!
//! A warp waits for a store only before it writes the staging tile again, and at the end, so that the stores
//! overlap with the multiplication of the next output tile. TMA skips elements beyond the last row and
//! column.

use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBuilder, PtxOperand, PtxStmt, Reg, StateSpace, Ty,
};

use super::operand::TmaTensor;
use super::tile::{WARPS, WgmmaTile};
use crate::tensor_cores::accumulators::{AccumulatorLayout, Accumulators};
use crate::tensor_cores::staging::{self, StagedResults, StagingWriter};
use crate::tensor_cores::tile_scheduler::TileCoord;
use crate::tensor_cores::{Matmul, MatmulCallbacks, MatmulMemory, OutputView};

/// Maximum number of staging tiles of a warp: the warp writes one while TMA reads the other. More staging
/// tiles would take the memory of a pipeline stage.
const MAX_STAGING_TILES: u32 = 2;

impl WgmmaTile {
    /// The operands as tensors, then the outputs if TMA stores them.
    pub(crate) fn tensors(&self, matmul: &Matmul) -> Vec<TmaTensor> {
        let operands = self.operands(matmul).into_iter().flatten();
        operands.chain(stores(matmul).unwrap_or_default()).collect()
    }

    /// Number of staging tiles per warp. It divides the number of times that an output tile uses one, so that
    /// each output tile begins with the first staging tile.
    fn staging_tiles(&self, matmul: &Matmul) -> u32 {
        let bytes: u32 = matmul.outputs.iter().map(|store| store.element.bytes()).sum();
        let uses = self.columns * bytes / staging::LINE;
        (1..=MAX_STAGING_TILES).rev().find(|tiles| uses.is_multiple_of(*tiles)).unwrap_or(1)
    }
}

/// The outputs as tensors whose tiles are the staging tiles; `None` if a tensor map cannot describe the batch
/// of an output.
fn stores(matmul: &Matmul) -> Option<Vec<TmaTensor>> {
    let [rows, columns, _] = matmul.sizes;
    let tensor = |store: &OutputView| {
        let element = store.element.bytes();
        let tile = [staging::LINE / element, staging::ROWS];
        Some(TmaTensor::of(element, [columns, rows], store.stride, tile, store.batch.as_ref()?))
    };
    matmul.outputs.iter().map(tensor).collect()
}

/// The staging tiles of a consumer warp and the stores from them.
pub(super) struct TmaStoreEpilogue {
    /// Number of staging tiles.
    count: u32,
    /// Address of the first one.
    first: Reg,
    /// True in the lane that issues TMA stores.
    is_elected: GuardPredicate,
    /// For each output, the address of the tensor map and the writer of its staging tiles.
    stores: Vec<(Reg, StagingWriter)>,
}

impl TmaStoreEpilogue {
    /// The epilogue of a consumer warp; `None` if results are stored from registers.
    pub(super) fn new(
        b: &mut PtxBuilder,
        matmul: &Matmul,
        tile: &WgmmaTile,
        lane: Reg,
        warp: Reg,
    ) -> Option<TmaStoreEpilogue> {
        stores(matmul).filter(|stores| !stores.is_empty())?;
        let count = tile.staging_tiles(matmul);
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

    /// Writes the epilogue of an output tile and its stores.
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
        layout.staged_results(callbacks, matmul, coord, accumulators, &mut |callbacks, results| {
            let b = callbacks.builder();
            let row = b.add(Ty::U32, coord.row, layout.corner[0]);
            let at = [b.add(Ty::U32, row, results.at[0]), b.add(Ty::U32, coord.column, results.at[1])];
            self.stage_and_store(b, &results, uses % self.count, at, &batch[results.store]);
            uses += 1;
        });
    }

    /// Writes results to a staging tile and issues its TMA store to a row and column.
    fn stage_and_store(
        &self,
        b: &mut PtxBuilder,
        results: &StagedResults,
        number: u32,
        [row, column]: [Reg; 2],
        batch: &[Reg],
    ) {
        let (map, writer) = &self.stores[results.store];
        self.wait(b, self.count - 1);
        b.push(Inst::WarpBarrier);
        writer.write(b, results, number);
        b.push(Inst::FenceProxyAsync);
        b.push(Inst::WarpBarrier);
        let at = [column, row].iter().chain(batch).map(|&coord| PtxOperand::Reg(coord)).collect();
        let from = AddressOperand::at(self.first).plus((number * staging::BYTES) as i32);
        b.when(self.is_elected, |b| {
            b.push(Inst::TmaStore { map: *map, at, from });
            b.push(Inst::TmaStoreCommit);
        });
    }

    /// Waits until at most the latest `pending` staging tiles are still being read.
    pub(super) fn wait(&self, b: &mut PtxBuilder, pending: u32) {
        b.push_stmt(PtxStmt::Predicated(self.is_elected, Inst::TmaStoreWait { pending }));
    }
}
