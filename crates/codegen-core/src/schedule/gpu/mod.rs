//! For targets with workgroups: which thread does what.
//!
//! Each top-level nest becomes nested parallel loops, whose iterations are threads or, with workgroup loops inside, workgroups: the
//! form that [`crate::form`] checks. Files beside this one are the shapes that a nest can take.

mod plain; // serial loops
mod spill; // top-level locals as nodes
mod threads; // one thread per output, or per four

use lowered_ir::ir::{Affine, Block, Expr, Indices, LoopKind, NodeDecl, NodeRef, Routine, Stmt};
use tnode::Scalar;

use super::names::Names;
use super::nest::{self, Loop, Nest};

pub(super) use plain::plain;
pub(super) use spill::spill;

/// What the shapes share.
struct Gpu {
    names: Names,
    nodes: Vec<NodeDecl>,
}

/// Lets threads and workgroups share the work of every top-level nest.
pub(super) fn distribute(routine: &mut Routine) {
    let mut gpu = Gpu { names: Names::of(routine), nodes: std::mem::take(&mut routine.nodes) };
    let body = std::mem::take(&mut routine.body);
    routine.body = body.into_iter().flat_map(|stmt| gpu.statement(stmt)).collect();
    routine.nodes = gpu.nodes;
}

impl Gpu {
    fn statement(&mut self, stmt: Stmt) -> Block {
        let stmt = match stmt {
            Stmt::Zero { node } => self.zeroed(node),
            stmt => stmt,
        };
        let Some(nest) = Nest::of(&stmt) else { return vec![stmt] };
        threads::distribute(self, &nest).unwrap_or_else(|| vec![stmt])
    }

    /// A nest that stores 0 into every element.
    fn zeroed(&mut self, node: NodeRef) -> Stmt {
        let decl = &self.nodes[node.index()];
        let value = Expr::Const(Scalar::zero(decl.dtype));
        let dims: Vec<i64> = decl.dims.iter().map(|&dim| dim as i64).collect();
        let loop_of = |dim: i64, names: &mut Names| Loop { var: names.loop_id(), lo: 0, hi: dim.into() };
        let loops: Vec<Loop> = dims.into_iter().map(|dim| loop_of(dim, &mut self.names)).collect();
        let index: Indices = loops.iter().map(|l| Affine::var(l.var)).collect();
        let mut nest = nest::wrap(&loops, vec![Stmt::Set { node, index, value }]);
        self.names.note(&nest);
        nest.pop().unwrap_or(Stmt::Zero { node })
    }
}

/// Parallel loops around a body, the first outermost.
fn parallel(loops: &[Loop], body: Block) -> Block {
    let around = |body, l: &Loop| vec![Stmt::looped(l.var, l.hi.limit, LoopKind::Parallel, body)];
    loops.iter().rev().fold(body, around)
}
