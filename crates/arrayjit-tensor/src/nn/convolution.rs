//! Convolution of images.

use std::marker::PhantomData;

use crate::{
    error::{Call, TensorError},
    nn::{Module, ModuleTypes, linear::uniform, wrong_option},
    operand::Argument,
    options::options,
    parameter::{Parameter, Params},
    tensor::Tensor,
    window::ConvOptions,
};

/// Convolution of images, as torch's `Conv2d`.
///
/// ```
/// use arrayjit_tensor::{DType, Graph, Params};
/// use arrayjit_tensor::nn::{Conv2d, Module};
///
/// let params = Params::new(42);
/// let same = Conv2d::builder(&params.sub("same"), 1, 6, 5).padding(2).bias(false).build()?;
/// let conv = Conv2d::new(&params.sub("conv"), 6, 16, 5)?;
/// let images = Graph::new().input("images", [32, 1, 28, 28], DType::F32)?;
/// assert_eq!(conv.forward(&same.forward(&images)?)?.shape(), [32, 16, 24, 24]);
/// # Ok::<(), arrayjit_tensor::TensorError>(())
/// ```
pub struct Conv2d {
    /// `weight`, of shape `[out, channels / groups, size, size]`.
    pub weight: Parameter,
    /// `bias`, of shape `[out]`.
    pub bias: Option<Parameter>,
    /// How the filters move.
    pub options: ConvOptions,
}

/// Transposed convolution of images, as torch's `ConvTranspose2d`.
///
/// ```
/// use arrayjit_tensor::{DType, Graph, Params};
/// use arrayjit_tensor::nn::{ConvTranspose2d, Module};
///
/// let params = Params::new(42);
/// let double = ConvTranspose2d::builder(&params, 8, 3, 2).stride(2).build()?;
/// let images = Graph::new().input("images", [32, 8, 14, 14], DType::F32)?;
/// assert_eq!(double.forward(&images)?.shape(), [32, 3, 28, 28]);
/// # Ok::<(), arrayjit_tensor::TensorError>(())
/// ```
pub struct ConvTranspose2d {
    /// `weight`, of shape `[channels, out / groups, size, size]`.
    pub weight: Parameter,
    /// `bias`, of shape `[out]`.
    pub bias: Option<Parameter>,
    /// How the filters move.
    pub options: ConvOptions,
}

/// The options of a [`Conv2d`] or [`ConvTranspose2d`] whose parameters are not made yet. See [`ConvOptions`].
pub struct ConvBuilder<M> {
    params: Params,
    channels: [usize; 2],
    size: usize,
    options: ConvOptions,
    bias: bool,
    module: PhantomData<M>,
}

impl<M> ConvBuilder<M> {
    fn new(params: &Params, channels: [usize; 2], size: usize) -> Self {
        let options = ConvOptions::new();
        ConvBuilder { params: params.clone(), channels, size, options, bias: true, module: PhantomData }
    }

    options! {
        /// The distance of neighboring windows, at least 1; 1 by default.
        stride: usize => options.stride;
        /// The zeros in front of the first and behind the last row and column; 0 by default.
        padding: usize => options.padding;
        /// The distance of neighboring elements of a window, at least 1; 1 by default.
        dilation: usize => options.dilation;
        /// The number of groups of channels; each group has filters of its own. 1 by default.
        groups: usize => options.groups;
        /// Whether a number is added to each channel; true by default.
        bias: bool => bias;
    }

    /// A weight of `outer` filters for each of `inner` channels of a group, and the bias.
    #[track_caller]
    fn parameters(&self, [outer, inner]: [usize; 2]) -> Result<(Parameter, Option<Parameter>), TensorError> {
        let (params, size) = (&self.params, self.size);
        let init = uniform(inner.saturating_mul(size).saturating_mul(size));
        let weight = params.parameter("weight", [outer, inner, size, size], init.clone())?;
        let bias = match self.bias {
            true => Some(params.parameter("bias", [self.channels[1]], init)?),
            false => None,
        };
        Ok((weight, bias))
    }

    fn check_groups(&self, call: Call) -> Result<(), TensorError> {
        let ([channels, out], groups) = (self.channels, self.options.groups);
        if groups > 0 && channels.is_multiple_of(groups) && out.is_multiple_of(groups) {
            return Ok(());
        }
        let expected = format!("a divisor of {channels} and of {out}, the numbers of channels");
        Err(wrong_option(call, self.params.path(), "groups", groups, expected))
    }
}

