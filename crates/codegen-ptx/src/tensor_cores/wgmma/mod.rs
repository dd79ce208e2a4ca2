//! Products by warpgroups: `wgmma` on what the copy engine brings, with a role for each warpgroup.
//!
//! ```text
//! each block has tiles of the outputs, one after another; it is a producer and one or two consumers of 128 threads each
//!   the producer, a single thread:
//!     for each tile, for each stage {
//!       wait until the slot is empty; say how many bytes it will get; begin the copies of both factors' tiles
//!     }
//!   each consumer:
//!     for each tile {
//!       for each stage {
//!         wait until the slot is full; begin its multiplications; wait for those of the stage before; that one's slot is empty
//!       }
//!       each thread: what comes after, for its outputs; each warp: lay out the results, and have the copy engine store them ([`shelf`])
//!     }
//! ```
//!
//! A slot holds a stage: a tile of each factor, [`DEPTH`](tile::DEPTH) products deep, in the order that the copy engine and `wgmma` agree on ([`operand`]).
//! Two barriers in shared memory belong to it ([`ring`]): what arrives at *full* are the bytes of the copies, at *empty* the warps that have multiplied. While
//! consumers write out a tile, the producer fills slots for the next one. Registers that the producer does not need go to the consumers.
//!
//! The two blocks of a cluster have tiles below each other, so that they multiply the same columns: each copies half of these into the shared
//! memory of both.
//!
//! The design is that of the public kernels for this processor which reach the speed of the vendor's library: 128 by 256 outputs, two consumers, four stages,
//! clusters of two, as many blocks as there are processors.

mod circular_buffer; // stages and their barriers
mod epilogue; // results on their way to memory
mod operand; // a operand in shared memory
mod tile; // sizes

#[cfg(test)]
mod mutation_tests; // kernels that are wrong
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
/// Registers of a thread that copies, and of one that multiplies, where there are two consumers: what 384 threads start with is divided anew.
const REGISTERS: [u32; 2] = [24, 240];

/// Writes the body of the kernel.
pub(super) fn emit(callbacks: &mut dyn MatmulCallbacks, matmul: &Matmul, tile: &WgmmaTile) {
    let b = callbacks.builder();
    let thread = b.special(SpecialReg::Thread);
    let ring = CircularBuffer::new(b, tile);
    ring.initialize(b, tile, thread);
    let block = BlockPosition::new(b, tile);
    let copies = b.compare(CmpOp::Lt, Ty::U32, thread, WARPGROUP);
    let roles = WarpSpecialisedKernel { matmul, tile, ring, block, thread };
    let then = callbacks.nested_block(&mut |callbacks| roles.produce(callbacks));
    let otherwise = callbacks.nested_block(&mut |callbacks| roles.consume(callbacks));
    let b = callbacks.builder();
    b.push_stmt(PtxStmt::If { guard: GuardPredicate::on(copies), then, otherwise });
    if tile.cluster > 1 {
        // No block ends while the other may still reach its memory.
        b.push(Inst::ClusterBarrier);
    }
}

/// What the warpgroups of a block know, whatever they do.
struct WarpSpecialisedKernel<'a> {
    matmul: &'a Matmul,
    tile: &'a WgmmaTile,
    ring: CircularBuffer,
    block: BlockPosition,
    thread: Reg,
}

