//! Computes a scalar where it is used, instead of in a kernel of one thread that others wait for.
//!
//! `s := e; for … { … s … } = for … { l := e; … l … }`, for a local node that is stored into by one top-level statement and read by
//! later nests, if nothing writes in between what `e` reads. Not into contractions, whose operands read no locals.

use std::collections::BTreeSet;

use lowered_ir::ir::{Block, Expr, Indices, LoopKind, NodeRef, Routine, Space, Stmt, walk};
use tnode::Dims;

use crate::analysis::nest::Nest;
use crate::gpu::Gpu;
use crate::gpu::chain::is_contraction;
use crate::gpu::rows::is_guarded;
use crate::is_local;
use codegen_core::access;

/// Moves such scalars into their nests.
pub(crate) fn sink(routine: &mut Routine, gpu: &mut Gpu) {
    let mut at = 0;
    while at < routine.body.len() {
        match scalar(routine, at).filter(|found| is_sunk(routine, at, found, gpu)) {
            Some(found) => {
                routine.body.remove(at);
                routine.body[at..].iter_mut().for_each(|stmt| define(stmt, &found, gpu));
            }
            None => at += 1,
        }
    }
}

/// A statement that defines one element of a node.
struct Definition {
    node: NodeRef,
    index: Indices,
    value: Expr,
}

fn scalar(routine: &Routine, at: usize) -> Option<Definition> {
    let Stmt::Set { node, index, value } = &routine.body[at] else { return None };
    let reads_local = !access::locals_used(&routine.body[at..=at]).is_empty();
    let found = Definition { node: *node, index: index.clone(), value: value.clone() };
    (is_local(routine.node(*node)) && !reads_local).then_some(found)
}

/// Whether every other mention of the scalar can be its value instead.
fn is_sunk(routine: &Routine, at: usize, found: &Definition, gpu: &Gpu) -> bool {
    let own = access::nodes(&routine.body[at..=at]);
    let mut used = false;
    let mut changed: BTreeSet<NodeRef> = BTreeSet::new();
    routine.body.iter().enumerate().filter(|(other, _)| *other != at).all(|(other, stmt)| {
        let block = std::slice::from_ref(stmt);
        if other > at {
            changed.extend(access::written(block));
        }
        if !access::nodes(block).contains(&found.node) {
            return true;
        }
        used = true;
        let touches = access::touches(block).into_iter().filter(|t| t.node == found.node).collect::<Vec<_>>();
        let plain = touches.iter().all(|t| !t.write && t.index == Some(&found.index));
        let takes = match stmt {
            Stmt::For { .. } => !Nest::of(stmt).is_some_and(|nest| is_contraction(&nest, gpu)),
            Stmt::Set { .. } => true,
            _ => false,
        };
        other > at && plain && takes && !is_guarded(block, found.node) && changed.is_disjoint(&own)
    }) && used
}

fn define(stmt: &mut Stmt, found: &Definition, gpu: &mut Gpu) {
    if !access::nodes(std::slice::from_ref(stmt)).contains(&found.node) {
        return;
    }
    let by = match innermost(stmt) {
        None => found.value.clone(),
        Some(body) => {
            let dtype = gpu.nodes[found.node.index()].dtype;
            let (local, declare) = gpu.names.declare(dtype, Dims::new(), Space::Register);
            body.splice(0..0, [declare, Stmt::set_scalar(local, found.value.clone())]);
            Expr::local(local)
        }
    };
    walk::map_values(std::slice::from_mut(stmt), &mut |value| {
        walk::map_expr(value, &mut |e| match e {
            Expr::Get { node, .. } if node == found.node => by.clone(),
            other => other,
        })
    });
}

/// The body of the innermost of the loops that hold just the next.
pub(crate) fn innermost(stmt: &mut Stmt) -> Option<&mut Block> {
    let Stmt::For { kind: LoopKind::Serial, body, .. } = stmt else { return None };
    if let [Stmt::For { .. }] = body.as_slice() {
        return body.first_mut().and_then(innermost);
    }
    Some(body)
}
