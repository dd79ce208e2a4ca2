//! The continuation of a prompt, token by token.

use crate::{
    error::Result,
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
    /// of a text that stops the generation. A letter that the last token leaves incomplete is U+FFFD.
    pub text: String,
}

/// Why a continuation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishReason {
    /// The model made a token that ends a text, or one of the texts that stop the generation.
    Stop,
    /// The continuation has the number of tokens that was asked for, or fills the context.
    Length,
}

/// A text with everything that decides how it continues.
pub(crate) struct Continuation {
    /// The prompt with its continuation.
    text: Vec<u32>,
    sampler: Sampler,
    stream: TextStream,
    stop: Vec<String>,
    left: usize,
    /// Text that may be the beginning of one that stops.
    held: String,
    finish: Option<FinishReason>,
}

impl Continuation {
    /// A prompt of at most `context` tokens.
    pub(crate) fn new(prompt: Vec<u32>, options: &GenerateOptions, context: usize) -> Result<Continuation> {
        options.check()?;
        let is_full = options.max_tokens == 0 || prompt.len() >= context;
        Ok(Continuation {
            text: prompt,
            sampler: Sampler::new(options),
            stream: TextStream::default(),
            stop: options.stop.clone(),
            left: options.max_tokens,
            held: String::new(),
            finish: is_full.then_some(FinishReason::Length),
        })
    }

    pub(crate) fn text(&self) -> &[u32] {
        &self.text
    }

    /// The reason why no token follows; none if one does.
    pub(crate) fn finish(&self) -> Option<FinishReason> {
        self.finish
    }

    /// Adds the token that is chosen by the logits behind the text.
    pub(crate) fn extend(&mut self, model: &LanguageModel, logits: Vec<f32>) -> Result<Token> {
        let id = self.sampler.choose(logits, &self.text);
        self.text.push(id);
        self.left -= 1;
        if model.is_end(id) {
            self.finish = Some(FinishReason::Stop);
            self.held += &self.stream.finish(model.tokenizer())?;
            return Ok(Token { id, text: std::mem::take(&mut self.held) });
        }
        self.held += &self.stream.push(model.tokenizer(), id)?;
        let is_last = self.left == 0 || self.text.len() >= model.context();
        if is_last {
            self.held += &self.stream.finish(model.tokenizer())?;
        }
        if let Some(at) = self.stop.iter().filter_map(|stop| self.held.find(stop)).min() {
            self.finish = Some(FinishReason::Stop);
            self.held.truncate(at);
        } else if is_last {
            self.finish = Some(FinishReason::Length);
        }
        Ok(Token { id, text: self.certain() })
    }

    /// The text that does not depend on further tokens.
    fn certain(&mut self) -> String {
        let kept = self.held.len() - if self.finish.is_some() { 0 } else { self.uncertain() };
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

/// An iterator over the tokens of a continuation. It ends behind a token that ends a text, a text that stops
/// the generation, the last token that was asked for, or the context of the model.
pub struct Generation<'m> {
    model: &'m mut LanguageModel,
    continuation: Continuation,
    has_failed: bool,
}

impl<'m> Generation<'m> {
    pub(crate) fn new(
        model: &'m mut LanguageModel,
        prompt: Vec<u32>,
        options: &GenerateOptions,
    ) -> Result<Generation<'m>> {
        let continuation = Continuation::new(prompt, options, model.context())?;
        Ok(Generation { model, continuation, has_failed: false })
    }

    /// Why the continuation ended; none if further tokens follow.
    pub fn finish(&self) -> Option<FinishReason> {
        self.continuation.finish()
    }
}

impl Iterator for Generation<'_> {
    type Item = Result<Token>;

    fn next(&mut self) -> Option<Result<Token>> {
        if self.has_failed || self.finish().is_some() {
            return None;
        }
        let logits = self.model.logits(self.continuation.text());
        let token = logits.and_then(|logits| self.continuation.extend(self.model, logits));
        self.has_failed = token.is_err();
        Some(token)
    }
}
