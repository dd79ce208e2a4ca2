//! Pooling over windows of any number of axes.

use arrayjit_tensor::{
    Tensor, TensorError,
    low_level::{AxisWindow, WindowAccess},
};
use tnode::DType;

use super::{
    context::{Lowered, NodeContext},
    operator::{Operator, op},
    pad::padded_by,
    reduce::wide,
    shape::sizes,
    window::{margins, per_axis, windows, windows_on},
};
use crate::{
    error::{OnnxError, Result},
    extents::Extents,
    shape::elements,
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("AveragePool", 1, average_pool).sized(),
    op("GlobalAveragePool", 1, |cx| global(cx, |x, axes| x.mean(axes))).sized(),
    op("GlobalLpPool", 2, global_norm).sized(),
    op("GlobalMaxPool", 1, |cx| global(cx, |x, axes| x.max(axes))).sized(),
    op("LpPool", 2, norm_pool).sized(),
    op("MaxPool", 1, max_pool).sized(),
    op("MaxUnpool", 9, max_unpool),
];

fn kernel(cx: &NodeContext<'_>) -> Result<Vec<usize>> {
    let axes = cx.ints("kernel_shape")?.map_or(0, |sizes| sizes.len());
    if axes == 0 {
        return Err(OnnxError::attribute("kernel_shape", "positive integers"));
    }
    per_axis(cx, "kernel_shape", axes)
}

fn average_pool(cx: &mut NodeContext<'_>) -> Lowered {
    let (call, counts_margins) = (cx.call(), cx.int_or("count_include_pad", 0)? != 0);
    let (x, kernel) = (cx.value(0)?, kernel(cx)?);
    let (padded, windows) = windows_on(cx, &x, &kernel, "0")?;
    let shape = WindowAccess::new(padded.shape(), &[], &windows).result_shape();
    if counts_margins || padded.extents() == x.extents() {
        let mean = |[x]: &[Tensor; 1]| x.window_mean(call, &windows, counts_margins);
        return Ok(vec![cx.operation([&padded], x.dtype(), &shape, mean)?]);
    }
    // The margins are elements of a copy. The same copy of ones counts the others.
    let mut extents = x.extents();
    extents.0[..2].fill(1.into());
    let ones = cx.filled(DType::F32, &extents, "1")?;
    let (ones, _) = windows_on(cx, &ones, &kernel, "0")?;
    let dtype = wide(x.dtype());
    let mean = |[x, ones]: &[Tensor; 2]| {
        let sums = |x: &Tensor| x.to_dtype(dtype)?.folded(call, &windows, ":+=", "0", "{}");
        sums(x)?.div(&sums(ones)?)
    };
    Ok(vec![cx.operation([&padded, &ones], x.dtype(), &shape, mean)?])
}

fn max_pool(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let (dtype, kernel) = (x.dtype(), kernel(cx)?);
    let outside = if dtype.is_float() { "-inf".to_owned() } else { lowest(dtype).to_string() };
    let (x, windows) = match cx.wants(1) {
        true => (x.clone(), windows(cx, &x.extents(), &kernel)?),
        false => windows_on(cx, &x, &kernel, &outside)?,
    };
    let sizes = x.extents().names();
    let at = WindowAccess::new(x.shape(), &sizes, &windows);
    let shape = Extents::named(&at.result_shape(), &at.result_sizes());
    let value = at.element(cx.bind_array(&x)?.name(), "c", &outside);
    let [y, p] = ["y", "p"].map(|name| at.result(name, "c"));
    let ranges = at.ranges();
    let most = format!("{y} :max= {value} where {ranges}");
    if !cx.wants(1) {
        return Ok(vec![cx.emit(dtype, &shape, &most)?]);
    }
    if x.has_sizes() {
        return Err(cx.needs_extents("the positions of the largest elements count elements"));
    }
    let order = cx.int_or("storage_order", 0)?;
    let position = flat_position(x.shape(), &windows, order != 0);
    let inside = windows.iter().enumerate().map(|(at, window)| {
        let index = window.index(at);
        format!("and({index} >= 0, {index} < {})", window.size)
    });
    let inside = inside.reduce(|all, one| format!("and({all}, {one})")).unwrap_or_default();
    let none = i64::from(i32::MAX);
    // A NaN is the largest element, as everywhere.
    let is_most = match dtype.is_float() {
        true => format!("or({value} == {y}, {value} != {value})"),
        false => format!("{value} == {y}"),
    };
    let text =
        format!("{most}\n{p} :min= where(and({inside}, {is_most}), {position}, {none}) where {ranges}");
    let results = [("y", dtype, shape.clone()), ("p", DType::I64, shape)];
    Ok(cx.emit_extents(results, &text)?.to_vec())
}

/// The position of an element of a window in the whole array, with the first axis of space innermost if
/// `is_column_major`.
fn flat_position(shape: &[usize], windows: &[AxisWindow], is_column_major: bool) -> String {
    let axes = windows.len();
    let order: Vec<usize> = if is_column_major { (0..axes).rev().collect() } else { (0..axes).collect() };
    let start = format!("b*{} + c", shape[1]);
    let append =
        |text: String, at: usize| format!("({text})*{} + ({})", windows[at].size, windows[at].index(at));
    order.into_iter().fold(start, append)
}

