//! Gradient descent.

use crate::{
    error::Result,
    operand::number,
    optim::{Optimizer, ParameterUpdate, UpdateRule, root_mean_square::decayed},
    options::options,
};

/// Stochastic gradient descent, as torch's `SGD`: with momentum `mu`, v = mu · v + g and w = w - rate · v.
///
/// Source: Polyak, Some methods of speeding up the convergence of iteration methods, 1964; Sutskever,
/// Martens, Dahl and Hinton, On the importance of initialization and momentum in deep learning, 2013.
pub type Sgd = Optimizer<SgdRule>;

/// The rule of [`Sgd`].
#[derive(Clone, Debug, Default)]
pub struct SgdRule {
    momentum: f64,
    weight_decay: f64,
    nesterov: bool,
}

impl Optimizer<SgdRule> {
    /// Gradient descent with this learning rate.
    pub fn new(rate: f64) -> Sgd {
        Optimizer::with_rule(SgdRule::default(), rate)
    }

    options! {
        /// Moves along a running sum of gradients, which decays by this factor per step; 0 by default.
        momentum: f64 => options.rule.momentum;
        /// Adds the parameter times this factor to its gradient; 0 by default.
        weight_decay: f64 => options.rule.weight_decay;
        /// Whether the step is along g + momentum · v in place of v; false by default.
        nesterov: bool => options.rule.nesterov;
    }
}

impl UpdateRule for SgdRule {
    fn name(&self) -> &'static str {
        "sgd"
    }

    fn update(&self, update: &ParameterUpdate<'_>) -> Result<()> {
        update.check("momentum", self.momentum, 0.0.., "a finite number, 0 or more")?;
        update.check("weight_decay", self.weight_decay, 0.0.., "a finite number, 0 or more")?;
        if self.nesterov {
            update.check("momentum", self.momentum, f64::MIN_POSITIVE.., "more than 0, as nesterov needs")?;
        }
        let mu = number(self.momentum);
        let gradient = decayed(self.weight_decay);
        match (self.momentum, self.nesterov) {
            (0.0, _) => update.apply(&[], &format!("sgd(w[..], {gradient}, rate[])")),
            (_, false) => {
                let text = format!("momentum(w[..], {gradient}, v[..], rate[], {mu})");
                update.apply(&["v"], &text)
            }
            (_, true) => {
                let text = format!(
                    "v[..] := {mu} * v[..] + ({gradient})\nw[..] -= rate[] * ({gradient} + {mu} * v[..])"
                );
                update.apply(&["v"], &text)
            }
        }
    }
}
