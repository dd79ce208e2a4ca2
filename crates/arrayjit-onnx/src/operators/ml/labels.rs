//! Encodings of labels and categories.

use tnode::{DType, HostArray};

use super::ml;
use crate::{
    error::{OnnxError, Result},
    host::{array_of, ints_of, scalars},
    ir::Attribute,
    operators::{
        context::{Lowered, NodeContext},
        operator::Operator,
    },
    shape::{access, letters},
};

pub(in crate::operators) static OPERATORS: &[Operator] = &[
    ml("LabelEncoder", 2, encoded).sized(),
    ml("OneHotEncoder", 1, one_hot).sized(),
    // A map for each row, whose keys are the same in all of them: its numbers as an array.
    ml("ZipMap", 1, |cx| Ok(vec![cx.value(0)?])).sized(),
];

/// The values of the keys that equal the elements, and of others a default. Of equal keys, the first counts.
fn encoded(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let keys = keys(cx)?;
    let (values, default) = values(cx)?;
    if values.dims() != keys.dims() {
        return Err(OnnxError::attribute("values_*", format!("{} values", keys.num_values())));
    }
    if keys.dtype() != x.dtype() {
        return Err(OnnxError::operand(0, format!("expected {}, found {}", keys.dtype(), x.dtype())));
    }
    let (count, dtype) = (keys.num_values(), values.dtype());
    let table = cx.table("keys".into(), || Ok(keys))?;
    // The default stands behind the values.
    let all = scalars(&values).into_iter().chain(scalars(&default));
    let values = cx.table("values".into(), || array_of(dtype, &[count + 1], all))?;
    let (extents, own) = (x.extents(), letters(x.rank()));
    let element = cx.bind_array(&x)?.whole();
    let key = cx.bind_array(&table)?.at(&["k".into()]);
    // NaN is a key from version 4 on.
    let is_equal = match x.dtype().is_float() && cx.opset() >= 4 {
        true => format!("or({element} == {key}, and({element} != {element}, {key} != {key}))"),
        false => format!("{element} == {key}"),
    };
    let value = cx.bind_array(&values)?.at(&[access("p", &own)]);
    let text = format!(
        "node p i32[{}]\n{} :min= where({is_equal}, k, {count})\n{} := {value}",
        extents.text(),
        access("p", &own),
        access("y", &own)
    );
    Ok(vec![cx.emit(dtype, &extents, &text)?])
}

/// The keys as a vector.
fn keys(cx: &NodeContext<'_>) -> Result<HostArray> {
    if let Some(keys) = cx.ints("keys_int64s")? {
        return Ok(HostArray::from_slice(&keys, [keys.len()])?);
    }
    if let Some(keys) = cx.floats("keys_floats")? {
        return Ok(HostArray::from_slice(&keys, [keys.len()])?);
    }
    match cx.attribute("keys_tensor") {
        Some(Attribute::Tensor(keys)) => flat(&keys.array),
        _ => Err(OnnxError::attribute("keys_*", "integers or floats")),
    }
}

/// The values as a vector, and the one of other elements. Texts are their positions, and the default one the
/// position behind them.
fn values(cx: &NodeContext<'_>) -> Result<(HostArray, HostArray)> {
    if let Some(texts) = cx.texts("values_strings")? {
        let count = texts.len() as i64;
        let numbers: Vec<i64> = (0..count).collect();
        return Ok((HostArray::from_slice(&numbers, [texts.len()])?, HostArray::from_slice(&[count], [1])?));
    }
    if let Some(values) = cx.ints("values_int64s")? {
        let default = ints_of(DType::I64, &[1], &[cx.int_or("default_int64", -1)?])?;
        return Ok((HostArray::from_slice(&values, [values.len()])?, default));
    }
    if let Some(values) = cx.floats("values_floats")? {
        let default = HostArray::from_slice(&[cx.float_or("default_float", -0.0)?], [1])?;
        return Ok((HostArray::from_slice(&values, [values.len()])?, default));
    }
    match (cx.attribute("values_tensor"), cx.attribute("default_tensor")) {
        (Some(Attribute::Tensor(values)), Some(Attribute::Tensor(default)))
            if default.array.num_values() == 1 && default.dtype() == values.dtype() =>
        {
            Ok((flat(&values.array)?, flat(&default.array)?))
        }
        (Some(Attribute::Tensor(values)), None) => {
            let default = if values.dtype().is_float() { -0.0 } else { -1.0 };
            Ok((flat(&values.array)?, crate::host::floats_of(values.dtype(), &[1], &[default])?))
        }
        _ => {
            Err(OnnxError::attribute("values_*", "integers, floats or texts, and one default of their type"))
        }
    }
}

fn flat(array: &HostArray) -> Result<HostArray> {
    Ok(HostArray::from_bytes(array.dtype(), [array.num_values()], array.bytes())?)
}

/// 1 for the category that an element is, and 0 for the others. Elements of no category have zeros.
fn one_hot(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let Some(categories) = cx.ints("cats_int64s")?.filter(|categories| !categories.is_empty()) else {
        return Err(OnnxError::attribute(
            "cats_int64s",
            "integers; categories that are texts are not supported",
        ));
    };
    let count = categories.len();
    let table = cx.table("categories".into(), || ints_of(DType::I64, &[count], &categories))?;
    let mut extents = x.extents();
    let element = cx.bind_array(&x)?.whole();
    let category = cx.bind_array(&table)?.at(&[letters(x.rank() + 1)[x.rank()].clone()]);
    extents.0.push(count.into());
    let y = access("y", letters(x.rank() + 1));
    let text = format!("{y} := f32(i64({element}) == {category})");
    Ok(vec![cx.emit(DType::F32, &extents, &text)?])
}
