//! Windows over any number of axes, and convolution.

use arrayjit_tensor::{
    TensorOperand,
    low_level::{AxisWindow, FilterLayout, in_space, numbered},
};

use tnode::SizeSum;

use super::{
    context::{Lowered, NodeContext},
    operator::{Operator, op},
    reduce::wide,
    shape::sizes,
};
use crate::{
    error::{OnnxError, Result},
    extents::{Extents, extent},
    host::reversed,
    shape::{access, elements, letters, ranges},
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("Col2Im", 18, columns_to_image),
    op("Conv", 1, convolution).sized(),
    op("ConvTranspose", 1, transposed_convolution).sized(),
];

/// The most of a size, stride, dilation or margin, so that indices do not overflow.
const MOST: i64 = 1 << 31;

/// The attribute with a positive number for each axis of a window.
pub(super) fn per_axis(cx: &NodeContext<'_>, name: &str, axes: usize) -> Result<Vec<usize>> {
    let values = cx.ints(name)?.unwrap_or_else(|| vec![1; axes]);
    let is_valid = values.len() == axes && values.iter().all(|value| (1..MOST).contains(value));
    match is_valid {
        true => Ok(values.into_iter().map(|value| value as usize).collect()),
        false => Err(OnnxError::attribute(name, format!("{axes} positive integers"))),
    }
}

/// The margins of each axis: in front of it and behind it.
pub(super) fn margins(cx: &NodeContext<'_>, axes: usize) -> Result<Vec<(i64, i64)>> {
    let pads = cx.ints("pads")?.unwrap_or_else(|| vec![0; 2 * axes]);
    let is_valid = pads.len() == 2 * axes && pads.iter().all(|pad| (-MOST..MOST).contains(pad));
    if !is_valid {
        return Err(OnnxError::attribute("pads", format!("{} integers", 2 * axes)));
    }
    let (before, after) = pads.split_at(axes);
    Ok(before.iter().copied().zip(after.iter().copied()).collect())
}

/// The windows of each axis of space of an array with these axes.
pub(super) fn windows(cx: &NodeContext<'_>, extents: &Extents, kernel: &[usize]) -> Result<Vec<AxisWindow>> {
    windows_with(cx, extents, kernel, cx.text_or("auto_pad", "NOTSET")?)
}

/// The windows of each axis of space, and the array that they read. Margins that depend on a size are a part
/// of a copy, with `number` in them.
pub(super) fn windows_on(
    cx: &mut NodeContext<'_>,
    x: &Value,
    kernel: &[usize],
    number: &str,
) -> Result<(Value, Vec<AxisWindow>)> {
    let mode = cx.text_or("auto_pad", "NOTSET")?.to_owned();
    let has_stride = |(at, stride): (usize, &usize)| {
        *stride > 1 && x.extents().0.get(at + 2).is_some_and(|axis| axis.size.is_some())
    };
    let strides = per_axis(cx, "strides", kernel.len())?;
    if !mode.starts_with("SAME") || !strides.iter().enumerate().any(has_stride) {
        return Ok((x.clone(), windows(cx, &x.extents(), kernel)?));
    }
    let padded = with_same_margins(cx, x, kernel, (&mode, number))?;
    let windows = windows_with(cx, &padded.extents(), kernel, "VALID")?;
    Ok((padded, windows))
}

