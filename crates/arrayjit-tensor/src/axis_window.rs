//! Windows over any number of axes: the texts of convolution and pooling. Arrays are `[batch, channels, …]`;
//! letter `o` counts the windows of an axis of space, and `k` the elements of a window.

use arrayjit::text::declared_sizes;
use tnode::{RunSize, RunSizes, SizeSum};

use crate::{
    error::{Call, Result, TensorError},
    operand::Argument,
    reduce::sum_types,
    shape::{access, numbered, ranges_of},
    tensor::Tensor,
};

/// The windows of one axis.
#[derive(Clone, Copy, Debug)]
pub struct AxisWindow {
    /// The number of elements of the axis.
    pub size: usize,
    /// The number of elements of a window.
    pub kernel: usize,
    /// The distance of neighboring windows.
    pub stride: usize,
    /// The distance of neighboring elements of a window.
    pub dilation: usize,
    /// The margin in front.
    pub before: i64,
    /// The margin behind.
    pub after: i64,
    /// The number of windows.
    pub count: usize,
}

impl AxisWindow {
    /// The index of element `k` of window `o`.
    pub fn index(&self, at: usize) -> String {
        let AxisWindow { stride, dilation, before, .. } = self;
        format!("{stride}*o{at} + {dilation}*k{at} - {before}").replace("- -", "+ ")
    }

    /// The number of windows where a run gives the size of the axis; none if it would never be positive.
    pub fn count_of(&self, size: &RunSize) -> Option<RunSize> {
        let AxisWindow { kernel, stride, dilation, before, after, .. } = *self;
        let span = i64::try_from(dilation.checked_mul(kernel.checked_sub(1)?)?.checked_add(1)?).ok()?;
        let room = before.checked_add(after)?.checked_sub(span)?;
        let windows = SizeSum::from(size).plus(&room.into())?.floor_over(i64::try_from(stride).ok()?)?;
        windows.plus(&1.into())?.size()
    }

    /// The number of elements of a result of transposed windows, and of the sums with its margins, where a
    /// run gives the number of windows; none if one would never be positive. Both are `stride` times that
    /// number plus a constant.
    fn transposed_sizes(&self, windows: &RunSize) -> Option<[RunSize; 2]> {
        let stride = i64::try_from(self.stride).ok()?;
        let of_windows = SizeSum::from(windows).times(&stride.into())?;
        let bound = i64::try_from(self.count).ok()?.checked_mul(stride)?;
        let size = i64::try_from(self.size).ok()?;
        let with_margins = size.checked_add(self.before)?.checked_add(self.after.max(0))?;
        let of = |elements: i64| of_windows.plus(&elements.checked_sub(bound)?.into())?.size();
        Some([of(size)?, of(with_margins)?])
    }

    /// Whether a window leaves the axis.
    pub fn is_padded(&self) -> bool {
        let span = self.dilation * (self.kernel - 1) + 1;
        let last = (self.stride * self.count.saturating_sub(1) + span) as i64 - self.before;
        self.before != 0 || last > self.size as i64
    }
}

/// The order of the axes of filters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FilterLayout {
    /// `[filters, channels, …]`, as in torch.
    FiltersFirst,
    /// `[…, channels, filters]`: filters are contiguous, and in vectors.
    FiltersLast,
}

/// An element of a window of each channel, as text.
pub struct WindowAccess<'a> {
    shape: &'a [usize],
    sizes: &'a [Option<RunSize>],
    windows: &'a [AxisWindow],
    /// The sizes of the numbers of windows, where a run gives the size of the axis.
    counts: Vec<Option<RunSize>>,
}

