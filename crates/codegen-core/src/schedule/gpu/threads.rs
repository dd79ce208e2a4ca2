//! Every independent iteration of a nest on a thread of its own, or four that are neighbours in memory.
//!
//! The loops whose iterations are independent become parallel, and the one that moves most accesses by one element
//! ([`nest::lane_score`]) becomes the innermost of them, so that neighbouring threads touch neighbouring memory. If all that
//! a body touches are aligned runs of four elements of 4 bytes, a thread takes four, with loads and stores of 16 bytes.

use lowered_ir::ir::{Affine, Block, Expr, Indices, LoopId, LoopKind, NodeRef, Stmt, Types, Var, walk};
use tnode::DType;

use super::super::jam::{self, Strip};
use super::super::nest::{self, Loop, Nest};
use super::{Gpu, parallel};

/// Elements of a wide load.
const QUAD: i64 = 4;
/// Elements from which threads take four each; below, more threads are worth more than wide loads.
const WORTH_QUADS: i64 = 1024;

/// The nest as one kernel; none if no loop of it is independent.
pub(super) fn distribute(gpu: &mut Gpu, nest: &Nest) -> Option<Block> {
    let movable = nest.movable(&gpu.names);
    let (mut threads, rest): (Vec<Loop>, Vec<Loop>) =
        nest.loops.iter().partition(|l| l.extent().is_some() && movable.contains(l));
    let lane = threads.iter().copied().max_by_key(|l| nest::lane_score(&nest.body, l.var))?;
    threads.retain(|l| *l != lane);
    if rest.is_empty()
        && let Some((quads, body)) = quads(gpu, nest, &threads, lane)
    {
        threads.push(quads);
        return Some(parallel(&threads, body));
    }
    threads.push(lane);
    Some(parallel(&threads, nest::wrap(&rest, nest.body.clone())))
}

/// The loop over runs of four, and what a thread does with one.
fn quads(gpu: &mut Gpu, nest: &Nest, others: &[Loop], lane: Loop) -> Option<(Loop, Block)> {
    let extent = lane.extent()?;
    let total = others.iter().filter_map(Loop::extent).fold(extent, i64::saturating_mul);
    let wide = extent % QUAD == 0 && total >= WORTH_QUADS && is_wide(gpu, &nest.body, lane.var);
    if !wide || nest::vector_width(&nest.body, lane.var, &gpu.names) != Some(DType::F32.size_bytes()) {
        return None;
    }
    let strip = Strip { lanes: QUAD, kind: LoopKind::Vector };
    let mut strips = jam::strips(lane.var, extent, &nest.body, strip, &mut gpu.names);
    match strips.pop()? {
        Stmt::For { var, body, .. } if strips.is_empty() => {
            Some((Loop { var, lo: 0, hi: (extent / QUAD).into() }, body))
        }
        _ => None,
    }
}

/// Whether the body is straight, and everything that moves with the lane is a run that begins at a multiple of four.
fn is_wide(gpu: &Gpu, body: &[Stmt], lane: LoopId) -> bool {
    let mut wide = true;
    walk::each_stmt(body, &mut |stmt| match stmt {
        Stmt::Set { node, index, .. } => wide &= is_run(gpu, *node, index, lane),
        Stmt::Declare { dims, .. } => wide &= dims.is_empty(),
        Stmt::SetLocal { .. } | Stmt::Comment(_) => {}
        Stmt::For { .. } | Stmt::SetDynamic { .. } | Stmt::Zero { .. } | Stmt::Log { .. } => wide = false,
    });
    walk::each_value(body, &mut |value| {
        walk::each_expr(value, &mut |e| match e {
            Expr::Get { node, index } | Expr::GetMerge { node, index } => {
                wide &= !index.iter().any(|i| i.mentions(lane)) || is_run(gpu, *node, index, lane);
            }
            Expr::GetGuarded { .. } | Expr::GetDynamic { .. } => wide &= !nest_mentions(e, lane),
            _ => {}
        });
    });
    wide
}

fn nest_mentions(expr: &Expr, lane: LoopId) -> bool {
    super::super::numerics::mentions(expr, lane)
}

/// Whether an index moves with the lane by one element, and by multiples of four otherwise.
fn is_run(gpu: &Gpu, node: NodeRef, index: &Indices, lane: LoopId) -> bool {
    let dims = &gpu.nodes[node.index()].dims;
    let (Some((last, outer)), Some(&row)) = (index.split_last(), dims.last()) else { return false };
    let aligned = |index: &Affine| {
        let mut others = index.terms().iter().filter(|(var, _)| *var != Var::Loop(lane));
        index.offset() % QUAD == 0 && others.all(|(_, coefficient)| coefficient % QUAD == 0)
    };
    let whole_rows = dims.len() == 1 || row as i64 % QUAD == 0;
    gpu.names.node(node).size_bytes() == 4
        && last.coefficient(lane) == 1
        && !outer.iter().any(|i| i.mentions(lane))
        && aligned(last)
        && whole_rows
}
