//! Matrix multiplications (matmuls) on tensor cores: M × K times K × N.
//!
//! ```text
//! each block computes tiles of the output, each of its warps a part of a tile, with accumulators in
//! registers
//!   asynchronous copies bring tiles of A and B to shared memory, several pipeline stages ahead
//!   for each stage along K: multiply and accumulate
//!   each thread: the epilogue of its outputs
//! ```
//!
//! There are two kinds of kernels. [`mma`] kernels run on every GPU with `cp.async`: all threads copy, and
//! each warp multiplies by itself. [`wgmma`] kernels run on Hopper: a producer thread issues TMA loads, and
//! consumer warpgroups multiply. Accumulators are `f32`; the order in which a tensor core adds is
//! unspecified.

mod accumulators;
mod staging;
mod tile_scheduler;

pub(crate) mod attention;
mod mma;
mod wgmma;

#[cfg(test)]
mod test_harness;

use ptx_asm::{GuardPredicate, PtxBuilder, PtxStmt, Reg, StmtList, Target, Ty};

pub(crate) use self::wgmma::TmaTensor;
use crate::options::TensorCoreInstructions;

/// A matmul, or a batch of them.
#[derive(Clone, Debug)]
pub(crate) struct Matmul {
    /// M, N and K.
    pub(crate) sizes: [u32; 3],
    /// Number of matmuls. The grid has the tiles of each matmul in turn.
    pub(crate) batch: u32,
    /// Operand A, M × K.
    pub(crate) a: OperandView,
    /// Operand B, K × N.
    pub(crate) b: OperandView,
    /// Element type of A and B: `F16`, `Bf16`, or `F32`, which is truncated to `tf32`.
    pub(crate) element: Ty,
    /// The outputs, if all of them can be staged in shared memory and stored 16 bytes at a time; else empty.
    pub(crate) outputs: Vec<OutputView>,
}

/// The layout of an output in global memory, row-major.
#[derive(Clone, Debug)]
pub(crate) struct OutputView {
    /// Element type: `F32`, or `B16` for all 16-bit floats.
    pub(crate) element: Ty,
    /// Elements between rows.
    pub(crate) stride: u32,
    /// The batch axes along which the output moves; see [`OperandView::batch`].
    pub(crate) batch: Option<Vec<BatchAxis>>,
}

/// The layout of an operand in global memory.
#[derive(Clone, Debug)]
pub(crate) struct OperandView {
    /// M of A, or N of B.
    pub(crate) extent: u32,
    /// Whether K is contiguous (K-major); otherwise M or N is.
    pub(crate) k_contiguous: bool,
    /// Elements between rows of a K-major operand, else between indices along K.
    pub(crate) stride: u32,
    /// The batch axes along which the operand moves; `None` if a tensor map cannot describe it.
    pub(crate) batch: Option<Vec<BatchAxis>>,
}

/// A batch axis along which an operand or output moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchAxis {
    pub(crate) extent: u32,
    /// Elements between indices along the axis.
    pub(crate) stride: u64,
}

/// The kind of kernel that computes a matmul, with its tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatmulKernel {
    Mma(mma::MmaTile),
    Wgmma(wgmma::WgmmaTile),
}

impl MatmulKernel {
    /// The fastest kind that the target has and the options allow.
    pub(crate) fn of(matmul: &Matmul, target: Target, allowed: TensorCoreInstructions) -> MatmulKernel {
        let tile = wgmma::WgmmaTile::of(matmul);
        // `wgmma` of `tf32` would need both operands K-major.
        let has_warpgroups =
            target == Target::Sm90a && allowed == TensorCoreInstructions::Auto && matmul.element.bytes() == 2;
        match has_warpgroups && tile.operands(matmul).is_some() {
            true => MatmulKernel::Wgmma(tile),
            false => MatmulKernel::Mma(mma::MmaTile::of(matmul)),
        }
    }

    /// Threads of a block.
    pub(crate) fn threads(&self) -> u32 {
        match self {
            MatmulKernel::Mma(tile) => tile.threads(),
            MatmulKernel::Wgmma(tile) => tile.threads(),
        }
    }

