//! Sequences: lists of arrays, whose lengths are known while a model is traced.

use std::sync::Arc;

use tnode::HostArray;

use super::{
    context::{Affine, Lowered, NodeContext},
    layout::concatenated,
    operator::{Operator, list_op},
    shape::sizes,
};
use crate::{
    error::{OnnxError, Result},
    host::HostValue,
    shape::axis,
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    list_op("ConcatFromSequence", 11, joined),
    list_op("SequenceAt", 11, item),
    list_op("SequenceConstruct", 11, |cx| Ok(vec![sequence(cx.values()?)?])),
    list_op("SequenceEmpty", 11, |cx| {
        cx.dtype_attribute("dtype")?;
        Ok(vec![sequence(Vec::new())?])
    }),
    list_op("SequenceErase", 11, erased),
    list_op("SequenceInsert", 11, inserted),
    list_op("SequenceLength", 11, |cx| {
        let count = items(cx, 0)?.len() as i64;
        Ok(vec![Value::Known(HostValue::new(HostArray::from_slice(&[count], [])?, false))])
    }),
    list_op("SequenceMap", 17, mapped),
    list_op("SplitToSequence", 11, split),
];

/// The items of an operand.
fn items(cx: &NodeContext<'_>, at: usize) -> Result<Arc<Vec<Value>>> {
    match cx.value(at)? {
        Value::Sequence(items) => Ok(items),
        _ => Err(OnnxError::operand(at, "it is an array, expected a sequence")),
    }
}

/// A sequence of arrays of one type.
fn sequence(items: Vec<Value>) -> Result<Value> {
    for (at, item) in items.iter().enumerate() {
        check_item(item, &items, at)?;
    }
    Ok(Value::Sequence(Arc::new(items)))
}

/// Checks that an operand can be in a sequence with these items.
fn check_item(item: &Value, items: &[Value], operand: usize) -> Result<()> {
    if matches!(item, Value::Sequence(_)) {
        return Err(OnnxError::operand(operand, "it is a sequence, expected an array"));
    }
    match items.first().map(Value::dtype).filter(|&dtype| dtype != item.dtype()) {
        Some(expected) => Err(OnnxError::operand(
            operand,
            format!("it is {}, and the items of the sequence are {expected}", item.dtype()),
        )),
        None => Ok(()),
    }
}

/// The position in a sequence that an operand has, of `count` positions; none if it is not given.
fn position(cx: &mut NodeContext<'_>, at: usize, count: usize) -> Result<Option<usize>> {
    let Some(given) = cx.optional_ints(at)? else { return Ok(None) };
    let [given] = given.as_slice() else { return Err(OnnxError::operand(at, "expected one element")) };
    let wrong = |_| OnnxError::operand(at, format!("position {given} is outside of {count} positions"));
    axis(*given, count).map(Some).map_err(wrong)
}

fn item(cx: &mut NodeContext<'_>) -> Lowered {
    let items = items(cx, 0)?;
    let at = position(cx, 1, items.len())?.ok_or_else(|| OnnxError::operand(1, "it is missing"))?;
    Ok(vec![items[at].clone()])
}

/// Without a position, the item is the last one.
fn inserted(cx: &mut NodeContext<'_>) -> Lowered {
    let (list, new) = (items(cx, 0)?, cx.value(1)?);
    check_item(&new, &list, 1)?;
    let count = list.len();
    // Copies of long sequences are work too.
    cx.steps(count / 64)?;
    let at = match cx.optional_ints(2)?.as_deref() {
        // From the end, positions stand before the items.
        Some([at]) if *at < 0 => position(cx, 2, count)?,
        Some(_) => position(cx, 2, count + 1)?,
        None => None,
    };
    let (front, back) = list.split_at(at.unwrap_or(count));
    Ok(vec![Value::Sequence(Arc::new([front, &[new], back].concat()))])
}

/// Without a position, the last item goes.
fn erased(cx: &mut NodeContext<'_>) -> Lowered {
    let list = items(cx, 0)?;
    let last = list.len().checked_sub(1);
    let last = last.ok_or_else(|| OnnxError::operand(0, "the sequence has no items"))?;
    let at = position(cx, 1, list.len())?.unwrap_or(last);
    Ok(vec![Value::Sequence(Arc::new([&list[..at], &list[at + 1..]].concat()))])
}

