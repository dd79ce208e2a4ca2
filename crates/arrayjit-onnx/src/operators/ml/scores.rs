//! From scores of classes to probabilities and labels.

use tnode::DType;

use super::rows;
use crate::{
    error::{OnnxError, Result},
    host::ints_of,
    operators::context::NodeContext,
    value::Value,
};

/// The probabilities of scores `[rows, classes]`, as the attribute `post_transform` computes them.
pub(super) fn transformed(cx: &mut NodeContext<'_>, scores: &Value) -> Result<Value> {
    transformed_by(cx, scores, cx.text_or("post_transform", "NONE")?)
}

/// The probabilities of scores by the transformation of that name.
pub(super) fn transformed_by(cx: &mut NodeContext<'_>, scores: &Value, name: &str) -> Result<Value> {
    let dtype = scores.dtype();
    let (peak, each, total) = match name {
        "NONE" => return Ok(scores.clone()),
        "LOGISTIC" => return cx.mapped(scores, dtype, "sigmoid({})"),
        // The inverse of the distribution function of the normal distribution, approximated by logarithms.
        "PROBIT" => {
            let log = "log(4 * {} * (1 - {}))";
            let middle = format!("(4.330746750799873 + {log} / 2)");
            let root = format!("sqrt(sqrt({middle} * {middle} - {log} / 0.147) - {middle})");
            let text = format!("1.4142135623730951 * where({{}} < 0.5, -1, 1) * {root}");
            return cx.mapped(scores, dtype, &text);
        }
        "SOFTMAX" => ("{}", "exp({} - m[i0])", "exp({} - m[i0])"),
        // A score of 0 stays 0.
        "SOFTMAX_ZERO" => (
            "{}",
            "where(abs({}) > 1e-7, exp({} - m[i0]), {} * exp(-m[i0]))",
            "where(abs({}) > 1e-7, exp({} - m[i0]), 0)",
        ),
        _ => {
            let expected = "NONE, LOGISTIC, PROBIT, SOFTMAX or SOFTMAX_ZERO";
            return Err(OnnxError::attribute("post_transform", expected));
        }
    };
    let extents = scores.extents();
    let count = rows(&extents).text();
    let element = cx.bind_array(scores)?.whole();
    let [peak, each, total] = [peak, each, total].map(|text| text.replace("{}", &element));
    let text = format!(
        "node m {dtype}[{count}], s {dtype}[{count}]\nm[i0] :max= {peak}\ns[i0] :+= {total}\n\
         y[i0,i1] := {each} / where(s[i0] == 0, 1, s[i0])"
    );
    cx.emit(dtype, &extents, &text)
}

/// The labels of the classes of a node: integers, or texts, which are numbered.
pub(super) fn labels(cx: &NodeContext<'_>, integers: &str) -> Result<Vec<i64>> {
    match (cx.ints(integers)?, cx.texts("classlabels_strings")?) {
        (Some(labels), _) if !labels.is_empty() => Ok(labels),
        (_, Some(texts)) if !texts.is_empty() => Ok((0..texts.len() as i64).collect()),
        _ => Err(OnnxError::attribute(integers, "a label for each class")),
    }
}

/// The label of the first greatest score of each row, whatever scores are NaN; the first label if all are.
pub(super) fn best(cx: &mut NodeContext<'_>, scores: &Value, labels: &[i64]) -> Result<Value> {
    let classes = scores.shape()[1];
    if classes > labels.len() {
        return Err(OnnxError::Invalid(format!("{classes} scores have {} labels", labels.len())));
    }
    let table = cx.table("labels".into(), || ints_of(DType::I64, &[labels.len()], labels))?;
    let extents = rows(&scores.extents());
    let (dtype, count) = (scores.dtype(), extents.text());
    let score = cx.bind_array(scores)?.whole();
    let label = cx.bind_array(&table)?;
    let text = format!(
        "node m {dtype}[{count}], k i32[{count}]\n\
         m[i0] :max= where({score} == {score}, {score}, -inf)\n\
         k[i0] :min= where({score} == m[i0], i1, {classes})\n\
         y[i0] := {}",
        label.at(&[format!("where(k[i0] == {classes}, 0, k[i0])")]),
    );
    cx.emit(DType::I64, &extents, &text)
}

/// The label of each row by one of its scores: the second one where the score is greater than a threshold.
pub(super) fn of_two(
    cx: &mut NodeContext<'_>,
    scores: &Value,
    column: usize,
    [negative, positive]: [i64; 2],
    threshold: &str,
) -> Result<Value> {
    let extents = rows(&scores.extents());
    let score = cx.bind_array(scores)?.at(&["i0".into(), column.to_string()]);
    let text = format!("y[i0] := where({score} > {threshold}, {positive}, {negative})");
    cx.emit(DType::I64, &extents, &text)
}

/// The probabilities of two classes from one score of each row, which is that of the second class; the first
/// one has this expression of it, or the opposite probability if the node computes probabilities.
pub(super) fn paired(cx: &mut NodeContext<'_>, scores: &Value, first: &str) -> Result<Value> {
    let pair = match cx.text_or("post_transform", "NONE")? {
        "LOGISTIC" => ["sigmoid(-{})", "sigmoid({})"],
        // One score has nothing to be compared with.
        "NONE" | "SOFTMAX" | "SOFTMAX_ZERO" => [first, "{}"],
        other => return Err(OnnxError::Case(format!("`post_transform` {other} of one score"))),
    };
    let mut extents = scores.extents();
    extents.0[1] = 2.into();
    let score = cx.bind_array(scores)?.at(&["i0".into(), "0".into()]);
    let [low, high] = pair.map(|text| text.replace("{}", &score));
    cx.emit(scores.dtype(), &extents, &format!("y[i0,i1] := where(i1 == 0, {low}, {high})"))
}
