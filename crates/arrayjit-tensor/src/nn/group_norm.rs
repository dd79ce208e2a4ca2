//! Normalization of each element of a batch: over groups of channels or over the last axis.

use crate::{
    error::{Call, Result, check_epsilon, misfit},
    nn::{Module, ModuleTypes, check_axis, check_divisor, check_rank},
    operand::{Argument, number},
    options::options,
    parameter::{Init, Parameter, Params},
    shape::{access, letter},
    tensor::Tensor,
};

/// (x − mean) / √(variance + eps) · weight + bias over the last axis, as torch's `LayerNorm`.
///
/// Source: Ba, Kiros and Hinton, Layer normalization, 2016.
pub struct LayerNorm {
    /// `weight`, of shape `[size]`.
    pub weight: Parameter,
    /// `bias`, of shape `[size]`.
    pub bias: Parameter,
    /// The number that is added to the variance.
    pub eps: f64,
}

impl LayerNorm {
    /// Normalizes a last axis of `size` elements, with an eps of 1e-5. The weight is 1 at first, the bias 0.
    ///
    /// # Errors
    /// A name that exists already, or a size that overflows.
    #[track_caller]
    pub fn new(params: &Params, size: usize) -> Result<LayerNorm> {
        let weight = params.parameter("weight", [size], Init::ONES)?;
        Ok(LayerNorm { weight, bias: params.parameter("bias", [size], Init::ZEROS)?, eps: 1e-5 })
    }

    options! {
        /// The number that is added to the variance.
        eps: f64 => eps;
    }
}

impl Module for LayerNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = x.graph().enter(self.weight.module());
        check_rank(Call::new("layer_norm"), x, &self.weight, 1)?;
        check_axis(Call::new("layer_norm"), x, -1, self.weight.shape()[0], self.weight.name())?;
        x.layer_norm(&self.weight, &self.bias, self.eps)
    }
}

/// x / √(mean(x²) + eps) · weight over the last axis, as torch's `RMSNorm`.
///
/// ```
/// use arrayjit_tensor::{DType, Graph, Params};
/// use arrayjit_tensor::nn::{Module, RmsNorm};
///
/// let norm = RmsNorm::new(&Params::new(42), 64)?.eps(1e-6);
/// let x = Graph::new().input("x", [32, 64], DType::F32)?;
/// assert_eq!(norm.forward(&x)?.shape(), [32, 64]);
/// # Ok::<(), arrayjit_tensor::TensorError>(())
/// ```
///
/// Source: Zhang and Sennrich, Root mean square layer normalization, 2019.
pub struct RmsNorm {
    /// `weight`, of shape `[size]`.
    pub weight: Parameter,
    /// The number that is added to the mean of squares; if it is `None`, the machine epsilon of the type in
    /// which squares are summed.
    pub eps: Option<f64>,
}

impl RmsNorm {
    /// Normalizes a last axis of `size` elements, without an eps of its own, as torch. The weight is 1 at
    /// first.
    ///
    /// # Errors
    /// A name that exists already, or a size that overflows.
    #[track_caller]
    pub fn new(params: &Params, size: usize) -> Result<RmsNorm> {
        Ok(RmsNorm { weight: params.parameter("weight", [size], Init::ONES)?, eps: None })
    }

    options! {
        /// The number that is added to the mean of squares.
        eps: f64 => eps;
    }
}

impl Module for RmsNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = x.graph().enter(self.weight.module());
        check_rank(Call::new("rms_norm"), x, &self.weight, 1)?;
        check_axis(Call::new("rms_norm"), x, -1, self.weight.shape()[0], self.weight.name())?;
        x.rms_norm(&self.weight, self.eps)
    }
}

/// Normalizes groups of channels, as torch's `GroupNorm`: (x − mean) / √(variance + eps) over the channels of
/// a group and all axes of space, then · weight + bias for each channel.
///
/// Source: Wu and He, Group normalization, 2018.
pub struct GroupNorm {
    /// `weight`, of shape `[channels]`.
    pub weight: Parameter,
    /// `bias`, of shape `[channels]`.
    pub bias: Parameter,
    /// The number of groups, which divides that of channels.
    pub groups: usize,
    /// The number that is added to variances.
    pub eps: f64,
}

impl GroupNorm {
    /// Normalizes `channels` channels in groups, with an eps of 1e-5. The weights are 1 at first, the biases
    /// 0.
    ///
    /// # Errors
    /// A number of groups that does not divide that of channels, a name that exists already, or a size that
    /// overflows.
    #[track_caller]
    pub fn new(params: &Params, groups: usize, channels: usize) -> Result<GroupNorm> {
        if groups == 0 || !channels.is_multiple_of(groups) {
            let expected = format!("a divisor of {channels}, the number of channels");
            return Err(Call::new("GroupNorm").error(params.path(), misfit("groups", groups, expected)));
        }
        let weight = params.parameter("weight", [channels], Init::ONES)?;
        let bias = params.parameter("bias", [channels], Init::ZEROS)?;
        Ok(GroupNorm { weight, bias, groups, eps: 1e-5 })
    }

    options! {
        /// The number that is added to variances.
        eps: f64 => eps;
    }
}

impl Module for GroupNorm {
    /// `[batch, channels, …]` to the same shape.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = x.graph().enter(self.weight.module());
        let call = Call::new("group_norm");
        x.floats(call)?;
        if x.rank() < 2 {
            return Err(x.graph().fail(call, x.misshapen("[batch, channels, …]")));
        }
        check_rank(call, x, &self.weight, 1)?;
        let channels = self.weight.shape()[0];
        check_divisor(call, x, ("groups", self.groups), channels)?;
        check_axis(call, x, 1, channels, self.weight.name())?;
        check_epsilon(x.graph(), call, self.eps)?;
        let types = ModuleTypes::new(x, &self.weight);
        let inner = channels / self.groups;
        // Channel `inner·g + c` is channel c of group g.
        let channel = format!("{inner}*g + c");
        let at = |node: &str, channel: &str| {
            let space = (2..x.rank()).map(letter);
            access(node, ["b".to_owned(), channel.to_owned()].into_iter().chain(space))
        };
        let value = types.widen(&at("x", &channel), x.dtype());
        let count = number((inner * x.shape()[2..].iter().product::<usize>()) as f64);
        let weight = types.widen(&format!("w[{channel}]"), self.weight.dtype());
        let bias = types.widen(&format!("a[{channel}]"), self.bias.dtype());
        let deviation = format!("({value} - m[b,g])");
        let result = format!("{deviation} * recip_sqrt(v[b,g] + {}) * {weight} + {bias}", number(self.eps));
        let ranges = format!("where g < {}, c < {inner}", self.groups);
        let inputs = [
            ("x", Argument::Tensor(x)),
            ("w", Argument::Parameter(&self.weight)),
            ("a", Argument::Parameter(&self.bias)),
        ];
        x.graph().result(call, &inputs, |y| {
            format!(
                "m[b,g] :+= {value} / {count} {ranges}\nv[b,g] :+= {deviation} * {deviation} / {count} {ranges}\n\
                 {} := {} {ranges}",
                at(y, &channel),
                types.narrowed(&result)
            )
        })
    }
}
