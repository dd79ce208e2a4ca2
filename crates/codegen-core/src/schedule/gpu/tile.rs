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

use lowered_ir::ir::{Affine, BinaryOp, Block, Expr, Indices, LocalId, LoopId, LoopKind, Space, Stmt, walk};
use smallvec::smallvec;
use tnode::{Dims, Scalar};

use super::super::access;
use super::super::contraction::multiply_add;
use super::super::nest::{self, Loop, Nest};
use super::super::numerics::mentions;
use super::chain::Reduction;
use super::pieces::{Piece, Shared, pieces};
use super::stages::GROUPS;
use super::{Gpu, parallel, threads};

/// Rows and columns of a tile, the largest first; the first with which there are tiles enough to fill a GPU is taken. 64 by 64 with 4 by 4
/// outputs for each of 256 threads reads each staged element 16 times, from half of the shared memory that WebGPU promises; smaller tiles
/// read more and wait less.
const TILES: [i64; 3] = [64, 32, 16];
/// Outputs of a thread in each direction at most: 16 accumulators and 8 operands stay in registers everywhere.
const EACH: i64 = 4;
/// Threads below which a tile leaves a processor's lanes idle.
const THREADS: i64 = 64;
/// Iterations of `k` that are staged at a time.
const DEPTH: i64 = 16;
/// Rows or columns below which there is nothing to share.
const WORTH_TILING: i64 = 4;
/// Elements of a wide load.
const QUAD: i64 = 4;

/// The contraction as kernels.
pub(super) fn distribute(gpu: &mut Gpu, nest: &Nest) -> Option<Block> {
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
    let (m, n) = product.sides(gpu)?;
    let mut tiler = Tiler { gpu, product: &product, m, n };
    let kernel = tiler.kernel()?;
    let rest = tiler.rest()?;
    Some((kernel, rest)).filter(|(kernel, _)| gpu.fits(kernel))
}

/// A contraction with the loops that a tile cuts.
struct Product {
    reduction: Reduction,
    /// The operand that mentions the rows.
    a: Expr,
    /// The operand that mentions the columns.
    b: Expr,
    /// Whether products are fused with their sums, and whether `a` is the first factor.
    fused: bool,
    a_first: bool,
    rows: Loop,
    columns: Loop,
    batch: Vec<Loop>,
}

/// Rows or columns as a tile has them.
#[derive(Clone, Copy)]
struct Side {
    var: LoopId,
    extent: i64,
    /// How many a tile has.
    tile: i64,
    /// How many of these a thread has.
    each: i64,
}

impl Side {
    fn of(l: Loop, target: i64) -> Side {
        let extent = l.hi.limit;
        let quads = |from: i64| (target / 2..=from).rev().find(|d| extent % d == 0 && d % QUAD == 0);
        let tile = match extent {
            ..=15 => extent,
            _ if extent <= target => extent / QUAD * QUAD,
            _ => quads(target).unwrap_or(target),
        };
        let each = [EACH, 2].into_iter().find(|each| tile % each == 0).unwrap_or(1);
        Side { var: l.var, extent, tile, each }
    }

    fn threads(&self) -> i64 {
        self.tile / self.each
    }

    fn tiles(&self) -> i64 {
        self.extent / self.tile
    }
}

impl Product {
    fn of(gpu: &Gpu, nest: &Nest) -> Option<Product> {
        let (outputs, rest) = gpu.independent(nest);
        let reduction = Reduction::of(nest, gpu).filter(|_| rest.is_empty())?;
        let (x, y, _, fused) = multiply_add(&reduction.chain.step)?;
        let alone = |l: &&Loop, x: &Expr, y: &Expr| mentions(x, l.var) && !mentions(y, l.var);
        let columns = outputs.iter().filter(|l| alone(l, x, y) || alone(l, y, x));
        let columns = *columns.max_by_key(|l| (nest::lane_score(&nest.body, l.var), l.hi.limit))?;
        let a_first = mentions(y, columns.var);
        let (a, b) = if a_first { (x, y) } else { (y, x) };
        let rows = *outputs.iter().filter(|l| alone(l, a, b)).max_by_key(|l| l.hi.limit)?;
        let batch = outputs.iter().copied().filter(|l| *l != rows && *l != columns).collect();
        let (a, b) = (a.clone(), b.clone());
        Some(Product { reduction, a, b, fused, a_first, rows, columns, batch })
    }

