//! Warp-specialized, persistent matmul kernels with `wgmma`, fed by TMA.
//!
//! ```text
//! each block computes output tiles one after another, with a producer and one or two consumer warpgroups
//!   producer, one thread:
//!     for each output tile, for each stage along K {
//!       wait until the stage is empty; announce its bytes; issue the TMA loads of the tiles of A and B
//!     }
//!   each consumer warpgroup:
//!     for each output tile {
//!       for each stage along K {
//!         wait until the stage is full; issue its wgmma operations; wait for those of the stage before, and
//!         release that stage
//!       }
//!       each thread: the epilogue of its outputs; each warp: stage the results and store them by TMA
//!       ([`epilogue`])
//!     }
//! ```
//!
//! A stage holds a tile of A and a tile of B, [`TILE_K`](tile::TILE_K) deep, with the 128-byte swizzle that
//! TMA and `wgmma` share ([`operand`]). Each stage has a *full* mbarrier, at which the bytes of the loads
//! arrive, and an *empty* one, at which consumer warps arrive ([`circular_buffer`]). While consumers execute
//! the epilogue of a tile, the producer loads stages for the next one. The producer gives registers to the
//! consumers.
//!
//! The two blocks of a cluster compute tiles below each other, with the same columns of B: each block loads
//! half of them and multicasts them to both.
//!
//! The design follows the public Hopper kernels that reach the speed of cuBLAS: 128×256 tiles, two consumers,
//! four stages, clusters of two, one block per SM.

mod circular_buffer;
mod epilogue;
mod operand;
mod tile;

#[cfg(test)]
mod mutation_tests; // kernels that lack synchronization
#[cfg(test)]
mod tests;

use ptx_asm::{CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, PtxStmt, Reg, RegClass, SpecialReg, Ty};

use self::circular_buffer::{CircularBuffer, PipelineState};
use self::epilogue::TmaStoreEpilogue;
pub(crate) use self::operand::TmaTensor;
use self::operand::{DescriptorIterator, TmaLoader};
pub(super) use self::tile::WgmmaTile;
use super::accumulators::{AccumulatorLayout, Accumulators};
use super::tile_scheduler::{self, TileCoord};
use super::{Matmul, MatmulCallbacks, MatmulMemory};

/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;
/// Registers per thread of the producer and of consumers, if there are two consumers; 384 threads start with
/// 168 each.
const REGISTERS: [u32; 2] = [24, 240];

/// Writes the body of the kernel.
pub(super) fn emit(callbacks: &mut dyn MatmulCallbacks, matmul: &Matmul, tile: &WgmmaTile) {
    let b = callbacks.builder();
    let thread = b.special(SpecialReg::Thread);
    let buffer = CircularBuffer::new(b, tile);
    buffer.initialize(b, tile, thread);
    let block = BlockPosition::new(b, tile);
    let copies = b.compare(CmpOp::Lt, Ty::U32, thread, WARPGROUP);
    let kernel = WarpSpecializedKernel { matmul, tile, buffer, block, thread };
    let then = callbacks.nested_block(&mut |callbacks| kernel.produce(callbacks));
    let otherwise = callbacks.nested_block(&mut |callbacks| kernel.consume(callbacks));
    let b = callbacks.builder();
    b.push_stmt(PtxStmt::If { guard: GuardPredicate::on(copies), then, otherwise });
    if tile.cluster > 1 {
        // A block must not end while the other one may still access its shared memory.
        b.push(Inst::ClusterBarrier);
    }
}

/// Context shared by the producer and the consumers.
struct WarpSpecializedKernel<'a> {
    matmul: &'a Matmul,
    tile: &'a WgmmaTile,
    buffer: CircularBuffer,
    block: BlockPosition,
    thread: Reg,
}

/// The position of a block in the grid.
struct BlockPosition {
    /// Index of the cluster; of the block, without clusters.
    cluster: Reg,
    /// Rank of the block in its cluster.
    rank: Option<Reg>,
}

