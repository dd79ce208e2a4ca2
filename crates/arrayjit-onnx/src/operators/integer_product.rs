//! Products of matrices of 8-bit integers and convolutions with them, as sums in i32 that wrap.
//!
//! `Σ (x - a) · (z - b) = Σ x·z - a · Σ z - b · Σ x + K · a · b`, where `a` and `b` are the zero points. The
//! first sum multiplies widened bytes, which targets have instructions for. Sums of a constant are computed
//! once for a session, and a constant matrix is stored in groups of four rows, in the order in which these
//! instructions read it.

use arrayjit_tensor::low_level::{AxisWindow, numbered};
use tnode::{DType, HostArray};

use super::{
    context::NodeContext,
    window::{filters_last, windows_of},
};
use crate::{
    error::{OnnxError, Result},
    extents::Extents,
    host::{ints_of, reversed},
    shape::{access, dims, letter, letters},
    value::Value,
};

/// A matrix, or several, and what is subtracted from all elements, or from each row or column.
pub(super) struct Quantized {
    pub(super) values: Value,
    pub(super) zero: Option<Value>,
}

/// Rows of a constant matrix that are stored together.
const GROUP: usize = 4;

/// The product of two matrices, without their zero points, as `matmul` of NumPy; none if an operand is no
/// matrix of 8-bit integers or has no elements.
pub(super) fn integer_product(
    cx: &mut NodeContext<'_>,
    left: &Quantized,
    right: &Quantized,
) -> Result<Option<Value>> {
    let (x, z) = (&left.values, &right.values);
    let ([.., _, depth], [.., inner, _]) = (x.shape(), z.shape()) else { return Ok(None) };
    let (depth, inner) = (*depth, *inner);
    if !has_bytes(x) || !has_bytes(z) || depth != inner || i32::try_from(depth).is_err() {
        return Ok(None);
    }
    let axes = |value: &Value, from: usize, to: usize| Extents(value.extents().0[from..to].to_vec());
    let front = |value: &Value| axes(value, 0, value.rank() - 2);
    let mut extents = front(x).broadcast(&front(z))?;
    extents.0.extend(axes(x, x.rank() - 2, x.rank() - 1).0);
    extents.0.extend(axes(z, z.rank() - 1, z.rank()).0);
    let rank = extents.0.len();
    let left_zero = zero_text(cx, left, rank, true)?;
    let right_zero = zero_text(cx, right, rank, false)?;
    let mut text = String::new();
    let mut terms = Vec::new();
    if let Some(zero) = &left_zero {
        let sum = column_sums(cx, z, rank, &mut text)?;
        terms.push(format!(" - {zero} * {sum}"));
    }
    if let Some(zero) = &right_zero {
        let sum = row_sums(cx, x, rank, &mut text)?;
        terms.push(format!(" - {zero} * {sum}"));
    }
    if let (Some(left), Some(right)) = (&left_zero, &right_zero) {
        terms.push(format!(" + {depth} * {left} * {right}"));
    }
    let product = widened_product(cx, x, z, rank)?;
    let at = letters(rank);
    let y = access("y", &at);
    text += &match terms.is_empty() {
        true => format!("{y} :+= {product}"),
        false => {
            let sum = access("s", &at);
            format!("node s i32[{}]\n{sum} :+= {product}\n{y} := {sum}{}", extents.text(), terms.concat())
        }
    };
    Ok(Some(cx.emit(DType::I32, &extents, &text)?))
}

/// The indices of a matrix within a product of that rank, whose last two axes are given.
fn indices(value: &Value, rank: usize, last: [String; 2]) -> Vec<String> {
    let front = value.rank() - 2;
    let missing = rank - 2 - front;
    let index = |(at, &size): (usize, &usize)| if size == 1 { "0".into() } else { letter(at + missing) };
    value.shape()[..front].iter().enumerate().map(index).chain(last).collect()
}

/// The product of two elements at a position along K.
fn widened_product(cx: &mut NodeContext<'_>, x: &Value, z: &Value, rank: usize) -> Result<String> {
    let (row, column) = (letter(rank - 2), letter(rank - 1));
    let (depth_at, z_text) = match grouped(cx, z)? {
        Some(groups) => {
            let z = cx.bind_array(&groups)?.at(&["g".into(), column, "k".into()]);
            (format!("{GROUP}*g + k"), z)
        }
        None => ("k".to_owned(), cx.bind_array(z)?.at(&indices(z, rank, ["k".into(), column]))),
    };
    let x = cx.bind_array(x)?.at(&indices(x, rank, [row, depth_at]));
    Ok(format!("i32({x}) * i32({z_text})"))
}

