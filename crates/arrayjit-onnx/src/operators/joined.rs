//! Operators on arrays with axes that join several.
//!
//! A reshape to `[-1, 768]` joins axes of `[b, t, 768]`. Operators compute with the axes that are joined, and
//! their results join the same axes: an axis that joins others is one that an operator neither sums nor moves
//! within.

use std::sync::Arc;

use super::{
    context::{Lowered, NodeContext, Operand},
    contract, elementwise, layout,
};
use crate::{
    error::Result,
    extents::{Extent, Extents, extent},
    ir::Attribute,
    joined::JoinedArray,
    shape::{access, axis, elements},
    value::Value,
};

/// The results of a node that joins axes or has an operand with such axes; none if it is no such node.
pub(super) fn lowered(cx: &mut NodeContext<'_>) -> Result<Option<Vec<Value>>> {
    let operator = cx.operator();
    if matches!(operator, "Flatten" | "Reshape") {
        return Ok(reshaped(cx)?.map(|value| vec![value]));
    }
    let values: Vec<Value> = (0..cx.inputs()).filter_map(|at| cx.optional(at)).collect();
    if !values.iter().any(|value| matches!(value, Value::Joined(_))) {
        return Ok(None);
    }
    let results = match operator {
        "Gather" => gathered(cx),
        "Gemm" | "MatMul" => product(cx, operator == "Gemm"),
        "Transpose" => transposed(cx),
        "LayerNormalization" | "LogSoftmax" | "RMSNormalization" | "Softmax" => along_last(cx),
        "Concat" | "Split" => along(cx),
        name if elementwise::has(name) => of_elements(cx),
        _ => Err(cx.needs_extents("the operator takes no axis that joins several")),
    };
    results.map(Some)
}

/// For each axis, the number of axes that it joins.
fn groups(value: &Value) -> Vec<usize> {
    match value {
        Value::Joined(array) => array.groups().to_vec(),
        plain => vec![1; plain.rank()],
    }
}

/// The array whose axes are joined.
fn split(value: &Value) -> Value {
    match value {
        Value::Joined(array) => array.split().clone(),
        plain => plain.clone(),
    }
}

/// The array whose axis `k` joins as many axes of the value as `groups` says.
fn joined(cx: &mut NodeContext<'_>, value: &Value, groups: &[usize]) -> Result<Value> {
    if groups.iter().all(|&count| count == 1) {
        return Ok(value.clone());
    }
    let (mut axes, mut parts, mut kept) = (value.extents().0.into_iter(), Vec::new(), Vec::new());
    for &count in groups {
        let group = Extents(axes.by_ref().take(count).collect());
        // Numbers join to a number.
        if group.has_sizes() && count > 1 {
            kept.push(count);
            parts.extend(group.0);
        } else {
            kept.push(1);
            parts.push(match group.0.as_slice() {
                [one] => one.clone(),
                _ => elements(&group.dims())?.into(),
            });
        }
    }
    let value = cx.reshaped(value, &Extents(parts).dims())?;
    Ok(match kept.iter().all(|&count| count == 1) {
        true => value,
        false => Value::Joined(Arc::new(JoinedArray::new(value, kept))),
    })
}

/// What a reshape asks of an axis of its result.
enum Wanted {
    /// This many elements.
    Exact(Extent),
    /// These axes, joined.
    Axes(Vec<Extent>),
    /// What the others leave.
    Open,
}

