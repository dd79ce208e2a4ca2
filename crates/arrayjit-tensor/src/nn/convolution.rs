//! Convolution of images.

use crate::{
    error::{Call, Error},
    nn::{Module, ModuleTypes, linear::uniform, wrong_option},
    operand::Argument,
    parameter::{Parameter, Params},
    tensor::Tensor,
    window::WindowOptions,
};

/// How a [`Conv2d`] moves its filters, the same on both axes of an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv2dOptions {
    /// The distance of neighbouring windows, at least 1.
    pub stride: usize,
    /// The zeros in front of the first and behind the last row and column.
    pub padding: usize,
    /// The distance of neighbouring elements of a window, at least 1.
    pub dilation: usize,
    /// The number of groups of channels; each group has filters of its own.
    pub groups: usize,
    /// Whether a number is added to each channel.
    pub bias: bool,
}

impl Default for Conv2dOptions {
    /// Every position, no padding, neighbouring elements, one group, with a bias.
    fn default() -> Conv2dOptions {
        Conv2dOptions { stride: 1, padding: 0, dilation: 1, groups: 1, bias: true }
    }
}

/// Convolution of images, as torch's `Conv2d`.
pub struct Conv2d {
    /// `weight`, of shape `[out, channels / groups, size, size]`.
    pub weight: Parameter,
    /// `bias`, of shape `[out]`.
    pub bias: Option<Parameter>,
    /// How the filters move.
    pub window: WindowOptions,
}

impl Conv2d {
    /// Filters of `size` by `size` elements from `channels` to `out` channels. The weight and the bias are
    /// uniform in ±1/√n, where n is the number of elements of a filter.
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph, Params};
    /// use arrayjit_tensor::nn::{Conv2d, Conv2dOptions, Module};
    ///
    /// let params = Params::new(42);
    /// let same = Conv2dOptions { padding: 2, ..Default::default() };
    /// let conv = Conv2d::new(&params.sub("conv"), 1, 6, 5, same)?;
    /// let images = Graph::new().input("images", [32, 1, 28, 28], DType::F32)?;
    /// assert_eq!(conv.forward(&images)?.shape(), [32, 6, 28, 28]);
    /// # Ok::<(), arrayjit_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Numbers of channels that are no multiples of the groups, a name that exists already, or a size that
    /// overflows.
    #[track_caller]
    pub fn new(
        params: &Params,
        channels: usize,
        out: usize,
        size: usize,
        options: Conv2dOptions,
    ) -> Result<Conv2d, Error> {
        let Conv2dOptions { stride, padding, dilation, groups, bias } = options;
        check_groups(Call::new("Conv2d"), params, [channels, out], groups)?;
        let inner = channels / groups;
        let init = uniform(inner.saturating_mul(size).saturating_mul(size));
        let weight = params.parameter("weight", [out, inner, size, size], init.clone())?;
        let bias = if bias { Some(params.parameter("bias", [out], init)?) } else { None };
        Ok(Conv2d { weight, bias, window: WindowOptions { stride, padding, dilation, groups } })
    }
}

impl Module for Conv2d {
    /// `[batch, channels, height, width]` to `[batch, out, …]`, as [`Tensor::conv2d`].
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor, Error> {
        let _scope = x.graph().enter(self.weight.module());
        with_bias(Call::new("conv2d"), x.conv2d(&self.weight, self.window)?, self.bias.as_ref())
    }
}

/// How a [`ConvTranspose2d`] moves its filters, the same on both axes of an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConvTranspose2dOptions {
    /// The distance of neighbouring windows of the result, at least 1.
    pub stride: usize,
    /// The rows and columns that are cut from each side of the result.
    pub padding: usize,
    /// The rows and columns that are added behind the last ones.
    pub output_padding: usize,
    /// The distance of neighbouring elements of a window, at least 1.
    pub dilation: usize,
    /// The number of groups of channels; each group has filters of its own.
    pub groups: usize,
    /// Whether a number is added to each channel.
    pub bias: bool,
}

impl Default for ConvTranspose2dOptions {
    /// Every position, nothing cut or added, neighbouring elements, one group, with a bias.
    fn default() -> ConvTranspose2dOptions {
        ConvTranspose2dOptions {
            stride: 1,
            padding: 0,
            output_padding: 0,
            dilation: 1,
            groups: 1,
            bias: true,
        }
    }
}

/// Transposed convolution of images, as torch's `ConvTranspose2d`.
pub struct ConvTranspose2d {
    /// `weight`, of shape `[channels, out / groups, size, size]`.
    pub weight: Parameter,
    /// `bias`, of shape `[out]`.
    pub bias: Option<Parameter>,
    /// How the filters move.
    pub window: WindowOptions,
    /// The rows and columns that are added behind the last ones.
    pub output_padding: usize,
}

impl ConvTranspose2d {
    /// Filters of `size` by `size` elements from `channels` to `out` channels. The weight and the bias are
    /// uniform in ±1/√n for n = `out` / groups · `size`², as torch's.
    ///
    /// # Errors
    /// Numbers of channels that are no multiples of the groups, a name that exists already, or a size that
    /// overflows.
    #[track_caller]
    pub fn new(
        params: &Params,
        channels: usize,
        out: usize,
        size: usize,
        options: ConvTranspose2dOptions,
    ) -> Result<ConvTranspose2d, Error> {
        let ConvTranspose2dOptions { stride, padding, output_padding, dilation, groups, bias } = options;
        check_groups(Call::new("ConvTranspose2d"), params, [channels, out], groups)?;
        let inner = out / groups;
        let init = uniform(inner.saturating_mul(size).saturating_mul(size));
        let weight = params.parameter("weight", [channels, inner, size, size], init.clone())?;
        let bias = if bias { Some(params.parameter("bias", [out], init)?) } else { None };
        let window = WindowOptions { stride, padding, dilation, groups };
        Ok(ConvTranspose2d { weight, bias, window, output_padding })
    }
}

impl Module for ConvTranspose2d {
    /// `[batch, channels, height, width]` to `[batch, out, …]`, as [`Tensor::conv_transpose2d`].
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor, Error> {
        let _scope = x.graph().enter(self.weight.module());
        let y = x.conv_transpose2d(&self.weight, self.window, self.output_padding)?;
        with_bias(Call::new("conv_transpose2d"), y, self.bias.as_ref())
    }
}

fn check_groups(call: Call, params: &Params, channels: [usize; 2], groups: usize) -> Result<(), Error> {
    if groups > 0 && channels.iter().all(|count| count.is_multiple_of(groups)) {
        return Ok(());
    }
    let expected = format!("a divisor of {} and of {}, the numbers of channels", channels[0], channels[1]);
    Err(wrong_option(call, params.path(), "groups", groups, expected))
}

/// Adds a number to each channel.
fn with_bias(call: Call, x: Tensor, bias: Option<&Parameter>) -> Result<Tensor, Error> {
    let Some(bias) = bias else { return Ok(x) };
    let types = ModuleTypes::new(&x, bias);
    let value = types.widen("x[b,c,i,j]", x.dtype());
    let sum = format!("{value} + {}", types.widen("bias[c]", bias.dtype()));
    let inputs = [("x", Argument::Tensor(&x)), ("bias", Argument::Parameter(bias))];
    x.graph().result(call, &inputs, |y| format!("{y}[b,c,i,j] := {}", types.narrowed(&sum)))
}