/// A constant matrix in groups of four rows: `[K / 4, N, 4]`.
fn grouped(cx: &mut NodeContext<'_>, z: &Value) -> Result<Option<Value>> {
    let (Some(known), &[depth, columns]) = (z.known().cloned(), z.shape()) else { return Ok(None) };
    if !known.is_constant || !depth.is_multiple_of(GROUP) {
        return Ok(None);
    }
    let dtype = z.dtype();
    let made = cx.table("groups of rows".into(), || {
        in_groups(known.array.bytes(), dtype, &[depth / GROUP, columns, GROUP])
    });
    made.map(Some)
}

/// A row-major matrix of bytes in groups of four rows, as an array of that shape, whose last two axes are the
/// columns and the rows of a group.
fn in_groups(matrix: &[u8], dtype: DType, shape: &[usize]) -> Result<HostArray> {
    let mut array = HostArray::zeros(dtype, shape.iter().copied())?;
    let columns = shape[shape.len() - 2];
    let groups = array.bytes_mut().chunks_exact_mut(GROUP * columns);
    for (rows, group) in matrix.chunks_exact(GROUP * columns).zip(groups) {
        for (column, bytes) in group.chunks_exact_mut(GROUP).enumerate() {
            let elements = rows.iter().skip(column).step_by(columns);
            bytes.iter_mut().zip(elements).for_each(|(to, from)| *to = *from);
        }
    }
    Ok(array)
}

/// The sum of the column of each output, as text.
fn column_sums(cx: &mut NodeContext<'_>, z: &Value, rank: usize, text: &mut String) -> Result<String> {
    let column = letter(rank - 1);
    if let (Some(known), &[_, columns]) = (z.known().filter(|known| known.is_constant).cloned(), z.shape()) {
        let table = cx.table("sums of columns".into(), || {
            let mut sums = vec![0i64; columns];
            for row in known.ints().chunks_exact(columns) {
                sums.iter_mut().zip(row).for_each(|(sum, element)| *sum += element);
            }
            ints_of(DType::I32, &[columns], &sums)
        })?;
        return Ok(cx.bind_array(&table)?.at(&[column]));
    }
    let element = cx.bind_array(z)?.at(&indices(z, rank, ["k".into(), column.clone()]));
    Ok(summed("c", z, rank, column, &element, text))
}

/// The sum of the row of each output, as text.
fn row_sums(cx: &mut NodeContext<'_>, x: &Value, rank: usize, text: &mut String) -> Result<String> {
    let row = letter(rank - 2);
    let element = cx.bind_array(x)?.at(&indices(x, rank, [row.clone(), "k".into()]));
    Ok(summed("r", x, rank, row, &element, text))
}

/// Adds statements that sum elements along K to an array of that name; returns its element.
fn summed(name: &str, value: &Value, rank: usize, outer: String, element: &str, text: &mut String) -> String {
    let front = value.rank() - 2;
    let own = value.extents().0;
    let size = if name == "c" { &own[front + 1] } else { &own[front] };
    let extents = Extents([&own[..front], std::slice::from_ref(size)].concat());
    let at = indices(value, rank, [outer, String::new()]);
    let sum = access(name, &at[..front + 1]);
    *text += &format!("node {name} i32[{}]\n{sum} :+= i32({element})\n", extents.text());
    sum
}

/// What is subtracted from the elements of an output's row or column, in i32; none if it is 0.
fn zero_text(
    cx: &mut NodeContext<'_>,
    operand: &Quantized,
    rank: usize,
    is_left: bool,
) -> Result<Option<String>> {
    let Some(zero) = &operand.zero else { return Ok(None) };
    if is_zero(zero) {
        return Ok(None);
    }
    let shape = match (zero.num_elements(), zero.rank()) {
        (1, _) => Vec::new(),
        (count, 1) if is_left => vec![count, 1],
        _ => zero.shape().to_vec(),
    };
    let zero = cx.reshaped(zero, &shape)?;
    Ok(Some(format!("i32({})", cx.bind(&zero)?.broadcast(rank))))
}

fn has_bytes(value: &Value) -> bool {
    matches!(value.dtype(), DType::U8 | DType::I8) && value.num_elements() > 0
}

fn is_zero(zero: &Value) -> bool {
    zero.known().is_some_and(|known| known.ints().iter().all(|&zero| zero == 0))
}

