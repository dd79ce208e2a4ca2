//! Gradients that a front end gives, and the nodes of steps.

use std::collections::BTreeSet;

use tnode::TensorNode;

use crate::{Accum, FetchOp, Operand, ProgramStep, SampleValues, all_steps, mentioned, written};

/// The gradients by some nodes from those by others, as steps of a front end in place of rules.
///
/// The outputs have the values that earlier steps gave them, and are functions of the inputs for the
/// gradients of later steps: a gradient by the outputs goes through [`steps`](CustomGradient::steps) alone.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomGradient {
    /// Nodes of floats, the arguments of the function.
    pub inputs: Vec<TensorNode>,
    /// Nodes of floats, the results of the function.
    pub outputs: Vec<TensorNode>,
    /// For each output, a node of its dimensions that stands for the gradient by it.
    pub output_gradients: Vec<TensorNode>,
    /// For each input, a node of its dimensions that has the gradient by it after the steps.
    pub input_gradients: Vec<TensorNode>,
    /// The steps that compute the gradients by the inputs. A backward pass has a copy of them, with nodes of
    /// its own in place of those that they write.
    pub steps: Vec<ProgramStep>,
}

impl CustomGradient {
    /// The nodes from which a backward pass computes: the inputs, and the nodes that the steps read but do
    /// not write.
    pub fn read_nodes(&self) -> Vec<&TensorNode> {
        let own: BTreeSet<&TensorNode> =
            all_steps(&self.steps).flat_map(written).chain(&self.output_gradients).collect();
        let read = all_steps(&self.steps).flat_map(mentioned).chain(&self.input_gradients);
        self.inputs.iter().chain(read.filter(|node| !own.contains(node))).collect()
    }
}

/// All nodes that steps mention, to be replaced; those of blocks, scans and custom gradients too.
pub fn nodes_mut(steps: &mut [ProgramStep]) -> Vec<&mut TensorNode> {
    let mut all = Vec::new();
    collect(steps, &mut all);
    all
}

fn collect<'s>(steps: &'s mut [ProgramStep], all: &mut Vec<&'s mut TensorNode>) {
    for step in steps {
        match step {
            ProgramStep::Accum(accum) => collect_accum(accum, all),
            ProgramStep::Concat(parts) => parts.iter_mut().for_each(|part| collect_accum(part, all)),
            ProgramStep::Fetch { node, op, .. } => {
                all.push(node);
                match op {
                    FetchOp::Slice { of, .. }
                    | FetchOp::EmbedDim { of, .. }
                    | FetchOp::Order { of, .. }
                    | FetchOp::SampleValues(SampleValues { of, .. }) => all.push(of),
                    FetchOp::Constant(_)
                    | FetchOp::ConstantBits(_)
                    | FetchOp::ConstantFill(_)
                    | FetchOp::RangeOverOffsets
                    | FetchOp::EmbedSymbol(_)
                    | FetchOp::EmbedSelfId
                    | FetchOp::Random(_) => {}
                }
            }
            ProgramStep::Gradient { loss, parameters, .. } => {
                all.push(loss);
                parameters.iter_mut().for_each(|(parameter, gradient)| all.extend([parameter, gradient]));
            }
            ProgramStep::Detach(node) => all.push(node),
            ProgramStep::CustomGradient(custom) => {
                let CustomGradient { inputs, outputs, output_gradients, input_gradients, steps } =
                    &mut **custom;
                all.extend(inputs.iter_mut().chain(outputs).chain(output_gradients).chain(input_gradients));
                collect(steps, all);
            }
            ProgramStep::Block { steps, .. } => collect(steps, all),
            ProgramStep::Scan { steps, end, .. } => {
                collect(steps, all);
                all.extend(end.as_mut().map(|end| &mut end.node));
            }
            ProgramStep::Remark(_) => {}
        }
    }
}

fn collect_accum<'s>(accum: &'s mut Accum, all: &mut Vec<&'s mut TensorNode>) {
    all.push(&mut accum.lhs);
    let operands = accum.rhs.operands_mut().iter_mut().chain(&mut accum.computed);
    all.extend(operands.filter_map(|operand| match operand {
        Operand::Node(node) | Operand::MergeBuffer(node) | Operand::Padded { node, .. } => Some(node),
        Operand::Constant(_) | Operand::Index(_) | Operand::Random { .. } => None,
    }));
}
