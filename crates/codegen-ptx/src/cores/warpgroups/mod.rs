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

mod operand; // a factor in shared memory
mod ring; // slots and their barriers
mod shelf; // results on their way to memory
mod tile; // sizes

#[cfg(test)]
mod mutants; // kernels that are wrong
#[cfg(test)]
mod tests;

use ptx_asm::{CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, PtxStmt, Reg, RegClass, SpecialReg, Ty};

pub(crate) use self::operand::Tensor;
use self::operand::{Factor, Operand};
use self::ring::{Cursor, Ring};
use self::shelf::Shelf;
pub(super) use self::tile::Tile;
use super::outputs::{Held, Sums};
use super::place::{self, Place};
use super::{Of, Product, Surroundings};

/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;
/// Registers of a thread that copies, and of one that multiplies, where there are two consumers: what 384 threads start with is divided anew.
const REGISTERS: [u32; 2] = [24, 240];

/// Writes the body of the kernel.
pub(super) fn emit(around: &mut dyn Surroundings, product: &Product, tile: &Tile) {
    let b = around.builder();
    let thread = b.special(SpecialReg::Thread);
    let ring = Ring::new(b, tile);
    ring.initialize(b, tile, thread);
    let block = Block::new(b, tile);
    let copies = b.compare(CmpOp::Lt, Ty::U32, thread, WARPGROUP);
    let roles = Roles { product, tile, ring, block, thread };
    let then = around.block(&mut |around| roles.produce(around));
    let otherwise = around.block(&mut |around| roles.consume(around));
    let b = around.builder();
    b.push_stmt(PtxStmt::If { guard: GuardPredicate::on(copies), then, otherwise });
    if tile.cluster > 1 {
        // No block ends while the other may still reach its memory.
        b.push(Inst::ClusterBarrier);
    }
}

/// What the warpgroups of a block know, whatever they do.
struct Roles<'a> {
    product: &'a Product,
    tile: &'a Tile,
    ring: Ring,
    block: Block,
    thread: Reg,
}

/// Where a block is.
struct Block {
    /// The number of its cluster; its own, if it is alone.
    cluster: Reg,
    /// Its number in the cluster.
    rank: Option<Reg>,
}

impl Block {
    fn new(b: &mut PtxBuilder, tile: &Tile) -> Block {
        let block = b.special(SpecialReg::Block);
        match tile.cluster {
            1 => Block { cluster: block, rank: None },
            size => Block {
                cluster: b.binary(PtxBinaryOp::Div, Ty::U32, block, size),
                rank: Some(b.special(SpecialReg::ClusterBlock)),
            },
        }
    }
}

