//! The outputs of each thread of a tile.

use lowered_ir::ir::{Affine, Block, Indices, LoopId, LoopKind, Stmt};

use crate::analysis::nest::Loop;
use crate::gpu::context::{Gpu, QUAD};
use crate::gpu::tile_contraction::tile_size::{MatmulTile, TileAxis};

/// The number of threads of a subgroup that are side by side in a row of the tile. Together they read 128
/// bytes of shared memory, which is one access to every bank.
const BESIDE: i64 = 8;

/// The position of a thread in the tile, and its outputs.
///
/// A subgroup covers a rectangle of the tile instead of a row, so that its threads read fewer different
/// elements.
pub(crate) struct ThreadTile {
    /// Workgroup loops, the first outermost.
    threads: Vec<Loop>,
    y: Affine,
    x: Affine,
    rows: OutputRun,
    columns: OutputRun,
}

/// The rows or the columns of a thread, in runs of consecutive ones.
#[derive(Clone, Copy)]
pub(crate) struct OutputRun {
    side: TileAxis,
    /// The variable of the loop over runs, if the thread has several.
    nth: LoopId,
    /// The variable of the loop over the rows or columns of a run.
    at: LoopId,
    /// The kind of the loop over the rows or columns of a run.
    kind: LoopKind,
}

impl OutputRun {
    fn of(gpu: &mut Gpu, side: TileAxis, kind: LoopKind) -> OutputRun {
        OutputRun { side, nth: gpu.names.loop_id(), at: gpu.names.loop_id(), kind }
    }

    /// The number of rows or columns.
    pub(crate) fn count(&self) -> usize {
        self.side.each() as usize
    }

    /// The number of a row or column, counted among the rows or columns of its thread.
    pub(crate) fn number(&self) -> Affine {
        self.spread(self.side.run)
    }

    /// The offset of a row or column, if runs are `apart` elements apart.
    fn spread(&self, apart: i64) -> Affine {
        let at = Affine::var(self.at);
        if self.side.runs == 1 { at } else { at.plus(&Affine::term(self.nth, apart)) }
    }

    fn vars(&self) -> impl Iterator<Item = LoopId> {
        let nth = (self.side.runs > 1).then_some(self.nth);
        nth.into_iter().chain([self.at])
    }

    /// The loops over the rows or columns around a body.
    pub(crate) fn each(&self, body: Block) -> Block {
        let neighbors = vec![Stmt::looped(self.at, self.side.run, self.kind, body)];
        match self.side.runs {
            1 => neighbors,
            runs => vec![Stmt::looped(self.nth, runs, LoopKind::Unrolled, neighbors)],
        }
    }
}

impl ThreadTile {
    pub(crate) fn of(gpu: &mut Gpu, tile: &MatmulTile) -> ThreadTile {
        let (m, n) = (tile.m, tile.n);
        let mut threads = Vec::new();
        let mut outer = |gpu: &mut Gpu, extent: i64| {
            threads.push(gpu.loop_of(extent));
            threads.len() - 1
        };
        let above = i64::from(gpu.workgroups.subgroup_size) / BESIDE;
        let (y, x) = (m.threads(), n.threads());
        let in_blocks = above > 1 && x > BESIDE && x % BESIDE == 0 && y > above && y % above == 0;
        let places: Vec<(usize, i64)> = match in_blocks {
            true => {
                let blocks = [outer(gpu, y / above), outer(gpu, x / BESIDE)];
                let inner = [outer(gpu, above), outer(gpu, BESIDE)];
                vec![(blocks[0], above), (inner[0], 1), (blocks[1], BESIDE), (inner[1], 1)]
            }
            false => vec![(outer(gpu, y), 1), (outer(gpu, x), 1)],
        };
        let sum = |places: &[(usize, i64)]| {
            let term = |&(at, unit): &(usize, i64)| Affine::term(threads[at].var, unit);
            places.iter().map(term).fold(Affine::constant(0), |sum, term| sum.plus(&term))
        };
        let (y, x) = places.split_at(places.len() / 2);
        let (y, x) = (sum(y), sum(x));
        let kind = if n.run == QUAD { LoopKind::Vector } else { LoopKind::Unrolled };
        let (rows, columns) = (OutputRun::of(gpu, m, LoopKind::Unrolled), OutputRun::of(gpu, n, kind));
        ThreadTile { threads, y, x, rows, columns }
    }

    /// The same outputs, with unrolled loops instead of vector loops.
    pub(crate) fn narrow(mut self) -> ThreadTile {
        self.columns.kind = LoopKind::Unrolled;
        self
    }

    pub(crate) fn row(&self) -> Affine {
        let m = self.rows.side;
        self.y.times(m.run).plus(&self.rows.spread(m.run * m.threads()))
    }

    pub(crate) fn column(&self) -> Affine {
        let n = self.columns.side;
        self.x.times(n.run).plus(&self.columns.spread(n.run * n.threads()))
    }

    pub(crate) fn rows(&self) -> OutputRun {
        self.rows
    }

    pub(crate) fn columns(&self) -> OutputRun {
        self.columns
    }

    /// The dimensions of an array with one element per output and thread.
    pub(crate) fn dims(&self) -> tnode::Dims {
        let runs = [self.rows, self.columns].into_iter().flat_map(|run| {
            let several = (run.side.runs > 1).then_some(run.side.runs);
            several.into_iter().chain([run.side.run])
        });
        self.threads.iter().map(|l| l.hi.limit).chain(runs).map(|d| d as usize).collect()
    }

    /// The index of an output in the array of accumulators.
    pub(crate) fn place(&self) -> Indices {
        let threads = self.threads.iter().map(|l| l.var);
        threads.chain(self.rows.vars()).chain(self.columns.vars()).map(Affine::var).collect()
    }

    /// The loops over a thread's outputs around a body.
    pub(crate) fn outputs(&self, body: Block) -> Block {
        self.rows.each(self.columns.each(body))
    }

    /// The loops over threads around a body.
    pub(crate) fn threads(&self, body: Block) -> Block {
        let around = |body, l: &Loop| vec![Stmt::looped(l.var, l.hi.limit, LoopKind::Workgroup, body)];
        self.threads.iter().rev().fold(body, around)
    }
}
