//! Rows that a token does not see and that are not finite: what they hold changes no result.

use std::{fs, path::Path};

use arrayjit_models::{ContinuousBatch, EmbeddingModel, GenerateOptions, LanguageModel, LoadOptions};
use safetensors::{Dtype, SafeTensors};
use tempfile::TempDir;

use crate::{
    batch::{Request, alone, endless, together},
    embeddings::number_tokenizer,
    generated::{fixture, folder},
    language_models::assert_close,
};

/// Tokens that no text of these tests has or gets, except where their rows shall not be seen.
const NAN: u32 = 253;
const INFINITY: u32 = 254;

/// Overwrites rows of a table in the folder's file of weights with a value each.
fn fill_rows(folder: &Path, table: &str, rows: &[(u32, f32)]) {
    let path = folder.join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let (start, width) = {
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let view = tensors.tensor(table).unwrap();
        (view.data().as_ptr().addr() - bytes.as_ptr().addr(), 4 * view.shape()[1])
    };
    for (row, value) in rows {
        let row = &mut bytes[start + *row as usize * width..][..width];
        row.chunks_mut(4).for_each(|element| element.copy_from_slice(&value.to_le_bytes()));
    }
    fs::write(&path, bytes).unwrap();
}

/// A model, and the same one with embeddings that are not finite.
fn models(name: &str) -> [TempDir; 2] {
    let folders = [(); 2].map(|()| endless(name, Dtype::F32));
    let table = if name == "gpt2" { "transformer.wte.weight" } else { "model.embed_tokens.weight" };
    fill_rows(folders[1].path(), table, &[(NAN, f32::NAN), (INFINITY, f32::INFINITY)]);
    folders
}

fn options() -> LoadOptions {
    LoadOptions { context: Some(120), ..LoadOptions::default() }
}

/// Prompts of one token and of several chunks, which run together.
fn requests() -> Vec<Request> {
    [(5, 20, 0), (1, 30, 0), (90, 12, 1), (64, 5, 3), (33, 9, 3)]
        .map(|(length, max_tokens, step)| {
            let prompt = (0..length).map(|at| (at * at * 7 + at * 11 + length) % 250).collect();
            (prompt, GenerateOptions { max_tokens, ..GenerateOptions::default() }, step)
        })
        .to_vec()
}

/// The first texts fill all places with rows that are not finite.
fn check_stale_rows(name: &str) {
    let [clean, poisoned] = models(name);
    let expected = alone(clean.path(), &requests(), &options());
    assert!(expected.iter().flatten().all(|token| ![NAN, INFINITY].contains(token)));
    let mut batch = ContinuousBatch::load(poisoned.path(), 3, &options()).unwrap();
    let one = GenerateOptions { max_tokens: 1, ..GenerateOptions::default() };
    let full = [NAN, INFINITY, NAN].map(|token| (vec![token; 119], one.clone(), 0));
    together(&mut batch, &full);
    assert_eq!(together(&mut batch, &requests()), expected, "{name}");
}

/// A text that begins as the last one did has the rows before the one that is not finite.
fn check_later_rows(name: &str) {
    let [clean, poisoned] = models(name);
    let text: Vec<u32> = (0..30).map(|at| (at * at * 5 + 1) % 250).collect();
    let mut model = LanguageModel::load_with(poisoned.path(), &options()).unwrap();
    for token in [NAN, INFINITY] {
        model.logits(&[&text[..29], &[token; 20]].concat()).unwrap();
        let found = model.logits(&text).unwrap();
        let expected = LanguageModel::load(clean.path()).unwrap().logits(&text).unwrap();
        // The logits of the two tokens have their rows as factors in some models.
        assert_close(name, &found[..250], &expected[..250]);
    }
}

/// A window of 24 tokens in each of two layers: the last token of 70 depends on the 47 before it.
fn check_rows_before_the_window(name: &str) {
    let [clean, poisoned] = models(name);
    let text: Vec<u32> = (0..70).map(|at| (at * at * 5 + 1) % 250).collect();
    let expected = LanguageModel::load(clean.path()).unwrap().logits(&text).unwrap();
    for token in [NAN, INFINITY] {
        let text = [&[token; 20], &text[20..]].concat();
        let mut model = LanguageModel::load(poisoned.path()).unwrap();
        assert_close(name, &model.logits(&text).unwrap(), &expected);
        for length in 1..=70 {
            let logits = model.logits(&text[..length]).unwrap();
            if length == 70 {
                assert_close(name, &logits, &expected);
            }
        }
    }
    let request = |text: &[u32]| {
        let options = GenerateOptions { max_tokens: 9, ..GenerateOptions::default() };
        [(text.to_vec(), options.clone(), 0), (text.to_vec(), options, 0)]
    };
    let mut batch = ContinuousBatch::load(poisoned.path(), 2, &options()).unwrap();
    let found = together(&mut batch, &request(&[&[NAN; 20], &text[20..]].concat()));
    assert_eq!(found, alone(clean.path(), &request(&text), &options()), "{name}");
}

#[test]
fn rows_that_other_texts_left() {
    for name in ["llama", "mistral", "gemma2", "gpt2"] {
        check_stale_rows(name);
    }
}

#[test]
fn rows_of_later_tokens() {
    for name in ["llama", "mistral", "gemma2", "gpt2"] {
        check_later_rows(name);
    }
}

#[test]
fn rows_before_the_window() {
    check_rows_before_the_window("mistral");
}

#[test]
fn rows_that_fill_up_a_batch_of_texts() {
    for value in [f32::NAN, f32::INFINITY] {
        let folder = folder(&fixture("bert"), Dtype::F32, &number_tokenizer());
        fill_rows(folder.path(), "embeddings.word_embeddings.weight", &[(0, value)]);
        let model = EmbeddingModel::load(folder.path()).unwrap();
        let text =
            |count: usize| (0..count).map(|at| (5 + at % 30).to_string()).collect::<Vec<_>>().join(" ");
        let together = model.embed(&[&text(3), &text(20)]).unwrap();
        for (found, length) in together.iter().zip([3, 20]) {
            assert_close("bert", found, &model.embed(&[&text(length)]).unwrap()[0]);
            assert!(found.iter().all(|value| value.is_finite()));
        }
    }
}