    /// Blocks of the grid.
    pub(crate) fn blocks(&self, matmul: &Matmul) -> u64 {
        match self {
            MatmulKernel::Mma(tile) => tile.blocks(matmul),
            MatmulKernel::Wgmma(tile) => tile.blocks(matmul),
        }
    }

    /// Number of tiles, each of a block or a cluster; must fit 31 bits.
    pub(crate) fn tiles(&self, matmul: &Matmul) -> u64 {
        match self {
            MatmulKernel::Mma(tile) => tile.blocks(matmul),
            MatmulKernel::Wgmma(tile) => tile.tiles(matmul),
        }
    }

    /// The operands and outputs as tensors, in the order of the kernel's tensor maps; empty for [`mma`].
    pub(crate) fn tensors(&self, matmul: &Matmul) -> Vec<TmaTensor> {
        match self {
            MatmulKernel::Mma(_) => Vec::new(),
            MatmulKernel::Wgmma(tile) => tile.tensors(matmul),
        }
    }

    /// Declares clusters, launch bounds and tensor maps.
    pub(crate) fn declare(&self, b: &mut PtxBuilder, matmul: &Matmul) {
        if let MatmulKernel::Wgmma(tile) = self {
            b.cluster(tile.cluster);
            // One block per SM, so that its threads get all registers.
            b.min_blocks_per_sm(1);
        }
        for _ in self.tensors(matmul) {
            b.tensor_map();
        }
    }

    /// Writes the body of the kernel.
    pub(crate) fn emit(&self, callbacks: &mut dyn MatmulCallbacks, matmul: &Matmul) {
        match self {
            MatmulKernel::Mma(tile) => mma::emit(callbacks, matmul, tile),
            MatmulKernel::Wgmma(tile) => wgmma::emit(callbacks, matmul, tile),
        }
    }
}

/// One or two adjacent outputs of a thread, in one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputElements {
    /// The row: a register plus a constant.
    pub(crate) row: (Reg, u32),
    /// The first column: twice a register, plus a constant.
    pub(crate) column: (Reg, u32),
    pub(crate) count: usize,
}

/// Memory that a matmul reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatmulMemory {
    OperandA,
    OperandB,
    /// The output at this index of [`Matmul::outputs`].
    Output(usize),
}

/// Writes the parts of a matmul that depend on the routine: its prologue, its epilogue, and the addresses of
/// its operands. The emitter of the routine implements this.
pub(crate) trait MatmulCallbacks {
    /// The builder of the kernel.
    fn builder(&mut self) -> &mut PtxBuilder;

    /// Selects a matmul of the batch by its index. Later calls refer to this matmul, until the end of the
    /// list of statements that is being written.
    fn enter_batch(&mut self, number: Reg);

    /// The address of the first element of an operand or output.
    fn base_address(&mut self, of: MatmulMemory) -> Reg;

    /// The indices of the selected matmul along the batch axes of an operand or output.
    fn batch_coordinates(&mut self, of: MatmulMemory) -> Vec<Reg>;

    /// Initial values of accumulators; `None` for zeros.
    fn prologue(&mut self, outputs: OutputElements) -> Option<Vec<Reg>>;

    /// Writes the epilogue of some outputs, including its stores.
    fn epilogue(&mut self, outputs: OutputElements, accumulators: &[Reg]);

    /// Writes the epilogue without its stores: returns the values to be stored, for each of
    /// [`Matmul::outputs`] one per accumulator.
    fn epilogue_values(&mut self, outputs: OutputElements, accumulators: &[Reg]) -> Vec<Vec<Reg>>;

    /// Writes a nested block and returns it.
    fn nested_block(&mut self, write: &mut dyn FnMut(&mut dyn MatmulCallbacks)) -> StmtList;
}

/// Writes a branch for threads whose predicate is true.
fn when(callbacks: &mut dyn MatmulCallbacks, pred: Reg, write: &mut dyn FnMut(&mut dyn MatmulCallbacks)) {
    let then = callbacks.nested_block(write);
    callbacks.builder().push_stmt(PtxStmt::If {
        guard: GuardPredicate::on(pred),
        then,
        otherwise: Vec::new(),
    });
}
