//! Vectorized access: runs of contiguous elements that a thread loads or stores with one access of 16 bytes.
//!
//! A run is four elements of 4 bytes, eight of 2 bytes or two of 8 bytes. It is aligned to its length, so
//! that no access crosses the end of a row.

use lowered_ir::ir::{Affine, Expr, Indices, LoopId, NodeRef, Stmt, Types, Var, walk};

use crate::analysis::access;
use crate::gpu::context::Gpu;
use codegen_core::dependence::mentions;

/// Bytes of a vectorized access.
const WIDE: usize = 16;

/// Elements of a run, if the target has vectorized accesses to elements of all these sizes (in bytes, `most`
/// at most).
pub(crate) fn length(gpu: &Gpu, sizes: &[usize], most: usize) -> Option<i64> {
    let has_wide = |size: &usize| (gpu.workgroups.element_bytes..=most).contains(size);
    let widest = sizes.iter().copied().max().filter(|_| sizes.iter().all(has_wide))?;
    Some((WIDE / widest) as i64)
}

/// The element sizes in bytes of the nodes whose indices satisfy `moves`.
pub(crate) fn sizes(gpu: &Gpu, body: &[Stmt], moves: impl Fn(&Affine) -> bool) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut note = |node: NodeRef, index: &Indices| {
        if index.iter().any(&moves) {
            sizes.push(gpu.names.node(node).size_bytes());
        }
    };
    walk::stmts(body).for_each(|stmt| {
        if let Stmt::Set { node, index, .. } = stmt {
            note(*node, index);
        }
    });
    walk::parts_in(body).for_each(|e| {
        if let Expr::Get { node, index } | Expr::GetMerge { node, index } = e {
            note(*node, index);
        }
    });
    sizes
}

/// Whether a body has no loops.
pub(crate) fn is_straight(body: &[Stmt]) -> bool {
    !body.iter().any(|stmt| matches!(stmt, Stmt::For { .. }))
}

/// Whether all accesses that depend on the lane are aligned runs of `len` elements.
pub(crate) fn is_wide(gpu: &Gpu, body: &[Stmt], lane: LoopId, len: i64) -> bool {
    let is_wide_stmt = |stmt: &Stmt| match stmt {
        Stmt::Set { node, index, .. } => is_run(gpu, *node, index, lane, len),
        Stmt::Declare { dims, .. } => dims.is_empty(),
        Stmt::SetLocal { .. } | Stmt::Comment(_) | Stmt::For { .. } => true,
        Stmt::SetDynamic { .. } | Stmt::Zero { .. } | Stmt::Log { .. } => false,
    };
    let is_wide_read = |e: &Expr| match e {
        Expr::Get { node, index } | Expr::GetMerge { node, index } => {
            !index.iter().any(|i| i.mentions(lane)) || is_run(gpu, *node, index, lane, len)
        }
        Expr::GetGuarded { .. } | Expr::GetDynamic { .. } => !mentions(e, lane),
        _ => true,
    };
    !access::has_no_lanes(body, lane)
        && walk::stmts(body).all(is_wide_stmt)
        && walk::parts_in(body).all(is_wide_read)
}

/// Whether an index advances by one element per lane, and by multiples of `len` along all other loops.
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