/// A copy with the margins in front that `SAME` asks for, and with enough elements behind for all windows to
/// be inside: an axis of `n` elements gets `n + w - 1` for windows that span `w`, so that as many windows fit
/// as strides begin in the axis.
fn with_same_margins(
    cx: &mut NodeContext<'_>,
    x: &Value,
    kernel: &[usize],
    (mode, number): (&str, &str),
) -> Result<Value> {
    let (strides, dilations) =
        (per_axis(cx, "strides", kernel.len())?, per_axis(cx, "dilations", kernel.len())?);
    let (mut extents, mut index) = (x.extents(), letters(x.rank()));
    let spans =
        kernel.iter().zip(&dilations).map(|(&taps, &dilation)| (taps.max(1) - 1).checked_mul(dilation));
    for (at, span) in spans.enumerate() {
        let rest = span.filter(|&rest| (rest as i64) < MOST).ok_or_else(OnnxError::overflow)?;
        let (stride, axis) = (strides[at], &mut extents.0[at + 2]);
        if stride > rest + 1 && rest > 0 && axis.size.is_some() {
            return Err(cx.needs_extents("strides beyond windows leave margins out for some sizes"));
        }
        let rounded = if mode == "SAME_LOWER" { 1 } else { 0 };
        let before = match &axis.size {
            Some(size) if stride > 1 && rest > 0 => {
                let (name, last) = (size.name(), stride - 1);
                let more = (rest + 1 + rounded) as i64 - stride as i64;
                format!("(({stride}*((({name}) + {last})/{stride}) - ({name}) + {more})/2)")
            }
            Some(_) => ((rest + rounded) / 2).to_string(),
            None => {
                let total =
                    ((axis.dim.div_ceil(stride).max(1) - 1) * stride + rest + 1).saturating_sub(axis.dim);
                ((total + rounded) / 2).to_string()
            }
        };
        index[at + 2] = format!("{} - {before}", index[at + 2]);
        let more = SizeSum::from(&*axis).plus(&(rest as i64).into()).ok_or_else(OnnxError::overflow)?;
        *axis = extent(&more)?;
    }
    let own = cx.bind_array(x)?.padded(number, &index);
    let text = format!("{} := {own}{}", access("y", letters(x.rank())), extents.clause());
    cx.emit(x.dtype(), &extents, &text)
}

/// The windows of each axis of space, with this kind of margins.
fn windows_with(
    cx: &NodeContext<'_>,
    extents: &Extents,
    kernel: &[usize],
    mode: &str,
) -> Result<Vec<AxisWindow>> {
    let (axes, shape) = (kernel.len(), extents.dims());
    let space = shape.get(2..).filter(|space| space.len() == axes);
    let space = space.ok_or_else(|| OnnxError::operand(0, format!("expected {} axes", axes + 2)))?;
    let (strides, dilations) = (per_axis(cx, "strides", axes)?, per_axis(cx, "dilations", axes)?);
    let is_ceil = cx.int_or("ceil_mode", 0)? != 0;
    let margins = margins(cx, axes)?;
    let mut windows = Vec::new();
    for at in 0..axes {
        let (size, kernel, stride, dilation) = (space[at], kernel[at], strides[at], dilations[at]);
        if kernel == 0 || kernel as i64 >= MOST || size as i64 >= MOST {
            return Err(OnnxError::Invalid("the window has a size of 0 or is too large".into()));
        }
        let span = (dilation as i64).saturating_mul(kernel as i64 - 1).saturating_add(1);
        let is_sized = extents.0[at + 2].size.is_some();
        if is_sized && mode.starts_with("SAME") && stride > 1 {
            return Err(cx.needs_extents("margins depend on the size of an axis"));
        }
        let (before, mut after) = match mode {
            "SAME_UPPER" | "SAME_LOWER" => {
                let count = size.div_ceil(stride) as i64;
                let total = ((count - 1) * stride as i64 + span - size as i64).max(0);
                if mode == "SAME_UPPER" {
                    (total / 2, total - total / 2)
                } else {
                    (total - total / 2, total / 2)
                }
            }
            "VALID" => (0, 0),
            "NOTSET" => margins[at],
            _ => return Err(OnnxError::attribute("auto_pad", "NOTSET, SAME_UPPER, SAME_LOWER or VALID")),
        };
        let (room, stride_size) = (size as i64 + before + after - span, stride as i64);
        // The last window may leave the margin by less than a stride, and may be the only one.
        let least = if is_ceil { 1 - stride_size } else { 0 };
        if room < least {
            return Err(OnnxError::Invalid(format!(
                "a window of {span} elements is longer than axis {}",
                at + 2
            )));
        }
        let mut count = if is_ceil { (room + stride_size - 1) / stride_size } else { room / stride_size } + 1;
        if is_sized && is_ceil {
            // No window starts behind the elements and the margin in front, whatever the size is.
            if after + stride_size > span || cx.int_or("count_include_pad", 0)? != 0 {
                return Err(cx.needs_extents("whether there is a last window depends on the size of an axis"));
            }
            after += stride_size - 1;
        }
        // A window that starts behind the elements and the margin in front is left out.
        if is_ceil && (count - 1) * stride_size >= size as i64 + before {
            count -= 1;
        }
        windows.push(AxisWindow {
            size,
            kernel,
            stride,
            dilation,
            before,
            after,
            count: count.max(0) as usize,
        });
    }
    Ok(windows)
}

