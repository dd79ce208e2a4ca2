//! Store-to-load forwarding: a load uses the value that a store before it wrote.
//!
//! `T[i] := v; … T[i] … = t := v; T[i] := t; … t …`, if the load follows the store in the same block,
//! possibly in a loop, and nothing in between writes this element of `T`. A store is removed if the next
//! store into the node overwrites the element, or if nothing reads the local node that it writes. No bit
//! changes, because a value has the type of its node.

use std::collections::BTreeSet;

use lowered_ir::ir::{Affine, ArrayRef, Block, Expr, Fresh, Indices, LoweredRoutine, NodeRef, Stmt, walk};

use crate::analysis::access::Effects;
use crate::analysis::nodes::is_local;
use crate::common::normalize_loops::normalize_loops;
use codegen_core::dependence;

/// Forwards stored values to later loads, drops dead stores, and brings the loops that are left to one form.
pub(crate) fn forward_stores(routine: &mut LoweredRoutine) {
    forward_values(routine);
    normalize_loops(routine);
}

/// Forwards values in every block of the routine, then drops the stores that nothing reads.
pub(crate) fn forward_values(routine: &mut LoweredRoutine) {
    let mut fresh = routine.fresh();
    let nodes = std::mem::take(&mut routine.nodes);
    let mut body = std::mem::take(&mut routine.body);
    forward_block(&mut body, &|node| nodes[node.index()].dtype, &mut fresh);
    routine.nodes = nodes;
    routine.body = body;
    while drop_unread(routine) {}
}

/// The most statements between a store and a load that uses its value.
const REACH: usize = 64;

type TypeOf<'a> = &'a dyn Fn(NodeRef) -> tnode::DType;

fn forward_block(block: &mut Block, dtype: TypeOf<'_>, fresh: &mut Fresh) {
    // The order is reversed, so that removing the next statement moves no other.
    let mut rest = std::mem::take(block);
    rest.reverse();
    *block = Block::with_capacity(rest.len());
    while let Some(mut stmt) = rest.pop() {
        if let Stmt::For { body, .. } = &mut stmt {
            forward_block(body, dtype, fresh);
        }
        let stmt = forward_from(stmt, &mut rest, block, dtype, fresh);
        if !is_overwritten(&stmt, &rest) {
            block.push(stmt);
        }
    }
}

/// Whether the element that a statement stores is overwritten before anything accesses its node. `rest` holds
/// the statements after it in reverse order.
fn is_overwritten(stmt: &Stmt, rest: &[Stmt]) -> bool {
    let Stmt::Set { node, index, .. } = stmt else { return false };
    let mut after = rest.iter().rev().take(REACH);
    let touches = |stmt: &Stmt| {
        writes(stmt, *node) || walk::parts_in(std::slice::from_ref(stmt)).any(|e| reads_node(e, *node))
    };
    let Some(Stmt::Set { node: again, index: same, value }) = after.find(|stmt| touches(stmt)) else {
        return false;
    };
    let read = walk::parts(value).any(|e| reads_node(e, *node));
    again == node && same == index && !read
}

fn reads_node(e: &Expr, node: NodeRef) -> bool {
    e.array() == Some(ArrayRef::Node(node))
}

/// `rest` holds the statements after a store, in reverse order. In them, replaces loads of the element that
/// is stored. Returns the store, and appends statements that must precede it to `done`.
fn forward_from(
    stmt: Stmt,
    rest: &mut [Stmt],
    done: &mut Block,
    dtype: TypeOf<'_>,
    fresh: &mut Fresh,
) -> Stmt {
    let Stmt::Set { node, index, value } = &stmt else { return stmt };
    let node = *node;
    let reach = rest.len().min(REACH);
    let end = rest.iter().rev().take(reach).position(|stmt| ends(stmt, node, index));
    let until = end.map_or(reach, |end| end + 1);
    let first = rest.len() - until;
    let after = &mut rest[first..];
    if !after.iter().any(|stmt| reads(stmt, node, index)) {
        return stmt;
    }
    if is_settled(value, after) {
        after.iter_mut().for_each(|stmt| replace(stmt, node, index, value));
        return stmt;
    }
    let local = fresh.local_id();
    let (index, value) = (index.clone(), value.clone());
    after.iter_mut().for_each(|stmt| replace(stmt, node, &index, &Expr::local(local)));
    done.extend([Stmt::scalar(local, dtype(node)), Stmt::set_scalar(local, value)]);
    Stmt::Set { node, index, value: Expr::local(local) }
}

