//! Convolution and pooling, in torch's layout: batch, channel, then the axes of space.

use crate::{
    axis_window::{AxisWindow, FilterLayout},
    error::{Call, Result, TensorError, misfit},
    operand::{Argument, TensorOperand, number},
    options::options,
    shape::{access, letters, numbered, ranges_of},
    tensor::Tensor,
};

/// How the filters of a convolution move, the same on all axes of space.
///
/// ```
/// use arrayjit_tensor::{ConvOptions, DType, Graph};
///
/// let graph = Graph::new();
/// let image = graph.input("image", [1, 3, 32, 32], DType::F32)?;
/// let filters = graph.input("filters", [8, 3, 3, 3], DType::F32)?;
/// assert_eq!(image.conv2d(&filters, ConvOptions::new())?.shape(), [1, 8, 30, 30]);
/// assert_eq!(image.conv2d(&filters, ConvOptions::new().stride(2).padding(1))?.shape(), [1, 8, 16, 16]);
/// # Ok::<(), arrayjit_tensor::TensorError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConvOptions {
    pub(crate) stride: usize,
    pub(crate) padding: usize,
    pub(crate) dilation: usize,
    pub(crate) groups: usize,
    pub(crate) output_padding: usize,
}

impl ConvOptions {
    /// Every position, no padding, neighboring elements, one group.
    pub const fn new() -> ConvOptions {
        ConvOptions { stride: 1, padding: 0, dilation: 1, groups: 1, output_padding: 0 }
    }

    options! {
        /// The distance of neighboring windows, at least 1.
        stride: usize => stride;
        /// The zeros in front of the first and behind the last element. A transposed convolution cuts as many
        /// elements from each end of its result.
        padding: usize => padding;
        /// The distance of neighboring elements of a window, at least 1.
        dilation: usize => dilation;
        /// The number of groups of channels; each group has filters of its own.
        groups: usize => groups;
        /// The elements that a transposed convolution adds behind the last ones.
        output_padding: usize => output_padding;
    }
}

impl Default for ConvOptions {
    fn default() -> ConvOptions {
        ConvOptions::new()
    }
}

/// The windows of a pooling, the same on all axes of space. A number is a size without further options.
///
/// ```
/// use arrayjit_tensor::{DType, Graph, PoolOptions};
///
/// let image = Graph::new().input("image", [1, 3, 8, 8], DType::F32)?;
/// assert_eq!(image.max_pool2d(2)?.shape(), [1, 3, 4, 4]);
/// assert_eq!(image.max_pool2d(PoolOptions::new(3).stride(2).padding(1))?.shape(), [1, 3, 4, 4]);
/// # Ok::<(), arrayjit_tensor::TensorError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolOptions {
    size: usize,
    stride: Option<usize>,
    padding: usize,
}

impl PoolOptions {
    /// Windows of `size` elements on each axis that do not overlap, without padding.
    pub const fn new(size: usize) -> PoolOptions {
        PoolOptions { size, stride: None, padding: 0 }
    }

    options! {
        /// The distance of neighboring windows, at least 1; by default the size of the window, as in torch.
        stride: usize => stride;
        /// The zeros in front of the first and behind the last element, −∞ for the maximum; at most half of
        /// the window.
        padding: usize => padding;
    }

    /// How the windows move.
    fn window(self) -> Result<ConvOptions> {
        let PoolOptions { size, stride, padding } = self;
        if padding > size / 2 {
            return Err(misfit("padding", padding, format!("at most {}, half of the window", size / 2)));
        }
        Ok(ConvOptions::new().stride(stride.unwrap_or(size)).padding(padding))
    }
}

impl From<usize> for PoolOptions {
    fn from(size: usize) -> PoolOptions {
        PoolOptions::new(size)
    }
}

impl ConvOptions {
    /// The largest option, so that indices do not overflow.
    const MOST: usize = i32::MAX as usize;

    /// The number of windows of `size` elements on an axis; none if a window is longer than the padded axis.
    fn count(&self, axis: usize, size: usize) -> Option<usize> {
        let span = self.dilation.checked_mul(size.checked_sub(1)?)?.checked_add(1)?;
        Some(axis.checked_add(2 * self.padding)?.checked_sub(span)? / self.stride + 1)
    }

