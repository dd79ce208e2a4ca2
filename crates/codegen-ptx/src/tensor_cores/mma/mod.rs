//! Products by single warps: `mma` with copies that run ahead.
//!
//! ```text
//! each block has a tile of the outputs, each of its warps a part of that, in registers
//!   copy the first stages of both factors to shared memory, without waiting
//!   for each stage {
//!     wait for its copies; all threads meet; begin the copies of the stage after the last one that is under way
//!     each warp: load fragments, multiply them, 32 bytes of products at a time
//!   }
//!   each thread: what comes after, for its outputs; each warp: store the results
//! ```
//!
//! Copies take 16 bytes, which lie in shared memory in an order that lets neither they nor `ldmatrix` meet in a bank ([`operand`]). Rows and
//! columns beyond the last whole tile are copied as zeros and not stored.
//!
//! The numbers behind the shapes are those of published kernels for these instructions: tiles of 128 by 128 with 64 by 64 for each warp make four
//! multiplications of each fragment that is loaded, and four stages hide the time of memory.

mod epilogue; // results, line by line
mod fragments; // the tile of a warp
mod operand; // a operand in shared memory
mod tile; // sizes

use ptx_asm::{
    CmpOp, GuardPredicate, Inst, PtxBuilder, PtxOperand, Reg, RegClass, SpecialReg, StateSpace, Ty,
};

pub(super) use self::tile::MmaTile;
use self::{fragments::FragmentLoader, operand::OperandLoader};
use super::accumulators::Accumulators;
use super::{Matmul, MatmulCallbacks, MatmulMemory, OperandView, tile_scheduler};

/// Writes the body of the kernel.
pub(super) fn emit(callbacks: &mut dyn MatmulCallbacks, matmul: &Matmul, tile: &MmaTile) {
    let b = callbacks.builder();
    let thread = b.special(SpecialReg::Thread);
    let block = b.special(SpecialReg::Block);
    let coord = tile_scheduler::tile_coord(b, matmul, tile.sizes(), block);
    callbacks.enter_batch(coord.batch);
    let bases =
        [MatmulMemory::OperandA, MatmulMemory::OperandB].map(|operand| callbacks.base_address(operand));
    let b = callbacks.builder();
    let shared = b.shared(tile.stages * tile.stage_bytes(), 128);
    let window = b.address(StateSpace::Shared, shared);
    let [left, right] = tile.operand_tiles(matmul.element.bytes());
    let mut left = OperandLoader::new(b, &matmul.a, left, matmul.sizes[2], thread, coord.row, bases[0]);
    let mut right = OperandLoader::new(b, &matmul.b, right, matmul.sizes[2], thread, coord.column, bases[1]);
    let (fragments, layout) = FragmentLoader::new(b, matmul, tile, thread, window);
    let accumulators = layout.start(callbacks, matmul, &coord);
    let b = callbacks.builder();
    let mut copies = StageCopies { left: &mut left, right: &mut right, tile, window };
    pipeline(b, matmul, tile, &mut copies, &fragments, &accumulators);
    match matmul.outputs.is_empty() {
        true => layout.finish(callbacks, matmul, &coord, &accumulators),
        false => {
            epilogue::finish(callbacks, matmul, tile, &coord, (&layout, &accumulators), (window, thread))
        }
    }
}

/// What is copied for each stage.
struct StageCopies<'a> {
    left: &'a mut OperandLoader,
    right: &'a mut OperandLoader,
    tile: &'a MmaTile,
    window: Reg,
}

impl StageCopies<'_> {
    /// Begins the copies of the next stage into a slot, whose offset is given, of threads for which the guard holds.
    fn issue(&mut self, b: &mut PtxBuilder, stage: PtxOperand, when: Option<GuardPredicate>) {
        let to = b.add(Ty::U32, self.window, stage);
        self.left.copy(b, to, 0, when);
        self.right.copy(b, to, self.tile.a_bytes(), when);
        b.push(Inst::CpAsyncCommit);
    }
}

/// Copies and multiplies, stage after stage.
fn pipeline(
    b: &mut PtxBuilder,
    matmul: &Matmul,
    tile: &MmaTile,
    copies: &mut StageCopies<'_>,
    fragments: &FragmentLoader,
    accumulators: &Accumulators,
) {
    let steps = matmul.sizes[2].div_ceil(tile.k(matmul.element.bytes()));
    let (ahead, bytes) = (tile.stages - 1, tile.stage_bytes());
    let end = tile.stages * bytes;
    for stage in 0..ahead {
        match stage < steps {
            true => copies.issue(b, (stage * bytes).into(), None),
            // Groups are counted, so one without copies stands for what is not there.
            false => b.push(Inst::CpAsyncCommit),
        }
    }
    let (step, read, write) =
        (b.mov(RegClass::B32, 0_u32), b.mov(RegClass::B32, 0_u32), b.mov(RegClass::B32, ahead * bytes));
    b.repeat(|b| {
        b.push(Inst::CpAsyncWait { pending: ahead - 1 });
        b.barrier();
        let more = (steps > ahead).then(|| b.compare(CmpOp::Lt, Ty::S32, step, (steps - ahead) as i32));
        match more {
            Some(more) => copies.issue(b, write.into(), Some(GuardPredicate::on(more))),
            None => b.push(Inst::CpAsyncCommit),
        }
        fragments.multiply(b, read, accumulators);
        advance(b, read, bytes, end);
        advance(b, write, bytes, end);
        let next = b.add(Ty::U32, step, 1_u32);
        b.set(step, next);
        GuardPredicate::on(b.compare(CmpOp::Lt, Ty::U32, step, steps))
    });
}

/// The offset of the next slot, of those in a ring.
fn advance(b: &mut PtxBuilder, stage: Reg, bytes: u32, end: u32) {
    let next = b.add(Ty::U32, stage, bytes);
    let over = b.compare(CmpOp::Eq, Ty::U32, next, end);
    let next = b.select(Ty::B32, over, 0_u32, next);
    b.set(stage, next);
}

#[cfg(test)]
mod tests;
