//! GPT-2.
//!
//! Source: Radford, Wu, Child, Luan, Amodei and Sutskever, Language models are unsupervised multitask
//! learners, 2019.

use arrayjit_tensor::{
    Parameter, Tensor,
    nn::{LayerNorm, Module},
};

use crate::{
    activation::Activation,
    config::Config,
    decoder::{
        CacheSize, Decoder, DecoderSizes, TokenPlaces,
        attention::{AttentionOptions, CachedAttention, Heads},
        head,
    },
    error::Result,
    layers::{Layer, Layers},
    loader::Loader,
    matrix::{Matrix, Projection},
};

/// The sizes and options of a model.
pub(crate) struct Gpt2Config {
    vocabulary: usize,
    size: usize,
    hidden: usize,
    layers: usize,
    heads: usize,
    positions: usize,
    eps: f64,
    activation: Activation,
    scales_scores: bool,
    /// Whether weights are stored as `[outputs, inputs]`.
    is_transposed: bool,
    /// Whether the embeddings of tokens are the matrix of the logits too.
    is_tied: bool,
}

impl Gpt2Config {
    pub(crate) fn sizes(&self) -> DecoderSizes {
        DecoderSizes { positions: self.positions, vocabulary: self.vocabulary }
    }

    pub(crate) fn read(config: &Config) -> Result<Gpt2Config> {
        let (size, heads) = (config.needed_size("n_embd")?, config.needed_size("n_head")?);
        if !size.is_multiple_of(heads) {
            return Err(config.misfit("n_head", format!("a divisor of {size}")));
        }
        config.only("scale_attn_by_inverse_layer_idx", false)?;
        Ok(Gpt2Config {
            vocabulary: config.needed_size("vocab_size")?,
            size,
            hidden: config.size("n_inner")?.unwrap_or(4 * size),
            layers: config.layers("n_layer")?,
            heads,
            positions: config.needed_size("n_positions")?,
            eps: config.epsilon("layer_norm_epsilon")?.unwrap_or(1e-5),
            activation: Activation::read(config, "activation_function")?,
            scales_scores: config.flag("scale_attn_weights")?.unwrap_or(true),
            is_transposed: config.flag("is_transposed")?.unwrap_or(false),
            is_tied: config.flag("tie_word_embeddings")?.unwrap_or(true),
        })
    }
}

/// Attention and a network, each on normalized input and added to it.
struct Block {
    ln_1: LayerNorm,
    c_attn: Projection,
    attention: CachedAttention,
    attention_proj: Projection,
    ln_2: LayerNorm,
    c_fc: Projection,
    network_proj: Projection,
    activation: Activation,
    heads: Heads,
}

impl Block {
    fn new(loader: &Loader<'_>, config: &Gpt2Config, cache: CacheSize) -> Result<Block> {
        let (attn, mlp, size) = (loader.sub("attn"), loader.sub("mlp"), config.size);
        let heads = Heads { queries: config.heads, keys: config.heads, size: size / config.heads };
        let scale = if config.scales_scores { (heads.size as f64).sqrt().recip() } else { 1.0 };
        let options = AttentionOptions { scale, window: None, softcap: None };
        let linear = |loader: &Loader<'_>, name, inputs, outputs| match config.is_transposed {
            true => loader.linear(name, inputs, outputs, true),
            false => loader.transposed_linear(name, inputs, outputs),
        };
        Ok(Block {
            ln_1: loader.layer_norm("ln_1", size, config.eps)?,
            c_attn: linear(&attn, "c_attn", size, 3 * size)?,
            attention: CachedAttention::new(&attn, heads, options, cache)?,
            attention_proj: linear(&attn, "c_proj", size, size)?,
            ln_2: loader.layer_norm("ln_2", size, config.eps)?,
            c_fc: linear(&mlp, "c_fc", size, config.hidden)?,
            network_proj: linear(&mlp, "c_proj", config.hidden, size)?,
            activation: config.activation,
            heads,
        })
    }

    fn forward(&self, x: &Tensor, layer: &Layer<'_>, places: &TokenPlaces) -> Result<Tensor> {
        let joined = layer.linear(&self.c_attn, &layer.layer_norm(&self.ln_1, x)?)?;
        let parts = [x.shape()[0], 3, self.heads.queries, self.heads.size].map(|size| size as isize);
        let joined = joined.reshape(&parts)?;
        let part = |number: usize| {
            let text = format!("y[i,h,c] := x[i,{number},h,c]");
            joined.graph().apply(&text, &[("x", &joined)])
        };
        let attended = self.attention.attend(&part(0)?, &part(1)?, &part(2)?, places)?;
        let x = (x + layer.linear(&self.attention_proj, &attended)?)?;
        let hidden = layer.linear(&self.c_fc, &layer.layer_norm(&self.ln_2, &x)?)?;
        Ok((&x + layer.linear(&self.network_proj, &self.activation.apply(&hidden)?)?)?)
    }
}

/// GPT-2: embeddings of tokens and positions, and blocks of attention and dense layers.
pub(crate) struct Gpt2 {
    wte: Matrix,
    wpe: Parameter,
    blocks: Layers<Block>,
    ln_f: LayerNorm,
    head: Matrix,
}

impl Gpt2 {
    pub(crate) fn new(loader: &Loader<'_>, config: &Gpt2Config, cache: CacheSize) -> Result<Gpt2> {
        let body = loader.body("transformer");
        let kinds = vec![(); config.layers];
        let wte = body.embedding("wte", config.vocabulary, config.size)?;
        let head = match config.is_tied {
            true => wte.clone(),
            false => loader.embedding("lm_head", config.vocabulary, config.size)?,
        };
        Ok(Gpt2 {
            wte,
            head,
            wpe: body.rows("wpe", config.positions, config.size, cache.rows())?,
            blocks: Layers::new(&body.sub("h"), &kinds, |loader, ()| Block::new(loader, config, cache))?,
            ln_f: body.layer_norm("ln_f", config.size, config.eps)?,
        })
    }
}

impl Decoder for Gpt2 {
    fn logits(&self, tokens: &Tensor, places: &TokenPlaces) -> Result<Tensor> {
        let x = places.add_positions(&self.wte.rows(tokens)?, &self.wpe)?;
        let x = self.blocks.forward(&x, |block, x, layer| block.forward(x, layer, places))?;
        head(&self.ln_f.forward(&x)?, &self.head, places)
    }
}
