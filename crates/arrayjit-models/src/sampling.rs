//! The choice of a token by its logits.

use crate::{
    error::{ModelError, Result},
    ranking::Ranking,
};

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
    /// Only tokens may be chosen that are at least this many times as likely as the likeliest one; 0, the
    /// default, for all.
    pub min_p: f32,
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
            min_p: 0.0,
            repetition_penalty: 1.0,
            seed: 0,
            stop: Vec::new(),
        }
    }
}

impl GenerateOptions {
    /// Rejects values out of range.
    pub(crate) fn check(&self) -> Result<()> {
        let error = |option, found: f32, expected| {
            Err(ModelError::Option { option, found: found.to_string(), expected })
        };
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return error("temperature", self.temperature, "a finite number of 0 or more");
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return error("top_p", self.top_p, "more than 0 and at most 1");
        }
        if !(0.0..=1.0).contains(&self.min_p) {
            return error("min_p", self.min_p, "a number from 0 to 1");
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
        let mut ranking = Ranking::new(&logits, self.options.top_k, self.options.temperature);
        let (kept, total) = self.kept(&mut ranking);
        let mut chance = self.random.f64() * total;
        let mut chosen = 0;
        for rank in 0..kept {
            let Some((token, weight)) = ranking.get(rank) else { break };
            chosen = token;
            chance -= weight;
            if chance < 0.0 {
                break;
            }
        }
        chosen
    }

    /// The number of the likeliest tokens that `top_p` and `min_p` leave, and the sum of their weights.
    fn kept(&self, ranking: &mut Ranking<'_>) -> (usize, f64) {
        let GenerateOptions { top_p, min_p, .. } = self.options;
        let total = ranking.total();
        if top_p == 1.0 && min_p == 0.0 {
            return (ranking.len(), total);
        }
        let bound = total * f64::from(top_p);
        let (mut kept, mut sum) = (0, 0.0);
        while let Some((_, weight)) = ranking.get(kept).filter(|(_, weight)| *weight >= f64::from(min_p)) {
            kept += 1;
            sum += weight;
            if sum >= bound {
                break;
            }
        }
        (kept, sum)
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
