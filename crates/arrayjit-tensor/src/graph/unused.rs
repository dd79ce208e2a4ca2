//! Removes steps whose values nothing reads.

use std::{collections::BTreeSet, slice};

use arrayjit::{
    Assignments, TensorNode,
    assign::{Accum, AccumOp, Operand, ProgramStep, all_steps, read_whole, written},
};

/// Removes the steps that write new nodes alone, if neither later steps nor `results` need them; new nodes
/// are those that are not `known`. Returns the nodes that no step writes any more.
pub(super) fn remove_unused(
    program: &mut Assignments,
    known: &BTreeSet<TensorNode>,
    results: &[&TensorNode],
) -> BTreeSet<TensorNode> {
    let mut needed: BTreeSet<TensorNode> = results.iter().map(|&node| node.clone()).collect();
    let mut removed = BTreeSet::new();
    let mut kept = Vec::new();
    for step in std::mem::take(&mut program.steps).into_iter().rev() {
        let is_unused =
            |node: &TensorNode| !known.contains(node) && !needed.contains(node) && node.view().is_none();
        let changed: Vec<TensorNode> = all_steps(slice::from_ref(&step)).flat_map(changed).cloned().collect();
        if !changed.is_empty() && changed.iter().all(is_unused) {
            removed.extend(changed);
        } else {
            needed.extend(all_steps(slice::from_ref(&step)).flat_map(mentioned));
            kept.push(step);
        }
    }
    kept.reverse();
    program.steps = kept;
    removed.retain(|node| !needed.contains(node));
    removed
}

/// The nodes that a step writes or detaches.
fn changed(step: &ProgramStep) -> Vec<&TensorNode> {
    match step {
        ProgramStep::Detach(node) => vec![node],
        step => written(step),
    }
}

/// Whether a step reads the values of a node.
pub(super) fn reads(step: &ProgramStep, node: &TensorNode) -> bool {
    let accumulates =
        |accum: &Accum| accum.lhs == *node && !accum.init_neutral && accum.op != AccumOp::Assign;
    step.accums().iter().any(accumulates) || with_parents(read(step)).contains(node)
}

/// The nodes that a step reads or changes, with the parents of views.
fn mentioned(step: &ProgramStep) -> BTreeSet<TensorNode> {
    with_parents(read(step).chain(changed(step)))
}

/// The nodes whose values a step reads, but for those that it adds to.
fn read(step: &ProgramStep) -> impl Iterator<Item = &TensorNode> {
    let operands = step.accums().iter().flat_map(Accum::operands).filter_map(Operand::node);
    let end = match step {
        ProgramStep::Scan { end, .. } => end.as_ref().map(|end| &end.node),
        _ => None,
    };
    operands.chain(read_whole(step)).chain(end)
}

fn with_parents<'a>(nodes: impl Iterator<Item = &'a TensorNode>) -> BTreeSet<TensorNode> {
    let mut nodes: BTreeSet<TensorNode> = nodes.cloned().collect();
    let parents: Vec<TensorNode> =
        nodes.iter().filter_map(TensorNode::view).map(|view| view.parent.clone()).collect();
    nodes.extend(parents);
    nodes
}