/// Whether a value stays valid after the store: a constant, or a scalar local that nothing sets afterwards.
fn is_settled(value: &Expr, after: &[Stmt]) -> bool {
    match value {
        Expr::Const(_) => true,
        Expr::GetLocal { local, index } => index.is_empty() && !Effects::of(after).set.contains(local),
        _ => false,
    }
}

/// Whether a load of the element after the statement may read another value than was stored before.
fn ends(stmt: &Stmt, node: NodeRef, index: &Indices) -> bool {
    match stmt {
        Stmt::Set { node: set, index: other, .. } => *set == node && !is_apart(index, other),
        _ => writes(stmt, node),
    }
}

/// Whether two indices select different elements, because they differ by a constant in some dimension.
fn is_apart(a: &Indices, b: &Indices) -> bool {
    let differs = |(a, b): (&Affine, &Affine)| a.terms() == b.terms() && a.offset() != b.offset();
    a.iter().zip(b).any(differs)
}

fn writes(stmt: &Stmt, node: NodeRef) -> bool {
    walk::stmts(std::slice::from_ref(stmt)).any(|stmt| stmt.array() == Some(ArrayRef::Node(node)))
}

/// Whether the statement reads the element before it writes any element of the node.
fn reads(stmt: &Stmt, node: NodeRef, index: &Indices) -> bool {
    let element = Some((ArrayRef::Node(node), index));
    !is_loop_that_writes(stmt, node)
        && walk::parts_in(std::slice::from_ref(stmt)).any(|e| e.element() == element)
}

fn is_loop_that_writes(stmt: &Stmt, node: NodeRef) -> bool {
    matches!(stmt, Stmt::For { .. }) && writes(stmt, node)
}

fn replace(stmt: &mut Stmt, node: NodeRef, index: &Indices, by: &Expr) {
    if is_loop_that_writes(stmt, node) {
        return;
    }
    walk::map_parts(std::slice::from_mut(stmt), &mut |e| match e {
        Expr::Get { node: n, index: ref i } if n == node && i == index => by.clone(),
        other => other,
    });
}

/// Removes stores into local nodes that nothing reads. Returns whether there were any.
fn drop_unread(routine: &mut LoweredRoutine) -> bool {
    let touches = dependence::touches(&routine.body);
    let read: BTreeSet<NodeRef> = touches.iter().filter(|t| !t.write).map(|t| t.node).collect();
    let plain = |t: &&dependence::Touch<'_>| t.write && t.computed.is_none();
    let unread: BTreeSet<NodeRef> = touches
        .iter()
        .filter(plain)
        .map(|t| t.node)
        .filter(|node| !read.contains(node) && is_local(routine.node(*node)))
        .collect();
    drop_stores(&mut routine.body, &unread)
}

fn drop_stores(block: &mut Block, unread: &BTreeSet<NodeRef>) -> bool {
    let before = block.len();
    block.retain(|stmt| match stmt {
        Stmt::Set { node, .. } | Stmt::Zero { node } => !unread.contains(node),
        _ => true,
    });
    let mut dropped = block.len() < before;
    for stmt in block.iter_mut() {
        if let Stmt::For { body, .. } = stmt {
            dropped |= drop_stores(body, unread);
        }
    }
    dropped
}
