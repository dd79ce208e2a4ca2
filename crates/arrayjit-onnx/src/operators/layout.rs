//! Moves of elements: reshape, transpose, slice, concatenate.

use std::cmp::Ordering;

use arrayjit_tensor::Tensor;
use tnode::HostArray;

use tnode::SizeSum;

use super::{
    context::{Affine, Lowered, MOST_ON_HOST, NodeContext},
    operator::{Operator, op},
    shape::{extents, sizes},
};
use crate::{
    error::{OnnxError, Result},
    extents::{Extent, Extents, extent},
    host::{HostValue, flatten, indices},
    shape::{access, axes, axis, elements, letter},
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("Concat", 4, concat).sized(),
    op("DepthToSpace", 1, depth_to_space),
    op("Expand", 8, expand).sized(),
    op("Flatten", 1, flatten_axes).sized(),
    op("Reshape", 5, reshape).sized(),
    op("Slice", 1, slice).sized(),
    op("SpaceToDepth", 1, space_to_depth),
    op("Split", 2, split).sized(),
    op("Squeeze", 1, squeeze).sized(),
    op("Tile", 6, tile),
    op("Transpose", 1, transpose).sized(),
    op("Trilu", 14, trilu),
    op("Unsqueeze", 1, unsqueeze).sized(),
];

fn concat(cx: &mut NodeContext<'_>) -> Lowered {
    let values = cx.values()?;
    let rank = values.first().map_or(0, Value::rank);
    let at = axis(cx.int_or("axis", 1)?, rank)?;
    Ok(vec![concatenated(cx, &values, at)?])
}

/// Joins values along an axis.
pub(super) fn concatenated(cx: &mut NodeContext<'_>, values: &[Value], at: usize) -> Result<Value> {
    /// The most parts of one statement.
    const MOST: usize = 64;
    let first = values.first().ok_or_else(|| OnnxError::operand(0, "it is missing"))?;
    let (dtype, mut shape) = (first.dtype(), first.shape().to_vec());
    shape[at] = 0;
    for (position, value) in values.iter().enumerate() {
        let fits = value.rank() == shape.len()
            && value.dtype() == dtype
            && value.shape().iter().zip(first.shape()).enumerate().all(|(axis, (a, b))| axis == at || a == b);
        if !fits {
            let problem =
                format!("{}{:?} does not fit {dtype}{:?}", value.dtype(), value.shape(), first.shape());
            return Err(OnnxError::operand(position, problem));
        }
        shape[at] = shape[at].checked_add(value.shape()[at]).ok_or_else(OnnxError::overflow)?;
    }
    let parts: Vec<Value> = values.iter().filter(|value| value.num_elements() > 0).cloned().collect();
    match parts.as_slice() {
        [] => return cx.empty(dtype, &shape),
        [only] => return Ok(only.clone()),
        _ => {}
    }
    if let Some(joined) = concatenated_on_host(&parts, at, &shape)? {
        return Ok(joined);
    }
    if parts.len() > MOST {
        let joined =
            parts.chunks(MOST).map(|chunk| concatenated(cx, chunk, at)).collect::<Result<Vec<_>, _>>()?;
        return concatenated(cx, &joined, at);
    }
    cx.operation_of(&parts, dtype, &shape, |_, tensors| {
        Tensor::concat(&tensors.iter().collect::<Vec<_>>(), at as isize)
    })
}

fn concatenated_on_host(parts: &[Value], at: usize, shape: &[usize]) -> Result<Option<Value>> {
    let known: Option<Vec<_>> = parts.iter().map(|value| value.known().cloned()).collect();
    let Some(known) = known.filter(|_| elements(shape).is_ok_and(|count| count <= MOST_ON_HOST)) else {
        return Ok(None);
    };
    let arrays: Vec<&HostArray> = known.iter().map(|value| &*value.array).collect();
    let array = HostArray::concat(&arrays, at)?;
    let is_constant = known.iter().all(|value| value.is_constant);
    Ok(Some(Value::Known(HostValue::new(array, is_constant))))
}

