//! Transposes through shared memory: nests that read along one axis and write along another, such as `y[j, i]
//! := x[i, j]`.
//!
//! ```text
//! parallel (others…, tile of i, tile of j) {
//!   shared[i, j] := x[i, j]                     ; all threads, contiguous along j
//!   each thread: y[j, i] := f(shared[i, j])     ; contiguous along i
//! }
//! ```
//!
//! With one thread per output, neighboring threads read elements of different rows, one sector of memory
//! each. Here both accesses are coalesced. Rows of the shared array are padded by one element, so that a
//! column of 4-byte elements has no bank conflicts, and a column of 2-byte elements two-way conflicts at
//! most. Outputs beyond whole tiles have one thread each. Iterations are independent, so no bit changes.

use lowered_ir::ir::{Affine, Block, Expr, Indices, LocalId, LoopKind, NodeRef, Space, Stmt, Types, walk};
use smallvec::smallvec;
use tnode::DType;

use crate::analysis::nest::{self, Loop, Nest};
use crate::gpu::context::{FULL_GPU_THREADS, Gpu, QUAD, parallel};
use crate::gpu::shared_copy::SharedCopy;
use crate::gpu::work_distribution::{LoopShare, SharedLoop, distribute_loops};
use crate::gpu::{thread_per_output, vector_access};

/// Rows and columns of a tile.
const SIDE: i64 = 32;
/// Bytes of the largest elements that shared memory stages.
const MOST_BYTES: usize = 8;

/// Maps a nest to kernels, if it transposes and is large enough.
pub(crate) fn distribute(gpu: &mut Gpu, nest: &Nest) -> Option<Block> {
    let transposed = TransposedNest::of(gpu, nest)?;
    let mut kernels = transposed.kernel(gpu);
    let rest = transposed.rest(gpu)?;
    if !gpu.fits(&kernels) {
        return None;
    }
    for nest in rest {
        kernels.extend(thread_per_output::distribute(gpu, &nest)?);
    }
    Some(kernels)
}

/// A nest whose reads and writes are contiguous along different loops.
struct TransposedNest<'a> {
    nest: &'a Nest,
    /// The loop along which stores are contiguous.
    lane: Loop,
    /// The loop along which loads are contiguous.
    across: Loop,
    others: Vec<Loop>,
    /// The loads that are contiguous along `across`.
    reads: Vec<Expr>,
}

