//! The content of a program as a hash, for caches that outlive the process.
//!
//! Two programs with equal content are lowered to the same routine, in different processes too: nodes count
//! by the order in which the program first mentions them and by what is known of them, not by their
//! identities.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use tnode::TensorNode;

use crate::{Accum, Assignments, CustomGradient, FetchOp, Operand, ProgramStep, Rhs, SampleValues, ScanEnd};

/// The nodes of a program, in the order of their first mention in its content.
#[derive(Clone, Debug, Default)]
pub struct ContentNodes {
    nodes: Vec<TensorNode>,
    places: HashMap<TensorNode, u32>,
}

impl ContentNodes {
    /// The nodes by their number.
    pub fn as_slice(&self) -> &[TensorNode] {
        &self.nodes
    }

    /// The number of a node.
    pub fn number(&self, node: &TensorNode) -> Option<u32> {
        self.places.get(node).copied()
    }
}

impl Assignments {
    /// Adds to a hash all that the lowered routine depends on, except for warnings: the steps, and of each
    /// node its name, type, dimensions, margins, the outcomes left for its memory, and its view. Settles the
    /// types of the nodes. `None` if the dimensions of a node are open, or if the program depends on more,
    /// such as the id of a node.
    pub fn hash_content(&self, state: &mut impl Hasher) -> Option<ContentNodes> {
        let mut content = Content { state, nodes: ContentNodes::default() };
        self.symbols.hash(content.state);
        content.steps(&self.steps)?;
        let kept = self.kept.iter().map(|node| content.nodes.number(node));
        let mut kept: Vec<u32> = kept.flatten().collect();
        kept.sort_unstable();
        kept.hash(content.state);
        // Parents of views come behind the nodes that the steps mention.
        let mut at = 0;
        while let Some(node) = content.nodes.nodes.get(at).cloned() {
            content.describe(&node)?;
            at += 1;
        }
        Some(content.nodes)
    }
}

struct Content<'a, H> {
    state: &'a mut H,
    nodes: ContentNodes,
}

