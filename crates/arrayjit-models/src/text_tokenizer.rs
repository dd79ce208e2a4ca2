//! Texts as tokens and back.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use tokenizers::{
    NormalizerWrapper, Tokenizer, TruncationDirection, TruncationParams, TruncationStrategy,
    normalizers::{Lowercase, Sequence},
};

use crate::error::{InFile, ModelError, Result};
use crate::text_growth::check_growth;

/// A tokenizer without padding, which cuts texts only if it is told to.
pub(crate) struct TextTokenizer(Tokenizer);

fn fail(error: impl ToString) -> ModelError {
    ModelError::Tokenizer(error.to_string())
}

/// Calls code of the crate `tokenizers`, which panics for some damaged files.
fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    let damaged = |_| Err(fail("it is damaged, and its code has panicked"));
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(damaged)
}

impl TextTokenizer {
    /// Reads `tokenizer.json`.
    pub(crate) fn read(path: &Path) -> Result<TextTokenizer> {
        let text = fs::read(path).in_file(path)?;
        let tokenizer = guarded(|| {
            serde_json::from_slice(&text).map_err(|error| match error.is_data() {
                true => fail(error),
                false => error.into(),
            })
        });
        TextTokenizer::new(tokenizer.in_file(path)?).in_file(path)
    }

    /// The tokenizer that the content of a `tokenizer.json` describes.
    pub(crate) fn from_json(json: serde_json::Value) -> Result<TextTokenizer> {
        TextTokenizer::new(guarded(|| serde_json::from_value(json).map_err(fail))?)
    }

    fn new(mut tokenizer: Tokenizer) -> Result<TextTokenizer> {
        check_growth(&tokenizer)?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(fail)?;
        Ok(TextTokenizer(tokenizer))
    }

    /// Lowercases texts before the normalization, except for added tokens.
    pub(crate) fn lowercased(mut self) -> Result<TextTokenizer> {
        let rest = self.0.get_normalizer().cloned();
        let all: Vec<NormalizerWrapper> = [Lowercase.into()].into_iter().chain(rest).collect();
        self.0.with_normalizer(Some(Sequence::new(all))).map_err(fail)?;
        Ok(self)
    }

    /// Cuts texts to this many tokens, including the marks of the ends of a text.
    pub(crate) fn truncated(mut self, max_length: usize) -> Result<TextTokenizer> {
        let marks = self.encode("", true)?.len();
        if max_length <= marks {
            return Err(fail(format!("it adds {marks} tokens to a text, but the model takes {max_length}")));
        }
        let params = TruncationParams {
            max_length,
            direction: TruncationDirection::Right,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
        };
        self.0.with_truncation(Some(params)).map_err(fail)?;
        Ok(self)
    }

    /// Returns the tokens of a text; with `marks`, between the marks that the tokenizer puts around it.
    pub(crate) fn encode(&self, text: &str, marks: bool) -> Result<Vec<u32>> {
        Ok(guarded(|| self.0.encode_fast(text, marks).map_err(fail))?.get_ids().to_vec())
    }

    /// The text of tokens without marks. Bytes that are no whole letter yet become U+FFFD.
    pub(crate) fn decode(&self, tokens: &[u32]) -> Result<String> {
        guarded(|| self.0.decode(tokens, true).map_err(fail))
    }

    /// The token with this text.
    pub(crate) fn token(&self, text: &str) -> Option<u32> {
        self.0.token_to_id(text)
    }
}

/// Text of tokens that arrive one by one.
#[derive(Default)]
pub(crate) struct TextStream {
    tokens: Vec<u32>,
    /// The tokens up to `start` are out of sight; those up to `end` have been returned as text.
    start: usize,
    end: usize,
}

impl TextStream {
    /// The text that a further token adds; empty in the middle of a letter. Some tokenizers decode a token in
    /// another way at the start of a text, so a token is decoded behind those of the text before.
    pub(crate) fn push(&mut self, tokenizer: &TextTokenizer, token: u32) -> Result<String> {
        self.tokens.push(token);
        let known = tokenizer.decode(&self.tokens[self.start..self.end])?;
        let text = tokenizer.decode(&self.tokens[self.start..])?;
        if text.ends_with('\u{fffd}') && self.tokens.len() - self.end < LETTER_TOKENS {
            return Ok(String::new());
        }
        self.start = self.end;
        self.end = self.tokens.len();
        Ok(behind(&known, &text))
    }

    /// The text of tokens in the middle of a letter, if no further ones come: U+FFFD, as for whole texts.
    pub(crate) fn finish(&mut self, tokenizer: &TextTokenizer) -> Result<String> {
        let known = tokenizer.decode(&self.tokens[self.start..self.end])?;
        let text = tokenizer.decode(&self.tokens[self.start..])?;
        self.end = self.tokens.len();
        Ok(behind(&known, &text))
    }
}

/// Returns the letters of a text from the first one that differs from `known`. A further token may turn
/// U+FFFD into a letter, and letters into U+FFFD.
fn behind(known: &str, text: &str) -> String {
    let same = known.chars().zip(text.chars()).take_while(|(known, letter)| known == letter);
    text.chars().skip(same.count()).collect()
}

/// The most tokens that a letter has: one for each of its bytes.
const LETTER_TOKENS: usize = 4;
