//! The choice of a token by its logits.

use crate::error::ModelError;

/// How [`LanguageModel::generate`](crate::LanguageModel::generate) continues a prompt.
///
/// ```
/// use arrayjit_models::GenerateOptions;
///
/// let options = GenerateOptions { temperature: 0.7, top_p: 0.9, seed: 1, ..GenerateOptions::default() };
/// assert_eq!(options.max_tokens, 256);
/// ```
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// The most tokens that are made; 256 by default.
    pub max_tokens: usize,
    /// Logits are divided by it; 0, the default, chooses the likeliest token always.
    pub temperature: f32,
    /// Only this many of the likeliest tokens may be chosen; 0, the default, for all.
    pub top_k: usize,
    /// Only the likeliest tokens may be chosen whose probabilities sum up to this; 1, the default, for all.
    pub top_p: f32,
    /// Logits of tokens that the text has already are divided by it if they are positive, and multiplied
    /// otherwise; 1 by default.
    pub repetition_penalty: f32,
    /// The seed of the choices.
    pub seed: u64,
    /// Texts that end the generation. They are not part of the result.
    pub stop: Vec<String>,
}

impl Default for GenerateOptions {
    fn default() -> GenerateOptions {
        GenerateOptions {
            max_tokens: 256,
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            repetition_penalty: 1.0,
            seed: 0,
            stop: Vec::new(),
        }
    }
}

impl GenerateOptions {
    /// Rejects values out of range.
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        let error = |option, found: f32, expected| {
            Err(ModelError::Option { option, found: found.to_string(), expected })
        };
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return error("temperature", self.temperature, "a finite number of 0 or more");
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return error("top_p", self.top_p, "more than 0 and at most 1");
        }
        if !(self.repetition_penalty > 0.0 && self.repetition_penalty.is_finite()) {
            return error("repetition_penalty", self.repetition_penalty, "a finite number of more than 0");
        }
        if self.stop.iter().any(String::is_empty) {
            return Err(ModelError::Option {
                option: "stop",
                found: "an empty text".into(),
                expected: "letters",
            });
        }
        Ok(())
    }
}

/// Chooses tokens with the random numbers of a seed.
pub(crate) struct Sampler {
    options: GenerateOptions,
    random: fastrand::Rng,
}

impl Sampler {
    pub(crate) fn new(options: &GenerateOptions) -> Sampler {
        Sampler { options: options.clone(), random: fastrand::Rng::with_seed(options.seed) }
    }

    /// Chooses the token that follows the tokens of `text`.
    pub(crate) fn choose(&mut self, mut logits: Vec<f32>, text: &[u32]) -> u32 {
        penalize(&mut logits, text, self.options.repetition_penalty);
        if self.options.temperature == 0.0 || self.options.top_k == 1 {
            return likeliest(&logits);
        }
        let mut tokens: Vec<u32> = (0..logits.len() as u32).collect();
        let descending = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]);
        if (1..tokens.len()).contains(&self.options.top_k) {
            tokens.select_nth_unstable_by(self.options.top_k - 1, descending);
            tokens.truncate(self.options.top_k);
        }
        tokens.sort_unstable_by(|a, b| descending(a, b).then(a.cmp(b)));
        let most = tokens.first().map_or(0.0, |token| logits[*token as usize]);
        let weight =
            |token: &u32| f64::from((logits[*token as usize] - most) / self.options.temperature).exp();
        let mut weights: Vec<f64> = tokens.iter().map(weight).collect();
        let bound = weights.iter().sum::<f64>() * f64::from(self.options.top_p);
        let mut sum = 0.0;
        let kept = weights.iter().position(|weight| {
            sum += weight;
            sum >= bound
        });
        weights.truncate(kept.map_or(weights.len(), |last| last + 1));
        let mut chance = self.random.f64() * weights.iter().sum::<f64>();
        let chosen = weights.iter().position(|weight| {
            chance -= weight;
            chance < 0.0
        });
        tokens[chosen.unwrap_or(weights.len().saturating_sub(1))]
    }
}

/// The first of the greatest logits.
pub(crate) fn likeliest(logits: &[f32]) -> u32 {
    let better = |best: usize, (at, logit): (usize, &f32)| if *logit > logits[best] { at } else { best };
    logits.iter().enumerate().fold(0, better) as u32
}

fn penalize(logits: &mut [f32], text: &[u32], penalty: f32) {
    if penalty == 1.0 {
        return;
    }
    let mut seen = text.to_vec();
    seen.sort_unstable();
    seen.dedup();
    for token in seen {
        if let Some(logit) = logits.get_mut(token as usize) {
            *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
        }
    }
}
