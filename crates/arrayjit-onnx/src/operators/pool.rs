//! Pooling over windows of any number of axes.

use tnode::DType;

use super::{
    context::{Lowered, NodeContext, Statement},
    operator::{Operator, op},
    reduce::wide,
    shape::sizes,
    window::{AxisWindow, margins, names, per_axis, prefixed, windows},
};
use crate::{
    error::NodeProblem,
    host::float,
    shape::{access, clause, elements, letters},
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("AveragePool", 1, average_pool),
    op("GlobalAveragePool", 1, |cx| global(cx, ":+=")),
    op("GlobalLpPool", 2, global_norm),
    op("GlobalMaxPool", 1, |cx| global(cx, ":max=")),
    op("LpPool", 2, norm_pool),
    op("MaxPool", 1, max_pool),
    op("MaxUnpool", 9, max_unpool),
];

/// The shape of the result of a pooling.
fn pooled_shape(shape: &[usize], windows: &[AxisWindow]) -> Vec<usize> {
    shape.iter().take(2).copied().chain(windows.iter().map(|window| window.count)).collect()
}

fn kernel(cx: &NodeContext<'_, '_>) -> Result<Vec<usize>, NodeProblem> {
    let axes = cx.ints("kernel_shape")?.map_or(0, |sizes| sizes.len());
    if axes == 0 {
        return Err(NodeProblem::attribute("kernel_shape", "positive integers"));
    }
    per_axis(cx, "kernel_shape", axes)
}

/// The ranges of the letters of a pooling.
fn pool_ranges(shape: &[usize], windows: &[AxisWindow]) -> String {
    let space = windows
        .iter()
        .enumerate()
        .map(|(at, window)| format!(", o{at} < {}, k{at} < {}", window.count, window.kernel));
    format!("b < {}, c < {}{}", shape[0], shape[1], space.collect::<String>())
}

fn average_pool(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let x = cx.value(0)?;
    let windows = windows(cx, x.shape(), &kernel(cx)?)?;
    let shape = pooled_shape(x.shape(), &windows);
    let (dtype, axes) = (x.dtype(), windows.len());
    let counts_margins = cx.int_or("count_include_pad", 0)? != 0;
    let mut statement = Statement::default();
    let source = cx.bind_array(&mut statement, &x)?;
    let index: Vec<String> = windows.iter().enumerate().map(|(at, window)| window.index(at)).collect();
    let index = prefixed(&["b", "c"], index);
    let wide = wide(dtype);
    let is_padded = windows.iter().any(AxisWindow::is_padded);
    let value = if is_padded { source.padded("0", &index) } else { source.at(&index) };
    let [y, s] = ["y", "s"].map(|name| access(name, &prefixed(&["b", "c"], names("o", axes))));
    let ranges = pool_ranges(x.shape(), &windows);
    // The number of elements of a window that count: a product over axes of sums over the window.
    let mut text = format!("{s} :+= {wide}({value}) where {ranges}\n");
    let mut divisor = Vec::new();
    for (at, window) in windows.iter().enumerate() {
        let index = window.index(at);
        let (low, high) = match counts_margins {
            true => (-window.before, window.size as i64 + window.after),
            false => (0, window.size as i64),
        };
        match is_padded {
            true => {
                let inside = format!("and({index} >= {low}, {index} < {high})");
                let (kernel, count) = (window.kernel, window.count);
                text.push_str(&format!(
                    "n{at}[o{at}] :+= {wide}({inside}) where o{at} < {count}, k{at} < {kernel}\n"
                ));
                divisor.push(format!("n{at}[o{at}]"));
            }
            false => divisor.push(format!("{}.0", window.kernel)),
        }
    }
    text.push_str(&format!("{y} := {dtype}({s} / ({}))", divisor.join(" * ")));
    Ok(vec![cx.emit(&statement, dtype, &shape, &text)?])
}

