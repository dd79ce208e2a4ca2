//! Llama and its relatives, and GPT-2.

use arrayjit_models::{GenerateOptions, LanguageModel, LoadOptions};
use safetensors::Dtype;

use crate::generated::{byte_tokenizer, fixture, floats, folder, tokens};

/// Logits and greedy tokens are those of transformers, with prompts read in chunks and token by token.
fn check(name: &str, dtype: Dtype) {
    let fixture = fixture(name);
    let folder = folder(&fixture, dtype, &byte_tokenizer());
    let mut model = LanguageModel::load(folder.path()).unwrap();
    let prompt = tokens(&fixture["prompt"]);
    for (length, expected) in fixture["logits"].as_object().unwrap() {
        let length: usize = length.parse().unwrap();
        assert_close(name, &model.logits(&prompt[..length]).unwrap(), &floats(expected));
    }
    let mut one_by_one = LanguageModel::load(folder.path()).unwrap();
    for length in 1..=prompt.len() {
        let logits = one_by_one.logits(&prompt[..length]).unwrap();
        if let Some(expected) = fixture["logits"].get(length.to_string()) {
            assert_close(name, &logits, &floats(expected));
        }
    }
    let mut text = prompt;
    let expected = tokens(&fixture["greedy"]);
    assert_eq!(expected.len(), 64);
    for _ in &expected {
        let logits = model.logits(&text).unwrap();
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
        text.push(best as u32);
    }
    assert_eq!(text[70..], expected, "{name}");
}

pub(crate) fn assert_close(name: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < 1e-4, "{name}: {found} at {at}, expected {expected}");
    }
}

macro_rules! checks {
    ($($name:ident $dtype:ident,)+) => {
        $(#[test]
        fn $name() {
            check(stringify!($name), Dtype::$dtype);
        })+
    };
}

checks! {
    llama F32,
    llama_scaled F16,
    llama_yarn F16,
    mistral F32,
    qwen2 F16,
    qwen3 F32,
    gemma F16,
    gemma2 F32,
    gemma3 F16,
    gpt2 F32,
}

#[test]
fn a_text_is_continued_until_a_stop_text_the_last_token_or_the_end_of_the_context() {
    let folder = folder(&fixture("llama"), Dtype::F32, &byte_tokenizer());
    let options = LoadOptions { context: Some(40), ..LoadOptions::default() };
    let mut model = LanguageModel::load_with(folder.path(), &options).unwrap();
    let mut texts = |options: GenerateOptions| -> Vec<String> {
        model.generate("a prompt", &options).unwrap().map(|token| token.unwrap().text).collect()
    };
    let whole = texts(GenerateOptions::default());
    assert!(whole.len() <= 32);
    let short = texts(GenerateOptions { max_tokens: 5, ..GenerateOptions::default() });
    assert_eq!(short.len(), 5);
    assert!(whole.concat().starts_with(&short.concat()));
    let letters: String = whole.concat().chars().skip(2).take(2).collect();
    let stopped = texts(GenerateOptions { stop: vec![letters.clone()], ..GenerateOptions::default() });
    assert_eq!(stopped.concat(), whole.concat().split(&letters).next().unwrap());
}

/// `transformers` writes the same for the tokens.
#[test]
fn letters_that_an_end_leaves_incomplete_are_replaced() {
    let fixture = fixture("gpt2");
    let folder = folder(&fixture, Dtype::F32, &byte_tokenizer());
    let mut model = LanguageModel::load(folder.path()).unwrap();
    let (prompt, greedy) = (tokens(&fixture["prompt"]), tokens(&fixture["greedy"]));
    let bytes: Vec<u8> = greedy.iter().map(|&token| token as u8).collect();
    assert!(bytes.iter().any(|&byte| byte >= 0xc2), "a letter of several bytes");
    for max_tokens in [1, 16, 17, 18, 64] {
        let options = GenerateOptions { max_tokens, ..GenerateOptions::default() };
        let tokens = model.generate_from(prompt.clone(), &options).unwrap();
        let text: String = tokens.map(|token| token.unwrap().text).collect();
        assert_eq!(text, String::from_utf8_lossy(&bytes[..max_tokens]));
    }
}

#[test]
fn a_seed_decides_what_is_sampled() {
    let folder = folder(&fixture("llama"), Dtype::F32, &byte_tokenizer());
    let mut model = LanguageModel::load(folder.path()).unwrap();
    let mut sampled = |seed, top_k, top_p| -> Vec<u32> {
        let options = GenerateOptions {
            temperature: 1.0,
            seed,
            top_k,
            top_p,
            max_tokens: 20,
            repetition_penalty: 1.3,
            ..GenerateOptions::default()
        };
        model.generate("a prompt", &options).unwrap().map(|token| token.unwrap().id).collect()
    };
    assert_eq!(sampled(1, 0, 1.0), sampled(1, 0, 1.0));
    assert_ne!(sampled(1, 0, 1.0), sampled(2, 0, 1.0));
    assert_eq!(sampled(1, 1, 1.0), sampled(2, 0, 1e-6), "one token is left to choose");
}
