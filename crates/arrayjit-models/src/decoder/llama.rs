//! Llama and the models that differ from it by their configuration: Mistral, Qwen2, Qwen3 and Gemma.
//!
//! Sources: Touvron et al., LLaMA: Open and efficient foundation language models, 2023; Jiang et al., Mistral
//! 7B, 2023; Yang et al., Qwen2 technical report, 2024, and Qwen3 technical report, 2025; Gemma team, Gemma,
//! Gemma 2 and Gemma 3 (technical reports), 2024 and 2025.

use arrayjit_tensor::{
    Tensor,
    nn::{Module, RmsNorm},
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
    rotary::{Rotary, RotaryConfig},
};

/// The models of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Llama,
    Mistral,
    Qwen2,
    Qwen3,
    Gemma,
    Gemma2,
    Gemma3,
}

impl Family {
    /// The family of an architecture; none of other modules.
    pub(crate) fn of_architecture(name: &str) -> Option<Family> {
        Some(match name {
            "LlamaForCausalLM" => Family::Llama,
            "MistralForCausalLM" => Family::Mistral,
            "Qwen2ForCausalLM" => Family::Qwen2,
            "Qwen3ForCausalLM" => Family::Qwen3,
            "GemmaForCausalLM" => Family::Gemma,
            "Gemma2ForCausalLM" => Family::Gemma2,
            "Gemma3ForCausalLM" => Family::Gemma3,
            _ => return None,
        })
    }

    fn is_gemma(self) -> bool {
        matches!(self, Family::Gemma | Family::Gemma2 | Family::Gemma3)
    }

    /// Whether the results of attention and of the other half of a block are normalized too.
    fn has_norms_behind(self) -> bool {
        matches!(self, Family::Gemma2 | Family::Gemma3)
    }

    fn has_head_norms(self) -> bool {
        matches!(self, Family::Qwen3 | Family::Gemma3)
    }
}

/// The sizes and options of a model.
pub(crate) struct LlamaConfig {
    family: Family,
    vocabulary: usize,
    size: usize,
    hidden: usize,
    heads: Heads,
    positions: usize,
    eps: f64,
    activation: Activation,
    qkv_bias: bool,
    out_bias: bool,
    mlp_bias: bool,
    is_tied: bool,
    /// What is added to the stored factors of normalizations.
    norm_offset: f32,
    attention: AttentionOptions,
    final_softcap: Option<f64>,
    /// Angles of layers that see all positions.
    rotary: RotaryConfig,
    /// Angles of layers with a window.
    local_rotary: RotaryConfig,
    /// The window of each layer.
    windows: Vec<Option<usize>>,
}

impl LlamaConfig {
    pub(crate) fn sizes(&self) -> DecoderSizes {
        DecoderSizes { positions: self.positions, vocabulary: self.vocabulary }
    }

