//! Matmul kernels with `mma` and a multistage pipeline of `cp.async` copies.
//!
//! ```text
//! each block computes a tile of the output, each of its warps a part of the tile, with accumulators in
//! registers
//!   copy the first stages of A and B to shared memory, without waiting
//!   for each stage along K {
//!     wait for its copies; block barrier; start the copies of the stage that comes after the last pending
//!     one
//!     each warp: load fragments and multiply them, 32 bytes along K at a time
//!   }
//!   each thread: the epilogue of its outputs; each warp: store the results
//! ```
//!
//! Copies are 16 bytes each. They are swizzled in shared memory so that neither copies nor `ldmatrix` have
//! bank conflicts ([`operand`]). Rows and columns beyond the edge of the operands are zero-filled, and not
//! stored.
//!
//! The tile sizes are those of published kernels for these instructions: 128×128 tiles with 64×64 per warp
//! use each loaded fragment in four multiplications, and four stages hide the latency of memory.

mod epilogue;
mod fragments;
mod operand;
mod tile;

use ptx_asm::{
    CmpOp, GuardPredicate, Inst, PtxBuilder, PtxOperand, Reg, RegClass, SpecialReg, StateSpace, Ty,
};

use self::fragments::FragmentLoader;
pub(super) use self::fragments::{LdmatrixAddresses, MatrixOrder};
pub(super) use self::operand::{OperandLoader, SharedLayout};
pub(super) use self::tile::{MmaTile, OperandTile};
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
    let accumulators = layout.init(callbacks, matmul, &coord);
    let b = callbacks.builder();
    let mut copies = StageCopies { left: &mut left, right: &mut right, tile, window };
    pipeline(b, matmul, tile, &mut copies, &fragments, &accumulators);
    match matmul.outputs.is_empty() {
        true => layout.store_from_registers(callbacks, matmul, &coord, &accumulators),
        false => {
            epilogue::finish(callbacks, matmul, tile, &coord, (&layout, &accumulators), (window, thread))
        }
    }
}

/// The copies of both operands, stage by stage.
struct StageCopies<'a> {
    left: &'a mut OperandLoader,
    right: &'a mut OperandLoader,
    tile: &'a MmaTile,
    window: Reg,
}

impl StageCopies<'_> {
    /// Starts the copies of the next step along K, to the pipeline stage at offset `stage`, by the threads
    /// whose guard is true.
    fn issue(&mut self, b: &mut PtxBuilder, stage: PtxOperand, when: Option<GuardPredicate>) {
        let to = b.add(Ty::U32, self.window, stage);
        self.left.copy(b, to, 0, when);
        self.right.copy(b, to, self.tile.a_bytes(), when);
        b.push(Inst::CpAsyncCommit);
    }
}

/// The main loop: copies and multiplies stage by stage.
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
            // Waits count groups, so a stage that does not exist gets an empty group.
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

/// Advances the offset of a stage in the circular buffer.
fn advance(b: &mut PtxBuilder, stage: Reg, bytes: u32, end: u32) {
    let next = b.add(Ty::U32, stage, bytes);
    let over = b.compare(CmpOp::Eq, Ty::U32, next, end);
    let next = b.select(Ty::B32, over, 0_u32, next);
    b.set(stage, next);
}

#[cfg(test)]
mod tests;
