//! Decoders: models from tokens to the logits of the next one.
//!
//! A decoder adds the statements for tokens `[n]` to their graph. Buffers hold the keys and values of all
//! positions before, and the decoder adds the keys and values of the tokens. All graphs of a language model
//! come from the same code: a token of a sequence, a chunk of a prompt, and a token of each of several
//! sequences, see [`TokenPlaces`].

pub(crate) mod attention;
mod gpt2;
mod llama;

use arrayjit_tensor::{Parameter, Tensor, TensorOperand};

use crate::{
    config::Config,
    error::{ModelError, Result},
    loader::Loader,
    matrix::{Matrix, Projection},
};

/// A model from tokens to logits.
pub(crate) trait Decoder {
    /// The logits of the tokens behind `tokens`, of shape `[n]`: `[vocabulary]` behind the last token of a
    /// chunk, or `[n, vocabulary]` behind a token of each sequence.
    fn logits(&self, tokens: &Tensor, places: &TokenPlaces) -> Result<Tensor>;
}

/// The sizes of a decoder that its caller needs.
pub(crate) struct DecoderSizes {
    /// Positions that the model was made for.
    pub(crate) positions: usize,
    /// The number of logits.
    pub(crate) vocabulary: usize,
}

/// Where the tokens of a run are among the keys and values of the sequences.
pub(crate) enum TokenPlaces {
    /// At the positions from `@pos` on, in sequence `@slot` of several or in the only one.
    Chunk {
        /// The number of sequences that have buffers.
        slots: usize,
    },
    /// Token `i` is in sequence `i`, at its own position. The greatest position is `@last`.
    Step {
        /// The positions `[n]`.
        positions: Tensor,
    },
}

impl TokenPlaces {
    /// The position of token `i`, in texts with the [operands](TokenPlaces::operands).
    pub(crate) fn position(&self) -> &'static str {
        match self {
            TokenPlaces::Chunk { .. } => "(@pos + i)",
            TokenPlaces::Step { .. } => "positions[i]",
        }
    }

    /// Adds to the vectors `[n, size]` of tokens the rows of a table that belong to their positions.
    pub(crate) fn add_positions(&self, x: &Tensor, table: &Parameter) -> Result<Tensor> {
        let mut inputs: Vec<(&str, &dyn TensorOperand)> = vec![("x", x), ("p", table)];
        inputs.extend(self.operands());
        let text = format!("y[i,c] := x[i,c] + p[{}, c]", self.position());
        Ok(x.graph().apply(&text, &inputs)?)
    }

    /// The arrays that texts mention.
    pub(crate) fn operands(&self) -> Option<(&'static str, &dyn TensorOperand)> {
        match self {
            TokenPlaces::Chunk { .. } => None,
            TokenPlaces::Step { positions } => Some(("positions", positions)),
        }
    }
}

/// The sizes of the buffers of keys and values: runs write whole chunks, also behind the context.
#[derive(Clone, Copy)]
pub(crate) struct CacheSize {
    /// The number of sequences.
    pub(crate) slots: usize,
    /// The greatest number of tokens in a sequence.
    pub(crate) context: usize,
    /// The greatest number of tokens in a run.
    pub(crate) chunk: usize,
}

impl CacheSize {
    /// The number of rows for each sequence.
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
    pub(crate) fn read(config: &Config) -> Result<DecoderConfig> {
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

    pub(crate) fn build(&self, loader: &Loader<'_>, size: CacheSize) -> Result<Box<dyn Decoder>> {
        Ok(match self {
            DecoderConfig::Gpt2(config) => Box::new(gpt2::Gpt2::new(loader, config, size)?),
            DecoderConfig::Llama(config) => Box::new(llama::Llama::new(loader, config, size)?),
        })
    }
}

/// The first of `architectures`; empty if there is none.
pub(crate) fn architecture(config: &Config) -> String {
    let first = config.get("architectures").and_then(|list| list.get(0)).and_then(|name| name.as_str());
    first.unwrap_or_default().to_owned()
}

/// The logits of rows `[n, size]`, or of the last row of a chunk.
pub(crate) fn head(x: &Tensor, matrix: &Matrix, places: &TokenPlaces) -> Result<Tensor> {
    let projection = Projection { matrix: matrix.clone(), bias: None, module: "head".into() };
    match places {
        TokenPlaces::Chunk { .. } => {
            projection.forward(&x.graph().apply("y[c] := x[size(x, 0) - 1, c]", &[("x", x)])?)
        }
        TokenPlaces::Step { .. } => projection.forward(x),
    }
}