impl BlockPosition {
    fn new(b: &mut PtxBuilder, tile: &WgmmaTile) -> BlockPosition {
        let block = b.special(SpecialReg::Block);
        match tile.cluster {
            1 => BlockPosition { cluster: block, rank: None },
            size => BlockPosition {
                cluster: b.binary(PtxBinaryOp::Div, Ty::U32, block, size),
                rank: Some(b.special(SpecialReg::ClusterBlock)),
            },
        }
    }
}

impl WarpSpecializedKernel<'_> {
    /// Writes the loop over the output tiles of a block (persistent kernel).
    fn each_tile(
        &self,
        callbacks: &mut dyn MatmulCallbacks,
        write: &mut dyn FnMut(&mut dyn MatmulCallbacks, &TileCoord),
    ) {
        let WarpSpecializedKernel { matmul, tile, block, .. } = self;
        let clusters = (tile.blocks(matmul) / u64::from(tile.cluster)) as u32;
        let all = tile.tiles(matmul) as u32;
        let b = callbacks.builder();
        let number = b.mov(RegClass::B32, block.cluster);
        let mut repeat_while = None;
        let body = callbacks.nested_block(&mut |callbacks| {
            let b = callbacks.builder();
            let mut coord = tile_scheduler::tile_coord(b, matmul, tile.cluster_tile(), number);
            if let Some(rank) = block.rank {
                coord.row = b.mul_add(Ty::U32, rank, tile.rows(), coord.row);
            }
            callbacks.enter_batch(coord.batch);
            write(callbacks, &coord);
            let b = callbacks.builder();
            let next = b.add(Ty::U32, number, clusters);
            b.set(number, next);
            repeat_while = Some(GuardPredicate::on(b.compare(CmpOp::Lt, Ty::U32, number, all)));
        });
        if let Some(repeat_while) = repeat_while {
            callbacks.builder().push_stmt(PtxStmt::Loop { body, repeat_while });
        }
    }

    /// Writes the producer.
    fn produce(&self, callbacks: &mut dyn MatmulCallbacks) {
        let WarpSpecializedKernel { matmul, tile, buffer, block, thread } = self;
        let b = callbacks.builder();
        set_max_registers(b, tile, false);
        let is_first = b.compare(CmpOp::Eq, Ty::U32, *thread, 0_u32);
        let then = callbacks.nested_block(&mut |callbacks| {
            let b = callbacks.builder();
            let [left, right] = [0, 1].map(|map| TmaLoader::new(b, matmul, tile, map, block.rank));
            // The phase before an mbarrier's first phase counts as complete. The producer begins by waiting
            // for that phase, because all stages are empty at first.
            let state = PipelineState::new(b, 1);
            self.each_tile(callbacks, &mut |callbacks, coord| {
                let coordinates = [MatmulMemory::OperandA, MatmulMemory::OperandB]
                    .map(|operand| callbacks.batch_coordinates(operand));
                let b = callbacks.builder();
                let [first, second] = [coord.row, coord.column];
                let k = b.mov(RegClass::B32, 0_u32);
                b.repeat(|b| {
                    let stage = buffer.stage(b, &state);
                    buffer.wait_empty(b, tile, &stage, &state);
                    buffer.expect(b, &stage, tile.stage_bytes());
                    left.copy(b, &stage, [k, first], &coordinates[0]);
                    right.copy(b, &stage, [k, second], &coordinates[1]);
                    state.advance(b, tile.stages);
                    let next = b.add(Ty::U32, k, tile::TILE_K);
                    b.set(k, next);
                    GuardPredicate::on(b.compare(CmpOp::Lt, Ty::U32, k, matmul.sizes[2]))
                });
            });
        });
        let b = callbacks.builder();
        b.push_stmt(PtxStmt::If { guard: GuardPredicate::on(is_first), then, otherwise: Vec::new() });
    }

    /// Writes a consumer.
    fn consume(&self, callbacks: &mut dyn MatmulCallbacks) {
        let WarpSpecializedKernel { matmul, tile, buffer, thread, .. } = self;
        let b = callbacks.builder();
        set_max_registers(b, tile, true);
        let lane = b.binary(PtxBinaryOp::And, Ty::B32, *thread, 31_u32);
        let warp = consumer_warp(b, *thread);
        let layout = accumulator_layout(b, tile, lane, warp);
        let epilogue = TmaStoreEpilogue::new(b, matmul, tile, lane, warp);
        let own = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, *thread, WARPGROUP.ilog2());
        let consumer = b.binary(PtxBinaryOp::Sub, Ty::U32, own, 1_u32);
        let operands = [0, 1].map(|at| DescriptorIterator::new(b, matmul, tile, buffer, at, consumer));
        let releaser = buffer.releaser(b, tile, *thread);
        let state = PipelineState::new(b, 0);
        let all = b.compare(CmpOp::Eq, Ty::U32, *thread, *thread);
        self.each_tile(callbacks, &mut |callbacks, coord| {
            let accumulators = layout.init(callbacks, matmul, coord);
            let b = callbacks.builder();
            let before = b.mov(RegClass::B32, state.stage);
            let step = b.mov(RegClass::B32, 0_u32);
            b.repeat(|b| {
                let stage = buffer.stage(b, &state);
                buffer.wait_full(b, &stage, &state);
                self.issue_wgmma(b, &operands, &state, &accumulators, all);
                b.push(Inst::WgmmaWait { pending: 1 });
                let is_later = b.compare(CmpOp::Gt, Ty::U32, step, 0_u32);
                releaser.release(b, before, Some(is_later));
                b.set(before, state.stage);
                state.advance(b, tile.stages);
                let next = b.add(Ty::U32, step, 1_u32);
                b.set(step, next);
                GuardPredicate::on(b.compare(
                    CmpOp::Lt,
                    Ty::U32,
                    step,
                    matmul.sizes[2].div_ceil(tile::TILE_K),
                ))
            });
            b.push(Inst::WgmmaWait { pending: 0 });
            releaser.release(b, before, None);
            match &epilogue {
                None => layout.store_from_registers(callbacks, matmul, coord, &accumulators),
                Some(epilogue) => epilogue.finish(callbacks, matmul, coord, &layout, &accumulators),
            }
        });
        if let Some(epilogue) = epilogue {
            epilogue.wait(callbacks.builder(), 0);
        }
    }

    /// Issues the `wgmma` operations of a stage.
    fn issue_wgmma(
        &self,
        b: &mut PtxBuilder,
        operands: &[DescriptorIterator; 2],
        state: &PipelineState,
        accumulators: &Accumulators,
        all: Reg,
    ) {
        let WarpSpecializedKernel { matmul, tile, .. } = self;
        let [left, right] = [0, 1].map(|at| operands[at].at(b, state.stage));
        b.push(Inst::WgmmaFence);
        for step in 0..tile::TILE_K / operand::STEP {
            let a = operands[0].step(b, left, step);
            let of_b = operands[1].step(b, right, step);
            b.push(Inst::Wgmma {
                element: matmul.element,
                columns: tile.columns,
                d: accumulators.iter().flatten().copied().collect(),
                a,
                b: of_b,
                transposed: [!matmul.a.k_contiguous, !matmul.b.k_contiguous],
                accumulate: all,
            });
        }
        b.push(Inst::WgmmaCommit);
    }
}

/// Index of a warp among the consumer warps, which follow the producer's four.
fn consumer_warp(b: &mut PtxBuilder, thread: Reg) -> Reg {
    let warp = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, thread, 5_u32);
    b.binary(PtxBinaryOp::Sub, Ty::U32, warp, tile::WARPS)
}

/// The accumulators of a consumer thread: each warp has 16 of 64 rows.
fn accumulator_layout(b: &mut PtxBuilder, tile: &WgmmaTile, lane: Reg, warp: Reg) -> AccumulatorLayout {
    let corner = [b.binary(PtxBinaryOp::Mul, Ty::U32, warp, 16_u32), b.mov(RegClass::B32, 0_u32)];
    let fragments = (0..tile.columns / 8).map(|at| [0, 8 * at]).collect();
    AccumulatorLayout::new(b, lane, corner, fragments, tile.cluster_tile())
}

/// Moves registers from the producer to the consumers, if there are two consumers.
fn set_max_registers(b: &mut PtxBuilder, tile: &WgmmaTile, consumes: bool) {
    if tile.consumers > 1 {
        b.push(Inst::SetMaxRegisters { count: REGISTERS[usize::from(consumes)], increase: consumes });
    }
}