impl<'a> TransposedNest<'a> {
    fn of(gpu: &Gpu, nest: &'a Nest) -> Option<TransposedNest<'a>> {
        let (free, dependent) = gpu.independent(nest);
        let lane = free.iter().cloned().max_by_key(|l| nest::lane_score(&nest.body, l.var, &gpu.names))?;
        let is_stored = |stmt: &Stmt| matches!(stmt, Stmt::Set { index, .. } if runs_along(index, &lane));
        let is_plain = |stmt: &Stmt| matches!(stmt, Stmt::Comment(_)) || is_stored(stmt);
        if !dependent.is_empty() || !nest.body.iter().all(is_plain) {
            return None;
        }
        let (across, reads) = transposed_loads(gpu, nest, &lane, &free)?;
        let others = free.into_iter().filter(|l| *l != lane && *l != across).collect();
        let transposed = TransposedNest { nest, lane, across, others, reads };
        transposed.is_worth(gpu).then_some(transposed)
    }

    /// Whether the tiles fill a GPU.
    fn is_worth(&self, gpu: &Gpu) -> bool {
        let others = self.others.iter().filter_map(Loop::extent).product::<i64>();
        let [rows, columns] = self.tiles();
        others.saturating_mul(rows).saturating_mul(columns).saturating_mul(gpu.width()) >= FULL_GPU_THREADS
    }

    /// The number of whole tiles along `across` and along `lane`.
    fn tiles(&self) -> [i64; 2] {
        [&self.across, &self.lane].map(|l| l.hi.limit / SIDE)
    }

    /// The kernel of the whole tiles.
    fn kernel(&self, gpu: &mut Gpu) -> Block {
        let [row, column] = self.tiles().map(|tiles| gpu.loop_of(tiles));
        let own = [gpu.loop_of(SIDE), gpu.loop_of(SIDE)];
        let (mut body, mut load) = (Block::new(), Block::new());
        let mut store = self.nest.body.clone();
        for read in &self.reads {
            let (array, declare) = self.staged(gpu, read, &mut load);
            body.push(declare);
            let index = own.iter().map(|l| Affine::var(l.var)).collect();
            let staged = Expr::GetLocal { local: array, index };
            let replaced = &mut |e| if e == *read { staged.clone() } else { e };
            walk::map_parts(&mut store, replaced);
        }
        let is_wide = self.has_runs(gpu, &store);
        for (l, place) in self.places(&own) {
            walk::substitute(&mut store, l.var, &place);
        }
        body.extend(load);
        body.extend(on_threads(gpu, own, is_wide, store));
        // Until here the two variables stood for the first row and column of a tile.
        for (l, tile) in [(&self.across, &row), (&self.lane, &column)] {
            walk::substitute(&mut body, l.var, &Affine::term(tile.var, SIDE));
        }
        let loops: Vec<Loop> = self.others.iter().cloned().chain([row, column]).collect();
        parallel(&loops, body)
    }

    /// Whether a thread stores four elements at once. It loads them from four rows of shared memory, which
    /// are in different banks if elements have 4 bytes.
    fn has_runs(&self, gpu: &Gpu, store: &[Stmt]) -> bool {
        let bytes = DType::F32.size_bytes();
        self.reads.iter().all(|read| read.dtype(&gpu.names).size_bytes() == bytes)
            && nest::vector_width(store, self.lane.var, &gpu.names) == Some(bytes)
            && vector_access::is_straight(store)
            && vector_access::is_wide(gpu, store, self.lane.var, QUAD)
    }

    /// The loops' indices within a tile, relative to its first column and row.
    fn places(&self, own: &[Loop; 2]) -> [(&Loop, Affine); 2] {
        let [lane, across] = own.each_ref().map(|own| Affine::var(own.var));
        [(&self.lane, lane), (&self.across, across)].map(|(l, own)| (l, Affine::var(l.var).plus(&own)))
    }

    /// Copies a tile of a load into a shared array, whose rows are contiguous along `across`. Returns the
    /// array and its declaration.
    fn staged(&self, gpu: &mut Gpu, read: &Expr, load: &mut Block) -> (LocalId, Stmt) {
        let dims = smallvec![SIDE as usize, SIDE as usize + 1];
        let dtype = read.dtype(&gpu.names);
        let (array, declare) = gpu.names.declare(dtype, dims, Space::Workgroup);
        let own = [gpu.loop_of(SIDE), gpu.loop_of(SIDE)];
        let value = self.places(&own).into_iter().fold(read.clone(), |value, (l, place)| {
            walk::map_expr_indices(value, &mut |i| i.substitute(l.var, &place))
        });
        let threads = gpu.width();
        let [rows, columns] = own;
        let transfer = SharedCopy::of(gpu, value, vec![rows], columns, threads);
        load.extend(transfer.load(array, &mut gpu.names));
        (array, declare)
    }

    /// The outputs beyond whole tiles: columns beside them, and rows below.
    fn rest(&self, gpu: &mut Gpu) -> Option<Vec<Nest>> {
        let [rows, columns] = self.tiles().map(|tiles| tiles * SIDE);
        let (all_rows, all_columns) = (self.across.hi.limit, self.lane.hi.limit);
        let mut nests = Vec::new();
        if columns < all_columns {
            nests.push(self.beyond(gpu, (0, rows), (columns, all_columns - columns))?);
        }
        if rows < all_rows {
            nests.push(self.beyond(gpu, (rows, all_rows - rows), (0, all_columns))?);
        }
        Some(nests)
    }

    /// The nest of some rows and columns, each given by the first one and the count.
    fn beyond(&self, gpu: &mut Gpu, rows: (i64, i64), columns: (i64, i64)) -> Option<Nest> {
        let (mut loops, mut body) = (self.others.clone(), self.nest.body.clone());
        for (l, (from, extent)) in [(&self.across, rows), (&self.lane, columns)] {
            walk::substitute(&mut body, l.var, &Affine::var(l.var).plus_constant(from));
            loops.push(Loop { hi: extent.into(), ..*l });
        }
        gpu.renamed(&loops, body)
    }
}

/// Distributes a tile over threads: contiguous along the stores, four elements per thread if possible.
fn on_threads(gpu: &mut Gpu, [lane, across]: [Loop; 2], is_wide: bool, mut body: Block) -> Block {
    let mut columns = SharedLoop::one_by_one(lane.var, SIDE, SIDE);
    if is_wide {
        let (quad, element) = (gpu.names.loop_id(), gpu.names.loop_id());
        walk::substitute(&mut body, lane.var, &Affine::term(quad, QUAD).plus(&Affine::var(element)));
        body = vec![Stmt::looped(element, QUAD, LoopKind::Vector, body)];
        columns = SharedLoop::one_by_one(quad, SIDE / QUAD, SIDE / QUAD);
    }
    columns.threads = columns.threads.min(gpu.width());
    let rows = SharedLoop::one_by_one(across.var, SIDE, SIDE.min(gpu.width() / columns.threads));
    let shares = distribute_loops(&[rows, columns], &mut gpu.names);
    let on_threads = |share: &LoopShare| {
        let block = share.in_every_step(share.renumbered(body.clone()), LoopKind::Serial);
        share.on_threads(block, &mut gpu.names)
    };
    shares.iter().flat_map(on_threads).collect()
}

/// The loads that are contiguous along another loop than the stores, and that loop; none if there are several
/// such loops, or if shared memory does not stage elements of their size.
fn transposed_loads(gpu: &Gpu, nest: &Nest, lane: &Loop, free: &[Loop]) -> Option<(Loop, Vec<Expr>)> {
    let has_size = |node: NodeRef| {
        (gpu.workgroups.element_bytes..=MOST_BYTES).contains(&gpu.names.node(node).size_bytes())
    };
    let (mut found, mut reads, mut suits) = (Vec::new(), Vec::new(), true);
    walk::parts_in(&nest.body).for_each(|e| {
        let Expr::Get { node, index } = e else { return };
        let across = free.iter().find(|l| runs_along(index, l) && strides_along(index, lane));
        if let Some(across) = across.filter(|_| !reads.contains(e)) {
            suits &= has_size(*node);
            reads.push(e.clone());
            found.push(across);
        }
    });
    let across = *found.first()?;
    (suits && found.iter().all(|l| *l == across)).then(|| (across.clone(), reads))
}

/// Whether consecutive iterations of a loop access contiguous elements.
fn runs_along(index: &Indices, l: &Loop) -> bool {
    let Some((last, outer)) = index.split_last() else { return false };
    last.coefficient(l.var) == 1 && !outer.iter().any(|i| i.mentions(l.var))
}

/// Whether consecutive iterations of a loop access different rows.
fn strides_along(index: &Indices, l: &Loop) -> bool {
    let Some((last, outer)) = index.split_last() else { return false };
    !last.mentions(l.var) && outer.iter().any(|i| i.mentions(l.var))
}