    pub(crate) fn read(config: &Config, family: Family) -> Result<LlamaConfig> {
        let (size, queries) =
            (config.needed_size("hidden_size")?, config.needed_size("num_attention_heads")?);
        let heads = Heads {
            queries,
            keys: config.size("num_key_value_heads")?.unwrap_or(queries),
            size: config.size("head_dim")?.unwrap_or(size / queries),
        };
        if !heads.queries.is_multiple_of(heads.keys) {
            return Err(config.misfit("num_key_value_heads", format!("a divisor of {queries}")));
        }
        if heads.size == 0 || !heads.size.is_multiple_of(2) {
            return Err(config.misfit("head_dim", "an even number"));
        }
        config.only("use_bidirectional_attention", false)?;
        let has_bias = config.flag("attention_bias")?.unwrap_or(false);
        let scale = match family {
            Family::Gemma2 | Family::Gemma3 => config.number("query_pre_attn_scalar")?.unwrap_or(256.0),
            _ => heads.size as f64,
        };
        let (rotary, local_rotary) = rotaries(config, family)?;
        let is_gemma2 = family == Family::Gemma2;
        Ok(LlamaConfig {
            family,
            vocabulary: config.needed_size("vocab_size")?,
            size,
            hidden: config.needed_size("intermediate_size")?,
            heads,
            positions: config.needed_size("max_position_embeddings")?,
            eps: config.epsilon("rms_norm_eps")?.unwrap_or(1e-6),
            activation: activation(config, family)?,
            qkv_bias: has_bias || family == Family::Qwen2,
            out_bias: has_bias,
            mlp_bias: config.flag("mlp_bias")?.unwrap_or(false),
            is_tied: config.flag("tie_word_embeddings")?.unwrap_or(family.is_gemma()),
            norm_offset: match config.flag("norm_offset_stored")? {
                Some(true) => 0.0,
                _ if family.is_gemma() => 1.0,
                _ => 0.0,
            },
            attention: AttentionOptions {
                scale: scale.sqrt().recip(),
                window: None,
                softcap: config.number("attn_logit_softcapping")?.filter(|_| is_gemma2),
            },
            final_softcap: config.number("final_logit_softcapping")?,
            rotary,
            local_rotary,
            windows: windows(config, family)?,
        })
    }

    /// Factors that differ from 1 for embeddings.
    fn embedding_scale(&self) -> Option<f64> {
        self.family.is_gemma().then(|| (self.size as f64).sqrt())
    }
}

/// The function of the dense layers.
fn activation(config: &Config, family: Family) -> Result<Activation> {
    let key =
        if matches!(family, Family::Gemma2 | Family::Gemma3) { "hidden_activation" } else { "hidden_act" };
    match Activation::read(config, key) {
        Err(_) if family.is_gemma() && config.get(key).is_none() => Ok(Activation::GeluTanh),
        // The first Gemma was published with a name that its authors did not mean.
        Ok(Activation::Gelu) if family == Family::Gemma => Ok(Activation::GeluTanh),
        read => read,
    }
}

/// The angles of layers that see all positions, and of those with a window.
fn rotaries(config: &Config, family: Family) -> Result<(RotaryConfig, RotaryConfig)> {
    let parameters = config.object("rope_parameters")?;
    if parameters.get("full_attention").is_some() {
        let of_layers = |kind: &str| RotaryConfig::of_keys(&parameters.object(kind)?, config);
        return Ok((of_layers("full_attention")?, of_layers("sliding_attention")?));
    }
    let rotary = RotaryConfig::read(config)?;
    let local = match family {
        Family::Gemma3 => rotary.local(config.number("rope_local_base_freq")?.unwrap_or(10_000.0)),
        _ => rotary.clone(),
    };
    Ok((rotary, local))
}

/// The window of each layer.
fn windows(config: &Config, family: Family) -> Result<Vec<Option<usize>>> {
    let layers = config.layers("num_hidden_layers")?;
    let is_used =
        config.flag("use_sliding_window")?.unwrap_or(!matches!(family, Family::Qwen2 | Family::Qwen3));
    let has_windows = !matches!(family, Family::Llama | Family::Gemma) && is_used;
    let Some(window) = config.size("sliding_window")?.filter(|_| has_windows) else {
        return Ok(vec![None; layers]);
    };
    let kinds = config.get("layer_types").and_then(|kinds| kinds.as_array());
    if kinds.is_some_and(|kinds| kinds.len() != layers) {
        return Err(config.misfit("layer_types", format!("{layers} kinds of layers")));
    }
    let pattern = config.size("sliding_window_pattern")?.unwrap_or(6);
    let first = config.number("max_window_layers")?.unwrap_or(28.0);
    let is_local = |layer: usize| match (kinds, family) {
        (Some(kinds), _) => kinds[layer] == "sliding_attention",
        (None, Family::Gemma2) => layer.is_multiple_of(2),
        (None, Family::Gemma3) => !(layer + 1).is_multiple_of(pattern),
        (None, Family::Qwen2 | Family::Qwen3) => layer as f64 >= first,
        (None, _) => true,
    };
    Ok((0..layers).map(|layer| is_local(layer).then_some(window)).collect())
}