impl<H: Hasher> Content<'_, H> {
    fn steps(&mut self, steps: &[ProgramStep]) -> Option<()> {
        steps.len().hash(self.state);
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &ProgramStep) -> Option<()> {
        std::mem::discriminant(step).hash(self.state);
        match step {
            ProgramStep::Accum(accum) => self.accum(accum),
            ProgramStep::Concat(parts) => {
                parts.len().hash(self.state);
                parts.iter().for_each(|part| self.accum(part));
            }
            ProgramStep::Fetch { node, op, origin: _ } => {
                self.node(node);
                self.fetch(op)?;
            }
            ProgramStep::Gradient { loss, parameters, origin: _ } => {
                self.node(loss);
                parameters.len().hash(self.state);
                for (parameter, gradient) in parameters {
                    self.node(parameter);
                    self.node(gradient);
                }
            }
            ProgramStep::Detach(node) => self.node(node),
            ProgramStep::CustomGradient(custom) => {
                let CustomGradient { inputs, outputs, output_gradients, input_gradients, steps } = &**custom;
                for nodes in [inputs, outputs, output_gradients, input_gradients] {
                    nodes.len().hash(self.state);
                    nodes.iter().for_each(|node| self.node(node));
                }
                self.steps(steps)?;
            }
            ProgramStep::Block { name, steps } => {
                name.hash(self.state);
                self.steps(steps)?;
            }
            ProgramStep::Scan { symbol, steps, end } => {
                symbol.hash(self.state);
                end.is_some().hash(self.state);
                if let Some(ScanEnd { node, is_final }) = end {
                    self.node(node);
                    is_final.hash(self.state);
                }
                self.steps(steps)?;
            }
            ProgramStep::Remark(text) => text.hash(self.state),
        }
        Some(())
    }

    fn accum(&mut self, accum: &Accum) {
        let Accum { init_neutral, op, lhs, rhs, computed, projections, origin: _ } = accum;
        (init_neutral, op, projections).hash(self.state);
        self.node(lhs);
        std::mem::discriminant(rhs).hash(self.state);
        match rhs {
            Rhs::Copy(_) => {}
            Rhs::Unary(op, _) => op.hash(self.state),
            Rhs::Binary(op, _) => op.hash(self.state),
            Rhs::Ternary(op, _) => op.hash(self.state),
        }
        rhs.operands().iter().for_each(|operand| self.operand(operand));
        computed.len().hash(self.state);
        computed.iter().for_each(|operand| self.operand(operand));
    }

    fn operand(&mut self, operand: &Operand) {
        std::mem::discriminant(operand).hash(self.state);
        match operand {
            Operand::Node(node) | Operand::MergeBuffer(node) => self.node(node),
            Operand::Padded { node, outside } => {
                self.node(node);
                outside.hash(self.state);
            }
            Operand::Constant(value) => value.hash(self.state),
            Operand::Index(dtype) => dtype.hash(self.state),
            Operand::Random { random, dtype } => (random, dtype).hash(self.state),
        }
    }

    fn fetch(&mut self, op: &FetchOp) -> Option<()> {
        std::mem::discriminant(op).hash(self.state);
        match op {
            FetchOp::Constant(value) => value.to_bits().hash(self.state),
            FetchOp::ConstantBits(bits) => bits.hash(self.state),
            FetchOp::ConstantFill(values) => {
                values.len().hash(self.state);
                values.iter().for_each(|value| value.to_bits().hash(self.state));
            }
            FetchOp::RangeOverOffsets => {}
            FetchOp::EmbedSymbol(symbol) => symbol.hash(self.state),
            // The id of a node is another one in each process.
            FetchOp::EmbedSelfId => return None,
            FetchOp::EmbedDim { of, axis } => {
                self.node(of);
                axis.hash(self.state);
            }
            FetchOp::Slice { index, of } => {
                index.hash(self.state);
                self.node(of);
            }
            FetchOp::Order { of, axis, is_descending } => {
                self.node(of);
                (axis, is_descending).hash(self.state);
            }
            FetchOp::Random(random) => random.hash(self.state),
            FetchOp::SampleValues(SampleValues { distribution, scheme, of }) => {
                (distribution, scheme).hash(self.state);
                self.node(of);
            }
        }
        Some(())
    }

    fn node(&mut self, node: &TensorNode) {
        let next = self.nodes.nodes.len() as u32;
        let number = *self.nodes.places.entry(node.clone()).or_insert(next);
        if number == next {
            self.nodes.nodes.push(node.clone());
        }
        number.hash(self.state);
    }

    fn describe(&mut self, node: &TensorNode) -> Option<()> {
        (node.name(), node.dtype(), node.dims().ok()?, node.run_sizes()).hash(self.state);
        node.mode().outcomes().hash(self.state);
        if let Some(padding) = node.padding() {
            format!("{padding:?}").hash(self.state);
        }
        if let Some(view) = node.view() {
            view.symbol.hash(self.state);
            self.node(&view.parent);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use tnode::MemoryMode;

    use super::*;
    use crate::builder;

    fn hash(of: &TensorNode, to: &TensorNode) -> u64 {
        let program = builder::copy(to, of).expect("both have dimensions");
        let mut state = DefaultHasher::new();
        let nodes = program.hash_content(&mut state).expect("all is settled");
        assert_eq!(nodes.number(to), Some(0));
        state.finish()
    }

    #[test]
    fn identities_make_no_difference_and_facts_do() {
        let node = |name: &str, dim| TensorNode::builder(name).dims([dim]).build().expect("a small node");
        let first = hash(&node("x", 4), &node("y", 4));
        assert_eq!(first, hash(&node("x", 4), &node("y", 4)));
        assert_ne!(first, hash(&node("z", 4), &node("y", 4)), "another name");
        assert_ne!(first, hash(&node("x", 5), &node("y", 5)), "other dimensions");
        let hosted = TensorNode::builder("x").dims([4]).mode(MemoryMode::Materialized).build();
        assert_ne!(first, hash(&hosted.expect("a small node"), &node("y", 4)), "another mode");
        let same = node("x", 4);
        assert_ne!(first, hash(&same, &same), "one node twice");
    }
}