/// The reshaped value; none if another place has to reshape it.
fn reshaped(cx: &mut NodeContext<'_>) -> Result<Option<Value>> {
    let x = cx.value(0)?;
    let own = split(&x).extents().0;
    let axes_of = |at: usize| -> Option<Vec<Extent>> {
        let groups = groups(&x);
        let start: usize = groups.get(..at)?.iter().sum();
        Some(own.get(start..start + groups.get(at)?)?.to_vec())
    };
    let mut wanted = Vec::new();
    if cx.operator() == "Flatten" {
        let at = layout::first_column(cx, x.rank())?;
        for part in [0..at, at..x.rank()] {
            wanted.push(Wanted::Axes(part.filter_map(axes_of).flatten().collect()));
        }
    } else {
        let keeps_zero = cx.int_or("allowzero", 0)? != 0;
        for (at, sum) in cx.size_sums(1)?.iter().enumerate() {
            wanted.push(match sum.constant() {
                Some(-1) => Wanted::Open,
                Some(0) if !keeps_zero => match axes_of(at) {
                    Some(axes) => Wanted::Axes(axes),
                    None => return Ok(None),
                },
                Some(size) if size < 1 => return Ok(None),
                _ => Wanted::Exact(extent(sum)?),
            });
        }
    }
    let is_joined = matches!(x, Value::Joined(_));
    let Some(matched) = matched(own, &wanted) else {
        return match is_joined {
            true => Err(cx.needs_extents("an axis that joins several is divided in another way")),
            false => Ok(None),
        };
    };
    let groups: Vec<usize> = matched.iter().map(Vec::len).collect();
    if !is_joined && groups.iter().all(|&count| count == 1) {
        return Ok(None);
    }
    let parts = Extents(matched.concat());
    let value = cx.reshaped(&split(&x), &parts.dims())?;
    match value.extents() == parts {
        true => joined(cx, &value, &groups).map(Some),
        false => Err(cx.needs_extents("a size takes the place of another one or of a number")),
    }
}

/// The axes that each axis of a reshape's result joins, at least one for each; none if they do not follow the
/// axes of the array.
fn matched(axes: Vec<Extent>, wanted: &[Wanted]) -> Option<Vec<Vec<Extent>>> {
    let open = wanted.iter().position(|axis| matches!(axis, Wanted::Open));
    let (front, back) = wanted.split_at(open.unwrap_or(wanted.len()));
    let mut rest = axes;
    let mut groups = front.iter().map(|axis| taken(&mut rest, axis)).collect::<Option<Vec<_>>>()?;
    if let Some((_, back)) = back.split_first() {
        rest.reverse();
        let from_end = |axis| {
            let mut group = taken(&mut rest, axis)?;
            group.reverse();
            Some(group)
        };
        let mut last = back.iter().rev().map(from_end).collect::<Option<Vec<_>>>()?;
        last.reverse();
        rest.reverse();
        rest.retain(|extent| extent.dim != 1);
        groups.push(if rest.is_empty() { vec![1.into()] } else { std::mem::take(&mut rest) });
        groups.extend(last);
    }
    rest.iter().all(|extent| extent.dim == 1).then_some(groups)
}

/// Takes the axes from the start of `rest` that make a wanted axis.
fn taken(rest: &mut Vec<Extent>, wanted: &Wanted) -> Option<Vec<Extent>> {
    let one = || Extent::from(1);
    let wanted = match wanted {
        Wanted::Axes(axes) => {
            let all = axes.iter().map(|axis| taken(rest, &Wanted::Exact(axis.clone())));
            let all = all.collect::<Option<Vec<_>>>()?.concat();
            return Some(if all.is_empty() { vec![one()] } else { all });
        }
        Wanted::Exact(extent) => extent,
        Wanted::Open => return None,
    };
    if *wanted == one() {
        return Some(vec![one()]);
    }
    let mut product = 1;
    while product < wanted.dim {
        if rest.is_empty() {
            return None;
        }
        let first = rest.remove(0);
        if first == *wanted && product == 1 {
            return Some(vec![first]);
        }
        if first.size.is_some() || wanted.size.is_some() && first.dim != 1 {
            return None;
        }
        let missing = wanted.dim / product;
        if missing.is_multiple_of(first.dim) {
            product *= first.dim;
        } else if first.dim.is_multiple_of(missing) {
            rest.insert(0, (first.dim / missing).into());
            product *= missing;
        } else {
            return None;
        }
    }
    (product == wanted.dim).then(|| vec![wanted.clone()])
}

