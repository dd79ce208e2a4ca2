//! Whisper: from sound to the keys and values of its vectors, and a decoder of texts that attends to them.
//!
//! Source: Radford, Kim, Xu, Brockman, McLeavey and Sutskever, Robust speech recognition via large-scale weak
//! supervision, 2022.

mod decoder;
mod encoder;
mod layers;

pub(crate) use self::{decoder::WhisperDecoder, encoder::Encoder};
use crate::{
    activation::Activation,
    config::Config,
    decoder::architecture,
    error::{ModelError, Result},
};

/// The architectures of speech models.
pub(crate) const ARCHITECTURES: &[&str] = &["WhisperForConditionalGeneration"];

/// The sizes and options of a model.
pub(crate) struct WhisperConfig {
    pub(crate) vocabulary: usize,
    /// Mel bands of a frame.
    pub(crate) bands: usize,
    /// The elements of a vector between layers.
    pub(crate) size: usize,
    /// The vectors that the encoder makes of a window.
    pub(crate) positions: usize,
    /// The greatest number of tokens in a text.
    pub(crate) context: usize,
    pub(crate) activation: Activation,
    pub(crate) encoder: StackConfig,
    pub(crate) decoder: StackConfig,
}

/// The sizes of the encoder or the decoder.
#[derive(Clone, Copy)]
pub(crate) struct StackConfig {
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) hidden: usize,
}

impl WhisperConfig {
    /// Reads `config.json`.
    pub(crate) fn read(config: &Config) -> Result<WhisperConfig> {
        let found = architecture(config);
        if !ARCHITECTURES.contains(&found.as_str()) {
            return Err(ModelError::Architecture { found, known: ARCHITECTURES });
        }
        let size = config.needed_size("d_model")?;
        let stack = |name: &str| {
            let heads_key = format!("{name}_attention_heads");
            let heads = config.needed_size(&heads_key)?;
            if !size.is_multiple_of(heads) {
                return Err(config.misfit(&heads_key, format!("a divisor of {size}")));
            }
            Ok(StackConfig {
                layers: config.layers(&format!("{name}_layers"))?,
                heads,
                hidden: config.needed_size(&format!("{name}_ffn_dim"))?,
            })
        };
        Ok(WhisperConfig {
            vocabulary: config.needed_size("vocab_size")?,
            bands: config.needed_size("num_mel_bins")?,
            size,
            positions: config.needed_size("max_source_positions")?,
            context: config.needed_size("max_target_positions")?,
            activation: Activation::read(config, "activation_function")?,
            encoder: stack("encoder")?,
            decoder: stack("decoder")?,
        })
    }
}
