//! Tile sizes: how many rows and columns a tile has, and how many of them each thread computes.

use lowered_ir::ir::{BinaryOp, Expr, LoopId, LoopKind, walk};
use tnode::DType;

use crate::analysis::nest::Loop;
use crate::gpu::context::{Gpu, QUAD};
use crate::gpu::split_reduction::FULL_GPU_WORKGROUPS;
use crate::gpu::tile_contraction::matmul::TiledMatmul;
use codegen_core::threads::MAX_UNROLLED_VALUES;

/// The least number of threads of a tile. Fewer threads would leave lanes of an SM idle.
const THREADS: i64 = 64;
/// The least number of threads of a large tile.
const LARGE_THREADS: i64 = 128;
/// The least number of rows, and of columns, for which a contraction is tiled.
const WORTH_TILING: i64 = 4;
/// The approximate number of operations in the code of a transcendental function.
const FUNCTION: i64 = 64;

struct TileSize {
    /// Rows and columns of the tile.
    tile: i64,
    /// Rows and columns of a thread.
    each: i64,
    /// Iterations of `k` in a block.
    depth: i64,
    /// The least number of tiles. Large tiles need one SM each, and large GPUs have many.
    enough: i64,
}

/// The choices, largest first. The first choice that gives enough tiles and needs no more registers than a
/// thread has is taken. A tile of 64 × 64 with 4 × 4 outputs for each of 256 threads reads each staged
/// element 16 times, and needs half of the shared memory that WebGPU guarantees. Smaller tiles read more and
/// wait less. A tile of 128 × 128 with 8 × 8 outputs halves the reads from shared memory, which limit tiles
/// with 4 × 4.
const SIZES: [TileSize; 4] = [
    TileSize { tile: 128, each: 2 * QUAD, depth: 8, enough: 2 * FULL_GPU_WORKGROUPS },
    TileSize { tile: 64, each: QUAD, depth: 16, enough: FULL_GPU_WORKGROUPS },
    TileSize { tile: 32, each: QUAD, depth: 16, enough: FULL_GPU_WORKGROUPS },
    TileSize { tile: 16, each: QUAD, depth: 16, enough: FULL_GPU_WORKGROUPS },
];

/// The rows or the columns of a contraction in tiles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileAxis {
    pub(crate) var: LoopId,
    pub(crate) extent: i64,
    /// Rows or columns of a tile.
    pub(crate) tile: i64,
    /// Consecutive rows or columns of a thread: a run. A run has four at most, so that neighboring threads
    /// read neighboring vectors.
    pub(crate) run: i64,
    /// Runs per thread. Between two runs of a thread there is one run of each other thread.
    pub(crate) runs: i64,
}

impl TileAxis {
    fn of(l: &Loop, size: &TileSize) -> TileAxis {
        let (extent, target) = (l.hi.limit, size.tile);
        let even = || (target / 2..=target).rev().find(|d| extent % d == 0 && d % size.each == 0);
        let tile = match extent {
            ..=15 => extent,
            _ if extent <= target => extent / QUAD * QUAD,
            _ => even().unwrap_or(target),
        };
        let run = [QUAD, 2].into_iter().find(|run| tile % run == 0).unwrap_or(1);
        let runs = if tile % size.each == 0 { size.each / QUAD } else { 1 };
        TileAxis { var: l.var, extent, tile, run, runs }
    }

    /// Rows or columns of a thread.
    pub(crate) fn each(&self) -> i64 {
        self.run * self.runs
    }

    pub(crate) fn threads(&self) -> i64 {
        self.tile / self.each()
    }

    pub(crate) fn tiles(&self) -> i64 {
        self.extent / self.tile
    }

    /// Halves the rows or columns of a thread.
    fn halve(&mut self) {
        let part = if self.runs > 1 { &mut self.runs } else { &mut self.run };
        *part /= 2;
    }
}

/// A tile, and how its blocks of `k` are staged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatmulTile {
    pub(crate) m: TileAxis,
    pub(crate) n: TileAxis,
    /// The most iterations of `k` in a block.
    pub(crate) depth: i64,
    /// Whether blocks are double-buffered.
    pub(crate) ahead: bool,
}

impl MatmulTile {
    /// The largest size that gives enough tiles, else the smallest.
    pub(crate) fn of(product: &TiledMatmul, gpu: &Gpu) -> Option<MatmulTile> {
        let (rows, columns) = (&product.rows, &product.columns);
        if rows.hi.limit < WORTH_TILING || columns.hi.limit < WORTH_TILING {
            return None;
        }
        let batch = product.batches();
        let mut smallest = None;
        for size in &SIZES {
            let (m, n) = (TileAxis::of(rows, size), TileAxis::of(columns, size));
            let is_large = size.each > QUAD;
            let (m, n) = if is_large { (m, n) } else { with_threads(m, n) };
            let tile = MatmulTile { m, n, depth: size.depth, ahead: true };
            let tile = MatmulTile { ahead: tile.fits_twice(product, gpu), ..tile };
            if !tile.is_possible(product, gpu) || (is_large && !tile.is_worth(product)) {
                continue;
            }
            if batch.saturating_mul(m.tiles() * n.tiles()) >= size.enough {
                return Some(tile);
            }
            if !is_large {
                smallest = Some(tile);
            }
        }
        smallest
    }

