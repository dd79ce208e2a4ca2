//! Contractions as tiles: a workgroup has a tile of the outputs, each of its threads a few outputs of it in registers.
//!
//! ```text
//! parallel (batch…, tile of m, tile of n) {
//!   for k block {
//!     shared_a[k, m] := a(m, k);  shared_b[k, n] := b(k, n)           ; all threads, wide where contiguous
//!     each thread: for k { acc[r, c] := fma(shared_a[k, r], shared_b[k, c], acc[r, c]) }
//!   }
//!   each thread: what comes after, for its outputs
//! }
//! ```
//!
//! An element that is staged is read from memory once per tile instead of once per output, and from shared memory once per thread.
//! Each output still takes its terms in the order of `k`, so no bit changes. Rows and columns beyond whole tiles are contractions of
//! their own, by smaller tiles or a thread per output.

mod own; // which thread has what
mod parts; // k, part by part
mod product; // what is a contraction
mod shape; // how large tiles are

use lowered_ir::ir::{Affine, BinaryOp, Block, Expr, Indices, LocalId, Space, Stmt, walk};
use smallvec::smallvec;

use crate::analysis::nest::{self, Loop, Nest};
use crate::gpu::{Gpu, parallel, threads};
use own::{Own, Run};
use parts::Staged;
use product::Product;
use shape::Tile;

/// The contraction as kernels.
pub(crate) fn distribute(gpu: &mut Gpu, nest: &Nest) -> Option<Block> {
    let Some(tiled) = tiled(gpu, nest) else { return threads::distribute(gpu, nest) };
    let (mut kernels, rest) = tiled;
    for nest in rest {
        kernels.extend(distribute(gpu, &nest)?);
    }
    Some(kernels)
}

/// The kernel of whole tiles, and the nests of the rest.
fn tiled(gpu: &mut Gpu, nest: &Nest) -> Option<(Block, Vec<Nest>)> {
    let product = Product::of(gpu, nest)?;
    let tile = Tile::of(&product, gpu)?;
    let mut tiler = Tiler { gpu, product: &product, tile };
    let kernel = tiler.kernel();
    let rest = tiler.rest()?;
    Some((kernel, rest)).filter(|(kernel, _)| gpu.fits(kernel))
}

struct Tiler<'a> {
    gpu: &'a mut Gpu,
    product: &'a Product,
    tile: Tile,
}