impl Conv2d {
    /// Filters of `size` by `size` elements from `channels` to `out` channels. The weight and the bias are
    /// uniform in ±1/√n, where n is the number of elements of a filter.
    ///
    /// # Errors
    /// A name that exists already, or a size that overflows.
    #[track_caller]
    pub fn new(params: &Params, channels: usize, out: usize, size: usize) -> Result<Conv2d, TensorError> {
        Conv2d::builder(params, channels, out, size).build()
    }

    /// [`new`](Conv2d::new) with options.
    pub fn builder(params: &Params, channels: usize, out: usize, size: usize) -> ConvBuilder<Conv2d> {
        ConvBuilder::new(params, [channels, out], size)
    }
}

impl ConvBuilder<Conv2d> {
    /// Makes the parameters.
    ///
    /// # Errors
    /// Numbers of channels that are no multiples of the groups, a name that exists already, or a size that
    /// overflows.
    #[track_caller]
    pub fn build(self) -> Result<Conv2d, TensorError> {
        self.check_groups(Call::new("Conv2d"))?;
        let (options, [channels, out]) = (self.options, self.channels);
        let (weight, bias) = self.parameters([out, channels / options.groups])?;
        Ok(Conv2d { weight, bias, options })
    }
}

impl Module for Conv2d {
    /// `[batch, channels, height, width]` to `[batch, out, …]`, as [`Tensor::conv2d`].
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let _scope = x.graph().enter(self.weight.module());
        with_bias(Call::new("conv2d"), x.conv2d(&self.weight, self.options)?, self.bias.as_ref())
    }
}

impl ConvTranspose2d {
    /// Filters of `size` by `size` elements from `channels` to `out` channels. The weight and the bias are
    /// uniform in ±1/√n for n = `out` / groups · `size`², as torch's.
    ///
    /// # Errors
    /// A name that exists already, or a size that overflows.
    #[track_caller]
    pub fn new(
        params: &Params,
        channels: usize,
        out: usize,
        size: usize,
    ) -> Result<ConvTranspose2d, TensorError> {
        ConvTranspose2d::builder(params, channels, out, size).build()
    }

    /// [`new`](ConvTranspose2d::new) with options.
    pub fn builder(
        params: &Params,
        channels: usize,
        out: usize,
        size: usize,
    ) -> ConvBuilder<ConvTranspose2d> {
        ConvBuilder::new(params, [channels, out], size)
    }
}

impl ConvBuilder<ConvTranspose2d> {
    options! {
        /// The rows and columns that are added behind the last ones; 0 by default.
        output_padding: usize => options.output_padding;
    }

    /// Makes the parameters.
    ///
    /// # Errors
    /// Numbers of channels that are no multiples of the groups, a name that exists already, or a size that
    /// overflows.
    #[track_caller]
    pub fn build(self) -> Result<ConvTranspose2d, TensorError> {
        self.check_groups(Call::new("ConvTranspose2d"))?;
        let (options, [channels, out]) = (self.options, self.channels);
        let (weight, bias) = self.parameters([channels, out / options.groups])?;
        Ok(ConvTranspose2d { weight, bias, options })
    }
}

impl Module for ConvTranspose2d {
    /// `[batch, channels, height, width]` to `[batch, out, …]`, as [`Tensor::conv_transpose2d`].
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let _scope = x.graph().enter(self.weight.module());
        let y = x.conv_transpose2d(&self.weight, self.options)?;
        with_bias(Call::new("conv_transpose2d"), y, self.bias.as_ref())
    }
}

/// Adds a number to each channel.
fn with_bias(call: Call, x: Tensor, bias: Option<&Parameter>) -> Result<Tensor, TensorError> {
    let Some(bias) = bias else { return Ok(x) };
    let types = ModuleTypes::new(&x, bias);
    let value = types.widen("x[b,c,i,j]", x.dtype());
    let sum = format!("{value} + {}", types.widen("bias[c]", bias.dtype()));
    let inputs = [("x", Argument::Tensor(&x)), ("bias", Argument::Parameter(bias))];
    x.graph().result(call, &inputs, |y| format!("{y}[b,c,i,j] := {}", types.narrowed(&sum)))
}
