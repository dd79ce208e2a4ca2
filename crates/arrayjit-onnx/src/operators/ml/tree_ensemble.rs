//! Ensembles of decision trees.

use tnode::DType;

use super::{
    constants,
    ensemble::{Ensemble, weights},
    features,
    forest::{Forest, Neighbors},
    ml, rows,
    scores::{best, labels, of_two, paired, transformed, transformed_by},
};
use crate::{
    error::{OnnxError, Result},
    host::ints_of,
    operators::{
        context::{Lowered, NodeContext, Operand},
        elementwise::combined,
        operator::Operator,
    },
    value::Value,
};

pub(in crate::operators) static OPERATORS: &[Operator] = &[
    ml("TreeEnsemble", 5, |cx| {
        let model = Ensemble::numbered(cx)?;
        let aggregates = [Aggregate::Average, Aggregate::Sum, Aggregate::Min, Aggregate::Max];
        let transforms = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"];
        let aggregate = chosen(cx, "aggregate_function", 1, &aggregates)?;
        let transform = chosen(cx, "post_transform", 0, &transforms)?;
        let y = model.evaluated(cx, aggregate)?;
        let y = transformed_by(cx, &y, transform)?;
        let dtype = cx.value(0)?.dtype();
        Ok(vec![cx.cast(&y, dtype)?])
    })
    .sized(),
    ml("TreeEnsembleClassifier", 1, classified).sized(),
    ml("TreeEnsembleRegressor", 1, |cx| {
        let targets = cx.count("n_targets", 1)?;
        let model = Ensemble::listed(cx, "target", targets)?;
        let aggregate = match cx.text_or("aggregate_function", "SUM")? {
            "SUM" => Aggregate::Sum,
            "AVERAGE" => Aggregate::Average,
            "MIN" => Aggregate::Min,
            "MAX" => Aggregate::Max,
            _ => return Err(OnnxError::attribute("aggregate_function", "SUM, AVERAGE, MIN or MAX")),
        };
        let y = model.evaluated(cx, aggregate)?;
        let y = based(cx, y)?;
        let y = transformed(cx, &y)?;
        Ok(vec![cx.cast(&y, DType::F32)?])
    })
    .sized(),
];

/// The most steps down a tree that are code of their own, which is faster than a loop and takes longer to
/// compile.
const MOST_UNROLLED: usize = 32;

/// How the numbers of the trees become one.
#[derive(Clone, Copy, PartialEq)]
enum Aggregate {
    Sum,
    Average,
    Min,
    Max,
}

impl Ensemble {
    /// The numbers of the targets for each row of features.
    fn evaluated(&self, cx: &mut NodeContext<'_>, aggregate: Aggregate) -> Result<Value> {
        let x = features(cx)?;
        let (width, dtype) = (x.shape()[1], x.dtype());
        let forest = Forest::of(&self.splits, self.leaves.len(), &self.roots, width, dtype)?;
        let x = if forest.has_copies { without_nan(cx, &x)? } else { x };
        let count = forest.roots.len();
        let mut extents = x.extents();
        extents.0[1] = self.targets.into();
        if count == 0 || self.leaves.is_empty() {
            return cx.filled(dtype, &extents, "0");
        }
        let (operator, absent) = match aggregate {
            Aggregate::Sum | Aggregate::Average => (":+=", 0.0),
            Aggregate::Min => (":min=", f64::INFINITY),
            Aggregate::Max => (":max=", f64::NEG_INFINITY),
        };
        let nodes = Neighbors::of(&forest);
        let none = Vec::new();
        let leaves = nodes.leaves.iter().map(|leaf| leaf.map_or(&none, |leaf| &self.leaves[leaf]));
        let table: Vec<f64> = leaves.flat_map(|leaf| row(leaf, self.targets, absent)).collect();
        let shape = [nodes.leaves.len(), self.targets];
        let weights = constants(cx, "leaves", dtype, &shape, &table)?;
        let thresholds = constants(cx, "thresholds", dtype, &shape[..1], &nodes.thresholds)?;
        let features = integers(cx, "features", &nodes.features)?;
        let behind = integers(cx, "behind", &nodes.behind)?;
        let [x, weights, thresholds, features, behind] =
            [&x, &weights, &thresholds, &features, &behind].map(|value| cx.bind_array(value));
        let (x, weights, thresholds) = (x?, weights?, thresholds?);
        let (features, behind) = (features?, behind?);
        let batch = rows(&extents).text();
        let step = |node: &String| {
            let own = |operand: &Operand| operand.at(std::slice::from_ref(node));
            let element = x.at(&["b".into(), own(&features)]);
            format!("{} + i32({element} <= {})", own(&behind), own(&thresholds))
        };
        let (mut node, mut text) = ("t".to_owned(), String::new());
        if forest.depth > MOST_UNROLLED {
            node = "n[b,t]".into();
            text = format!(
                "node n i32[{batch},{count}], m i32[{batch},{count}]\nn[b,t] := t where t < {count}\n\
                 scan d in 0..{} {{\nm[b,t] := {}\nn[b,t] := m[b,t]\n}}\n",
                forest.depth,
                step(&node)
            );
        } else {
            for level in 0..forest.depth {
                let next = format!("n{level}[b,t]");
                text += &format!(
                    "node n{level} i32[{batch},{count}]\n{next} := {} where t < {count}\n",
                    step(&node)
                );
                node = next;
            }
        }
        text += &format!("y[b,c] {operator} {} where t < {count}", weights.at(&[node, "c".into()]));
        let y = cx.emit(dtype, &extents, &text)?;
        match aggregate {
            Aggregate::Sum => Ok(y),
            Aggregate::Average => cx.mapped(&y, dtype, &format!("{{}} / {count}")),
            // Targets of no leaf that was reached.
            Aggregate::Min | Aggregate::Max => cx.mapped(&y, dtype, "where(abs({}) == inf, 0, {})"),
        }
    }
}

