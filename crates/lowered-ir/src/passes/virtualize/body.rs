//! The body of a routine during inlining, indexed by the readers and writers of each node.
//!
//! A statement keeps its position throughout; a dropped statement leaves a gap. A statement that
//! [`extend`](super::extend) fuses from two stands at the position of the second, and is also found by the
//! position of the first.

use std::collections::{BTreeMap, BTreeSet};

use super::Effects;
use crate::ir::{Block, IdSet, LocalDecl, Locals, NodeRef, Stmt, walk};
use crate::passes::cost;

/// The outermost statements with their effects.
pub(super) struct IndexedBody {
    stmts: Vec<Option<Stmt>>,
    touches: Vec<StatementEffects>,
    places: MergedPositions,
    /// The original form of statements that other statements were fused into.
    apart: BTreeMap<usize, Stmt>,
    readers: BTreeMap<NodeRef, BTreeSet<usize>>,
    writers: BTreeMap<NodeRef, BTreeSet<usize>>,
    /// Locals that outermost statements declare.
    locals: Locals,
}

/// The nodes that a statement accesses, and its size.
#[derive(Default)]
pub(super) struct StatementEffects {
    pub(super) reads: IdSet<NodeRef>,
    /// The nodes it stores to.
    pub(super) writes: IdSet<NodeRef>,
    /// It stores to no locals except those that it declares, and logs nothing.
    pub(super) keeps_to_nodes: bool,
    /// The number of parts of its values.
    pub(super) size: usize,
    /// The work of evaluating its values once.
    pub(super) cost: u64,
}

impl StatementEffects {
    fn of(stmt: &Stmt) -> StatementEffects {
        let stmts = std::slice::from_ref(stmt);
        let effects = Effects::of(stmts);
        let (mut size, mut cost) = (0, 0);
        walk::values(stmts).for_each(|value| {
            size += cost::size(value);
            cost += cost::cost(value);
        });
        let keeps_to_nodes = effects.local_writes.is_subset(&effects.declares) && !effects.logs;
        StatementEffects { reads: effects.reads, writes: effects.writes, keeps_to_nodes, size, cost }
    }
}

impl IndexedBody {
    pub(super) fn new(block: Block) -> IndexedBody {
        let mut body = IndexedBody {
            stmts: Vec::new(),
            touches: Vec::new(),
            places: MergedPositions::default(),
            apart: BTreeMap::new(),
            readers: BTreeMap::new(),
            writers: BTreeMap::new(),
            locals: Locals::new(),
        };
        for stmt in block {
            if let Stmt::Declare { local, dtype, dims, space } = &stmt {
                let decl = LocalDecl { dtype: *dtype, dims: dims.clone(), space: *space };
                body.locals.insert(*local, decl);
            }
            body.places.add();
            body.stmts.push(None);
            body.touches.push(StatementEffects::default());
            body.replace(body.stmts.len() - 1, Some(stmt));
        }
        body
    }

    /// The statement at a position.
    pub(super) fn stmt(&self, top: usize) -> Option<&Stmt> {
        self.stmts.get(top)?.as_ref()
    }

    /// The effects of the statement at a position.
    pub(super) fn touches(&self, top: usize) -> &StatementEffects {
        &self.touches[top]
    }

    /// The positions of the statements that store to the node, in order.
    pub(super) fn writers(&self, node: NodeRef) -> impl Iterator<Item = usize> {
        self.writers.get(&node).into_iter().flatten().copied()
    }

    /// The positions of the statements that read the node, in order.
    pub(super) fn readers(&self, node: NodeRef) -> impl Iterator<Item = usize> {
        let known = self.readers.get(&node).into_iter().flatten();
        let present: BTreeSet<usize> = known.map(|&top| self.places.of(top)).collect();
        present.into_iter().filter(move |&top| self.touches[top].reads.contains(&node))
    }

    /// Whether a statement from `from` up to, but not including, `to` stores to the node.
    pub(super) fn is_written_between(&self, node: NodeRef, from: usize, to: usize) -> bool {
        self.writers.get(&node).is_some_and(|tops| tops.range(from..to.max(from)).next().is_some())
    }

