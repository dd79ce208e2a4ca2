//! Products of matrices on tensor cores.
//!
//! ```text
//! each block has tiles of the outputs, each of its warps a part of a tile, in registers
//!   copies bring tiles of both factors to shared memory, some stages ahead
//!   for each stage: multiply
//!   each thread: what comes after, for its outputs
//! ```
//!
//! There are two kinds of kernels. [`warps`] are for every processor with `cp.async`: all threads copy, and every warp multiplies for itself.
//! [`warpgroups`] are for Hopper: one thread tells the copy engine what to bring, four warps multiply together. The sums are in `f32`; the order in which
//! a tensor core adds is its own.

mod accumulators; // the outputs of a thread
mod staging; // results in shared memory
mod tile_scheduler; // which block has which tile

mod mma;
mod wgmma; // `wgmma` with the copy engine // `mma` with `cp.async`

#[cfg(test)]
mod test_harness; // products in whole numbers

use ptx_asm::{GuardPredicate, PtxBuilder, PtxStmt, Reg, StmtList, Target, Ty};

pub(crate) use self::wgmma::TmaTensor;
use crate::options::TensorCores;

/// A product of two matrices, or of a batch of them.
#[derive(Clone, Debug)]
pub(crate) struct Matmul {
    /// Rows, columns and products.
    pub(crate) sizes: [u32; 3],
    /// How many products there are, one after another in the numbers of blocks.
    pub(crate) batch: u32,
    /// The left factor: rows by depth.
    pub(crate) a: OperandView,
    /// The right factor: columns by depth.
    pub(crate) b: OperandView,
    /// What the elements of both are: `F16`, `Bf16`, or `F32`, which is cut off to `tf32`.
    pub(crate) element: Ty,
    /// Where results go, if they may be stored 16 bytes at a time; else nothing.
    pub(crate) outputs: Vec<OutputView>,
}

/// Where results go: rows of neighbours.
#[derive(Clone, Debug)]
pub(crate) struct OutputView {
    /// What they are: `F32`, or `B16` for all floats of 16 bits.
    pub(crate) element: Ty,
    /// Elements from one row to the next.
    pub(crate) stride: u32,
    /// How it moves in the batch, as [`Matrix::batch`].
    pub(crate) batch: Option<Vec<BatchAxis>>,
}

/// A factor in memory.
#[derive(Clone, Debug)]
pub(crate) struct OperandView {
    /// How many rows, or columns.
    pub(crate) extent: u32,
    /// Whether products are neighbours; rows, or columns, are if not.
    pub(crate) k_contiguous: bool,
    /// Elements from one row to the next if products are neighbours, else from one product to the next.
    pub(crate) stride: u32,
    /// How it moves in the batch; nothing if that is no tensor that the copy engine could know beforehand.
    pub(crate) batch: Option<Vec<BatchAxis>>,
}

/// A loop of the batch along which a factor, or what is stored, moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchAxis {
    pub(crate) extent: u32,
    /// Elements from one to the next.
    pub(crate) stride: u64,
}

/// How a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatmulKernel {
    Mma(mma::MmaTile),
    Wgmma(wgmma::WgmmaTile),
}

impl MatmulKernel {
    /// The fastest one that a target has for a product, of those that are allowed.
    pub(crate) fn of(matmul: &Matmul, target: Target, allowed: TensorCores) -> MatmulKernel {
        let tile = wgmma::WgmmaTile::of(matmul);
        // Theirs of `tf32` want the depth contiguous on both sides.
        let has_warpgroups =
            target == Target::Sm90a && allowed == TensorCores::Auto && matmul.element.bytes() == 2;
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

    /// How many blocks compute it.
    pub(crate) fn blocks(&self, matmul: &Matmul) -> u64 {
        match self {
            MatmulKernel::Mma(tile) => tile.blocks(matmul),
            MatmulKernel::Wgmma(tile) => tile.blocks(matmul),
        }
    }

    /// How many tiles there are, each of a block or of a cluster; 31 bits must hold it.
    pub(crate) fn tiles(&self, matmul: &Matmul) -> u64 {
        match self {
            MatmulKernel::Mma(tile) => tile.blocks(matmul),
            MatmulKernel::Wgmma(tile) => tile.tiles(matmul),
        }
    }

    /// The factors and where results go as tensors, for methods that copy them as such: the kernel's tensor maps.
    pub(crate) fn tensors(&self, matmul: &Matmul) -> Vec<TmaTensor> {
        match self {
            MatmulKernel::Mma(_) => Vec::new(),
            MatmulKernel::Wgmma(tile) => tile.tensors(matmul),
        }
    }

    /// Says what the kernel is, besides its body.
    pub(crate) fn declare(&self, b: &mut PtxBuilder, matmul: &Matmul) {
        if let MatmulKernel::Wgmma(tile) = self {
            b.cluster(tile.cluster);
            // One block leaves its threads as many registers as there are.
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

/// Neighbouring outputs of a thread: of one row, one or two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputElements {
    /// The row is this many rows behind the one in the register.
    pub(crate) row: (Reg, u32),
    /// The first column is this many columns behind twice the number in the register.
    pub(crate) column: (Reg, u32),
    pub(crate) count: usize,
}

/// Memory that a product reads or stores into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatmulMemory {
    OperandA,
    OperandB,
    /// That of [`Product::stored`] with this number.
    Output(usize),
}

/// What is around the product: who knows the nodes.
pub(crate) trait MatmulCallbacks {
    /// Where the kernel is written.
    fn builder(&mut self) -> &mut PtxBuilder;

    /// From here on, to the end of the block that is being written, everything is about the product of this number of the batch.
    fn enter_batch(&mut self, number: Reg);

    /// The address of the first element of some memory.
    fn base_address(&mut self, of: MatmulMemory) -> Reg;

    /// Where in the batch that is, along its axes.
    fn batch_coordinates(&mut self, of: MatmulMemory) -> Vec<Reg>;

    /// What the sums of outputs begin with, if not with zeros.
    fn prologue(&mut self, outputs: OutputElements) -> Option<Vec<Reg>>;

    /// What becomes of the sums of outputs.
    fn epilogue(&mut self, outputs: OutputElements, accumulators: &[Reg]);

    /// As [`Surroundings::finish`], but for the stores: what they would store, of each of [`Product::stored`] for all outputs.
    fn epilogue_values(&mut self, outputs: OutputElements, accumulators: &[Reg]) -> Vec<Vec<Reg>>;

    /// What is written, as a block of its own.
    fn nested_block(&mut self, write: &mut dyn FnMut(&mut dyn MatmulCallbacks)) -> StmtList;
}

/// What threads do for which a predicate holds.
fn when(callbacks: &mut dyn MatmulCallbacks, pred: Reg, write: &mut dyn FnMut(&mut dyn MatmulCallbacks)) {
    let then = callbacks.nested_block(write);
    callbacks.builder().push_stmt(PtxStmt::If {
        guard: GuardPredicate::on(pred),
        then,
        otherwise: Vec::new(),
    });
}
