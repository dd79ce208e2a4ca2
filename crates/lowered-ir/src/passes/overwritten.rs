//! Dead store elimination: removes stores that are overwritten before they are read.
//!
//! * Whole nodes: the stores of a top-level statement to a node are removed if the statements after it
//!   certainly write every element before they read any, by exact access analysis. So a node that is zeroed,
//!   or filled, and then written completely, in one part or in several, is not zeroed.
//! * Single elements and scalar locals: a store is removed if its block stores to the same place again before
//!   any read, or zeroes the node, or if the local's block ends without a read.
//!
//! The initial zero of a local is not removed if the local is written first: code generators detect that
//! themselves.
//!
//! # Invariants
//! * Every read has the same bits as before, and so have the nodes after a run.
//! * The routine writes the same set of nodes, since the later store stays.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::ir::{Block, Indices, LocalId, LoweredRoutine, NodeRef, Stmt, walk};

use super::access::NodeTracker;
use super::effects::Effects;
use super::ranges::Ranges;

/// The maximum number of following mentions of a node that are examined. A statement that overwrites a node
/// nearly always is among the next ones; beyond the limit the node counts as read.
const REACH: usize = 128;

/// Removes the overwritten stores; returns whether there were any.
pub(super) fn remove_overwritten(routine: &mut LoweredRoutine) -> bool {
    let nodes = remove_overwritten_nodes(routine);
    let before = count(&routine.body);
    let body = std::mem::take(&mut routine.body);
    routine.body = without_overwritten_elements(body);
    nodes || count(&routine.body) < before
}

fn count(block: &[Stmt]) -> usize {
    walk::stmts(block).count()
}

/// Removes overwritten stores to whole nodes; returns whether there were any.
fn remove_overwritten_nodes(routine: &mut LoweredRoutine) -> bool {
    let ranges = Ranges::of(routine);
    let mut body: Vec<Option<Stmt>> = std::mem::take(&mut routine.body).into_iter().map(Some).collect();
    let mut changed = false;
    for (node, mentions) in mentions(&body) {
        for (k, &(position, writes)) in mentions.iter().enumerate().rev().skip(1) {
            if !writes {
                continue;
            }
            let after = mentions[k + 1..].iter().filter_map(|&(at, _)| body[at].as_ref());
            let dead = overwrite(after, NodeTracker::new(routine, &ranges, node))
                && body[position].as_ref().is_some_and(|stmt| {
                    let mut own = NodeTracker::new(routine, &ranges, node);
                    own.follow(stmt);
                    own.reads().iter().all(|read| read.into == Some(node))
                });
            if dead {
                changed = true;
                body[position] = body[position].take().and_then(|stmt| without_stores(stmt, node));
            }
        }
    }
    routine.body = body.into_iter().flatten().collect();
    changed
}

/// For each written node, the positions of the top-level statements that mention it, each with whether it
/// writes the node.
fn mentions(body: &[Option<Stmt>]) -> BTreeMap<NodeRef, Vec<(usize, bool)>> {
    let mut mentions: BTreeMap<NodeRef, Vec<(usize, bool)>> = BTreeMap::new();
    for (at, stmt) in body.iter().enumerate() {
        let Effects { reads, writes, .. } = Effects::of(stmt.as_slice());
        let mut touched = reads;
        touched.extend(&writes);
        for &node in &touched {
            mentions.entry(node).or_default().push((at, writes.contains(&node)));
        }
    }
    mentions.retain(|_, mentions| mentions.iter().any(|&(_, writes)| writes));
    mentions
}

/// Whether the statements certainly write every element of the node before they read any.
fn overwrite<'a>(stmts: impl Iterator<Item = &'a Stmt>, mut node: NodeTracker<'_>) -> bool {
    for stmt in stmts.take(REACH) {
        node.follow(stmt);
        if node.reads_before_write() || node.is_never_covered() {
            return false;
        }
        if node.is_covered() {
            return true;
        }
    }
    false
}

/// The statement without its stores to the node. An empty loop may remain.
fn without_stores(stmt: Stmt, node: NodeRef) -> Option<Stmt> {
    match stmt {
        Stmt::For { var, lo, hi, kind, body } => {
            let body = body.into_iter().filter_map(|s| without_stores(s, node)).collect();
            Some(Stmt::For { var, lo, hi, kind, body })
        }
        other if Effects::of(std::slice::from_ref(&other)).writes.contains(&node) => None,
        other => Some(other),
    }
}

/// The elements, nodes and locals that a block stores to after a position, before any read of them.
#[derive(Default)]
struct LaterStores {
    elements: BTreeMap<NodeRef, HashSet<Indices>>,
    nodes: BTreeSet<NodeRef>,
    locals: BTreeSet<LocalId>,
}

impl LaterStores {
    /// The state at the end of a block: its scalars are not read after it.
    fn end_of(block: &[Stmt]) -> LaterStores {
        let declared = block.iter().filter_map(|stmt| match stmt {
            Stmt::Declare { local, dims, .. } if dims.is_empty() => Some(*local),
            _ => None,
        });
        LaterStores { locals: declared.collect(), ..LaterStores::default() }
    }

    /// Whether the target of the statement is stored to again before it is read.
    fn overwrites(&self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::Set { node, index, .. } => {
                self.nodes.contains(node) || self.elements.get(node).is_some_and(|e| e.contains(index))
            }
            Stmt::Zero { node } => self.nodes.contains(node),
            Stmt::SetLocal { local, index, .. } if index.is_empty() => self.locals.contains(local),
            _ => false,
        }
    }

    /// Moves the position backwards over a statement that stays.
    fn pass(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Set { node, index, .. } => {
                self.elements.entry(*node).or_default().insert(index.clone());
            }
            Stmt::Zero { node } => {
                self.nodes.insert(*node);
            }
            Stmt::SetLocal { local, index, .. } if index.is_empty() => {
                self.locals.insert(*local);
            }
            _ => {}
        }
        let effects = Effects::of(std::slice::from_ref(stmt));
        for node in &effects.reads {
            self.elements.remove(node);
            self.nodes.remove(node);
        }
        for local in effects.local_reads.iter().chain(&effects.declares) {
            self.locals.remove(local);
        }
    }
}

fn without_overwritten_elements(block: Block) -> Block {
    let mut later = LaterStores::end_of(&block);
    // The optimized routine lives as long as its code, and a block that grows has room for four statements.
    let mut kept = Block::with_capacity(block.len());
    for stmt in block.into_iter().rev() {
        if later.overwrites(&stmt) {
            continue;
        }
        later.pass(&stmt);
        kept.push(match stmt {
            Stmt::For { var, lo, hi, kind, body } => {
                Stmt::For { var, lo, hi, kind, body: without_overwritten_elements(body) }
            }
            other => other,
        });
    }
    kept.reverse();
    kept
}
