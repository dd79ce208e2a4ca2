//! Reductions along an axis that is not the contiguous one: neighboring threads compute neighboring
//! outputs.
//!
//! A workgroup computes [`COLUMNS`] neighboring outputs. Several threads share the longest reduction loop of
//! each output, and a [`TreeReduction`] combines their partial results. If there are enough outputs to fill a
//! GPU, one thread per output is as fast and needs no tree.

use lowered_ir::ir::{Affine, Block, LocalId};

use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop, Nest};
use crate::gpu::accumulation::Reduction;
use crate::gpu::context::power_of_two;
use crate::gpu::context::{FULL_GPU_THREADS, Gpu, element_of, parallel};
use crate::gpu::phases::SharedPass;
use crate::gpu::tree_reduction::TreeReduction;
use crate::gpu::work_distribution::{SharedLoop, distribute_loops};

/// Outputs of a workgroup. One row of their elements is a coalesced access.
pub(crate) const COLUMNS: i64 = 32;
/// The least number of elements per output that several threads share.
const WORTH_SHARING: i64 = 8;

/// Maps a nest to one kernel for whole blocks of columns and one for the remaining columns.
pub(crate) fn distribute(gpu: &mut Gpu, nest: &Nest) -> Option<Block> {
    let (outputs, rest) = gpu.independent(nest);
    let reduction = Reduction::of(nest, gpu).filter(|_| gpu.fast && rest.is_empty())?;
    let lane = column(&outputs, &reduction, &gpu.names)?;
    let count = outputs.iter().filter_map(Loop::extent).fold(1, i64::saturating_mul);
    let k = reduction.chain.ks.iter().cloned().max_by_key(|k| k.hi.limit)?;
    if count >= FULL_GPU_THREADS || k.extent()? < WORTH_SHARING {
        return None;
    }
    let others: Vec<Loop> = outputs.into_iter().filter(|l| *l != lane).collect();
    let (whole, left) = (lane.extent()? / COLUMNS, lane.extent()? % COLUMNS);
    let mut kernels = Block::new();
    if whole > 0 {
        let block = gpu.loop_of(whole);
        let from = Affine::term(block.var, COLUMNS);
        let body = workgroup(gpu, &reduction, &k, &lane, COLUMNS, &from)?;
        let loops: Vec<Loop> = others.iter().cloned().chain([block]).collect();
        kernels.extend(parallel(&loops, body));
    }
    if left > 0 {
        let from = Affine::constant(whole * COLUMNS);
        let body = workgroup(gpu, &reduction, &k, &lane, left, &from)?;
        let loops = if others.is_empty() { vec![gpu.once()] } else { others };
        let kernel = parallel(&loops, body);
        kernels.extend(if whole > 0 { gpu.names.refreshed(&kernel) } else { kernel });
    }
    kernels.iter().all(|kernel| gpu.fits(std::slice::from_ref(kernel))).then_some(kernels)
}

/// The output loop along which elements are contiguous, unless a reduction loop is contiguous.
pub(crate) fn column(outputs: &[Loop], reduction: &Reduction, names: &Names) -> Option<Loop> {
    let elements = reduction.chain.as_block();
    let score = |l: &Loop| nest::lane_score(&elements, l.var, names);
    let lane = outputs.iter().filter(|l| l.hi.limit > 1).max_by_key(|l| score(l))?.clone();
    let along = reduction.chain.ks.iter().map(score).max()?;
    (score(&lane) > 0 && score(&lane) > along).then_some(lane)
}

/// The body of a workgroup that computes the columns `from..from + columns`.
fn workgroup(
    gpu: &mut Gpu,
    reduction: &Reduction,
    k: &Loop,
    lane: &Loop,
    columns: i64,
    from: &Affine,
) -> Option<Block> {
    let sharers = power_of_two((gpu.width() / columns).min(k.extent()?));
    let own = gpu.names.loop_id();
    let reduction = reduction.substituted(lane.var, &from.plus(&Affine::var(own)));
    let column = SharedLoop::one_by_one(own, columns, columns);
    let shared = vec![SharedLoop::one_by_one(k.var, k.extent()?, sharers)];
    let chain = &reduction.chain;
    let pass = SharedPass::new(shared, chain.as_block());
    let tree = TreeReduction { chain, pass: &pass, column: Some(column), context: reduction.context() };
    let partials = tree.emit(gpu);
    let mut body = partials.declare;
    body.extend(partials.run);
    body.extend(finish(gpu, &reduction, column, partials.result));
    Some(body)
}

/// One thread per column combines the tree's result with the initial value and runs the statements after the
/// reduction.
fn finish(gpu: &mut Gpu, reduction: &Reduction, column: SharedLoop, result: LocalId) -> Block {
    let [share] = &distribute_loops(&[column], &mut gpu.names)[..] else { return Block::new() };
    let mut block = reduction.before.clone();
    block.push(reduction.chain.take(element_of(result, Affine::var(column.var))));
    block.extend(reduction.after.iter().cloned());
    share.on_threads(share.renumbered(block), &mut gpu.names)
}