    /// The windows of `kernel` elements on an axis of `size`, of which there are `count`.
    fn axis(&self, size: usize, kernel: usize, count: usize) -> AxisWindow {
        let ConvOptions { stride, dilation, padding, .. } = *self;
        AxisWindow { size, kernel, stride, dilation, before: padding as i64, after: padding as i64, count }
    }

    /// The windows of each axis of space; none if one is longer than the padded axis.
    fn windows(&self, space: &[usize], kernel: &[usize]) -> Option<Vec<AxisWindow>> {
        let window = |(&size, &kernel)| Some(self.axis(size, kernel, self.count(size, kernel)?));
        space.iter().zip(kernel).map(window).collect()
    }

    /// Checks that the options are in their ranges.
    fn check(&self) -> Result<()> {
        let all = [
            ("stride", 1, self.stride),
            ("dilation", 1, self.dilation),
            ("groups", 1, self.groups),
            ("padding", 0, self.padding),
            ("output_padding", 0, self.output_padding),
        ];
        match all.into_iter().find(|(_, least, value)| !(*least..=Self::MOST).contains(value)) {
            Some((argument, least, value)) => {
                let expected = match value {
                    0 => format!("{least} or more"),
                    _ => format!("at most {}", Self::MOST),
                };
                Err(misfit(argument, value, expected))
            }
            None => Ok(()),
        }
    }
}

/// The names of axes of space.
pub(crate) fn space(axes: usize) -> String {
    match axes {
        1 => "length",
        2 => "height, width",
        3 => "depth, height, width",
        _ => "…",
    }
    .into()
}

