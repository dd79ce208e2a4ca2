//! Functions of features: scaling, imputation, selection.

use tnode::DType;

use super::{constants, features, ml, rows};
use crate::{
    error::{OnnxError, Result},
    host::float,
    ir::Attribute,
    operators::{
        context::{Lowered, NodeContext},
        operator::Operator,
    },
    shape::{access, letters},
    value::Value,
};

pub(in crate::operators) static OPERATORS: &[Operator] = &[
    ml("ArrayFeatureExtractor", 1, |cx| {
        let (x, positions) = (cx.value(0)?, cx.value(1)?);
        if x.rank() == 0 {
            return Err(OnnxError::operand(0, "expected one axis or more"));
        }
        let positions = cx.reshaped(&positions, &[positions.num_elements()])?;
        let taken =
            cx.apply("Gather", [("axis", Attribute::Int(-1))], vec![Some(x.clone()), Some(positions)], 1)?;
        match (x.rank(), taken.first()) {
            (1, Some(row)) => {
                let shape = [1, row.num_elements()];
                Ok(vec![cx.reshaped(row, &shape)?])
            }
            _ => Ok(taken),
        }
    })
    .sized(),
    ml("Binarizer", 1, |cx| {
        let (x, threshold) = (cx.value(0)?, f64::from(cx.float_or("threshold", 0.0)?));
        let threshold = float(DType::F32, threshold);
        Ok(vec![cx.mapped(&x, x.dtype(), &format!("where({{}} > {threshold}, 1, 0)"))?])
    })
    .sized(),
    ml("FeatureVectorizer", 1, vectorized),
    ml("Imputer", 1, imputed).sized(),
    ml("Normalizer", 1, normalized).sized(),
    ml("Scaler", 1, |cx| {
        let x = cx.value(0)?;
        let offset = per_feature(cx, "offset", &x, 0.0)?;
        let scale = per_feature(cx, "scale", &x, 1.0)?;
        elementwise(cx, &x, DType::F32, [&offset, &scale], "f32((f32({x}) - {a}) * {b})")
    })
    .sized(),
];

/// The numbers of an attribute for each feature: one for all, or one for each element of the last axis.
fn per_feature(cx: &mut NodeContext<'_>, name: &str, x: &Value, default: f64) -> Result<Value> {
    let given = super::numbers(cx, name)?;
    let values = if given.is_empty() { vec![default] } else { given };
    listed(cx, name, x, DType::F32, &values)
}

fn listed(cx: &mut NodeContext<'_>, name: &str, x: &Value, dtype: DType, values: &[f64]) -> Result<Value> {
    let width = x.shape().last().copied().unwrap_or(1);
    if values.len() != 1 && values.len() != width {
        return Err(OnnxError::attribute(name, format!("1 or {width} numbers")));
    }
    constants(cx, name, dtype, &[values.len()], values)
}

/// An expression of each element `{x}` and of numbers `{a}` and `{b}` of its feature.
fn elementwise(
    cx: &mut NodeContext<'_>,
    x: &Value,
    dtype: DType,
    numbers: [&Value; 2],
    expression: &str,
) -> Lowered {
    let own = letters(x.rank());
    let of_feature = |count: usize| match (count, own.last()) {
        (2.., Some(last)) => last.clone(),
        _ => "0".to_owned(),
    };
    let element = cx.bind_array(x)?.whole();
    let mut text = expression.replace("{x}", &element);
    for (place, value) in ["{a}", "{b}"].into_iter().zip(numbers) {
        let number = cx.bind_array(value)?.at(&[of_feature(value.num_elements())]);
        text = text.replace(place, &number);
    }
    let extents = x.extents();
    let y = access("y", &own);
    Ok(vec![cx.emit(dtype, &extents, &format!("{y} := {text}{}", extents.clause()))?])
}

/// The value with the numbers of its features in place of one number, which may be NaN.
fn imputed(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let dtype = x.dtype();
    let (name, values, missing) = match dtype.is_float() {
        true => {
            let replaced = f64::from(cx.float_or("replaced_value_float", 0.0)?);
            let missing = match replaced.is_nan() {
                true => "{x} != {x}".to_owned(),
                false => format!("{{x}} == {}", float(DType::F32, replaced)),
            };
            ("imputed_value_floats", super::numbers(cx, "imputed_value_floats")?, missing)
        }
        false => {
            let values = cx.ints("imputed_value_int64s")?.unwrap_or_default();
            let missing = format!("{{x}} == {}", cx.int_or("replaced_value_int64", 0)?);
            ("imputed_value_int64s", values.into_iter().map(|value| value as f64).collect(), missing)
        }
    };
    let values = listed(cx, name, &x, dtype, &values)?;
    elementwise(cx, &x, dtype, [&values, &values], &format!("where({missing}, {{a}}, {{x}})"))
}

/// Rows over their largest element, the sum of their magnitudes, or their length.
fn normalized(cx: &mut NodeContext<'_>) -> Lowered {
    let (rank, x) = (cx.value(0)?.rank(), features(cx)?);
    let x = cx.cast(&x, DType::F32)?;
    let (sum, divisor) = match cx.text_or("norm", "MAX")? {
        "MAX" => ("s[i0] :max= {x}", "s[i0]"),
        "L1" => ("s[i0] :+= abs({x})", "s[i0]"),
        "L2" => ("s[i0] :+= {x} * {x}", "sqrt(s[i0])"),
        _ => return Err(OnnxError::attribute("norm", "MAX, L1 or L2")),
    };
    let mut extents = x.extents();
    let element = cx.bind_array(&x)?.whole();
    let count = rows(&extents).text();
    let text = format!(
        "node s f32[{count}]\n{}\ny[i0,i1] := where(s[i0] == 0, {element}, {element} / {divisor})",
        sum.replace("{x}", &element)
    );
    let y = cx.emit(DType::F32, &extents, &text)?;
    if rank == 1 {
        extents.0.remove(0);
        let shape = extents.dims();
        return Ok(vec![cx.reshaped(&y, &shape)?]);
    }
    Ok(vec![y])
}

/// The features of all operands side by side, as many of each as the node says: further ones are left out,
/// and missing ones are 0.
fn vectorized(cx: &mut NodeContext<'_>) -> Lowered {
    let widths = cx.ints("inputdimensions")?.unwrap_or_default();
    let mut parts = Vec::new();
    for (at, x) in cx.values()?.into_iter().enumerate() {
        let width = widths.get(at).copied().and_then(|width| usize::try_from(width).ok());
        let width =
            width.ok_or_else(|| OnnxError::attribute("inputdimensions", "a size for each operand"))?;
        let (rows, found) = match *x.shape() {
            [found] => (1, found),
            [rows, ref rest @ ..] => (rows, rest.iter().product()),
            [] => (1, 1),
        };
        let x = cx.reshaped(&x, &[rows, found])?;
        let x = cx.cast(&x, DType::F32)?;
        let taken: Vec<usize> = (0..width.min(found)).collect();
        parts.push(Some(if found > width { cx.taken(&x, 1, &taken)? } else { x }));
        if found < width {
            parts.push(Some(cx.filled(DType::F32, &[rows, width - found], "0")?));
        }
    }
    cx.apply("Concat", [("axis", Attribute::Int(1))], parts, 1)
}
