//! Every independent iteration of a nest on a thread of its own, or four or eight that are neighbours in memory.
//!
//! The loops whose iterations are independent become parallel, and the one that moves most accesses by one element
//! ([`nest::lane_score`]) becomes the innermost of them, so that neighbouring threads touch neighbouring memory. If all that
//! a body touches are aligned runs of four elements, a thread takes four, with loads and stores of 16 bytes for elements of 4; where all
//! elements have 2 bytes, a thread takes eight. Loops of the body run for all of them at once.

use lowered_ir::ir::{Block, LoopKind, Stmt};
use tnode::DType;

use crate::analysis::nest::{self, Loop, Nest};
use crate::gpu::{FILLED, Gpu, parallel, runs};
use crate::jam::{self, Strip};

/// Threads from which each takes a run; below, more threads are worth more than wide accesses.
const WORTH_RUNS: i64 = 256;

/// The nest as one kernel; none if no loop of it is independent.
pub(crate) fn distribute(gpu: &mut Gpu, nest: &Nest) -> Option<Block> {
    let movable = nest.movable(&gpu.names);
    let (mut threads, rest): (Vec<Loop>, Vec<Loop>) =
        nest.loops.iter().partition(|l| l.extent().is_some() && movable.contains(l));
    let lane = threads.iter().copied().max_by_key(|l| nest::lane_score(&nest.body, l.var))?;
    threads.retain(|l| *l != lane);
    if rest.is_empty()
        && let Some((runs, body)) = in_runs(gpu, nest, &threads, lane)
    {
        threads.push(runs);
        return Some(parallel(&threads, body));
    }
    threads.push(lane);
    Some(parallel(&threads, nest::wrap(&rest, nest.body.clone())))
}

/// The loop over runs, and what a thread does with one.
fn in_runs(gpu: &mut Gpu, nest: &Nest, others: &[Loop], lane: Loop) -> Option<(Loop, Block)> {
    let extent = lane.extent()?;
    let total = others.iter().filter_map(Loop::extent).fold(extent, i64::saturating_mul);
    let sizes = runs::sizes(gpu, &nest.body, |index| index.mentions(lane.var));
    let len = runs::length(gpu, &sizes, DType::F32.size_bytes())?;
    let is_wide = runs::is_wide(gpu, &nest.body, lane.var, len);
    // What takes a loop for each output is worth less than threads that fill a GPU.
    let enough = if runs::is_straight(&nest.body) { WORTH_RUNS } else { FILLED };
    let is_worth = extent % len == 0 && total >= enough * len && is_wide;
    if !is_worth || nest::vector_width(&nest.body, lane.var, &gpu.names) != Some(DType::F32.size_bytes()) {
        return None;
    }
    let strip = Strip { lanes: len, kind: LoopKind::Vector };
    let mut strips = jam::strips(lane.var, extent, &nest.body, strip, &mut gpu.names);
    match strips.pop()? {
        Stmt::For { var, body, .. } if strips.is_empty() => {
            Some((Loop { var, lo: 0, hi: (extent / len).into() }, body))
        }
        _ => None,
    }
}
