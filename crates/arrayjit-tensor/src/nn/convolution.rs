//! Convolution over one to three axes of space.

use std::marker::PhantomData;

use crate::{
    error::{Call, Result, misfit},
    nn::{Module, ModuleTypes, linear::uniform},
    operand::Argument,
    options::options,
    parameter::{Parameter, Params},
    shape::{access, letters},
    tensor::Tensor,
    window::ConvOptions,
};

/// Convolution over `AXES` axes of space, as torch's `Conv1d`, `Conv2d` and `Conv3d`.
///
/// ```
/// use arrayjit_tensor::{DType, Graph, Params};
/// use arrayjit_tensor::nn::{Conv1d, Conv2d, Module};
///
/// let params = Params::new(42);
/// let same = Conv2d::builder(&params.sub("same"), 1, 6, 5).padding(2).bias(false).build()?;
/// let conv = Conv2d::new(&params.sub("conv"), 6, 16, 5)?;
/// let graph = Graph::new();
/// let images = graph.input("images", [32, 1, 28, 28], DType::F32)?;
/// assert_eq!(conv.forward(&same.forward(&images)?)?.shape(), [32, 16, 24, 24]);
/// let sounds = graph.input("sounds", [32, 1, 100], DType::F32)?;
/// assert_eq!(Conv1d::new(&params.sub("sound"), 1, 8, 5)?.forward(&sounds)?.shape(), [32, 8, 96]);
/// # Ok::<(), arrayjit_tensor::TensorError>(())
/// ```
pub struct Conv<const AXES: usize> {
    /// `weight`, of shape `[out, channels / groups, size, …]`.
    pub weight: Parameter,
    /// `bias`, of shape `[out]`.
    pub bias: Option<Parameter>,
    /// How the filters move.
    pub options: ConvOptions,
}

/// Convolution of sequences.
pub type Conv1d = Conv<1>;
/// Convolution of images.
pub type Conv2d = Conv<2>;
/// Convolution of volumes.
pub type Conv3d = Conv<3>;

/// Transposed convolution over `AXES` axes of space, as torch's `ConvTranspose1d`, `ConvTranspose2d` and
/// `ConvTranspose3d`.
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
pub struct ConvTranspose<const AXES: usize> {
    /// `weight`, of shape `[channels, out / groups, size, …]`.
    pub weight: Parameter,
    /// `bias`, of shape `[out]`.
    pub bias: Option<Parameter>,
    /// How the filters move.
    pub options: ConvOptions,
}

/// Transposed convolution of sequences.
pub type ConvTranspose1d = ConvTranspose<1>;
/// Transposed convolution of images.
pub type ConvTranspose2d = ConvTranspose<2>;
/// Transposed convolution of volumes.
pub type ConvTranspose3d = ConvTranspose<3>;

/// The options of a [`Conv`] or [`ConvTranspose`] whose parameters are not made yet. See [`ConvOptions`].
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
        /// The zeros in front of the first and behind the last elements of each axis; 0 by default.
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
    fn parameters(&self, [outer, inner]: [usize; 2], axes: usize) -> Result<(Parameter, Option<Parameter>)> {
        let (params, size) = (&self.params, self.size);
        let init = uniform((0..axes).fold(inner, |elements, _| elements.saturating_mul(size)));
        let shape = [outer, inner].into_iter().chain((0..axes).map(|_| size));
        let weight = params.parameter("weight", shape, init.clone())?;
        let bias = match self.bias {
            true => Some(params.parameter("bias", [self.channels[1]], init)?),
            false => None,
        };
        Ok((weight, bias))
    }

    fn check_groups(&self, call: Call) -> Result<()> {
        let ([channels, out], groups) = (self.channels, self.options.groups);
        if groups > 0 && channels.is_multiple_of(groups) && out.is_multiple_of(groups) {
            return Ok(());
        }
        let expected = format!("a divisor of {channels} and of {out}, the numbers of channels");
        Err(call.error(self.params.path(), misfit("groups", groups, expected)))
    }
}

impl<const AXES: usize> Conv<AXES> {
    /// Filters of `size` elements on each axis from `channels` to `out` channels. The weight and the bias are
    /// uniform in ±1/√n, where n is the number of elements of a filter.
    ///
    /// # Errors
    /// A name that exists already, or a size that overflows.
    #[track_caller]
    pub fn new(params: &Params, channels: usize, out: usize, size: usize) -> Result<Self> {
        Conv::builder(params, channels, out, size).build()
    }