    /// The largest tiles of which there are enough, or the smallest ones.
    fn sides(&self, gpu: &Gpu) -> Option<(Side, Side)> {
        if self.rows.hi.limit < WORTH_TILING || self.columns.hi.limit < WORTH_TILING {
            return None;
        }
        let batch = self.batch.iter().filter_map(Loop::extent).fold(1, i64::saturating_mul);
        let sides =
            TILES.map(|target| with_threads(Side::of(self.rows, target), Side::of(self.columns, target)));
        let possible = |(m, n): &&(Side, Side)| {
            m.threads() * n.threads() <= gpu.width() && self.bytes(gpu, m, n) <= gpu.workgroups.memory_bytes
        };
        let enough = |(m, n): &&(Side, Side)| batch.saturating_mul(m.tiles() * n.tiles()) >= GROUPS;
        let possible: Vec<&(Side, Side)> = sides.iter().filter(possible).collect();
        possible.iter().copied().find(enough).or(possible.last().copied()).copied()
    }

    /// Shared memory of a tile.
    fn bytes(&self, gpu: &Gpu, m: &Side, n: &Side) -> usize {
        let of = |operand: &Expr, side: &Side| {
            (side.tile * DEPTH) as usize * operand.dtype(&gpu.names).size_bytes()
        };
        of(&self.a, m) + of(&self.b, n)
    }

    /// The loops over `k` that are outside of what is staged at a time, and those that are inside, of which the first may be cut.
    fn depths(&self) -> (&[Loop], &[Loop]) {
        let ks = &self.reduction.chain.ks;
        let mut at = ks.len() - 1;
        let mut size = ks[at].hi.limit;
        while at > 0 && size.saturating_mul(ks[at - 1].hi.limit) <= DEPTH {
            at -= 1;
            size *= ks[at].hi.limit;
        }
        ks.split_at(at)
    }

    /// Whether accumulators are zero before the first product, as locals are when declared.
    fn starts_from_zero(&self) -> bool {
        self.reduction.before.iter().all(|stmt| match stmt {
            Stmt::SetLocal { local, value, .. } if *local == self.reduction.chain.acc => {
                matches!(value, Expr::Const(x) if *x == Scalar::zero(x.dtype()))
            }
            _ => true,
        })
    }
}

/// Fewer outputs for each thread while a tile has few threads, rows before columns.
fn with_threads(mut m: Side, mut n: Side) -> (Side, Side) {
    while m.threads() * n.threads() < THREADS && m.each * n.each > 1 {
        let side = if m.each > 1 { &mut m } else { &mut n };
        side.each /= 2;
    }
    (m, n)
}

struct Tiler<'a> {
    gpu: &'a mut Gpu,
    product: &'a Product,
    m: Side,
    n: Side,
}

/// What a tile keeps.
#[derive(Clone, Copy)]
struct Arrays {
    /// The outputs of each thread.
    sums: LocalId,
    a: LocalId,
    b: LocalId,
}

/// Loops over the part of `k` that is staged: the product's loops, with the first from `from` on.
struct Staged {
    from: Affine,
    ks: Vec<Loop>,
}

