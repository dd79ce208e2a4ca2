//! BERT and RoBERTa: a vector for each token of a text.
//!
//! Sources: Devlin, Chang, Lee and Toutanova, BERT: Pre-training of deep bidirectional transformers for
//! language understanding, 2019; Liu et al., RoBERTa: A robustly optimized BERT pretraining approach, 2019.

use arrayjit_tensor::{
    Parameter, Tensor,
    nn::{LayerNorm, Module},
};

use crate::{
    activation::Activation,
    config::Config,
    decoder::architecture,
    error::{ModelError, Result},
    layers::{Layer, Layers},
    loader::Loader,
    matrix::{Matrix, Projection},
};

/// The architectures of embedding models.
pub(crate) const ARCHITECTURES: &[&str] =
    &["BertModel", "BertForMaskedLM", "RobertaModel", "RobertaForMaskedLM", "XLMRobertaModel"];

/// The sizes and options of a model.
pub(crate) struct BertConfig {
    vocabulary: usize,
    size: usize,
    hidden: usize,
    layers: usize,
    heads: usize,
    positions: usize,
    /// The row of the first position in the table of positions.
    first_position: usize,
    types: usize,
    eps: f64,
    activation: Activation,
    body: &'static str,
}

impl BertConfig {
    pub(crate) fn read(config: &Config) -> Result<BertConfig> {
        let found = architecture(config);
        if !ARCHITECTURES.contains(&found.as_str()) {
            return Err(ModelError::Architecture { found, known: ARCHITECTURES });
        }
        let is_bert = found.starts_with("Bert");
        let (size, heads) = (config.needed_size("hidden_size")?, config.needed_size("num_attention_heads")?);
        if !size.is_multiple_of(heads) {
            return Err(config.misfit("num_attention_heads", format!("a divisor of {size}")));
        }
        if config.text("position_embedding_type")?.is_some_and(|kind| kind != "absolute") {
            return Err(config.misfit("position_embedding_type", "absolute"));
        }
        config.only("is_decoder", false)?;
        // The rows up to that of padding are no positions of RoBERTa's.
        let padding = config.number("pad_token_id")?.unwrap_or(1.0);
        let (first_position, positions) =
            (if is_bert { 0 } else { (padding as usize).saturating_add(1) }, "max_position_embeddings");
        let rows = config.needed_size(positions)?;
        if first_position >= rows {
            return Err(config.misfit(positions, format!("more than {first_position}")));
        }
        Ok(BertConfig {
            vocabulary: config.needed_size("vocab_size")?,
            size,
            hidden: config.needed_size("intermediate_size")?,
            layers: config.layers("num_hidden_layers")?,
            heads,
            positions: rows,
            first_position,
            types: config.size("type_vocab_size")?.unwrap_or(1),
            eps: config.epsilon("layer_norm_eps")?.unwrap_or(1e-12),
            activation: Activation::read(config, "hidden_act")?,
            body: if is_bert { "bert" } else { "roberta" },
        })
    }

    /// The most tokens of a text.
    pub(crate) fn max_length(&self) -> usize {
        self.positions - self.first_position
    }

    /// The elements of the vector of a token.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn vocabulary(&self) -> usize {
        self.vocabulary
    }
}

/// Attention of all tokens of a text to each other, and a network; the sum of each with its input is
/// normalized.
struct BertLayer {
    query: Projection,
    key: Projection,
    value: Projection,
    attention_output: Projection,
    attention_norm: LayerNorm,
    intermediate: Projection,
    output: Projection,
    norm: LayerNorm,
    activation: Activation,
    heads: usize,
    head_size: usize,
}

impl BertLayer {
    fn new(loader: &Loader<'_>, config: &BertConfig) -> Result<BertLayer> {
        let (size, hidden) = (config.size, config.hidden);
        let (attention, projections) =
            (loader.sub("attention").sub("output"), loader.sub("attention").sub("self"));
        let projection = |name: &str| projections.linear(name, size, size, true);
        let output = loader.sub("output");
        Ok(BertLayer {
            query: projection("query")?,
            key: projection("key")?,
            value: projection("value")?,
            attention_output: attention.linear("dense", size, size, true)?,
            attention_norm: attention.layer_norm("LayerNorm", size, config.eps)?,
            intermediate: loader.sub("intermediate").linear("dense", size, hidden, true)?,
            output: output.linear("dense", hidden, size, true)?,
            norm: output.layer_norm("LayerNorm", size, config.eps)?,
            activation: config.activation,
            heads: config.heads,
            head_size: size / config.heads,
        })
    }

