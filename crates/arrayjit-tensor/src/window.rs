//! Convolution and pooling, in torch's layout: batch, channel, then the axes of space.

use crate::{
    error::{Call, TensorError, TensorErrorKind},
    operand::{Argument, TensorOperand, number},
    reduce::sum_types,
    tensor::Tensor,
};

/// How the window of a convolution moves, the same on both axes of an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowOptions {
    /// The distance of neighbouring windows, at least 1.
    pub stride: usize,
    /// The zeros in front of the first and behind the last element.
    pub padding: usize,
    /// The distance of neighbouring elements of a window, at least 1.
    pub dilation: usize,
    /// The number of groups of channels; each group has filters of its own.
    pub groups: usize,
}

impl Default for WindowOptions {
    /// Every position, no padding, neighbouring elements, one group.
    fn default() -> WindowOptions {
        WindowOptions { stride: 1, padding: 0, dilation: 1, groups: 1 }
    }
}

/// How the window of a pooling moves, the same on both axes of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoolOptions {
    /// The distance of neighbouring windows, at least 1; by default the size of the window, as in torch, so
    /// that windows do not overlap.
    pub stride: Option<usize>,
    /// The zeros in front of the first and behind the last element, −∞ for the maximum; at most half of the
    /// window.
    pub padding: usize,
}

impl PoolOptions {
    /// The movement of windows of `size` elements.
    fn window(self, size: usize) -> Result<WindowOptions, TensorErrorKind> {
        if self.padding > size / 2 {
            let (argument, found) = ("padding", self.padding.to_string());
            let expected = format!("at most {}, half of the window", size / 2);
            return Err(TensorErrorKind::Argument { argument, found, expected });
        }
        let stride = self.stride.unwrap_or(size);
        Ok(WindowOptions { stride, padding: self.padding, ..WindowOptions::default() })
    }
}

impl WindowOptions {
    /// The largest option, so that indices do not overflow.
    const MOST: usize = i32::MAX as usize;

    /// The number of windows of `size` elements on an axis; none if a window is longer than the padded axis.
    fn count(&self, axis: usize, size: usize) -> Option<usize> {
        let span = self.dilation.checked_mul(size.checked_sub(1)?)?.checked_add(1)?;
        Some(axis.checked_add(2 * self.padding)?.checked_sub(span)? / self.stride + 1)
    }

    /// Checks the options and the further padding of a result.
    fn check(&self, output_padding: usize) -> Result<(), TensorErrorKind> {
        let all = [
            ("stride", 1, self.stride),
            ("dilation", 1, self.dilation),
            ("groups", 1, self.groups),
            ("padding", 0, self.padding),
            ("output_padding", 0, output_padding),
        ];
        match all.into_iter().find(|(_, least, value)| !(*least..=Self::MOST).contains(value)) {
            Some((argument, least, value)) => {
                let expected = match value {
                    0 => format!("{least} or more"),
                    _ => format!("at most {}", Self::MOST),
                };
                Err(TensorErrorKind::Argument { argument, found: value.to_string(), expected })
            }
            None => Ok(()),
        }
    }

    /// The index of an element of a window.
    fn index(&self, window: &str, element: &str) -> String {
        format!("{}*{window} + {}*{element} - {}", self.stride, self.dilation, self.padding)
    }
}

impl Tensor {
    /// Convolution of sequences: `[batch, channels, length]` with filters `[out, channels / groups, size]`,
    /// as torch's `conv1d`.
    ///
    /// # Errors
    /// Shapes that do not fit.
    #[track_caller]
    pub fn conv1d(&self, filters: impl TensorOperand, window: WindowOptions) -> Result<Tensor, TensorError> {
        self.convolved(Call::new("conv1d"), 1, filters.argument(), window)
    }

    /// Convolution of images: `[batch, channels, height, width]` with filters `[out, channels / groups,
    /// height, width]`, as torch's `conv2d`.
    ///
    /// # Errors
    /// Shapes that do not fit.
    #[track_caller]
    pub fn conv2d(&self, filters: impl TensorOperand, window: WindowOptions) -> Result<Tensor, TensorError> {
        self.convolved(Call::new("conv2d"), 2, filters.argument(), window)
    }

