//! Adam and AdamW.

use crate::{
    error::Result,
    operand::number,
    optim::{Optimizer, ParameterUpdate, UpdateRule},
    options::options,
};

/// Adam, as torch's: a step along the mean of the gradients over the root of the mean of their squares.
///
/// Source: Kingma and Ba, Adam: A method for stochastic optimization, 2014.
pub type Adam = Optimizer<AdamRule>;

/// Adam with decoupled weight decay, as torch's `AdamW`.
///
/// Source: Loshchilov and Hutter, Decoupled weight decay regularization, 2017.
pub type AdamW = Optimizer<AdamWRule>;

/// The rule of [`Adam`].
#[derive(Clone, Debug)]
pub struct AdamRule {
    beta1: f64,
    beta2: f64,
    eps: f64,
}

/// The rule of [`AdamW`].
#[derive(Clone, Debug)]
pub struct AdamWRule {
    adam: AdamRule,
    weight_decay: f64,
}

impl AdamRule {
    const DEFAULT: AdamRule = AdamRule { beta1: 0.9, beta2: 0.999, eps: 1e-8 };

    fn check(&self, update: &ParameterUpdate<'_>) -> Result<()> {
        update.check_betas([self.beta1, self.beta2])?;
        update.check("eps", self.eps, 0.0.., "a finite number, 0 or more")
    }

    /// The last arguments of the functions of the prelude.
    fn arguments(&self) -> String {
        format!("{}, {}, {}", number(self.beta1), number(self.beta2), number(self.eps))
    }
}

impl Optimizer<AdamRule> {
    /// Adam with this learning rate, betas of 0.9 and 0.999, and an epsilon of 1e-8.
    pub fn new(rate: f64) -> Adam {
        Optimizer::with_rule(AdamRule::DEFAULT, rate)
    }

    /// The factors by which the means of gradients and of their squares decay per step.
    #[must_use]
    pub fn betas(mut self, beta1: f64, beta2: f64) -> Adam {
        (self.options.rule.beta1, self.options.rule.beta2) = (beta1, beta2);
        self
    }

    options! {
        /// A number that is added to the root of the mean of squares.
        eps: f64 => options.rule.eps;
    }
}

impl Optimizer<AdamWRule> {
    /// AdamW with this learning rate, a weight decay of 0.01, betas of 0.9 and 0.999, and an epsilon of 1e-8.
    pub fn new(rate: f64) -> AdamW {
        Optimizer::with_rule(AdamWRule { adam: AdamRule::DEFAULT, weight_decay: 0.01 }, rate)
    }

    /// The factors by which the means of gradients and of their squares decay per step.
    #[must_use]
    pub fn betas(mut self, beta1: f64, beta2: f64) -> AdamW {
        (self.options.rule.adam.beta1, self.options.rule.adam.beta2) = (beta1, beta2);
        self
    }

    options! {
        /// A number that is added to the root of the mean of squares.
        eps: f64 => options.rule.adam.eps;
        /// Multiplies parameters by 1 - rate · `weight_decay` in each step.
        weight_decay: f64 => options.rule.weight_decay;
    }
}

impl UpdateRule for AdamRule {
    fn name(&self) -> &'static str {
        "adam"
    }

    fn update(&self, update: &ParameterUpdate<'_>) -> Result<()> {
        self.check(update)?;
        let text = format!("adam(w[..], g[..], m[..], v[..], t[], rate[], {})", self.arguments());
        update.apply(&["m", "v"], &text)
    }
}

impl UpdateRule for AdamWRule {
    fn name(&self) -> &'static str {
        "adamw"
    }

    fn update(&self, update: &ParameterUpdate<'_>) -> Result<()> {
        self.adam.check(update)?;
        update.check("weight_decay", self.weight_decay, 0.0.., "a finite number, 0 or more")?;
        let (decay, rest) = (number(self.weight_decay), self.adam.arguments());
        let text = format!("adamw(w[..], g[..], m[..], v[..], t[], rate[], {decay}, {rest})");
        update.apply(&["m", "v"], &text)
    }
}
