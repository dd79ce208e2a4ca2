//! The body of a routine while nodes are being inlined: who reads and who writes each node is looked up, not
//! searched for.
//!
//! A statement keeps its position from beginning to end; one that is dropped leaves a gap. One that
//! [`extend`](super::extend) makes of two stands at the position of the second, and is found by that of the
//! first as well.

use std::collections::{BTreeMap, BTreeSet};

use super::Effects;
use crate::ir::{Block, LocalDecl, Locals, NodeRef, Stmt, walk};
use crate::passes::cost;

/// The outermost statements with what they touch.
pub(super) struct IndexedBody {
    stmts: Vec<Option<Stmt>>,
    touches: Vec<StatementEffects>,
    places: MergedPositions,
    /// What statements that were joined with others were before.
    apart: BTreeMap<usize, Stmt>,
    readers: BTreeMap<NodeRef, BTreeSet<usize>>,
    writers: BTreeMap<NodeRef, BTreeSet<usize>>,
    /// Locals that outermost statements declare.
    locals: Locals,
}

/// What a statement touches.
#[derive(Default)]
pub(super) struct StatementEffects {
    /// The nodes it reads.
    pub(super) reads: BTreeSet<NodeRef>,
    /// The nodes it stores to.
    pub(super) writes: BTreeSet<NodeRef>,
    /// It stores to no locals but its own, and logs nothing.
    pub(super) keeps_to_nodes: bool,
    /// The number of parts of its values.
    pub(super) size: usize,
}

impl StatementEffects {
    fn of(stmt: &Stmt) -> StatementEffects {
        let stmts = std::slice::from_ref(stmt);
        let effects = Effects::of(stmts);
        let mut size = 0;
        walk::each_value(stmts, &mut |value| size += cost::size(value));
        let keeps_to_nodes = effects.local_writes.is_subset(&effects.declares) && !effects.logs;
        StatementEffects { reads: effects.reads, writes: effects.writes, keeps_to_nodes, size }
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

    /// What the statement at a position touches.
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

    /// Whether a statement from `from` to before `to` stores to the node.
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

    /// Makes one statement of the one at `setter`, which stores to `node` alone, and the one at `user`, which
    /// reads the node; `joined` makes it, and it reads and writes what the two do, but for the node. The work
    /// is that of the lesser of the two.
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
        of_user.keeps_to_nodes &= of_setter.keeps_to_nodes;
        let mut reads = of_setter.reads;
        reads.extend(std::mem::take(&mut of_user.reads));
        reads.remove(&node);
        of_user.reads = reads;
        self.places.join(setter, user);
    }

    /// What the statement at a position was before it was joined with others, if it was.
    pub(super) fn apart(&self, top: usize) -> Option<&Stmt> {
        self.apart.get(&top)
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

/// Where statements stand that may have become part of others.
#[derive(Default)]
struct MergedPositions {
    /// For each statement one that is part of the same, up to one that leads to itself.
    leads_to: Vec<usize>,
    /// Of those: how many statements lead there, and where they stand.
    count: Vec<usize>,
    stands: Vec<usize>,
    /// Which leader stands at each position.
    at: Vec<usize>,
}

impl MergedPositions {
    /// Another statement, behind the others.
    fn add(&mut self) {
        let at = self.at.len();
        self.leads_to.push(at);
        self.count.push(1);
        self.stands.push(at);
        self.at.push(at);
    }

    /// Where the statement is that was at a position in the beginning.
    fn of(&self, mut statement: usize) -> usize {
        while self.leads_to[statement] != statement {
            statement = self.leads_to[statement];
        }
        self.stands[statement]
    }

    /// What stands at `first` becomes part of what stands at `second`.
    fn join(&mut self, first: usize, second: usize) {
        let (a, b) = (self.at[first], self.at[second]);
        // The lesser follows the greater, so that no way is long.
        let (leader, other) = if self.count[a] >= self.count[b] { (a, b) } else { (b, a) };
        self.leads_to[other] = leader;
        self.count[leader] += self.count[other];
        self.stands[leader] = second;
        self.at[second] = leader;
    }
}