impl Tiler<'_> {
    fn kernel(&mut self) -> Block {
        let dims = Own::of(self.gpu, &self.tile).dims();
        let dtype = self.product.reduction.chain.dtype;
        let (sums, declare) = self.gpu.names.declare(dtype, dims, Space::Thread);
        let (m, n) = (self.tile.m, self.tile.n);
        let (row, column) = (self.gpu.loop_of(m.tiles()), self.gpu.loop_of(n.tiles()));
        let (arrays, parts) = self.parts(sums);
        let mut body = vec![declare];
        body.extend(arrays);
        if !self.product.starts_from_zero() {
            body.extend(self.start(sums));
        }
        body.extend(parts);
        body.extend(self.finish(sums));
        for (side, tile) in [(m, row), (n, column)] {
            walk::substitute(&mut body, side.var, &Affine::term(tile.var, side.tile));
        }
        let loops: Vec<Loop> = self.product.batch.iter().copied().chain([row, column]).collect();
        parallel(&loops, body)
    }

    /// Each thread's products of the part of `k` that is staged.
    fn multiply(&mut self, sums: LocalId, staged: Staged, ks: &[Loop]) -> Block {
        let own = Own::of(self.gpu, &self.tile);
        let at = |side: Affine| -> Indices { ks.iter().map(|k| Affine::var(k.var)).chain([side]).collect() };
        let from_a = Expr::GetLocal { local: staged.a, index: at(own.row()) };
        let from_b = Expr::GetLocal { local: staged.b, index: at(own.column()) };
        let mut body = Block::new();
        let a = self.in_registers(from_a, own.rows(), &mut body);
        let b = self.in_registers(from_b, own.columns(), &mut body);
        let (first, second) = if self.product.a_first { (a, b) } else { (b, a) };
        let sum = Expr::GetLocal { local: sums, index: own.place() };
        let value = match self.product.fused {
            true => Expr::fma(first, second, sum),
            false => Expr::binary(BinaryOp::Add, sum, Expr::binary(BinaryOp::Mul, first, second)),
        };
        let set = vec![Stmt::SetLocal { local: sums, index: own.place(), value }];
        body.extend(own.outputs(set));
        let kind = self.tile.products();
        let around = |body, k: &Loop| vec![Stmt::looped(k.var, k.hi.limit, kind, body)];
        let products = ks.iter().rev().fold(body, around);
        self.gpu.names.refreshed(&own.threads(products))
    }

    /// Loads what a thread reuses.
    fn in_registers(&mut self, value: Expr, run: Run, out: &mut Block) -> Expr {
        let dtype = value.dtype(&self.gpu.names);
        let (local, declare) = self.gpu.names.declare(dtype, smallvec![run.count()], Space::Register);
        let set = vec![Stmt::SetLocal { local, index: smallvec![run.number()], value }];
        // The copy has variables of its own: the outputs' loops have these.
        let load = self.gpu.names.refreshed(&run.each(set));
        out.push(declare);
        out.extend(load);
        Expr::GetLocal { local, index: smallvec![run.number()] }
    }

    /// What was there before is where sums begin.
    fn start(&mut self, sums: LocalId) -> Block {
        let acc = Expr::local(self.product.reduction.chain.acc);
        let body = self.product.reduction.before.clone();
        self.each_output(body, |own, body| {
            body.push(Stmt::SetLocal { local: sums, index: own.place(), value: acc });
        })
    }

    /// What comes after, for each output.
    fn finish(&mut self, sums: LocalId) -> Block {
        let reduction = &self.product.reduction;
        self.each_output(reduction.before.clone(), |own, body| {
            let sum = Expr::GetLocal { local: sums, index: own.place() };
            body.push(Stmt::set_scalar(reduction.chain.acc, sum));
            body.extend(reduction.after.iter().cloned());
        })
    }

    fn each_output(&mut self, mut body: Block, complete: impl FnOnce(&Own, &mut Block)) -> Block {
        let own = Own::of(self.gpu, &self.tile);
        complete(&own, &mut body);
        let wide = nest::vector_width(&body, self.tile.n.var, &self.gpu.names).is_some();
        let own = if wide { own } else { own.narrow() };
        for (side, place) in [(self.tile.m, own.row()), (self.tile.n, own.column())] {
            walk::substitute(&mut body, side.var, &Affine::var(side.var).plus(&place));
        }
        let block = own.threads(own.outputs(body));
        self.gpu.names.refreshed(&block)
    }

    /// The outputs beyond whole tiles: columns of all whole tiles' rows, and rows.
    fn rest(&mut self) -> Option<Vec<Nest>> {
        let (m, n) = (self.tile.m, self.tile.n);
        let (rows, columns) = (m.tiles() * m.tile, n.tiles() * n.tile);
        let mut nests = Vec::new();
        if columns < n.extent {
            nests.push(self.beyond((0, rows), (columns, n.extent - columns))?);
        }
        if rows < m.extent {
            nests.push(self.beyond((rows, m.extent - rows), (0, n.extent))?);
        }
        Some(nests)
    }

    /// The nest of some rows and columns: where they begin, and how many there are.
    fn beyond(&mut self, rows: (i64, i64), columns: (i64, i64)) -> Option<Nest> {
        let (product, reduction) = (self.product, &self.product.reduction);
        let mut body = reduction.before.clone();
        body.extend(nest::wrap(&reduction.chain.ks, reduction.chain.as_block()));
        body.extend(reduction.after.iter().cloned());
        let mut loops = product.batch.clone();
        for (l, (from, extent)) in [(product.rows, rows), (product.columns, columns)] {
            walk::substitute(&mut body, l.var, &Affine::var(l.var).plus_constant(from));
            loops.push(Loop { hi: extent.into(), ..l });
        }
        self.gpu.renamed(&loops, body)
    }
}
