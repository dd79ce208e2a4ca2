//! For targets with workgroups: which thread does what.
//!
//! Each top-level nest becomes nested parallel loops, whose iterations are threads or, with workgroup loops inside, workgroups: the
//! form that [`codegen_core::form`] checks. Files beside this one are the shapes that a nest can take.

// Before.
mod keep; // row statistics in registers
mod plain; // serial loops
mod sink; // scalars where they are used
mod spill; // top-level locals as nodes

// Shapes.
mod columns; // neighbouring outputs on neighbouring threads, reductions shared by several
mod cores; // products of matrices that stay whole
mod join; // which nests one kernel can do
mod rows; // rows in shared memory
mod stages; // long reductions as two nests
mod team; // a workgroup per row
mod threads; // one thread per output, or per run of neighbours
mod tile; // contractions
mod turn; // what is read another way than it is written

// What shapes use.
mod chain; // accumulations
mod held; // rows in registers
mod phases; // what a workgroup does, decided once
mod pieces; // loops shared out among threads
mod runs; // neighbours in one access
mod transfer; // copies into shared memory
mod tree; // partial results

use std::collections::BTreeSet;

use lowered_ir::ir::{
    Affine, Block, Expr, Indices, LocalId, LoopKind, NodeDecl, NodeRef, Numerics, Routine, Stmt,
};
use lowered_ir::verify::Limits;
use smallvec::smallvec;
use tnode::{DType, Dims, MemoryMode, ModeState, Reason, Scalar};

use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop, Nest};
use crate::is_local;
use codegen_core::access;
use codegen_core::caps::{DTypeSet, Workgroups};
use codegen_core::form::check_form;

pub(crate) use join::join;
pub(crate) use plain::plain;
pub(crate) use spill::spill;

/// Threads that fill a GPU: from so many on, what each of them does matters more than to have more of them.
const FILLED: i64 = 1 << 14;
/// Elements of a wide access.
const QUAD: i64 = 4;
/// Threads of a workgroup at most, whatever the target allows: several workgroups share a processor, and hide each other's waits.
const WIDTH: i64 = 256;

/// What the shapes share.
struct Gpu {
    names: Names,
    nodes: Vec<NodeDecl>,
    workgroups: Workgroups,
    /// Whether accumulations may be reordered.
    fast: bool,
    /// Types of factors for whose products of matrices the target has kernels of its own.
    matrices: DTypeSet,
    /// The local nodes that nobody but the statement at hand mentions.
    owned: BTreeSet<NodeRef>,
}

/// Lets threads and workgroups share the work of every top-level nest. `matrices` says whether products of matrices that suit tensor cores
/// stay whole.
pub(crate) fn distribute(routine: &mut Routine, workgroups: Workgroups, matrices: DTypeSet) {
    keep::in_registers(routine);
    let mut gpu = Gpu { matrices, ..Gpu::of(routine, workgroups) };
    let owners = access::owners(&routine.body);
    let mut body = Block::new();
    for (at, stmt) in std::mem::take(&mut routine.body).into_iter().enumerate() {
        let own = owners.iter().filter(|(_, owner)| **owner == Some(at)).map(|(node, _)| *node);
        gpu.owned = own.filter(|node| is_local(&gpu.nodes[node.index()])).collect();
        let shared = gpu.statement(stmt.clone());
        // Loops of threads come on top of those that there are.
        if depth(&shared) <= Limits::default().nesting { body.extend(shared) } else { body.push(stmt) }
    }
    routine.body = body;
    routine.nodes = gpu.nodes;
}

impl Gpu {
    fn of(routine: &Routine, workgroups: Workgroups) -> Gpu {
        let fast = routine.numerics == Numerics::Fast;
        let owned = BTreeSet::new();
        let (names, nodes) = (Names::of(routine), routine.nodes.clone());
        Gpu { names, nodes, workgroups, fast, matrices: DTypeSet::EMPTY, owned }
    }