/// The groups of the axes to which values broadcast, and the values with the axes that are joined.
fn aligned(cx: &mut NodeContext<'_>, values: &[Value], ranks: &[usize]) -> Result<(Vec<usize>, Vec<Value>)> {
    let rank = ranks.iter().copied().max().unwrap_or(0);
    let mut shared = vec![1; rank];
    for (value, own) in values.iter().zip(ranks) {
        for (group, to) in groups(value).into_iter().zip(&mut shared[rank - own..]) {
            *to = group.max(*to);
        }
    }
    let mut all = Vec::new();
    for (value, own) in values.iter().zip(ranks) {
        let (mut shape, mut inner) = (Vec::new(), split(value).extents().dims().into_iter());
        let to = shared[rank - own..].iter().copied().chain(std::iter::repeat(1));
        for (group, to) in groups(value).into_iter().zip(to) {
            let axes: Vec<usize> = inner.by_ref().take(group).collect();
            // A single element is repeated along all joined axes.
            let fits = group == to || axes == [1];
            if !fits {
                return Err(cx.needs_extents("axes that join several have different parts"));
            }
            shape.extend(std::iter::repeat_n(1, to - group).chain(axes));
        }
        all.push(cx.reshaped(&split(value), &shape)?);
    }
    Ok((shared, all))
}

fn of_elements(cx: &mut NodeContext<'_>) -> Lowered {
    let given: Vec<Option<Value>> = (0..cx.inputs()).map(|at| cx.optional(at)).collect();
    let values: Vec<Value> = given.iter().flatten().cloned().collect();
    let ranks: Vec<usize> = values.iter().map(Value::rank).collect();
    let (groups, values) = aligned(cx, &values, &ranks)?;
    let mut values = values.into_iter();
    let operands = given.iter().map(|operand| operand.as_ref().and_then(|_| values.next())).collect();
    let results = cx.lowered_with(operands)?;
    results.iter().map(|result| joined(cx, result, &groups)).collect()
}

/// A product whose rows or batches join axes.
fn product(cx: &mut NodeContext<'_>, is_gemm: bool) -> Lowered {
    let (x, z) = (cx.value(0)?, cx.value(1)?);
    let (of_x, of_z) = (groups(&x), groups(&z));
    let unsupported = "a product sums or returns columns of an axis that joins several";
    let ([front @ .., rows, 1], [back @ .., 1, 1]) = (of_x.as_slice(), of_z.as_slice()) else {
        return Err(cx.needs_extents(unsupported));
    };
    if is_gemm {
        if cx.int_or("transA", 0)? != 0 {
            return Err(cx.needs_extents(unsupported));
        }
        let sum = contract::gemm_of_rows(cx, &split(&x), &z)?;
        let Some(bias) = cx.optional(2) else {
            let result = contract::scaled(cx, &sum, None)?;
            return Ok(vec![joined(cx, &result, &of_x)?]);
        };
        let sum = joined(cx, &sum, &of_x)?;
        let ranks = [sum.rank(), bias.rank()];
        let (groups, values) = aligned(cx, &[sum, bias], &ranks)?;
        let result = contract::scaled(cx, &values[0], values.get(1))?;
        return Ok(vec![joined(cx, &result, &groups)?]);
    }
    if *rows > 1 && !back.is_empty() {
        return Err(cx.needs_extents(unsupported));
    }
    if back.is_empty() {
        let result = cx.lowered_with(vec![Some(split(&x)), Some(z)])?;
        return result.iter().map(|result| joined(cx, result, &of_x)).collect();
    }
    let (groups, values) = aligned(cx, &[x.clone(), z.clone()], &[front.len(), back.len()])?;
    let results = cx.lowered_with(values.into_iter().map(Some).collect())?;
    let groups = [groups, vec![1, 1]].concat();
    results.iter().map(|result| joined(cx, result, &groups)).collect()
}

fn transposed(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let groups = groups(&x);
    let order = layout::permutation(cx, x.rank())?;
    let start = |at: usize| groups[..at].iter().sum::<usize>();
    let inner: Vec<usize> = order.iter().flat_map(|&at| start(at)..start(at + 1)).collect();
    let moved = cx.permuted(&split(&x), &inner)?;
    let groups: Vec<usize> = order.iter().map(|&at| groups[at]).collect();
    Ok(vec![joined(cx, &moved, &groups)?])
}

