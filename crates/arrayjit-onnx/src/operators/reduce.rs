//! Reductions over axes.

use arrayjit_tensor::{Tensor, TensorError, low_level::sum_types};
use lowered_ir::{eval, ir::BinaryOp};
use tnode::{DType, Scalar};

use super::{
    context::{Lowered, NodeContext},
    operator::{Operator, op},
};
use crate::{
    error::{OnnxError, Result},
    host::{array_of, flatten, indices, scalars},
    shape::{axes, axis},
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("ArgMax", 1, |cx| position(cx, Tensor::argmax)).sized(),
    op("ArgMin", 1, |cx| position(cx, Tensor::argmin)).sized(),
    op("CumProd", 26, |cx| cumulative(cx, ":*=")).sized(),
    op("CumSum", 11, |cx| cumulative(cx, ":+=")).sized(),
    op("ReduceL1", 1, |cx| reduced(cx, "0", |x, axes| x.abs()?.sum(axes))).sized(),
    op("ReduceL2", 1, |cx| reduced(cx, "0", |x, axes| x.square()?.sum(axes)?.sqrt())).sized(),
    op("ReduceLogSum", 1, |cx| reduced(cx, "-inf", |x, axes| x.sum(axes)?.log())).sized(),
    op("ReduceLogSumExp", 1, |cx| reduced(cx, "-inf", log_sum_exp)).sized(),
    op("ReduceMax", 1, |cx| reduced(cx, "lowest", |x, axes| x.max(axes))).sized(),
    op("ReduceMean", 1, |cx| reduced(cx, "nan", mean)).sized(),
    op("ReduceMin", 1, |cx| reduced(cx, "highest", |x, axes| x.min(axes))).sized(),
    op("ReduceProd", 1, |cx| reduced(cx, "1", |x, axes| x.prod(axes))).sized(),
    op("ReduceSum", 1, |cx| reduced(cx, "0", |x, axes| x.sum(axes))).sized(),
    op("ReduceSumSquare", 1, |cx| reduced(cx, "0", |x, axes| x.square()?.sum(axes))).sized(),
];

/// The type in which elements of a type are accumulated.
pub(super) fn wide(dtype: DType) -> DType {
    sum_types(dtype).0
}

/// The reduced axes, and the shape of the result.
struct ReducedAxes {
    axes: Vec<usize>,
    shape: Vec<usize>,
}

impl ReducedAxes {
    /// Axes are an attribute in old versions, and an operand in new ones.
    fn of(cx: &mut NodeContext<'_>) -> Result<ReducedAxes> {
        let since = if cx.operator() == "ReduceSum" { 13 } else { 18 };
        let given = if cx.opset() < since { cx.ints("axes")? } else { cx.optional_ints(1)? };
        let x = cx.value(0)?;
        let given = given.filter(|given| !given.is_empty());
        let all = match given {
            Some(given) => axes(&given, x.rank())?,
            None if cx.int_or("noop_with_empty_axes", 0)? != 0 => Vec::new(),
            None => (0..x.rank()).collect(),
        };
        let is_kept = cx.int_or("keepdims", 1)? != 0;
        let shape = reduced_shape(x.shape(), &all, is_kept);
        Ok(ReducedAxes { axes: all, shape })
    }
}

/// The shape without the reduced axes, or with size 1 there.
fn reduced_shape(shape: &[usize], axes: &[usize], is_kept: bool) -> Vec<usize> {
    let sizes = shape.iter().enumerate().filter_map(|(at, &size)| match axes.contains(&at) {
        true => is_kept.then_some(1),
        false => Some(size),
    });
    sizes.collect()
}

/// The mean, which is an integer for integers.
fn mean(x: &Tensor, axes: &[isize]) -> Result<Tensor, TensorError> {
    if x.dtype().is_float() {
        return x.mean(axes);
    }
    let count: usize = axes.iter().map(|&at| x.shape()[at as usize]).product();
    x.sum(axes)?.div(count as i64)
}

/// The logarithm of the sum of powers, which are floats for integers too.
fn log_sum_exp(x: &Tensor, axes: &[isize]) -> Result<Tensor, TensorError> {
    match x.dtype().is_float() {
        true => x.logsumexp(axes),
        false => x.to_dtype(DType::F32)?.logsumexp(axes),
    }
}

