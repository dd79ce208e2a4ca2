//! Runs: neighbours in memory that a thread reads and writes with one access of 16 bytes.
//!
//! Four elements of 4 bytes are one, eight of 2 bytes, two of 8. A run begins at a multiple of its length, so that no access crosses the
//! end of a row.

use lowered_ir::ir::{Affine, Expr, Indices, LoopId, NodeRef, Stmt, Types, Var, walk};

use crate::gpu::Gpu;
use codegen_core::access::{self, mentions};

/// Bytes of a wide access.
const WIDE: usize = 16;

/// Elements of a run, if the widest of its elements are of a size that the target has wide accesses to.
pub(crate) fn length(gpu: &Gpu, sizes: &[usize], most: usize) -> Option<i64> {
    let has_wide = |size: &usize| (gpu.workgroups.element_bytes..=most).contains(size);
    let widest = sizes.iter().copied().max().filter(|_| sizes.iter().all(has_wide))?;
    Some((WIDE / widest) as i64)
}

/// The sizes of the elements of nodes whose indices mention one of some loops, in bytes.
pub(crate) fn sizes(gpu: &Gpu, body: &[Stmt], moves: impl Fn(&Affine) -> bool) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut note = |node: NodeRef, index: &Indices| {
        if index.iter().any(&moves) {
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
    sizes
}

/// Whether a body has no loops.
pub(crate) fn is_straight(body: &[Stmt]) -> bool {
    !body.iter().any(|stmt| matches!(stmt, Stmt::For { .. }))
}

/// Whether everything that moves with the lane is a run that begins at a multiple of the length.
pub(crate) fn is_wide(gpu: &Gpu, body: &[Stmt], lane: LoopId, len: i64) -> bool {
    let mut wide = !access::has_no_lanes(body, lane);
    walk::each_stmt(body, &mut |stmt| match stmt {
        Stmt::Set { node, index, .. } => wide &= is_run(gpu, *node, index, lane, len),
        Stmt::Declare { dims, .. } => wide &= dims.is_empty(),
        Stmt::SetLocal { .. } | Stmt::Comment(_) | Stmt::For { .. } => {}
        Stmt::SetDynamic { .. } | Stmt::Zero { .. } | Stmt::Log { .. } => wide = false,
    });
    walk::each_value(body, &mut |value| {
        walk::each_expr(value, &mut |e| match e {
            Expr::Get { node, index } | Expr::GetMerge { node, index } => {
                wide &= !index.iter().any(|i| i.mentions(lane)) || is_run(gpu, *node, index, lane, len);
            }
            Expr::GetGuarded { .. } | Expr::GetDynamic { .. } => wide &= !mentions(e, lane),
            _ => {}
        });
    });
    wide
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
