//! A model as one graph, which other compilers than those of sessions take.

use std::{collections::BTreeMap, sync::Arc};

use arrayjit_tensor::{Backend, Graph, ModelState, Params};
use lowered_ir::stack::with_enough;
use tnode::{HostArray, TensorNode};

use crate::{
    dimensions::signature_with,
    error::OnnxError,
    model::Model,
    trace::{Shared, Tracer},
};

/// The size of a dimension that a model leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimensionSize {
    /// Every run has this size.
    Fixed(usize),
    /// Each run gives the size, from 1 to this bound.
    UpTo(usize),
}

/// A model as one graph of tensors, which has not been compiled. [`Model::program`] makes it.
pub struct ModelProgram {
    /// The statements that compute the outputs.
    pub graph: Graph,
    /// The inputs that the graph reads, by their names in the model.
    pub inputs: Vec<(String, TensorNode)>,
    /// The outputs, by their names in the model. Each has a node of its own, which the graph writes.
    pub outputs: Vec<(String, TensorNode)>,
    /// The nodes that the graph reads and no run gives, with their values.
    pub constants: Vec<(TensorNode, Arc<HostArray>)>,
    /// The names of sizes that runs give: in the graph, and of the dimension in the model.
    pub sizes: Vec<(String, String)>,
}

impl Model {
    /// The model as one graph for these sizes of the dimensions that it leaves open, by name; axis 0 of input
    /// `x` without a name is `x[0]`. The backend computes constants. A graph is compiled once, so each
    /// compiler gets one of its own.
    ///
    /// ```
    /// use arrayjit_onnx::{Backend, DimensionSize, Model};
    ///
    /// let model = Model::load("examples/layer.onnx")?; // y = relu(x · w), x is f32[batch, 3]
    /// let sizes = [("batch".to_owned(), DimensionSize::Fixed(4))].into();
    /// let program = model.program(&Backend::open("inline")?, &sizes)?;
    /// assert_eq!(program.outputs[0].1.dims()?.as_slice(), [4, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// An input without a type or a number of axes; a dimension without a size, and a size of 0 or for no
    /// dimension; a node that cannot be evaluated with these sizes, or that needs values which only a run
    /// has, such as the condition of an `If`; an error of the backend.
    pub fn program(
        &self,
        backend: &Backend,
        sizes: &BTreeMap<String, DimensionSize>,
    ) -> Result<ModelProgram, OnnxError> {
        let inputs = self.inputs();
        let (signature, sizes) = signature_with(&inputs, sizes)?;
        let names: Vec<String> = inputs.into_iter().map(|info| info.name).collect();
        let shared = Shared::new(ModelState::new(backend, &Params::new(0))?, self.limits());
        let (mut slots, mut events) = (Vec::new(), Vec::new());
        let mut tracer = Tracer::new(&shared, &mut slots, &mut events);
        let program = with_enough(|| tracer.whole(self.graph(), &names, &signature))?;
        Ok(ModelProgram { sizes, ..program })
    }
}
