//! Virtualization in the bodies of scans.
//!
//! A node whose values a step of a scan computes for itself is decided and inlined as if the body of the scan
//! were a routine: its elements are read once per step and not once per run, and what the scan carries from
//! step to step is an input of the body.

use crate::ir::{IdSet, LoweredRoutine, NodeRef};
use crate::passes::access::{self, Facts};
use crate::passes::regions::{each_scan, has_regions};
use crate::passes::virtualize::virtualize as inline;
use crate::passes::{InlineRejection, ModeError, OptimizeSettings, decide_modes};

/// The nodes whose modes are settled, and those that could have been inlined and were not.
type Settled = (Vec<NodeRef>, Vec<(NodeRef, InlineRejection)>);

/// Settles the modes of the nodes that only one scan mentions and whose values no later step reads, and
/// inlines the virtual ones.
pub(super) fn virtualize(
    routine: &mut LoweredRoutine,
    settings: &OptimizeSettings,
) -> Result<Settled, ModeError> {
    let mut settled = Settled::default();
    if !has_regions(&routine.body) {
        return Ok(settled);
    }
    let mut result = Ok(());
    each_scan(routine, &mut |body, own| {
        if result.is_ok() {
            result = in_body(body, own, settings, &mut settled);
        }
    });
    result.map(|()| settled)
}

fn in_body(
    body: &mut LoweredRoutine,
    own: &IdSet<NodeRef>,
    settings: &OptimizeSettings,
    (settled, rejections): &mut Settled,
) -> Result<(), ModeError> {
    let (inner, rejected) = virtualize(body, settings)?;
    let mut facts = access::analyze(body);
    let is_temporary = |node: NodeRef, facts: &Facts| {
        let known = &facts[node];
        own.contains(&node) && known.is_written() && known.uses().next().is_some() && !known.merged
    };
    let nodes: Vec<NodeRef> = body.node_refs().map(|(node, _)| node).collect();
    let (own, others): (Vec<NodeRef>, Vec<NodeRef>) =
        nodes.into_iter().partition(|&node| is_temporary(node, &facts) && !inner.contains(&node));
    others.into_iter().for_each(|node| facts.forget(node));
    let candidates = decide_modes::decide_modes(body, &facts, settings)?;
    let not_inlined = inline(body, &decide_modes::nodes_of(&candidates));
    decide_modes::settle_modes(body, &facts, &candidates, &not_inlined, settings)?;
    settled.extend(inner.into_iter().chain(own));
    rejections.extend(rejected.into_iter().chain(not_inlined));
    Ok(())
}
