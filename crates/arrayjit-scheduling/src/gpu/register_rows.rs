//! Register caching of rows: elements that threads keep in registers between passes.
//!
//! A *pass* is a loop over a row that the threads of a workgroup share. If several passes distribute the row
//! in the same way, each thread gets the same elements in all of them, and some elements need less memory
//! traffic or none:
//!
//! * an element of a node that the kernel never writes is loaded in the first pass that reads it;
//! * an element of a local node that only these passes of the kernel mention is never stored.
//!
//! The index of such an element is the position in the row in one or more dimensions, and constant within the
//! row in the others. Registers have no addresses, so the steps of a pass over cached elements are unrolled.
//! Rows must therefore be short, and the body of the pass must be small.

use std::collections::BTreeSet;

use lowered_ir::ir::{
    Affine, ArrayRef, BinaryOp, Block, Expr, Indices, LocalId, LoopId, LoopKind, NodeRef, Space, Stmt, Types,
    UnaryOp, walk,
};

use crate::analysis::nodes::is_guarded;
use crate::gpu::context::Gpu;
use crate::gpu::phases::{RegisterElement, RowPhase, SharedPass, registers};
use crate::gpu::work_distribution::{LoopShare, SharedLoop};
use codegen_core::dependence;

/// The most values that the unrolled steps of a pass compute, roughly.
const REPEATED: usize = 3072;
/// The number of values that a transcendental function counts as. Angles and powers count four times as much.
const TRANSCENDENTAL: usize = 48;

/// A candidate: an element of a node for each position in the row.
struct CachedElement {
    node: NodeRef,
    /// The index, with [`POSITION`] for the position in the row.
    index: Indices,
    /// How the first pass distributes its loop. The loops of other passes differ in their variable only.
    shared: SharedLoop,
    /// Whether the first pass loads it.
    is_read: bool,
    /// The phases whose passes use it, in order.
    phases: Vec<usize>,
    /// Registers that a thread needs for it.
    registers: i64,
}

/// The variable that stands for the position in a row.
const POSITION: LoopId = LoopId(u32::MAX);

/// Chooses the elements that fit into registers and records them in their passes. The result declares the
/// registers.
pub(crate) fn cache_rows(gpu: &mut Gpu, body: &[Stmt], phases: &mut [RowPhase]) -> Block {
    let (mut cached, mut declare) = (Vec::new(), Block::new());
    for element in candidates(gpu, body, phases) {
        if element.has_room(&cached, registers(gpu)) {
            let SharedLoop { threads, run, .. } = element.shared;
            let dims = [threads, element.shared.steps(), run].map(|dim| dim as usize);
            let dtype = gpu.names.node(element.node);
            let (local, stmt) = gpu.names.declare(dtype, dims.into_iter().collect(), Space::Thread);
            declare.push(stmt);
            element.put(local, phases);
            cached.push(element);
        }
    }
    declare
}

impl CachedElement {
    fn first(&self) -> usize {
        self.phases.first().copied().unwrap_or_default()
    }

    fn last(&self) -> usize {
        self.phases.last().copied().unwrap_or_default()
    }

    /// Whether the other cached elements leave enough registers for this one while it is live.
    fn has_room(&self, others: &[CachedElement], registers: i64) -> bool {
        (self.first()..self.last()).all(|phase| {
            let lives = |e: &&CachedElement| e.first() <= phase && phase < e.last();
            let taken: i64 = others.iter().filter(lives).map(|e| e.registers).sum();
            taken + self.registers <= registers
        })
    }

    /// The element's index, with the loop variables of a pass for [`POSITION`].
    fn index_in(&self, pass: &SharedPass) -> Indices {
        let at = |i: &Affine| {
            pass.shared.iter().fold(i.clone(), |i, l| i.substitute(POSITION, &Affine::var(l.var)))
        };
        self.index.iter().map(at).collect()
    }

    /// Records the element in the passes that use it. `local` is the register array that holds it.
    fn put(&self, local: LocalId, phases: &mut [RowPhase]) {
        for &at in &self.phases {
            let Some(pass) = phases[at].pass_mut() else { continue };
            let (index, loads) = (self.index_in(pass), self.is_read && at == self.first());
            pass.cached.push(RegisterElement { node: self.node, index, local, loads });
        }
    }
}

impl SharedPass {
    /// Replaces the cached elements of a block by registers and loads the ones that no earlier pass has
    /// loaded. Also returns the kind of the loop over the thread's steps: unrolled if elements are cached.
    pub(crate) fn in_registers(&self, share: &LoopShare, mut block: Block) -> (Block, LoopKind) {
        if self.cached.is_empty() {
            return (block, LoopKind::Serial);
        }
        let mut out = Block::new();
        for hold in &self.cached {
            walk::move_elements(&mut block, &mut |array, index| {
                let is_held = array == ArrayRef::Node(hold.node) && *index == hold.index;
                is_held.then(|| (ArrayRef::Local(hold.local), share.place()))
            });
            if hold.loads {
                let value = Expr::Get { node: hold.node, index: hold.index.clone() };
                out.push(Stmt::SetLocal { local: hold.local, index: share.place(), value });
            }
        }
        out.extend(block);
        (out, LoopKind::Unrolled)
    }
}