/// Where a block is.
struct BlockPosition {
    /// The number of its cluster; its own, if it is alone.
    cluster: Reg,
    /// Its number in the cluster.
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

impl WarpSpecialisedKernel<'_> {
    /// Writes what is done for each tile of the block.
    fn each_tile(
        &self,
        callbacks: &mut dyn MatmulCallbacks,
        write: &mut dyn FnMut(&mut dyn MatmulCallbacks, &TileCoord),
    ) {
        let WarpSpecialisedKernel { matmul, tile, block, .. } = self;
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

    /// What the producer does.
    fn produce(&self, callbacks: &mut dyn MatmulCallbacks) {
        let WarpSpecialisedKernel { matmul, tile, ring, block, thread } = self;
        let b = callbacks.builder();
        resize(b, tile, false);
        let is_first = b.compare(CmpOp::Eq, Ty::U32, *thread, 0_u32);
        let then = callbacks.nested_block(&mut |callbacks| {
            let b = callbacks.builder();
            let [left, right] = [0, 1].map(|map| TmaLoader::new(b, matmul, tile, map, block.rank));
            // A barrier that nobody has arrived at yet is behind the phase before its first: slots are empty.
            let cursor = PipelineState::new(b, 1);
            self.each_tile(callbacks, &mut |callbacks, coord| {
                let coordinates = [MatmulMemory::OperandA, MatmulMemory::OperandB]
                    .map(|operand| callbacks.batch_coordinates(operand));
                let b = callbacks.builder();
                let [first, second] = [coord.row, coord.column];
                let k = b.mov(RegClass::B32, 0_u32);
                b.repeat(|b| {
                    let stage = ring.stage(b, &cursor);
                    ring.wait_empty(b, tile, &stage, &cursor);
                    ring.expect(b, &stage, tile.stage_bytes());
                    left.copy(b, &stage, [k, first], &coordinates[0]);
                    right.copy(b, &stage, [k, second], &coordinates[1]);
                    cursor.advance(b, tile.stages);
                    let next = b.add(Ty::U32, k, tile::TILE_K);
                    b.set(k, next);
                    GuardPredicate::on(b.compare(CmpOp::Lt, Ty::U32, k, matmul.sizes[2]))
                });
            });
        });
        let b = callbacks.builder();
        b.push_stmt(PtxStmt::If { guard: GuardPredicate::on(is_first), then, otherwise: Vec::new() });
    }

    /// What a consumer does.
    fn consume(&self, callbacks: &mut dyn MatmulCallbacks) {
        let WarpSpecialisedKernel { matmul, tile, ring, thread, .. } = self;
        let b = callbacks.builder();
        resize(b, tile, true);
        let lane = b.binary(PtxBinaryOp::And, Ty::B32, *thread, 31_u32);
        let warp = warp(b, *thread);
        let layout = layout(b, tile, lane, warp);
        let shelf = TmaStoreEpilogue::new(b, matmul, tile, lane, warp);
        let own = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, *thread, WARPGROUP.ilog2());
        let consumer = b.binary(PtxBinaryOp::Sub, Ty::U32, own, 1_u32);
        let operands = [0, 1].map(|at| DescriptorIterator::new(b, matmul, tile, ring, at, consumer));
        let releaser = ring.releaser(b, tile, *thread);
        let cursor = PipelineState::new(b, 0);
        let all = b.compare(CmpOp::Eq, Ty::U32, *thread, *thread);
        self.each_tile(callbacks, &mut |callbacks, coord| {
            let accumulators = layout.start(callbacks, matmul, coord);
            let b = callbacks.builder();
            let before = b.mov(RegClass::B32, cursor.stage);
            let step = b.mov(RegClass::B32, 0_u32);
            b.repeat(|b| {
                let stage = ring.stage(b, &cursor);
                ring.wait_full(b, &stage, &cursor);
                self.multiply(b, &operands, &cursor, &accumulators, all);
                b.push(Inst::WgmmaWait { pending: 1 });
                let is_later = b.compare(CmpOp::Gt, Ty::U32, step, 0_u32);
                releaser.release(b, before, Some(is_later));
                b.set(before, cursor.stage);
                cursor.advance(b, tile.stages);
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
            match &shelf {
                None => layout.finish(callbacks, matmul, coord, &accumulators),
                Some(shelf) => shelf.finish(callbacks, matmul, coord, &layout, &accumulators),
            }
        });
        if let Some(shelf) = shelf {
            shelf.wait(callbacks.builder(), 0);
        }
    }

    /// Begins the multiplications of a stage.
    fn multiply(
        &self,
        b: &mut PtxBuilder,
        operands: &[DescriptorIterator; 2],
        cursor: &PipelineState,
        accumulators: &Accumulators,
        all: Reg,
    ) {
        let WarpSpecialisedKernel { matmul, tile, .. } = self;
        let [left, right] = [0, 1].map(|at| operands[at].at(b, cursor.stage));
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

/// The number of a consumer's warp: those from the fifth on.
fn warp(b: &mut PtxBuilder, thread: Reg) -> Reg {
    let warp = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, thread, 5_u32);
    b.binary(PtxBinaryOp::Sub, Ty::U32, warp, tile::WARPS)
}

/// The outputs of a consumer's thread: of 64 rows each warp has 16.
fn layout(b: &mut PtxBuilder, tile: &WgmmaTile, lane: Reg, warp: Reg) -> AccumulatorLayout {
    let corner = [b.binary(PtxBinaryOp::Mul, Ty::U32, warp, 16_u32), b.mov(RegClass::B32, 0_u32)];
    let fragments = (0..tile.columns / 8).map(|at| [0, 8 * at]).collect();
    AccumulatorLayout::new(b, lane, corner, fragments, tile.cluster_tile())
}

/// Gives registers to the consumers, where the threads of a block are too many to have as many as those need.
fn resize(b: &mut PtxBuilder, tile: &WgmmaTile, consumes: bool) {
    if tile.consumers > 1 {
        b.push(Inst::SetMaxRegisters { count: REGISTERS[usize::from(consumes)], increase: consumes });
    }
}