    fn statement(&mut self, stmt: Stmt) -> Block {
        let stmt = match stmt {
            Stmt::Zero { node } => self.zeroed(node),
            stmt => stmt,
        };
        let Some(nest) = Nest::of(&stmt) else { return vec![stmt] };
        if let Some(whole) = cores::whole(self, &nest) {
            return whole;
        }
        if chain::is_contraction(&nest, self) {
            return tile::distribute(self, &nest).unwrap_or_else(|| vec![stmt]);
        }
        if let Some(stages) = stages::split(self, &nest) {
            return stages.iter().flat_map(|nest| self.nest(nest)).collect();
        }
        self.nest(&nest)
    }

    fn nest(&mut self, nest: &Nest) -> Block {
        turn::distribute(self, nest)
            .or_else(|| columns::distribute(self, nest))
            .or_else(|| team::distribute(self, nest))
            .or_else(|| threads::distribute(self, nest))
            .unwrap_or_else(|| nest::wrap(&nest.loops, nest.body.clone()))
    }

    /// The loops of a nest whose iterations are independent, and the others. Some of the first may have one iteration.
    fn independent(&self, nest: &Nest) -> (Vec<Loop>, Vec<Loop>) {
        let movable = nest.movable(&self.names);
        let free = |l: &Loop| l.extent().is_some_and(|extent| extent == 1 || movable.contains(l));
        nest.loops.iter().copied().partition(free)
    }

    /// Threads of a workgroup: a power of two.
    fn width(&self) -> i64 {
        pieces::power_of_two(i64::from(self.workgroups.threads).min(WIDTH))
    }

    /// Threads of a workgroup that shares loops of up to so many iterations.
    fn width_for(&self, iterations: i64) -> i64 {
        iterations.min(self.width())
    }

    /// Whether a target with such workgroups can run the kernel.
    fn fits(&self, kernel: &[Stmt]) -> bool {
        let numerics = if self.fast { Numerics::Fast } else { Numerics::Strict };
        let (name, body) = (String::new(), kernel.to_vec());
        let routine = Routine { name, numerics, symbols: Vec::new(), nodes: Vec::new(), body };
        check_form(&routine, self.workgroups).is_ok()
    }

    /// A new loop.
    fn loop_of(&mut self, extent: i64) -> Loop {
        Loop { var: self.names.loop_id(), lo: 0, hi: extent.into() }
    }

    /// A loop of one iteration, around what a single workgroup does.
    fn once(&mut self) -> Loop {
        self.loop_of(1)
    }

    /// A nest under names of its own; its body has several statements.
    fn renamed(&mut self, loops: &[Loop], body: Block) -> Option<Nest> {
        let loops = if loops.is_empty() { vec![self.once()] } else { loops.to_vec() };
        self.names.note(&body);
        let block = self.names.refreshed(&nest::wrap(&loops, body));
        Nest::of(block.first()?)
    }

    /// A node that lives for one run.
    fn node(&mut self, dtype: DType, dims: Dims) -> NodeRef {
        let mode = ModeState::decided(MemoryMode::Local, Reason::new("passes between kernels"));
        self.nodes.push(NodeDecl { name: format!("part{}", self.nodes.len()), dtype, dims, mode });
        self.names.node_of(dtype)
    }

    /// A nest that stores 0 into every element.
    fn zeroed(&mut self, node: NodeRef) -> Stmt {
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

/// How deep loops nest.
fn depth(block: &[Stmt]) -> usize {
    let each = block.iter().map(|stmt| match stmt {
        Stmt::For { body, .. } => 1 + depth(body),
        _ => 0,
    });
    each.max().unwrap_or(0)
}

/// Parallel loops around a body, the first outermost.
fn parallel(loops: &[Loop], body: Block) -> Block {
    let around = |body, l: &Loop| vec![Stmt::looped(l.var, l.hi.limit, LoopKind::Parallel, body)];
    loops.iter().rev().fold(body, around)
}

fn element_of(local: LocalId, at: Affine) -> Expr {
    Expr::GetLocal { local, index: smallvec![at] }
}