/// Finds the item of a list whose position an attribute has.
fn chosen<T: Copy>(cx: &NodeContext<'_>, name: &str, default: i64, all: &[T]) -> Result<T> {
    let at = usize::try_from(cx.int_or(name, default)?).ok();
    let found = at.and_then(|at| all.get(at)).copied();
    found.ok_or_else(|| OnnxError::attribute(name, format!("a number below {}", all.len())))
}

/// The numbers of the targets of a leaf.
fn row(leaf: &[(usize, f64)], targets: usize, absent: f64) -> Vec<f64> {
    let mut row = vec![absent; targets];
    for &(target, weight) in leaf {
        row[target] = if row[target].is_finite() { row[target] + weight } else { weight };
    }
    row
}

/// Numbers of nodes on the device.
fn integers(cx: &mut NodeContext<'_>, name: &str, values: &[i64]) -> Result<Value> {
    cx.table(name.into(), || ints_of(DType::I32, &[values.len()], values))
}

/// The features, and behind them the features with -inf in place of NaN.
fn without_nan(cx: &mut NodeContext<'_>, x: &Value) -> Result<Value> {
    let mut extents = x.extents();
    let width = extents.0[1].dim;
    extents.0[1] = (2 * width).into();
    let element = cx.bind_array(x)?.at(&["i0".into(), "k".into()]);
    let text = format!(
        "y[i0,k^l] := {element}, where({other} != {other}, -inf, {other}) where k < {width}, l < {width}",
        other = element.replace('k', "l"),
    );
    cx.emit(x.dtype(), &extents, &text)
}

/// Adds the base values of the targets.
fn based(cx: &mut NodeContext<'_>, y: Value) -> Result<Value> {
    let base = weights(cx, "base_values")?;
    match base.len() {
        0 => Ok(y),
        found if found == y.shape()[1] || found == 1 => {
            let base = constants(cx, "base", y.dtype(), &[found], &base)?;
            combined(cx, &y, &base, y.dtype(), "{x} + {z}")
        }
        _ => Err(OnnxError::attribute("base_values", format!("{} numbers", y.shape()[1]))),
    }
}

/// The labels and the probabilities of the classes. If the leaves of a model of two classes have numbers for
/// only one of them, a threshold decides; if that is the first one, the numbers mean the second one.
fn classified(cx: &mut NodeContext<'_>) -> Lowered {
    let labels = labels(cx, "classlabels_int64s")?;
    let model = Ensemble::listed(cx, "class", labels.len())?;
    let mut given = model.leaves.iter().flatten().map(|&(class, _)| class);
    let first = given.next().unwrap_or(0);
    let two = <[i64; 2]>::try_from(labels.as_slice()).ok().filter(|_| given.all(|class| class == first));
    let has_probabilities = model.leaves.iter().flatten().all(|&(_, weight)| weight >= 0.0);
    let threshold = if has_probabilities { "0.5" } else { "0" };
    if let Some(labels) = two.filter(|_| first == 0) {
        let y = Ensemble { targets: 1, ..model }.evaluated(cx, Aggregate::Sum)?;
        let y = based(cx, y)?;
        let label = of_two(cx, &y, 0, labels, threshold)?;
        let scores = paired(cx, &y, if has_probabilities { "1 - {}" } else { "-{}" })?;
        return Ok(vec![label, cx.cast(&scores, DType::F32)?]);
    }
    let y = model.evaluated(cx, Aggregate::Sum)?;
    let y = based(cx, y)?;
    let label = match two {
        Some(labels) => of_two(cx, &y, 1, labels, threshold)?,
        None => best(cx, &y, &labels)?,
    };
    let scores = transformed(cx, &y)?;
    Ok(vec![label, cx.cast(&scores, DType::F32)?])
}
