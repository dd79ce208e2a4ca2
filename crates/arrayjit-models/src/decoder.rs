//! Decoders: models from tokens to the logits of the next one.
//!
//! A decoder adds the statements for tokens `[n]` at the positions from `@pos` on to the graph of the tokens.
//! Buffers hold the keys and values of all positions before, and the decoder adds the keys and values of the
//! tokens. Both graphs of a language model, for a token and for a chunk of a prompt, come from the same code.

mod attention;
mod gpt2;
mod llama;

use arrayjit_tensor::Tensor;

use crate::{
    config::Config,
    error::ModelError,
    loader::Loader,
    matrix::{Matrix, Projection},
};

/// A model from tokens to logits.
pub(crate) trait Decoder {
    /// The logits `[vocabulary]` of the token behind `tokens`, of shape `[n]`, which are at the positions
    /// from `@pos` on.
    fn logits(&self, tokens: &Tensor) -> Result<Tensor, ModelError>;
}

/// The sizes of a decoder that its caller needs.
pub(crate) struct DecoderSizes {
    /// Positions that the model was made for.
    pub(crate) positions: usize,
    /// The number of logits.
    pub(crate) vocabulary: usize,
}

/// The length of the buffers of keys and values: runs write whole chunks, also behind the context.
#[derive(Clone, Copy)]
pub(crate) struct CacheLength {
    /// The greatest number of tokens in a sequence.
    pub(crate) context: usize,
    /// The greatest number of tokens in a run.
    pub(crate) chunk: usize,
}

impl CacheLength {
    /// The number of rows.
    pub(crate) fn rows(self) -> usize {
        self.context + self.chunk
    }
}

/// The architectures of language models, as `architectures` of a configuration names them.
pub(crate) const ARCHITECTURES: &[&str] = &[
    "GPT2LMHeadModel",
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "GemmaForCausalLM",
    "Gemma2ForCausalLM",
    "Gemma3ForCausalLM",
];

/// A decoder whose configuration was read.
pub(crate) enum DecoderConfig {
    Gpt2(gpt2::Gpt2Config),
    Llama(Box<llama::LlamaConfig>),
}

impl DecoderConfig {
    /// Reads `config.json`.
    pub(crate) fn read(config: &Config) -> Result<DecoderConfig, ModelError> {
        let found = architecture(config);
        match llama::Family::of_architecture(&found) {
            Some(family) => Ok(DecoderConfig::Llama(Box::new(llama::LlamaConfig::read(config, family)?))),
            None if found == "GPT2LMHeadModel" => Ok(DecoderConfig::Gpt2(gpt2::Gpt2Config::read(config)?)),
            None => Err(ModelError::Architecture { found, known: ARCHITECTURES }),
        }
    }

    pub(crate) fn sizes(&self) -> DecoderSizes {
        match self {
            DecoderConfig::Gpt2(config) => config.sizes(),
            DecoderConfig::Llama(config) => config.sizes(),
        }
    }

    pub(crate) fn build(
        &self,
        loader: &Loader<'_>,
        length: CacheLength,
    ) -> Result<Box<dyn Decoder>, ModelError> {
        Ok(match self {
            DecoderConfig::Gpt2(config) => Box::new(gpt2::Gpt2::new(loader, config, length)?),
            DecoderConfig::Llama(config) => Box::new(llama::Llama::new(loader, config, length)?),
        })
    }
}

/// The first of `architectures`; empty if there is none.
pub(crate) fn architecture(config: &Config) -> String {
    let first = config.get("architectures").and_then(|list| list.get(0)).and_then(|name| name.as_str());
    first.unwrap_or_default().to_owned()
}

/// The logits of the last row of `[n, size]`.
fn head(x: &Tensor, matrix: &Matrix) -> Result<Tensor, ModelError> {
    let last = x.graph().apply("y[c] := x[size(x, 0) - 1, c]", &[("x", x)])?;
    Projection { matrix: matrix.clone(), bias: None }.forward(&last)
}
