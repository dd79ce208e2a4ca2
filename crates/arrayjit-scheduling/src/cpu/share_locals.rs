//! Shared locals: a top-level scalar that lives across a parallel loop becomes a local node.
//!
//! `declare s; s := …; for c parallel { … s … }` would be one kernel, on one thread, because locals do not
//! outlive a kernel. With a local node in the place of `s` the loop is a kernel of its own. Arrays stay
//! locals: `store_partial_results` knows those for which a node pays. No bit changes.

use std::collections::BTreeSet;

use lowered_ir::ir::{LocalId, LoweredRoutine, NodeRef, Stmt};
use lowered_ir::passes::access::analyze_from;

use crate::analysis::access;
use crate::common::expand_scalars::expand;
use crate::common::groups::{is_parallel, span_ends};

/// Replaces scalars that live across parallel loops by nodes, which are zero at first as locals are.
pub(crate) fn share_locals(routine: &mut LoweredRoutine) {
    let shared = across_loops(&routine.body);
    if shared.is_empty() {
        return;
    }
    let first = NodeRef(routine.nodes.len() as u32);
    expand(routine, &|local| shared.contains(&local));
    let facts = analyze_from(routine, first);
    let nodes = (first.0..routine.nodes.len() as u32).map(NodeRef);
    let mut zeroed: BTreeSet<NodeRef> = nodes.filter(|&node| facts[node].read_before_write).collect();
    let body = std::mem::take(&mut routine.body);
    routine.body = (body.into_iter())
        .flat_map(|stmt| {
            let mentioned = access::nodes(std::slice::from_ref(&stmt)).into_iter();
            let zeros = mentioned.filter(|node| zeroed.remove(node)).map(|node| Stmt::Zero { node });
            zeros.chain([stmt]).collect::<Vec<_>>()
        })
        .collect();
}

/// The top-level scalars that are declared before and used after the start of a parallel loop.
fn across_loops(body: &[Stmt]) -> BTreeSet<LocalId> {
    let loops: Vec<usize> = (0..body.len()).filter(|&at| is_parallel(&body[at])).collect();
    if loops.is_empty() {
        return BTreeSet::new();
    }
    let ends = span_ends(body);
    let lives_across = |at: usize| {
        let next = loops.partition_point(|&start| start < at);
        loops.get(next).is_some_and(|&start| ends.get(&at).is_some_and(|&end| start < end))
    };
    let declared = body.iter().enumerate().filter_map(|(at, stmt)| match stmt {
        Stmt::Declare { local, dims, .. } if dims.is_empty() => lives_across(at).then_some(*local),
        _ => None,
    });
    declared.collect()
}
