//! The nodes that a program uses, how it uses each first, and the routine's name.

use std::collections::BTreeSet;

use tnode::TensorNode;

use super::{Accum, AccumOp, Assignments, FetchOp, Operand, ProgramStep, SampleValues};
use crate::indexing::{Projections, are_surjective};

/// How one step uses a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeUse {
    /// The step reads earlier values.
    Reads,
    /// The step gives every element a new value, independent of earlier ones.
    Fills,
    /// The step writes some elements; the others keep their values.
    Patches,
}

impl Assignments {
    /// Every node whose values a step reads or writes, nodes of merge buffers included, in order of first
    /// mention.
    pub fn nodes(&self) -> Vec<TensorNode> {
        distinct(all_steps(&self.steps).flat_map(mentioned))
    }

    /// The nodes whose first use fills them, so that a context need not hold them before. The list is in
    /// order of first mention.
    pub fn embedded_nodes(&self) -> Vec<TensorNode> {
        let uses = self.first_uses().into_iter();
        uses.filter(|(_, first)| *first == NodeUse::Fills).map(|(node, _)| node).collect()
    }

    /// The nodes that are read, accumulated into or written in part before they are filled. Linking must find
    /// them in its context. The list is in order of first mention.
    pub fn context_nodes(&self) -> Vec<TensorNode> {
        let uses = self.first_uses().into_iter();
        uses.filter(|(_, first)| *first != NodeUse::Fills).map(|(node, _)| node).collect()
    }

    /// The nodes whose first use writes a part of them.
    pub(crate) fn patched_nodes(&self) -> Vec<TensorNode> {
        let uses = self.first_uses().into_iter();
        uses.filter(|(_, first)| *first == NodeUse::Patches).map(|(node, _)| node).collect()
    }

    /// The nodes whose merge buffers are read. Lowering accepts at most one.
    pub fn merge_nodes(&self) -> Vec<TensorNode> {
        let accums = all_steps(&self.steps).flat_map(ProgramStep::accums);
        distinct(accums.flat_map(Accum::operands).filter_map(|operand| match operand {
            Operand::MergeBuffer(node) => Some(node),
            _ => None,
        }))
    }

    /// The nodes written, in order of first write.
    pub fn written_nodes(&self) -> Vec<TensorNode> {
        distinct(all_steps(&self.steps).flat_map(written))
    }

    fn first_uses(&self) -> Vec<(TensorNode, NodeUse)> {
        let mut firsts: Vec<(TensorNode, NodeUse)> = Vec::new();
        let mut seen = BTreeSet::new();
        for (node, how) in all_steps(&self.steps).flat_map(uses) {
            // A write of all elements of a view writes a part of its parent.
            let (node, how) = match home(node) {
                home if home == *node => (home, how),
                home if how == NodeUse::Fills => (home, NodeUse::Patches),
                home => (home, how),
            };
            if seen.insert(node.clone()) {
                firsts.push((node, how));
            }
        }
        firsts
    }

    /// The routine's name, always an identifier: the names of the outermost blocks joined by `_then_`;
    /// without blocks, the name of the last node written that is not known to be virtual.
    pub fn routine_name(&self) -> String {
        let blocks = self.steps.iter().filter_map(|step| match step {
            ProgramStep::Block { name, .. } => Some(identifier(name)).filter(|name| !name.is_empty()),
            _ => None,
        });
        let name = blocks.collect::<Vec<_>>().join("_then_");
        let name = if name.is_empty() { self.guess_output() } else { name };
        match name.chars().next() {
            None => "routine".to_owned(),
            Some(first) if first.is_ascii_digit() => format!("_{name}"),
            Some(_) => name,
        }
    }

    fn guess_output(&self) -> String {
        let written = self.written_nodes();
        let output = written.iter().rev().find(|node| !node.mode().known_virtual());
        output.map_or_else(String::new, |node| identifier(&node.name()))
    }
}

/// The alphanumeric words of `text`, joined by `_`.
pub fn identifier(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_")
}

/// The steps and those inside of blocks and scans, a block or scan before its steps.
pub fn all_steps(steps: &[ProgramStep]) -> impl Iterator<Item = &ProgramStep> {
    let mut open: Vec<&ProgramStep> = steps.iter().rev().collect();
    std::iter::from_fn(move || {
        let step = open.pop()?;
        open.extend(step.inner().iter().rev());
        Some(step)
    })
}

/// The nodes, each once.
fn distinct<'a>(nodes: impl Iterator<Item = &'a TensorNode>) -> Vec<TensorNode> {
    let mut seen = BTreeSet::new();
    nodes.filter(|node| seen.insert(*node)).cloned().collect()
}