    /// `[batch, tokens, size]` to the same shape; `lengths` has the number of tokens of each text. Rows
    /// behind a text are selected away: the product of a weight of 0 and a value that is not finite is NaN.
    fn forward(&self, x: &Tensor, layer: &Layer<'_>, lengths: &Tensor) -> Result<Tensor> {
        let (heads, size) = (self.heads, self.head_size);
        let text = format!(
            "scaled[b,h,i,c] := q[b,i,{size}*h + c] * recip_sqrt({size}) where h < {heads}, c < {size}
             seen[b,h,j,c] := k[b,j,{size}*h + c] where h < {heads}, c < {size}
             mixed[b,h,j,c] := where(j < lengths[b], v[b,j,{size}*h + c], 0) where h < {heads}, c < {size}
             product[b,h,i,j] :+= scaled[b,h,i,c] * seen[b,h,j,c]
             score[b,h,i,j] := where(j < lengths[b], product[b,h,i,j], -inf)
             weight[b,h,i,j] := softmax(score[b,h,i,j])
             a[b,h,i,c] :+= weight[b,h,i,j] * mixed[b,h,j,c]
             y[b,i,{size}*h + c] := a[b,h,i,c] where h < {heads}, c < {size}"
        );
        let [q, k, v] = [&self.query, &self.key, &self.value].map(|part| layer.linear(part, x));
        let (q, k, v) = (q?, k?, v?);
        let attended = x.graph().apply(&text, &[("q", &q), ("k", &k), ("v", &v), ("lengths", lengths)])?;
        let sum = (x + layer.linear(&self.attention_output, &attended)?)?;
        let x = layer.layer_norm(&self.attention_norm, &sum)?;
        let hidden = self.activation.apply(&layer.linear(&self.intermediate, &x)?)?;
        layer.layer_norm(&self.norm, &(&x + layer.linear(&self.output, &hidden)?)?)
    }
}

/// BERT and RoBERTa: embeddings, and blocks of attention and dense layers.
pub(crate) struct Bert {
    words: Matrix,
    positions: Parameter,
    types: Parameter,
    norm: LayerNorm,
    layers: Layers<BertLayer>,
    first_position: usize,
}

impl Bert {
    pub(crate) fn new(loader: &Loader<'_>, config: &BertConfig) -> Result<Bert> {
        let body = loader.body(config.body);
        let (embeddings, layers) = (body.sub("embeddings"), body.sub("encoder").sub("layer"));
        let kinds = vec![(); config.layers];
        let table = |name: &str, rows| embeddings.sub(name).parameter("weight", &[rows, config.size]);
        Ok(Bert {
            words: embeddings.embedding("word_embeddings", config.vocabulary, config.size)?,
            positions: table("position_embeddings", config.positions)?,
            types: table("token_type_embeddings", config.types)?,
            norm: embeddings.layer_norm("LayerNorm", config.size, config.eps)?,
            layers: Layers::new(&layers, &kinds, |loader, ()| BertLayer::new(loader, config))?,
            first_position: config.first_position,
        })
    }

    /// Computes the vectors `[batch, tokens, size]` of tokens `[batch, tokens]`. A text has `lengths[batch]`
    /// tokens; the others of its row fill it up.
    pub(crate) fn forward(&self, tokens: &Tensor, lengths: &Tensor) -> Result<Tensor> {
        let words = self.words.rows(tokens)?;
        let text =
            format!("y[b,i,c] := x[b,i,c] + p[i + {}, c] + t[0,c] where i < size(x, 1)", self.first_position);
        let inputs: [(&str, &dyn arrayjit_tensor::TensorOperand); 3] =
            [("x", &words), ("p", &self.positions), ("t", &self.types)];
        let x = self.norm.forward(&words.graph().apply(&text, &inputs)?)?;
        self.layers.forward(&x, |block, x, layer| block.forward(x, layer, lengths))
    }
}
