//! Linear models.

use tnode::DType;

use super::{
    super::contract::product,
    super::elementwise::combined,
    constants, features, ml, numbers,
    scores::{best, labels, of_two, paired, transformed},
};
use crate::{
    error::{OnnxError, Result},
    operators::{context::NodeContext, operator::Operator},
    value::Value,
};

pub(in crate::operators) static OPERATORS: &[Operator] = &[
    ml("LinearClassifier", 1, |cx| {
        let labels = labels(cx, "classlabels_ints")?;
        let scores = match cx.floats("intercepts")?.map_or(0, |all| all.len()) {
            0 => scored(cx, labels.len())?,
            classes => scored(cx, classes)?,
        };
        if let (&[_, 1], &[negative, positive]) = (scores.shape(), labels.as_slice()) {
            let label = of_two(cx, &scores, 0, [negative, positive], "0")?;
            return Ok(vec![label, paired(cx, &scores, "1 - {}")?]);
        }
        let label = best(cx, &scores, &labels)?;
        Ok(vec![label, transformed(cx, &scores)?])
    })
    .sized(),
    ml("LinearRegressor", 1, |cx| {
        let targets = cx.count("targets", 1)?;
        let scores = scored(cx, targets)?;
        Ok(vec![transformed(cx, &scores)?])
    })
    .sized(),
];

/// Computes `count` scores: products of the features with coefficients, plus intercepts.
fn scored(cx: &mut NodeContext<'_>, count: usize) -> Result<Value> {
    let x = features(cx)?;
    let x = cx.cast(&x, DType::F32)?;
    let (width, coefficients) = (x.shape()[1], numbers(cx, "coefficients")?);
    if width.checked_mul(count) != Some(coefficients.len()) {
        return Err(OnnxError::attribute("coefficients", format!("{count} rows of {width} floats")));
    }
    // A column for each score.
    let turned: Vec<f64> =
        (0..width * count).map(|at| coefficients[at % count * width + at / count]).collect();
    let weights = constants(cx, "coefficients", DType::F32, &[width, count], &turned)?;
    let y = product(cx, &x, &weights, DType::F32)?;
    let intercepts = numbers(cx, "intercepts")?;
    match intercepts.len() {
        0 => Ok(y),
        found if found == count => {
            let intercepts = constants(cx, "intercepts", DType::F32, &[count], &intercepts)?;
            combined(cx, &y, &intercepts, DType::F32, "{x} + {z}")
        }
        _ => Err(OnnxError::attribute("intercepts", format!("{count} floats"))),
    }
}