/// The attention of a layer with its projections.
struct Attention {
    q_proj: Projection,
    k_proj: Projection,
    v_proj: Projection,
    o_proj: Projection,
    q_norm: Option<RmsNorm>,
    k_norm: Option<RmsNorm>,
    attention: CachedAttention,
    heads: Heads,
    is_local: bool,
}

impl Attention {
    fn new(
        loader: &Loader<'_>,
        config: &LlamaConfig,
        cache: CacheSize,
        window: Option<usize>,
    ) -> Result<Attention> {
        let heads = config.heads;
        let (queries, keys) = (heads.queries * heads.size, heads.keys * heads.size);
        let norm = |name: &str| match config.family.has_head_norms() {
            true => loader.rms_norm(name, heads.size, config.eps, config.norm_offset).map(Some),
            false => Ok(None),
        };
        let options = AttentionOptions { window, ..config.attention };
        Ok(Attention {
            q_proj: loader.linear("q_proj", config.size, queries, config.qkv_bias)?,
            k_proj: loader.linear("k_proj", config.size, keys, config.qkv_bias)?,
            v_proj: loader.linear("v_proj", config.size, keys, config.qkv_bias)?,
            o_proj: loader.linear("o_proj", queries, config.size, config.out_bias)?,
            q_norm: norm("q_norm")?,
            k_norm: norm("k_norm")?,
            attention: CachedAttention::new(loader, heads, options, cache)?,
            heads,
            is_local: window.is_some(),
        })
    }

    fn forward(
        &self,
        x: &Tensor,
        layer: &Layer<'_>,
        rotary: &Rotary,
        places: &TokenPlaces,
    ) -> Result<Tensor> {
        let heads = |projection: &Projection, count: usize, norm: Option<&RmsNorm>| {
            let x = layer.linear(projection, x)?;
            let heads = x.reshape(&[x.shape()[0] as isize, count as isize, self.heads.size as isize])?;
            norm.map_or(Ok(heads.clone()), |norm| layer.rms_norm(norm, &heads))
        };
        let queries = heads(&self.q_proj, self.heads.queries, self.q_norm.as_ref())?;
        let keys = heads(&self.k_proj, self.heads.keys, self.k_norm.as_ref())?;
        let values = heads(&self.v_proj, self.heads.keys, None)?;
        let [queries, keys] = [queries, keys].map(|heads| rotary.rotate(&heads, places));
        let attended = self.attention.attend(&queries?, &keys?, &values, places)?;
        layer.linear(&self.o_proj, &attended)
    }
}

/// The gated network of a layer.
struct FeedForward {
    gate_proj: Projection,
    up_proj: Projection,
    down_proj: Projection,
    activation: Activation,
}

impl FeedForward {
    fn new(loader: &Loader<'_>, config: &LlamaConfig) -> Result<FeedForward> {
        let linear = |name, inputs, outputs| loader.linear(name, inputs, outputs, config.mlp_bias);
        Ok(FeedForward {
            gate_proj: linear("gate_proj", config.size, config.hidden)?,
            up_proj: linear("up_proj", config.size, config.hidden)?,
            down_proj: linear("down_proj", config.hidden, config.size)?,
            activation: config.activation,
        })
    }

    fn forward(&self, x: &Tensor, layer: &Layer<'_>) -> Result<Tensor> {
        let gate = self.activation.apply(&layer.linear(&self.gate_proj, x)?)?;
        layer.linear(&self.down_proj, &(gate * layer.linear(&self.up_proj, x)?)?)
    }
}

/// Attention and a network, each on normalized input and added to it.
struct Block {
    before_attention: RmsNorm,
    attention: Attention,
    behind_attention: Option<RmsNorm>,
    before_network: RmsNorm,
    network: FeedForward,
    behind_network: Option<RmsNorm>,
}

