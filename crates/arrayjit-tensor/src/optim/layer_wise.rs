//! Optimizers whose steps are scaled by the norms of whole parameters: LAMB and Adafactor.

use arrayjit::DType;

use crate::{
    error::Result,
    operand::number,
    optim::{Optimizer, ParameterUpdate, UpdateRule, rule::StateShape},
    options::options,
    shape::{access, letters},
};

/// LAMB: the step of [`AdamW`](crate::AdamW), scaled for each parameter by the norm of the parameter over the
/// norm of the step; by 1 if one of both is 0.
///
/// Source: You and others, Large batch optimization for deep learning: Training BERT in 76 minutes, 2019.
pub type Lamb = Optimizer<LambRule>;

/// Adafactor, as torch's: the mean of the squares of a matrix of gradients is estimated from the means of its
/// rows and of its columns, which is all that the optimizer stores. The rate is relative to the root of the
/// mean of the squares of the parameter.
///
/// Source: Shazeer and Stern, Adafactor: Adaptive learning rates with sublinear memory cost, 2018.
pub type Adafactor = Optimizer<AdafactorRule>;

/// The rule of [`Lamb`].
#[derive(Clone, Debug)]
pub struct LambRule {
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
}

/// The rule of [`Adafactor`].
#[derive(Clone, Debug)]
pub struct AdafactorRule {
    beta2_decay: f64,
    eps: Option<f64>,
    least_scale: f64,
    clip_threshold: f64,
    weight_decay: f64,
}

impl Optimizer<LambRule> {
    /// LAMB with this learning rate, betas of 0.9 and 0.999, an epsilon of 1e-6 and a weight decay of 0.01.
    pub fn new(rate: f64) -> Lamb {
        Optimizer::with_rule(LambRule { beta1: 0.9, beta2: 0.999, eps: 1e-6, weight_decay: 0.01 }, rate)
    }

    /// The factors by which the means of gradients and of their squares decay per step.
    #[must_use]
    pub fn betas(mut self, beta1: f64, beta2: f64) -> Lamb {
        (self.options.rule.beta1, self.options.rule.beta2) = (beta1, beta2);
        self
    }

    options! {
        /// A number that is added to the root of the mean of squares.
        eps: f64 => options.rule.eps;
        /// Adds the parameter times this factor to the step before it is scaled.
        weight_decay: f64 => options.rule.weight_decay;
    }
}

impl Optimizer<AdafactorRule> {
    /// Adafactor with this learning rate, which torch sets to 0.01, a decay of t^-0.8, a least scale of 0.001
    /// and a clip threshold of 1.
    pub fn new(rate: f64) -> Adafactor {
        let rule = AdafactorRule {
            beta2_decay: -0.8,
            eps: None,
            least_scale: 0.001,
            clip_threshold: 1.0,
            weight_decay: 0.0,
        };
        Optimizer::with_rule(rule, rate)
    }

    options! {
        /// The weight of step t in the means of squares is t to this power; -0.8 by default.
        beta2_decay: f64 => options.rule.beta2_decay;
        /// Its square is the least mean of squares; by default, the machine epsilon of the type of the state.
        eps: f64 => options.rule.eps;
        /// The least value of the root of the mean of the squares of a parameter that scales its rate.
        least_scale: f64 => options.rule.least_scale;
        /// Scales a step down if the root of the mean of its squares exceeds this number, at least 1.
        clip_threshold: f64 => options.rule.clip_threshold;
        /// Multiplies parameters by 1 - rate · `weight_decay` in each step; 0 by default.
        weight_decay: f64 => options.rule.weight_decay;
    }
}

