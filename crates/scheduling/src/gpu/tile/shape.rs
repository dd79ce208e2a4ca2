//! How large tiles are, and what a thread has of one.

use lowered_ir::ir::{BinaryOp, Expr, LoopId, LoopKind, UnaryOp, walk};
use tnode::DType;

use crate::analysis::nest::Loop;
use crate::gpu::stages::GROUPS;
use crate::gpu::tile::product::Product;
use crate::gpu::{Gpu, QUAD};
use codegen_core::threads::PlanLimits;

/// Threads below which a tile leaves a processor's lanes idle.
const THREADS: i64 = 64;
/// Threads of a large tile at least.
const LARGE_THREADS: i64 = 128;
/// Rows or columns below which there is nothing to share.
const WORTH_TILING: i64 = 4;
/// Operations that code for a transcendental function takes, about.
const FUNCTION: i64 = 64;

/// A size of tiles.
struct Size {
    /// Rows and columns.
    tile: i64,
    /// Outputs of a thread in each direction.
    each: i64,
    /// Iterations of `k` that are staged at a time.
    depth: i64,
    /// Tiles that fill a GPU: large ones want a processor each, of which the largest GPUs have more.
    enough: i64,
}

/// The largest first; the first of which there are enough, and which a thread has registers for, is taken. 64 by 64 with 4 by 4
/// outputs for each of 256 threads reads each staged element 16 times, from half of the shared memory that WebGPU promises; smaller tiles
/// read more and wait less. 128 by 128 with 8 by 8 outputs halves what products read from shared memory, which is what 4 by 4 waits for.
const SIZES: [Size; 4] = [
    Size { tile: 128, each: 2 * QUAD, depth: 8, enough: 2 * GROUPS },
    Size { tile: 64, each: QUAD, depth: 16, enough: GROUPS },
    Size { tile: 32, each: QUAD, depth: 16, enough: GROUPS },
    Size { tile: 16, each: QUAD, depth: 16, enough: GROUPS },
];

/// Rows or columns as a tile has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) var: LoopId,
    pub(crate) extent: i64,
    /// How many a tile has.
    pub(crate) tile: i64,
    /// Neighbours that a thread has: a quad at most, so that what neighbouring threads read at once is neighbouring quads.
    pub(crate) run: i64,
    /// How many such runs a thread has, each as far from the next as all threads' runs reach.
    pub(crate) runs: i64,
}

impl Side {
    fn of(l: Loop, size: &Size) -> Side {
        let (extent, target) = (l.hi.limit, size.tile);
        let even = || (target / 2..=target).rev().find(|d| extent % d == 0 && d % size.each == 0);
        let tile = match extent {
            ..=15 => extent,
            _ if extent <= target => extent / QUAD * QUAD,
            _ => even().unwrap_or(target),
        };
        let run = [QUAD, 2].into_iter().find(|run| tile % run == 0).unwrap_or(1);
        let runs = if tile % size.each == 0 { size.each / QUAD } else { 1 };
        Side { var: l.var, extent, tile, run, runs }
    }

    /// How many a thread has.
    pub(crate) fn each(&self) -> i64 {
        self.run * self.runs
    }

    pub(crate) fn threads(&self) -> i64 {
        self.tile / self.each()
    }

    pub(crate) fn tiles(&self) -> i64 {
        self.extent / self.tile
    }

    /// Fewer for each thread.
    fn halve(&mut self) {
        let part = if self.runs > 1 { &mut self.runs } else { &mut self.run };
        *part /= 2;
    }
}

/// A tile as it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    pub(crate) m: Side,
    pub(crate) n: Side,
    /// Iterations of `k` that are staged at a time, at most.
    pub(crate) depth: i64,
    /// Whether a part of `k` is read from memory while the one before is multiplied.
    pub(crate) ahead: bool,
}

