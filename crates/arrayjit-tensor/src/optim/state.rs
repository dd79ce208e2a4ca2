//! The arrays of an optimizer: they outlive a step, and live on the device beside the weights.

use arrayjit::{DType, HostArray};

use crate::{
    error::Result,
    model_state::ModelState,
    parameter::{Init, Parameter, Params},
};

/// The name of the flag that guards steps.
const HALTED: &str = "halted";

/// The name of the array that has the scale of the next loss; 0 before the first step.
pub(super) const LOSS_SCALE: &str = "loss_scale";

/// The name of the array that has the mean of the values of a parameter.
pub(super) fn average_name(parameter: &Parameter) -> String {
    format!("average.{}", parameter.name())
}

/// The arrays of an optimizer for the weights of a model, such as the moments of Adam. They live on the
/// device of the weights for as long as the weights do. They are no part of [`ModelState::state_dict`], which
/// has the names of the model only.
#[derive(Clone)]
pub struct OptimizerState {
    weights: ModelState,
    arrays: Params,
}

impl OptimizerState {
    /// A state without arrays; optimizers add theirs.
    pub fn new(weights: &ModelState) -> OptimizerState {
        let arrays = Params::new(0);
        weights.add_state(&arrays);
        OptimizerState { weights: weights.clone(), arrays }
    }

    /// A state whose arrays get no memory: it only tells their names and shapes.
    pub(crate) fn without_memory(weights: &ModelState) -> OptimizerState {
        OptimizerState { weights: weights.clone(), arrays: Params::new(0) }
    }

    pub(super) fn weights(&self) -> &ModelState {
        &self.weights
    }

    /// The arrays so far, in the order in which they were made.
    pub fn arrays(&self) -> Vec<Parameter> {
        self.arrays.all()
    }

    /// Whether a step had a loss or gradient that is not finite since the last call of
    /// [`clear_halt`](OptimizerState::clear_halt). Waits for all steps that were started.
    ///
    /// ```
    /// use arrayjit_tensor::{Backend, Graph, Init, ModelState, Params, Sgd, optim::OptimizerState};
    ///
    /// let params = Params::new(1);
    /// let w = params.parameter("w", [], Init::ZEROS)?;
    /// let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    /// let (graph, state) = (Graph::for_training(), OptimizerState::new(&weights));
    /// Sgd::new(0.1).update(&graph.apply("y := log(w[])", &[("w", &&w)])?, &state)?;
    /// graph.compile(&weights, &[])?.start(&[], &[("step", 0)])?;
    /// assert!(state.is_halted()?); // the loss is -∞
    /// assert_eq!(weights.get(&w)?.values(), [0.0]);
    /// state.clear_halt()?;
    /// assert!(!state.is_halted()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// An error of the device.
    pub fn is_halted(&self) -> Result<bool> {
        Ok(self.weights.get(&self.halted()?)?.values() != [0.0])
    }

    /// The scale of the next step's loss, of an optimizer with a [`LossScale`](super::LossScale) that has taken
    /// a step.
    ///
    /// # Errors
    /// An error of the device.
    pub fn loss_scale(&self) -> Result<Option<f64>> {
        let scale = self.arrays.get(LOSS_SCALE).map(|scale| self.weights.get(&scale)).transpose()?;
        Ok(scale.and_then(|scale| scale.values().first().copied()).filter(|&scale| scale > 0.0))
    }

    /// Lets later steps change parameters again after a step whose loss was not finite.
    ///
    /// # Errors
    /// An error of the device.
    pub fn clear_halt(&self) -> Result<()> {
        self.weights.set(&self.halted()?, HostArray::zeros(DType::I32, [])?)
    }

    /// 1 after a step whose loss was not finite, else 0.
    pub(super) fn halted(&self) -> Result<Parameter> {
        match self.arrays.get(HALTED) {
            Some(halted) => Ok(halted),
            None => self.arrays.with_dtype(DType::I32).buffer(HALTED, [], Init::ZEROS),
        }
    }

    /// The array of that name, shape and type; it starts from zero.
    pub(super) fn array(&self, name: &str, shape: &[usize], dtype: DType) -> Result<Parameter> {
        match self.arrays.get(name) {
            Some(array) if array.shape() == shape && array.dtype() == dtype => Ok(array),
            _ => self.arrays.with_dtype(dtype).buffer(name, shape.iter().copied(), Init::ZEROS),
        }
    }

    /// The mean of the values of a parameter, if the optimizer [averages](crate::optim::Optimizer::average).
    ///
    /// # Errors
    /// An error of the device.
    pub fn average(&self, parameter: &Parameter) -> Result<Option<HostArray>> {
        let array = self.arrays.get(&average_name(parameter));
        array.map(|array| self.weights.get(&array)).transpose()
    }
}