/// The nodes that this step writes, each once; none for a block or scan.
pub fn written(step: &ProgramStep) -> Vec<&TensorNode> {
    let fetched = match step {
        ProgramStep::Fetch { node, .. } => Some(node),
        _ => None,
    };
    let gradients = gradients(step).iter().map(|(_, gradient)| gradient);
    let accums = step.accums().iter().map(|accum| &accum.lhs);
    let mut nodes: Vec<&TensorNode> = accums.chain(fetched).chain(gradients).collect();
    if nodes.len() > 1 {
        let mut seen = BTreeSet::new();
        nodes.retain(|node| seen.insert(*node));
    }
    nodes
}

/// The projections of all accumulations of a step into one node.
pub(crate) fn projections_into<'a>(accums: &'a [Accum], node: &TensorNode) -> Vec<&'a Projections> {
    accums.iter().filter(|accum| accum.lhs == *node).map(|accum| &accum.projections).collect()
}

/// The node that owns the memory of `node`: the parent of a view of an earlier program, transitively.
fn home(node: &TensorNode) -> TensorNode {
    node.view().map_or_else(|| node.clone(), |view| home(&view.parent))
}

/// The parameters of a gradient, each with the node that receives its derivatives; none for other steps.
fn gradients(step: &ProgramStep) -> &[(TensorNode, TensorNode)] {
    match step {
        ProgramStep::Gradient { parameters, .. } => parameters,
        ProgramStep::Accum(_)
        | ProgramStep::Concat(_)
        | ProgramStep::Fetch { .. }
        | ProgramStep::Detach(_)
        | ProgramStep::CustomGradient(_)
        | ProgramStep::Block { .. }
        | ProgramStep::Scan { .. }
        | ProgramStep::Remark(_) => &[],
    }
}

/// The nodes that a step reads as a whole: the parent of a slice, a node with samples, and the loss and the
/// parameters of a gradient.
pub fn read_whole(step: &ProgramStep) -> impl Iterator<Item = &TensorNode> {
    let loss = match step {
        ProgramStep::Gradient { loss, .. } => Some(loss),
        _ => None,
    };
    sliced(step).into_iter().chain(loss).chain(gradients(step).iter().map(|(parameter, _)| parameter))
}

/// The node that a fill reads: the parent of a slice, or the node with samples.
pub(crate) fn sliced(step: &ProgramStep) -> Option<&TensorNode> {
    match step {
        ProgramStep::Fetch {
            op:
                FetchOp::Slice { of, .. }
                | FetchOp::Order { of, .. }
                | FetchOp::SampleValues(SampleValues { of, .. }),
            ..
        } => Some(of),
        ProgramStep::Fetch { .. }
        | ProgramStep::Accum(_)
        | ProgramStep::Concat(_)
        | ProgramStep::Gradient { .. }
        | ProgramStep::Detach(_)
        | ProgramStep::CustomGradient(_)
        | ProgramStep::Block { .. }
        | ProgramStep::Scan { .. }
        | ProgramStep::Remark(_) => None,
    }
}

/// Every node whose values this step reads or writes, reads first.
pub(crate) fn mentioned(step: &ProgramStep) -> impl Iterator<Item = &TensorNode> {
    let operands = step.accums().iter().flat_map(Accum::operands);
    let read = operands.filter_map(|operand| match operand {
        Operand::MergeBuffer(node) => Some(node),
        _ => operand.node(),
    });
    read.chain(read_whole(step)).chain(written(step))
}

/// The nodes a step uses, reads before writes.
fn uses(step: &ProgramStep) -> Vec<(&TensorNode, NodeUse)> {
    let accums = step.accums();
    let operands = accums.iter().flat_map(Accum::operands);
    let read = operands.filter_map(Operand::node).chain(read_whole(step));
    let reads = read.map(|node| (node, NodeUse::Reads));
    reads.chain(written(step).into_iter().map(|node| (node, write(accums, node)))).collect()
}

/// How a step uses a node that it writes.
fn write(accums: &[Accum], node: &TensorNode) -> NodeUse {
    match accums.first() {
        // All accumulations of a step have the same operation. A step without accumulations fills the node.
        Some(accum) if !accum.init_neutral && accum.op != AccumOp::Assign => NodeUse::Reads,
        Some(accum) if !accum.init_neutral && !are_surjective(&projections_into(accums, node)) => {
            NodeUse::Patches
        }
        Some(_) | None => NodeUse::Fills,
    }
}
