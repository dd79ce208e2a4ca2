//! The update of one parameter.

use std::{ops::RangeBounds, sync::Arc};

use arrayjit::DType;

use crate::{
    error::{Call, Result, TensorError, misfit},
    operand::Argument,
    optim::OptimizerState,
    parameter::Parameter,
    shape::{letter, whole},
    tensor::Tensor,
};

/// A rule by which an optimizer updates a parameter.
pub trait UpdateRule: Send + Sync {
    /// The name of the optimizer, with which the names of its state begin.
    fn name(&self) -> &'static str;

    /// Adds the statements that update one parameter to its graph, by [`ParameterUpdate::apply`].
    ///
    /// # Errors
    /// Fails like [`ParameterUpdate::apply`].
    fn update(&self, update: &ParameterUpdate<'_>) -> Result<()>;
}

impl UpdateRule for Arc<dyn UpdateRule> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn update(&self, update: &ParameterUpdate<'_>) -> Result<()> {
        (**self).update(update)
    }
}

/// A parameter with its gradient, to which an [`UpdateRule`] adds the statements of the update.
pub struct ParameterUpdate<'a> {
    pub(super) call: Call,
    /// The name of the rule.
    pub(super) rule: &'static str,
    pub(super) parameter: &'a Parameter,
    pub(super) gradient: &'a Tensor,
    pub(super) rate: &'a Tensor,
    /// The number of this step, from 1, in f32.
    pub(super) count: &'a Tensor,
    pub(super) state: &'a OptimizerState,
}

/// The shape of an array of the state of a parameter.
#[derive(Clone, Copy)]
pub(super) enum StateShape {
    /// That of the parameter.
    Whole,
    /// That of the parameter without an axis.
    Without(usize),
}

impl StateShape {
    fn of(self, shape: &[usize]) -> Vec<usize> {
        let StateShape::Without(left_out) = self else { return shape.to_vec() };
        shape.iter().enumerate().filter(|(axis, _)| *axis != left_out).map(|(_, size)| *size).collect()
    }
}

impl ParameterUpdate<'_> {
    /// The parameter that is updated.
    pub fn parameter(&self) -> &Parameter {
        self.parameter
    }

    /// Checks an option of the rule.
    pub(super) fn check(
        &self,
        option: &'static str,
        value: f64,
        range: impl RangeBounds<f64>,
        expected: &str,
    ) -> Result<()> {
        if value.is_finite() && range.contains(&value) {
            return Ok(());
        }
        Err(self.gradient.graph().fail(self.call, misfit(option, value, expected)))
    }

    /// The error of a parameter with another number of axes than the rule takes.
    pub(super) fn wrong_rank(&self, expected: &str) -> TensorError {
        self.gradient.graph().fail(self.call, Argument::Parameter(self.parameter).misshapen(expected))
    }

    /// Checks the factors by which means decay per step.
    pub(super) fn check_betas(&self, betas: [f64; 2]) -> Result<()> {
        betas
            .into_iter()
            .try_for_each(|beta| self.check("betas", beta, 0.0..1.0, "at least 0 and less than 1"))
    }

    /// Adds assignment text that writes `w`, the parameter. The text may read its gradient `g`, the learning
    /// rate `rate[]` and the number of the step `t[]`, which counts from 1. It may also write the arrays of
    /// the optimizer's state whose names are given: they have the shape of the parameter, start from zero and
    /// have names such as `adam.m.fc1.weight`. `[..]` in the text stands for the axes of the parameter.
    ///
    /// # Errors
    /// An error of the text, or a state of that name and another shape.
    pub fn apply(&self, states: &[&str], text: &str) -> Result<()> {
        let states: Vec<_> = states.iter().map(|&state| (state, StateShape::Whole)).collect();
        self.apply_shaped(&states, text)
    }

    /// [`apply`](ParameterUpdate::apply) with arrays of other shapes.
    pub(super) fn apply_shaped(&self, states: &[(&str, StateShape)], text: &str) -> Result<()> {
        let dtype = self.parameter.dtype();
        let is_narrow = dtype != DType::F64 && dtype != DType::F32;
        let wide = if is_narrow { DType::F32 } else { dtype };
        let array = |(state, shape): (&str, StateShape)| {
            let name = format!("{}.{state}.{}", self.rule, self.parameter.name());
            self.state.array(&name, &shape.of(self.parameter.shape()), wide)
        };
        let arrays = states.iter().map(|&state| array(state)).collect::<Result<Vec<_>, _>>()?;
        let mut inputs = vec![("g", Argument::Tensor(self.gradient)), ("rate", Argument::Tensor(self.rate))];
        inputs.push(("t", Argument::Tensor(self.count)));
        inputs.extend(states.iter().map(|(state, _)| *state).zip(arrays.iter().map(Argument::Parameter)));
        let letters: Vec<String> = (0..self.parameter.shape().len()).map(letter).collect();
        let text = text.replace("[..]", &format!("[{}]", letters.join(",")));
        let graph = self.gradient.graph();
        if !is_narrow {
            inputs.push(("w", Argument::Parameter(self.parameter)));
            graph.emit(self.call, &text, &inputs, &[])?;
            return Ok(());
        }
        let rest = array(("rest", StateShape::Whole))?;
        inputs.push(("stored", Argument::Parameter(self.parameter)));
        inputs.push(("rest", Argument::Parameter(&rest)));
        let [w, stored, rest] = ["w", "stored", "rest"].map(|name| whole(name, letters.len()));
        let text = format!(
            "{w} := f32({stored}) + {rest}\n{text}\n{stored} := {dtype}({w})\n{rest} := {w} - f32({stored})"
        );
        graph.emit(self.call, &text, &inputs, &[])?;
        Ok(())
    }
}