/// The windows of a convolution with these filters.
pub(super) fn windows_of(cx: &NodeContext<'_>, x: &Value, filters: &Value) -> Result<Vec<AxisWindow>> {
    if filters.rank() != x.rank() || x.rank() < 3 {
        return Err(OnnxError::operand(1, format!("{:?} does not fit {:?}", filters.shape(), x.shape())));
    }
    windows(cx, &x.extents(), &filters.shape()[2..])
}

fn convolution(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, filters, bias) = (cx.value(0)?, cx.value(1)?, cx.optional(2));
    Ok(vec![convolved(cx, &x, &filters, bias)?])
}

/// The convolution of a node's attributes.
pub(super) fn convolved(
    cx: &mut NodeContext<'_>,
    x: &Value,
    filters: &Value,
    bias: Option<Value>,
) -> Result<Value> {
    let filter = filters.shape().to_vec();
    convolved_by(cx, x, &filter, bias, |cx| filters_last(cx, filters))
}

/// The convolution with filters of this shape, `[filters, channels, window..]`, that `last` gives with the
/// filters as the last axis.
pub(super) fn convolved_by(
    cx: &mut NodeContext<'_>,
    x: &Value,
    filter: &[usize],
    bias: Option<Value>,
    last: impl FnOnce(&mut NodeContext<'_>) -> Result<Value>,
) -> Result<Value> {
    let shape = x.shape().to_vec();
    let groups = usize::try_from(cx.int_or("group", 1)?).unwrap_or(0);
    let fits = filter.len() >= 3
        && filter.len() == shape.len()
        && groups > 0
        && filter[1].checked_mul(groups) == Some(shape[1])
        && filter[0].is_multiple_of(groups);
    if !fits {
        let problem = format!("filters {filter:?} do not fit {shape:?} in {groups} groups");
        return Err(OnnxError::operand(1, problem));
    }
    let (x, windows) = windows_on(cx, x, &filter[2..], "0")?;
    let mut result = vec![shape[0], filter[0]];
    result.extend(windows.iter().map(|window| window.count));
    let dtype = x.dtype();
    if shape[1] == 0 && elements(&result)? > 0 {
        return cx.filled(dtype, &result, &format!("{dtype}(0)"));
    }
    let filters = last(cx)?;
    let (call, layout) = (cx.call(), FilterLayout::FiltersLast);
    match bias {
        Some(bias) => cx.operation([&x, &filters, &bias], dtype, &result, |[x, filters, bias]| {
            x.convolved(call, (filters.argument(), layout), Some(bias), &windows, groups)
        }),
        None => cx.operation([&x, &filters], dtype, &result, |[x, filters]| {
            x.convolved(call, (filters.argument(), layout), None, &windows, groups)
        }),
    }
}

/// Filters with the axes of the window first, then the channels, then the filters: arrays within a model have
/// channels as their contiguous axis, so that the filters are in vectors.
pub(super) fn filters_last(cx: &mut NodeContext<'_>, filters: &Value) -> Result<Value> {
    let [count, channels, kernel @ ..] = filters.shape() else {
        return Err(OnnxError::operand(1, "expected two axes or more"));
    };
    let (count, channels, taps) = (*count, *channels, kernel.iter().product::<usize>());
    let shape = [kernel, &[channels, count]].concat();
    reversed_axes(cx, filters, [count, channels, taps], &shape)
}

/// The value as an array of three axes, with these in reverse order, as another shape: once for a session if
/// it is a constant.
pub(super) fn reversed_axes(
    cx: &mut NodeContext<'_>,
    filters: &Value,
    axes: [usize; 3],
    shape: &[usize],
) -> Result<Value> {
    match filters.known() {
        Some(known) if known.is_constant => {
            cx.table("filters last".into(), || reversed(&known.array, axes, shape))
        }
        _ => {
            let flat = cx.reshaped(filters, &axes)?;
            let turned = cx.permuted(&flat, &[2, 1, 0])?;
            cx.reshaped(&turned, shape)
        }
    }
}

/// The margins of a transposed convolution, so that its result has the size that `output_shape` names or
/// `auto_pad` implies.
fn transposed_margins(cx: &NodeContext<'_>, full: &[i64], same: &[i64]) -> Result<Vec<(i64, i64)>> {
    let mode = cx.text_or("auto_pad", "NOTSET")?;
    let wanted = match (cx.ints("output_shape")?, mode) {
        (Some(wanted), _) if wanted.len() >= full.len() => wanted[wanted.len() - full.len()..].to_vec(),
        (None, "SAME_UPPER" | "SAME_LOWER") => same.to_vec(),
        (None, "VALID") => return Ok(vec![(0, 0); full.len()]),
        _ => return margins(cx, full.len()),
    };
    let margin = |(&full, &wanted): (&i64, &i64)| {
        let total = full.saturating_sub(wanted);
        if total < 0 {
            return (0, total);
        }
        if mode == "SAME_UPPER" { (total / 2, total - total / 2) } else { (total - total / 2, total / 2) }
    };
    Ok(full.iter().zip(&wanted).map(margin).collect())
}

fn transposed_convolution(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, filters) = (cx.value(0)?, cx.value(1)?);
    let (shape, filter) = (x.shape().to_vec(), filters.shape().to_vec());
    let groups = usize::try_from(cx.int_or("group", 1)?).unwrap_or(0);
    let fits = filter.len() >= 3
        && filter.len() == shape.len()
        && groups > 0
        && filter[0] == shape[1]
        && shape[1].is_multiple_of(groups);
    if !fits {
        let problem = format!("filters {filter:?} do not fit {shape:?} in {groups} groups");
        return Err(OnnxError::operand(1, problem));
    }
    let axes = filter.len() - 2;
    let (strides, dilations) = (per_axis(cx, "strides", axes)?, per_axis(cx, "dilations", axes)?);
    let more = cx.ints("output_padding")?.unwrap_or_else(|| vec![0; axes]);
    if more.len() != axes || more.iter().any(|more| !(0..MOST).contains(more)) {
        return Err(OnnxError::attribute("output_padding", format!("{axes} integers from 0")));
    }
    let full = |at: usize| {
        let rows = (shape[at + 2] as i64 - 1).checked_mul(strides[at] as i64)?;
        let span = (filter[at + 2] as i64 - 1).checked_mul(dilations[at] as i64)?;
        rows.checked_add(span)?.checked_add(1 + more[at])
    };
    let full: Option<Vec<i64>> = (0..axes).map(full).collect();
    let full = full.ok_or_else(OnnxError::overflow)?;
    let same: Vec<i64> = (0..axes).map(|at| (shape[at + 2] * strides[at]) as i64).collect();
    if cx.ints("output_shape")?.is_some() && x.extents().0.iter().skip(2).any(|axis| axis.size.is_some()) {
        return Err(cx.needs_extents("the shape of its result is given in numbers"));
    }
    let margins = transposed_margins(cx, &full, &same)?;
    let mut result = vec![shape[0], filter[1] * groups];
    let mut whole = result.clone();
    let mut windows = Vec::new();
    for (at, (&full, &(before, after))) in full.iter().zip(&margins).enumerate() {
        let size = full.checked_sub(before).and_then(|size| size.checked_sub(after));
        let size = size.and_then(|size| usize::try_from(size).ok()).ok_or_else(OnnxError::overflow)?;
        result.push(size);
        // The sums also have room for the elements that a result beyond them would read as 0.
        whole.push(usize::try_from(full.max(full - after)).map_err(|_| OnnxError::overflow())?);
        let (kernel, count) = (filter[at + 2], shape[at + 2]);
        let (stride, dilation) = (strides[at], dilations[at]);
        windows.push(AxisWindow { size, kernel, stride, dilation, before, after, count });
    }
    elements(&whole)?;
    let (call, dtype) = (cx.call(), x.dtype());
    let result = match cx.optional(2) {
        Some(bias) => cx.operation([&x, &filters, &bias], dtype, &result, |[x, filters, bias]| {
            x.transposed(call, filters.argument(), Some(bias), &windows, groups)
        })?,
        None => cx.operation([&x, &filters], dtype, &result, |[x, filters]| {
            x.transposed(call, filters.argument(), None, &windows, groups)
        })?,
    };
    Ok(vec![result])
}

