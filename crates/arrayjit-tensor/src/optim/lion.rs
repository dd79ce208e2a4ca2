//! Lion: steps along the signs of a mean of gradients.

use crate::{
    error::Result,
    operand::number,
    optim::{Optimizer, ParameterUpdate, UpdateRule},
    options::options,
};

/// Lion: a step along the sign of a mean of the gradients, with decoupled weight decay.
///
/// Source: Chen and others, Symbolic discovery of optimization algorithms, 2023, algorithm 2.
pub type Lion = Optimizer<LionRule>;

/// The rule of [`Lion`].
#[derive(Clone, Debug)]
pub struct LionRule {
    beta1: f64,
    beta2: f64,
    weight_decay: f64,
}

impl Optimizer<LionRule> {
    /// Lion with this learning rate, betas of 0.9 and 0.99, and no weight decay.
    pub fn new(rate: f64) -> Lion {
        Optimizer::with_rule(LionRule { beta1: 0.9, beta2: 0.99, weight_decay: 0.0 }, rate)
    }

    /// The weight of the mean of earlier gradients in the step, and the factor by which the mean decays.
    #[must_use]
    pub fn betas(mut self, beta1: f64, beta2: f64) -> Lion {
        (self.options.rule.beta1, self.options.rule.beta2) = (beta1, beta2);
        self
    }

    options! {
        /// Multiplies parameters by 1 - rate · `weight_decay` in each step; 0 by default.
        weight_decay: f64 => options.rule.weight_decay;
    }
}

impl UpdateRule for LionRule {
    fn name(&self) -> &'static str {
        "lion"
    }

    fn update(&self, update: &ParameterUpdate<'_>) -> Result<()> {
        update.check_betas([self.beta1, self.beta2])?;
        update.check("weight_decay", self.weight_decay, 0.0.., "a finite number, 0 or more")?;
        let [beta1, beta2] = [self.beta1, self.beta2].map(number);
        let decay = number(self.weight_decay);
        update.apply(
            &["m"],
            &format!(
                "c[..] := {beta1} * m[..] + (1 - {beta1}) * g[..]\n\
                 m[..] := {beta2} * m[..] + (1 - {beta2}) * g[..]\n\
                 w[..] *= 1 - rate[] * {decay}\n\
                 w[..] -= rate[] * where(c[..] > 0, 1, where(c[..] < 0, -1, 0))"
            ),
        )
    }
}
