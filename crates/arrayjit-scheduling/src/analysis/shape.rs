//! Shapes: statements that are equal but for their names.
//!
//! The layers of a model, and the parts of its gradient, are statements that differ in nodes, loops, locals
//! and comments only. What a pass finds out about one of them holds for the others under their names.

use std::hash::Hash;

use lowered_ir::ir::{
    Affine, Expr, IdMap, Indices, LocalId, Locals, LogPart, LoopId, NodeRef, Stmt, Types, Var, Words,
};

use crate::analysis::names::Names;
use crate::analysis::rename::Renaming;

/// The shape of a statement, and the names in it.
#[derive(Clone)]
pub(crate) struct Shape {
    /// The number of the shape.
    pub(crate) id: u32,
    pub(crate) names: ShapeNames,
}

/// Names in the order in which they first occur.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct ShapeNames {
    pub(crate) nodes: Vec<NodeRef>,
    loops: Vec<LoopId>,
    locals: Vec<LocalId>,
    /// The locals that are declared elsewhere.
    pub(crate) free: Vec<LocalId>,
    /// The texts of comments.
    remarks: Vec<String>,
}

/// Numbers shapes. Statements of one shape have equal words.
#[derive(Default)]
pub(crate) struct ShapeTable(IdMap<Vec<u64>, u32>);

impl ShapeTable {
    /// The shape of a statement that stands in no loop.
    pub(crate) fn shape(&mut self, stmt: &Stmt, names: &Names, locals: &Locals) -> Shape {
        let mut encoder = Encoder {
            names,
            locals,
            words: Words::default(),
            found: ShapeNames::default(),
            positions: NamePositions::default(),
        };
        encoder.stmt(stmt);
        let Encoder { words, found, .. } = encoder;
        let next = self.0.len() as u32;
        Shape { id: *self.0.entry(words.0).or_insert(next), names: found }
    }
}

impl ShapeNames {
    /// Adds the names of another statement.
    pub(crate) fn extend(&mut self, other: &ShapeNames) {
        self.nodes.extend(&other.nodes);
        self.loops.extend(&other.loops);
        self.locals.extend(&other.locals);
        self.free.extend(&other.free);
        self.remarks.extend_from_slice(&other.remarks);
    }

    /// Adds a comment.
    pub(crate) fn remark(&mut self, stmt: &Stmt) {
        if let Stmt::Comment(text) = stmt {
            self.remarks.push(text.clone());
        }
    }

    /// These names by other ones.
    pub(crate) fn renamed(&self, names: &mut impl Renaming) -> ShapeNames {
        let mut remarks = self.remarks.clone();
        remarks.iter_mut().for_each(|text| names.remark(text));
        ShapeNames {
            nodes: self.nodes.iter().map(|&node| names.node(node, false)).collect(),
            loops: self.loops.iter().map(|&var| names.loop_var(var)).collect(),
            locals: self.locals.iter().map(|&local| names.local(local)).collect(),
            free: self.free.iter().map(|&local| names.local(local)).collect(),
            remarks,
        }
    }
}

/// Maps the names of one statement to those of another statement of the same shape.
pub(crate) struct Instance {
    nodes: IdMap<NodeRef, NodeRef>,
    loops: IdMap<LoopId, LoopId>,
    locals: IdMap<LocalId, LocalId>,
    remarks: IdMap<String, String>,
}

impl Instance {
    pub(crate) fn new(from: &ShapeNames, to: &ShapeNames) -> Instance {
        let pairs = |from: &[LocalId], to: &[LocalId]| -> Vec<(LocalId, LocalId)> {
            from.iter().copied().zip(to.iter().copied()).collect()
        };
        Instance {
            nodes: from.nodes.iter().copied().zip(to.nodes.iter().copied()).collect(),
            loops: from.loops.iter().copied().zip(to.loops.iter().copied()).collect(),
            locals: pairs(&from.locals, &to.locals).into_iter().chain(pairs(&from.free, &to.free)).collect(),
            remarks: from.remarks.iter().cloned().zip(to.remarks.iter().cloned()).collect(),
        }
    }
}

impl Renaming for Instance {
    fn node(&mut self, node: NodeRef, _: bool) -> NodeRef {
        self.nodes.get(&node).copied().unwrap_or(node)
    }

    fn loop_var(&mut self, var: LoopId) -> LoopId {
        self.loops.get(&var).copied().unwrap_or(var)
    }

    fn local(&mut self, local: LocalId) -> LocalId {
        self.locals.get(&local).copied().unwrap_or(local)
    }

    fn remark(&mut self, text: &mut String) {
        if let Some(new) = self.remarks.get(text) {
            text.clone_from(new);
        }
    }
}

/// Replaces the texts of comments by different numbers. Returns the texts.
pub(crate) fn number_remarks(block: &mut [Stmt]) -> Vec<String> {
    let mut texts = Vec::new();
    each_remark(block, &mut |text| {
        let number = texts.len().to_string();
        texts.push(std::mem::replace(text, number));
    });
    texts
}

/// Replaces numbers by the texts of comments.
pub(crate) fn restore_remarks(block: &mut [Stmt], texts: &[String]) {
    each_remark(block, &mut |text| {
        if let Some(known) = text.parse().ok().and_then(|at: usize| texts.get(at)) {
            text.clone_from(known);
        }
    });
}