fn depth_to_space(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, block) = (cx.value(0)?, block_size(cx)?);
    let &[batch, channels, height, width] = x.shape() else {
        return Err(OnnxError::operand(0, "expected four axes"));
    };
    if !channels.is_multiple_of(block * block) {
        return Err(OnnxError::operand(0, "expected channels for each element of a block"));
    }
    let inner = channels / (block * block);
    let (split, order) = match cx.text_or("mode", "DCR")? {
        "DCR" => ([batch, block, block, inner, height, width], [0, 3, 4, 1, 5, 2]),
        "CRD" => ([batch, inner, block, block, height, width], [0, 1, 4, 2, 5, 3]),
        _ => return Err(OnnxError::attribute("mode", "DCR or CRD")),
    };
    let split = cx.reshaped(&x, &split)?;
    let moved = cx.permuted(&split, &order)?;
    Ok(vec![cx.reshaped(&moved, &[batch, inner, height * block, width * block])?])
}

fn block_size(cx: &NodeContext<'_>) -> Result<usize> {
    let size = usize::try_from(cx.int_or("blocksize", 0)?).ok();
    size.filter(|size| (1..1 << 16).contains(size))
        .ok_or_else(|| OnnxError::attribute("blocksize", "1 or more"))
}

fn space_to_depth(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, block) = (cx.value(0)?, block_size(cx)?);
    let &[batch, channels, height, width] = x.shape() else {
        return Err(OnnxError::operand(0, "expected four axes"));
    };
    if !height.is_multiple_of(block) || !width.is_multiple_of(block) {
        return Err(OnnxError::operand(0, "expected multiples of the block"));
    }
    let (rows, columns) = (height / block, width / block);
    let split = cx.reshaped(&x, &[batch, channels, rows, block, columns, block])?;
    let order = match cx.text_or("mode", "DCR")? {
        "DCR" => [0, 3, 5, 1, 2, 4],
        "CRD" => [0, 1, 3, 5, 2, 4],
        _ => return Err(OnnxError::attribute("mode", "DCR or CRD")),
    };
    let moved = cx.permuted(&split, &order)?;
    Ok(vec![cx.reshaped(&moved, &[batch, channels * block * block, rows, columns])?])
}

fn expand(cx: &mut NodeContext<'_>) -> Lowered {
    let wanted = extents(&cx.size_sums(1)?)?;
    let x = cx.value(0)?;
    let shape = x.extents().broadcast(&wanted)?;
    Ok(vec![cx.broadcast_to(&x, &shape)?])
}

/// The attribute `axis` of a node that makes a matrix of an array: the first axis of the columns, which there
/// need not be.
pub(super) fn first_column(cx: &NodeContext<'_>, rank: usize) -> Result<usize> {
    let at = cx.int_or("axis", 1)?;
    if at == rank as i64 { Ok(rank) } else { axis(at, rank) }
}

fn flatten_axes(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let (rows, columns) = x.shape().split_at(first_column(cx, x.rank())?);
    let shape = [elements(rows)?, elements(columns)?];
    Ok(vec![cx.reshaped(&x, &shape)?])
}

