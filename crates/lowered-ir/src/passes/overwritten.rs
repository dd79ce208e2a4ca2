//! Stores that nobody sees because what they wrote is written again first.
//!
//! * Of a node, as a whole: a top-level statement's stores to it go if the statements after it surely write every element
//!   before they read any, as exact access analysis tells. So a node that is zeroed, or filled, and then written everywhere,
//!   in one piece or in several, is not zeroed.
//! * Of single elements and scalar locals: a store goes if its block stores to the same place again before any read, or
//!   zeroes the node, or if the local's block ends without a read.
//!
//! That locals start as zeros costs nothing where they are written first: code generators see that by themselves.
//!
//! # Invariants
//! * Every read sees the bits it saw, and so does whoever reads the nodes after the run.
//! * The nodes that the routine writes stay the same, for the later store stays.

use std::collections::BTreeSet;

use crate::ir::{Block, Indices, LocalId, NodeRef, Routine, Stmt, walk};

use super::access;
use super::effects::Effects;

/// Removes the stores; whether there were any.
pub(super) fn remove_overwritten(routine: &mut Routine) -> bool {
    let nodes = remove_overwritten_nodes(routine);
    let before = count(&routine.body);
    let body = std::mem::take(&mut routine.body);
    routine.body = without_overwritten_elements(body);
    nodes || count(&routine.body) < before
}

fn count(block: &[Stmt]) -> usize {
    let mut stmts = 0;
    walk::each_stmt(block, &mut |_| stmts += 1);
    stmts
}

/// Goes through the nodes; whether anything was removed.
fn remove_overwritten_nodes(routine: &mut Routine) -> bool {
    let effects: Vec<Effects> = routine.body.iter().map(|s| Effects::of(std::slice::from_ref(s))).collect();
    let written: BTreeSet<NodeRef> = effects.iter().flat_map(|e| e.writes.iter().copied()).collect();
    let mut body: Vec<Option<Stmt>> = std::mem::take(&mut routine.body).into_iter().map(Some).collect();
    let mut shell = routine.clone();
    let mut changed = false;
    for node in written {
        let mentions = |e: &Effects| e.writes.contains(&node) || e.reads.contains(&node);
        let at: Vec<usize> = (0..effects.len()).filter(|&i| mentions(&effects[i])).collect();
        for (k, &position) in at.iter().enumerate().rev().skip(1) {
            let Some(stmt) = body[position].take() else { continue };
            shell.body = at[k + 1..].iter().filter_map(|&i| body[i].clone()).collect();
            let dead = effects[position].writes.contains(&node)
                && is_overwritten_by(&shell, node)
                && reads_into_itself(&mut shell, &stmt, node);
            changed |= dead;
            body[position] = if dead { without_stores(stmt, node) } else { Some(stmt) };
        }
    }
    routine.body = body.into_iter().flatten().collect();
    changed
}

/// Whether the routine surely writes every element of the node before it reads any.
fn is_overwritten_by(routine: &Routine, node: NodeRef) -> bool {
    let facts = &access::analyse(routine)[node];
    facts.covered && !facts.read_before_write
}

/// Whether the statement reads the node for nothing but its own stores to it.
fn reads_into_itself(shell: &mut Routine, stmt: &Stmt, node: NodeRef) -> bool {
    shell.body = vec![stmt.clone()];
    access::analyse(shell)[node].reads.iter().all(|read| read.into == Some(node))
}

/// What is left of the statement without its stores to the node; a loop that is left empty does no harm.
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

/// A place that is stored to later in the block, before any read of it.
#[derive(PartialEq)]
enum Place {
    Element(NodeRef, Indices),
    Node(NodeRef),
    Local(LocalId),
}

fn without_overwritten_elements(block: Block) -> Block {
    let mut later: Vec<Place> = block.iter().filter_map(declared).collect();
    let mut kept = Block::new();
    for stmt in block.into_iter().rev() {
        if is_overwritten(&stmt, &later) {
            continue;
        }
        later.extend(stored(&stmt));
        let effects = Effects::of(std::slice::from_ref(&stmt));
        later.retain(|place| match place {
            Place::Element(node, _) | Place::Node(node) => !effects.reads.contains(node),
            Place::Local(local) => !effects.local_reads.contains(local) && !effects.declares.contains(local),
        });
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

/// A local declared in this block is not read after it.
fn declared(stmt: &Stmt) -> Option<Place> {
    match stmt {
        Stmt::Declare { local, dims, .. } if dims.is_empty() => Some(Place::Local(*local)),
        _ => None,
    }
}

/// The place that a statement surely stores to.
fn stored(stmt: &Stmt) -> Option<Place> {
    match stmt {
        Stmt::Set { node, index, .. } => Some(Place::Element(*node, index.clone())),
        Stmt::Zero { node } => Some(Place::Node(*node)),
        Stmt::SetLocal { local, index, .. } if index.is_empty() => Some(Place::Local(*local)),
        _ => None,
    }
}

fn is_overwritten(stmt: &Stmt, later: &[Place]) -> bool {
    match stored(stmt) {
        Some(Place::Element(node, index)) => {
            later.contains(&Place::Node(node)) || later.contains(&Place::Element(node, index))
        }
        Some(place) => later.contains(&place),
        None => false,
    }
}
