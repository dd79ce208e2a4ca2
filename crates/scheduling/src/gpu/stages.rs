//! Long reductions with few outputs in two stages, so that they fill a GPU.
//!
//! `T := T op (elements of 0..n)` becomes `part[g] := elements of g·l .. (g+1)·l` for all chunks `g` at once, with `part` a node that lives
//! for the run, and then `T := T op (part[0], part[1], …)`. Both are reductions like any other.

use lowered_ir::ir::{Affine, Expr, Indices, NodeRef, Space, Stmt, walk};
use smallvec::smallvec;
use tnode::DType;

use crate::analysis::nest::{self, Loop, Nest};
use crate::gpu::chain::Reduction;
use crate::gpu::columns::{COLUMNS, column};
use crate::gpu::{FILLED, Gpu, runs};
use crate::numerics::{combined, nonzero_neutral};

/// Workgroups that fill a GPU.
pub(crate) const GROUPS: i64 = 64;
/// Elements that a workgroup reduces at a time: a few loads for each of its threads.
const CHUNK: i64 = 4096;
/// Rows of a chunk where threads take runs of columns.
const ROWS: i64 = 32;
/// Chunks at most: few enough for the second stage to be one round of threads.
const CHUNKS: i64 = 256;

/// The nests of both stages, if the outputs are few and the reduction is long.
pub(crate) fn split(gpu: &mut Gpu, nest: &Nest) -> Option<Vec<Nest>> {
    let (outputs, rest) = gpu.independent(nest);
    let reduction = Reduction::of(nest, gpu).filter(|_| gpu.fast && rest.is_empty())?;
    let lane = column(&outputs, &reduction);
    let beside = lane.is_some();
    let count = outputs.iter().filter_map(Loop::extent).fold(1, i64::saturating_mul);
    let groups = if beside { (count / COLUMNS).max(1) } else { count };
    let len = reduction.chain.len();
    let each = match lane {
        None => CHUNK,
        Some(lane) if takes_runs(gpu, &reduction, lane, count * (len / ROWS).min(CHUNKS)) => ROWS,
        Some(_) => CHUNK / COLUMNS,
    };
    let chunks = (len / each).min(CHUNKS).min(CHUNKS * GROUPS / groups);
    let k = reduction.chain.ks.iter().copied().find(|k| k.hi.limit >= chunks)?;
    if groups >= GROUPS || chunks < 2 {
        return None;
    }
    let mut split = Split { gpu, reduction: &reduction, outputs: &outputs, beside };
    Some(split.stages(k, k.extent()?, chunks))
}

/// Whether so many partial results, each the work of some threads' run of columns, fill a GPU.
fn takes_runs(gpu: &Gpu, reduction: &Reduction, lane: Loop, results: i64) -> bool {
    let elements = reduction.chain.as_block();
    let sizes = runs::sizes(gpu, &elements, |index| index.mentions(lane.var));
    runs::length(gpu, &sizes, DType::F32.size_bytes()).is_some_and(|run| {
        let whole = lane.extent().is_some_and(|extent| extent % run == 0);
        whole && results >= FILLED * run && runs::is_wide(gpu, &elements, lane.var, run)
    })
}

/// Neighbouring chunks of one length.
struct Chunks {
    /// The number of the first.
    number: i64,
    /// Its first element.
    start: i64,
    len: i64,
    count: i64,
}

struct Split<'a> {
    gpu: &'a mut Gpu,
    reduction: &'a Reduction,
    outputs: &'a [Loop],
    /// Whether outputs lie beside each other in the partial results, rather than chunks.
    beside: bool,
}

impl Split<'_> {
    fn stages(&mut self, k: Loop, extent: i64, chunks: i64) -> Vec<Nest> {
        let len = chunk_length(extent, chunks);
        let (whole, rest) = (extent / len, extent % len);
        let part = self.part(whole + i64::from(rest > 0));
        let mut nests = vec![self.first(k, part, Chunks { number: 0, start: 0, len, count: whole })];
        if rest > 0 {
            let last = Chunks { number: whole, start: whole * len, len: rest, count: 1 };
            nests.push(self.first(k, part, last));
        }
        nests.push(self.second(part, whole + i64::from(rest > 0)));
        nests.into_iter().flatten().collect()
    }

    /// A node with a place for every output and chunk.
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

    /// Reduces some chunks of the loop over `k`.
    fn first(&mut self, k: Loop, part: NodeRef, chunks: Chunks) -> Option<Nest> {
        let chain = &self.reduction.chain;
        let chunk = self.gpu.loop_of(chunks.count);
        let (acc, declare) = self.gpu.names.declare(chain.dtype, smallvec![], Space::Register);
        let mut body = self.reduction.context();
        body.push(declare);
        body.extend(nonzero_neutral(chain.op, chain.dtype).map(|start| Stmt::set_scalar(acc, start)));
        let in_chunk = |l: &Loop| if *l == k { Loop { hi: chunks.len.into(), ..k } } else { *l };
        let ks: Vec<Loop> = chain.ks.iter().map(in_chunk).collect();
        let mut step = vec![chain.step_into(acc, &Indices::new())];
        let start = Affine::term(chunk.var, chunks.len).plus_constant(chunks.start);
        walk::substitute(&mut step, k.var, &start.plus(&Affine::var(k.var)));
        body.extend(nest::wrap(&ks, step));
        let index = self.place(Affine::var(chunk.var).plus_constant(chunks.number));
        body.push(Stmt::Set { node: part, index, value: Expr::local(acc) });
        let loops: Vec<Loop> = self.outputs.iter().copied().chain([chunk]).collect();
        self.gpu.renamed(&loops, body)
    }

    /// Reduces the results of the chunks, and does what comes before and after.
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

/// The length of chunks, of which `chunks` or somewhat more or fewer are whole: one that divides the extent, if there is one near.
fn chunk_length(extent: i64, chunks: i64) -> i64 {
    let len = extent.div_euclid(chunks).max(1);
    (len..2 * len).find(|len| extent % len == 0).unwrap_or(len)
}