impl Block {
    fn new(
        loader: &Loader<'_>,
        config: &LlamaConfig,
        cache: CacheSize,
        window: Option<usize>,
    ) -> Result<Block> {
        let norm = |name: &str| loader.rms_norm(name, config.size, config.eps, config.norm_offset);
        let has_behind = config.family.has_norms_behind();
        let (before_network, behind_attention) = match has_behind {
            true => ("pre_feedforward_layernorm", Some(norm("post_attention_layernorm")?)),
            false => ("post_attention_layernorm", None),
        };
        Ok(Block {
            before_attention: norm("input_layernorm")?,
            attention: Attention::new(&loader.sub("self_attn"), config, cache, window)?,
            behind_attention,
            before_network: norm(before_network)?,
            network: FeedForward::new(&loader.sub("mlp"), config)?,
            behind_network: if has_behind { Some(norm("post_feedforward_layernorm")?) } else { None },
        })
    }

    fn forward(
        &self,
        x: &Tensor,
        layer: &Layer<'_>,
        rotary: &Rotary,
        places: &TokenPlaces,
    ) -> Result<Tensor> {
        let normalized = |norm: &Option<RmsNorm>, x: Tensor| {
            norm.as_ref().map_or(Ok(x.clone()), |norm| layer.rms_norm(norm, &x))
        };
        let attended =
            self.attention.forward(&layer.rms_norm(&self.before_attention, x)?, layer, rotary, places)?;
        let x = (x + normalized(&self.behind_attention, attended)?)?;
        let changed = self.network.forward(&layer.rms_norm(&self.before_network, &x)?, layer)?;
        Ok((&x + normalized(&self.behind_network, changed)?)?)
    }
}

/// Llama and its relatives: rotary positions, grouped heads and gated dense layers.
pub(crate) struct Llama {
    embed_tokens: Matrix,
    embedding_scale: Option<f64>,
    blocks: Layers<Block>,
    norm: RmsNorm,
    head: Matrix,
    final_softcap: Option<f64>,
    rotary: Rotary,
    local_rotary: Rotary,
}

impl Llama {
    pub(crate) fn new(loader: &Loader<'_>, config: &LlamaConfig, cache: CacheSize) -> Result<Llama> {
        let body = loader.body("model");
        let embed_tokens = body.embedding("embed_tokens", config.vocabulary, config.size)?;
        let blocks = Layers::new(&body.sub("layers"), &config.windows, |loader, &window| {
            Block::new(loader, config, cache, window)
        })?;
        let norm = body.rms_norm("norm", config.size, config.eps, config.norm_offset)?;
        let head = match config.is_tied {
            true => embed_tokens.clone(),
            false => loader.sub("lm_head").matrix("weight", [config.vocabulary, config.size])?,
        };
        loader.check()?;
        let rotary = |name: &str, rotary: &RotaryConfig| {
            Rotary::new(&loader.sub(name), rotary, cache.rows(), config.heads.size)
        };
        Ok(Llama {
            blocks,
            norm,
            head,
            embed_tokens,
            embedding_scale: config.embedding_scale(),
            final_softcap: config.final_softcap,
            rotary: rotary("rotary", &config.rotary)?,
            local_rotary: rotary("local_rotary", &config.local_rotary)?,
        })
    }
}

impl Decoder for Llama {
    fn logits(&self, tokens: &Tensor, places: &TokenPlaces) -> Result<Tensor> {
        let mut x = self.embed_tokens.rows(tokens)?;
        if let Some(scale) = self.embedding_scale {
            x = (x * scale)?;
        }
        let x = self.blocks.forward(&x, |block, x, layer| {
            let rotary = if block.attention.is_local { &self.local_rotary } else { &self.rotary };
            block.forward(x, layer, rotary, places)
        })?;
        let logits = head(&self.norm.forward(&x)?, &self.head, places)?;
        Ok(match self.final_softcap {
            Some(cap) => ((logits / cap)?.tanh()? * cap)?,
            None => logits,
        })
    }
}
