//! Puts the contiguous axis innermost and cuts it into vectors.
//!
//! In each nest the loop that moves most accesses by one element becomes the lanes ([`nest::lane_score`]), if its iterations
//! are independent. A strip is four vectors long, so that the latency of one hides behind the others, and eight where a
//! reduction runs inside it, so that each step of the reduction reads more than one cache line; the remainder is one shorter
//! strip. Bodies with elements of types without vectors stay as they are.

use lowered_ir::ir::{Block, LoopKind, Stmt};

use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop, Nest};
use crate::cpu::{self, contraction};
use crate::jam::{self, Strip};
use codegen_core::{Caps, access};

/// Vectors per strip.
pub(crate) const VECTORS: usize = 4;

/// Vectorises every nest of a block.
pub(crate) fn vectorize(block: Block, caps: &Caps, names: &mut Names) -> Block {
    block.into_iter().flat_map(|stmt| vectorize_nest(stmt, caps, names)).collect()
}

fn vectorize_nest(stmt: Stmt, caps: &Caps, names: &mut Names) -> Block {
    if let Stmt::For { var, lo, hi, kind: kind @ LoopKind::Parallel, body } = stmt {
        return vec![Stmt::For { var, lo, hi, kind, body: vectorize(body, caps, names) }];
    }
    let Some(nest) = Nest::of(&stmt) else { return vec![stmt] };
    match choose(&nest, caps, names) {
        Some((lane, lanes)) => in_lanes(&nest, lane, lanes, caps, names),
        None => cpu::pairs(&nest, caps, names).unwrap_or_else(|| {
            let body = vectorize(nest.body, caps, names);
            nest::wrap(&nest.loops, body)
        }),
    }
}

fn in_lanes(nest: &Nest, lane: Loop, lanes: i64, caps: &Caps, names: &mut Names) -> Block {
    if let Some(tiled) = contraction::tile(nest, lane, lanes, caps, names) {
        return tiled;
    }
    if let Some(tiled) = cpu::transpose(nest, lane, lanes, caps, names) {
        return tiled;
    }
    if let Some(streamed) = cpu::stream(nest, lane, lanes, caps, names) {
        return streamed;
    }
    let others: Vec<Loop> = nest.loops.iter().copied().filter(|l| *l != lane).collect();
    let extent = lane.extent().unwrap_or(0);
    let wider = reduces(&nest.body) && extent >= 2 * lanes * caps.threads.max(1) as i64;
    let strip = Strip { lanes: if wider { 2 * lanes } else { lanes }, kind: LoopKind::Vector };
    let strips = jam::strips(lane.var, extent, &nest.body, strip, names);
    nest::wrap(&others, strips)
}

/// Whether a body is one accumulator, which twice as many lanes still leave in registers, and the loops that fill it.
fn reduces(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| matches!(stmt, Stmt::For { .. })) && access::declared(body).len() == 1
}

/// The loop that becomes lanes, and how many.
fn choose(nest: &Nest, caps: &Caps, names: &Names) -> Option<(Loop, i64)> {
    if nest::has_lanes(&nest.body) {
        return None;
    }
    let scored = nest.movable(names).into_iter().map(|l| (nest::lane_score(&nest.body, l.var), l));
    let (score, lane) = scored.filter(|(_, l)| l.extent().is_some()).max_by_key(|(score, _)| *score)?;
    let vector = (caps.vector_bytes / nest::vector_width(&nest.body, lane.var, names)?) as i64;
    let wide_enough = vector > 1 && lane.extent()? >= vector;
    (score > 0 && wide_enough).then_some((lane, vector * VECTORS as i64))
}
