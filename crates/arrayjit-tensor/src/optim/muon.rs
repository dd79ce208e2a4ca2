//! Muon: steps along orthogonal matrices near means of gradients.

use std::fmt::Write;

use crate::{
    error::Result,
    operand::number,
    optim::{Optimizer, ParameterUpdate, UpdateRule},
    options::options,
    shape::letters,
};

/// Muon, as torch's: the momentum of a matrix of gradients is replaced by a matrix with singular values near
/// 1 and the same singular vectors, by iterations that multiply matrices only. Weight decay is decoupled.
/// torch iterates in bf16, this optimizer in f32, and in f64 for parameters of f64.
///
/// It updates parameters of two axes. Others, and usually embeddings and the last layer, belong to a
/// [group](Optimizer::group) with another optimizer:
///
/// ```
/// use arrayjit_tensor::optim::{AdamW, Muon};
///
/// let is_matrix = |name: &str| name.ends_with("weight") && !name.contains("norm");
/// let optimizer = Muon::new(0.02).group(move |name| !is_matrix(name), AdamW::new(3e-4));
/// # let _ = optimizer;
/// ```
///
/// Source: Jordan and others, Muon: An optimizer for hidden layers in neural networks, 2024.
pub type Muon = Optimizer<MuonRule>;

/// The rule by which [`Muon`] updates a parameter.
#[derive(Clone, Debug)]
pub struct MuonRule {
    momentum: f64,
    nesterov: bool,
    weight_decay: f64,
    coefficients: [f64; 3],
    eps: f64,
    iterations: u32,
    match_rms: bool,
}

impl Optimizer<MuonRule> {
    /// Muon with this learning rate, a momentum of 0.95 by Nesterov's rule, a weight decay of 0.1, five
    /// iterations, and an epsilon of 1e-7.
    pub fn new(rate: f64) -> Muon {
        let rule = MuonRule {
            momentum: 0.95,
            nesterov: true,
            weight_decay: 0.1,
            coefficients: [3.4445, -4.775, 2.0315],
            eps: 1e-7,
            iterations: 5,
            match_rms: false,
        };
        Optimizer::with_rule(rule, rate)
    }

    options! {
        /// The factor by which the mean of gradients decays per step; 0.95 by default.
        momentum: f64 => options.rule.momentum;
        /// Whether a step looks ahead by Nesterov's rule; true by default.
        nesterov: bool => options.rule.nesterov;
        /// Multiplies parameters by 1 - rate · `weight_decay` in each step; 0.1 by default.
        weight_decay: f64 => options.rule.weight_decay;
        /// The coefficients of x, x³ and x⁵ in an iteration for singular values x; torch's by default.
        coefficients: [f64; 3] => options.rule.coefficients;
        /// The least norm by which the mean of gradients is divided before the iterations; 1e-7 by default.
        eps: f64 => options.rule.eps;
        /// The number of iterations, less than 100; 5 by default.
        iterations: u32 => options.rule.iterations;
        /// Multiplies the rate by 0.2 · √max(rows, columns), so that steps are as long as those of
        /// [`AdamW`](crate::AdamW) and its rates fit (`match_rms_adamw` of torch). By default, the factor is
        /// √max(1, rows / columns).
        match_rms: bool => options.rule.match_rms;
    }
}

impl UpdateRule for MuonRule {
    fn name(&self) -> &'static str {
        "muon"
    }

    fn update(&self, update: &ParameterUpdate<'_>) -> Result<()> {
        let not_negative = "a finite number, 0 or more";
        update.check("momentum", self.momentum, 0.0..1.0, "at least 0 and less than 1")?;
        update.check("weight_decay", self.weight_decay, 0.0.., not_negative)?;
        update.check("eps", self.eps, f64::MIN_POSITIVE.., "a finite number above 0")?;
        update.check("iterations", self.iterations.into(), 0.0..100.0, "a number less than 100")?;
        for coefficient in self.coefficients {
            update.check("coefficients", coefficient, .., "finite numbers")?;
        }
        let &[rows, columns] = update.parameter().shape() else {
            return Err(update.wrong_rank("2 axes; a group gives other parameters another optimizer"));
        };
        let (height, width) = (rows.max(1) as f64, columns.max(1) as f64);
        let factor =
            if self.match_rms { 0.2 * height.max(width).sqrt() } else { (height / width).max(1.0).sqrt() };
        let direction = if self.nesterov { "g[..] + {mu} * (m[..] - g[..])" } else { "m[..]" };
        let mu = number(self.momentum);
        let text = format!(
            "m[..] := g[..] + {mu} * (m[..] - g[..])\nu[..] := {}\nuu :+= u[..] * u[..]\n\
             x0[..] := u[..] / max(sqrt(uu), {})\n{}\
             w[..] *= 1 - rate[] * {}\nw[..] -= rate[] * {} * x{}[..]",
            direction.replace("{mu}", &mu),
            number(self.eps),
            self.iterations(rows > columns),
            number(self.weight_decay),
            number(factor),
            self.iterations
        );
        update.apply(&["m"], &text)
    }
}

impl MuonRule {
    /// Statements that compute `x1`, `x2` and so on from `x0`: a · x + (b · G + c · G²) · x, where G = x ·
    /// xᵀ. Of a tall matrix, the products with xᵀ · x from the other side are the same and smaller.
    fn iterations(&self, is_tall: bool) -> String {
        let [a, b, c] = self.coefficients.map(number);
        let names = letters(5);
        let [row, column, p, q, r] = std::array::from_fn(|at| names.get(at).map_or("", String::as_str));
        let mut text = String::new();
        for at in 0..self.iterations {
            let (x, next) = (format!("x{at}"), format!("x{}", at + 1));
            let (gram, product) = if is_tall {
                (format!("{x}[{r},{p}] * {x}[{r},{q}]"), format!("{x}[{row},{q}] * e{at}[{q},{column}]"))
            } else {
                (format!("{x}[{p},{r}] * {x}[{q},{r}]"), format!("e{at}[{row},{q}] * {x}[{q},{column}]"))
            };
            // Writing to a text cannot fail.
            let _ = writeln!(
                text,
                "g{at}[{p},{q}] :+= {gram}\nh{at}[{p},{q}] :+= g{at}[{p},{r}] * g{at}[{r},{q}]\n\
                 e{at}[{p},{q}] := {b} * g{at}[{p},{q}] + {c} * h{at}[{p},{q}]\n\
                 y{at}[{row},{column}] :+= {product}\n\
                 {next}[{row},{column}] := {a} * {x}[{row},{column}] + y{at}[{row},{column}]"
            );
        }
        text
    }
}