/// Defines an operation for one to three axes of space.
macro_rules! in_space {
    ($inner:ident $arguments:tt: $($(#[$doc:meta])* $name:ident $axes:literal;)*) => {
        $(in_space!(@ $inner $arguments $(#[$doc])* $name $axes);)*
    };
    (@ $inner:ident($($argument:ident: $type:ty),*) $(#[$doc:meta])* $name:ident $axes:literal) => {
        impl Tensor {
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, $($argument: $type),*) -> Result<Tensor> {
                self.$inner(Call::new(stringify!($name)), $axes, $($argument),*)
            }
        }
    };
}

in_space! {
    conv(filters: impl TensorOperand, options: ConvOptions):
    /// Convolution of sequences: `[batch, channels, length]` with filters `[out, channels / groups, size]`,
    /// as torch's `conv1d`.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// use arrayjit_tensor::ConvOptions;
    ///
    /// let (x, filters) = (tensor([[[1., 2., 3., 4.]]]), tensor([[[1., 10.]]]));
    /// check(x.conv1d(&filters, ConvOptions::new()), [[[21., 32., 43.]]]);
    /// check(x.conv1d(&filters, ConvOptions::new().stride(2)), [[[21., 43.]]]);
    /// ```
    ///
    /// # Errors
    /// Shapes that do not fit.
    conv1d 1;
    /// Convolution of images: `[batch, channels, height, width]` with filters `[out, channels / groups,
    /// height, width]`, as torch's `conv2d`.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// use arrayjit_tensor::ConvOptions;
    ///
    /// let (x, filters) = (tensor([[[[1., 2.], [3., 4.]]]]), tensor([[[[1., 1.], [1., 1.]]]]));
    /// check(x.conv2d(&filters, ConvOptions::new()), [[[[10.]]]]);
    /// ```
    ///
    /// # Errors
    /// Shapes that do not fit.
    conv2d 2;
    /// Convolution of volumes: `[batch, channels, depth, height, width]` with filters `[out, channels /
    /// groups, depth, height, width]`, as torch's `conv3d`.
    ///
    /// ```
    /// use arrayjit_tensor::{ConvOptions, DType, Graph};
    ///
    /// let graph = Graph::new();
    /// let volume = graph.input("volume", [1, 2, 8, 8, 8], DType::F32)?;
    /// let filters = graph.input("filters", [4, 2, 3, 3, 3], DType::F32)?;
    /// assert_eq!(volume.conv3d(&filters, ConvOptions::new().padding(1))?.shape(), [1, 4, 8, 8, 8]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not fit.
    conv3d 3;
}

in_space! {
    conv_transpose(filters: impl TensorOperand, options: ConvOptions):
    /// Transposed convolution of sequences: `[batch, channels, length]` with filters `[channels, out /
    /// groups, size]`, as torch's `conv_transpose1d`. For the size of the result, see
    /// [`conv_transpose2d`](Tensor::conv_transpose2d).
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// use arrayjit_tensor::ConvOptions;
    ///
    /// let (x, filters) = (tensor([[[1., 2.]]]), tensor([[[1., 10.]]]));
    /// check(x.conv_transpose1d(&filters, ConvOptions::new().stride(2)), [[[1., 10., 2., 20.]]]);
    /// ```
    ///
    /// # Errors
    /// Fails like [`conv_transpose2d`](Tensor::conv_transpose2d).
    conv_transpose1d 1;
    /// Transposed convolution of images: `[batch, channels, height, width]` with filters `[channels, out /
    /// groups, height, width]`, as torch's `conv_transpose2d`. The result has
    /// `(height - 1)·stride - 2·padding + dilation·(filter - 1) + 1 + output_padding` rows.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// use arrayjit_tensor::ConvOptions;
    ///
    /// let (x, filters) = (tensor([[[[1., 2.]]]]), tensor([[[[1.], [10.]]]]));
    /// check(x.conv_transpose2d(&filters, ConvOptions::new()), [[[[1., 2.], [10., 20.]]]]);
    /// ```
    ///
    /// # Errors
    /// Shapes that do not fit, channels that are no multiple of the groups, or a padding that leaves nothing.
    conv_transpose2d 2;
    /// Transposed convolution of volumes: `[batch, channels, depth, height, width]` with filters `[channels,
    /// out / groups, depth, height, width]`, as torch's `conv_transpose3d`. For the size of the result, see
    /// [`conv_transpose2d`](Tensor::conv_transpose2d).
    ///
    /// # Errors
    /// Fails like [`conv_transpose2d`](Tensor::conv_transpose2d).
    conv_transpose3d 3;
}

in_space! {
    max_pool(options: impl Into<PoolOptions>):
    /// The largest element of each window of `size` elements of a sequence, as
    /// [`max_pool2d`](Tensor::max_pool2d).
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[[1., 2., 3., 4.]]]).max_pool1d(2), [[[2., 4.]]]);
    /// ```
    ///
    /// # Errors
    /// Fails like [`max_pool2d`](Tensor::max_pool2d).
    max_pool1d 1;
    /// The largest element of each window of `size` by `size` elements. Equal elements share the gradient,
    /// whereas torch gives it to the first one.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[[[1., 2.], [3., 4.]]]]).max_pool2d(2), [[[[4.]]]]);
    /// ```
    ///
    /// # Errors
    /// A tensor of another rank, a window that is larger than it, or a padding of more than half of the
    /// window.
    max_pool2d 2;
    /// The largest element of each cube of `size` by `size` by `size` elements, as
    /// [`max_pool2d`](Tensor::max_pool2d).
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[[[[1., 2.], [3., 4.]]; 2]]]).max_pool3d(2), [[[[[4.]]]]]);
    /// ```
    ///
    /// # Errors
    /// Fails like [`max_pool2d`](Tensor::max_pool2d).
    max_pool3d 3;
}

in_space! {
    avg_pool(options: impl Into<PoolOptions>):
    /// The mean of each window of `size` elements of a sequence, padding included.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[[1., 2., 3., 4.]]]).avg_pool1d(2), [[[1.5, 3.5]]]);
    /// ```
    ///
    /// # Errors
    /// Fails like [`max_pool2d`](Tensor::max_pool2d).
    avg_pool1d 1;
    /// The mean of each window of `size` by `size` elements, padding included.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[[[1., 2.], [3., 4.]]]]).avg_pool2d(2), [[[[2.5]]]]);
    /// ```
    ///
    /// # Errors
    /// Fails like [`max_pool2d`](Tensor::max_pool2d).
    avg_pool2d 2;
    /// The mean of each cube of `size` by `size` by `size` elements, padding included.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[[[[1., 2.], [3., 4.]]; 2]]]).avg_pool3d(2), [[[[[2.5]]]]]);
    /// ```
    ///
    /// # Errors
    /// Fails like [`max_pool2d`](Tensor::max_pool2d).
    avg_pool3d 3;
}