    fn convolved(
        &self,
        call: Call,
        axes: usize,
        filters: Argument<'_>,
        window: WindowOptions,
    ) -> Result<Tensor, TensorError> {
        let fail = |kind| self.graph().fail(call, kind);
        window.check(0).map_err(fail)?;
        let (shape, filter) = (self.shape(), filters.shape());
        let wrong = |what: String, found: &[usize], expected: String| {
            Err(fail(TensorErrorKind::Shape { what, found: found.to_vec(), expected }))
        };
        if shape.len() != axes + 2 {
            return wrong(
                self.name(),
                shape,
                format!("{} axes: batch, channels, then {axes} of space", axes + 2),
            );
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
            return wrong(filters.name(), filter, expected);
        }
        // A padded read gives its letters no ranges.
        let mut ranges = vec![format!("b < {}", shape[0])];
        for at in 0..axes {
            match window.count(shape[at + 2], filter[at + 2]) {
                Some(count) => ranges.push(format!("o{at} < {count}")),
                None => {
                    let expected = format!("filters within the padded axes of {shape:?}");
                    return wrong(filters.name(), filter, expected);
                }
            }
        }
        let (wide, narrow) = sum_types(self.dtype());
        let positions: Vec<String> =
            (0..axes).map(|at| window.index(&format!("o{at}"), &format!("k{at}"))).collect();
        let (positions, ranges) = (positions.join(", "), ranges.join(", "));
        let outputs = (0..axes).map(|at| format!("o{at}")).collect::<Vec<_>>().join(",");
        let taps = (0..axes).map(|at| format!("k{at}")).collect::<Vec<_>>().join(",");
        let source = if window.padding == 0 { "x".into() } else { "pad(x, 0)".to_owned() };
        // A group's channels and filters follow each other.
        let (inner, outer) = (filter[1], filter[0] / groups);
        let (channel, output, range) = match groups {
            1 => ("c".into(), "f".to_owned(), String::new()),
            _ => (format!("{inner}*g + c"), format!("{outer}*g + f"), format!(", g < {groups}, f < {outer}")),
        };
        let convert =
            |access: String| if wide == self.dtype() { access } else { format!("{wide}({access})") };
        let value = convert(format!("{source}[b, {channel}, {positions}]"));
        let weight = convert(format!("w[{output},c,{taps}]"));
        let inputs = [("x", Argument::Tensor(self)), ("w", filters)];
        self.graph().result(call, &inputs, |y| match wide == narrow {
            true => format!("{y}[b,{output},{outputs}] :+= {value} * {weight} where {ranges}{range}"),
            false => format!(
                "s[b,{output},{outputs}] :+= {value} * {weight} where {ranges}{range}\n\
                 {y}[b,f,{outputs}] := {narrow}(s[b,f,{outputs}])"
            ),
        })
    }

    /// Transposed convolution of images: `[batch, channels, height, width]` with filters `[channels, out /
    /// groups, height, width]`, as torch's `conv_transpose2d`. The result has
    /// `(height - 1)·stride - 2·padding + dilation·(filter - 1) + 1 + output_padding` rows.
    ///
    /// # Errors
    /// Shapes that do not fit, channels that are no multiple of the groups, or a padding that leaves nothing.
    #[track_caller]
    pub fn conv_transpose2d(
        &self,
        filters: impl TensorOperand,
        window: WindowOptions,
        output_padding: usize,
    ) -> Result<Tensor, TensorError> {
        let call = Call::new("conv_transpose2d");
        let filters = filters.argument();
        let fail = |kind| self.graph().fail(call, kind);
        window.check(output_padding).map_err(fail)?;
        let (shape, filter) = (self.shape(), filters.shape());
        let groups = window.groups;
        let fits =
            shape.len() == 4 && filter.len() == 4 && filter[0] == shape[1] && shape[1].is_multiple_of(groups);
        if !fits {
            let expected = match groups {
                1 => format!("[channels, out, height, width] for an image {shape:?}"),
                _ => format!(
                    "[channels, out / {groups}, height, width] for an image {shape:?} with its channels in \
                     {groups} groups"
                ),
            };
            let (what, found) = (filters.name(), filter.to_vec());
            return Err(fail(TensorErrorKind::Shape { what, found, expected }));
        }
        let size = |axis: usize| {
            let rows = shape[axis].checked_sub(1)?.checked_mul(window.stride)?;
            let span = filter[axis].checked_sub(1)?.checked_mul(window.dilation)?.checked_add(1)?;
            rows.checked_add(span)?.checked_add(output_padding)?.checked_sub(2 * window.padding)
        };
        let (Some(height), Some(width)) = (size(2), size(3)) else {
            let (argument, found) = ("padding", window.padding.to_string());
            return Err(fail(TensorErrorKind::Argument {
                argument,
                found,
                expected: "less than the result".into(),
            }));
        };
        // The whole result with its margins, then the part within them.
        let (all_height, all_width) = (height + 2 * window.padding, width + 2 * window.padding);
        let (wide, narrow) = sum_types(self.dtype());
        let (stride, dilation, padding) = (window.stride, window.dilation, window.padding);
        let (batch, inner, outer) = (shape[0], shape[1] / groups, filter[1]);
        let out = outer * groups;
        // A group's channels and filters follow each other.
        let (channel, output, range) = match groups {
            1 => ("c".into(), "f".to_owned(), String::new()),
            _ => {
                let range = format!(" where g < {groups}, c < {inner}, f < {outer}");
                (format!("{inner}*g + c"), format!("{outer}*g + f"), range)
            }
        };
        let inputs = [("x", Argument::Tensor(self)), ("w", filters)];
        self.graph().result(call, &inputs, |y| {
            format!(
                "node s {wide}[{batch}, {out}, {all_height}, {all_width}]\n\
                 s[b, {output}, {stride}*i + {dilation}*p, {stride}*j + {dilation}*q] :+= \
                 {wide}(x[b, {channel}, i, j]) * {wide}(w[{channel}, f, p, q]){range}\n\
                 {y}[b,f,i,j] := {narrow}(s[b, f, i + {padding}, j + {padding}]) where i < {height}, j < {width}"
            )
        })
    }