/// The result of a reduction in the type in which elements are accumulated; `empty` is that of no elements.
fn reduced(
    cx: &mut NodeContext<'_>,
    empty: &str,
    reduction: fn(&Tensor, &[isize]) -> Result<Tensor, TensorError>,
) -> Lowered {
    let ReducedAxes { axes, shape } = ReducedAxes::of(cx)?;
    let x = cx.value(0)?;
    if let Some(result) = reduced_on_host(cx, &axes, &shape)? {
        return Ok(vec![result]);
    }
    let dtype = x.dtype();
    if cx.operator() == "ReduceMean" && !dtype.is_float() && x.has_sizes() {
        return Err(cx.needs_extents("it divides integers by the number of elements"));
    }
    if x.num_elements() == 0 && !shape.contains(&0) {
        return Ok(vec![cx.filled(dtype, &shape, &empty_number(empty, dtype))?]);
    }
    let axes: Vec<isize> = axes.iter().map(|&at| at as isize).collect();
    let result = cx.operation([&x], dtype, &shape, |[x]| reduction(&x.to_dtype(wide(dtype))?, &axes))?;
    Ok(vec![result])
}

/// The result of no elements.
fn empty_number(text: &str, dtype: DType) -> String {
    let extreme = |is_low: bool| match (dtype.is_float(), dtype) {
        (true, _) => if is_low { "-inf" } else { "inf" }.to_owned(),
        (_, DType::I64) => if is_low { i64::MIN } else { i64::MAX }.to_string(),
        (_, DType::I32) => if is_low { i32::MIN } else { i32::MAX }.to_string(),
        (_, DType::I8) => if is_low { i8::MIN } else { i8::MAX }.to_string(),
        (_, DType::U8) => if is_low { u8::MIN } else { u8::MAX }.to_string(),
        (_, DType::U64) => if is_low { u64::MIN } else { u64::MAX }.to_string(),
        (_, DType::U32) => if is_low { u32::MIN } else { u32::MAX }.to_string(),
        _ => u8::from(!is_low).to_string(),
    };
    let number = match text {
        "lowest" => extreme(true),
        "highest" => extreme(false),
        other => other.to_owned(),
    };
    format!("{dtype}({number})")
}

fn reduced_on_host(cx: &NodeContext<'_>, axes: &[usize], shape: &[usize]) -> Result<Option<Value>> {
    let Some(known) = cx.all_known() else { return Ok(None) };
    let Some(x) = known.first().filter(|x| !x.dtype().is_float() && x.array.num_values() > 0) else {
        return Ok(None);
    };
    let op = match cx.operator() {
        "ReduceSum" => BinaryOp::Add,
        "ReduceProd" => BinaryOp::Mul,
        "ReduceMax" => BinaryOp::Max,
        "ReduceMin" => BinaryOp::Min,
        _ => return Ok(None),
    };
    let kept = reduced_shape(x.shape(), axes, true);
    let mut results: Vec<Option<Scalar>> = vec![None; kept.iter().product()];
    for (index, value) in indices(x.shape()).zip(scalars(&x.array)) {
        let own: Vec<usize> =
            index.iter().enumerate().map(|(at, &i)| if axes.contains(&at) { 0 } else { i }).collect();
        let (result, value) = (&mut results[flatten(&own, &kept)], value.convert(wide(x.dtype())));
        *result = Some(result.map_or(value, |sum| eval::binary(op, sum, value)));
    }
    Ok(Some(cx.known(array_of(x.dtype(), shape, results.into_iter().flatten())?)))
}

/// The position of the extreme element of an axis, which is the first NaN if there is one.
fn position(cx: &mut NodeContext<'_>, find: fn(&Tensor, isize) -> Result<Tensor, TensorError>) -> Lowered {
    let x = cx.value(0)?;
    let at = axis(cx.int_or("axis", 0)?, x.rank())?;
    let size = x.shape()[at];
    if size == 0 {
        return Err(OnnxError::operand(0, format!("axis {at} of {:?} has no elements", x.shape())));
    }
    let shape = reduced_shape(x.shape(), &[at], cx.int_or("keepdims", 1)? != 0);
    let (is_last, at) = (cx.int_or("select_last_index", 0)? != 0, at as isize);
    if is_last && x.has_sizes() {
        return Err(cx.needs_extents("it searches from the end of an axis"));
    }
    let result = cx.operation([&x], DType::I64, &shape, |[x]| match is_last {
        false => find(x, at),
        true => (size as i64 - 1) - find(&x.flip(at)?, at)?,
    })?;
    Ok(vec![result])
}

/// Accumulates along an axis.
fn cumulative(cx: &mut NodeContext<'_>, op: &str) -> Lowered {
    let given =
        cx.host_ints(1)?.first().copied().ok_or_else(|| OnnxError::operand(1, "it has no element"))?;
    let x = cx.value(0)?;
    let at = axis(given, x.rank())?;
    let is_reverse = cx.int_or("reverse", 0)? != 0;
    let is_exclusive = cx.int_or("exclusive", 0)? != 0;
    let relation = match (is_reverse, is_exclusive) {
        (false, false) => "<=",
        (false, true) => "<",
        (true, false) => ">=",
        (true, true) => ">",
    };
    let call = cx.call();
    let result =
        cx.operation([&x], x.dtype(), x.shape(), |[x]| x.accumulated(call, at as isize, op, relation))?;
    Ok(vec![result])
}
