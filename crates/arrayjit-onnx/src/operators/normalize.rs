//! Softmax and normalization.

use arrayjit_tensor::{Tensor, TensorError};
use tnode::DType;

use super::{
    context::{Lowered, NodeContext},
    layout,
    operator::{Operator, op},
    reduce::wide,
};
use crate::{
    error::{OnnxError, Result},
    host::float,
    shape::{access, axis, elements, letters},
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("BatchNormalization", 7, batch).sized(),
    Operator { is_random: true, ..op("Dropout", 7, dropout).sized() },
    op("GroupNormalization", 18, group).sized(),
    op("Hardmax", 1, |cx| on_axis(cx, hardest)),
    op("InstanceNormalization", 6, instance).sized(),
    op("LRN", 1, local_response),
    op("LayerNormalization", 17, layer).sized(),
    op("LogSoftmax", 1, |cx| on_axis(cx, Tensor::log_softmax)).sized(),
    op("LpNormalization", 1, lp),
    op("MeanVarianceNormalization", 9, mean_variance),
    op("RMSNormalization", 23, rms).sized(),
    op("Softmax", 1, |cx| on_axis(cx, Tensor::softmax)).sized(),
];

/// The shape as rows and columns before opset 13, and the axis otherwise.
fn softmax_axes(cx: &NodeContext<'_>, x: &Value) -> Result<(Vec<usize>, usize)> {
    if cx.opset() >= 13 {
        return Ok((x.shape().to_vec(), axis(cx.int_or("axis", -1)?, x.rank())?));
    }
    let at = layout::first_column(cx, x.rank())?;
    // Sizes cannot be joined.
    if x.has_sizes() && at + 1 == x.rank() {
        return Ok((x.shape().to_vec(), at));
    }
    let (rows, columns) = x.shape().split_at(at);
    Ok((vec![elements(rows)?, elements(columns)?], 1))
}

/// An operation on one axis, or on rows before opset 13.
fn on_axis(
    cx: &mut NodeContext<'_>,
    operation: fn(&Tensor, isize) -> Result<Tensor, TensorError>,
) -> Lowered {
    let x = cx.value(0)?;
    let (shape, at) = softmax_axes(cx, &x)?;
    let flat = cx.reshaped(&x, &shape)?;
    let result = cx.operation([&flat], x.dtype(), x.shape(), |[x]| operation(x, at as isize))?;
    Ok(vec![result])
}

/// 1 at the first largest element of an axis, else 0.
fn hardest(x: &Tensor, at: isize) -> Result<Tensor, TensorError> {
    let last = x.rank() as isize - 1;
    let mut order: Vec<isize> = (0..last).collect();
    order.insert(at as usize, last);
    x.argmax(at)?.one_hot(x.shape()[at as usize])?.permute(&order)
}

/// An epsilon as assignment text.
fn epsilon(cx: &NodeContext<'_>) -> Result<String> {
    Ok(float(DType::F32, f64::from(cx.epsilon(1e-5)?)))
}

/// Normalization by given statistics, as in evaluation.
fn batch(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    if x.rank() < 2 {
        return Err(OnnxError::operand(0, "expected two axes or more"));
    }
    let (dtype, eps) = (x.dtype(), epsilon(cx)?);
    let wide = wide(dtype);
    let element = cx.bind_array(&x)?.whole();
    let mut channel = Vec::new();
    for at in 1..5 {
        let value = cx.value(at)?;
        if value.shape() != [x.shape()[1]] {
            return Err(OnnxError::operand(
                at,
                format!("expected one element for each of {} channels", x.shape()[1]),
            ));
        }
        channel.push(format!("{wide}({})", cx.bind_array(&value)?.at(&["i1".into()])));
    }
    let [gain, bias, mean, variance] = channel.as_slice() else {
        return Err(OnnxError::operand(1, "it is missing"));
    };
    if cx.int_or("training_mode", 0)? != 0 {
        return batch_in_training(cx, &x, &format!("{wide}({element})"), [gain, bias, mean, variance]);
    }
    let text = format!(
        "a[i1] := {gain} * recip_sqrt({variance} + {eps})\nb[i1] := {bias} - {mean} * a[i1]\n\
         {} := {dtype}({wide}({element}) * a[i1] + b[i1])",
        access("y", letters(x.rank()))
    );
    Ok(vec![cx.emit(dtype, x.extents(), &text)?])
}