impl Roles<'_> {
    /// Writes what is done for each tile of the block.
    fn each_tile(&self, around: &mut dyn Surroundings, write: &mut dyn FnMut(&mut dyn Surroundings, &Place)) {
        let Roles { product, tile, block, .. } = self;
        let clusters = (tile.blocks(product) / u64::from(tile.cluster)) as u32;
        let all = tile.tiles(product) as u32;
        let b = around.builder();
        let number = b.mov(RegClass::B32, block.cluster);
        let mut repeat_while = None;
        let body = around.block(&mut |around| {
            let b = around.builder();
            let mut place = place::place(b, product, tile.of_cluster(), number);
            if let Some(rank) = block.rank {
                place.row = b.mul_add(Ty::U32, rank, tile.rows(), place.row);
            }
            around.batch(place.batch);
            write(around, &place);
            let b = around.builder();
            let next = b.add(Ty::U32, number, clusters);
            b.set(number, next);
            repeat_while = Some(GuardPredicate::on(b.compare(CmpOp::Lt, Ty::U32, number, all)));
        });
        if let Some(repeat_while) = repeat_while {
            around.builder().push_stmt(PtxStmt::Loop { body, repeat_while });
        }
    }

    /// What the producer does.
    fn produce(&self, around: &mut dyn Surroundings) {
        let Roles { product, tile, ring, block, thread } = self;
        let b = around.builder();
        resize(b, tile, false);
        let is_first = b.compare(CmpOp::Eq, Ty::U32, *thread, 0_u32);
        let then = around.block(&mut |around| {
            let b = around.builder();
            let [left, right] = [0, 1].map(|map| Operand::new(b, product, tile, map, block.rank));
            // A barrier that nobody has arrived at yet is behind the phase before its first: slots are empty.
            let cursor = Cursor::new(b, 1);
            self.each_tile(around, &mut |around, place| {
                let coordinates = [Of::Left, Of::Right].map(|factor| around.coordinates(factor));
                let b = around.builder();
                let [first, second] = [place.row, place.column];
                let depth = b.mov(RegClass::B32, 0_u32);
                b.repeat(|b| {
                    let slot = ring.slot(b, &cursor);
                    ring.wait_empty(b, tile, &slot, &cursor);
                    ring.expect(b, &slot, tile.stage_bytes());
                    left.copy(b, &slot, [depth, first], &coordinates[0]);
                    right.copy(b, &slot, [depth, second], &coordinates[1]);
                    cursor.advance(b, tile.stages);
                    let next = b.add(Ty::U32, depth, tile::DEPTH);
                    b.set(depth, next);
                    GuardPredicate::on(b.compare(CmpOp::Lt, Ty::U32, depth, product.sizes[2]))
                });
            });
        });
        let b = around.builder();
        b.push_stmt(PtxStmt::If { guard: GuardPredicate::on(is_first), then, otherwise: Vec::new() });
    }

    /// What a consumer does.
    fn consume(&self, around: &mut dyn Surroundings) {
        let Roles { product, tile, ring, thread, .. } = self;
        let b = around.builder();
        resize(b, tile, true);
        let lane = b.binary(PtxBinaryOp::And, Ty::B32, *thread, 31_u32);
        let warp = warp(b, *thread);
        let held = held(b, tile, lane, warp);
        let shelf = Shelf::new(b, product, tile, lane, warp);
        let own = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, *thread, WARPGROUP.ilog2());
        let consumer = b.binary(PtxBinaryOp::Sub, Ty::U32, own, 1_u32);
        let factors = [0, 1].map(|at| Factor::new(b, product, tile, ring, at, consumer));
        let releaser = ring.releaser(b, tile, *thread);
        let cursor = Cursor::new(b, 0);
        let all = b.compare(CmpOp::Eq, Ty::U32, *thread, *thread);
        self.each_tile(around, &mut |around, place| {
            let sums = held.start(around, product, place);
            let b = around.builder();
            let before = b.mov(RegClass::B32, cursor.slot);
            let step = b.mov(RegClass::B32, 0_u32);
            b.repeat(|b| {
                let slot = ring.slot(b, &cursor);
                ring.wait_full(b, &slot, &cursor);
                self.multiply(b, &factors, &cursor, &sums, all);
                b.push(Inst::WgmmaWait { pending: 1 });
                let is_later = b.compare(CmpOp::Gt, Ty::U32, step, 0_u32);
                releaser.release(b, before, Some(is_later));
                b.set(before, cursor.slot);
                cursor.advance(b, tile.stages);
                let next = b.add(Ty::U32, step, 1_u32);
                b.set(step, next);
                GuardPredicate::on(b.compare(
                    CmpOp::Lt,
                    Ty::U32,
                    step,
                    product.sizes[2].div_ceil(tile::DEPTH),
                ))
            });
            b.push(Inst::WgmmaWait { pending: 0 });
            releaser.release(b, before, None);
            match &shelf {
                None => held.finish(around, product, place, &sums),
                Some(shelf) => shelf.finish(around, product, place, &held, &sums),
            }
        });
        if let Some(shelf) = shelf {
            shelf.wait(around.builder(), 0);
        }
    }

    /// Begins the multiplications of a stage.
    fn multiply(&self, b: &mut PtxBuilder, factors: &[Factor; 2], cursor: &Cursor, sums: &Sums, all: Reg) {
        let Roles { product, tile, .. } = self;
        let [left, right] = [0, 1].map(|at| factors[at].at(b, cursor.slot));
        b.push(Inst::WgmmaFence);
        for step in 0..tile::DEPTH / operand::STEP {
            let a = factors[0].step(b, left, step);
            let of_b = factors[1].step(b, right, step);
            b.push(Inst::Wgmma {
                element: product.element,
                columns: tile.columns,
                d: sums.iter().flatten().copied().collect(),
                a,
                b: of_b,
                transposed: [!product.left.depth_contiguous, !product.right.depth_contiguous],
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
fn held(b: &mut PtxBuilder, tile: &Tile, lane: Reg, warp: Reg) -> Held {
    let corner = [b.binary(PtxBinaryOp::Mul, Ty::U32, warp, 16_u32), b.mov(RegClass::B32, 0_u32)];
    let fragments = (0..tile.columns / 8).map(|at| [0, 8 * at]).collect();
    Held::new(b, lane, corner, fragments, tile.of_cluster())
}

/// Gives registers to the consumers, where the threads of a block are too many to have as many as those need.
fn resize(b: &mut PtxBuilder, tile: &Tile, consumes: bool) {
    if tile.consumers > 1 {
        b.push(Inst::SetMaxRegisters { count: REGISTERS[usize::from(consumes)], increase: consumes });
    }
}