/// The attribute `axis` of a node, as an axis of the first operand, and as one of its axes before joining.
fn inner_axis(cx: &NodeContext<'_>, groups: &[usize], default: i64) -> Result<(usize, usize)> {
    let at = axis(cx.int_or("axis", default)?, groups.len())?;
    match groups[at] {
        1 => Ok((at, groups[..at].iter().sum())),
        _ => Err(cx.needs_extents("it computes along an axis that joins several")),
    }
}

/// A function of the elements of the axes from one on.
fn along_last(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let groups = groups(&x);
    let default = if cx.operator().ends_with("Softmax") && cx.opset() < 13 { 1 } else { -1 };
    let (at, inner) = inner_axis(cx, &groups, default)?;
    if groups[at..].iter().any(|&count| count != 1) {
        return Err(cx.needs_extents("it computes along an axis that joins several"));
    }
    let mut operands: Vec<Option<Value>> = (0..cx.inputs()).map(|at| cx.optional(at)).collect();
    if let Some(first) = operands.first_mut() {
        *first = Some(split(&x));
    }
    let results = cx.lowered_as("axis", Attribute::Int(inner as i64), operands)?;
    // Statistics of rows have the axes of the result.
    results.iter().map(|result| joined(cx, result, &groups)).collect()
}

/// A function that moves elements along one axis.
fn along(cx: &mut NodeContext<'_>) -> Lowered {
    let joins = if cx.operator() == "Concat" { cx.inputs() } else { 1 };
    let operands: Vec<Option<Value>> = (0..cx.inputs()).map(|at| cx.optional(at)).collect();
    let of_first = groups(&cx.value(0)?);
    let (own, others) = operands.split_at(joins.min(operands.len()));
    if own.iter().flatten().any(|value| groups(value) != of_first) {
        return Err(cx.needs_extents("axes that join several have different parts"));
    }
    let (_, inner) = inner_axis(cx, &of_first, 0)?;
    let own = own.iter().map(|value| value.as_ref().map(split)).collect::<Vec<_>>();
    let results = cx.lowered_as("axis", Attribute::Int(inner as i64), [&own, others].concat())?;
    results.iter().map(|result| joined(cx, result, &of_first)).collect()
}

/// Elements of an array at positions, either of which may have an axis that joins others.
fn gathered(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, positions) = (cx.value(0)?, cx.value(1)?);
    let (of_x, of_positions) = (groups(&x), groups(&positions));
    let at = axis(cx.int_or("axis", 0)?, x.rank())?;
    let inner: usize = of_x[..at].iter().sum();
    let groups = [&of_x[..at], &of_positions, &of_x[at + 1..]].concat();
    let result = if of_x[at] == 1 {
        let operands = vec![Some(split(&x)), Some(split(&positions))];
        cx.lowered_as("axis", Attribute::Int(inner as i64), operands)?.swap_remove(0)
    } else {
        from_joined(cx, &split(&x), (inner, of_x[at]), &split(&positions))?
    };
    Ok(vec![joined(cx, &result, &groups)?])
}

/// The elements at positions in `count` joined axes from `at` on. In memory, axes have their bounds: element
/// `q` of `[b*t]` is the one at `q / t * T + q % t`, where `T` is the bound of `t`.
fn from_joined(
    cx: &mut NodeContext<'_>,
    x: &Value,
    (at, count): (usize, usize),
    positions: &Value,
) -> Result<Value> {
    let axes = x.extents().0;
    let (front, rest) = axes.split_at(at);
    let (parts, back) = rest.split_at(count);
    let extents = Extents([front, &positions.extents().0, back].concat());
    let letters = crate::shape::letters(extents.0.len());
    let (before, after) = (&letters[..at], &letters[at + positions.rank()..]);
    let p = cx.bind_array(positions)?;
    let size = |extent: &Extent| match &extent.size {
        Some(size) => format!("i64({})", size.name()),
        None => extent.dim.to_string(),
    };
    let sizes: Vec<String> = parts.iter().map(size).collect();
    let position = format!("i64({})", p.at(&letters[at..at + positions.rank()]));
    let position = format!("where({position} < 0, {position} + {}, {position})", sizes.join(" * "));
    let term = |axis: usize| {
        let behind = sizes[axis + 1..].iter().map(|size| format!(" / {size}")).collect::<String>();
        let within = if axis == 0 { String::new() } else { format!(" % {}", sizes[axis]) };
        let stride: usize = parts[axis + 1..].iter().map(|part| part.dim).product();
        format!("{position}{behind}{within} * {stride}")
    };
    let flat = (0..count).map(term).collect::<Vec<_>>().join(" + ");
    let all = sizes.join(" * ");
    let position = format!("where(and({position} >= 0, {position} < {all}), {flat}, -1)");
    let own = cx.bind_array(x)?;
    let text = format!(
        "{}{} := {}{}",
        flat_copy("f", x, &own, (at, count))?,
        access("y", &letters),
        access("f", [before, &[position], after].concat()),
        extents.clause()
    );
    cx.emit(x.dtype(), &extents, &text)
}