/// Normalization by the statistics of the batch, and the running statistics with a part of them.
fn batch_in_training(
    cx: &mut NodeContext<'_>,
    x: &Value,
    element: &str,
    [gain, bias, mean, variance]: [&str; 4],
) -> Lowered {
    let (dtype, eps) = (x.dtype(), epsilon(cx)?);
    let (channels, all) = (x.shape()[1], x.num_elements());
    if x.has_sizes() {
        return Err(cx.needs_extents("it divides by the number of elements"));
    }
    if all == 0 {
        return Err(OnnxError::operand(0, "it has no elements"));
    }
    let count = float(DType::F32, (all / channels) as f64);
    let momentum = f64::from(cx.float_or("momentum", 0.9)?);
    let [kept, new] = [momentum, 1.0 - momentum].map(|part| float(DType::F32, part));
    let [mean_type, variance_type] = [cx.value(3)?.dtype(), cx.value(4)?.dtype()];
    let text = format!(
        "s[i1] :+= {element}\nm[i1] := s[i1] / {count}\nq[i1] :+= ({element} - m[i1]) * ({element} - m[i1])\n\
         v[i1] := q[i1] / {count}\n\
         {} := {dtype}(({element} - m[i1]) * recip_sqrt(v[i1] + {eps}) * {gain} + {bias})\n\
         rm[i1] := {mean_type}({mean} * {kept} + m[i1] * {new})\n\
         rv[i1] := {variance_type}({variance} * {kept} + v[i1] * {new})",
        access("y", letters(x.rank()))
    );
    let statistics = [channels];
    let results =
        [("y", dtype, x.shape()), ("rm", mean_type, &statistics), ("rv", variance_type, &statistics)];
    Ok(cx.emit_all(results, &text)?.to_vec())
}

/// Dropout: in evaluation the identity, and a mask of all elements.
fn dropout(cx: &mut NodeContext<'_>) -> Lowered {
    let is_training = match cx.optional(2) {
        Some(_) => cx.host_ints(2)?.first() == Some(&1),
        None => false,
    };
    if is_training {
        let ratio = if cx.optional(1).is_some() { cx.host_float(1)? } else { 0.5 };
        if ratio != 0.0 {
            return super::random::dropout(cx, ratio);
        }
    }
    let x = cx.value(0)?;
    let mask_type = if cx.opset() < 10 { x.dtype() } else { DType::Bool };
    match cx.wants(1) {
        true => {
            let mask = cx.filled(mask_type, x.extents(), &format!("{mask_type}(1)"))?;
            Ok(vec![x, mask])
        }
        false => Ok(vec![x]),
    }
}

/// The number of elements of the axes from `at` on, as text in the type of sums.
fn elements_from(x: &Value, at: usize) -> String {
    let (wide, extents) = (wide(x.dtype()), x.extents());
    let behind = &extents.0[at..];
    let numbers: usize =
        behind.iter().filter(|extent| extent.size.is_none()).map(|extent| extent.dim).product();
    let sizes = behind.iter().filter_map(|extent| extent.size.as_ref());
    let factors = sizes.map(|size| format!("{wide}({}) * ", size.name())).collect::<String>();
    format!("({factors}{numbers}.0)")
}

/// (x − mean) / √(variance + eps) · scale + bias over the axes from `at` on; also the mean and
/// 1/√(variance + eps), if they are wanted.
fn normalized(cx: &mut NodeContext<'_>, x: &Value, at: usize, scale: &Value, bias: Option<Value>) -> Lowered {
    let (rank, dtype, wide, eps) = (x.rank(), x.dtype(), wide(x.dtype()), epsilon(cx)?);
    let count = elements_from(x, at);
    let all = letters(rank);
    let element = cx.bind_array(x)?.whole();
    let scale = cx.bind(scale)?.broadcast(rank);
    let bias = match bias {
        Some(bias) => format!(" + {wide}({})", cx.bind(&bias)?.broadcast(rank)),
        None => String::new(),
    };
    let [y, t, d] = ["y", "t", "d"].map(|name| access(name, &all));
    let [a, m, q, v] = ["a", "m", "q", "v"].map(|name| access(name, &all[..at]));
    let text = format!(
        "{t} := {wide}({element})\n{a} :+= {t}\n{m} := {a} / {count}\n{d} := {t} - {m}\n{q} :+= {d} * {d}\n\
         {v} := recip_sqrt({q} / {count} + {eps})\n{y} := {dtype}({d} * {v} * {wide}({scale}){bias})\n"
    );
    if !cx.wants(1) && !cx.wants(2) {
        return Ok(vec![cx.emit(dtype, x.extents(), &text)?]);
    }
    let (mut reduced, mut kept) = (x.extents(), all);
    reduced.0[at..].fill(1.into());
    kept[at..].fill("0".into());
    let text = format!("{text}{} := {m}\n{} := {v}", access("mean", &kept), access("deviation", &kept));
    let results = [("y", dtype, x.extents()), ("mean", wide, reduced.clone()), ("deviation", wide, reduced)];
    Ok(cx.emit_extents(results, &text)?.to_vec())
}

fn layer(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, scale, bias) = (cx.value(0)?, cx.value(1)?, cx.optional(2));
    let at = axis(cx.int_or("axis", -1)?, x.rank())?;
    normalized(cx, &x, at, &scale, bias)
}