fn reshape(cx: &mut NodeContext<'_>) -> Lowered {
    let wanted = cx.size_sums(1)?;
    let x = cx.value(0)?;
    let keeps_zero = cx.int_or("allowzero", 0)? != 0;
    let mut extents = Vec::new();
    let mut open = None;
    for (at, size) in wanted.iter().enumerate() {
        extents.push(match size.constant() {
            Some(-1) if open.is_none() => {
                open = Some(at);
                1.into()
            }
            Some(0) if !keeps_zero => {
                let copied = x.extents().0.get(at).cloned();
                copied.ok_or_else(|| {
                    OnnxError::operand(1, format!("size 0 of axis {at} has no axis to copy"))
                })?
            }
            Some(size) if size < 0 => return Err(OnnxError::operand(1, format!("the size {size}"))),
            _ => extent(size)?,
        });
    }
    let mut shape = Extents(extents.clone()).dims();
    if let Some(at) = open {
        let known = elements(&shape)?;
        if known == 0 || !x.num_elements().is_multiple_of(known) {
            let wanted: Vec<i64> = wanted.iter().filter_map(SizeSum::constant).collect();
            let problem = format!("{:?} cannot have the shape {wanted:?}", x.shape());
            return Err(OnnxError::operand(1, problem));
        }
        shape[at] = x.num_elements() / known;
    }
    let result = cx.reshaped(&x, &shape)?;
    let found = result.extents().0;
    let fits = |(at, (found, wanted)): (usize, (&Extent, &Extent))| open == Some(at) || found == wanted;
    match found.iter().zip(&extents).enumerate().all(fits) {
        true => Ok(vec![result]),
        false => Err(cx.needs_extents("a size takes the place of another one or of a number")),
    }
}

/// Axes are an attribute before opset 13, and an operand from it on.
fn given_axes(cx: &mut NodeContext<'_>) -> Result<Option<Vec<i64>>> {
    if cx.opset() < 13 { cx.ints("axes") } else { cx.optional_ints(1) }
}

fn squeeze(cx: &mut NodeContext<'_>) -> Lowered {
    let given = given_axes(cx)?;
    let x = cx.value(0)?;
    let removed = match given {
        Some(given) => axes(&given, x.rank())?,
        None if x.has_sizes() => return Err(cx.needs_extents("it removes all axes of size 1")),
        None => (0..x.rank()).filter(|&at| x.shape()[at] == 1).collect(),
    };
    if let Some(at) = removed.iter().find(|&&at| x.shape()[at] != 1) {
        return Err(OnnxError::operand(0, format!("axis {at} of {:?} has not size 1", x.shape())));
    }
    let kept = x.shape().iter().enumerate().filter(|(at, _)| !removed.contains(at));
    let shape: Vec<usize> = kept.map(|(_, &size)| size).collect();
    Ok(vec![cx.reshaped(&x, &shape)?])
}

fn unsqueeze(cx: &mut NodeContext<'_>) -> Lowered {
    let given = given_axes(cx)?.ok_or_else(|| OnnxError::operand(1, "it is missing"))?;
    let x = cx.value(0)?;
    let rank = x.rank() + given.len();
    let added = axes(&given, rank)?;
    if added.len() != given.len() {
        return Err(OnnxError::Invalid(format!("the axes {given:?} name one twice")));
    }
    let mut own = x.shape().iter();
    let size = |at: usize| if added.contains(&at) { 1 } else { own.next().copied().unwrap_or(1) };
    let shape: Vec<usize> = (0..rank).map(size).collect();
    Ok(vec![cx.reshaped(&x, &shape)?])
}

fn transpose(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let order = permutation(cx, x.rank())?;
    Ok(vec![cx.permuted(&x, &order)?])
}

/// The attribute `perm`: axis `k` of the result is axis `order[k]`.
pub(super) fn permutation(cx: &NodeContext<'_>, rank: usize) -> Result<Vec<usize>> {
    let order = match cx.ints("perm")? {
        Some(order) => order.iter().map(|&at| axis(at, rank)).collect::<Result<Vec<_>, _>>()?,
        None => (0..rank).rev().collect(),
    };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    match sorted.into_iter().eq(0..rank) {
        true => Ok(order),
        false => Err(OnnxError::attribute("perm", format!("each of the {rank} axes once"))),
    }
}

