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
    error::{ModelError, Result},
    layers::{Layer, Layers},
    loader::Loader,
    matrix::{Matrix, Projection},
    whisper::{
        WhisperConfig,
        layers::{EPS, FeedForward, Projections},
    },
};

/// Attention to the vectors of the encoder, whose keys and values are in buffers.
struct CrossAttention {
    projections: Projections,
    /// Buffers `[layers, heads, positions, head size]`.
    keys: Parameter,
    values: Parameter,
    heads: Heads,
}

impl CrossAttention {
    fn new(loader: &Loader<'_>, config: &WhisperConfig, heads: Heads) -> Result<CrossAttention> {
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
    fn listen(&self, encoded: &Tensor, layer: &Layer<'_>) -> Result<()> {
        let Heads { keys: heads, size, .. } = self.heads;
        let text = format!(
            "keys[{at},h,t,c] := k[t,{size}*h + c] where h < {heads}, c < {size}
             values[{at},h,t,c] := v[t,{size}*h + c] where h < {heads}, c < {size}",
            at = Layer::NUMBER
        );
        let k = layer.linear(&self.projections.keys, encoded)?;
        let v = layer.linear(&self.projections.values, encoded)?;
        let inputs: [(&str, &dyn TensorOperand); 4] =
            [("k", &k), ("v", &v), ("keys", &self.keys), ("values", &self.values)];
        encoded.graph().apply(&text, &inputs)?;
        Ok(())
    }

    /// Adds the result of the attention to the vectors `[n, size]` of tokens.
    fn forward(&self, x: &Tensor, layer: &Layer<'_>) -> Result<Tensor> {
        let Heads { keys: heads, size, .. } = self.heads;
        let text = format!(
            "scaled[h,i,c] := q[i,{size}*h + c] * recip_sqrt({size}) where h < {heads}, c < {size}
             product[h,i,t] :+= scaled[h,i,c] * keys[{at},h,t,c]
             weight[h,i,t] := softmax(product[h,i,t])
             a[h,i,c] :+= weight[h,i,t] * values[{at},h,t,c]
             y[i,{size}*h + c] := a[h,i,c] where h < {heads}, c < {size}",
            at = Layer::NUMBER
        );
        let q = layer.linear(&self.projections.queries, &layer.layer_norm(&self.projections.norm, x)?)?;
        let inputs: [(&str, &dyn TensorOperand); 3] =
            [("q", &q), ("keys", &self.keys), ("values", &self.values)];
        let attended = x.graph().apply(&text, &inputs)?;
        Ok((x + layer.linear(&self.projections.output, &attended)?)?)
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
    fn new(loader: &Loader<'_>, config: &WhisperConfig, cache: CacheSize) -> Result<DecoderLayer> {
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
    fn forward(&self, x: &Tensor, layer: &Layer<'_>, places: &TokenPlaces) -> Result<Tensor> {
        let Projections { norm, queries, keys, values, output } = &self.projections;
        let normalized = layer.layer_norm(norm, x)?;
        let heads = |projection: &Projection| {
            let x = layer.linear(projection, &normalized)?;
            let shape = [x.shape()[0], self.heads.keys, self.heads.size].map(|size| size as isize);
            Ok::<_, ModelError>(x.reshape(&shape)?)
        };
        let attended = self.attention.attend(&heads(queries)?, &heads(keys)?, &heads(values)?, places)?;
        let x = (x + layer.linear(output, &attended)?)?;
        self.network.forward(&self.cross.forward(&x, layer)?, layer)
    }
}

/// The decoder of a speech model.
pub(crate) struct WhisperDecoder {
    embed_tokens: Matrix,
    positions: Parameter,
    layers: Layers<DecoderLayer>,
    norm: LayerNorm,
}

impl WhisperDecoder {
    pub(crate) fn new(
        loader: &Loader<'_>,
        config: &WhisperConfig,
        cache: CacheSize,
    ) -> Result<WhisperDecoder> {
        let loader = loader.body("model").sub("decoder");
        let kinds = vec![(); config.decoder.layers];
        let layer = |loader: &Loader<'_>, _: &()| DecoderLayer::new(loader, config, cache);
        Ok(WhisperDecoder {
            embed_tokens: loader.embedding("embed_tokens", config.vocabulary, config.size)?,
            positions: loader.rows("embed_positions", config.context, config.size, cache.rows())?,
            layers: Layers::new(&loader.sub("layers"), &kinds, layer)?,
            norm: loader.layer_norm("layer_norm", config.size, EPS)?,
        })
    }

    /// Writes the keys and values of all layers, from the vectors `[positions, size]` of the encoder.
    pub(crate) fn listen(&self, encoded: &Tensor) -> Result<()> {
        self.layers.each(encoded.graph(), |block, layer| block.cross.listen(encoded, layer))
    }
}

impl Decoder for WhisperDecoder {
    fn logits(&self, tokens: &Tensor, places: &TokenPlaces) -> Result<Tensor> {
        let x = places.add_positions(&self.embed_tokens.rows(tokens)?, &self.positions)?;
        let x = self.layers.forward(&x, |block, x, layer| block.forward(x, layer, places))?;
        head(&self.norm.forward(&x)?, &self.embed_tokens, places)
    }
}