fn is_alike(a: &SharedLoop, b: &SharedLoop) -> bool {
    SharedLoop { var: b.var, ..*a } == *b
}

/// The candidates. The ones that need no memory at all come first.
fn candidates(gpu: &Gpu, body: &[Stmt], phases: &[RowPhase]) -> Vec<CachedElement> {
    let written = dependence::written(body);
    let mut found: Vec<CachedElement> = Vec::new();
    for (at, phase) in phases.iter().enumerate() {
        let Some((pass, shared)) = phase.pass().and_then(|pass| Some((pass, repeated(pass)?))) else {
            continue;
        };
        for (node, index) in positions(pass, shared.var) {
            let same =
                |e: &&mut CachedElement| e.node == node && e.index == index && is_alike(&e.shared, &shared);
            match found.iter_mut().find(same) {
                Some(element) => element.phases.push(at),
                None => found.push(CachedElement {
                    node,
                    index,
                    shared,
                    is_read: !written.contains(&node),
                    phases: vec![at],
                    registers: registers_of(gpu, node, &shared),
                }),
            }
        }
    }
    found.retain(|e| e.phases.len() > 1 && (e.is_read || is_apart(gpu, body, phases, e)));
    found.sort_by_key(|e| e.is_read);
    found
}

fn registers_of(gpu: &Gpu, node: NodeRef, shared: &SharedLoop) -> i64 {
    let words = gpu.names.node(node).size_bytes().div_ceil(4) as i64;
    words * shared.steps() * shared.run
}

/// The loop of a pass whose steps may be unrolled.
fn repeated(pass: &SharedPass) -> Option<SharedLoop> {
    let &[shared] = pass.shared.as_slice() else { return None };
    let mut values = 0usize;
    walk::parts_in(&pass.body).for_each(|e| {
        values += match e {
            Expr::Unary { op: UnaryOp::Sin | UnaryOp::Cos, .. } => 4 * TRANSCENDENTAL,
            Expr::Binary { op: BinaryOp::Pow, .. } => 4 * TRANSCENDENTAL,
            Expr::Unary { op: UnaryOp::Atan | UnaryOp::Erf | UnaryOp::Erfc, .. } => 2 * TRANSCENDENTAL,
            Expr::Unary { op, .. } if op.is_transcendental() => TRANSCENDENTAL,
            _ => 1,
        };
    });
    let positions = (shared.steps() * shared.run) as usize;
    (values.saturating_mul(positions) <= REPEATED).then_some(shared)
}

/// The elements that a pass reads or writes at an index that depends on its position and is otherwise
/// constant within the row. Guarded reads are left out, because their guard decides whether they access
/// memory.
fn positions(pass: &SharedPass, var: LoopId) -> BTreeSet<(NodeRef, Indices)> {
    let inner = walk::loops_in(&pass.body);
    let of_row = |index: &Indices| {
        index.iter().any(|i| i.mentions(var)) && !index.iter().any(|i| inner.iter().any(|&v| i.mentions(v)))
    };
    let mut found = BTreeSet::new();
    let mut note = |node: NodeRef, index: &Indices| {
        if of_row(index) {
            let at_position = |i: &Affine| i.substitute(var, &Affine::var(POSITION));
            found.insert((node, index.iter().map(at_position).collect()));
        }
    };
    walk::stmts(&pass.body).for_each(|stmt| {
        if let Stmt::Set { node, index, .. } = stmt {
            note(*node, index);
        }
    });
    walk::parts_in(&pass.body).for_each(|e| {
        if let Expr::Get { node, index } = e {
            note(*node, index);
        }
    });
    found
}

/// Whether only this kernel mentions a node, only at this element, only in the passes that use it, and with a
/// store first.
fn is_apart(gpu: &Gpu, body: &[Stmt], phases: &[RowPhase], element: &CachedElement) -> bool {
    let node = element.node;
    let everywhere = dependence::touches(body).into_iter().filter(|t| t.node == node);
    let stored_first = everywhere.clone().next().is_some_and(|t| t.write);
    let own = |pass: &SharedPass| {
        let index = element.index_in(pass);
        let is_own = |t: &dependence::Touch<'_>| t.node == node && t.index == Some(&index);
        dependence::touches(&pass.body).iter().filter(|t| is_own(t)).count()
    };
    let owned: usize = element.phases.iter().filter_map(|&at| phases[at].pass()).map(own).sum();
    gpu.owned.contains(&node) && stored_first && owned == everywhere.count() && !is_guarded(body, node)
}