    pub(crate) fn threads(&self) -> i64 {
        self.m.threads() * self.n.threads()
    }

    /// Padding in elements between the rows of an array that a transposing copy fills, so that a subgroup
    /// stores into different banks and vectorized reads stay aligned.
    pub(crate) fn margin(gpu: &Gpu) -> i64 {
        if gpu.workgroups.subgroup_size > 1 { QUAD } else { 0 }
    }

    fn is_possible(&self, product: &TiledMatmul, gpu: &Gpu) -> bool {
        self.threads() <= gpu.width() && self.bytes(product, gpu) <= gpu.workgroups.memory_bytes
    }

    /// Bytes of shared memory for a block of `k`.
    fn bytes(&self, product: &TiledMatmul, gpu: &Gpu) -> usize {
        let of = |dtype: DType, side: &TileAxis| {
            ((side.tile + MatmulTile::margin(gpu)) * self.depth) as usize * dtype.size_bytes()
        };
        of(product.a.dtype(&gpu.names), &self.m) + of(product.b.dtype(&gpu.names), &self.n)
    }

    /// Whether shared memory has room for two blocks of `k`, and a thread has registers for its share of the
    /// second.
    fn fits_twice(&self, product: &TiledMatmul, gpu: &Gpu) -> bool {
        let registers = |dtype: DType| (dtype.size_bytes() / 4).max(1) as i64;
        let (a, b) = (product.a.dtype(&gpu.names), product.b.dtype(&gpu.names));
        let shares = |side: &TileAxis| (side.tile * self.depth + self.threads() - 1) / self.threads();
        let kept = self.m.each() * self.n.each() * registers(product.reduction.chain.dtype)
            + (self.m.each() + shares(&self.m)) * registers(a)
            + (self.n.each() + shares(&self.n)) * registers(b);
        kept <= i64::from(gpu.workgroups.registers)
            && 2 * self.bytes(product, gpu) <= gpu.workgroups.memory_bytes
    }

    /// Whether threads may have as many outputs as a large tile gives them: their registers suffice, a
    /// workgroup has enough threads and a block enough iterations, and the epilogue is short enough to be
    /// unrolled for each output.
    fn is_worth(&self, product: &TiledMatmul) -> bool {
        let outputs = self.m.each() * self.n.each();
        let is_short = outputs * operations(product) <= MAX_UNROLLED_VALUES as i64 / 2;
        self.ahead && is_short && self.threads() >= LARGE_THREADS && 2 * self.staged(product) >= self.depth
    }

    /// Iterations of `k` in a block.
    fn staged(&self, product: &TiledMatmul) -> i64 {
        let (_, inner) = product.depths(self.depth);
        let whole: i64 = inner[1..].iter().map(|k| k.hi.limit).product();
        whole * self.staged_length(inner)
    }

    /// Iterations of the first of the loops `inner` in a block. If there are several loops, a block contains
    /// all of their iterations.
    pub(crate) fn staged_length(&self, inner: &[Loop]) -> i64 {
        let (extent, depth) = (inner[0].hi.limit, self.depth);
        if inner.len() > 1 || extent <= depth {
            return extent;
        }
        (depth / 2..=depth).rev().find(|len| extent % len == 0 && len % QUAD == 0).unwrap_or(depth)
    }

    /// The kind of the loop over a block. Assemblers do not unroll a loop over many outputs, and its loads
    /// would wait for its multiplications.
    pub(crate) fn products(&self) -> LoopKind {
        if self.m.each() * self.n.each() > QUAD * QUAD { LoopKind::Unrolled } else { LoopKind::Serial }
    }
}

/// Halves the outputs of each thread while a tile has too few threads, rows before columns.
fn with_threads(mut m: TileAxis, mut n: TileAxis) -> (TileAxis, TileAxis) {
    while m.threads() * n.threads() < THREADS && m.each() * n.each() > 1 {
        let side = if m.each() > 1 { &mut m } else { &mut n };
        side.halve();
    }
    (m, n)
}

/// The approximate number of operations before and after the accumulation of an output.
fn operations(product: &TiledMatmul) -> i64 {
    let reduction = &product.reduction;
    let mut count = 0;
    for block in [&reduction.before, &reduction.after] {
        walk::stmts(block).for_each(|_| count += 1);
        walk::parts_in(block).for_each(|e| count += if is_function(e) { FUNCTION } else { 1 });
    }
    count
}

/// Whether legalization may expand it into many operations.
fn is_function(e: &Expr) -> bool {
    match e {
        Expr::Unary { op, .. } => op.is_transcendental(),
        Expr::Binary { op, .. } => *op == BinaryOp::Pow,
        _ => false,
    }
}
