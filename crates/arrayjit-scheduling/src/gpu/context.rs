//! The state of thread mapping: fresh names, nodes and the limits of the target.

use std::collections::BTreeSet;

use codegen_core::check_form;
use codegen_core::{DTypeSet, Workgroups};
use lowered_ir::ir::{
    Affine, Block, Expr, Indices, LocalId, LoopKind, LoweredRoutine, NodeDecl, NodeRef, Numerics, Stmt,
};
use tnode::{DType, Dims, MemoryMode, ModeState, Reason, Scalar};

use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop, Nest};

/// Threads that fill a GPU. Beyond this number, more work per thread is worth more than more threads.
pub(crate) const FULL_GPU_THREADS: i64 = 1 << 14;
/// Elements of a vectorized access.
pub(crate) const QUAD: i64 = 4;
/// The most threads of a workgroup, even if the target allows more: several workgroups on one SM hide each
/// other's latency.
pub(crate) const WORKGROUP_THREADS: i64 = 256;

/// The routine's names and nodes, and the target's limits.
pub(crate) struct Gpu {
    pub(crate) names: Names,
    pub(crate) nodes: Vec<NodeDecl>,
    pub(crate) workgroups: Workgroups,
    /// Whether accumulations may be reordered: class `Fast`.
    pub(crate) fast: bool,
    /// Element types of the matmuls that the target compiles whole.
    pub(crate) matrices: DTypeSet,
    /// Local nodes that only the current top-level statement mentions.
    pub(crate) owned: BTreeSet<NodeRef>,
}

impl Gpu {
    pub(crate) fn of(routine: &LoweredRoutine, workgroups: Workgroups) -> Gpu {
        let fast = routine.numerics == Numerics::Fast;
        let owned = BTreeSet::new();
        let (names, nodes) = (Names::of(routine), routine.nodes.clone());
        Gpu { names, nodes, workgroups, fast, matrices: DTypeSet::EMPTY, owned }
    }

    /// The loops of a nest whose iterations are independent, and the other loops. Loops of one iteration are
    /// independent.
    pub(crate) fn independent(&self, nest: &Nest) -> (Vec<Loop>, Vec<Loop>) {
        let movable = nest.movable(&self.names);
        let free = |l: &Loop| l.extent().is_some_and(|extent| extent == 1 || movable.contains(l));
        nest.loops.iter().cloned().partition(free)
    }

    /// The most threads of a workgroup, a power of two.
    pub(crate) fn width(&self) -> i64 {
        power_of_two(i64::from(self.workgroups.threads).min(WORKGROUP_THREADS))
    }

    /// The threads of a workgroup that shares loops of at most this many iterations.
    pub(crate) fn width_for(&self, iterations: i64) -> i64 {
        iterations.min(self.width())
    }

    /// Whether the target can run the kernel: [`check_form`].
    pub(crate) fn fits(&self, kernel: &[Stmt]) -> bool {
        let numerics = if self.fast { Numerics::Fast } else { Numerics::Strict };
        let (name, body) = (String::new(), kernel.to_vec());
        let routine = LoweredRoutine { name, numerics, symbols: Vec::new(), nodes: Vec::new(), body };
        check_form(&routine, self.workgroups).is_ok()
    }

    pub(crate) fn loop_of(&mut self, extent: i64) -> Loop {
        Loop { var: self.names.loop_id(), lo: 0, hi: extent.into() }
    }

    /// A loop of one iteration: the parallel loop of a kernel that is a single workgroup.
    pub(crate) fn once(&mut self) -> Loop {
        self.loop_of(1)
    }

    /// A copy of a nest under fresh names. The body must not be a single loop.
    pub(crate) fn renamed(&mut self, loops: &[Loop], body: Block) -> Option<Nest> {
        let loops = if loops.is_empty() { vec![self.once()] } else { loops.to_vec() };
        self.names.note(&body);
        let block = self.names.refreshed(&nest::wrap(&loops, body));
        Nest::of(block.first()?)
    }

    /// Adds a local node, which lives for one run.
    pub(crate) fn node(&mut self, dtype: DType, dims: Dims) -> NodeRef {
        let mode = ModeState::decided(MemoryMode::Local, Reason::new("passes between kernels"));
        let name = format!("part{}", self.nodes.len());
        self.nodes.push(NodeDecl { name, dtype, dims: dims.clone(), mode });
        self.names.node_of(dtype, dims)
    }

    /// A nest that stores 0 into every element of a node.
    pub(crate) fn zeroed(&mut self, node: NodeRef) -> Stmt {
        let decl = &self.nodes[node.index()];
        let value = Expr::Const(Scalar::zero(decl.dtype));
        let dims: Vec<i64> = decl.dims.iter().map(|&dim| dim as i64).collect();
        let loops: Vec<Loop> = dims.into_iter().map(|dim| self.loop_of(dim)).collect();
        let index: Indices = loops.iter().map(|l| Affine::var(l.var)).collect();
        let mut nest = nest::wrap(&loops, vec![Stmt::Set { node, index, value }]);
        self.names.note(&nest);
        nest.pop().unwrap_or(Stmt::Zero { node })
    }
}

/// Parallel loops around a body, the first outermost.
pub(crate) fn parallel(loops: &[Loop], body: Block) -> Block {
    let around = |body, l: &Loop| vec![Stmt::looped(l.var, l.hi.limit, LoopKind::Parallel, body)];
    loops.iter().rev().fold(body, around)
}

pub(crate) fn element_of(local: LocalId, at: Affine) -> Expr {
    Expr::GetLocal { local, index: [at].into() }
}

/// The greatest power of two up to `n`, and 1 for `n < 1`.
pub(crate) fn power_of_two(n: i64) -> i64 {
    let n = n.max(1) as u64;
    1 << (63 - n.leading_zeros())
}
