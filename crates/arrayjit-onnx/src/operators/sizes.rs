//! Sizes that each run gives: arithmetic with them, and arrays of them.

use std::{cmp::Ordering, sync::Arc};

use super::{context::NodeContext, joined, operator::Operator};
use crate::{
    error::{OnnxError, Result},
    host::{array_of, indices},
    shape::{broadcast, broadcast_position},
    value::{SizeArray, Value},
};
use tnode::{DType, Scalar, SizeSum};

/// The results of a node with sizes; none if its operator computes them.
pub(super) fn lowered(cx: &mut NodeContext<'_>, operator: &Operator) -> Result<Option<Vec<Value>>> {
    if let Some(result) = computed(cx)? {
        return Ok(Some(vec![result]));
    }
    if let Some(results) = moved(cx)? {
        return Ok(Some(results));
    }
    if let Some(results) = joined::lowered(cx)? {
        return Ok(Some(results));
    }
    match operator.takes_sizes {
        true => Ok(None),
        false => Err(cx.needs_extents("the operator takes no sizes that each run gives")),
    }
}

/// The operands that are integers which follow from sizes, all of them; none if any is none.
fn arrays(cx: &NodeContext<'_>) -> Option<Vec<Arc<SizeArray>>> {
    let operands = (0..cx.inputs()).map(|at| cx.optional(at));
    let operands: Vec<Option<Value>> = operands.collect();
    if !operands.iter().flatten().any(|value| matches!(value, Value::Sizes(_))) {
        return None;
    }
    operands.iter().map(|value| SizeArray::of(value.as_ref()?)).collect()
}

/// The result of an operator that moves elements: it moves their positions.
fn moved(cx: &mut NodeContext<'_>) -> Result<Option<Vec<Value>>> {
    let moved = match cx.operator() {
        "Concat" => cx.inputs(),
        "Flatten" | "Gather" | "Identity" | "Reshape" | "Slice" | "Split" | "Squeeze" | "Transpose"
        | "Unsqueeze" => 1,
        _ => return Ok(None),
    };
    let operands: Vec<Option<Value>> = (0..cx.inputs()).map(|at| cx.optional(at)).collect();
    let (own, rest) = operands.split_at(moved);
    if !own.iter().flatten().any(|value| matches!(value, Value::Sizes(_))) {
        return Ok(None);
    }
    let own = own.iter().map(|value| SizeArray::of(value.as_ref()?)).collect::<Option<Vec<_>>>();
    let own = own.ok_or_else(|| cx.needs_extents("it joins sizes with other values"))?;
    let (mut elements, mut positions, mut dtype) = (Vec::new(), Vec::new(), DType::I64);
    for array in own {
        positions.push(Some(array.positions(elements.len())?));
        elements.extend(array.elements.iter().cloned());
        dtype = array.dtype;
    }
    let results = cx.lowered_with([positions.as_slice(), rest].concat())?;
    let restored = |value: Value| {
        let lost = || OnnxError::Invalid("a position has no element".into());
        let known = value.known().ok_or_else(lost)?;
        let element = |at: i64| elements.get(usize::try_from(at).ok()?).cloned();
        let elements = known.ints().into_iter().map(element).collect::<Option<Vec<_>>>();
        let shape = known.shape().to_vec();
        SizeArray { dtype, shape, elements: elements.ok_or_else(lost)? }.value()
    };
    results.into_iter().map(restored).collect::<Result<Vec<_>>>().map(Some)
}