    /// [`new`](Conv::new) with options.
    pub fn builder(params: &Params, channels: usize, out: usize, size: usize) -> ConvBuilder<Self> {
        ConvBuilder::new(params, [channels, out], size)
    }
}

impl<const AXES: usize> ConvBuilder<Conv<AXES>> {
    /// Makes the parameters.
    ///
    /// # Errors
    /// Numbers of channels that are no multiples of the groups, a name that exists already, or a size that
    /// overflows.
    #[track_caller]
    pub fn build(self) -> Result<Conv<AXES>> {
        self.check_groups(Call::new(of_axes(AXES, ["Conv1d", "Conv2d", "Conv3d"])))?;
        let (options, [channels, out]) = (self.options, self.channels);
        let (weight, bias) = self.parameters([out, channels / options.groups], AXES)?;
        Ok(Conv { weight, bias, options })
    }
}

impl<const AXES: usize> Module for Conv<AXES> {
    /// `[batch, channels, …]` to `[batch, out, …]`, as [`Tensor::conv1d`], [`Tensor::conv2d`] and
    /// [`Tensor::conv3d`].
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = x.graph().enter(self.weight.module());
        let call = Call::new(of_axes(AXES, ["conv1d", "conv2d", "conv3d"]));
        with_bias(call, x.conv(call, AXES, &self.weight, self.options)?, self.bias.as_ref())
    }
}

impl<const AXES: usize> ConvTranspose<AXES> {
    /// Filters of `size` elements on each axis from `channels` to `out` channels. The weight and the bias are
    /// uniform in ±1/√n for n = `out` / groups · `size` for each axis, as torch's.
    ///
    /// # Errors
    /// A name that exists already, or a size that overflows.
    #[track_caller]
    pub fn new(params: &Params, channels: usize, out: usize, size: usize) -> Result<Self> {
        ConvTranspose::builder(params, channels, out, size).build()
    }

    /// [`new`](ConvTranspose::new) with options.
    pub fn builder(params: &Params, channels: usize, out: usize, size: usize) -> ConvBuilder<Self> {
        ConvBuilder::new(params, [channels, out], size)
    }
}

impl<const AXES: usize> ConvBuilder<ConvTranspose<AXES>> {
    options! {
        /// The elements that are added behind the last ones of each axis; 0 by default.
        output_padding: usize => options.output_padding;
    }

    /// Makes the parameters.
    ///
    /// # Errors
    /// Numbers of channels that are no multiples of the groups, a name that exists already, or a size that
    /// overflows.
    #[track_caller]
    pub fn build(self) -> Result<ConvTranspose<AXES>> {
        let names = ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"];
        self.check_groups(Call::new(of_axes(AXES, names)))?;
        let (options, [channels, out]) = (self.options, self.channels);
        let (weight, bias) = self.parameters([channels, out / options.groups], AXES)?;
        Ok(ConvTranspose { weight, bias, options })
    }
}

impl<const AXES: usize> Module for ConvTranspose<AXES> {
    /// `[batch, channels, …]` to `[batch, out, …]`, as [`Tensor::conv_transpose1d`],
    /// [`Tensor::conv_transpose2d`] and [`Tensor::conv_transpose3d`].
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = x.graph().enter(self.weight.module());
        let names = ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"];
        let call = Call::new(of_axes(AXES, names));
        let y = x.conv_transpose(call, AXES, &self.weight, self.options)?;
        with_bias(call, y, self.bias.as_ref())
    }
}

/// The name of an operation, of those over one, two and three axes of space.
fn of_axes(axes: usize, names: [&'static str; 3]) -> &'static str {
    names.get(axes.wrapping_sub(1)).copied().unwrap_or("conv")
}

/// Adds a number to each channel.
fn with_bias(call: Call, x: Tensor, bias: Option<&Parameter>) -> Result<Tensor> {
    let Some(bias) = bias else { return Ok(x) };
    let types = ModuleTypes::new(&x, bias);
    let all = letters(x.rank());
    let value = types.widen(&access("x", &all), x.dtype());
    let channel = access("bias", all.get(1));
    let sum = format!("{value} + {}", types.widen(&channel, bias.dtype()));
    let inputs = [("x", Argument::Tensor(&x)), ("bias", Argument::Parameter(bias))];
    x.graph().result(call, &inputs, |y| format!("{} := {}", access(y, &all), types.narrowed(&sum)))
}