fn rms(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let (rank, dtype) = (x.rank(), x.dtype());
    let at = axis(cx.int_or("axis", -1)?, rank)?;
    let eps = epsilon(cx)?;
    let wide = wide(dtype);
    let all = letters(rank);
    let count = elements_from(&x, at);
    let element = format!("{wide}({})", cx.bind_array(&x)?.whole());
    let scale = cx.value(1)?;
    let scale = cx.bind(&scale)?.broadcast(rank);
    let q = access("q", &all[..at]);
    let y = access("y", &all);
    let text = format!(
        "{q} :+= {element} * {element}\n\
         {y} := {dtype}({element} * recip_sqrt({q} / {count} + {eps}) * {wide}({scale}))"
    );
    Ok(vec![cx.emit(dtype, x.extents(), &text)?])
}

/// Normalizes each channel of each element of the batch.
fn instance(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let channels = x.shape().get(1).copied().unwrap_or(1);
    grouped(cx, channels, false)
}

/// Normalizes each group of channels. Scale and bias are for groups before opset 21, and for channels after.
fn group(cx: &mut NodeContext<'_>) -> Lowered {
    let groups = usize::try_from(cx.int_or("num_groups", 0)?).unwrap_or(0);
    grouped(cx, groups, cx.opset() < 21)
}

fn grouped(cx: &mut NodeContext<'_>, groups: usize, scales_groups: bool) -> Lowered {
    let x = cx.value(0)?;
    if x.rank() < 2 || groups == 0 || !x.shape()[1].is_multiple_of(groups) {
        return Err(OnnxError::operand(0, format!("expected channels in {groups} groups")));
    }
    let members = x.shape()[1] / groups;
    // The axes are batch, group, member of the group, then space.
    let shape = [&[x.shape()[0], groups, members], &x.shape()[2..]].concat();
    let mut weights = vec![1; shape.len() - 1];
    weights[..2].copy_from_slice(&[groups, if scales_groups { 1 } else { members }]);
    let split = cx.reshaped(&x, &shape)?;
    let (scale, bias) = (cx.value(1)?, cx.value(2)?);
    let (scale, bias) = (cx.reshaped(&scale, &weights)?, cx.reshaped(&bias, &weights)?);
    let results = normalized(cx, &split, 2, &scale, Some(bias))?;
    results.iter().map(|result| cx.reshaped(result, x.shape())).collect()
}

fn local_response(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let size = cx.int_or("size", 1)?;
    if x.rank() < 2 || !(1..1 << 20).contains(&size) {
        return Err(OnnxError::attribute("size", "1 or more, and an operand with channels"));
    }
    let number = |value: f32| float(DType::F32, f64::from(value));
    let alpha = number(cx.float_or("alpha", 1e-4)? / size as f32);
    let (beta, bias) = (number(cx.float_or("beta", 0.75)?), number(cx.float_or("bias", 1.0)?));
    let source = cx.bind_array(&x)?;
    let all = letters(x.rank());
    let mut index = all.clone();
    index[1] = format!("i1 + k - {}", (size - 1) / 2);
    let (dtype, wide) = (x.dtype(), wide(x.dtype()));
    let near = format!("{wide}({})", source.padded("0", &index));
    let [y, q] = ["y", "q"].map(|name| access(name, &all));
    let text = format!(
        "{q} :+= {near} * {near} where {}, k < {size}\n\
         {y} := {dtype}({wide}({}) / pow({bias} + {alpha} * {q}, {beta}))",
        crate::shape::ranges(x.shape()),
        source.whole()
    );
    Ok(vec![cx.emit(x.dtype(), x.shape(), &text)?])
}

fn lp(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let at = axis(cx.int_or("axis", -1)?, x.rank())? as isize;
    let p = cx.int_or("p", 2)?;
    if !(1..=2).contains(&p) {
        return Err(OnnxError::attribute("p", "1 or 2"));
    }
    let result = cx.operation([&x], x.dtype(), x.shape(), |[x]| {
        let x = x.to_dtype(wide(x.dtype()))?;
        let powers = if p == 1 { x.abs()? } else { x.square()? };
        let sum = powers.sum_keepdim(at)?;
        let norm = if p == 1 { sum.clone() } else { sum.sqrt()? };
        sum.eq(0.0)?.where_(0.0, x.div(norm)?)
    })?;
    Ok(vec![result])
}

fn mean_variance(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let given = cx.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
    let reduced = crate::shape::axes(&given, x.rank())?;
    let axes: Vec<isize> = reduced.into_iter().map(|at| at as isize).collect();
    let result = cx.operation([&x], x.dtype(), x.shape(), |[x]| {
        let x = x.to_dtype(wide(x.dtype()))?;
        let distance = x.sub(x.mean_keepdim(axes.as_slice())?)?;
        let deviation = distance.square()?.mean_keepdim(axes.as_slice())?.sqrt()?;
        distance.div((deviation + 1e-9)?)
    })?;
    Ok(vec![result])
}