impl Tensor {
    pub(crate) fn conv(
        &self,
        call: Call,
        axes: usize,
        filters: impl TensorOperand,
        window: ConvOptions,
    ) -> Result<Tensor> {
        let filters = filters.argument();
        let fail = |kind| self.graph().fail(call, kind);
        window.check().map_err(fail)?;
        if window.output_padding > 0 {
            let expected = "0 but for transposed convolutions";
            return Err(fail(misfit("output_padding", window.output_padding, expected)));
        }
        let (shape, filter) = (self.shape(), filters.shape());
        let wrong = |what: String, found: &[usize], expected: String| {
            fail(TensorError::Shape { what, found: found.to_vec(), expected })
        };
        if shape.len() != axes + 2 {
            let expected = format!("{} axes: batch, channels, then {axes} of space", axes + 2);
            return Err(wrong(self.name(), shape, expected));
        }
        let groups = window.groups;
        let fits = filter.len() == axes + 2
            && filter[1].checked_mul(groups) == Some(shape[1])
            && filter[0].is_multiple_of(groups);
        if !fits {
            let (channels, axes) = (shape[1], axes + 2);
            let expected = match groups {
                1 => format!(
                    "[out, {channels}, …] with {axes} axes, for {} with {channels} channels",
                    self.name()
                ),
                _ => format!(
                    "[out, {}, …] with {axes} axes and out a multiple of {groups}, for {channels} channels in \
                     {groups} groups",
                    channels / groups,
                ),
            };
            return Err(wrong(filters.name(), filter, expected));
        }
        let windows = window.windows(&shape[2..], &filter[2..]).ok_or_else(|| {
            wrong(filters.name(), filter, format!("filters within the padded axes of {shape:?}"))
        })?;
        self.convolved(call, (filters, FilterLayout::FiltersFirst), None, &windows, groups)
    }

    pub(crate) fn conv_transpose(
        &self,
        call: Call,
        axes: usize,
        filters: impl TensorOperand,
        window: ConvOptions,
    ) -> Result<Tensor> {
        let filters = filters.argument();
        let fail = |kind| self.graph().fail(call, kind);
        window.check().map_err(fail)?;
        let (shape, filter) = (self.shape(), filters.shape());
        let groups = window.groups;
        let fits = shape.len() == axes + 2
            && filter.len() == axes + 2
            && filter[0] == shape[1]
            && shape[1].is_multiple_of(groups);
        if !fits {
            let kind = ["a sequence", "an image", "a volume"].get(axes.wrapping_sub(1));
            let (space, kind) = (space(axes), kind.unwrap_or(&"an array"));
            let expected = match groups {
                1 => format!("[channels, out, {space}] for {kind} {shape:?}"),
                _ => format!(
                    "[channels, out / {groups}, {space}] for {kind} {shape:?} with its channels in {groups} \
                     groups"
                ),
            };
            let (what, found) = (filters.name(), filter.to_vec());
            return Err(fail(TensorError::Shape { what, found, expected }));
        }
        let size = |axis: usize| {
            let rows = shape[axis].checked_sub(1)?.checked_mul(window.stride)?;
            let span = filter[axis].checked_sub(1)?.checked_mul(window.dilation)?.checked_add(1)?;
            rows.checked_add(span)?.checked_add(window.output_padding)?.checked_sub(2 * window.padding)
        };
        let own = |axis| Some(window.axis(size(axis)?, filter[axis], shape[axis]));
        let windows: Option<Vec<AxisWindow>> = (2..axes + 2).map(own).collect();
        let windows =
            windows.ok_or_else(|| fail(misfit("padding", window.padding, "less than the result")))?;
        self.transposed(call, filters, None, &windows, groups)
    }

