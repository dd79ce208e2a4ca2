//! Compares the gradients of a model with differences of its loss.

use arrayjit::{
    HostArray, TensorNode,
    autodiff::{self, CheckError, CheckOptions, WorstElement},
};

use crate::{
    error::Result,
    graph::Graph,
    model_state::ModelState,
    session::{Batch, BatchValues},
    tensor::Tensor,
};

/// Compares the gradients of a loss by all trainable parameters with central differences, for every element,
/// on the interpreter and in f64 whatever the types of the parameters are. Returns the worst element of each
/// parameter. The graph is one for training, at step 0.
///
/// ```
/// use arrayjit_tensor::{Backend, HostArray, Init, Params, ModelState, session::gradient_check};
///
/// let params = Params::new(7);
/// let w = params.parameter("w", [2, 3], Init::Normal { mean: 0.0, std: 1.0 })?;
/// let weights = ModelState::new(&Backend::open("inline")?, &params)?;
/// let x = HostArray::from_slice(&[1f32, -2.0, 0.5, 1.5], [2, 2])?;
/// let worst = gradient_check(&weights, &[("x", &x)], |batch| {
///     batch.input("x")?.matmul(&w)?.tanh()?.square()?.mean(..)
/// })?;
/// assert_eq!(worst[0].parameter, "w");
/// assert!(worst[0].error < 1e-6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A gradient with an element that is not close to the difference, which the message names with its parameter
/// and index; an error of the closure; inputs that are missing, unknown or empty.
pub fn gradient_check(
    weights: &ModelState,
    inputs: &[(&str, &HostArray)],
    build: impl FnOnce(&Batch) -> Result<Tensor>,
) -> Result<Vec<WorstElement>> {
    let values = BatchValues::copied(inputs)?;
    let graph = Graph::for_training();
    let batch = Batch::new(graph.clone(), &values);
    let loss = build(&batch)?.reshape(&[])?;
    batch.finish()?;
    let (inputs, parameters) = (graph.inputs(), graph.parameters());
    let mut arrays: Vec<(&TensorNode, HostArray)> = Vec::new();
    for (name, node) in &inputs {
        if let Some(array) = values.get(name) {
            arrays.push((node, array.try_clone()?));
        }
    }
    for parameter in &parameters {
        arrays.push((parameter.node(), weights.get(parameter)?));
    }
    let program = graph.program();
    let options =
        CheckOptions { bindings: vec![0; program.symbols.iter().count()], ..CheckOptions::default() };
    let trainable: Vec<&TensorNode> = parameters
        .iter()
        .filter(|parameter| parameter.is_trainable())
        .map(|parameter| parameter.node())
        .collect();
    let name_parameter = |worst: &mut WorstElement| {
        let named = parameters.iter().find(|parameter| parameter.node().name() == worst.parameter);
        worst.parameter = named.map_or(std::mem::take(&mut worst.parameter), |named| named.name().into());
    };
    match autodiff::check(&program, loss.node(), &trainable, &arrays, &options) {
        Ok(mut all) => {
            all.iter_mut().for_each(name_parameter);
            Ok(all)
        }
        Err(mut error) => {
            if let CheckError::Differs { worst, .. } = &mut error {
                name_parameter(worst);
            }
            Err(error.into())
        }
    }
}
