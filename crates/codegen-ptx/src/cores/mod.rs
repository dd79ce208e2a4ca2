//! Products of matrices on tensor cores.
//!
//! ```text
//! each block has tiles of the outputs, each of its warps a part of a tile, in registers
//!   copies bring tiles of both factors to shared memory, some stages ahead
//!   for each stage: multiply
//!   each thread: what comes after, for its outputs
//! ```
//!
//! There are two kinds of kernels. [`warps`] is for every processor with `cp.async`: all threads copy, and every warp multiplies for itself. The sums are in
//! `f32`; the order in which a tensor core adds is its own.

mod outputs; // the outputs of a thread
mod place; // which block has which tile

pub(crate) mod warps; // `mma` with `cp.async`

use ptx_asm::{Block, Builder, Guard, Mma, Reg, Stmt};

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
    /// The instruction.
    pub(crate) mma: Mma,
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

/// What is around the product: who knows the nodes.
pub(crate) trait Surroundings {
    /// Where the kernel is written.
    fn builder(&mut self) -> &mut Builder;

    /// From here on, to the end of the block that is being written, everything is about the product of this number of the batch.
    fn batch(&mut self, number: Reg);

    /// The addresses of the first elements of both factors.
    fn bases(&mut self) -> [Reg; 2];

    /// What the sums of outputs begin with, if not with zeros.
    fn start(&mut self, outputs: Outputs) -> Option<Vec<Reg>>;

    /// What becomes of the sums of outputs.
    fn finish(&mut self, outputs: Outputs, sums: &[Reg]);

    /// What is written, as a block of its own.
    fn block(&mut self, write: &mut dyn FnMut(&mut dyn Surroundings)) -> Block;
}

/// What threads do for which a predicate holds.
fn when(around: &mut dyn Surroundings, pred: Reg, write: &mut dyn FnMut(&mut dyn Surroundings)) {
    let then = around.block(write);
    around.builder().append(Stmt::If { guard: Guard::on(pred), then, otherwise: Vec::new() });
}