    fn max_pool(&self, call: Call, axes: usize, options: impl Into<PoolOptions>) -> Result<Tensor> {
        let windows = self.pool_windows(call, axes, options.into())?;
        self.folded(call, &windows, ":max=", &number(f64::NEG_INFINITY), "{}")
    }

    fn avg_pool(&self, call: Call, axes: usize, options: impl Into<PoolOptions>) -> Result<Tensor> {
        let options = options.into();
        let windows = self.pool_windows(call, axes, options)?;
        let divisor = (options.size as f64).powi(axes as i32);
        self.folded(call, &windows, ":+=", "0.0", &format!("{{}} / {divisor:?}"))
    }

    fn pool_windows(&self, call: Call, axes: usize, options: PoolOptions) -> Result<Vec<AxisWindow>> {
        let fail = |kind| self.graph().fail(call, kind);
        let (window, size) = (options.window().map_err(fail)?, options.size);
        window.check().map_err(fail)?;
        let axes_of_space = self.shape().get(2..).filter(|space| space.len() == axes);
        axes_of_space.and_then(|space| window.windows(space, &vec![size; axes])).ok_or_else(|| {
            let expected = format!("[batch, channels, {}] with room for windows of {size}", space(axes));
            fail(self.misshapen(expected))
        })
    }

    /// Repeats each element `scale` times on each axis of space, as torch's `Upsample` with mode `nearest`.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[[1., 2.]]]).upsample_nearest(2), [[[1., 1., 2., 2.]]]);
    /// check(tensor([[[[1.], [2.]]]]).upsample_nearest(2), [[[[1., 1.], [1., 1.], [2., 2.], [2., 2.]]]]);
    /// ```
    ///
    /// # Errors
    /// A tensor without axes of space behind batch and channels, or a scale of 0.
    #[track_caller]
    pub fn upsample_nearest(&self, scale: usize) -> Result<Tensor> {
        let call = Call::new("upsample_nearest");
        let fail = |kind| Err(self.graph().fail(call, kind));
        let Some(axes) = self.rank().checked_sub(2).filter(|&axes| axes > 0) else {
            return fail(self.misshapen("[batch, channels, …]"));
        };
        if scale == 0 {
            return fail(misfit("scale", "0", "1 or more"));
        }
        let (from, copies) = (letters(self.rank()), numbered("k", axes));
        let copied = from[2..].iter().zip(&copies).map(|(i, k)| format!("{scale} * {i} + {k}"));
        let to: Vec<String> = from[..2].iter().cloned().chain(copied).collect();
        let ranges = ranges_of(&copies, vec![scale; axes]);
        self.graph().result(call, &[("x", Argument::Tensor(self))], |y| {
            format!("{} := {} where {ranges}", access(y, &to), access("x", &from))
        })
    }

    /// Divides an image into `height` by `width` equal parts and takes the mean of each, as torch's adaptive
    /// average pooling does where the parts are equal.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let image = tensor([[[[1., 2., 3., 4.]]]]);
    /// check(image.adaptive_avg_pool2d(1, 2), [[[[1.5, 3.5]]]]);
    /// ```
    ///
    /// # Errors
    /// A tensor that is no image, or sizes that are no multiples of the numbers of parts.
    #[track_caller]
    pub fn adaptive_avg_pool2d(&self, height: usize, width: usize) -> Result<Tensor> {
        let call = Call::new("adaptive_avg_pool2d");
        let part = |size: usize, count: usize| {
            let kernel = size.checked_div(count).filter(|&kernel| kernel > 0 && kernel * count == size)?;
            Some(ConvOptions::new().stride(kernel).axis(size, kernel, count))
        };
        let windows = match self.shape() {
            &[_, _, h, w] => part(h, height).zip(part(w, width)),
            _ => None,
        };
        let Some((rows, columns)) = windows else {
            let expected = format!("[batch, channels, a multiple of {height}, a multiple of {width}]");
            return Err(self.graph().fail(call, self.misshapen(expected)));
        };
        let count = (rows.kernel * columns.kernel) as f64;
        self.folded(call, &[rows, columns], ":+=", "0.0", &format!("{{}} / {count:?}"))
    }
}