impl Tile {
    /// The largest tiles of which there are enough, or the smallest ones.
    pub(crate) fn of(product: &Product, gpu: &Gpu) -> Option<Tile> {
        let (rows, columns) = (product.rows, product.columns);
        if rows.hi.limit < WORTH_TILING || columns.hi.limit < WORTH_TILING {
            return None;
        }
        let batch = product.batch.iter().filter_map(Loop::extent).fold(1, i64::saturating_mul);
        let mut smallest = None;
        for size in &SIZES {
            let (m, n) = (Side::of(rows, size), Side::of(columns, size));
            let is_large = size.each > QUAD;
            let (m, n) = if is_large { (m, n) } else { with_threads(m, n) };
            let tile = Tile { m, n, depth: size.depth, ahead: true };
            let tile = Tile { ahead: tile.fits_twice(product, gpu), ..tile };
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

    /// Elements between rows of `k` of an array that is stored into along `k`, beyond those of a tile: so many that threads that run in step
    /// store into different banks, and quads stay quads.
    pub(crate) fn margin(gpu: &Gpu) -> i64 {
        if gpu.workgroups.lanes > 1 { QUAD } else { 0 }
    }

    fn is_possible(&self, product: &Product, gpu: &Gpu) -> bool {
        self.threads() <= gpu.width() && self.bytes(product, gpu) <= gpu.workgroups.memory_bytes
    }

    /// Shared memory of a part of `k`.
    fn bytes(&self, product: &Product, gpu: &Gpu) -> usize {
        let of = |dtype: DType, side: &Side| {
            ((side.tile + Tile::margin(gpu)) * self.depth) as usize * dtype.size_bytes()
        };
        of(product.a.dtype(&gpu.names), &self.m) + of(product.b.dtype(&gpu.names), &self.n)
    }

    /// Whether there is room for two parts of `k`, and a thread has registers for its share of the second one.
    fn fits_twice(&self, product: &Product, gpu: &Gpu) -> bool {
        let registers = |dtype: DType| (dtype.size_bytes() / 4).max(1) as i64;
        let (a, b) = (product.a.dtype(&gpu.names), product.b.dtype(&gpu.names));
        let shares = |side: &Side| (side.tile * self.depth + self.threads() - 1) / self.threads();
        let kept = self.m.each() * self.n.each() * registers(product.reduction.chain.dtype)
            + (self.m.each() + shares(&self.m)) * registers(a)
            + (self.n.each() + shares(&self.n)) * registers(b);
        kept <= i64::from(gpu.workgroups.registers)
            && 2 * self.bytes(product, gpu) <= gpu.workgroups.memory_bytes
    }

    /// Whether threads may have as many outputs as a large tile gives them: their registers suffice, a block has threads enough and
    /// enough to multiply at a time, and what comes after is short enough to stand in the code for each output.
    fn is_worth(&self, product: &Product) -> bool {
        let outputs = self.m.each() * self.n.each();
        let is_short = outputs * operations(product) <= PlanLimits::default().repeated as i64 / 2;
        self.ahead && is_short && self.threads() >= LARGE_THREADS && 2 * self.staged(product) >= self.depth
    }

    /// Iterations of `k` that are staged at a time.
    fn staged(&self, product: &Product) -> i64 {
        let (_, inner) = product.depths(self.depth);
        let whole: i64 = inner[1..].iter().map(|k| k.hi.limit).product();
        whole * self.staged_length(inner)
    }

    /// How many iterations of the first of some loops over `k` are staged at a time; several loops are staged whole.
    pub(crate) fn staged_length(&self, inner: &[Loop]) -> i64 {
        let (extent, depth) = (inner[0].hi.limit, self.depth);
        if inner.len() > 1 || extent <= depth {
            return extent;
        }
        (depth / 2..=depth).rev().find(|len| extent % len == 0 && len % QUAD == 0).unwrap_or(depth)
    }

    /// How a thread goes over `k`. Where it has many outputs, assemblers leave a loop as it is, and reads wait for products.
    pub(crate) fn products(&self) -> LoopKind {
        if self.m.each() * self.n.each() > QUAD * QUAD { LoopKind::Unrolled } else { LoopKind::Serial }
    }
}

/// Fewer outputs for each thread while a tile has few threads, rows before columns.
fn with_threads(mut m: Side, mut n: Side) -> (Side, Side) {
    while m.threads() * n.threads() < THREADS && m.each() * n.each() > 1 {
        let side = if m.each() > 1 { &mut m } else { &mut n };
        side.halve();
    }
    (m, n)
}

/// Operations before and after an output's sum, about.
fn operations(product: &Product) -> i64 {
    let reduction = &product.reduction;
    let mut count = 0;
    for block in [&reduction.before, &reduction.after] {
        walk::each_stmt(block, &mut |_| count += 1);
        walk::each_value(block, &mut |value| {
            walk::each_expr(value, &mut |e| count += if is_function(e) { FUNCTION } else { 1 });
        });
    }
    count
}

/// Whether legalisation may make many operations of it.
fn is_function(e: &Expr) -> bool {
    use UnaryOp::{Cos, Exp, Exp2, Log, Log2, Sin, Tanh};
    matches!(
        e,
        Expr::Unary { op: Exp | Exp2 | Log | Log2 | Sin | Cos | Tanh, .. }
            | Expr::Binary { op: BinaryOp::Pow, .. }
    )
}
