//! Warnings about values that a routine computes and no one can read.

use std::collections::BTreeSet;

use tnode::{MemoryMode, TensorNode};

use super::view::Views;
use crate::{Accum, Assignments, Operand, ProgramStep, Warning, WarningKind};

/// Warns of each node that the assignments write and never read, if it has no memory that outlives the
/// routine.
pub(super) fn values(assignments: &Assignments, views: &Views) -> Vec<Warning> {
    let (mut read, mut written): (BTreeSet<&TensorNode>, Vec<(&TensorNode, &ProgramStep)>) =
        Default::default();
    for step in crate::all_steps(&assignments.steps) {
        read.extend(step.accums().iter().flat_map(Accum::operands).filter_map(Operand::node));
        read.extend(crate::sliced(step));
        written.extend(crate::written(step).into_iter().map(|node| (node, step)));
    }
    let mut warned = BTreeSet::new();
    let warning = |(node, step): (&TensorNode, &ProgramStep)| {
        let mode = node.mode().mode()?;
        let is_lost = matches!(mode, MemoryMode::Virtual | MemoryMode::Local) && !views.contains(node);
        if !is_lost || read.contains(node) || !warned.insert(node.clone()) {
            return None;
        }
        Some(Warning::new(WarningKind::UnusedValue { node: node.name(), mode }, step.origin().target()))
    };
    written.into_iter().filter_map(warning).collect()
}