    /// Whether the statement does nothing but store to this node.
    pub(super) fn sets_alone(&self, top: usize, node: NodeRef) -> bool {
        let touches = &self.touches[top];
        touches.writes.iter().eq([&node]) && touches.keeps_to_nodes
    }

    /// The locals that outermost statements declare.
    pub(super) fn locals(&self) -> &Locals {
        &self.locals
    }

    /// Puts another statement, or none, in place of the one at a position.
    pub(super) fn replace(&mut self, top: usize, stmt: Option<Stmt>) {
        let touches = stmt.as_ref().map_or_else(StatementEffects::default, StatementEffects::of);
        let old = std::mem::replace(&mut self.touches[top], touches);
        let new = &self.touches[top];
        move_entries(&mut self.readers, top, &old.reads, &new.reads);
        move_entries(&mut self.writers, top, &old.writes, &new.writes);
        self.stmts[top] = stmt;
    }

    /// Replaces the statement at `setter`, which stores to `node` alone, and the statement at `user`, which
    /// reads the node, by the statement that `joined` makes of them. It has the effects of both, without
    /// accesses to the node. The cost is proportional to the smaller of the two.
    pub(super) fn join(
        &mut self,
        node: NodeRef,
        setter: usize,
        user: usize,
        joined: impl FnOnce(Stmt, Stmt) -> Stmt,
    ) {
        let (Some(first), Some(second)) = (self.stmts[setter].take(), self.stmts[user].take()) else {
            return;
        };
        self.apart.entry(user).or_insert_with(|| second.clone());
        self.stmts[user] = Some(joined(first, second));
        self.writers.remove(&node);
        self.readers.remove(&node);
        let of_setter = std::mem::take(&mut self.touches[setter]);
        let of_user = &mut self.touches[user];
        of_user.size += of_setter.size;
        of_user.cost += of_setter.cost;
        of_user.keeps_to_nodes &= of_setter.keeps_to_nodes;
        let (mut reads, mut fewer) = (of_setter.reads, std::mem::take(&mut of_user.reads));
        if reads.len() < fewer.len() {
            std::mem::swap(&mut reads, &mut fewer);
        }
        for read in fewer {
            reads.insert(read);
        }
        reads.remove(&node);
        of_user.reads = reads;
        self.places.join(setter, user);
    }

    /// The original form of the statement at a position, if others were fused into it.
    pub(super) fn apart(&self, top: usize) -> Option<&Stmt> {
        self.apart.get(&top)
    }

    /// Returns the remaining statements, in order.
    pub(super) fn into_block(self) -> Block {
        self.stmts.into_iter().flatten().collect()
    }
}

fn move_entries(
    table: &mut BTreeMap<NodeRef, BTreeSet<usize>>,
    top: usize,
    old: &IdSet<NodeRef>,
    new: &IdSet<NodeRef>,
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

/// The positions of statements after fusion, as a union-find structure.
#[derive(Default)]
struct MergedPositions {
    /// For each statement, its parent in the union-find forest; a root is its own parent.
    leads_to: Vec<usize>,
    /// For each root: the size of its tree, and the position of the fused statement.
    count: Vec<usize>,
    stands: Vec<usize>,
    /// The root at each position.
    at: Vec<usize>,
}

impl MergedPositions {
    /// Adds a statement behind the others.
    fn add(&mut self) {
        let at = self.at.len();
        self.leads_to.push(at);
        self.count.push(1);
        self.stands.push(at);
        self.at.push(at);
    }

    /// The present position of the statement that was at a position originally.
    fn of(&self, mut statement: usize) -> usize {
        while self.leads_to[statement] != statement {
            statement = self.leads_to[statement];
        }
        self.stands[statement]
    }

    /// Merges the statement at position `first` into the one at `second`.
    fn join(&mut self, first: usize, second: usize) {
        let (a, b) = (self.at[first], self.at[second]);
        // The smaller tree becomes a child of the larger one, so that paths stay short.
        let (leader, other) = if self.count[a] >= self.count[b] { (a, b) } else { (b, a) };
        self.leads_to[other] = leader;
        self.count[leader] += self.count[other];
        self.stands[leader] = second;
        self.at[second] = leader;
    }
}
