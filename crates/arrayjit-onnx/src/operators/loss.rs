//! Losses of classes.

use super::{
    context::{Lowered, NodeContext},
    operator::{Operator, op},
    reduce::wide,
};
use crate::{
    error::{OnnxError, Result},
    shape::access,
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("NegativeLogLikelihoodLoss", 12, |cx| {
        let x = cx.value(0)?;
        Ok(vec![likelihood(cx, &x)?])
    }),
    op("SoftmaxCrossEntropyLoss", 12, cross_entropy),
];

/// The indices batch, class and space of the scores, or those of the labels without a class.
fn indices(rank: usize, class: Option<&str>) -> Vec<String> {
    let space = (2..rank).map(|at| format!("s{at}"));
    std::iter::once("b".to_owned()).chain(class.map(str::to_owned)).chain(space).collect()
}

/// −log-probability of the label, weighted and reduced.
fn likelihood(cx: &mut NodeContext<'_>, x: &Value) -> Result<Value> {
    let labels = cx.value(1)?;
    let rank = x.rank();
    let expected = x.shape().iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, size)| *size);
    if rank < 2 || !labels.shape().iter().copied().eq(expected) {
        return Err(OnnxError::operand(1, format!("{:?} does not fit {:?}", labels.shape(), x.shape())));
    }
    let (dtype, classes) = (x.dtype(), x.shape()[1]);
    let wide = wide(dtype);
    let score = cx.bind_array(x)?;
    let label = cx.bind_array(&labels)?.at(&indices(rank, None));
    let score = score.at(&indices(rank, Some("c")));
    let weight = match cx.optional(2) {
        Some(weight) => cx.bind_array(&weight)?.at(&["c".into()]),
        None => "1.0".into(),
    };
    // No class has the number of an ignored label, even if it is one.
    let is_ignored = match cx.int("ignore_index")? {
        Some(ignored) => format!("{label} == {ignored}"),
        None => format!("{label} == {classes}"),
    };
    let [w, loss] = ["w", "loss"].map(|name| access(name, indices(rank, None)));
    let is_label = format!("and(c == {label}, not({is_ignored}))");
    let text = format!(
        "{w} :+= where({is_label}, {wide}({weight}), 0) where c < {classes}\n\
         {loss} :+= where({is_label}, -{wide}({score}) * {wide}({weight}), 0)\n"
    );
    let reduction = cx.text_or("reduction", "mean")?;
    let (shape, finish) = match reduction {
        "none" => {
            (labels.shape().to_vec(), format!("{} := {dtype}({loss})", access("y", indices(rank, None))))
        }
        "sum" => (Vec::new(), format!("total :+= {loss}\ny := {dtype}(total)")),
        "mean" => {
            let finish = format!("total :+= {loss}\nweights :+= {w}\ny := {dtype}(total / weights)");
            (Vec::new(), finish)
        }
        _ => return Err(OnnxError::attribute("reduction", "none, sum or mean")),
    };
    let text = match reduction {
        "mean" => format!("{text}{finish}"),
        _ => format!("{}\n{finish}", text.lines().nth(1).unwrap_or_default()),
    };
    cx.emit(dtype, &shape, &text)
}

fn cross_entropy(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    if x.rank() < 2 {
        return Err(OnnxError::operand(0, "expected two axes or more"));
    }
    let log = cx.operation([&x], x.dtype(), x.shape(), |[x]| x.log_softmax(1))?;
    let loss = likelihood(cx, &log)?;
    Ok(vec![loss, log])
}