/// The statement that copies an array to a node, in which `count` axes from `at` on are one. It has the
/// elements of their bounds, so that an index of it is a sum with constant factors.
pub(super) fn flat_copy(
    name: &str,
    x: &Value,
    operand: &Operand,
    (at, count): (usize, usize),
) -> Result<String> {
    let index = crate::shape::letters(x.rank());
    let read = operand.at(&index);
    let declared = format!("node {name} {}[{}]", x.dtype(), joined_axes(&x.extents(), (at, count))?.text());
    Ok(format!("{declared}\n{} := {read}\n", access(name, joined_index(&x.extents(), index, (at, count)))))
}

/// Axes of which `count` from `at` on are one, with the elements of their bounds.
pub(super) fn joined_axes(axes: &Extents, (at, count): (usize, usize)) -> Result<Extents> {
    let joined = elements(&axes.dims()[at..at + count])?;
    let mut axes = axes.clone();
    axes.0.splice(at..at + count, [joined.into()]);
    Ok(axes)
}

/// The indices of these axes, of which `count` from `at` on are one.
pub(super) fn joined_index(
    axes: &Extents,
    mut index: Vec<String>,
    (at, count): (usize, usize),
) -> Vec<String> {
    let dims = &axes.dims()[at..at + count];
    let term = |part: usize| format!("{}*{}", dims[part + 1..].iter().product::<usize>(), index[at + part]);
    let place = (0..count).map(term).collect::<Vec<_>>().join(" + ");
    index.splice(at..at + count, [place]);
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use tnode::RunSize;

    fn of(size: &str, dim: usize) -> Extent {
        Extent { dim, size: Some(RunSize::given(size, dim)) }
    }

    #[test]
    fn axes_are_joined_in_order() {
        let (b, t) = (of("b", 4), of("t", 8));
        let number = |dim: usize| Wanted::Exact(dim.into());
        let axes = || vec![b.clone(), t.clone(), 12.into()];
        let dims = |groups: Option<Vec<Vec<Extent>>>| -> Option<Vec<Vec<usize>>> {
            Some(groups?.into_iter().map(|group| Extents(group).dims()).collect())
        };
        assert_eq!(dims(matched(axes(), &[Wanted::Open, number(12)])), Some(vec![vec![4, 8], vec![12]]));
        assert_eq!(
            dims(matched(axes(), &[Wanted::Open, number(3), number(4)])),
            Some(vec![vec![4, 8], vec![3], vec![4]])
        );
        assert_eq!(dims(matched(axes(), &[Wanted::Open])), Some(vec![vec![4, 8, 12]]));
        assert_eq!(
            dims(matched(axes(), &[Wanted::Exact(b.clone()), number(1), Wanted::Open])),
            Some(vec![vec![4], vec![1], vec![8, 12]])
        );
        assert_eq!(dims(matched(axes(), &[Wanted::Exact(t.clone()), Wanted::Open])), None);
        assert_eq!(dims(matched(axes(), &[number(32), number(12)])), None);
        assert_eq!(dims(matched(axes(), &[Wanted::Open, number(24)])), None);
    }
}
