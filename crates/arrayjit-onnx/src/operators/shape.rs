//! Shapes, constants and ranges.

use std::sync::Arc;

use tnode::{DType, HostArray, Scalar, SizeSum};

use super::{
    context::{Lowered, MOST_ON_HOST, NodeContext},
    operator::{Operator, op},
};
use crate::{
    error::{OnnxError, Result},
    extents::{Extents, extent},
    host::{HostValue, array_of, floats_of, ints_of, scalars},
    ir::Attribute,
    shape::elements,
    value::{SizeArray, Value},
};

pub(super) static OPERATORS: &[Operator] = &[
    op("Constant", 1, constant),
    op("ConstantOfShape", 9, constant_of_shape).sized(),
    op("EyeLike", 9, eye_like),
    op("Range", 11, range).sized(),
    op("Shape", 1, shape).sized(),
    op("Size", 1, |cx| {
        let count = cx.value(0)?.num_elements() as i64;
        Ok(vec![Value::Known(HostValue::new(HostArray::from_slice(&[count], [])?, false))])
    }),
];

fn constant(cx: &mut NodeContext<'_>) -> Lowered {
    let array = if let Some(Attribute::Tensor(value)) = cx.attribute("value").or(cx.attribute("sparse_value"))
    {
        return Ok(vec![Value::Known(Arc::clone(value))]);
    } else if let Some(Attribute::Int(value)) = cx.attribute("value_int") {
        HostArray::from_slice(&[*value], [])?
    } else if let Some(Attribute::Float(value)) = cx.attribute("value_float") {
        HostArray::from_slice(&[*value], [])?
    } else if let Some(Attribute::Ints(values)) = cx.attribute("value_ints") {
        HostArray::from_slice(values, [values.len()])?
    } else if let Some(Attribute::Floats(values)) = cx.attribute("value_floats") {
        HostArray::from_slice(values, [values.len()])?
    } else {
        return Err(OnnxError::Case("a constant that is no tensor of numbers".into()));
    };
    Ok(vec![cx.known(array)])
}

/// The only element of an attribute as text in its type.
fn fill_value(cx: &NodeContext<'_>) -> Result<(DType, String)> {
    match cx.attribute("value") {
        None => Ok((DType::F32, "0.0".into())),
        Some(Attribute::Tensor(value)) => {
            let text = value.literal().ok_or_else(|| OnnxError::attribute("value", "one element"))?;
            Ok((value.dtype(), text))
        }
        Some(_) => Err(OnnxError::attribute("value", "a tensor")),
    }
}

fn constant_of_shape(cx: &mut NodeContext<'_>) -> Lowered {
    let extents = extents(&cx.size_sums(0)?)?;
    let shape = extents.dims();
    let count = elements(&shape)?;
    let (dtype, number) = fill_value(cx)?;
    if count <= MOST_ON_HOST && !extents.has_sizes() {
        let element = match cx.attribute("value") {
            Some(Attribute::Tensor(value)) => scalars(&value.array).first().copied(),
            _ => None,
        };
        let elements = std::iter::repeat_n(element.unwrap_or(Scalar::zero(dtype)), count);
        return Ok(vec![cx.known(array_of(dtype, &shape, elements)?)]);
    }
    Ok(vec![cx.filled(dtype, &extents, &number)?])
}

/// The axes of which an operand has the sizes.
pub(super) fn extents(sums: &[SizeSum]) -> Result<Extents> {
    sums.iter().map(extent).collect::<Result<_>>().map(Extents)
}

/// Sizes of axes, none of which is negative.
pub(super) fn sizes(values: &[i64]) -> Result<Vec<usize>> {
    let size = |&value: &i64| {
        usize::try_from(value).map_err(|_| OnnxError::Invalid(format!("the size {value} is negative")))
    };
    values.iter().map(size).collect()
}

fn eye_like(cx: &mut NodeContext<'_>) -> Lowered {
    let like = cx.value(0)?;
    let dtype = cx.dtype_attribute("dtype")?.unwrap_or(like.dtype());
    let diagonal = cx.int_or("k", 0)?;
    if like.rank() != 2 {
        return Err(OnnxError::operand(0, "expected two axes"));
    }
    // Letters are `i32`, and each diagonal this far outside of the matrix has no elements.
    let diagonal = diagonal.clamp(-(1 << 30), 1 << 30);
    let text = format!("y[i0,i1] := {dtype}(i1 - i0 == {diagonal})");
    Ok(vec![cx.emit(dtype, like.shape(), &text)?])
}