/// Bounds are attributes before opset 10, and operands from it on.
fn slice(cx: &mut NodeContext<'_>) -> Lowered {
    let (starts, ends, given, steps) = if cx.opset() < 10 {
        let numbers = |ints: Option<Vec<i64>>| ints.into_iter().flatten().map(SizeSum::from).collect();
        let (starts, ends): (Vec<_>, Vec<_>) = (numbers(cx.ints("starts")?), numbers(cx.ints("ends")?));
        (starts, ends, cx.ints("axes")?, None)
    } else {
        (cx.size_sums(1)?, cx.size_sums(2)?, cx.optional_ints(3)?, cx.optional_ints(4)?)
    };
    let mut x = cx.value(0)?;
    let given = given.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if ends.len() != starts.len() || given.len() != starts.len() || steps.len() != starts.len() {
        return Err(OnnxError::Invalid("starts, ends, axes and steps have different lengths".into()));
    }
    let mut index: Vec<Affine> = (0..x.rank()).map(Affine::letter).collect();
    let mut extents = x.extents();
    for (((start, end), at), step) in starts.iter().zip(&ends).zip(given).zip(steps) {
        let at = axis(at, x.rank())?;
        let own = &x.extents().0[at];
        let (start, count) = match (start.constant(), end.constant(), &own.size) {
            (Some(start), Some(end), None) => {
                let (start, count) = bounds(start, end, step, own.dim)?;
                (start, count.into())
            }
            _ => {
                let found = bounds_of_sizes(start, end, step, own);
                found
                    .ok_or_else(|| cx.needs_extents(format!("axis {at} is cut in a way that sizes decide")))?
            }
        };
        extents.0[at] = count;
        index[at] = Affine { terms: vec![(at, step)], offset: start };
    }
    let shape = extents.dims();
    if shape.contains(&0) {
        return Ok(vec![cx.empty(x.dtype(), &shape)?]);
    }
    if extents != x.extents() || index.iter().any(|affine| affine.terms.iter().any(|(_, step)| *step != 1)) {
        x = cx.reindexed(&x, &extents, &index)?;
    }
    Ok(vec![x])
}

/// [`bounds`] where a run gives the size of the axis or a bound; none if sizes decide more than the number of
/// elements.
fn bounds_of_sizes(start: &SizeSum, end: &SizeSum, step: i64, axis: &Extent) -> Option<(i64, Extent)> {
    let size = SizeSum::from(axis);
    let from_start = |at: &SizeSum| match at.compared(&0.into()) {
        Some(Ordering::Less) => at.plus(&size),
        Some(_) => Some(at.clone()),
        None => None,
    };
    let (start, end) = (from_start(start)?.constant()?, from_start(end)?);
    if step != 1 || start < 0 {
        return None;
    }
    let is_whole = end.plus(&size.negated()?)?.is_never_negative();
    let end = if is_whole { size.clone() } else { end };
    // The end must be within the axis for all sizes.
    if !size.plus(&end.negated()?)?.is_never_negative() {
        return None;
    }
    Some((start, extent(&end.plus(&(-start).into())?).ok()?))
}

/// The first position and the number of elements of a slice of an axis.
fn bounds(start: i64, end: i64, step: i64, size: usize) -> Result<(i64, usize)> {
    let size = size as i64;
    let from_start = |at: i64| if at < 0 { at.saturating_add(size) } else { at };
    let (start, end) = (from_start(start), from_start(end));
    let (start, count) = match step {
        0 => return Err(OnnxError::operand(4, "a step of 0")),
        1.. => {
            let (start, end) = (start.clamp(0, size), end.clamp(0, size));
            (start, (end - start).max(0).unsigned_abs().div_ceil(step.unsigned_abs()))
        }
        _ if size == 0 => (0, 0),
        // A start in front of the axis is the first element, unlike in Python: the standard clamps it to 0.
        _ => {
            let (start, end) = (start.clamp(0, size - 1), end.clamp(-1, size - 1));
            (start, (start - end).max(0).unsigned_abs().div_ceil(step.unsigned_abs()))
        }
    };
    // A single element needs no step, which may be as large as an integer.
    Ok((start, usize::try_from(count).map_err(|_| OnnxError::overflow())?))
}

