//! Vectorization: moves the contiguous axis innermost and splits it into vectors.
//!
//! In each nest, the loop that makes most accesses contiguous ([`nest::lane_score`]) becomes the lanes, if
//! its iterations are independent. A strip has four vectors, so that the latency of one hides behind the
//! others, or eight if a reduction runs inside it, so that each step of the reduction reads more than one
//! cache line. The remainder is one shorter strip. Bodies with elements of types without vectors stay scalar.

use lowered_ir::ir::{Block, LoopKind, LoweredRoutine, Stmt, walk};

use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop, Nest};
use crate::common::normalize_loops::normalize_block;
use crate::common::unroll_and_jam::{self, Strip, VECTORS};
use crate::cpu::decode_operand::decode_operand;
use crate::cpu::split_guards::split_guards;
use crate::cpu::stream_reduction::stream_reduction;
use crate::cpu::strip_dynamic::strip_dynamic;
use crate::cpu::tile_contraction::{tile_contraction, whole_contraction};
use crate::cpu::tile_transpose::tile_transpose;
use crate::cpu::unroll_fields::unroll_fields;
use crate::options::ScheduleOptions;
use codegen_core::Caps;
use codegen_core::dependence;

/// Vectorizes every nest of a routine, if the options and the target allow it. Loops that end at symbols
/// become strips if there may be quotients of them.
pub(crate) fn vectorize(routine: &mut LoweredRoutine, caps: &Caps, options: &ScheduleOptions) {
    if options.vectorize && caps.vector_bytes > 0 {
        let mut names = Names::of(routine);
        routine.body = vectorize_block(std::mem::take(&mut routine.body), caps, &mut names);
        unroll_fields(&mut routine.body);
        normalize_block(&mut routine.body);
        routine.symbols = names.symbols;
    }
}

/// Vectorizes every nest of a block.
pub(crate) fn vectorize_block(block: Block, caps: &Caps, names: &mut Names) -> Block {
    block.into_iter().flat_map(|stmt| vectorize_nest(stmt, caps, names)).collect()
}

fn vectorize_nest(stmt: Stmt, caps: &Caps, names: &mut Names) -> Block {
    if let Stmt::For { var, lo, hi, kind: kind @ LoopKind::Parallel, body } = stmt {
        return vec![Stmt::For { var, lo, hi, kind, body: vectorize_block(body, caps, names) }];
    }
    let Some(nest) = Nest::of(&stmt) else { return vec![stmt] };
    if let Some(parts) = split_guards(&nest, names) {
        return vectorize_block(parts, caps, names);
    }
    if let Some(whole) = whole_contraction(&nest, caps, names) {
        return whole;
    }
    if nest.loops.iter().any(|l| l.dynamic_end().is_some())
        && let Some((lane, lanes)) = choose(&nest, caps, names, |_| true)
        && let Some(strips) = strip_dynamic(&nest, &lane, &[lanes, lanes / VECTORS as i64], names)
    {
        return vectorize_block(strips, caps, names);
    }
    match choose(&nest, caps, names, |l| l.extent().is_some()) {
        Some((lane, lanes)) => in_lanes(&nest, lane, lanes, caps, names),
        None => {
            let body = vectorize_block(nest.body, caps, names);
            nest::wrap(&nest.loops, body)
        }
    }
}

fn in_lanes(nest: &Nest, lane: Loop, lanes: i64, caps: &Caps, names: &mut Names) -> Block {
    if let Some(decoded) = decode_operand(nest, &lane, lanes, caps, names) {
        return vectorize_block(decoded, caps, names);
    }
    if let Some(tiled) = tile_contraction(nest, lane.clone(), lanes, caps, names) {
        return tiled;
    }
    if let Some(tiled) = tile_transpose(nest, lane.clone(), lanes, caps, names, vectorize_block) {
        return tiled;
    }
    let extent = lane.extent().unwrap_or(0);
    let others: Vec<Loop> = nest.loops.iter().filter(|l| **l != lane).cloned().collect();
    if has_nested_reduction(&nest.body) && extent <= lanes / VECTORS as i64 * caps.vector_registers as i64 / 2
    {
        // The innermost accumulators of all lanes fit into registers, and each step reads a row once.
        let strip = Strip { lanes: extent, kind: LoopKind::Vector };
        let strips = unroll_and_jam::strips(lane.var, extent, &nest.body, strip, names);
        return nest::wrap(&others, strips);
    }
    if let Some(streamed) = stream_reduction(nest, &lane, lanes, caps, names) {
        return streamed;
    }
    // Rows that are one strip are read in order.
    let is_row = extent == 2 * lanes && !others.is_empty();
    let wider = reduces(&nest.body) && (is_row || extent >= 2 * lanes * caps.threads.max(1) as i64);
    let strip = Strip { lanes: if wider { 2 * lanes } else { lanes }, kind: LoopKind::Vector };
    let strips = unroll_and_jam::strips(lane.var, extent, &nest.body, strip, names);
    nest::wrap(&others, strips)
}

/// Whether a body has a reduction inside of another one, and each of its innermost loops has one accumulator.
fn has_nested_reduction(body: &[Stmt]) -> bool {
    let is_loop = |stmt: &Stmt| matches!(stmt, Stmt::For { .. });
    let mut nested = false;
    let single = walk::stmts(body).all(|stmt| match stmt {
        Stmt::For { body, .. } if body.iter().any(is_loop) => {
            let accumulates = matches!(body.last(), Some(Stmt::SetLocal { index, .. }) if index.is_empty());
            nested |= accumulates && !dependence::declared(body).is_empty();
            true
        }
        Stmt::For { body, .. } => matches!(body.as_slice(), [Stmt::SetLocal { .. }]),
        _ => true,
    });
    nested && single
}

/// Whether a body is one accumulator and the loops that fill it. Twice as many lanes then still fit into
/// registers.
fn reduces(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| matches!(stmt, Stmt::For { .. })) && dependence::declared(body).len() == 1
}

/// The loop that becomes the lanes, of those that may, and the lanes of a strip.
fn choose(nest: &Nest, caps: &Caps, names: &Names, may: impl Fn(&Loop) -> bool) -> Option<(Loop, i64)> {
    if nest::has_lanes(&nest.body) {
        return None;
    }
    let scored =
        nest.possible_lanes(names).into_iter().map(|l| (nest::lane_score(&nest.body, l.var, names), l));
    let (score, lane) = scored.filter(|(_, l)| may(l)).max_by_key(|(score, _)| *score)?;
    let vector = (caps.vector_bytes / nest::vector_width(&nest.body, lane.var, names)?) as i64;
    let wide_enough = vector > 1 && lane.hi.limit >= vector;
    (score > 0 && wide_enough).then_some((lane, vector * VECTORS as i64))
}
