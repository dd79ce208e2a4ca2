//! The body of a routine while nodes are being inlined: who reads and who writes each node is looked up, not searched for.
//!
//! A statement keeps its position from beginning to end; one that is dropped leaves a gap.

use std::collections::{BTreeMap, BTreeSet};

use super::Effects;
use crate::ir::{Block, LocalDecl, Locals, NodeRef, Stmt};

/// The outermost statements with what they touch.
pub(super) struct Body {
    stmts: Vec<Option<Stmt>>,
    effects: Vec<Effects>,
    readers: BTreeMap<NodeRef, BTreeSet<usize>>,
    writers: BTreeMap<NodeRef, BTreeSet<usize>>,
    /// Locals that outermost statements declare.
    locals: Locals,
}

impl Body {
    pub(super) fn new(block: Block) -> Body {
        let mut body = Body {
            stmts: Vec::new(),
            effects: Vec::new(),
            readers: BTreeMap::new(),
            writers: BTreeMap::new(),
            locals: Locals::new(),
        };
        for stmt in block {
            if let Stmt::Declare { local, dtype, dims, space } = &stmt {
                let decl = LocalDecl { dtype: *dtype, dims: dims.clone(), space: *space };
                body.locals.insert(*local, decl);
            }
            body.stmts.push(None);
            body.effects.push(Effects::default());
            body.replace(body.stmts.len() - 1, Some(stmt));
        }
        body
    }

    /// The statement at a position.
    pub(super) fn stmt(&self, top: usize) -> Option<&Stmt> {
        self.stmts.get(top)?.as_ref()
    }

    /// The positions of the statements that store to the node, in order.
    pub(super) fn writers(&self, node: NodeRef) -> impl Iterator<Item = usize> {
        self.writers.get(&node).into_iter().flatten().copied()
    }

    /// The positions of the statements that read the node, in order.
    pub(super) fn readers(&self, node: NodeRef) -> impl Iterator<Item = usize> {
        self.readers.get(&node).into_iter().flatten().copied()
    }

    /// Whether a statement from `from` to before `to` stores to the node.
    pub(super) fn is_written_between(&self, node: NodeRef, from: usize, to: usize) -> bool {
        self.writers.get(&node).is_some_and(|tops| tops.range(from..to.max(from)).next().is_some())
    }

    /// Whether the statement does nothing but store to this node.
    pub(super) fn sets_alone(&self, top: usize, node: NodeRef) -> bool {
        let effects = &self.effects[top];
        let inside = effects.local_writes.is_subset(&effects.declares);
        effects.writes.iter().eq([&node]) && inside && !effects.logs
    }

    /// The locals that outermost statements declare.
    pub(super) fn locals(&self) -> &Locals {
        &self.locals
    }

    /// Puts another statement, or none, in place of the one at a position.
    pub(super) fn replace(&mut self, top: usize, stmt: Option<Stmt>) {
        let effects = stmt.as_ref().map_or_else(Effects::default, |s| Effects::of(std::slice::from_ref(s)));
        let old = std::mem::replace(&mut self.effects[top], effects);
        let new = &self.effects[top];
        move_entries(&mut self.readers, top, &old.reads, &new.reads);
        move_entries(&mut self.writers, top, &old.writes, &new.writes);
        self.stmts[top] = stmt;
    }

    /// The statements that are left.
    pub(super) fn into_block(self) -> Block {
        self.stmts.into_iter().flatten().collect()
    }
}

fn move_entries(
    table: &mut BTreeMap<NodeRef, BTreeSet<usize>>,
    top: usize,
    old: &BTreeSet<NodeRef>,
    new: &BTreeSet<NodeRef>,
) {
    for node in old.difference(new) {
        if let Some(tops) = table.get_mut(node) {
            tops.remove(&top);
        }
    }
    for node in new.difference(old) {
        table.entry(*node).or_default().insert(top);
    }
}