fn split(cx: &mut NodeContext<'_>) -> Lowered {
    let given = if cx.opset() < 13 { cx.ints("split")? } else { cx.optional_ints(1)? };
    let x = cx.value(0)?;
    let at = axis(cx.int_or("axis", 0)?, x.rank())?;
    if x.extents().0[at].size.is_some() {
        return Err(cx.needs_extents("it divides a size"));
    }
    let size = x.shape()[at];
    let parts = match given {
        Some(given) => sizes(&given)?,
        None => {
            let count = usize::try_from(cx.int_or("num_outputs", cx.outputs() as i64)?).unwrap_or(0).max(1);
            let each = size.div_ceil(count);
            (0..count).map(|part| each.min(size.saturating_sub(part * each))).collect()
        }
    };
    if parts.iter().try_fold(0usize, |sum, &part| sum.checked_add(part)) != Some(size) {
        return Err(OnnxError::Invalid(format!("parts of {parts:?} do not add up to {size}")));
    }
    let mut start = 0;
    let mut results = Vec::new();
    for part in parts {
        let mut extents = x.extents();
        extents.0[at] = part.into();
        let mut index: Vec<Affine> = (0..x.rank()).map(Affine::letter).collect();
        index[at].offset = start;
        results.push(match extents.dims().contains(&0) {
            true => cx.empty(x.dtype(), &extents.dims())?,
            false => cx.reindexed(&x, &extents, &index)?,
        });
        start += part as i64;
    }
    Ok(results)
}

fn tile(cx: &mut NodeContext<'_>) -> Lowered {
    let repeats = sizes(&cx.host_ints(1)?)?;
    let x = cx.value(0)?;
    if repeats.len() != x.rank() {
        return Err(OnnxError::operand(1, format!("expected a number for each of {} axes", x.rank())));
    }
    let sizes = x.shape().iter().zip(&repeats).map(|(size, count)| size.checked_mul(*count));
    let shape: Vec<usize> = sizes.collect::<Option<_>>().ok_or_else(OnnxError::overflow)?;
    if let Some(known) = x.known().filter(|_| elements(&shape).is_ok_and(|count| count <= MOST_ON_HOST)) {
        let position = |at: Vec<usize>| {
            let own: Vec<usize> = at.iter().zip(x.shape()).map(|(at, size)| at % size).collect();
            flatten(&own, x.shape())
        };
        let array = crate::host::picked(&known.array, &shape, indices(&shape).map(position))?;
        return Ok(vec![cx.known(array)]);
    }
    let read = cx.bind_array(&x)?.whole();
    let target = x.shape().iter().enumerate().map(|(at, size)| format!("{size}*r{at} + {}", letter(at)));
    let target = access("y", target.collect::<Vec<_>>());
    let ranges: Vec<String> =
        repeats.iter().enumerate().map(|(at, count)| format!("r{at} < {count}")).collect();
    let clause = if ranges.is_empty() { String::new() } else { format!(" where {}", ranges.join(", ")) };
    Ok(vec![cx.emit(x.dtype(), &shape, &format!("{target} := {read}{clause}"))?])
}

pub(super) fn trilu(cx: &mut NodeContext<'_>) -> Lowered {
    let diagonal = cx.optional_ints(1)?.and_then(|values| values.first().copied()).unwrap_or(0);
    let x = cx.value(0)?;
    let rank = x.rank();
    if rank < 2 {
        return Err(OnnxError::operand(0, "expected two axes or more"));
    }
    let is_upper = cx.int_or("upper", 1)? != 0;
    let diagonal = diagonal.clamp(-(1 << 30), 1 << 30) as isize;
    let result = cx.operation([&x], x.dtype(), x.shape(), |[x]| match is_upper {
        true => x.triu(diagonal),
        false => x.tril(diagonal),
    })?;
    Ok(vec![result])
}
