//! Elements of rows that threads hold in registers from one pass to the next.
//!
//! A *pass* is a loop over a row that the threads of a workgroup share. Passes that share it out alike give each thread the same elements
//! every time, so what several of them read is read from memory once, and what one of them stores for others needs no memory:
//!
//! * a node that nothing in the kernel writes, read at one index in several passes, is read in the first of them;
//! * a local node that the kernel alone mentions, at one index and in such passes only, is in registers altogether.
//!
//! The index is the position in the row in one dimension or more, and what is the same for the whole row. Rounds are repeated in the code
//! of passes that hold something, as registers have no addresses; so rows are short, and what is done to an element is.

use std::collections::BTreeSet;

use lowered_ir::ir::UnaryOp::{Exp, Exp2, Log, Log2, Tanh};
use lowered_ir::ir::{
    Affine, BinaryOp, Block, Expr, Indices, LocalId, LoopId, LoopKind, NodeRef, Space, Stmt, Types, UnaryOp,
    walk,
};

use crate::gpu::Gpu;
use crate::gpu::phases::{Pass, Phase};
use crate::gpu::pieces::{Piece, Shared};
use crate::gpu::rows::is_guarded;
use codegen_core::access;

/// Values, roughly, that a pass computes at most where its rounds are repeated in the code.
const REPEATED: usize = 3072;
/// As how many values a transcendental function counts; angles and powers take more.
const TRANSCENDENTAL: usize = 48;

/// An element that a pass has in registers.
pub(crate) struct Hold {
    node: NodeRef,
    index: Indices,
    local: LocalId,
    /// Whether the pass reads it from memory first.
    loads: bool,
}

/// Elements of a node, one for each position in the row.
struct Element {
    node: NodeRef,
    /// With [`POSITION`] for the position.
    index: Indices,
    /// How the loop of the first pass is shared; others differ in the variable only.
    shared: Shared,
    /// Whether the first pass reads it from memory.
    is_read: bool,
    /// The phases whose passes have it, the first first.
    phases: Vec<usize>,
    /// Registers of a thread.
    registers: i64,
}

/// Stands for the position in a row.
const POSITION: LoopId = LoopId(u32::MAX);

/// Registers that threads may hold elements in.
pub(crate) fn registers(gpu: &Gpu) -> i64 {
    // The others are for what is computed, and for the next loads.
    i64::from(gpu.workgroups.registers / 4)
}

/// Has the phases of a workgroup's body hold what they can; what declares the registers.
pub(crate) fn hold(gpu: &mut Gpu, body: &[Stmt], phases: &mut [Phase]) -> Block {
    let (mut held, mut declare) = (Vec::new(), Block::new());
    for element in candidates(gpu, body, phases) {
        if element.has_room(&held, registers(gpu)) {
            let Shared { threads, run, .. } = element.shared;
            let dims = [threads, element.shared.rounds(), run].map(|dim| dim as usize);
            let dtype = gpu.names.node(element.node);
            let (local, stmt) = gpu.names.declare(dtype, dims.into_iter().collect(), Space::Thread);
            declare.push(stmt);
            element.put(local, phases);
            held.push(element);
        }
    }
    declare
}

impl Element {
    fn first(&self) -> usize {
        self.phases.first().copied().unwrap_or_default()
    }

    fn last(&self) -> usize {
        self.phases.last().copied().unwrap_or_default()
    }

    /// Whether there are registers for it besides the others, in every phase and between phases.
    fn has_room(&self, others: &[Element], registers: i64) -> bool {
        (self.first()..self.last()).all(|phase| {
            let lives = |e: &&Element| e.first() <= phase && phase < e.last();
            let taken: i64 = others.iter().filter(lives).map(|e| e.registers).sum();
            taken + self.registers <= registers
        })
    }

    /// The index in a pass over a row.
    fn index_in(&self, pass: &Pass) -> Indices {
        let at = |i: &Affine| {
            pass.shared.iter().fold(i.clone(), |i, l| i.substitute(POSITION, &Affine::var(l.var)))
        };
        self.index.iter().map(at).collect()
    }

    /// Lets the passes find it in `local`.
    fn put(&self, local: LocalId, phases: &mut [Phase]) {
        for &at in &self.phases {
            let Some(pass) = phases[at].pass_mut() else { continue };
            let (index, loads) = (self.index_in(pass), self.is_read && at == self.first());
            pass.holds.push(Hold { node: self.node, index, local, loads });
        }
    }
}

