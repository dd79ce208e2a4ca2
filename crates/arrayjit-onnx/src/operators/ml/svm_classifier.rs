//! Classes by support vector machines: a decision for each pair of classes.

use tnode::DType;

use super::{
    super::{contract::product, elementwise::combined},
    constants, features,
    kernels::kernel,
    ml, numbers,
    scores::{labels, transformed},
};
use crate::{
    error::{OnnxError, Result},
    host::{floats_of, ints_of},
    operators::{
        context::{Lowered, NodeContext},
        operator::Operator,
    },
    value::Value,
};

pub(in crate::operators) static OPERATORS: &[Operator] = &[ml("SVMClassifier", 1, classified)];

/// The label that most decisions are for, and the probabilities of classes or, without any, the decisions.
fn classified(cx: &mut NodeContext<'_>) -> Lowered {
    let x = features(cx)?;
    let x = cx.cast(&x, DType::F32)?;
    let (rows, labels) = (x.shape()[0], labels(cx, "classlabels_ints")?);
    let classes = labels.len();
    let rho = numbers(cx, "rho")?;
    // Checked before there is a list of pairs.
    if classes < 2 || classes.checked_mul(classes - 1).map(|twice| twice / 2) != Some(rho.len()) {
        let expected = format!("a float for each pair of {classes} classes, of two or more");
        return Err(OnnxError::attribute("rho", expected));
    }
    let pairs = pairs(classes);
    let sums = summed(cx, &x, classes, &pairs)?;
    let rho = constants(cx, "rho", DType::F32, &[pairs.len()], &rho)?;
    let decisions = combined(cx, &sums, &rho, DType::F32, "{x} + {z}")?;
    let sigmoids = sigmoids(cx, pairs.len())?;
    let width = match (&sigmoids, pairs.len()) {
        (Some(_), _) => classes,
        (None, 1) => 2,
        (None, pairs) => pairs,
    };
    cx.reserve(DType::F32, &[rows, width])?;
    let results = cx.on_host(&[decisions], move |arrays| {
        let decisions = arrays.first().map(|array| array.values()).unwrap_or_default();
        let (mut best, mut scores) = (Vec::with_capacity(rows), Vec::with_capacity(rows * width));
        for row in decisions.chunks_exact(pairs.len()) {
            best.push(labels[first_greatest(&votes(row, &pairs, classes))]);
            let of_row = match &sigmoids {
                Some(sigmoids) => coupled(&pairwise(row, sigmoids, &pairs, classes), classes),
                None => row.to_vec(),
            };
            // One decision has scores of both classes.
            scores.extend(if of_row.len() < width { vec![-of_row[0], of_row[0]] } else { of_row });
        }
        Ok(vec![ints_of(DType::I64, &[rows], &best)?, floats_of(DType::F32, &[rows, width], &scores)?])
    })?;
    let [label, scores]: [Value; 2] = results.try_into().map_err(|_| OnnxError::overflow())?;
    Ok(vec![label, transformed(cx, &scores)?])
}

/// The pairs of classes in the order of their decisions.
fn pairs(classes: usize) -> Vec<(usize, usize)> {
    (0..classes).flat_map(|first| (first + 1..classes).map(move |second| (first, second))).collect()
}

/// For each pair, the sum of kernels with the vectors of both classes: `[rows, pairs]`. A vector has a
/// coefficient for each class but its own.
fn summed(cx: &mut NodeContext<'_>, x: &Value, classes: usize, pairs: &[(usize, usize)]) -> Result<Value> {
    let counts = cx.ints("vectors_per_class")?.unwrap_or_default();
    if counts.is_empty() {
        return Err(OnnxError::Case("a classifier without support vectors".into()));
    }
    let counts: Option<Vec<usize>> = counts.into_iter().map(|count| count.try_into().ok()).collect();
    let Some(counts) = counts.filter(|counts| counts.len() == classes) else {
        let expected = format!("a number of vectors for each of {classes} classes");
        return Err(OnnxError::attribute("vectors_per_class", expected));
    };
    let count = counts.iter().try_fold(0usize, |sum, &count| sum.checked_add(count));
    let count = count.ok_or_else(OnnxError::overflow)?;
    let floats = |cx: &NodeContext<'_>, name, rows: usize, columns: usize| {
        let found = numbers(cx, name)?;
        match rows.checked_mul(columns) == Some(found.len()) {
            true => Ok(found),
            false => Err(OnnxError::attribute(name, format!("{rows} rows of {columns} floats"))),
        }
    };
    let coefficients = floats(cx, "coefficients", classes - 1, count)?;
    let vectors = floats(cx, "support_vectors", count, x.shape()[1])?;
    cx.reserve(DType::F64, &[count, pairs.len()])?;
    let classes_of_vectors =
        counts.iter().enumerate().flat_map(|(class, &count)| std::iter::repeat_n(class, count));
    let mut factors = Vec::with_capacity(count.saturating_mul(pairs.len()));
    for (vector, class) in classes_of_vectors.enumerate() {
        factors.extend(pairs.iter().map(|&(first, second)| match class {
            class if class == first => coefficients[(second - 1) * count + vector],
            class if class == second => coefficients[first * count + vector],
            _ => 0.0,
        }));
    }
    let similar = kernel(cx, x, count, &vectors)?;
    let factors = constants(cx, "coefficients", DType::F32, &[count, pairs.len()], &factors)?;
    product(cx, &similar, &factors, DType::F32)
}