/// The convolution with constant filters, without the zero point of the image, plus a bias in i32; none if an
/// operand has no bytes, if filters have a zero point, or if they have groups.
pub(super) fn integer_convolution(
    cx: &mut NodeContext<'_>,
    image: &Quantized,
    filters: &Quantized,
    bias: Option<&Value>,
) -> Result<Option<Value>> {
    let (x, w) = (&image.values, &filters.values);
    let has_zero = filters.zero.as_ref().is_some_and(|zero| !is_zero(zero));
    let is_plain = w.rank() == x.rank() && w.rank() >= 3 && x.shape()[1] == w.shape()[1];
    let Some(known) = w.known().filter(|known| known.is_constant).cloned() else { return Ok(None) };
    if !has_bytes(x) || !has_bytes(w) || has_zero || !is_plain || cx.int_or("group", 1)? != 1 {
        return Ok(None);
    }
    let zero = match &image.zero {
        Some(zero) if !is_zero(zero) => match zero.known().and_then(|known| known.number()) {
            Some(number) => Some(number),
            None => return Ok(None),
        },
        _ => None,
    };
    let windows = windows_of(cx, x, w)?;
    let (axes, count) = (windows.len(), w.shape()[0]);
    let mut shape = vec![x.shape()[0], count];
    shape.extend(windows.iter().map(|window| window.count));
    let (channel, tap) = tap(cx, w, axes)?;
    let at = |(at, window): (usize, &AxisWindow)| {
        let AxisWindow { stride, dilation, before, .. } = *window;
        format!("{stride}*o{at} + {dilation}*k{at} - {before}").replace("- -", "+ ")
    };
    let pixel = ["b".to_owned(), channel].into_iter().chain(windows.iter().enumerate().map(at));
    let pixel: Vec<String> = pixel.collect();
    let image = cx.bind_array(x)?;
    let pixel = match windows.iter().any(AxisWindow::is_padded) {
        true => image.padded(zero.as_deref().unwrap_or("0"), &pixel),
        false => image.at(&pixel),
    };
    let mut terms = String::new();
    if let Some(zero) = zero {
        let sums = cx.table("sums of filters".into(), || {
            let ints = known.ints();
            let filters = ints.chunks_exact(ints.len() / count);
            ints_of(DType::I32, &[count], &filters.map(|filter| filter.iter().sum()).collect::<Vec<_>>())
        })?;
        terms += &format!(" - {zero} * {}", cx.bind_array(&sums)?.at(&["f".into()]));
    }
    if let Some(bias) = bias {
        terms += &format!(" + {}", cx.bind_array(bias)?.at(&["f".into()]));
    }
    // Sums have the filters last, because statements that read them join such a nest.
    let own = numbered("o", axes);
    let sums = [&[shape[0]], &shape[2..], &[count]].concat();
    let sum = access("s", [&["b".to_owned()], own.as_slice(), &["f".into()]].concat());
    let y = access("y", [vec!["b".to_owned(), "f".into()], own].concat());
    let text =
        format!("node s i32[{}]\n{sum} :+= i32({pixel}) * i32({tap})\n{y} := {sum}{terms}", dims(&sums));
    Ok(Some(cx.emit(DType::I32, &shape, &text)?))
}

/// The channel of an element of constant filters, and the element, as texts. If the channels are a multiple
/// of four, filters are stored in groups of four channels, in the order in which kernels read them.
fn tap(cx: &mut NodeContext<'_>, filters: &Value, axes: usize) -> Result<(String, String)> {
    let taps = numbered("k", axes);
    let known = filters.known().filter(|known| known.is_constant).cloned();
    let (Some(known), [count, channels, kernel @ ..]) = (known, filters.shape()) else {
        return Err(OnnxError::operand(1, "expected constant filters"));
    };
    let (count, channels, dtype) = (*count, *channels, filters.dtype());
    if !channels.is_multiple_of(GROUP) {
        let turned = filters_last(cx, filters)?;
        let tap = [taps, vec!["c".into(), "f".into()]].concat();
        return Ok(("c".into(), cx.bind_array(&turned)?.at(&tap)));
    }
    let size: usize = kernel.iter().product();
    let shape = [kernel, &[channels / GROUP, count, GROUP]].concat();
    let groups = cx.table("groups of channels".into(), || {
        let last = reversed(&known.array, [count, channels, size], &[size * channels, count])?;
        in_groups(last.bytes(), dtype, &shape)
    })?;
    let tap = [taps, vec!["g".into(), "f".into(), "c".into()]].concat();
    Ok((format!("{GROUP}*g + c"), cx.bind_array(&groups)?.at(&tap)))
}