/// Joins the items along an axis, which is a new one of size 1 of each item if the node asks for it.
fn joined(cx: &mut NodeContext<'_>) -> Lowered {
    let list = items(cx, 0)?;
    let first = list.first().ok_or_else(|| OnnxError::operand(0, "the sequence has no items"))?;
    let given = cx.int("axis")?.ok_or_else(|| OnnxError::attribute("axis", "an integer"))?;
    let is_new = cx.int_or("new_axis", 0)? != 0;
    let at = axis(given, first.rank() + usize::from(is_new))?;
    if !is_new {
        return Ok(vec![concatenated(cx, &list, at)?]);
    }
    let mut rows = Vec::new();
    for item in list.iter() {
        if item.shape() != first.shape() {
            let problem = format!("{:?} does not fit {:?}", item.shape(), first.shape());
            return Err(OnnxError::operand(0, problem));
        }
        let mut shape = item.shape().to_vec();
        shape.insert(at, 1);
        rows.push(cx.reshaped(item, &shape)?);
    }
    Ok(vec![concatenated(cx, &rows, at)?])
}

/// Parts of an array along an axis: of the given sizes, of one given size, or of size 1.
fn split(cx: &mut NodeContext<'_>) -> Lowered {
    let given = cx.optional_ints(1)?.map(|given| sizes(&given)).transpose()?;
    let is_equal = cx.optional(1).is_none_or(|value| value.rank() == 0);
    let x = cx.value(0)?;
    if matches!(x, Value::Sequence(_)) {
        return Err(OnnxError::operand(0, "it is a sequence, expected an array"));
    }
    let at = axis(cx.int_or("axis", 0)?, x.rank())?;
    let size = x.shape()[at];
    // The attribute counts only without sizes.
    let is_kept = given.is_some() || cx.int_or("keepdims", 1)? != 0;
    let parts = match (given, is_equal) {
        (Some(given), false) => given,
        (given, _) => {
            let each = given.map_or(Some(1), |given| given.first().copied()).filter(|&each| each > 0);
            let each = each.ok_or_else(|| OnnxError::operand(1, "expected a positive size"))?;
            cx.steps(size.div_ceil(each))?;
            (0..size).step_by(each).map(|start| each.min(size - start)).collect()
        }
    };
    if parts.iter().try_fold(0usize, |sum, &part| sum.checked_add(part)) != Some(size) {
        return Err(OnnxError::operand(1, format!("parts of {parts:?} do not add up to {size}")));
    }
    let (mut start, mut items) = (0, Vec::new());
    for part in parts {
        let mut shape = x.shape().to_vec();
        shape[at] = part;
        let mut index: Vec<Affine> = (0..x.rank()).map(Affine::letter).collect();
        index[at].offset = start;
        start += part as i64;
        let mut item = match shape.contains(&0) {
            true => cx.empty(x.dtype(), &shape)?,
            false => cx.reindexed(&x, &shape, &index)?,
        };
        if !is_kept {
            shape.remove(at);
            item = cx.reshaped(&item, &shape)?;
        }
        items.push(item);
    }
    Ok(vec![sequence(items)?])
}

/// Evaluates the body for each item of the first operand. Other operands are sequences of the same length, or
/// arrays that each evaluation gets.
fn mapped(cx: &mut NodeContext<'_>) -> Lowered {
    let count = items(cx, 0)?.len();
    let body = cx.graph("body")?.clone();
    let operands = cx.values()?;
    let mut lists: Vec<Vec<Value>> = vec![Vec::new(); body.outputs.len()];
    cx.keeping(operands.clone(), |cx| -> Result<()> {
        for step in 0..count {
            cx.steps(1)?;
            let mut inputs = Vec::new();
            for (at, operand) in operands.iter().enumerate() {
                inputs.push(match operand {
                    Value::Sequence(items) => items.get(step).cloned().ok_or_else(|| {
                        OnnxError::operand(at, format!("it has {} items, expected {count}", items.len()))
                    })?,
                    array => array.clone(),
                });
            }
            let results = cx.subgraph(&body, inputs)?;
            cx.keep(results.clone());
            lists.iter_mut().zip(results).for_each(|(list, value)| list.push(value));
        }
        Ok(())
    })?;
    lists.into_iter().map(sequence).collect()
}
