//! Initializer propagation: an accumulation starts from a constant instead of reading memory that was just
//! filled with it.
//!
//! `T[…] := c; for … { … T[i] … ; T[i] := … } = for … { … c … ; T[i] := … }`, if nothing accesses `T` in
//! between, and the nest reads each element only before the one store into it, in the same iteration. The
//! fill is removed if the nest writes every element. No bit changes, because the removed reads would return
//! `c`.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{Expr, Indices, LoweredRoutine, NodeRef, Stmt, walk};
use tnode::Scalar;

use crate::analysis::access;
use crate::analysis::nest;
use crate::analysis::nodes::reads_guarded;
use codegen_core::dependence::{self, VariableRanges};

/// Applies the rewrite to the top-level statements.
pub(crate) fn propagate_initializers(routine: &mut LoweredRoutine) {
    let ranges = VariableRanges::of(routine);
    let mut body = std::mem::take(&mut routine.body);
    let mut known: BTreeMap<NodeRef, (usize, Scalar)> = BTreeMap::new();
    let mut spent: BTreeSet<usize> = BTreeSet::new();
    for (at, stmt) in body.iter_mut().enumerate() {
        for node in access::nodes(std::slice::from_ref(stmt)) {
            if let Some((fill, value)) = known.remove(&node)
                && reads_then_writes(stmt, node, &ranges)
            {
                start_from(stmt, node, value);
                if access::overwrites(stmt, node, routine.node(node)) {
                    spent.insert(fill);
                }
            }
        }
        if let Some((node, value)) = fill(stmt, routine) {
            known.insert(node, (at, value));
        }
    }
    let kept = body.into_iter().enumerate().filter(|(at, _)| !spent.contains(at));
    routine.body = kept.map(|(_, stmt)| stmt).collect();
}

/// The node that a statement fills with a constant, and the constant.
fn fill(stmt: &Stmt, routine: &LoweredRoutine) -> Option<(NodeRef, Scalar)> {
    if let Stmt::Zero { node } = stmt {
        return Some((*node, Scalar::zero(routine.node(*node).dtype)));
    }
    match nest::chain(stmt).1 {
        [Stmt::Set { node, value: Expr::Const(value), .. }]
            if access::overwrites(stmt, *node, routine.node(*node)) =>
        {
            Some((*node, *value))
        }
        _ => None,
    }
}

/// Whether every iteration reads only the element of the node that it stores afterwards, and no other
/// iteration accesses that element.
fn reads_then_writes(stmt: &Stmt, node: NodeRef, ranges: &VariableRanges) -> bool {
    let (loops, block) = nest::chain(stmt);
    let Some((at, index)) = store(block, node) else { return false };
    let touches =
        |block| dependence::touches(block).into_iter().filter(|t| t.node == node).collect::<Vec<_>>();
    let before = touches(&block[..=at]);
    before.iter().filter(|t| t.write).count() == 1
        && before.iter().all(|t| t.index == Some(index))
        && touches(&block[at + 1..]).is_empty()
        && access::injective(index, &loops, ranges)
        && !reads_guarded(block, node)
}

/// The first statement of the block, loops aside, that stores into the node.
fn store(block: &[Stmt], node: NodeRef) -> Option<(usize, &Indices)> {
    block.iter().enumerate().find_map(|(at, stmt)| match stmt {
        Stmt::Set { node: set, index, .. } if *set == node => Some((at, index)),
        _ => None,
    })
}

fn start_from(stmt: &mut Stmt, node: NodeRef, value: Scalar) {
    walk::map_parts(std::slice::from_mut(stmt), &mut |e| match e {
        Expr::Get { node: read, .. } if read == node => Expr::Const(value),
        other => other,
    });
}
