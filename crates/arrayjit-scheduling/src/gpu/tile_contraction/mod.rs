//! Tiled contractions: a workgroup computes a tile of the outputs, and each of its threads a few outputs in
//! registers.
//!
//! ```text
//! parallel (batch…, tile of m, tile of n) {
//!   for k block {
//!     shared_a[k, m] := a(m, k);  shared_b[k, n] := b(k, n)       ; all threads, vectorized where contiguous
//!     each thread: for k { acc[r, c] := fma(shared_a[k, r], shared_b[k, c], acc[r, c]) }
//!   }
//!   each thread: the epilogue of its outputs
//! }
//! ```
//!
//! An operand element is loaded from global memory once per tile instead of once per output, and from shared
//! memory once per thread. Each output adds its terms in the order of `k`, so no bit changes. Rows and
//! columns beyond whole tiles are contractions of their own, with smaller tiles or one thread per output.

mod matmul;
mod staging;
mod thread_tile;
mod tile_size;
mod tiler;

use lowered_ir::ir::Block;

use self::matmul::TiledMatmul;
use self::tile_size::MatmulTile;
use self::tiler::MatmulTiler;
use super::context::Gpu;
use super::thread_per_output;
use crate::analysis::nest::{Loop, Nest};

/// Maps a contraction to kernels.
pub(crate) fn distribute(gpu: &mut Gpu, nest: &Nest) -> Option<Block> {
    let Some(tiled) = tiled(gpu, nest) else { return thread_per_output::distribute(gpu, nest) };
    let (mut kernels, rest) = tiled;
    for nest in rest {
        kernels.extend(distribute(gpu, &nest)?);
    }
    Some(kernels)
}

/// The threads that compute the outputs of a contraction.
pub(crate) fn threads(gpu: &Gpu, nest: &Nest) -> i64 {
    let tiled = TiledMatmul::of(gpu, nest).and_then(|product| {
        let tile = MatmulTile::of(&product, gpu)?;
        Some(product.batches() * tile.m.tiles() * tile.n.tiles() * tile.threads())
    });
    let outputs = gpu.independent(nest).0;
    tiled.unwrap_or_else(|| outputs.iter().filter_map(Loop::extent).fold(1, i64::saturating_mul))
}

/// The kernel of the whole tiles, and the nests of the remaining rows and columns.
fn tiled(gpu: &mut Gpu, nest: &Nest) -> Option<(Block, Vec<Nest>)> {
    let product = TiledMatmul::of(gpu, nest)?;
    let tile = MatmulTile::of(&product, gpu)?;
    let mut tiler = MatmulTiler::new(gpu, &product, tile);
    let kernel = tiler.kernel();
    let rest = tiler.rest()?;
    Some((kernel, rest)).filter(|(kernel, _)| gpu.fits(kernel))
}