/// The least integer of a type.
pub(super) fn lowest(dtype: DType) -> i64 {
    match dtype {
        DType::I8 => i8::MIN.into(),
        DType::I32 => i32::MIN.into(),
        DType::I64 => i64::MIN,
        _ => 0,
    }
}

/// The result of a reduction of all axes of space, which stay with size 1.
fn global(
    cx: &mut NodeContext<'_>,
    reduction: impl FnOnce(&Tensor, &[isize]) -> Result<Tensor, TensorError>,
) -> Lowered {
    let x: Value = cx.value(0)?;
    if x.rank() < 3 {
        return Err(OnnxError::operand(0, "expected three axes or more"));
    }
    let shape = [&x.shape()[..2], &vec![1; x.rank() - 2]].concat();
    let axes: Vec<isize> = (2..x.rank() as isize).collect();
    Ok(vec![cx.operation([&x], x.dtype(), &shape, |[x]| reduction(x, &axes))?])
}

/// The exponent of a norm.
fn exponent(cx: &NodeContext<'_>) -> Result<i64> {
    let p = cx.int_or("p", 2)?;
    if p > 0 { Ok(p) } else { Err(OnnxError::attribute("p", "a positive integer")) }
}

/// The norm of exponent `p` over elements that `sum` sums up.
fn norm(
    x: &Tensor,
    p: i64,
    sum: impl FnOnce(&Tensor) -> Result<Tensor, TensorError>,
) -> Result<Tensor, TensorError> {
    let x = x.to_dtype(wide(x.dtype()))?;
    match p {
        1 => sum(&x.abs()?),
        2 => sum(&x.square()?)?.sqrt(),
        _ => sum(&x.abs()?.pow(p)?)?.pow(1.0 / p as f64),
    }
}

/// The norm of the elements of each window; the margins are 0.
fn norm_pool(cx: &mut NodeContext<'_>) -> Lowered {
    let (call, p) = (cx.call(), exponent(cx)?);
    let (x, kernel) = (cx.value(0)?, kernel(cx)?);
    let (x, windows) = windows_on(cx, &x, &kernel, "0")?;
    let shape = WindowAccess::new(x.shape(), &[], &windows).result_shape();
    let sums = |x: &Tensor| x.folded(call, &windows, ":+=", "0", "{}");
    Ok(vec![cx.operation([&x], x.dtype(), &shape, |[x]| norm(x, p, sums))?])
}

fn global_norm(cx: &mut NodeContext<'_>) -> Lowered {
    let p = exponent(cx)?;
    global(cx, |x, axes| norm(x, p, |x| x.sum(axes)))
}

/// Puts elements back to the positions in the whole array from which `MaxPool` took them; others are 0.
fn max_unpool(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, positions) = (cx.value(0)?, cx.value(1)?);
    let kernel = kernel(cx)?;
    let axes = kernel.len();
    let (strides, margins) = (per_axis(cx, "strides", axes)?, margins(cx, axes)?);
    if x.rank() != axes + 2 || positions.shape() != x.shape() {
        return Err(OnnxError::operand(1, format!("{:?} does not fit {:?}", positions.shape(), x.shape())));
    }
    let mut inferred = x.shape()[..2].to_vec();
    for at in 0..axes {
        let span = (x.shape()[at + 2] as i64 - 1).checked_mul(strides[at] as i64);
        let size = span.and_then(|span| span.checked_add(kernel[at] as i64 - margins[at].0 - margins[at].1));
        let size = size.and_then(|size| usize::try_from(size).ok()).ok_or_else(OnnxError::overflow)?;
        inferred.push(size);
    }
    let shape = match cx.optional_ints(2)? {
        Some(given) => sizes(&given)?,
        None => inferred.clone(),
    };
    if shape.len() != inferred.len() || shape.contains(&0) || inferred.contains(&0) {
        return Err(OnnxError::operand(2, format!("{shape:?} does not fit {inferred:?}")));
    }
    // Positions are those in the result, as in onnxruntime. Only the standard's example means the inferred
    // shape by them, and enlarges the result afterwards.
    let is_standard_example = x.shape() == [1, 1, 2, 2] && shape == [1, 1, 5, 5];
    let inner = if is_standard_example { &inferred } else { &shape };
    let count = elements(inner)?;
    let (flat_x, flat_at) =
        (cx.reshaped(&x, &[x.num_elements()])?, cx.reshaped(&positions, &[x.num_elements()])?);
    let element = cx.bind_array(&flat_x)?.whole();
    let position = cx.bind_array(&flat_at)?.whole();
    let (dtype, wide) = (x.dtype(), wide(x.dtype()));
    // Windows that overlap may name a position twice, and then have the same element.
    let text = format!(
        "node s {wide}[{count}], hits i32[{count}]\ns[{position}] :max= {wide}({element})\n\
         hits[{position}] :+= where({element} == {element}, 1, 1)\ny[i0] := where(hits[i0] > 0, {dtype}(s[i0]), 0)"
    );
    let flat = cx.emit(dtype, &[count], &text)?;
    let whole = cx.reshaped(&flat, inner)?;
    if shape == *inner {
        return Ok(vec![whole]);
    }
    let margins: Vec<(usize, i64, i64)> =
        (0..shape.len()).map(|at| (at, 0, shape[at] as i64 - inner[at] as i64)).collect();
    Ok(vec![padded_by(cx, &whole, &margins, "0")?])
}
