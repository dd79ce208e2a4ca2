//! Programs in double precision, on which differences are accurate.

use std::collections::BTreeMap;

use assignments::{Assignments, nodes_mut};
use tnode::{DType, MemoryMode, TensorNode};

/// The nodes of floats of a program with their twins of type f64.
#[derive(Default)]
pub(crate) struct Twins(BTreeMap<TensorNode, TensorNode>);

impl Twins {
    /// The twin of a node; the node itself if it holds no floats, or is f64 already.
    pub(crate) fn of(&mut self, node: &TensorNode) -> Result<TensorNode, tnode::TensorNodeError> {
        if !node.dtype().is_float() || node.dtype() == DType::F64 {
            return Ok(node.clone());
        }
        if let Some(twin) = self.0.get(node) {
            return Ok(twin.clone());
        }
        let builder =
            TensorNode::builder(node.label().to_vec()).dims(node.dims_without_padding()?).dtype(DType::F64);
        let builder = builder.run_sizes(node.run_sizes().into());
        let builder = match node.padding() {
            Some(padding) => builder.padding(padding.clone()),
            None => builder,
        };
        let is_virtual = node.mode().known_virtual();
        let twin = if is_virtual { builder.mode(MemoryMode::Virtual) } else { builder }.build()?;
        self.0.insert(node.clone(), twin.clone());
        Ok(twin)
    }

    /// A copy of the program in which twins replace the nodes.
    pub(crate) fn program(&mut self, program: &Assignments) -> Result<Assignments, tnode::TensorNodeError> {
        let mut steps = program.steps.clone();
        for node in nodes_mut(&mut steps) {
            *node = self.of(node)?;
        }
        Ok(Assignments { symbols: program.symbols.clone(), steps, ..Assignments::default() })
    }
}