impl Tiler<'_> {
    fn kernel(&mut self) -> Option<Block> {
        let (outer, inner) = self.product.depths();
        let depth = inner.first()?.hi.limit;
        let len = staged_length(depth, inner.len());
        let (arrays, mut body) = self.declare(inner, len);
        let (row, column) = (self.gpu.loop_of(self.m.tiles()), self.gpu.loop_of(self.n.tiles()));
        if !self.product.starts_from_zero() {
            body.extend(self.start(arrays));
        }
        let block = self.gpu.loop_of(depth / len);
        let mut steps = self.staged(arrays, inner, Affine::term(block.var, len), len);
        if depth / len > 1 {
            steps = nest::wrap(&[block], steps);
        } else {
            walk::substitute(&mut steps, block.var, &Affine::constant(0));
        }
        if depth % len > 0 {
            let from = Affine::constant(depth / len * len);
            steps.extend(self.staged(arrays, inner, from, depth % len));
        }
        body.extend(nest::wrap(outer, steps));
        body.extend(self.finish(arrays));
        for (side, tile) in [(self.m, row), (self.n, column)] {
            walk::substitute(&mut body, side.var, &Affine::term(tile.var, side.tile));
        }
        let loops: Vec<Loop> = self.product.batch.iter().copied().chain([row, column]).collect();
        Some(parallel(&loops, body))
    }

    fn declare(&mut self, inner: &[Loop], len: i64) -> (Arrays, Block) {
        let product = self.product;
        let (m, n) = (self.m, self.n);
        let names = &mut self.gpu.names;
        let own = [m.threads(), n.threads(), m.each, n.each].iter().map(|&d| d as usize).collect();
        let staged = |side: Side| -> Dims {
            let ks = inner.iter().enumerate().map(|(at, k)| if at == 0 { len } else { k.hi.limit });
            ks.chain([side.tile]).map(|d| d as usize).collect()
        };
        let (a, b) = (product.a.dtype(names), product.b.dtype(names));
        let (sums, declare_sums) = names.declare(product.reduction.chain.dtype, own, Space::Thread);
        let (a, declare_a) = names.declare(a, staged(m), Space::Workgroup);
        let (b, declare_b) = names.declare(b, staged(n), Space::Workgroup);
        (Arrays { sums, a, b }, vec![declare_sums, declare_a, declare_b])
    }

    /// Loads one part of `k` into shared memory, and adds its products to the sums.
    fn staged(&mut self, arrays: Arrays, inner: &[Loop], from: Affine, len: i64) -> Block {
        let ks =
            inner.iter().enumerate().map(|(at, k)| self.gpu.loop_of(if at == 0 { len } else { k.hi.limit }));
        let staged = Staged { from, ks: ks.collect() };
        let product = self.product;
        let mut block = self.load(&product.a, self.m, arrays.a, inner, &staged);
        block.extend(self.load(&product.b, self.n, arrays.b, inner, &staged));
        block.extend(self.multiply(arrays, &staged));
        block
    }

    /// Copies the elements of an operand; neighbouring threads copy neighbouring elements, four each where that is possible.
    fn load(&mut self, operand: &Expr, side: Side, array: LocalId, inner: &[Loop], staged: &Staged) -> Block {
        let names = &mut self.gpu.names;
        let mut value = operand.clone();
        for (at, (old, new)) in inner.iter().zip(&staged.ks).enumerate() {
            let mut index = Affine::var(new.var);
            if at == 0 {
                index = index.plus(&staged.from);
            }
            value = walk::map_expr_indices(value, &mut |i| i.substitute(old.var, &index));
        }
        let own = names.loop_id();
        // The side's variable is that of the tile's first row or column from here on.
        let moved = Affine::var(side.var).plus(&Affine::var(own));
        value = walk::map_expr_indices(value, &mut |i| i.substitute(side.var, &moved));
        let index: Indices = staged.ks.iter().map(|k| k.var).chain([own]).map(Affine::var).collect();
        let width = value.dtype(names).size_bytes();
        let store = vec![Stmt::SetLocal { local: array, index, value }];
        let mut loops = staged.ks.clone();
        loops.push(Loop { var: own, lo: 0, hi: side.tile.into() });
        self.copied(store, loops, width)
    }

    /// A copy of one element for each iteration of the loops.
    fn copied(&mut self, mut store: Block, mut loops: Vec<Loop>, width: usize) -> Block {
        let threads = self.m.threads() * self.n.threads();
        let score = |l: &&Loop| (reads_along(&store, l.var), l.hi.limit);
        let Some(lane) = loops.iter().max_by_key(score).copied() else { return store };
        loops.retain(|l| *l != lane);
        let mut shared = Shared { var: lane.var, extent: lane.hi.limit, threads: 1 };
        let wide = reads_along(&store, lane.var) > 0 && !access::has_no_lanes(&store, lane.var);
        if wide && lane.hi.limit % QUAD == 0 && width == 4 {
            let (quad, element) = (self.gpu.loop_of(lane.hi.limit / QUAD), self.gpu.names.loop_id());
            let index = Affine::term(quad.var, QUAD).plus(&Affine::var(element));
            walk::substitute(&mut store, lane.var, &index);
            store = vec![Stmt::looped(element, QUAD, LoopKind::Vector, store)];
            shared = Shared { var: quad.var, extent: quad.hi.limit, threads: 1 };
        }
        shared.threads = shared.extent.min(threads);
        let mut all = vec![shared];
        if let Some(longest) = loops.iter().max_by_key(|l| l.hi.limit).copied() {
            loops.retain(|l| *l != longest);
            let extent = longest.hi.limit;
            let threads = extent.min(threads / shared.threads);
            all.insert(0, Shared { var: longest.var, extent, threads });
        }
        let body = nest::wrap(&loops, store);
        let pieces = pieces(&all, &mut self.gpu.names);
        let on_threads = |piece: &Piece| {
            let block = piece.in_every_round(piece.renumbered(body.clone()));
            piece.on_threads(block, &mut self.gpu.names)
        };
        pieces.iter().flat_map(on_threads).collect()
    }

    /// Each thread's products of the part of `k` that is staged.
    fn multiply(&mut self, arrays: Arrays, staged: &Staged) -> Block {
        let (own, (m, n)) = (Own::of(self.gpu), (self.m, self.n));
        let at = |side: Affine| -> Indices {
            staged.ks.iter().map(|k| Affine::var(k.var)).chain([side]).collect()
        };
        let from_a = Expr::GetLocal { local: arrays.a, index: at(own.row(m)) };
        let from_b = Expr::GetLocal { local: arrays.b, index: at(own.column(n)) };
        let mut body = Block::new();
        let a = self.in_registers(from_a, (own.r, m.each, LoopKind::Unrolled), &mut body);
        let b = self.in_registers(from_b, (own.c, n.each, lanes(n)), &mut body);
        let (first, second) = if self.product.a_first { (a, b) } else { (b, a) };
        let sum = Expr::GetLocal { local: arrays.sums, index: own.place() };
        let value = match self.product.fused {
            true => Expr::fma(first, second, sum),
            false => Expr::binary(BinaryOp::Add, sum, Expr::binary(BinaryOp::Mul, first, second)),
        };
        let set = vec![Stmt::SetLocal { local: arrays.sums, index: own.place(), value }];
        body.extend(own.outputs(set, (m, n), lanes(n)));
        let products = nest::wrap(&staged.ks, body);
        self.gpu.names.refreshed(&own.threads(products, (m, n)))
    }

    /// Loads what a thread reuses.
    fn in_registers(
        &mut self,
        value: Expr,
        (var, each, kind): (LoopId, i64, LoopKind),
        out: &mut Block,
    ) -> Expr {
        let dtype = value.dtype(&self.gpu.names);
        let (local, declare) = self.gpu.names.declare(dtype, smallvec![each as usize], Space::Register);
        let set = Stmt::SetLocal { local, index: smallvec![Affine::var(var)], value };
        // The copy has a variable of its own: the outputs' loops have this one.
        let own = self.gpu.names.loop_id();
        let mut set = vec![set];
        walk::substitute(&mut set, var, &Affine::var(own));
        out.push(declare);
        out.push(Stmt::looped(own, each, kind, set));
        Expr::GetLocal { local, index: smallvec![Affine::var(var)] }
    }

    /// What was there before is where sums begin.
    fn start(&mut self, arrays: Arrays) -> Block {
        let acc = Expr::local(self.product.reduction.chain.acc);
        let mut body = self.product.reduction.before.clone();
        let own = Own::of(self.gpu);
        body.push(Stmt::SetLocal { local: arrays.sums, index: own.place(), value: acc });
        self.each_output(own, body)
    }

    /// What comes after, for each output.
    fn finish(&mut self, arrays: Arrays) -> Block {
        let own = Own::of(self.gpu);
        let reduction = &self.product.reduction;
        let mut body = reduction.before.clone();
        let sum = Expr::GetLocal { local: arrays.sums, index: own.place() };
        body.push(Stmt::set_scalar(reduction.chain.acc, sum));
        body.extend(reduction.after.iter().cloned());
        self.each_output(own, body)
    }

    fn each_output(&mut self, own: Own, mut body: Block) -> Block {
        let (m, n) = (self.m, self.n);
        let wide = nest::vector_width(&body, n.var, &self.gpu.names).is_some();
        let kind = if wide { lanes(n) } else { LoopKind::Unrolled };
        for (side, place) in [(m, own.row(m)), (n, own.column(n))] {
            walk::substitute(&mut body, side.var, &Affine::var(side.var).plus(&place));
        }
        let block = own.threads(own.outputs(body, (m, n), kind), (m, n));
        self.gpu.names.refreshed(&block)
    }

    /// The outputs beyond whole tiles: columns of all whole tiles' rows, and rows.
    fn rest(&mut self) -> Option<Vec<Nest>> {
        let (m, n) = (self.m, self.n);
        let (rows, columns) = (m.tiles() * m.tile, n.tiles() * n.tile);
        let mut nests = Vec::new();
        if columns < n.extent {
            nests.push(self.part((0, rows), (columns, n.extent - columns))?);
        }
        if rows < m.extent {
            nests.push(self.part((rows, m.extent - rows), (0, n.extent))?);
        }
        Some(nests)
    }

    /// The nest of some rows and columns: where they begin, and how many there are.
    fn part(&mut self, rows: (i64, i64), columns: (i64, i64)) -> Option<Nest> {
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

/// A thread's position in the tile, and the outputs it has.
#[derive(Clone, Copy)]
struct Own {
    y: LoopId,
    x: LoopId,
    r: LoopId,
    c: LoopId,
}

impl Own {
    fn of(gpu: &mut Gpu) -> Own {
        let mut new = || gpu.names.loop_id();
        Own { y: new(), x: new(), r: new(), c: new() }
    }

    fn row(&self, m: Side) -> Affine {
        Affine::term(self.y, m.each).plus(&Affine::var(self.r))
    }

    fn column(&self, n: Side) -> Affine {
        Affine::term(self.x, n.each).plus(&Affine::var(self.c))
    }

    /// The place of an output among the sums.
    fn place(&self) -> Indices {
        [self.y, self.x, self.r, self.c].into_iter().map(Affine::var).collect()
    }

    fn outputs(&self, body: Block, (m, n): (Side, Side), kind: LoopKind) -> Block {
        let columns = Stmt::looped(self.c, n.each, kind, body);
        vec![Stmt::looped(self.r, m.each, LoopKind::Unrolled, vec![columns])]
    }

    fn threads(&self, body: Block, (m, n): (Side, Side)) -> Block {
        let columns = Stmt::looped(self.x, n.threads(), LoopKind::Workgroup, body);
        vec![Stmt::looped(self.y, m.threads(), LoopKind::Workgroup, vec![columns])]
    }
}

/// How a thread goes over its columns: four at once, if it has four.
fn lanes(n: Side) -> LoopKind {
    if n.each == QUAD { LoopKind::Vector } else { LoopKind::Unrolled }
}

/// How many reads a loop moves by one element, less those it moves otherwise.
fn reads_along(store: &[Stmt], var: LoopId) -> i64 {
    nest::lane_score(store, var)
}

/// How many iterations of a loop over `k` are staged at a time, of those that are cut; several loops are staged whole.
fn staged_length(extent: i64, loops: usize) -> i64 {
    if loops > 1 || extent <= DEPTH {
        return extent;
    }
    (DEPTH / 2..=DEPTH).rev().find(|len| extent % len == 0 && len % QUAD == 0).unwrap_or(DEPTH)
}
