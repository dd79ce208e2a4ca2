//! A layer of a transformer.

use crate::{
    error::{Call, Result},
    nn::{Dropout, LayerNorm, Linear, Module, MultiHeadAttention},
    options::options,
    parameter::Params,
    tensor::Tensor,
};

/// Attention of vectors to each other, then two linear layers with an activation between, each next to a
/// shortcut and normalized: torch's `TransformerEncoderLayer` with `batch_first`, under its names.
///
/// ```
/// use arrayjit_tensor::{DType, Graph, Params};
/// use arrayjit_tensor::nn::{Module, TransformerEncoderLayer};
///
/// let params = Params::new(42);
/// let layer = TransformerEncoderLayer::builder(&params, 64, 4).norm_first(true).causal(true).build()?;
/// let x = Graph::new().input("x", [8, 16, 64], DType::F32)?;
/// assert_eq!(layer.forward(&x)?.shape(), [8, 16, 64]);
/// # Ok::<(), arrayjit_tensor::TensorError>(())
/// ```
///
/// Source: Vaswani et al., Attention is all you need, 2017.
pub struct TransformerEncoderLayer {
    /// `self_attn`: the attention.
    pub self_attn: MultiHeadAttention,
    /// `linear1`: the layer before the activation.
    pub linear1: Linear,
    /// `linear2`: the layer behind the activation.
    pub linear2: Linear,
    /// `norm1`: the normalization of the attention.
    pub norm1: LayerNorm,
    /// `norm2`: the normalization of the linear layers.
    pub norm2: LayerNorm,
    /// Dropout behind the activation, in graphs for training.
    pub dropout: Dropout,
    /// `dropout1`: dropout behind the attention.
    pub dropout1: Dropout,
    /// `dropout2`: dropout behind the linear layers.
    pub dropout2: Dropout,
    /// Whether the operands of the attention and of the linear layers are normalized, and not the sums.
    pub norm_first: bool,
    /// Whether the activation is [`gelu`](Tensor::gelu), and not [`relu`](Tensor::relu).
    pub gelu: bool,
}

/// The options of a [`TransformerEncoderLayer`] whose parameters are not made yet.
pub struct TransformerEncoderLayerBuilder {
    params: Params,
    size: usize,
    heads: usize,
    hidden: usize,
    dropout: f64,
    causal: bool,
    norm_first: bool,
    gelu: bool,
    eps: f64,
}

impl TransformerEncoderLayerBuilder {
    options! {
        /// The number of elements between the linear layers; 2048 by default.
        hidden: usize => hidden;
        /// The rate of all dropouts, at least 0 and less than 1; 0.1 by default.
        dropout: f64 => dropout;
        /// Whether each position sees only itself and the positions before it; false by default.
        causal: bool => causal;
        /// Whether the operands are normalized, and not the sums; false by default.
        norm_first: bool => norm_first;
        /// Whether the activation is [`gelu`](Tensor::gelu), and not [`relu`](Tensor::relu); false by default.
        gelu: bool => gelu;
        /// The number that is added to variances; 1e-5 by default.
        eps: f64 => eps;
    }

    /// Makes the parameters.
    ///
    /// # Errors
    /// A number of heads that does not divide the size, a rate of dropout outside 0..1, a name that exists
    /// already, or a size that overflows.
    #[track_caller]
    pub fn build(self) -> Result<TransformerEncoderLayer> {
        let TransformerEncoderLayerBuilder { params, size, heads, hidden, dropout, .. } = self;
        let call = Call::new("TransformerEncoderLayer");
        let attention = MultiHeadAttention::builder(&params.sub("self_attn"), size, heads);
        let dropout_of = |name: &str| Dropout::of_module(call, &params.sub(name), dropout);
        Ok(TransformerEncoderLayer {
            self_attn: attention.causal(self.causal).dropout(dropout).build()?,
            linear1: Linear::new(&params.sub("linear1"), size, hidden)?,
            linear2: Linear::new(&params.sub("linear2"), hidden, size)?,
            norm1: LayerNorm::new(&params.sub("norm1"), size)?.eps(self.eps),
            norm2: LayerNorm::new(&params.sub("norm2"), size)?.eps(self.eps),
            dropout: dropout_of("dropout")?,
            dropout1: dropout_of("dropout1")?,
            dropout2: dropout_of("dropout2")?,
            norm_first: self.norm_first,
            gelu: self.gelu,
        })
    }
}

impl TransformerEncoderLayer {
    /// A layer for vectors of `size` elements.
    ///
    /// # Errors
    /// Fails like [`build`](TransformerEncoderLayerBuilder::build).
    #[track_caller]
    pub fn new(params: &Params, size: usize, heads: usize) -> Result<TransformerEncoderLayer> {
        TransformerEncoderLayer::builder(params, size, heads).build()
    }

    /// [`new`](TransformerEncoderLayer::new) with options.
    pub fn builder(params: &Params, size: usize, heads: usize) -> TransformerEncoderLayerBuilder {
        TransformerEncoderLayerBuilder {
            params: params.clone(),
            size,
            heads,
            hidden: 2048,
            dropout: 0.1,
            causal: false,
            norm_first: false,
            gelu: false,
            eps: 1e-5,
        }
    }

    fn attended(&self, x: &Tensor) -> Result<Tensor> {
        self.dropout1.forward(&self.self_attn.forward(x)?)
    }

    fn mapped(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = self.linear1.forward(x)?;
        let hidden = if self.gelu { hidden.gelu()? } else { hidden.relu()? };
        self.dropout2.forward(&self.linear2.forward(&self.dropout.forward(&hidden)?)?)
    }
}

impl Module for TransformerEncoderLayer {
    /// `[…, positions, size]` to the same shape.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if self.norm_first {
            let x = (x + self.attended(&self.norm1.forward(x)?)?)?;
            return &x + self.mapped(&self.norm2.forward(&x)?)?;
        }
        let x = self.norm1.forward(&(x + self.attended(x)?)?)?;
        self.norm2.forward(&(&x + self.mapped(&x)?)?)
    }
}