impl Pass {
    /// What a thread does for one position, with what is held in registers, and how it goes through rounds.
    pub(crate) fn in_registers(&self, piece: &Piece, mut block: Block) -> (Block, LoopKind) {
        if self.holds.is_empty() {
            return (block, LoopKind::Serial);
        }
        let mut out = Block::new();
        for hold in &self.holds {
            replace(&mut block, hold, &piece.place());
            if hold.loads {
                let value = Expr::Get { node: hold.node, index: hold.index.clone() };
                out.push(Stmt::SetLocal { local: hold.local, index: piece.place(), value });
            }
        }
        out.extend(block);
        (out, LoopKind::Unrolled)
    }
}

fn is_alike(a: &Shared, b: &Shared) -> bool {
    Shared { var: b.var, ..*a } == *b
}

/// Replaces an element by what holds it.
fn replace(block: &mut Block, hold: &Hold, place: &Indices) {
    for stmt in block.iter_mut() {
        walk::map_own_values(stmt, &mut |value| {
            walk::map_expr(value, &mut |e| match e {
                Expr::Get { node, index } if node == hold.node && index == hold.index => {
                    Expr::GetLocal { local: hold.local, index: place.clone() }
                }
                other => other,
            })
        });
        match stmt {
            Stmt::For { body, .. } => replace(body, hold, place),
            Stmt::Set { node, index, value } if *node == hold.node && *index == hold.index => {
                *stmt = Stmt::SetLocal { local: hold.local, index: place.clone(), value: value.clone() };
            }
            _ => {}
        }
    }
}

/// The elements that could be held, those first that take the place of memory.
fn candidates(gpu: &Gpu, body: &[Stmt], phases: &[Phase]) -> Vec<Element> {
    let written = access::written(body);
    let mut found: Vec<Element> = Vec::new();
    for (at, phase) in phases.iter().enumerate() {
        let Some((pass, shared)) = phase.pass().and_then(|pass| Some((pass, repeated(pass)?))) else {
            continue;
        };
        for (node, index) in positions(pass, shared.var) {
            let same = |e: &&mut Element| e.node == node && e.index == index && is_alike(&e.shared, &shared);
            match found.iter_mut().find(same) {
                Some(element) => element.phases.push(at),
                None => found.push(Element {
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

fn registers_of(gpu: &Gpu, node: NodeRef, shared: &Shared) -> i64 {
    let words = gpu.names.node(node).size_bytes().div_ceil(4) as i64;
    words * shared.rounds() * shared.run
}

/// The loop of a pass whose rounds may be repeated in the code.
fn repeated(pass: &Pass) -> Option<Shared> {
    let &[shared] = pass.shared.as_slice() else { return None };
    let mut values = 0usize;
    walk::each_value(&pass.body, &mut |value| {
        walk::each_expr(value, &mut |e| {
            values += match e {
                Expr::Unary { op: UnaryOp::Sin | UnaryOp::Cos, .. } => 4 * TRANSCENDENTAL,
                Expr::Binary { op: BinaryOp::Pow, .. } => 4 * TRANSCENDENTAL,
                Expr::Unary { op: Exp | Exp2 | Log | Log2 | Tanh, .. } => TRANSCENDENTAL,
                _ => 1,
            };
        });
    });
    let positions = (shared.rounds() * shared.run) as usize;
    (values.saturating_mul(positions) <= REPEATED).then_some(shared)
}

/// The elements that a pass reads or writes at its position, and at what is the same for the whole row. Reads under a guard touch memory, or do
/// not, as they say.
fn positions(pass: &Pass, var: LoopId) -> BTreeSet<(NodeRef, Indices)> {
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
    walk::each_stmt(&pass.body, &mut |stmt| {
        if let Stmt::Set { node, index, .. } = stmt {
            note(*node, index);
        }
    });
    walk::each_value(&pass.body, &mut |value| {
        walk::each_expr(value, &mut |e| {
            if let Expr::Get { node, index } = e {
                note(*node, index);
            }
        });
    });
    found
}

/// Whether a node is the kernel's alone, and touched as this element only, in the passes that have it, a store first.
fn is_apart(gpu: &Gpu, body: &[Stmt], phases: &[Phase], element: &Element) -> bool {
    let node = element.node;
    let everywhere = access::touches(body).into_iter().filter(|t| t.node == node);
    let stored_first = everywhere.clone().next().is_some_and(|t| t.write);
    let own = |pass: &Pass| {
        let index = element.index_in(pass);
        let is_own = |t: &access::Touch<'_>| t.node == node && t.index == Some(&index);
        access::touches(&pass.body).iter().filter(|t| is_own(t)).count()
    };
    let owned: usize = element.phases.iter().filter_map(|&at| phases[at].pass()).map(own).sum();
    gpu.owned.contains(&node) && stored_first && owned == everywhere.count() && !is_guarded(body, node)
}