/// The result of arithmetic with integers that follow from sizes; none if it is none, an error if it follows
/// from them in another way than a sum of multiples.
fn computed(cx: &mut NodeContext<'_>) -> Result<Option<Value>> {
    let Some(arrays) = arrays(cx) else { return Ok(None) };
    let arrays: Vec<&SizeArray> = arrays.iter().map(|array| &**array).collect();
    let operator = cx.operator();
    let found = match (operator, arrays.as_slice()) {
        ("Cast", [x]) => match cx.dtype_attribute("to")? {
            Some(dtype @ (DType::I32 | DType::I64)) => {
                let (shape, elements) = (x.shape.clone(), x.elements.clone());
                return SizeArray { dtype, shape, elements }.value().map(Some);
            }
            _ => None,
        },
        ("Neg", [_]) => each(&arrays, |element| element[0].negated())?,
        ("Add" | "Sum", [_, _]) => each(&arrays, |element| element[0].plus(element[1]))?,
        ("Sub", [_, _]) => each(&arrays, |element| element[0].plus(&element[1].negated()?))?,
        ("Mul", [_, _]) => each(&arrays, |element| element[0].times(element[1]))?,
        ("Div", [_, _]) => each(&arrays, |element| quotient(element[0], element[1]))?,
        ("Max", [_, _]) => each(&arrays, |element| extreme(element, Ordering::Greater))?,
        ("Min", [_, _]) => each(&arrays, |element| extreme(element, Ordering::Less))?,
        ("Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual", [_, _]) => {
            each(&arrays, |element| holds(operator, element[0].compared(element[1])?))?
        }
        ("Where", [condition, _, _]) if condition.dtype == DType::Bool => each(&arrays, |element| {
            element.get(1 + usize::from(element[0].constant()? == 0)).copied().cloned()
        })?,
        _ => return Ok(None),
    };
    let Some((shape, elements)) = found else {
        return Err(cx.needs_extents("the result is no sum of multiples of sizes"));
    };
    let is_truth = matches!(operator, "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual");
    let dtype = if is_truth { DType::Bool } else { arrays.last().map_or(DType::I64, |array| array.dtype) };
    match is_truth {
        true => {
            let truths =
                elements.iter().map(|truth| Scalar::from_i64(DType::I64, truth.constant().unwrap_or(0)));
            Ok(Some(cx.known(array_of(dtype, &shape, truths)?)))
        }
        false => SizeArray { dtype, shape, elements }.value().map(Some),
    }
}

/// The quotient of two sums, rounded towards 0; none if sizes decide whether it is negative.
fn quotient(dividend: &SizeSum, divisor: &SizeSum) -> Option<SizeSum> {
    match (dividend.constant(), divisor.constant()?) {
        (Some(dividend), divisor) => dividend.checked_div(divisor).map(SizeSum::from),
        (None, divisor) if dividend.is_never_negative() => dividend.floor_over(divisor),
        (None, _) => None,
    }
}

/// The greater or lesser of two sums, if it is the same for all sizes.
fn extreme(element: &[&SizeSum], wanted: Ordering) -> Option<SizeSum> {
    let order = element[0].compared(element[1])?;
    Some(element[usize::from(order != wanted)].clone())
}

/// The truth of a comparison.
fn holds(operator: &str, order: Ordering) -> Option<SizeSum> {
    let truth = match operator {
        "Equal" => order.is_eq(),
        "Greater" => order.is_gt(),
        "GreaterOrEqual" => order.is_ge(),
        "Less" => order.is_lt(),
        _ => order.is_le(),
    };
    Some(i64::from(truth).into())
}

/// The results of a function of each element of operands that are broadcast, with their shape; none if the
/// function has none for an element.
fn each(
    arrays: &[&SizeArray],
    function: impl Fn(&[&SizeSum]) -> Option<SizeSum>,
) -> Result<Option<(Vec<usize>, Vec<SizeSum>)>> {
    let shape = arrays.iter().try_fold(Vec::new(), |shape, array| broadcast(&shape, &array.shape))?;
    let element = |index: Vec<usize>| {
        let own = arrays.iter().map(|array| array.elements.get(broadcast_position(&index, &array.shape)));
        function(&own.collect::<Option<Vec<_>>>()?)
    };
    let elements: Option<Vec<SizeSum>> = indices(&shape).map(element).collect();
    Ok(elements.map(|elements| (shape, elements)))
}
