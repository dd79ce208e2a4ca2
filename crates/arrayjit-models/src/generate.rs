//! The continuation of a prompt, token by token.

use crate::{
    error::ModelError,
    language_model::LanguageModel,
    sampling::{GenerateOptions, Sampler},
    text_tokenizer::TextStream,
};

/// A token that a model has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its number in the vocabulary.
    pub id: u32,
    /// The text that is certain with it: empty in the middle of a letter, and while it may be the beginning
    /// of a text that stops the generation.
    pub text: String,
}

/// An iterator over the tokens of a continuation. It ends behind a token that ends a text, a text that stops
/// the generation, the last token that was asked for, or the context of the model.
pub struct Generation<'m> {
    model: &'m mut LanguageModel,
    /// The prompt with its continuation.
    text: Vec<u32>,
    sampler: Sampler,
    stream: TextStream,
    stop: Vec<String>,
    left: usize,
    /// Text that may be the beginning of one that stops.
    held: String,
}

impl<'m> Generation<'m> {
    pub(crate) fn new(
        model: &'m mut LanguageModel,
        prompt: Vec<u32>,
        options: &GenerateOptions,
    ) -> Result<Generation<'m>, ModelError> {
        options.check()?;
        Ok(Generation {
            model,
            text: prompt,
            sampler: Sampler::new(options),
            stream: TextStream::default(),
            stop: options.stop.clone(),
            left: options.max_tokens,
            held: String::new(),
        })
    }

    fn step(&mut self) -> Result<Option<Token>, ModelError> {
        if self.left == 0 || self.text.len() >= self.model.context() {
            return Ok(None);
        }
        self.left -= 1;
        let logits = self.model.logits(&self.text)?;
        let id = self.sampler.choose(logits, &self.text);
        self.text.push(id);
        if self.model.is_end(id) {
            self.left = 0;
            return Ok(Some(Token { id, text: std::mem::take(&mut self.held) }));
        }
        self.held += &self.stream.push(self.model.tokenizer(), id)?;
        Ok(Some(Token { id, text: self.certain() }))
    }

    /// The text that does not depend on further tokens.
    fn certain(&mut self) -> String {
        if let Some(at) = self.stop.iter().filter_map(|stop| self.held.find(stop)).min() {
            self.left = 0;
            self.held.truncate(at);
        }
        let is_last = self.left == 0 || self.text.len() >= self.model.context();
        let kept = if is_last { self.held.len() } else { self.held.len() - self.uncertain() };
        let rest = self.held.split_off(kept);
        std::mem::replace(&mut self.held, rest)
    }

    /// The number of bytes at the end of the held text that a text which stops may begin with.
    fn uncertain(&self) -> usize {
        let longest = |stop: &String| {
            let ends = stop.char_indices().map(|(at, _)| at).rev();
            ends.into_iter().find(|&length| self.held.ends_with(&stop[..length])).unwrap_or(0)
        };
        self.stop.iter().map(longest).max().unwrap_or(0)
    }
}

impl Iterator for Generation<'_> {
    type Item = Result<Token, ModelError>;

    fn next(&mut self) -> Option<Result<Token, ModelError>> {
        let token = self.step().transpose();
        if matches!(token, Some(Err(_))) {
            self.left = 0;
        }
        token
    }
}