/// Adds blocks of columns at their places in an image; blocks may overlap.
fn columns_to_image(cx: &mut NodeContext<'_>) -> Lowered {
    let (image, block) = (sizes(&cx.host_ints(1)?)?, sizes(&cx.host_ints(2)?)?);
    let x = cx.value(0)?;
    let axes = image.len();
    let &[batch, rows, columns] = x.shape() else {
        return Err(OnnxError::operand(0, "expected three axes"));
    };
    let taps = elements(&block)?;
    if block.len() != axes || axes == 0 || taps == 0 || !rows.is_multiple_of(taps) {
        return Err(OnnxError::operand(2, format!("blocks {block:?} do not fit {:?}", x.shape())));
    }
    let shape = [&[batch, rows / taps], image.as_slice()].concat();
    elements(&shape)?;
    let windows = windows(cx, &shape.as_slice().into(), &block)?;
    let counts: Vec<usize> = windows.iter().map(|window| window.count).collect();
    if elements(&counts)? != columns {
        let problem = format!("{columns} blocks do not fit an image {image:?} with {counts:?} blocks");
        return Err(OnnxError::operand(0, problem));
    }
    let split = cx.reshaped(&x, &[&shape[..2], &block, &counts].concat())?;
    let letters = [in_space("c", "k", axes), numbered("o", axes)].concat();
    let element = cx.bind_array(&split)?.at(&letters);
    // The sums have room for the margins.
    let mut whole = shape[..2].to_vec();
    let [mut written, mut read] = [(); 2].map(|()| vec!["b".to_owned(), "c".into()]);
    for (at, window) in windows.iter().enumerate() {
        let AxisWindow { size, stride, dilation, before, after, .. } = *window;
        whole.push(usize::try_from(size as i64 + before + after).map_err(|_| OnnxError::overflow())?);
        written.push(format!("{stride}*o{at} + {dilation}*k{at}"));
        read.push(format!("i{at} + {before}"));
    }
    elements(&whole)?;
    let (dtype, wide) = (x.dtype(), wide(x.dtype()));
    let text = format!(
        "node s {wide}[{}]\n{} :+= {wide}({element})\n{} := {dtype}({}) where {}",
        crate::shape::dims(&whole),
        access("s", written),
        access("y", in_space("c", "i", axes)),
        access("s", read),
        ranges(&image)
    );
    Ok(vec![cx.emit(dtype, &shape, &text)?])
}
