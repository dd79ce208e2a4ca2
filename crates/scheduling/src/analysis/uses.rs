//! What each kernel does with each node: whether it reads what was there before it, and whether it leaves anything of that.
//!
//! A kernel is asked for itself, by exact analysis of its loops, tiles and remainders included. Where these are too clever for the
//! analysis, the routine before scheduling answers: the first kernel that touches a node reads nothing from before it if the routine
//! does not, and the only one writes every element if the routine does. That is sound because steps keep what a routine computes,
//! whatever memory holds before. What neither of them tells is taken for the worse.

use std::collections::{BTreeMap, BTreeSet};

use lowered_ir::ir::{Block, NodeRef, Routine};
use lowered_ir::passes::access::{Facts, analyse};

use codegen_core::access;
use codegen_core::artifact::Access;

/// What the routine as a whole does with its nodes, asked before loops are tiled.
pub(crate) struct Whole {
    /// Those of which it reads nothing that it has not written.
    fresh: BTreeSet<NodeRef>,
    /// Those of which it has written every element when it ends.
    covered: BTreeSet<NodeRef>,
}

impl Whole {
    /// Analyses a verified routine.
    pub(crate) fn of(routine: &Routine) -> Whole {
        let facts = analyse(routine);
        let nodes = || routine.node_refs().map(|(node, _)| node);
        Whole {
            fresh: nodes().filter(|&node| !facts[node].read_before_write).collect(),
            covered: nodes().filter(|&node| facts[node].covered && facts[node].is_written()).collect(),
        }
    }

    /// Whether a run may read of the node what it has not written.
    pub(crate) fn reads_from_before(&self, node: NodeRef) -> bool {
        !self.fresh.contains(&node)
    }

    /// The nodes of which nothing from before a run is read in it or left after it.
    pub(crate) fn overwritten(&self) -> impl Iterator<Item = NodeRef> {
        self.fresh.intersection(&self.covered).copied()
    }
}

/// The first and the last of a routine's kernels that touch each node.
pub(crate) struct Spans(BTreeMap<NodeRef, (usize, usize)>);

impl Spans {
    /// Those of the groups that become kernels.
    pub(crate) fn of(groups: &[Block]) -> Spans {
        let mut spans = BTreeMap::new();
        for (at, group) in groups.iter().enumerate() {
            for node in access::nodes(group) {
                spans.entry(node).or_insert((at, at)).1 = at;
            }
        }
        Spans(spans)
    }
}

/// A node of a kernel.
pub(crate) struct Mention {
    /// As the kernel names it.
    pub(crate) own: NodeRef,
    /// As the routine names it.
    pub(crate) node: NodeRef,
    /// The kernel's position among the groups.
    pub(crate) group: usize,
}

/// What a kernel does with a node; `facts` are those of its IR.
pub(crate) fn access_of(mention: &Mention, facts: &Facts, whole: &Whole, spans: &Spans) -> Access {
    let Mention { own, node, group } = *mention;
    let span = spans.0.get(&node);
    let is_first = span.is_some_and(|&(first, _)| first == group);
    let is_only = span == Some(&(group, group));
    let facts = &facts[own];
    let reads = facts.read_before_write && !(is_first && whole.fresh.contains(&node));
    let covers = facts.covered || is_only && whole.covered.contains(&node);
    match (facts.is_written(), reads, covers) {
        (false, ..) => Access::Read,
        (true, true, _) => Access::ReadWrite,
        (true, false, true) => Access::Write,
        (true, false, false) => Access::WritePart,
    }
}
