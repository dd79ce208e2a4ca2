//! Every independent iteration of a nest on a thread of its own, or four or eight that are neighbours in memory.
//!
//! The loops whose iterations are independent become parallel, and the one that moves most accesses by one element
//! ([`nest::lane_score`]) becomes the innermost of them, so that neighbouring threads touch neighbouring memory. If all that
//! a body touches are aligned runs of four elements, a thread takes four, with loads and stores of 16 bytes for elements of 4; where all
//! elements have 2 bytes, a thread takes eight.

use lowered_ir::ir::{Affine, Block, Expr, Indices, LoopId, LoopKind, NodeRef, Stmt, Types, Var, walk};
use tnode::DType;

use super::super::jam::{self, Strip};
use super::super::nest::{self, Loop, Nest};
use super::{Gpu, parallel};

/// Bytes of a wide access.
const WIDE: usize = 16;
/// Threads from which each takes a run; below, more threads are worth more than wide accesses.
const WORTH_RUNS: i64 = 256;

/// The nest as one kernel; none if no loop of it is independent.
pub(super) fn distribute(gpu: &mut Gpu, nest: &Nest) -> Option<Block> {
    let movable = nest.movable(&gpu.names);
    let (mut threads, rest): (Vec<Loop>, Vec<Loop>) =
        nest.loops.iter().partition(|l| l.extent().is_some() && movable.contains(l));
    let lane = threads.iter().copied().max_by_key(|l| nest::lane_score(&nest.body, l.var))?;
    threads.retain(|l| *l != lane);
    if rest.is_empty()
        && let Some((runs, body)) = runs(gpu, nest, &threads, lane)
    {
        threads.push(runs);
        return Some(parallel(&threads, body));
    }
    threads.push(lane);
    Some(parallel(&threads, nest::wrap(&rest, nest.body.clone())))
}

/// The loop over runs, and what a thread does with one.
fn runs(gpu: &mut Gpu, nest: &Nest, others: &[Loop], lane: Loop) -> Option<(Loop, Block)> {
    let extent = lane.extent()?;
    let total = others.iter().filter_map(Loop::extent).fold(extent, i64::saturating_mul);
    let len = (WIDE / widest(gpu, &nest.body, lane.var)?) as i64;
    let is_worth = extent % len == 0 && total >= WORTH_RUNS * len && is_wide(gpu, &nest.body, lane.var, len);
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

/// Bytes of the widest elements that move with the lane; none if the target has no wide accesses to some of them.
fn widest(gpu: &Gpu, body: &[Stmt], lane: LoopId) -> Option<usize> {
    let mut sizes = Vec::new();
    let mut note = |node: NodeRef, index: &Indices| {
        if index.iter().any(|i| i.mentions(lane)) {
            sizes.push(gpu.names.node(node).size_bytes());
        }
    };
    walk::each_stmt(body, &mut |stmt| {
        if let Stmt::Set { node, index, .. } = stmt {
            note(*node, index);
        }
    });
    walk::each_value(body, &mut |value| {
        walk::each_expr(value, &mut |e| {
            if let Expr::Get { node, index } | Expr::GetMerge { node, index } = e {
                note(*node, index);
            }
        });
    });
    let least = gpu.workgroups.element_bytes;
    let has_wide = |size: &usize| (least..=DType::F32.size_bytes()).contains(size);
    sizes.iter().copied().max().filter(|_| sizes.iter().all(has_wide))
}

/// Whether the body is straight, and everything that moves with the lane is a run that begins at a multiple of its length.
pub(super) fn is_wide(gpu: &Gpu, body: &[Stmt], lane: LoopId, len: i64) -> bool {
    let mut wide = true;
    walk::each_stmt(body, &mut |stmt| match stmt {
        Stmt::Set { node, index, .. } => wide &= is_run(gpu, *node, index, lane, len),
        Stmt::Declare { dims, .. } => wide &= dims.is_empty(),
        Stmt::SetLocal { .. } | Stmt::Comment(_) => {}
        Stmt::For { .. } | Stmt::SetDynamic { .. } | Stmt::Zero { .. } | Stmt::Log { .. } => wide = false,
    });
    walk::each_value(body, &mut |value| {
        walk::each_expr(value, &mut |e| match e {
            Expr::Get { node, index } | Expr::GetMerge { node, index } => {
                wide &= !index.iter().any(|i| i.mentions(lane)) || is_run(gpu, *node, index, lane, len);
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

/// Whether an index moves with the lane by one element, and by multiples of a run's length otherwise.
fn is_run(gpu: &Gpu, node: NodeRef, index: &Indices, lane: LoopId, len: i64) -> bool {
    let dims = &gpu.nodes[node.index()].dims;
    let (Some((last, outer)), Some(&row)) = (index.split_last(), dims.last()) else { return false };
    let aligned = |index: &Affine| {
        let mut others = index.terms().iter().filter(|(var, _)| *var != Var::Loop(lane));
        index.offset() % len == 0 && others.all(|(_, coefficient)| coefficient % len == 0)
    };
    let whole_rows = dims.len() == 1 || row as i64 % len == 0;
    last.coefficient(lane) == 1 && !outer.iter().any(|i| i.mentions(lane)) && aligned(last) && whole_rows
}