fn max_pool(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let x = cx.value(0)?;
    let windows = windows(cx, x.shape(), &kernel(cx)?)?;
    let shape = pooled_shape(x.shape(), &windows);
    let (dtype, axes) = (x.dtype(), windows.len());
    let mut statement = Statement::default();
    let source = cx.bind_array(&mut statement, &x)?;
    let index: Vec<String> = windows.iter().enumerate().map(|(at, window)| window.index(at)).collect();
    let index = prefixed(&["b", "c"], index);
    let outside = if dtype.is_float() { "-inf".to_owned() } else { lowest(dtype).to_string() };
    let value = match windows.iter().any(AxisWindow::is_padded) {
        true => source.padded(&outside, &index),
        false => source.at(&index),
    };
    let [y, p] = ["y", "p"].map(|name| access(name, &prefixed(&["b", "c"], names("o", axes))));
    let ranges = pool_ranges(x.shape(), &windows);
    let most = format!("{y} :max= {value} where {ranges}");
    if !cx.wants(1) {
        return Ok(vec![cx.emit(&statement, dtype, &shape, &most)?]);
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
    let results = [("y", dtype, shape.as_slice()), ("p", DType::I64, shape.as_slice())];
    Ok(cx.emit_all(&statement, results, &text)?.to_vec())
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

fn lowest(dtype: DType) -> i64 {
    match dtype {
        DType::I8 => i8::MIN.into(),
        DType::I32 => i32::MIN.into(),
        DType::I64 => i64::MIN,
        _ => 0,
    }
}

fn global(cx: &mut NodeContext<'_, '_>, op: &str) -> Lowered {
    let x: Value = cx.value(0)?;
    if x.rank() < 3 {
        return Err(NodeProblem::operand(0, "expected three axes or more"));
    }
    let space = x.rank() - 2;
    let shape: Vec<usize> = x.shape().iter().take(2).copied().chain(vec![1; space]).collect();
    let dtype = x.dtype();
    let mut statement = Statement::default();
    let index = prefixed(&["b", "c"], names("k", space));
    let element = cx.bind_array(&mut statement, &x)?.at(&index);
    let y = access("y", &prefixed(&["b", "c"], vec!["0".into(); space]));
    let wide = wide(dtype);
    let count: usize = x.shape().iter().skip(2).product();
    let finish = if op == ":+=" { format!("s[b,c] / {count}.0") } else { "s[b,c]".into() };
    let text = format!("s[b,c] {op} {wide}({element})\n{y} := {dtype}({finish})");
    Ok(vec![cx.emit(&statement, dtype, &shape, &text)?])
}

/// The exponent of a norm.
fn exponent(cx: &NodeContext<'_, '_>) -> Result<i64, NodeProblem> {
    let p = cx.int_or("p", 2)?;
    if p > 0 { Ok(p) } else { Err(NodeProblem::attribute("p", "a positive integer")) }
}

/// The power of the magnitude of an element, and the norm from the sum of the powers.
fn norm_texts(p: i64, element: &str, sum: &str) -> (String, String) {
    match p {
        1 => (format!("abs({element})"), sum.to_owned()),
        2 => (format!("{element} * {element}"), format!("sqrt({sum})")),
        _ => {
            let inverse = float(DType::F64, 1.0 / p as f64);
            (format!("pow(abs({element}), {p})"), format!("pow({sum}, {inverse})"))
        }
    }
}

/// The norm of the elements of each window; the margins are 0.
fn norm_pool(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let x = cx.value(0)?;
    let windows = windows(cx, x.shape(), &kernel(cx)?)?;
    let shape = pooled_shape(x.shape(), &windows);
    let (dtype, wide, axes) = (x.dtype(), wide(x.dtype()), windows.len());
    let mut statement = Statement::default();
    let source = cx.bind_array(&mut statement, &x)?;
    let index: Vec<String> = windows.iter().enumerate().map(|(at, window)| window.index(at)).collect();
    let element = format!("{wide}({})", source.padded("0", &prefixed(&["b", "c"], index)));
    let [y, sum] = ["y", "s"].map(|name| access(name, &prefixed(&["b", "c"], names("o", axes))));
    let (power, norm) = norm_texts(exponent(cx)?, &element, &sum);
    let ranges = pool_ranges(x.shape(), &windows);
    let text = format!("{sum} :+= {power} where {ranges}\n{y} := {dtype}({norm})");
    Ok(vec![cx.emit(&statement, dtype, &shape, &text)?])
}

fn global_norm(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let x = cx.value(0)?;
    if x.rank() < 3 {
        return Err(NodeProblem::operand(0, "expected three axes or more"));
    }
    let space = x.rank() - 2;
    let shape = [&x.shape()[..2], &vec![1; space]].concat();
    let (dtype, wide) = (x.dtype(), wide(x.dtype()));
    let mut statement = Statement::default();
    let index = prefixed(&["b", "c"], names("k", space));
    let element = format!("{wide}({})", cx.bind_array(&mut statement, &x)?.at(&index));
    let (power, norm) = norm_texts(exponent(cx)?, &element, "s[b,c]");
    let y = access("y", &prefixed(&["b", "c"], vec!["0".into(); space]));
    let text = format!("s[b,c] :+= {power}\n{y} := {dtype}({norm})");
    Ok(vec![cx.emit(&statement, dtype, &shape, &text)?])
}

/// Puts elements back to the positions in the whole array from which `MaxPool` took them; others are 0.
fn max_unpool(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let (x, positions) = (cx.value(0)?, cx.value(1)?);
    let kernel = kernel(cx)?;
    let axes = kernel.len();
    let (strides, margins) = (per_axis(cx, "strides", axes)?, margins(cx, axes)?);
    if x.rank() != axes + 2 || positions.shape() != x.shape() {
        return Err(NodeProblem::operand(1, format!("{:?} does not fit {:?}", positions.shape(), x.shape())));
    }
    let mut inferred = x.shape()[..2].to_vec();
    for at in 0..axes {
        let span = (x.shape()[at + 2] as i64 - 1).checked_mul(strides[at] as i64);
        let size = span.and_then(|span| span.checked_add(kernel[at] as i64 - margins[at].0 - margins[at].1));
        let size = size.and_then(|size| usize::try_from(size).ok()).ok_or_else(NodeProblem::overflow)?;
        inferred.push(size);
    }
    let shape = match cx.optional_ints(2)? {
        Some(given) => sizes(&given)?,
        None => inferred.clone(),
    };
    if shape.len() != inferred.len() || shape.contains(&0) || inferred.contains(&0) {
        return Err(NodeProblem::operand(2, format!("{shape:?} does not fit {inferred:?}")));
    }
    // Positions are those in the result, as in onnxruntime. Only the standard's example means the inferred
    // shape by them, and enlarges the result afterwards.
    let is_standard_example = x.shape() == [1, 1, 2, 2] && shape == [1, 1, 5, 5];
    let inner = if is_standard_example { &inferred } else { &shape };
    let count = elements(inner)?;
    let (flat_x, flat_at) =
        (cx.reshaped(&x, &[x.num_elements()])?, cx.reshaped(&positions, &[x.num_elements()])?);
    let mut statement = Statement::default();
    let element = cx.bind_array(&mut statement, &flat_x)?.whole();
    let position = cx.bind_array(&mut statement, &flat_at)?.whole();
    let (dtype, wide) = (x.dtype(), wide(x.dtype()));
    // Windows that overlap may name a position twice, and then have the same element.
    let text = format!(
        "node s {wide}[{count}], hits i32[{count}]\ns[{position}] :max= {wide}({element})\n\
         hits[{position}] :+= where({element} == {element}, 1, 1)\ny[i0] := where(hits[i0] > 0, {dtype}(s[i0]), 0)"
    );
    let flat = cx.emit(&statement, dtype, &[count], &text)?;
    let whole = cx.reshaped(&flat, inner)?;
    if shape == *inner {
        return Ok(vec![whole]);
    }
    let mut statement = Statement::default();
    let source = cx.bind_array(&mut statement, &whole)?;
    let all = letters(shape.len());
    let text = format!("{} := {}{}", access("y", &all), source.padded("0", &all), clause(&shape));
    Ok(vec![cx.emit(&statement, dtype, &shape, &text)?])
}
