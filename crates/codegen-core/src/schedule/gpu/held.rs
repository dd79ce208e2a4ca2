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

use super::super::access;
use super::Gpu;
use super::pieces::{Piece, Shared};
use super::rows::is_guarded;

/// Values, roughly, that a pass computes at most where its rounds are repeated in the code.
const REPEATED: usize = 3072;
/// As how many values a transcendental function counts; angles and powers take more.
const TRANSCENDENTAL: usize = 48;

/// A loop that threads share, and what its iterations do.
pub(super) struct Pass {
    pub(super) shared: Vec<Shared>,
    pub(super) body: Block,
}

/// What is held.
#[derive(Default)]
pub(super) struct Held {
    elements: Vec<Element>,
}

/// Elements of a node, one for each position in the row.
struct Element {
    node: NodeRef,
    /// With [`Held::POSITION`] for the position.
    index: Indices,
    /// How the loop of the first pass is shared; others differ in the variable only.
    shared: Shared,
    local: LocalId,
    /// Whether the first pass reads it from memory.
    is_read: bool,
    /// The first and the last pass.
    passes: (usize, usize),
    /// The loops of all of them. Others may look alike, and are not told apart otherwise: one that comes before the first pass, or that computes too much.
    loops: Vec<LoopId>,
    /// Registers of a thread.
    registers: i64,
}

/// Registers that threads may hold elements in.
pub(super) fn registers(gpu: &Gpu) -> i64 {
    // The others are for what is computed, and for the next loads.
    i64::from(gpu.workgroups.registers / 4)
}

impl Held {
    /// Stands for the position in a row.
    const POSITION: LoopId = LoopId(u32::MAX);

    /// What the passes of a workgroup's body hold, and its declarations; the passes are those of the body's statements.
    pub(super) fn of(gpu: &mut Gpu, body: &[Stmt], passes: &[Option<Pass>]) -> (Held, Block) {
        let (mut held, mut declare) = (Held::default(), Block::new());
        for mut element in candidates(gpu, body, passes) {
            if held.has_room(&element, registers(gpu)) {
                let Shared { threads, run, .. } = element.shared;
                let dims = [threads, element.shared.rounds(), run].map(|dim| dim as usize);
                let dtype = gpu.names.node(element.node);
                let (local, stmt) = gpu.names.declare(dtype, dims.into_iter().collect(), Space::Thread);
                element.local = local;
                declare.push(stmt);
                held.elements.push(element);
            }
        }
        (held, declare)
    }

    /// Whether there are registers for one more, in every pass and between passes.
    fn has_room(&self, element: &Element, registers: i64) -> bool {
        let (first, last) = element.passes;
        (first..last).all(|pass| {
            let lives = |e: &&Element| e.passes.0 <= pass && pass < e.passes.1;
            let taken: i64 = self.elements.iter().filter(lives).map(|e| e.registers).sum();
            taken + element.registers <= registers
        })
    }

    /// What a thread does for one position of a pass, with what is held in registers, and how it goes through rounds.
    pub(super) fn in_registers(&self, pass: &[Shared], piece: &Piece, block: Block) -> (Block, LoopKind) {
        let own = |e: &&Element| pass.len() == 1 && e.loops.contains(&pass[0].var);
        let elements: Vec<&Element> = self.elements.iter().filter(own).collect();
        let mut out = Block::new();
        let mut block = block;
        let mut found = false;
        for element in elements {
            let index: Indices = element
                .index
                .iter()
                .map(|i| i.substitute(Held::POSITION, &Affine::var(pass[0].var)))
                .collect();
            if !replace(&mut block, element, &index, &piece.place()) {
                continue;
            }
            found = true;
            if element.is_read && element.shared.var == pass[0].var {
                let value = Expr::Get { node: element.node, index };
                out.push(Stmt::SetLocal { local: element.local, index: piece.place(), value });
            }
        }
        out.extend(block);
        (out, if found { LoopKind::Unrolled } else { LoopKind::Serial })
    }
}

fn is_alike(a: &Shared, b: &Shared) -> bool {
    Shared { var: b.var, ..*a } == *b
}

/// Replaces an element by what holds it; gives whether it was there.
fn replace(block: &mut Block, element: &Element, index: &Indices, place: &Indices) -> bool {
    let mut found = false;
    for stmt in block.iter_mut() {
        walk::map_own_values(stmt, &mut |value| {
            walk::map_expr(value, &mut |e| match e {
                Expr::Get { node, index: at } if node == element.node && at == *index => {
                    found = true;
                    Expr::GetLocal { local: element.local, index: place.clone() }
                }
                other => other,
            })
        });
        match stmt {
            Stmt::For { body, .. } => found |= replace(body, element, index, place),
            Stmt::Set { node, index: at, value } if *node == element.node && at == index => {
                found = true;
                *stmt = Stmt::SetLocal { local: element.local, index: place.clone(), value: value.clone() };
            }
            _ => {}
        }
    }
    found
}

/// The elements that could be held, those first that take the place of memory.
fn candidates(gpu: &Gpu, body: &[Stmt], passes: &[Option<Pass>]) -> Vec<Element> {
    let written = access::written(body);
    let mut found: Vec<Element> = Vec::new();
    for (at, pass) in passes.iter().enumerate() {
        let Some((pass, shared)) = pass.as_ref().and_then(|pass| Some((pass, repeated(pass)?))) else {
            continue;
        };
        for (node, index) in positions(pass, shared.var) {
            let same = |e: &&mut Element| e.node == node && e.index == index && is_alike(&e.shared, &shared);
            match found.iter_mut().find(same) {
                Some(element) => {
                    element.passes.1 = at;
                    element.loops.push(shared.var);
                }
                None => found.push(Element {
                    node,
                    index,
                    shared,
                    local: LocalId(u32::MAX),
                    is_read: !written.contains(&node),
                    passes: (at, at),
                    loops: vec![shared.var],
                    registers: registers_of(gpu, node, &shared),
                }),
            }
        }
    }
    found.retain(|e| e.passes.0 < e.passes.1 && (e.is_read || is_apart(gpu, body, passes, e)));
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
            let at_position = |i: &Affine| i.substitute(var, &Affine::var(Held::POSITION));
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

/// Whether a node is the kernel's alone, and touched as this element only, in passes that are shared alike, a store first.
fn is_apart(gpu: &Gpu, body: &[Stmt], passes: &[Option<Pass>], element: &Element) -> bool {
    let node = element.node;
    let in_pass = |pass: &Pass| {
        let all = access::touches(&pass.body).into_iter().filter(|t| t.node == node).count();
        let Some(shared) = repeated(pass).filter(|shared| is_alike(shared, &element.shared)) else {
            return all == 0;
        };
        let own = |index: &Indices| {
            let at: Indices = element
                .index
                .iter()
                .map(|i| i.substitute(Held::POSITION, &Affine::var(shared.var)))
                .collect();
            *index == at
        };
        access::touches(&pass.body).iter().filter(|t| t.node == node).all(|t| t.index.is_some_and(own))
    };
    let everywhere = body.iter().zip(passes).all(|(stmt, pass)| match pass {
        Some(pass) => in_pass(pass),
        None => !access::nodes(std::slice::from_ref(stmt)).contains(&node),
    });
    let stored_first = access::touches(body).iter().find(|t| t.node == node).is_some_and(|t| t.write);
    gpu.owned.contains(&node) && everywhere && stored_first && !is_guarded(body, node)
}
