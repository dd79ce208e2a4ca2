//! For targets with workgroups: lets every independent iteration of a nest run on a thread of its own.
//!
//! The outermost loops of each top-level nest whose iterations are independent become parallel, and the one that moves most
//! accesses by one element ([`nest::lane_score`]) becomes the innermost of them, so that neighbouring threads touch neighbouring
//! memory. Zeroing becomes a nest. No bit changes.

use lowered_ir::ir::{Affine, Block, Expr, Indices, LoopKind, NodeRef, Routine, Stmt};
use tnode::Scalar;

use super::names::Names;
use super::nest::{self, Loop, Nest};

/// Marks the loops whose iterations are threads.
pub(super) fn distribute(routine: &mut Routine) {
    let mut names = Names::of(routine);
    let body = std::mem::take(&mut routine.body);
    routine.body = body.into_iter().map(|stmt| in_threads(stmt, routine, &mut names)).collect();
}

fn in_threads(stmt: Stmt, routine: &Routine, names: &mut Names) -> Stmt {
    let stmt = match stmt {
        Stmt::Zero { node } => zeroed(node, routine, names),
        stmt => stmt,
    };
    let Some(nest) = Nest::of(&stmt) else { return stmt };
    let movable = nest.movable(names);
    let (mut threads, rest): (Vec<Loop>, Vec<Loop>) =
        nest.loops.iter().partition(|l| l.extent().is_some() && movable.contains(l));
    let Some(best) = threads.iter().copied().max_by_key(|l| nest::lane_score(&nest.body, l.var)) else {
        return stmt;
    };
    threads.retain(|l| *l != best);
    threads.push(best);
    let body = nest::wrap(&rest, nest.body.clone());
    parallel(&threads, body).unwrap_or(stmt)
}

/// Parallel loops around a body, the first outermost.
fn parallel(loops: &[Loop], body: Block) -> Option<Stmt> {
    let around = |body, l: &Loop| vec![Stmt::looped(l.var, l.hi.limit, LoopKind::Parallel, body)];
    loops.iter().rev().fold(body, around).pop()
}

/// A nest that stores 0 into every element.
fn zeroed(node: NodeRef, routine: &Routine, names: &mut Names) -> Stmt {
    let decl = routine.node(node);
    let loops: Vec<Loop> =
        decl.dims.iter().map(|&dim| Loop { var: names.loop_id(), lo: 0, hi: (dim as i64).into() }).collect();
    let index: Indices = loops.iter().map(|l| Affine::var(l.var)).collect();
    let value = Expr::Const(Scalar::zero(decl.dtype));
    let mut nest = nest::wrap(&loops, vec![Stmt::Set { node, index, value }]);
    names.note(&nest);
    nest.pop().unwrap_or(Stmt::Zero { node })
}
