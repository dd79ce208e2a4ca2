//! The decoder: layers that attend to the tokens before and to the vectors of the encoder.

use arrayjit_tensor::{
    Parameter, Tensor, TensorOperand,
    nn::{LayerNorm, Module},
};

use crate::{
    decoder::{
        CacheSize, Decoder, TokenPlaces,
        attention::{AttentionOptions, CachedAttention, Heads},
        head,
    },
    error::ModelError,
    loader::Loader,
    matrix::Matrix,
    whisper::{
        WhisperConfig,
        layers::{EPS, FeedForward, Projections},
    },
};

/// Attention to the vectors of the encoder, whose keys and values are in buffers.
struct CrossAttention {
    projections: Projections,
    /// Buffers `[heads, positions, head size]`.
    keys: Parameter,
    values: Parameter,
    heads: Heads,
}

impl CrossAttention {
    fn new(loader: &Loader<'_>, config: &WhisperConfig, heads: Heads) -> Result<CrossAttention, ModelError> {
        let buffers = loader.sub("encoder_attn").sub("cache");
        let buffer = |name: &str| buffers.buffer(name, &[heads.keys, config.positions, heads.size]);
        Ok(CrossAttention {
            projections: Projections::new(loader, "encoder_attn", config.size)?,
            keys: buffer("keys")?,
            values: buffer("values")?,
            heads,
        })
    }

    /// Writes the keys and values of vectors `[positions, size]` to the buffers.
    fn listen(&self, encoded: &Tensor) -> Result<(), ModelError> {
        let Heads { keys: heads, size, .. } = self.heads;
        let text = format!(
            "keys[h,t,c] := k[t,{size}*h + c] where h < {heads}, c < {size}
             values[h,t,c] := v[t,{size}*h + c] where h < {heads}, c < {size}"
        );
        let k = self.projections.keys.forward(encoded)?;
        let v = self.projections.values.forward(encoded)?;
        let inputs: [(&str, &dyn TensorOperand); 4] =
            [("k", &k), ("v", &v), ("keys", &self.keys), ("values", &self.values)];
        encoded.graph().apply(&text, &inputs)?;
        Ok(())
    }

    /// Adds the result of the attention to the vectors `[n, size]` of tokens.
    fn forward(&self, x: &Tensor) -> Result<Tensor, ModelError> {
        let Heads { keys: heads, size, .. } = self.heads;
        let text = format!(
            "scaled[h,i,c] := q[i,{size}*h + c] * recip_sqrt({size}) where h < {heads}, c < {size}
             product[h,i,t] :+= scaled[h,i,c] * keys[h,t,c]
             weight[h,i,t] := softmax(product[h,i,t])
             a[h,i,c] :+= weight[h,i,t] * values[h,t,c]
             y[i,{size}*h + c] := a[h,i,c] where h < {heads}, c < {size}"
        );
        let q = self.projections.queries.forward(&self.projections.norm.forward(x)?)?;
        let inputs: [(&str, &dyn TensorOperand); 3] =
            [("q", &q), ("keys", &self.keys), ("values", &self.values)];
        let attended = x.graph().apply(&text, &inputs)?;
        Ok((x + self.projections.output.forward(&attended)?)?)
    }
}

/// A layer of the decoder: attention and a network, each on normalized input and added to it.
struct DecoderLayer {
    projections: Projections,
    attention: CachedAttention,
    cross: CrossAttention,
    network: FeedForward,
    heads: Heads,
}

impl DecoderLayer {
    fn new(
        loader: &Loader<'_>,
        config: &WhisperConfig,
        cache: CacheSize,
    ) -> Result<DecoderLayer, ModelError> {
        let stack = config.decoder;
        let heads = Heads { queries: stack.heads, keys: stack.heads, size: config.size / stack.heads };
        let scale = (heads.size as f64).sqrt().recip();
        let options = AttentionOptions { scale, window: None, softcap: None };
        Ok(DecoderLayer {
            projections: Projections::new(loader, "self_attn", config.size)?,
            attention: CachedAttention::new(&loader.sub("self_attn"), heads, options, cache)?,
            cross: CrossAttention::new(loader, config, heads)?,
            network: FeedForward::new(loader, config, stack)?,
            heads,
        })
    }

    /// `[n, size]` to the same shape.
    fn forward(&self, x: &Tensor, places: &TokenPlaces) -> Result<Tensor, ModelError> {
        let Projections { norm, queries, keys, values, output } = &self.projections;
        let normalized = norm.forward(x)?;
        let heads = |x: Tensor| {
            x.reshape(&[x.shape()[0], self.heads.keys, self.heads.size].map(|size| size as isize))
        };
        let (q, k) = (heads(queries.forward(&normalized)?)?, heads(keys.forward(&normalized)?)?);
        let attended = self.attention.attend(&q, &k, &heads(values.forward(&normalized)?)?, places)?;
        let x = (x + output.forward(&attended)?)?;
        self.network.forward(&self.cross.forward(&x)?)
    }
}

/// The decoder of a speech model.
pub(crate) struct WhisperDecoder {
    embed_tokens: Matrix,
    positions: Parameter,
    layers: Vec<DecoderLayer>,
    norm: LayerNorm,
}

impl WhisperDecoder {
    pub(crate) fn new(
        loader: &Loader<'_>,
        config: &WhisperConfig,
        cache: CacheSize,
    ) -> Result<WhisperDecoder, ModelError> {
        let loader = loader.body("model").sub("decoder");
        let layer = |at| DecoderLayer::new(&loader.sub("layers").sub(at), config, cache);
        Ok(WhisperDecoder {
            embed_tokens: loader.embedding("embed_tokens", config.vocabulary, config.size)?,
            positions: loader.rows("embed_positions", config.context, config.size, cache.rows())?,
            layers: (0..config.decoder.layers).map(layer).collect::<Result<_, _>>()?,
            norm: loader.layer_norm("layer_norm", config.size, EPS)?,
        })
    }

    /// Writes the keys and values of all layers, from the vectors `[positions, size]` of the encoder.
    pub(crate) fn listen(&self, encoded: &Tensor) -> Result<(), ModelError> {
        self.layers.iter().try_for_each(|layer| layer.cross.listen(encoded))
    }
}

impl Decoder for WhisperDecoder {
    fn logits(&self, tokens: &Tensor, places: &TokenPlaces) -> Result<Tensor, ModelError> {
        let mut x = places.add_positions(&self.embed_tokens.rows(tokens)?, &self.positions)?;
        for layer in &self.layers {
            x = layer.forward(&x, places)?;
        }
        head(&self.norm.forward(&x)?, &self.embed_tokens, places)
    }
}
