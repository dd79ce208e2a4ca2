//! Which thread has which outputs of a tile.

use lowered_ir::ir::{Affine, Block, Indices, LoopId, LoopKind, Stmt};

use crate::analysis::nest::Loop;
use crate::gpu::tile::shape::{Side, Tile};
use crate::gpu::{Gpu, QUAD};

/// How many threads that run in step lie beside each other: together they read 128 bytes of a row, which is all banks once.
const BESIDE: i64 = 8;

/// A thread's position in the tile, and the outputs it has.
///
/// Threads that run in step are a block of the tile, not a row: so what they read is fewer different elements.
pub(crate) struct Own {
    /// Workgroup loops, the first outermost.
    threads: Vec<Loop>,
    y: Affine,
    x: Affine,
    rows: Run,
    columns: Run,
}

/// The rows or the columns of a thread.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    side: Side,
    /// Which run of neighbours, where there are several.
    nth: LoopId,
    /// Which neighbour.
    at: LoopId,
    /// How the thread goes over neighbours.
    kind: LoopKind,
}

impl Run {
    fn of(gpu: &mut Gpu, side: Side, kind: LoopKind) -> Run {
        Run { side, nth: gpu.names.loop_id(), at: gpu.names.loop_id(), kind }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.side.each() as usize
    }

    /// The number of the row or column among those of the thread.
    pub(crate) fn number(&self) -> Affine {
        self.spread(self.side.run)
    }

    /// As [`number`](Run::number), where runs lie so far apart.
    fn spread(&self, apart: i64) -> Affine {
        let at = Affine::var(self.at);
        if self.side.runs == 1 { at } else { at.plus(&Affine::term(self.nth, apart)) }
    }

    fn vars(&self) -> impl Iterator<Item = LoopId> {
        let nth = (self.side.runs > 1).then_some(self.nth);
        nth.into_iter().chain([self.at])
    }

    /// The loops over a thread's rows or columns.
    pub(crate) fn each(&self, body: Block) -> Block {
        let neighbours = vec![Stmt::looped(self.at, self.side.run, self.kind, body)];
        match self.side.runs {
            1 => neighbours,
            runs => vec![Stmt::looped(self.nth, runs, LoopKind::Unrolled, neighbours)],
        }
    }
}

impl Own {
    pub(crate) fn of(gpu: &mut Gpu, tile: &Tile) -> Own {
        let (m, n) = (tile.m, tile.n);
        let mut threads = Vec::new();
        let mut outer = |gpu: &mut Gpu, extent: i64| {
            threads.push(gpu.loop_of(extent));
            threads.len() - 1
        };
        let above = i64::from(gpu.workgroups.lanes) / BESIDE;
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
        let (rows, columns) = (Run::of(gpu, m, LoopKind::Unrolled), Run::of(gpu, n, kind));
        Own { threads, y, x, rows, columns }
    }

    /// The same without lanes.
    pub(crate) fn narrow(mut self) -> Own {
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

    pub(crate) fn rows(&self) -> Run {
        self.rows
    }

    pub(crate) fn columns(&self) -> Run {
        self.columns
    }

    /// The dimensions of an array with a place for each output of each thread.
    pub(crate) fn dims(&self) -> tnode::Dims {
        let runs = [self.rows, self.columns].into_iter().flat_map(|run| {
            let several = (run.side.runs > 1).then_some(run.side.runs);
            several.into_iter().chain([run.side.run])
        });
        self.threads.iter().map(|l| l.hi.limit).chain(runs).map(|d| d as usize).collect()
    }

    /// The place of an output among the sums.
    pub(crate) fn place(&self) -> Indices {
        let threads = self.threads.iter().map(|l| l.var);
        threads.chain(self.rows.vars()).chain(self.columns.vars()).map(Affine::var).collect()
    }

    /// The loops over a thread's outputs.
    pub(crate) fn outputs(&self, body: Block) -> Block {
        self.rows.each(self.columns.each(body))
    }

    /// The threads around a block.
    pub(crate) fn threads(&self, body: Block) -> Block {
        let around = |body, l: &Loop| vec![Stmt::looped(l.var, l.hi.limit, LoopKind::Workgroup, body)];
        self.threads.iter().rev().fold(body, around)
    }
}
