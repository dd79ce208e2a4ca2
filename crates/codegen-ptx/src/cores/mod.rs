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

mod boxes; // results in shared memory
mod outputs; // the outputs of a thread
mod place; // which block has which tile

mod warpgroups; // `wgmma` with the copy engine
mod warps; // `mma` with `cp.async`

#[cfg(test)]
mod plain; // products in whole numbers

use ptx_asm::{GuardPredicate, PtxBuilder, PtxStmt, Reg, StmtList, Target, Ty};

pub(crate) use self::warpgroups::Tensor;
use crate::options::TensorCores;

/// A product of two matrices, or of a batch of them.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    /// Rows, columns and products.
    pub(crate) sizes: [u32; 3],
    /// How many products there are, one after another in the numbers of blocks.
    pub(crate) batch: u32,
    /// The left factor: rows by depth.
    pub(crate) left: Matrix,
    /// The right factor: columns by depth.
    pub(crate) right: Matrix,
    /// What the elements of both are: `F16`, `Bf16`, or `F32`, which is cut off to `tf32`.
    pub(crate) element: Ty,
    /// Where results go, if they may be stored 16 bytes at a time; else nothing.
    pub(crate) stored: Vec<Stored>,
}

/// Where results go: rows of neighbours.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// What they are: `F32`, or `B16` for all floats of 16 bits.
    pub(crate) element: Ty,
    /// Elements from one row to the next.
    pub(crate) stride: u32,
    /// How it moves in the batch, as [`Matrix::batch`].
    pub(crate) batch: Option<Vec<BatchAxis>>,
}

/// A factor in memory.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    /// How many rows, or columns.
    pub(crate) extent: u32,
    /// Whether products are neighbours; rows, or columns, are if not.
    pub(crate) depth_contiguous: bool,
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
pub(crate) enum Method {
    Warps(warps::Tile),
    Warpgroups(warpgroups::Tile),
}

impl Method {
    /// The fastest one that a target has for a product, of those that are allowed.
    pub(crate) fn of(product: &Product, target: Target, allowed: TensorCores) -> Method {
        let tile = warpgroups::Tile::of(product);
        // Theirs of `tf32` want the depth contiguous on both sides.
        let has_warpgroups =
            target == Target::Sm90a && allowed == TensorCores::Auto && product.element.bytes() == 2;
        match has_warpgroups && tile.factors(product).is_some() {
            true => Method::Warpgroups(tile),
            false => Method::Warps(warps::Tile::of(product)),
        }
    }

    /// Threads of a block.
    pub(crate) fn threads(&self) -> u32 {
        match self {
            Method::Warps(tile) => tile.threads(),
            Method::Warpgroups(tile) => tile.threads(),
        }
    }

    /// How many blocks compute it.
    pub(crate) fn blocks(&self, product: &Product) -> u64 {
        match self {
            Method::Warps(tile) => tile.blocks(product),
            Method::Warpgroups(tile) => tile.blocks(product),
        }
    }

    /// How many tiles there are, each of a block or of a cluster; 31 bits must hold it.
    pub(crate) fn tiles(&self, product: &Product) -> u64 {
        match self {
            Method::Warps(tile) => tile.blocks(product),
            Method::Warpgroups(tile) => tile.tiles(product),
        }
    }

    /// The factors and where results go as tensors, for methods that copy them as such: the kernel's tensor maps.
    pub(crate) fn tensors(&self, product: &Product) -> Vec<Tensor> {
        match self {
            Method::Warps(_) => Vec::new(),
            Method::Warpgroups(tile) => tile.tensors(product),
        }
    }

    /// Says what the kernel is, besides its body.
    pub(crate) fn declare(&self, b: &mut PtxBuilder, product: &Product) {
        if let Method::Warpgroups(tile) = self {
            b.cluster(tile.cluster);
            // One block leaves its threads as many registers as there are.
            b.min_blocks_per_sm(1);
        }
        for _ in self.tensors(product) {
            b.tensor_map();
        }
    }

    /// Writes the body of the kernel.
    pub(crate) fn emit(&self, around: &mut dyn Surroundings, product: &Product) {
        match self {
            Method::Warps(tile) => warps::emit(around, product, tile),
            Method::Warpgroups(tile) => warpgroups::emit(around, product, tile),
        }
    }
}

/// Neighbouring outputs of a thread: of one row, one or two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outputs {
    /// The row is this many rows behind the one in the register.
    pub(crate) row: (Reg, u32),
    /// The first column is this many columns behind twice the number in the register.
    pub(crate) column: (Reg, u32),
    pub(crate) count: usize,
}

/// Memory that a product reads or stores into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Left,
    Right,
    /// That of [`Product::stored`] with this number.
    Stored(usize),
}

/// What is around the product: who knows the nodes.
pub(crate) trait Surroundings {
    /// Where the kernel is written.
    fn builder(&mut self) -> &mut PtxBuilder;

    /// From here on, to the end of the block that is being written, everything is about the product of this number of the batch.
    fn batch(&mut self, number: Reg);

    /// The address of the first element of some memory.
    fn base(&mut self, of: Of) -> Reg;

    /// Where in the batch that is, along its axes.
    fn coordinates(&mut self, of: Of) -> Vec<Reg>;

    /// What the sums of outputs begin with, if not with zeros.
    fn start(&mut self, outputs: Outputs) -> Option<Vec<Reg>>;

    /// What becomes of the sums of outputs.
    fn finish(&mut self, outputs: Outputs, sums: &[Reg]);

    /// As [`Surroundings::finish`], but for the stores: what they would store, of each of [`Product::stored`] for all outputs.
    fn results(&mut self, outputs: Outputs, sums: &[Reg]) -> Vec<Vec<Reg>>;

    /// What is written, as a block of its own.
    fn block(&mut self, write: &mut dyn FnMut(&mut dyn Surroundings)) -> StmtList;
}

/// What threads do for which a predicate holds.
fn when(around: &mut dyn Surroundings, pred: Reg, write: &mut dyn FnMut(&mut dyn Surroundings)) {
    let then = around.block(write);
    around.builder().push_stmt(PtxStmt::If { guard: GuardPredicate::on(pred), then, otherwise: Vec::new() });
}
