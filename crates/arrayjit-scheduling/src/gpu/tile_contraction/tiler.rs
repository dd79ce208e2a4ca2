//! The kernel of the whole tiles of a contraction, and the nests of the remaining rows and columns.

use lowered_ir::ir::{Affine, BinaryOp, Block, Expr, Indices, LocalId, Space, Stmt, walk};
use smallvec::smallvec;

use super::matmul::TiledMatmul;
use super::thread_tile::{OutputRun, ThreadTile};
use super::tile_size::MatmulTile;
use crate::analysis::nest::{self, Loop, Nest};
use crate::gpu::constant_ends::guard_of;
use crate::gpu::context::{Gpu, parallel};

/// The shared arrays of one block.
#[derive(Clone, Copy)]
pub(crate) struct StagedOperands {
    pub(crate) a: LocalId,
    pub(crate) b: LocalId,
}

/// Writes the kernel of one contraction.
pub(super) struct MatmulTiler<'a> {
    pub(super) gpu: &'a mut Gpu,
    pub(super) product: &'a TiledMatmul,
    pub(super) tile: MatmulTile,
}

impl<'a> MatmulTiler<'a> {
    pub(super) fn new(gpu: &'a mut Gpu, product: &'a TiledMatmul, tile: MatmulTile) -> MatmulTiler<'a> {
        MatmulTiler { gpu, product, tile }
    }

    pub(super) fn kernel(&mut self) -> Block {
        let dims = ThreadTile::of(self.gpu, &self.tile).dims();
        let dtype = self.product.reduction.chain.dtype;
        let (sums, declare) = self.gpu.names.declare(dtype, dims, Space::Thread);
        let (m, n) = (self.tile.m, self.tile.n);
        let (row, column) = (self.gpu.loop_of(m.tiles()), self.gpu.loop_of(n.tiles()));
        let (arrays, parts) = self.parts(sums);
        let mut work = Block::new();
        if !self.product.starts_from_zero() {
            work.extend(self.start(sums));
        }
        work.extend(parts);
        work.extend(self.finish(sums));
        // A tile whose first row or column is beyond the end has nothing to do.
        if let Some(hi) = guard_of(&self.product.reduction.after) {
            let guard = Loop { hi, ..self.gpu.once() };
            work = nest::wrap(&[guard], work);
        }
        let body = std::iter::once(declare).chain(arrays).chain(work);
        let mut body: Block = body.collect();
        for (side, tile) in [(m, &row), (n, &column)] {
            walk::substitute(&mut body, side.var, &Affine::term(tile.var, side.tile));
        }
        let loops: Vec<Loop> = self.product.batch.iter().cloned().chain([row, column]).collect();
        parallel(&loops, body)
    }

    /// The multiplications of each thread for the block that is staged.
    pub(super) fn multiply(&mut self, sums: LocalId, staged: StagedOperands, ks: &[Loop]) -> Block {
        let own = ThreadTile::of(self.gpu, &self.tile);
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

    /// Loads the operand elements that a thread reuses.
    fn in_registers(&mut self, value: Expr, run: OutputRun, out: &mut Block) -> Expr {
        let dtype = value.dtype(&self.gpu.names);
        let (local, declare) = self.gpu.names.declare(dtype, smallvec![run.count()], Space::Register);
        let set = vec![Stmt::SetLocal { local, index: [run.number()].into(), value }];
        // The loads get variables of their own, because the loops over outputs use these.
        let load = self.gpu.names.refreshed(&run.each(set));
        out.push(declare);
        out.extend(load);
        Expr::GetLocal { local, index: [run.number()].into() }
    }

    /// Initializes accumulators with the values that the outputs had before.
    fn start(&mut self, sums: LocalId) -> Block {
        let acc = Expr::local(self.product.reduction.chain.acc);
        let body = self.product.reduction.before.clone();
        self.each_output(body, |own, body| {
            body.push(Stmt::SetLocal { local: sums, index: own.place(), value: acc });
        })
    }

    /// The epilogue of each output.
    fn finish(&mut self, sums: LocalId) -> Block {
        let reduction = &self.product.reduction;
        self.each_output(reduction.before.clone(), |own, body| {
            let sum = Expr::GetLocal { local: sums, index: own.place() };
            body.push(Stmt::set_scalar(reduction.chain.acc, sum));
            body.extend(reduction.after.iter().cloned());
        })
    }

    fn each_output(&mut self, mut body: Block, complete: impl FnOnce(&ThreadTile, &mut Block)) -> Block {
        let own = ThreadTile::of(self.gpu, &self.tile);
        complete(&own, &mut body);
        let wide = nest::vector_width(&body, self.tile.n.var, &self.gpu.names).is_some();
        let own = if wide { own } else { own.narrow() };
        for (side, place) in [(self.tile.m, own.row()), (self.tile.n, own.column())] {
            walk::substitute(&mut body, side.var, &Affine::var(side.var).plus(&place));
        }
        let block = own.threads(own.outputs(body));
        self.gpu.names.refreshed(&block)
    }

    /// The outputs beyond whole tiles: columns beside them, and rows below.
    pub(super) fn rest(&mut self) -> Option<Vec<Nest>> {
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

    /// The nest of some rows and columns, each given by the first one and the count.
    fn beyond(&mut self, rows: (i64, i64), columns: (i64, i64)) -> Option<Nest> {
        let (product, reduction) = (self.product, &self.product.reduction);
        let mut body = reduction.before.clone();
        body.extend(nest::wrap(&reduction.chain.ks, reduction.chain.as_block()));
        body.extend(reduction.after.iter().cloned());
        let mut loops = product.batch.clone();
        for (l, (from, extent)) in [(&product.rows, rows), (&product.columns, columns)] {
            walk::substitute(&mut body, l.var, &Affine::var(l.var).plus_constant(from));
            loops.push(Loop { hi: extent.into(), ..*l });
        }
        self.gpu.renamed(&loops, body)
    }
}
