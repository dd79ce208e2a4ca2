//! Split reductions: a long reduction with few outputs runs in two passes, so that it fills a GPU.
//!
//! `T := T op (elements 0..n)` becomes `part[g] := elements g·l .. (g+1)·l` for all chunks `g` in parallel,
//! where `part` is a local node, followed by `T := T op (part[0], part[1], …)`. Both passes are mapped like
//! any other reduction.

use lowered_ir::ir::{Affine, Expr, Indices, NodeRef, Space, Stmt, walk};
use smallvec::smallvec;
use tnode::DType;

use crate::analysis::nest::{self, Loop, Nest};
use crate::analysis::reduction::{combined, nonzero_neutral};
use crate::gpu::accumulation::Reduction;
use crate::gpu::column_reduction::{COLUMNS, column};
use crate::gpu::context::{FULL_GPU_THREADS, Gpu};
use crate::gpu::vector_access;

/// Workgroups that fill a GPU.
pub(crate) const FULL_GPU_WORKGROUPS: i64 = 64;
/// Elements that a workgroup reduces: a few loads per thread.
const CHUNK: i64 = 4096;
/// Rows of a chunk if threads use vectorized accesses along the columns.
const ROWS: i64 = 32;
/// The most chunks. The second pass reduces this many partial results in one step.
const CHUNKS: i64 = 256;

/// Splits a nest into the two passes, if its outputs are few and the reduction is long.
pub(crate) fn split(gpu: &mut Gpu, nest: &Nest) -> Option<Vec<Nest>> {
    let (outputs, rest) = gpu.independent(nest);
    let reduction = Reduction::of(nest, gpu).filter(|_| gpu.fast && rest.is_empty())?;
    let lane = column(&outputs, &reduction, &gpu.names);
    let beside = lane.is_some();
    let count = outputs.iter().filter_map(Loop::extent).fold(1, i64::saturating_mul);
    let groups = if beside { (count / COLUMNS).max(1) } else { count };
    let len = reduction.chain.len();
    let each = match &lane {
        None => CHUNK,
        Some(lane) if takes_runs(gpu, &reduction, lane, count * (len / ROWS).min(CHUNKS)) => ROWS,
        Some(_) => CHUNK / COLUMNS,
    };
    let chunks = (len / each).min(CHUNKS).min(CHUNKS * FULL_GPU_WORKGROUPS / groups);
    if groups >= FULL_GPU_WORKGROUPS {
        return None;
    }
    stages(gpu, &reduction, &outputs, chunks, beside)
}

/// What a split of a contraction saves and costs, measured by terms of its sums.
pub(crate) struct SplitCosts {
    /// Workgroups, or threads, that fill a GPU.
    enough: i64,
    /// Terms that take as long as another launch.
    launch: i64,
    /// Partial results that a GPU stores and reads again in the time of a term.
    results: i64,
    /// The fewest terms of a partial result.
    terms: i64,
}

/// Threads that have an SM for themselves wait for every block of terms, so that a sum takes about 25 ns for
/// each of its terms, whatever a thread does with it. Two workgroups of 256 fill each SM of a large GPU.
pub(crate) const OF_THREADS: SplitCosts =
    SplitCosts { enough: 4 * FULL_GPU_THREADS, launch: 128, results: 1 << 13, terms: 128 };
/// The tensor cores of an SM take about 4 ns for a term of a tile of 128 by 128 outputs.
pub(crate) const OF_TILES: SplitCosts =
    SplitCosts { enough: 2 * FULL_GPU_WORKGROUPS, launch: 768, results: 1 << 11, terms: 512 };

/// Splits a contraction into the two passes, if the `threads` that would compute its outputs, or the tiles,
/// leave much of a GPU idle and its sums are long. The first pass is a contraction too.
pub(crate) fn split_contraction(
    gpu: &mut Gpu,
    nest: &Nest,
    threads: i64,
    costs: &SplitCosts,
) -> Option<Vec<Nest>> {
    let (outputs, _) = gpu.independent(nest);
    let reduction = Reduction::of(nest, gpu).filter(|_| gpu.fast)?;
    let count = outputs.iter().filter_map(Loop::extent).fold(1, i64::saturating_mul);
    let len = reduction.chain.len();
    let chunks = (costs.enough / threads.max(1)).min(len / costs.terms).min(CHUNKS);
    let saved = len - len / chunks.max(1);
    if saved <= costs.launch + count.saturating_mul(chunks) / costs.results {
        return None;
    }
    stages(gpu, &reduction, &outputs, chunks, true)
}

fn stages(
    gpu: &mut Gpu,
    reduction: &Reduction,
    outputs: &[Loop],
    chunks: i64,
    beside: bool,
) -> Option<Vec<Nest>> {
    let (whole, k, chunks) = cut(&reduction.chain.ks, chunks)?;
    let mut split = Split { gpu, reduction, outputs, whole, beside };
    Some(split.stages(&k, k.extent()?, chunks))
}

/// The loops whose iterations are chunks each, the loop inside of them that is cut, and its number of chunks;
/// for at least two chunks in all.
pub(crate) fn cut(ks: &[Loop], chunks: i64) -> Option<(Vec<Loop>, Loop, i64)> {
    let (mut whole, mut left) = (Vec::new(), chunks);
    for k in ks {
        let extent = k.extent()?;
        if left < 2 {
            break;
        }
        if 2 * extent > left {
            return Some((whole, k.clone(), left.min(extent)));
        }
        whole.push(k.clone());
        left /= extent;
    }
    let last = whole.pop()?;
    let extent = last.extent()?;
    (chunks >= 2).then_some((whole, last, extent))
}