    /// The largest element of each window of `size` by `size` elements. Equal elements share the gradient,
    /// whereas torch gives it to the first one.
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph, PoolOptions};
    ///
    /// let graph = Graph::new();
    /// let image = graph.input("image", [1, 3, 8, 8], DType::F32)?;
    /// assert_eq!(image.max_pool2d(2, PoolOptions::default())?.shape(), [1, 3, 4, 4]);
    /// let overlapping = PoolOptions { stride: Some(1), padding: 0 };
    /// assert_eq!(image.max_pool2d(2, overlapping)?.shape(), [1, 3, 7, 7]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// A tensor that is no image, a window that is larger than it, or a padding of more than half of the
    /// window.
    #[track_caller]
    pub fn max_pool2d(&self, size: usize, window: PoolOptions) -> Result<Tensor, TensorError> {
        self.pooled(Call::new("max_pool2d"), size, window, ":max=", f64::NEG_INFINITY, 1.0)
    }

    /// The mean of each window of `size` by `size` elements, padding included.
    ///
    /// # Errors
    /// Fails like [`max_pool2d`](Tensor::max_pool2d).
    #[track_caller]
    pub fn avg_pool2d(&self, size: usize, window: PoolOptions) -> Result<Tensor, TensorError> {
        self.pooled(Call::new("avg_pool2d"), size, window, ":+=", 0.0, (size as f64).powi(2))
    }

    fn pooled(
        &self,
        call: Call,
        size: usize,
        options: PoolOptions,
        op: &str,
        outside: f64,
        divisor: f64,
    ) -> Result<Tensor, TensorError> {
        let fail = |kind| self.graph().fail(call, kind);
        let window = options.window(size).map_err(fail)?;
        window.check(0).map_err(fail)?;
        let counts = match self.shape() {
            [_, _, height, width] => window.count(*height, size).zip(window.count(*width, size)),
            _ => None,
        };
        let Some((height, width)) = counts else {
            let expected = format!("[batch, channels, height, width] with room for windows of {size}");
            let (what, found) = (self.name(), self.shape().to_vec());
            return Err(fail(TensorErrorKind::Shape { what, found, expected }));
        };
        let (wide, narrow) = sum_types(self.dtype());
        let source = match window.padding {
            0 => "x".into(),
            _ => format!("pad(x, {})", number(outside)),
        };
        let value = format!("{wide}({source}[b, c, {}, {}])", window.index("i", "p"), window.index("j", "q"));
        let [batch, channels] = [self.shape()[0], self.shape()[1]];
        let ranges =
            format!("b < {batch}, c < {channels}, i < {height}, j < {width}, p < {size}, q < {size}");
        self.graph().result(call, &[("x", Argument::Tensor(self))], |y| {
            format!(
                "s[b,c,i,j] {op} {value} where {ranges}\n{y}[b,c,i,j] := {narrow}(s[b,c,i,j] / {divisor:?})"
            )
        })
    }

    /// Divides an image into `height` by `width` equal parts and takes the mean of each, as torch's adaptive
    /// average pooling does where the parts are equal.
    ///
    /// # Errors
    /// A tensor that is no image, or sizes that are no multiples of the numbers of parts.
    #[track_caller]
    pub fn adaptive_avg_pool2d(&self, height: usize, width: usize) -> Result<Tensor, TensorError> {
        let call = Call::new("adaptive_avg_pool2d");
        let parts = match self.shape() {
            &[_, _, h, w]
                if height > 0 && width > 0 && h.is_multiple_of(height) && w.is_multiple_of(width) =>
            {
                Some((h / height, w / width))
            }
            _ => None,
        };
        let Some((rows, columns)) = parts else {
            let expected = format!("[batch, channels, a multiple of {height}, a multiple of {width}]");
            let (what, found) = (self.name(), self.shape().to_vec());
            return Err(self.graph().fail(call, TensorErrorKind::Shape { what, found, expected }));
        };
        let (wide, narrow) = sum_types(self.dtype());
        let count = (rows * columns) as f64;
        self.graph().result(call, &[("x", Argument::Tensor(self))], |y| {
            format!(
                "s[b,c,i,j] :+= {wide}(x[b, c, {rows}*i + p, {columns}*j + q]) \
                 where i < {height}, j < {width}, p < {rows}, q < {columns}\n\
                 {y}[b,c,i,j] := {narrow}(s[b,c,i,j] / {count:?})"
            )
        })
    }
}