impl<'a> WindowAccess<'a> {
    /// The windows of an array of this shape, with the sizes that a run gives to axes.
    pub fn new(
        shape: &'a [usize],
        sizes: &'a [Option<RunSize>],
        windows: &'a [AxisWindow],
    ) -> WindowAccess<'a> {
        let count = |(at, window): (usize, &AxisWindow)| window.count_of(sizes.get(at + 2)?.as_ref()?);
        WindowAccess { shape, sizes, windows, counts: windows.iter().enumerate().map(count).collect() }
    }

    /// The sizes that a run gives to the axes of an array with an element for each window.
    pub fn result_sizes(&self) -> RunSizes {
        let outer = (0..2).map(|at| self.sizes.get(at).cloned().flatten());
        outer.chain(self.counts.iter().cloned()).collect()
    }

    /// Declarations of the sizes of the result.
    pub fn declared(&self) -> String {
        declared_sizes(self.result_sizes().iter().flatten())
    }

    /// The number of elements of an axis of the result, as text.
    fn extent(&self, at: usize) -> String {
        let size = self.result_sizes().get(at).cloned().flatten();
        size.map_or_else(|| self.result_shape()[at].to_string(), |size| size.name().to_owned())
    }

    /// Whether a window may leave the array.
    fn is_padded(&self) -> bool {
        let is_sized = |at: usize| self.sizes.get(at + 2).is_some_and(Option::is_some);
        self.windows.iter().enumerate().any(|(at, window)| match is_sized(at) {
            true => window.before != 0 || window.after > 0,
            false => window.is_padded(),
        })
    }

    /// The shape of an array with an element for each window.
    pub fn result_shape(&self) -> Vec<usize> {
        self.shape.iter().take(2).copied().chain(self.windows.iter().map(|window| window.count)).collect()
    }

    /// The element of an array; `outside` where the window leaves the array.
    pub fn element(&self, array: &str, channel: &str, outside: &str) -> String {
        let space = self.windows.iter().enumerate().map(|(at, window)| window.index(at));
        let index = ["b".to_owned(), channel.to_owned()].into_iter().chain(space);
        match self.is_padded() {
            true => access(&format!("pad({array}, {outside})"), index),
            false => access(array, index),
        }
    }

    /// The access of an array with an element for each window.
    pub fn result(&self, array: &str, channel: &str) -> String {
        access(array, in_space(channel, "o", self.windows.len()))
    }

    /// The ranges of the windows.
    fn counts(&self) -> String {
        let counts = (0..self.windows.len()).map(|at| self.extent(at + 2));
        ranges_of(&numbered("o", self.windows.len()), counts)
    }

    /// The ranges of all letters of a pooling. A padded read gives its letters none.
    pub fn ranges(&self) -> String {
        let taps = ranges_of(&numbered("k", self.windows.len()), self.windows.iter().map(|one| one.kernel));
        format!("b < {}, c < {}, {}, {taps}", self.extent(0), self.extent(1), self.counts())
    }
}

/// Indices of the batch, a channel, and letters of the axes of space.
pub fn in_space(channel: &str, letter: &str, axes: usize) -> Vec<String> {
    ["b", channel].map(str::to_owned).into_iter().chain(numbered(letter, axes)).collect()
}

/// The channel and the filter as indices, and the ranges of their letters: the channels and filters of a
/// group follow each other.
fn grouped(groups: usize, inner: usize, outer: usize) -> (String, String, String) {
    match groups {
        1 => ("c".into(), "f".into(), format!("c < {inner}, f < {outer}")),
        _ => (
            format!("{inner}*g + c"),
            format!("{outer}*g + f"),
            format!("g < {groups}, c < {inner}, f < {outer}"),
        ),
    }
}

