//! One thread per independent iteration, or one per four or eight contiguous iterations.
//!
//! Loops with independent iterations become parallel. The one that makes most accesses contiguous
//! ([`nest::lane_score`]) is the innermost, so that accesses of neighboring threads coalesce. If all
//! accesses of the body are aligned and contiguous, a thread takes four iterations with loads and stores of
//! 16 bytes, or eight if all elements have 2 bytes. Serial loops in the body then run once for all of them.

use codegen_core::dependence;
use lowered_ir::ir::{Block, LoopKind, Stmt};
use tnode::DType;

use crate::analysis::nest::{self, Loop, Nest};
use crate::common::unroll_and_jam::{self, Strip};
use crate::gpu::context::{FULL_GPU_THREADS, Gpu, parallel};
use crate::gpu::vector_access;

/// The fewest threads for which vectorized accesses pay. Below this number, more threads are worth more.
const WORTH_RUNS: i64 = 256;

/// Maps a nest to one kernel; none if no loop has independent iterations.
pub(crate) fn distribute(gpu: &mut Gpu, nest: &Nest) -> Option<Block> {
    let movable = nest.movable(&gpu.names);
    let (mut threads, rest): (Vec<Loop>, Vec<Loop>) =
        nest.loops.iter().cloned().partition(|l| l.extent().is_some() && movable.contains(l));
    let lane = threads.iter().cloned().max_by_key(|l| nest::lane_score(&nest.body, l.var, &gpu.names))?;
    threads.retain(|l| *l != lane);
    if rest.is_empty()
        && !dependence::bounds_loops(lane.var, &nest.body)
        && let Some((runs, body)) = in_runs(gpu, nest, &threads, &lane)
    {
        threads.push(runs);
        return Some(parallel(&threads, body));
    }
    threads.push(lane);
    Some(parallel(&threads, nest::wrap(&rest, nest.body.clone())))
}

/// The loop over runs of contiguous iterations, and the body for one run.
fn in_runs(gpu: &mut Gpu, nest: &Nest, others: &[Loop], lane: &Loop) -> Option<(Loop, Block)> {
    let extent = lane.extent()?;
    let total = others.iter().filter_map(Loop::extent).fold(extent, i64::saturating_mul);
    let sizes = vector_access::sizes(gpu, &nest.body, |index| index.mentions(lane.var));
    let len = vector_access::length(gpu, &sizes, DType::F32.size_bytes())?;
    let is_wide = vector_access::is_wide(gpu, &nest.body, lane.var, len);
    // If every output runs a loop, filling the GPU is worth more than vectorized accesses.
    let enough = if vector_access::is_straight(&nest.body) { WORTH_RUNS } else { FULL_GPU_THREADS };
    let is_worth = extent % len == 0 && total >= enough * len && is_wide;
    if !is_worth || nest::vector_width(&nest.body, lane.var, &gpu.names) != Some(DType::F32.size_bytes()) {
        return None;
    }
    let strip = Strip { lanes: len, kind: LoopKind::Vector };
    let mut strips = unroll_and_jam::strips(lane.var, extent, &nest.body, strip, &mut gpu.names);
    match strips.pop()? {
        Stmt::For { var, body, .. } if strips.is_empty() => {
            Some((Loop { var, lo: 0, hi: (extent / len).into() }, body))
        }
        _ => None,
    }
}
