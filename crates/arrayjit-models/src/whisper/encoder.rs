//! The encoder: two convolutions over frames, and layers of attention of all positions to each other.

use arrayjit_tensor::{
    ConvOptions, Parameter, Tensor,
    nn::{Conv1d, LayerNorm, Module},
};

use crate::{
    error::{ModelError, Result},
    layers::{Layer, Layers},
    loader::Loader,
    whisper::{
        WhisperConfig,
        layers::{EPS, FeedForward, Projections},
    },
};

/// A layer of the encoder: attention and a network, each on normalized input and added to it.
struct EncoderLayer {
    attention: Projections,
    network: FeedForward,
    heads: usize,
}

impl EncoderLayer {
    /// `[positions, size]` to the same shape.
    fn forward(&self, x: &Tensor, layer: &Layer<'_>) -> Result<Tensor> {
        let (heads, size) = (self.heads, x.shape()[1] / self.heads);
        let text = format!(
            "scaled[h,i,c] := q[i,{size}*h + c] * recip_sqrt({size}) where h < {heads}, c < {size}
             seen[h,j,c] := k[j,{size}*h + c] where h < {heads}, c < {size}
             mixed[h,j,c] := v[j,{size}*h + c] where h < {heads}, c < {size}
             product[h,i,j] :+= scaled[h,i,c] * seen[h,j,c]
             weight[h,i,j] := softmax(product[h,i,j])
             a[h,i,c] :+= weight[h,i,j] * mixed[h,j,c]
             y[i,{size}*h + c] := a[h,i,c] where h < {heads}, c < {size}"
        );
        let Projections { norm, queries, keys, values, output } = &self.attention;
        let normalized = layer.layer_norm(norm, x)?;
        let [q, k, v] = [queries, keys, values].map(|part| layer.linear(part, &normalized));
        let attended = x.graph().apply(&text, &[("q", &q?), ("k", &k?), ("v", &v?)])?;
        self.network.forward(&(x + layer.linear(output, &attended)?)?, layer)
    }
}

/// The encoder of a speech model.
pub(crate) struct Encoder {
    convolutions: [Conv1d; 2],
    positions: Parameter,
    layers: Layers<EncoderLayer>,
    norm: LayerNorm,
}

impl Encoder {
    pub(crate) fn new(loader: &Loader<'_>, config: &WhisperConfig) -> Result<Encoder> {
        let loader = loader.body("model").sub("encoder");
        let convolution = |name: &str, channels: usize, stride: usize| {
            let loader = loader.sub(name);
            Ok::<_, ModelError>(Conv1d {
                weight: loader.parameter("weight", &[config.size, channels, 3])?,
                bias: Some(loader.parameter("bias", &[config.size])?),
                options: ConvOptions::new().stride(stride).padding(1),
            })
        };
        let stack = config.encoder;
        let layers = Layers::new(&loader.sub("layers"), &vec![(); stack.layers], |loader, ()| {
            Ok(EncoderLayer {
                attention: Projections::new(loader, "self_attn", config.size)?,
                network: FeedForward::new(loader, config, stack)?,
                heads: stack.heads,
            })
        })?;
        Ok(Encoder {
            convolutions: [convolution("conv1", config.bands, 1)?, convolution("conv2", config.size, 2)?],
            positions: loader.sub("embed_positions").parameter("weight", &[config.positions, config.size])?,
            layers,
            norm: loader.layer_norm("layer_norm", config.size, EPS)?,
        })
    }

    /// The vectors `[positions, size]` of features `[1, bands, frames]`, two frames for each position.
    pub(crate) fn forward(&self, features: &Tensor) -> Result<Tensor> {
        let mut x = features.clone();
        for convolution in &self.convolutions {
            x = convolution.forward(&x)?.gelu()?;
        }
        let text = "y[t,c] := x[0,c,t] + p[t,c]";
        let x = x.graph().apply(text, &[("x", &x), ("p", &self.positions)])?;
        let x = self.layers.forward(&x, EncoderLayer::forward)?;
        Ok(self.norm.forward(&x)?)
    }
}