impl Tensor {
    /// The convolution with these windows and filters, plus a bias for each filter. The shapes fit.
    ///
    /// # Errors
    /// A tensor of another graph.
    #[doc(hidden)]
    pub fn convolved(
        &self,
        call: Call,
        (filters, layout): (Argument<'_>, FilterLayout),
        bias: Option<&Tensor>,
        windows: &[AxisWindow],
        groups: usize,
    ) -> Result<Tensor> {
        let (axes, shape) = (windows.len(), filters.shape());
        let (inner, count) = match layout {
            FilterLayout::FiltersFirst => (shape[1], shape[0]),
            FilterLayout::FiltersLast => (shape[axes], shape[axes + 1]),
        };
        let is_depthwise = inner == 1 && count == groups;
        let (channel, filter, ranges) = match is_depthwise {
            true => ("f".into(), "f".into(), format!("f < {groups}")),
            false => grouped(groups, inner, count / groups),
        };
        let own = if is_depthwise { "0" } else { "c" };
        let (wide, narrow) = sum_types(self.dtype());
        let convert =
            |access: String| if wide == self.dtype() { access } else { format!("{wide}({access})") };
        let at = WindowAccess::new(self.shape(), self.node().run_sizes(), windows);
        let value = convert(at.element("x", &channel, "0"));
        let (taps, ends) = (numbered("k", axes), [own.to_owned(), filter.clone()]);
        // The order of the letters is that of the sum.
        let product = match layout {
            FilterLayout::FiltersFirst => {
                format!("{value} * {}", convert(access("w", ends.iter().rev().chain(&taps))))
            }
            FilterLayout::FiltersLast => {
                format!("{} * {value}", convert(access("w", taps.iter().chain(&ends))))
            }
        };
        let sum = format!(" :+= {product} where b < {}, {ranges}, {}", at.extent(0), at.counts());
        let declared = at.declared();
        let (inputs, bias) = self.inputs(filters, bias);
        self.graph().result(call, &inputs, |y| match bias {
            "" if wide == narrow => format!("{declared}{}{sum}", at.result(y, &filter)),
            _ => {
                let (s, y) = (at.result("s", "f"), at.result(y, "f"));
                format!("{declared}{}{sum}\n{y} := {narrow}({s}{bias})", at.result("s", &filter))
            }
        })
    }

    /// The transposed convolution with filters `[channels, filters / groups, …]`, plus a bias for each
    /// filter. The windows are those of the result, which has their sizes; this tensor has their counts.
    ///
    /// # Errors
    /// A tensor of another graph.
    #[doc(hidden)]
    pub fn transposed(
        &self,
        call: Call,
        filters: Argument<'_>,
        bias: Option<&Tensor>,
        windows: &[AxisWindow],
        groups: usize,
    ) -> Result<Tensor> {
        let axes = windows.len();
        let (inner, outer) = (self.shape()[1] / groups, filters.shape()[1]);
        let (channel, filter, ranges) = grouped(groups, inner, outer);
        let (wide, narrow) = sum_types(self.dtype());
        let own_size = |at: usize| self.node().run_sizes().get(at).cloned().flatten();
        let batch = own_size(0).map_or_else(|| self.shape()[0].to_string(), |size| size.name().to_owned());
        // The whole result with its margins, then the part within them. A result beyond the sums reads 0.
        let (mut whole, mut result) = (vec![batch.clone(), (outer * groups).to_string()], Vec::new());
        let (mut written, mut read) = (vec!["b".to_owned(), filter], vec!["b".to_owned(), "f".to_owned()]);
        let mut sizes: Vec<RunSize> = own_size(0).into_iter().collect();
        for (at, window) in windows.iter().enumerate() {
            let AxisWindow { size, stride, dilation, before, after, .. } = *window;
            if let Some(count) = own_size(at + 2) {
                let (tensor, size) = (self.name(), count.to_string());
                let of_result = window.transposed_sizes(&count);
                let open = || self.graph().fail(call, TensorError::Sized { tensor, size });
                let of_result = of_result.ok_or_else(open)?;
                result.push(of_result[0].name().to_owned());
                whole.push(of_result[1].name().to_owned());
                sizes.extend(of_result);
            } else {
                result.push(size.to_string());
                whole.push((size as i64 + before + after.max(0)).max(0).to_string());
            }
            written.push(format!("{stride}*j{at} + {dilation}*k{at}"));
            read.push(format!("o{at} + {before}").replace("+ -", "- "));
        }
        let source = access("x", in_space(&channel, "j", axes));
        let taps = numbered("k", axes);
        let weight = access("w", [channel, "f".to_owned()].into_iter().chain(taps));
        let is_padded = windows.iter().any(|window| window.before < 0);
        let sum = access(if is_padded { "pad(s, 0)" } else { "s" }, read);
        let inside = format!("b < {batch}, f < {}, {}", whole[1], ranges_of(&numbered("o", axes), result));
        let (inputs, bias) = self.inputs(filters, bias);
        self.graph().result(call, &inputs, |y| {
            format!(
                "{}node s {wide}[{}]\n{} :+= {wide}({source}) * {wide}({weight}) where {ranges}\n\
                 {} := {narrow}({sum}{bias}) where {inside}",
                declared_sizes(&sizes),
                whole.join(","),
                access("s", written),
                access(y, in_space("f", "o", axes)),
            )
        })
    }

    /// The operands of a convolution, and the bias of filter `f` as a term.
    fn inputs<'a>(
        &'a self,
        filters: Argument<'a>,
        bias: Option<&'a Tensor>,
    ) -> (Vec<(&'static str, Argument<'a>)>, &'static str) {
        let inputs = [("x", Argument::Tensor(self)), ("w", filters)].into_iter();
        let inputs = inputs.chain(bias.map(|bias| ("a", Argument::Tensor(bias))));
        (inputs.collect(), if bias.is_some() { " + a[f]" } else { "" })
    }