fn each_remark(block: &mut [Stmt], f: &mut impl FnMut(&mut String)) {
    for stmt in block {
        match stmt {
            Stmt::Comment(text) => f(text),
            Stmt::For { body, .. } => each_remark(body, f),
            _ => {}
        }
    }
}

/// Writes a statement as words in which names are their positions.
struct Encoder<'a> {
    names: &'a Names,
    locals: &'a Locals,
    words: Words,
    found: ShapeNames,
    positions: NamePositions,
}

/// The position of each name among those found.
#[derive(Default)]
struct NamePositions {
    nodes: IdMap<NodeRef, usize>,
    loops: IdMap<LoopId, usize>,
    locals: IdMap<LocalId, usize>,
}

impl Encoder<'_> {
    fn stmt(&mut self, stmt: &Stmt) {
        std::mem::discriminant(stmt).hash(&mut self.words);
        match stmt {
            Stmt::For { var, lo, hi, kind, body } => {
                (lo, hi.limit, kind, hi.clips().len(), body.len()).hash(&mut self.words);
                hi.clips().iter().for_each(|clip| self.index(clip));
                self.positions.loops.insert(*var, self.found.loops.len());
                self.found.loops.push(*var);
                body.iter().for_each(|stmt| self.stmt(stmt));
            }
            Stmt::Set { node, index, .. } => self.element(*node, index),
            Stmt::SetDynamic { node, index, axis, op, .. } => {
                (axis, op).hash(&mut self.words);
                self.element(*node, index);
            }
            Stmt::Zero { node } => self.node(*node),
            Stmt::Declare { local, dtype, dims, space } => {
                (dtype, dims, space).hash(&mut self.words);
                self.positions.locals.insert(*local, self.found.locals.len());
                self.found.locals.push(*local);
            }
            Stmt::SetLocal { local, index, .. } => {
                self.local(*local);
                self.indices(index);
            }
            Stmt::Comment(_) => self.found.remark(stmt),
            Stmt::Log { parts } => {
                parts.len().hash(&mut self.words);
                parts.iter().for_each(|part| match part {
                    LogPart::Text(text) => text.hash(&mut self.words),
                    LogPart::Value(_) => usize::MAX.hash(&mut self.words),
                });
            }
        }
        stmt.values().for_each(|value| self.expr(value));
    }

    fn expr(&mut self, expr: &Expr) {
        std::mem::discriminant(expr).hash(&mut self.words);
        match expr {
            Expr::Const(scalar) => scalar.hash(&mut self.words),
            Expr::Index { index, dtype } => {
                dtype.hash(&mut self.words);
                self.index(index);
            }
            Expr::Get { node, index } | Expr::GetMerge { node, index } => self.element(*node, index),
            Expr::GetGuarded { guard, node, index, .. } => {
                guard.len().hash(&mut self.words);
                for range in guard {
                    (range.lo, range.hi).hash(&mut self.words);
                    self.index(&range.index);
                }
                self.element(*node, index);
            }
            Expr::GetDynamic { node, index, axis, .. } => {
                axis.hash(&mut self.words);
                self.element(*node, index);
            }
            Expr::GetLocal { local, index } => {
                self.local(*local);
                self.indices(index);
            }
            Expr::Unary { op, .. } => op.hash(&mut self.words),
            Expr::Binary { op, .. } => op.hash(&mut self.words),
            Expr::Ternary { op, .. } => op.hash(&mut self.words),
            Expr::Convert { to, .. } | Expr::Bitcast { to, .. } => to.hash(&mut self.words),
            Expr::Lane { lane, .. } => lane.hash(&mut self.words),
            Expr::Lanes(_) => {}
        }
        expr.children().into_iter().for_each(|child| self.expr(child));
    }

    fn element(&mut self, node: NodeRef, index: &Indices) {
        self.node(node);
        self.indices(index);
    }

    fn node(&mut self, node: NodeRef) {
        let next = self.found.nodes.len();
        let position = *self.positions.nodes.entry(node).or_insert(next);
        position.hash(&mut self.words);
        if position == next {
            self.found.nodes.push(node);
            (self.names.node(node), self.names.dims(node)).hash(&mut self.words);
        }
    }

    fn local(&mut self, local: LocalId) {
        if let Some(position) = self.positions.locals.get(&local) {
            return position.hash(&mut self.words);
        }
        let known = self.found.free.iter().position(|&free| free == local);
        let position = known.unwrap_or(self.found.free.len());
        (usize::MAX, position).hash(&mut self.words);
        if known.is_none() {
            self.found.free.push(local);
            let decl = self.locals.get(&local);
            decl.map(|decl| (decl.dtype, &decl.dims, decl.space)).hash(&mut self.words);
        }
    }

    fn indices(&mut self, indices: &Indices) {
        indices.len().hash(&mut self.words);
        indices.iter().for_each(|index| self.index(index));
    }

    fn index(&mut self, index: &Affine) {
        (index.offset(), index.terms().len()).hash(&mut self.words);
        for &(var, coefficient) in index.terms() {
            // A loop outside of the statement has no position.
            match var {
                Var::Loop(id) => {
                    self.positions.loops.get(&id).map_or((2, id.index()), |&position| (0, position))
                }
                Var::Symbol(id) => (1, id.index()),
            }
            .hash(&mut self.words);
            coefficient.hash(&mut self.words);
        }
    }
}
