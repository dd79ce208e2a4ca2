//! Gradients that a front end gives: the backward pass has a copy of their steps.

use std::collections::BTreeMap;

use assignments::{CustomGradient, Origin, all_steps, nodes_mut, written};
use tnode::{MemoryMode, TensorNode};

use crate::access::{Operation, each_element};
use crate::backward::BackwardPass;
use crate::error::Result;
use crate::forward_program::filled;
use crate::statement::{Statement, Tape, plain_name};

impl BackwardPass<'_> {
    /// Appends the steps that compute the adjoints of the inputs from those of the outputs.
    pub(crate) fn custom_gradient(&mut self, custom: &CustomGradient, at: usize) -> Result<()> {
        let adjoints: Vec<_> = custom.outputs.iter().map(|output| self.adjoints.remove(output)).collect();
        let is_active = |input: &&TensorNode| self.tape.forward.is_active_before(at, input);
        if adjoints.iter().all(Option::is_none) || !custom.inputs.iter().any(|input| is_active(&input)) {
            return Ok(());
        }
        let mut nodes = BTreeMap::new();
        for ((output, gradient), adjoint) in custom.outputs.iter().zip(&custom.output_gradients).zip(adjoints)
        {
            let node = match adjoint {
                Some(adjoint) => adjoint.node,
                None => self.tape.zero_adjoint(output)?,
            };
            nodes.insert(gradient.clone(), node);
        }
        for node in all_steps(&custom.steps).flat_map(written) {
            if !nodes.contains_key(node) {
                nodes.insert(node.clone(), self.tape.temporary_copy(node)?);
            }
        }
        for node in custom.read_nodes() {
            if !nodes.contains_key(node) {
                nodes.insert(node.clone(), self.tape.value_before(node, at)?);
            }
        }
        let mut steps = custom.steps.clone();
        for node in nodes_mut(&mut steps) {
            if let Some(new) = nodes.get(node) {
                *node = new.clone();
            }
        }
        self.tape.backward.extend(steps);
        for (input, gradient) in custom.inputs.iter().zip(&custom.input_gradients) {
            if self.tape.forward.is_active_before(at, input) {
                self.add_to_adjoint(input, &nodes[gradient], at)?;
            }
        }
        Ok(())
    }

    /// Adds the elements of a node to the adjoint of the version of a node that the step at a position reads.
    fn add_to_adjoint(&mut self, node: &TensorNode, gradient: &TensorNode, at: usize) -> Result<()> {
        let (target, is_new) = self.adjoint(node, at)?;
        let target = target.node.clone();
        let points = each_element(node, &node.dims_without_padding()?, Origin::unknown());
        let statement = Statement::new(&points, at, true, &mut self.tape)?;
        let operand = statement.at_target(gradient);
        statement.push(statement.sum(&target, is_new), Operation::Copy, &[operand], &mut self.tape)
    }
}

impl Tape {
    /// A new adjoint of a node that the loss does not depend on.
    fn zero_adjoint(&mut self, node: &TensorNode) -> Result<TensorNode> {
        let zero = self.adjoint_of(node)?;
        self.backward.push(filled(&zero, 0.0, Origin::unknown()));
        Ok(zero)
    }

    /// A new node like another one.
    fn temporary_copy(&mut self, node: &TensorNode) -> Result<TensorNode> {
        let copy = self.temporary_like(node, &plain_name(node), node.dtype())?;
        let mode = node.mode();
        if let Some(decision) = mode.chain().last().filter(|_| mode.known_virtual()) {
            copy.update_memory_mode(MemoryMode::Virtual, decision.reason.clone())?;
        }
        Ok(copy)
    }
}