    /// Folds the elements of each window: `op` accumulates them, margins have the value `outside`, and
    /// `finish` is applied to the result `{}`.
    ///
    /// # Errors
    /// An element type without the operation.
    #[doc(hidden)]
    pub fn folded(
        &self,
        call: Call,
        windows: &[AxisWindow],
        op: &str,
        outside: &str,
        finish: &str,
    ) -> Result<Tensor> {
        let at = WindowAccess::new(self.shape(), self.node().run_sizes(), windows);
        let (wide, narrow) = sum_types(self.dtype());
        let (s, ranges) = (at.result("s", "c"), at.ranges());
        let (value, result) = (at.element("x", "c", outside), finish.replace("{}", &s));
        self.graph().result(call, &[("x", Argument::Tensor(self))], |y| {
            let sum = format!("{}{s} {op} {wide}({value}) where {ranges}", at.declared());
            format!("{sum}\n{} := {narrow}({result})", at.result(y, "c"))
        })
    }

    /// The mean of the elements of each window. Elements of the margins count as 0 if `counts_margins`;
    /// otherwise, and beyond the margins, the mean is that of fewer elements.
    ///
    /// # Errors
    /// An element type without means.
    #[doc(hidden)]
    pub fn window_mean(&self, call: Call, windows: &[AxisWindow], counts_margins: bool) -> Result<Tensor> {
        let at = WindowAccess::new(self.shape(), self.node().run_sizes(), windows);
        let (wide, narrow) = sum_types(self.dtype());
        let (s, value, ranges) = (at.result("s", "c"), at.element("x", "c", "0"), at.ranges());
        let mut text = format!("{}{s} :+= {wide}({value}) where {ranges}\n", at.declared());
        // The number of elements of a window that count: a product over axes of sums over the window.
        let mut divisor = Vec::new();
        for (axis, window) in windows.iter().enumerate() {
            let AxisWindow { size, kernel, before, after, .. } = *window;
            if !at.is_padded() {
                divisor.push(format!("{kernel}.0"));
                continue;
            }
            let (low, added) = if counts_margins { (-before, after) } else { (0, 0) };
            let run_size = self.node().run_size(axis + 2);
            let high = run_size.map_or_else(|| size.to_string(), |size| size.name().to_owned());
            let (index, count) = (window.index(axis), at.extent(axis + 2));
            text += &format!(
                "n{axis}[o{axis}] :+= {wide}(and({index} >= {low}, {index} < {high} + {added})) where o{axis} < \
                 {count}, k{axis} < {kernel}\n"
            );
            divisor.push(format!("n{axis}[o{axis}]"));
        }
        let divisor = divisor.join(" * ");
        self.graph().result(call, &[("x", Argument::Tensor(self))], |y| {
            format!("{text}{} := {narrow}({s} / ({divisor}))", at.result(y, "c"))
        })
    }
}
