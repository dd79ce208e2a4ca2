//! Tokens that are sampled, compared with a sampler that sorts all logits.

use arrayjit_models::{GenerateOptions, LanguageModel};
use safetensors::Dtype;

use crate::{
    batch::endless,
    generated::{byte_tokenizer, fixture, folder},
};

/// The token that these logits and random numbers choose: all tokens sorted, and cut to those that the
/// options leave.
fn reference(logits: &[f32], options: &GenerateOptions, random: &mut fastrand::Rng) -> u32 {
    let mut tokens: Vec<u32> = (0..logits.len() as u32).collect();
    tokens.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
    if options.top_k > 0 {
        tokens.truncate(options.top_k);
    }
    let most = logits[tokens[0] as usize];
    let weight = |token: &u32| f64::from((logits[*token as usize] - most) / options.temperature).exp();
    let mut weights: Vec<f64> = tokens.iter().map(weight).collect();
    let bound = weights.iter().sum::<f64>() * f64::from(options.top_p);
    let sums: Vec<f64> = weights
        .iter()
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect();
    let nucleus = sums.iter().position(|sum| *sum >= bound).map_or(weights.len(), |last| last + 1);
    let likely = weights.iter().filter(|weight| **weight >= f64::from(options.min_p)).count();
    weights.truncate(nucleus.min(likely));
    let chance = random.f64() * weights.iter().sum::<f64>();
    let chosen = sums.iter().take(weights.len()).position(|sum| *sum > chance);
    tokens[chosen.unwrap_or(weights.len() - 1)]
}

#[test]
fn tokens_are_those_of_a_sampler_that_sorts_all() {
    let folder = endless("llama", Dtype::F32);
    let mut model = LanguageModel::load(folder.path()).unwrap();
    let plain = || GenerateOptions { max_tokens: 25, ..GenerateOptions::default() };
    for (seed, temperature, top_k, top_p, min_p) in [
        (1, 1.0, 0, 1.0, 0.0),
        (2, 8.0, 0, 1.0, 0.0),
        (3, 0.7, 0, 0.9, 0.0),
        (4, 30.0, 0, 0.99, 0.0),
        (5, 2.0, 40, 1.0, 0.0),
        (6, 2.0, 100, 0.8, 0.0),
        (7, 2.0, 0, 1.0, 0.2),
        (8, 3.0, 0, 0.7, 0.05),
        (9, 3.0, 200, 0.95, 0.01),
        (10, 2.0, 1000, 1.0, 1.0),
    ] {
        let options = GenerateOptions { seed, temperature, top_k, top_p, min_p, ..plain() };
        let mut text: Vec<u32> = (0..20).collect();
        let found: Vec<u32> =
            model.generate_from(text.clone(), &options).unwrap().map(|token| token.unwrap().id).collect();
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..25 {
            let logits = model.logits(&text).unwrap();
            text.push(reference(&logits, &options, &mut random));
        }
        assert_eq!(found, text[20..], "{options:?}");
    }
}

#[test]
fn a_token_must_be_likely_enough() {
    let folder = folder(&fixture("llama"), Dtype::F32, &byte_tokenizer());
    let mut model = LanguageModel::load(folder.path()).unwrap();
    let mut sampled = |seed, min_p| -> Vec<u32> {
        let options =
            GenerateOptions { temperature: 5.0, seed, min_p, max_tokens: 20, ..GenerateOptions::default() };
        model.generate("a prompt", &options).unwrap().map(|token| token.unwrap().id).collect()
    };
    assert_ne!(sampled(1, 0.0), sampled(2, 0.0));
    assert_eq!(sampled(1, 1.0), sampled(2, 1.0), "only the likeliest token is left");
}