fn range(cx: &mut NodeContext<'_>) -> Lowered {
    let dtype = cx.value(0)?.dtype();
    if cx.has_sizes() {
        return range_of_sizes(cx, dtype);
    }
    let [start, limit, delta] = [cx.host(0)?, cx.host(1)?, cx.host(2)?];
    let too_long = || OnnxError::Invalid("the range is too long".into());
    let array = if dtype.is_float() {
        let first = |value: &HostValue| value.floats().first().copied();
        let (Some(start), Some(limit), Some(delta)) = (first(&start), first(&limit), first(&delta)) else {
            return Err(OnnxError::operand(0, "expected one element"));
        };
        let count = ((limit - start) / delta).ceil().max(0.0);
        if count.is_nan() || count > 1e9 {
            return Err(too_long());
        }
        cx.reserve(DType::F64, &[count as usize, 2])?;
        let values: Vec<f64> = (0..count as usize).map(|at| start + at as f64 * delta).collect();
        floats_of(dtype, &[values.len()], &values)?
    } else {
        let first = |value: &HostValue| value.ints().first().copied();
        let (Some(start), Some(limit), Some(delta)) = (first(&start), first(&limit), first(&delta)) else {
            return Err(OnnxError::operand(0, "expected one element"));
        };
        let (distance, delta) = (i128::from(limit) - i128::from(start), i128::from(delta));
        if delta == 0 || distance / delta > 1_000_000_000 {
            return Err(too_long());
        }
        let count =
            if (distance < 0) == (delta < 0) { (distance.abs() + delta.abs() - 1) / delta.abs() } else { 0 };
        cx.reserve(DType::I64, &[usize::try_from(count).unwrap_or(usize::MAX), 2])?;
        let values: Vec<i64> = (0..count).map(|at| (i128::from(start) + at * delta) as i64).collect();
        ints_of(dtype, &[values.len()], &values)?
    };
    Ok(vec![cx.known(array)])
}

/// The integers from a number on, as many as a size of the run.
fn range_of_sizes(cx: &mut NodeContext<'_>, dtype: DType) -> Lowered {
    let [start, limit, delta] = [cx.size_sums(0)?, cx.size_sums(1)?, cx.size_sums(2)?];
    let first = |sums: &[SizeSum]| sums.first().and_then(SizeSum::constant);
    let (Some(start), Some(limit), Some(1)) = (first(&start), limit.first(), first(&delta)) else {
        return Err(cx.needs_extents("its start and its step are expected to be numbers, and the step 1"));
    };
    let count = extent(&limit.plus(&(-start).into()).ok_or_else(OnnxError::overflow)?)?;
    let extents = Extents(vec![count]);
    let text = format!("y[i0] := {dtype}(i0) + {start}{}", extents.clause());
    Ok(vec![cx.emit(dtype, &extents, &text)?])
}

fn shape(cx: &mut NodeContext<'_>) -> Lowered {
    let value = cx.value(0)?;
    let rank = value.rank() as i64;
    let bound = |at: i64| (if at < 0 { at + rank } else { at }).clamp(0, rank) as usize;
    let (start, end) = (bound(cx.int_or("start", 0)?), bound(cx.int_or("end", rank)?));
    if value.has_sizes() {
        let elements: Vec<SizeSum> = value.extents().0.iter().map(SizeSum::from).collect();
        let elements = elements.get(start..end).unwrap_or_default().to_vec();
        let (dtype, shape) = (DType::I64, vec![elements.len()]);
        return Ok(vec![SizeArray { dtype, shape, elements }.value()?]);
    }
    let sizes: Vec<i64> = value.shape().iter().map(|&size| size as i64).collect();
    let sizes = sizes.get(start..end).unwrap_or_default();
    // The shape of a constant is constant; any other holds for the shapes of the inputs at hand.
    let array = HostArray::from_slice(sizes, [sizes.len()])?;
    Ok(vec![Value::Known(HostValue::new(array, value.is_constant()))])
}