/// Whether there are enough partial results to fill a GPU with vectorized accesses along the columns.
fn takes_runs(gpu: &Gpu, reduction: &Reduction, lane: &Loop, results: i64) -> bool {
    let elements = reduction.chain.as_block();
    let sizes = vector_access::sizes(gpu, &elements, |index| index.mentions(lane.var));
    vector_access::length(gpu, &sizes, DType::F32.size_bytes()).is_some_and(|run| {
        let whole = lane.extent().is_some_and(|extent| extent % run == 0);
        whole && results >= FULL_GPU_THREADS * run && vector_access::is_wide(gpu, &elements, lane.var, run)
    })
}

/// Consecutive chunks of one length.
struct Chunks {
    /// The number of the first chunk.
    number: i64,
    /// The first element of the first chunk.
    start: i64,
    len: i64,
    count: i64,
}

struct Split<'a> {
    gpu: &'a mut Gpu,
    reduction: &'a Reduction,
    outputs: &'a [Loop],
    /// The loops around the one that is cut: each of their iterations has its own chunks.
    whole: Vec<Loop>,
    /// Whether outputs, rather than chunks, are contiguous in the array of partial results.
    beside: bool,
}

impl Split<'_> {
    fn stages(&mut self, k: &Loop, extent: i64, chunks: i64) -> Vec<Nest> {
        let len = chunk_length(extent, chunks);
        let (even, rest) = (extent / len, extent % len);
        let all = even + i64::from(rest > 0);
        let outer: i64 = self.whole.iter().map(|l| l.hi.limit).product();
        let part = self.part(outer * all);
        let mut nests = vec![self.first(k, part, all, Chunks { number: 0, start: 0, len, count: even })];
        if rest > 0 {
            let last = Chunks { number: even, start: even * len, len: rest, count: 1 };
            nests.push(self.first(k, part, all, last));
        }
        nests.push(self.second(part, outer * all));
        nests.into_iter().flatten().collect()
    }

    /// Adds the array of partial results: one element per output and chunk.
    fn part(&mut self, chunks: i64) -> NodeRef {
        let outputs = self.outputs.iter().map(|l| l.hi.limit as usize);
        let mut dims: tnode::Dims = outputs.collect();
        dims.insert(if self.beside { 0 } else { dims.len() }, chunks as usize);
        self.gpu.node(self.reduction.chain.dtype, dims)
    }

    fn place(&self, chunk: Affine) -> Indices {
        let mut index: Indices = self.outputs.iter().map(|l| Affine::var(l.var)).collect();
        index.insert(if self.beside { 0 } else { index.len() }, chunk);
        index
    }

    /// The first pass for some of the `all` chunks of the loop over `k`.
    fn first(&mut self, k: &Loop, part: NodeRef, all: i64, chunks: Chunks) -> Option<Nest> {
        let chain = &self.reduction.chain;
        let chunk = self.gpu.loop_of(chunks.count);
        let (acc, declare) = self.gpu.names.declare(chain.dtype, smallvec![], Space::Register);
        let mut body = self.reduction.context();
        body.push(declare);
        body.extend(nonzero_neutral(chain.op, chain.dtype).map(|start| Stmt::set_scalar(acc, start)));
        let in_chunk = |l: &Loop| if l == k { Loop { hi: chunks.len.into(), ..*k } } else { l.clone() };
        let ks: Vec<Loop> = chain.ks.iter().filter(|l| !self.whole.contains(l)).map(in_chunk).collect();
        let mut step = vec![chain.step_into(acc, &Indices::new())];
        let start = Affine::term(chunk.var, chunks.len).plus_constant(chunks.start);
        walk::substitute(&mut step, k.var, &start.plus(&Affine::var(k.var)));
        body.extend(nest::wrap(&ks, step));
        let outer = self
            .whole
            .iter()
            .fold(Affine::constant(0), |number, l| number.times(l.hi.limit).plus(&Affine::var(l.var)));
        let number = outer.times(all).plus(&Affine::var(chunk.var)).plus_constant(chunks.number);
        let index = self.place(number);
        body.push(Stmt::Set { node: part, index, value: Expr::local(acc) });
        let around = self.outputs.iter().chain(&self.whole).cloned();
        let loops: Vec<Loop> = around.chain([chunk]).collect();
        self.gpu.renamed(&loops, body)
    }

    /// The second pass: reduces partial results, between the statements that surround the original reduction.
    fn second(&mut self, part: NodeRef, chunks: i64) -> Option<Nest> {
        let chain = &self.reduction.chain;
        let chunk = self.gpu.loop_of(chunks);
        let value = Expr::Get { node: part, index: self.place(Affine::var(chunk.var)) };
        let step = Stmt::set_scalar(chain.acc, combined(chain.op, Expr::local(chain.acc), value));
        let mut body = self.reduction.before.clone();
        body.extend(nest::wrap(&[chunk], vec![step]));
        body.extend(self.reduction.after.iter().cloned());
        self.gpu.renamed(self.outputs, body)
    }
}

/// A chunk length that gives about `chunks` chunks and, if possible, divides the extent.
pub(crate) fn chunk_length(extent: i64, chunks: i64) -> i64 {
    let len = extent.div_euclid(chunks).max(1);
    (len..2 * len).find(|len| extent % len == 0).unwrap_or(len)
}