impl UpdateRule for LambRule {
    fn name(&self) -> &'static str {
        "lamb"
    }

    fn update(&self, update: &ParameterUpdate<'_>) -> Result<()> {
        update.check_betas([self.beta1, self.beta2])?;
        update.check("eps", self.eps, 0.0.., "a finite number, 0 or more")?;
        update.check("weight_decay", self.weight_decay, 0.0.., "a finite number, 0 or more")?;
        let [beta1, beta2, eps, decay] = [self.beta1, self.beta2, self.eps, self.weight_decay].map(number);
        update.apply(
            &["m", "v"],
            &format!(
                "m[..] := {beta1} * m[..] + (1 - {beta1}) * g[..]\n\
                 v[..] := {beta2} * v[..] + (1 - {beta2}) * g[..] * g[..]\n\
                 a := recip(1 - pow({beta1}, t[]))\n\
                 c := recip(1 - pow({beta2}, t[]))\n\
                 s[..] := a * m[..] / (sqrt(c * v[..]) + {eps}) + {decay} * w[..]\n\
                 ww :+= w[..] * w[..]\n\
                 ss :+= s[..] * s[..]\n\
                 w[..] -= rate[] * where(and(ww > 0, ss > 0), sqrt(ww / ss), 1) * s[..]"
            ),
        )
    }
}

impl UpdateRule for AdafactorRule {
    fn name(&self) -> &'static str {
        "adafactor"
    }

    fn update(&self, update: &ParameterUpdate<'_>) -> Result<()> {
        let least = "a finite number above 0";
        update.check("beta2_decay", self.beta2_decay, ..0.0, "a finite number below 0")?;
        update.check("eps", self.eps.unwrap_or(1.0), f64::MIN_POSITIVE.., least)?;
        update.check("least_scale", self.least_scale, 0.0.., "a finite number, 0 or more")?;
        update.check("clip_threshold", self.clip_threshold, 1.0.., "a finite number, 1 or more")?;
        update.check("weight_decay", self.weight_decay, 0.0.., "a finite number, 0 or more")?;
        let is_wide = update.parameter().dtype() == DType::F64;
        let eps = self.eps.unwrap_or(if is_wide { f64::EPSILON } else { f32::EPSILON.into() });
        let shape = update.parameter().shape();
        let count = number(shape.iter().product::<usize>() as f64);
        let [decay, least, clip] = [self.weight_decay, self.least_scale, self.clip_threshold].map(number);
        let (states, variance) = self.variance(shape, eps);
        let text = format!(
            "k := pow(t[], {})\nww :+= w[..] * w[..]\n\
             a := max({least}, sqrt(ww / {count})) * min(rate[], 1 / sqrt(t[]))\n\
             w[..] *= 1 - rate[] * {decay}\n{variance}\n\
             s[..] := g[..] / sqrt(max(e[..], {}))\nss :+= s[..] * s[..]\n\
             w[..] -= a / max(1, sqrt(ss / {count}) / {clip}) * s[..]",
            number(self.beta2_decay),
            number(eps * eps),
        );
        update.apply_shaped(&states, &text)
    }
}

impl AdafactorRule {
    /// The arrays of the state, and statements that compute `e[..]`, the mean of the squares of gradients.
    fn variance(&self, shape: &[usize], eps: f64) -> (Vec<(&'static str, StateShape)>, String) {
        let rank = shape.len();
        if rank < 2 {
            let text = "v[..] += k * (g[..] * g[..] - v[..])\ne[..] := v[..]";
            return (vec![("v", StateShape::Whole)], text.to_owned());
        }
        let all = letters(rank);
        let without = |axis: usize| -> Vec<&String> {
            all.iter().enumerate().filter(|(at, _)| *at != axis).map(|(_, letter)| letter).collect()
        };
        let [row, column] =
            [("r", rank - 1), ("c", rank - 2)].map(|(name, axis)| access(name, without(axis)));
        let [rows, columns] =
            [("rs", rank - 1), ("cs", rank - 2)].map(|(name, axis)| access(name, without(axis)));
        let mean = access("mean", &all[..rank - 2]);
        let [height, width] = [shape[rank - 2], shape[rank - 1]].map(|size| number(size as f64));
        let text = format!(
            "{rows} :+= g[..] * g[..]\n{columns} :+= g[..] * g[..]\n\
             {row} += k * ({rows} / {width} - {row})\n{column} += k * ({columns} / {height} - {column})\n\
             {mean} :+= {row}\ne[..] := {row} * {column} / max({mean} / {height}, {})",
            number(eps)
        );
        (vec![("r", StateShape::Without(rank - 1)), ("c", StateShape::Without(rank - 2))], text)
    }
}
