//! Finds the nodes of subexpressions, which are printed in the places of the operands that read them.

use std::collections::BTreeMap;

use tnode::TensorNode;

use assignments::indexing::AxisIndex;
use assignments::{Accum, AccumOp, Assignments, Operand, ProgramStep};
use lowered_ir::ir::Var;
use lowered_ir::passes::decide_modes::SUBEXPRESSION_REASON;

/// The nodes of subexpressions with the accumulations that write them.
pub(super) struct Subexpressions<'a>(BTreeMap<TensorNode, &'a Accum>);

impl<'a> Subexpressions<'a> {
    /// The nodes that the parser made for subexpressions, that one step writes and one operand of the
    /// statement reads. So no step in between changes the operands.
    pub(super) fn find(program: &'a Assignments) -> Subexpressions<'a> {
        let mut found = BTreeMap::new();
        enter_all(&program.steps, &mut found);
        let mut reads: BTreeMap<TensorNode, usize> = BTreeMap::new();
        let mut writes: BTreeMap<TensorNode, usize> = BTreeMap::new();
        for step in assignments::all_steps(&program.steps) {
            for node in step.accums().iter().flat_map(Accum::operands).filter_map(Operand::node) {
                *reads.entry(node.clone()).or_default() += 1;
            }
            for node in assignments::read_whole(step) {
                *reads.entry(node.clone()).or_default() += 2;
            }
            let detached = match step {
                ProgramStep::Detach(node) => std::slice::from_ref(node),
                ProgramStep::CustomGradient(custom) => &custom.outputs,
                _ => &[],
            };
            for node in detached {
                *reads.entry(node.clone()).or_default() += 2;
            }
            for node in assignments::written(step) {
                *writes.entry(node.clone()).or_default() += 1;
            }
        }
        found.retain(|node, _| {
            let is_named = program.kept.contains(node) || program.recomputed.contains_key(node);
            reads.get(node) == Some(&1) && writes.get(node) == Some(&1) && !is_named
        });
        Subexpressions(found)
    }

    /// The accumulation that computes a subexpression.
    pub(super) fn get(&self, node: &TensorNode) -> Option<&'a Accum> {
        self.0.get(node).copied()
    }
}

/// Enters the nodes of subexpressions whose next step that computes no subexpression reads them, perhaps
/// through other subexpressions.
fn enter_all<'a>(steps: &'a [ProgramStep], found: &mut BTreeMap<TensorNode, &'a Accum>) {
    let mut open: Vec<&'a Accum> = Vec::new();
    for step in steps {
        match step {
            ProgramStep::Accum(accum) if is_subexpression(accum) => open.push(accum),
            ProgramStep::Accum(_) | ProgramStep::Concat(_) => {
                let mut read: Vec<TensorNode> = nodes(step.accums());
                for accum in open.drain(..).rev() {
                    if read.contains(&accum.lhs) {
                        read.extend(nodes(std::slice::from_ref(accum)));
                        found.insert(accum.lhs.clone(), accum);
                    }
                }
            }
            ProgramStep::Block { steps, .. } | ProgramStep::Scan { steps, .. } => enter_all(steps, found),
            ProgramStep::Remark(_) => {}
            ProgramStep::Fetch { .. }
            | ProgramStep::Gradient { .. }
            | ProgramStep::Detach(_)
            | ProgramStep::CustomGradient(_) => open.clear(),
        }
    }
}

fn nodes(accums: &[Accum]) -> Vec<TensorNode> {
    accums.iter().flat_map(Accum::operands).filter_map(Operand::node).cloned().collect()
}

/// Whether an accumulation gives the node of a subexpression its values: the node has an axis for each
/// iterator.
fn is_subexpression(accum: &Accum) -> bool {
    let mode = accum.lhs.mode();
    let is_made =
        mode.chain().iter().any(|decision| decision.reason.text().starts_with(SUBEXPRESSION_REASON));
    let iterates =
        |index: &AxisIndex| matches!(index, AxisIndex::Iterator(Var::Loop(_)) | AxisIndex::Fixed(0));
    let (lhs, iterators) = (accum.projections.project_lhs(), accum.projections.product_iterators());
    let loops = lhs.iter().filter(|index| matches!(index, AxisIndex::Iterator(_))).count();
    is_made
        && accum.op == AccumOp::Assign
        && !accum.init_neutral
        && lhs.iter().all(iterates)
        && loops == iterators.len()
}