/// The factor and the offset of the sigmoid of each decision; none if the node has no probabilities.
fn sigmoids(cx: &NodeContext<'_>, pairs: usize) -> Result<Option<Vec<[f64; 2]>>> {
    let [factors, offsets] = [numbers(cx, "prob_a")?, numbers(cx, "prob_b")?];
    if factors.is_empty() {
        return Ok(None);
    }
    if factors.len() != pairs || offsets.len() != pairs {
        return Err(OnnxError::attribute("prob_a and prob_b", format!("{pairs} floats each")));
    }
    Ok(Some(factors.into_iter().zip(offsets).map(|(factor, offset)| [factor, offset]).collect()))
}

/// For each class, the decisions for it.
fn votes(decisions: &[f64], pairs: &[(usize, usize)], classes: usize) -> Vec<f64> {
    let mut votes = vec![0.0; classes];
    for (decision, &(first, second)) in decisions.iter().zip(pairs) {
        votes[if *decision > 0.0 { first } else { second }] += 1.0;
    }
    votes
}

/// The square matrix of the probabilities of each class against each other one.
fn pairwise(decisions: &[f64], sigmoids: &[[f64; 2]], pairs: &[(usize, usize)], classes: usize) -> Vec<f64> {
    let mut matrix = vec![0.0; classes * classes];
    for ((decision, [factor, offset]), &(first, second)) in decisions.iter().zip(sigmoids).zip(pairs) {
        let probability = (1.0 / (1.0 + (decision * factor + offset).exp())).clamp(1e-7, 1.0 - 1e-7);
        matrix[first * classes + second] = probability;
        matrix[second * classes + first] = 1.0 - probability;
    }
    matrix
}

/// The probabilities of classes that agree best with those of pairs: method 2 of Wu, Lin and Weng,
/// *Probability estimates for multi-class classification by pairwise coupling* (2004), with the tolerance and
/// the number of iterations of libsvm.
fn coupled(pairwise: &[f64], classes: usize) -> Vec<f64> {
    let r = |a: usize, b: usize| pairwise[a * classes + b];
    let q = |t: usize, j: usize| match t == j {
        true => (0..classes).filter(|&other| other != t).map(|other| r(other, t) * r(other, t)).sum::<f64>(),
        false => -r(j, t) * r(t, j),
    };
    let matrix: Vec<f64> = (0..classes * classes).map(|at| q(at / classes, at % classes)).collect();
    let mut p = vec![1.0 / classes as f64; classes];
    for _ in 0..classes.max(100) {
        let row = |t: usize, p: &[f64]| matrix[t * classes..].iter().zip(p).map(|(q, p)| q * p).sum::<f64>();
        let mut products: Vec<f64> = (0..classes).map(|t| row(t, &p)).collect();
        let mut total: f64 = products.iter().zip(&p).map(|(product, p)| product * p).sum();
        let error = products.iter().map(|product| (product - total).abs()).fold(0.0, f64::max);
        if error < 0.005 / classes as f64 {
            break;
        }
        for t in 0..classes {
            let own = matrix[t * classes + t];
            let step = (total - products[t]) / own;
            p[t] += step;
            let scale = 1.0 + step;
            total = (total + step * (step * own + 2.0 * products[t])) / scale / scale;
            for j in 0..classes {
                products[j] = (products[j] + step * matrix[t * classes + j]) / scale;
                p[j] /= scale;
            }
        }
    }
    p
}

/// The position of the first greatest number.
fn first_greatest(numbers: &[f64]) -> usize {
    (0..numbers.len()).fold(0, |best, at| if numbers[at] > numbers[best] { at } else { best })
}
