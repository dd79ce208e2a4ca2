//! Optimizers that divide gradients by the root of their squares: RMSprop and Adagrad.

use crate::{
    error::Result,
    operand::number,
    optim::{Optimizer, ParameterUpdate, UpdateRule},
    options::options,
};

/// RMSprop, as torch's: a step along the gradient over the root of the mean of its squares.
///
/// Source: Hinton, Neural networks for machine learning, lecture 6e, 2012; Graves, Generating sequences with
/// recurrent neural networks, 2013, for the centered form.
pub type RmsProp = Optimizer<RmsPropRule>;

/// Adagrad, as torch's: a step along the gradient over the root of the sum of all its squares.
///
/// Source: Duchi, Hazan and Singer, Adaptive subgradient methods for online learning and stochastic
/// optimization, 2011.
pub type Adagrad = Optimizer<AdagradRule>;

/// The rule of [`RmsProp`].
#[derive(Clone, Debug)]
pub struct RmsPropRule {
    alpha: f64,
    eps: f64,
    weight_decay: f64,
    momentum: f64,
    centered: bool,
}

/// The rule of [`Adagrad`].
#[derive(Clone, Debug)]
pub struct AdagradRule {
    rate_decay: f64,
    eps: f64,
    weight_decay: f64,
    initial_accumulator: f64,
}

impl Optimizer<RmsPropRule> {
    /// RMSprop with this learning rate, an alpha of 0.99 and an epsilon of 1e-8.
    pub fn new(rate: f64) -> RmsProp {
        let rule = RmsPropRule { alpha: 0.99, eps: 1e-8, weight_decay: 0.0, momentum: 0.0, centered: false };
        Optimizer::with_rule(rule, rate)
    }

    options! {
        /// The factor by which the mean of squares decays per step.
        alpha: f64 => options.rule.alpha;
        /// A number that is added to the root of the mean of squares.
        eps: f64 => options.rule.eps;
        /// Adds the parameter times this factor to its gradient; 0 by default.
        weight_decay: f64 => options.rule.weight_decay;
        /// Moves along a running sum of steps, which decays by this factor per step; 0 by default.
        momentum: f64 => options.rule.momentum;
        /// Whether the mean of the gradients is subtracted from their squares; false by default.
        centered: bool => options.rule.centered;
    }
}

impl Optimizer<AdagradRule> {
    /// Adagrad with this learning rate and an epsilon of 1e-10.
    pub fn new(rate: f64) -> Adagrad {
        let rule = AdagradRule { rate_decay: 0.0, eps: 1e-10, weight_decay: 0.0, initial_accumulator: 0.0 };
        Optimizer::with_rule(rule, rate)
    }

    options! {
        /// Divides the rate of step t, from 0, by 1 + t · `rate_decay`; 0 by default.
        rate_decay: f64 => options.rule.rate_decay;
        /// A number that is added to the root of the sum of squares.
        eps: f64 => options.rule.eps;
        /// Adds the parameter times this factor to its gradient; 0 by default.
        weight_decay: f64 => options.rule.weight_decay;
        /// The sum of squares before the first step; 0 by default.
        initial_accumulator: f64 => options.rule.initial_accumulator;
    }
}

impl UpdateRule for RmsPropRule {
    fn name(&self) -> &'static str {
        "rmsprop"
    }

    fn update(&self, update: &ParameterUpdate<'_>) -> Result<()> {
        update.check("alpha", self.alpha, 0.0.., "a finite number, 0 or more")?;
        update.check("eps", self.eps, 0.0.., "a finite number, 0 or more")?;
        update.check("weight_decay", self.weight_decay, 0.0.., "a finite number, 0 or more")?;
        update.check("momentum", self.momentum, 0.0.., "a finite number, 0 or more")?;
        let (alpha, rest, eps) = (number(self.alpha), number(1.0 - self.alpha), number(self.eps));
        let mut states = vec!["v"];
        let mut text = format!("d[..] := {}\n", decayed(self.weight_decay));
        text += &format!("v[..] := {alpha} * v[..] + {rest} * d[..] * d[..]\n");
        let variance = match self.centered {
            true => {
                states.push("m");
                text += &format!("m[..] := {alpha} * m[..] + {rest} * d[..]\n");
                "max(v[..] - m[..] * m[..], 0)"
            }
            false => "v[..]",
        };
        text += &format!("s[..] := d[..] / (sqrt({variance}) + {eps})\n");
        text += &match self.momentum {
            0.0 => "w[..] -= rate[] * s[..]".to_owned(),
            momentum => {
                states.push("b");
                format!("b[..] := {} * b[..] + s[..]\nw[..] -= rate[] * b[..]", number(momentum))
            }
        };
        update.apply(&states, &text)
    }
}

impl UpdateRule for AdagradRule {
    fn name(&self) -> &'static str {
        "adagrad"
    }

    fn update(&self, update: &ParameterUpdate<'_>) -> Result<()> {
        update.check("rate_decay", self.rate_decay, 0.0.., "a finite number, 0 or more")?;
        update.check("eps", self.eps, 0.0.., "a finite number, 0 or more")?;
        update.check("weight_decay", self.weight_decay, 0.0.., "a finite number, 0 or more")?;
        let initial = self.initial_accumulator;
        update.check("initial_accumulator", initial, 0.0.., "a finite number, 0 or more")?;
        let (decay, eps, initial) = (number(self.rate_decay), number(self.eps), number(initial));
        let gradient = decayed(self.weight_decay);
        update.apply(
            &["v"],
            &format!(
                "d[..] := {gradient}\nv[..] += d[..] * d[..]\n\
                 w[..] -= rate[] / (1 + (t[] - 1) * {decay}) * d[..] / (sqrt(v[..] + {initial}) + {eps})"
            ),
        )
    }
}

/// The gradient, to which a weight decay adds the parameter.
pub(super) fn decayed(weight_decay: f64) -> String {
    match weight_decay {
        0.0 => "g[..]".to_owned(),
        decay => format!("g[..] + {} * w[..]", number(decay)),
    }
}
