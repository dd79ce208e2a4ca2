//! Reductions along an axis that is not the contiguous one: threads beside each other have outputs beside each other.
//!
//! A workgroup has [`COLUMNS`] neighbouring outputs and several threads for each of them, which share the reduction's longest loop; a
//! [`Tree`] combines their results. With outputs enough to fill a GPU a thread per output is as good, and needs no tree.

use lowered_ir::ir::{Affine, Block, LocalId};

use crate::analysis::nest::{self, Loop, Nest};
use crate::gpu::chain::Reduction;
use crate::gpu::phases::Pass;
use crate::gpu::pieces::{Shared, pieces, power_of_two};
use crate::gpu::tree::Tree;
use crate::gpu::{FILLED, Gpu, element_of, parallel};

/// Outputs of a workgroup: their elements in a row are one wide access.
pub(crate) const COLUMNS: i64 = 32;
/// Elements per output from which threads share them.
const WORTH_SHARING: i64 = 8;

/// The nest as kernels, one for whole blocks of columns and one for the rest.
pub(crate) fn distribute(gpu: &mut Gpu, nest: &Nest) -> Option<Block> {
    let (outputs, rest) = gpu.independent(nest);
    let reduction = Reduction::of(nest, gpu).filter(|_| gpu.fast && rest.is_empty())?;
    let lane = column(&outputs, &reduction)?;
    let count = outputs.iter().filter_map(Loop::extent).fold(1, i64::saturating_mul);
    let k = reduction.chain.ks.iter().copied().max_by_key(|k| k.hi.limit)?;
    if count >= FILLED || k.extent()? < WORTH_SHARING {
        return None;
    }
    let others: Vec<Loop> = outputs.into_iter().filter(|l| *l != lane).collect();
    let (whole, left) = (lane.extent()? / COLUMNS, lane.extent()? % COLUMNS);
    let mut kernels = Block::new();
    if whole > 0 {
        let block = gpu.loop_of(whole);
        let from = Affine::term(block.var, COLUMNS);
        let body = workgroup(gpu, &reduction, k, (lane, COLUMNS), &from)?;
        let loops: Vec<Loop> = others.iter().copied().chain([block]).collect();
        kernels.extend(parallel(&loops, body));
    }
    if left > 0 {
        let from = Affine::constant(whole * COLUMNS);
        let body = workgroup(gpu, &reduction, k, (lane, left), &from)?;
        let loops = if others.is_empty() { vec![gpu.once()] } else { others };
        let kernel = parallel(&loops, body);
        kernels.extend(if whole > 0 { gpu.names.refreshed(&kernel) } else { kernel });
    }
    kernels.iter().all(|kernel| gpu.fits(std::slice::from_ref(kernel))).then_some(kernels)
}

/// The output loop along which the elements lie beside each other, if no loop of the reduction is better.
pub(crate) fn column(outputs: &[Loop], reduction: &Reduction) -> Option<Loop> {
    let elements = reduction.chain.as_block();
    let score = |l: &Loop| nest::lane_score(&elements, l.var);
    let lane = outputs.iter().copied().filter(|l| l.hi.limit > 1).max_by_key(score)?;
    let along = reduction.chain.ks.iter().map(score).max()?;
    (score(&lane) > 0 && score(&lane) > along).then_some(lane)
}

/// What one workgroup does for the columns `from..from + columns`.
fn workgroup(
    gpu: &mut Gpu,
    reduction: &Reduction,
    k: Loop,
    (lane, columns): (Loop, i64),
    from: &Affine,
) -> Option<Block> {
    let sharers = power_of_two((gpu.width() / columns).min(k.extent()?));
    let own = gpu.names.loop_id();
    let reduction = reduction.substituted(lane.var, &from.plus(&Affine::var(own)));
    let column = Shared::one_by_one(own, columns, columns);
    let shared = vec![Shared::one_by_one(k.var, k.extent()?, sharers)];
    let chain = &reduction.chain;
    let pass = Pass::new(shared, chain.as_block());
    let tree = Tree { chain, pass: &pass, column: Some(column), context: reduction.context() };
    let partials = tree.emit(gpu);
    let mut body = partials.declare;
    body.extend(partials.run);
    body.extend(finish(gpu, &reduction, column, partials.result));
    Some(body)
}

/// Every column's thread combines the result with what was there, and does what comes after.
fn finish(gpu: &mut Gpu, reduction: &Reduction, column: Shared, result: LocalId) -> Block {
    let [piece] = &pieces(&[column], &mut gpu.names)[..] else { return Block::new() };
    let mut block = reduction.before.clone();
    block.push(reduction.chain.take(element_of(result, Affine::var(column.var))));
    block.extend(reduction.after.iter().cloned());
    piece.on_threads(piece.renumbered(block), &mut gpu.names)
}
