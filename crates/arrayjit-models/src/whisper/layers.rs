//! The parts that the layers of the encoder and the decoder share.

use arrayjit_tensor::{Tensor, nn::LayerNorm};

use crate::{
    activation::Activation,
    error::Result,
    layers::Layer,
    loader::Loader,
    matrix::Projection,
    whisper::{StackConfig, WhisperConfig},
};

/// The epsilon of all normalizations, which configurations do not have.
pub(crate) const EPS: f64 = 1e-5;

/// The projections of an attention, with the normalization of its input.
pub(crate) struct Projections {
    pub(crate) norm: LayerNorm,
    pub(crate) queries: Projection,
    pub(crate) keys: Projection,
    pub(crate) values: Projection,
    pub(crate) output: Projection,
}

impl Projections {
    /// The attention of this name in a layer with vectors of `size` elements.
    pub(crate) fn new(loader: &Loader<'_>, name: &str, size: usize) -> Result<Projections> {
        let attention = loader.sub(name);
        let linear = |name: &str, bias| attention.linear(name, size, size, bias);
        Ok(Projections {
            norm: loader.layer_norm(&format!("{name}_layer_norm"), size, EPS)?,
            queries: linear("q_proj", true)?,
            keys: linear("k_proj", false)?,
            values: linear("v_proj", true)?,
            output: linear("out_proj", true)?,
        })
    }
}

/// The network of a layer: two dense maps of its normalized input, which is added.
pub(crate) struct FeedForward {
    norm: LayerNorm,
    fc1: Projection,
    fc2: Projection,
    activation: Activation,
}

impl FeedForward {
    pub(crate) fn new(
        loader: &Loader<'_>,
        config: &WhisperConfig,
        stack: StackConfig,
    ) -> Result<FeedForward> {
        Ok(FeedForward {
            norm: loader.layer_norm("final_layer_norm", config.size, EPS)?,
            fc1: loader.linear("fc1", config.size, stack.hidden, true)?,
            fc2: loader.linear("fc2", stack.hidden, config.size, true)?,
            activation: config.activation,
        })
    }

    /// `[n, size]` to the same shape.
    pub(crate) fn forward(&self, x: &Tensor, layer: &Layer<'_>) -> Result<Tensor> {
        let hidden = layer.linear(&self.fc1, &layer.layer_norm(&self.norm, x)?)?;
        Ok((x + layer.linear(&self.fc2, &self.activation.apply(&hidden)?)?)?)
    }
}
