//! The inputs and metrics of a graph that a session builds.

use std::sync::Mutex;

use crate::{
    error::{Call, Result, TensorError, misfit},
    graph::Graph,
    parameter::locked,
    session::{BatchValues, values::BatchSignature},
    tensor::Tensor,
};

/// The batch from which the closure of a session computes the loss: its inputs, as tensors of a graph, and
/// the metrics beside the loss.
pub struct Batch {
    graph: Graph,
    signature: BatchSignature,
    inputs: Mutex<Vec<(String, Tensor)>>,
    metrics: Mutex<Vec<(String, Tensor)>>,
}

impl Batch {
    pub(super) fn new(graph: Graph, values: &BatchValues) -> Batch {
        Batch { graph, signature: values.signature(), inputs: Mutex::default(), metrics: Mutex::default() }
    }

    /// The graph that the closure builds.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Whether the graph is one for training.
    pub fn is_training(&self) -> bool {
        self.graph.is_training()
    }

    /// The input of that name, with the shape and type of the array in the batch.
    ///
    /// # Errors
    /// A name that the batch does not have.
    #[track_caller]
    pub fn input(&self, name: &str) -> Result<Tensor> {
        let call = Call::new("input");
        let mut inputs = locked(&self.inputs);
        if let Some((_, tensor)) = inputs.iter().find(|(other, _)| other == name) {
            return Ok(tensor.clone());
        }
        let Some((_, dtype, shape)) = self.signature.iter().find(|(other, ..)| other == name) else {
            let names: Vec<_> = self.signature.iter().map(|(name, ..)| format!("`{name}`")).collect();
            let expected = format!("an input of the batch, which has {}", names.join(", "));
            return Err(self.graph.fail(call, misfit("name", format!("`{name}`"), expected)));
        };
        let tensor = self.graph.input(name, shape.iter().copied(), *dtype)?;
        inputs.push((name.to_owned(), tensor.clone()));
        Ok(tensor)
    }

    /// Reports a value of the batch beside the loss, such as its accuracy: a tensor of one element.
    ///
    /// # Errors
    /// A tensor of several elements or of another graph; a name that is used already, or `loss`.
    #[track_caller]
    pub fn metric(&self, name: &str, value: &Tensor) -> Result<()> {
        let call = Call::new("metric");
        if value.graph() != &self.graph {
            return Err(self.graph.fail(call, TensorError::OtherGraph { tensor: value.name() }));
        }
        if value.num_elements() != 1 {
            let (what, found) = (format!("metric `{name}`"), value.shape().to_vec());
            let expected = "one element".into();
            return Err(self.graph.fail(call, TensorError::Shape { what, found, expected }));
        }
        let value = value.reshape(&[])?;
        let mut metrics = locked(&self.metrics);
        if name == "loss" || metrics.iter().any(|(other, _)| other == name) {
            return Err(self.graph.fail(call, TensorError::Name { what: "metric", name: name.into() }));
        }
        metrics.push((name.to_owned(), value));
        Ok(())
    }

    /// The metrics by name, after the closure. An input that it did not read is an error.
    pub(super) fn finish(self) -> Result<Vec<(String, Tensor)>> {
        let inputs = locked(&self.inputs);
        let names = || inputs.iter().map(|(name, _)| name.clone()).collect();
        let unused = self.signature.iter().find(|(name, ..)| inputs.iter().all(|(other, _)| other != name));
        if let Some((name, ..)) = unused {
            let problem = "is read by no operation of the closure";
            return Err(TensorError::Input { name: name.clone(), problem, inputs: names() });
        }
        Ok(locked(&self.metrics).clone())
    }
}
