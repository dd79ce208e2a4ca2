//! How each kernel accesses each node: whether it reads values from before the kernel, and whether some of
//! them are still there after it.
//!
//! An exact analysis examines the loops, tiles and remainders of the kernel. If they are too complex, the
//! answer comes from an analysis of the routine before scheduling:
//!
//! * the first kernel that accesses a node reads no value from before if the routine reads none;
//! * the only kernel that accesses a node writes every element if the routine does.
//!
//! This is sound because passes keep the result of a routine for all initial contents of memory, or record
//! the nodes of which they do not ([`RoutineUses::writes_part`], [`RoutineUses::keeps_part`]). If neither
//! analysis gives an answer, the kernel is assumed to read and to keep such values.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{LoweredRoutine, NodeRef};
use lowered_ir::passes::access::{Facts, analyze};

use crate::analysis::access;
use crate::common::groups::Group;
use codegen_core::artifact::Access;

/// The accesses of a whole routine to its nodes, analyzed before loops are tiled.
#[derive(Clone)]
pub(crate) struct RoutineUses {
    /// The routine reads no element of these nodes before it writes that element.
    fresh: BTreeSet<NodeRef>,
    /// The routine writes every element of these nodes.
    covered: BTreeSet<NodeRef>,
    /// Kernels store values of these nodes that were there before.
    kept: BTreeSet<NodeRef>,
}

impl RoutineUses {
    /// Analyzes a verified routine.
    pub(crate) fn of(routine: &LoweredRoutine) -> RoutineUses {
        let facts = analyze(routine);
        let nodes = || routine.node_refs().map(|(node, _)| node);
        RoutineUses {
            fresh: nodes().filter(|&node| !facts[node].read_before_write).collect(),
            covered: nodes().filter(|&node| facts[node].covered && facts[node].is_written()).collect(),
            kept: BTreeSet::new(),
        }
    }

    /// Whether a run may read an element of the node that it has not written.
    pub(crate) fn reads_from_before(&self, node: NodeRef) -> bool {
        !self.fresh.contains(&node)
    }

    /// Records that a pass removed stores of elements that nothing reads, so elements of the node may keep
    /// their previous values.
    pub(crate) fn writes_part(&mut self, node: NodeRef) {
        self.covered.remove(&node);
    }

    /// Records that a pass stores the previous values of elements again, instead of leaving them.
    pub(crate) fn keeps_part(&mut self, node: NodeRef) {
        self.kept.insert(node);
    }

    /// The nodes whose previous values a run neither reads nor keeps.
    pub(crate) fn overwritten(&self) -> impl Iterator<Item = NodeRef> {
        self.fresh.intersection(&self.covered).copied()
    }
}

/// The first and the last kernel that access each node, by their positions.
pub(crate) struct KernelSpans(BTreeMap<NodeRef, (usize, usize)>);

impl KernelSpans {
    /// The spans for groups of statements that become kernels.
    pub(crate) fn of(groups: &[Group]) -> KernelSpans {
        let mut spans = BTreeMap::new();
        for (at, group) in groups.iter().enumerate() {
            for node in access::nodes(&group.body) {
                spans.entry(node).or_insert((at, at)).1 = at;
            }
        }
        KernelSpans(spans)
    }
}

pub(crate) struct KernelNode {
    /// The node's number in the kernel.
    pub(crate) own: NodeRef,
    /// The node's number in the routine.
    pub(crate) node: NodeRef,
    /// The position of the kernel among the groups.
    pub(crate) group: usize,
    /// Whether the kernel runs several times, and may read what it stored before.
    pub(crate) is_in_scan: bool,
}

/// The access of a kernel to a node. `facts` describes the kernel's IR.
pub(crate) fn access_of(
    mention: &KernelNode,
    facts: &Facts,
    uses: &RoutineUses,
    spans: &KernelSpans,
) -> Access {
    let KernelNode { own, node, group, is_in_scan } = *mention;
    let span = spans.0.get(&node);
    let is_first = span.is_some_and(|&(first, _)| first == group);
    let is_only = !is_in_scan && span == Some(&(group, group));
    let facts = &facts[own];
    let reads = facts.read_before_write && !(is_first && uses.fresh.contains(&node));
    let keeps = is_in_scan && facts.read_before_write || uses.kept.contains(&node);
    let covers = facts.covered && !keeps || is_only && uses.covered.contains(&node);
    match (facts.is_written(), reads, covers) {
        (false, ..) => Access::Read,
        (true, true, _) => Access::ReadWrite,
        (true, false, true) => Access::Write,
        (true, false, false) => Access::WritePart,
    }
}
