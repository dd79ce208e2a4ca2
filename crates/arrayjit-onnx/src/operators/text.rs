//! Counts of n-grams of integers.

use std::collections::HashMap;

use tnode::{DType, HostArray, Scalar};

use super::{
    context::{Lowered, NodeContext},
    operator::{Operator, op},
};
use crate::{
    error::{OnnxError, Result},
    host::{floats_of, scalars},
};

pub(super) static OPERATORS: &[Operator] = &[op("TfIdfVectorizer", 9, count_grams)];

/// The n-grams of a node and the columns of their counts.
struct Grams {
    columns: HashMap<Vec<i64>, usize>,
    width: usize,
    shortest: usize,
    longest: usize,
    most_skipped: usize,
}

impl Grams {
    fn of(cx: &NodeContext<'_>) -> Result<Grams> {
        /// The most columns.
        const MOST: i64 = 1 << 26;
        let size = |name: &str, default: i64| -> Result<usize> {
            let value = usize::try_from(cx.int_or(name, default)?).ok().filter(|&value| value < 1 << 16);
            value.ok_or_else(|| OnnxError::attribute(name, "a small number from 0"))
        };
        if cx.attribute("pool_strings").is_some() {
            return Err(OnnxError::Case("n-grams of strings".into()));
        }
        let pool = cx.ints("pool_int64s")?.unwrap_or_default();
        let starts = cx.ints("ngram_counts")?.unwrap_or_default();
        let columns = cx.ints("ngram_indexes")?.unwrap_or_default();
        if columns.iter().any(|column| !(0..MOST).contains(column)) {
            return Err(OnnxError::attribute("ngram_indexes", "columns from 0"));
        }
        let width = columns.iter().max().map_or(0, |&most| most as usize + 1);
        let mut grams = HashMap::new();
        let mut columns = columns.into_iter();
        for (at, &start) in starts.iter().enumerate() {
            let end = starts.get(at + 1).copied().unwrap_or(pool.len() as i64);
            let part = usize::try_from(start).ok().zip(usize::try_from(end).ok());
            let part = part.and_then(|(start, end)| pool.get(start..end));
            let part = part.ok_or_else(|| OnnxError::attribute("ngram_counts", "ascending positions"))?;
            for gram in part.chunks_exact(at + 1) {
                let column = columns.next();
                let column =
                    column.ok_or_else(|| OnnxError::attribute("ngram_indexes", "a column for each"))?;
                grams.insert(gram.to_vec(), column as usize);
            }
        }
        Ok(Grams {
            columns: grams,
            width,
            shortest: size("min_gram_length", 1)?.max(1),
            longest: size("max_gram_length", 1)?,
            most_skipped: size("max_skip_count", 0)?,
        })
    }

    /// Adds the n-grams of a row to the counts. Those of one element have no gaps, and count once.
    fn count(&self, row: &[i64], counts: &mut [f64]) {
        for step in 1..=self.most_skipped + 1 {
            for length in self.shortest..=self.longest {
                if length == 1 && step > 1 {
                    continue;
                }
                let span = (length - 1) * step;
                if span >= row.len() {
                    break;
                }
                for start in 0..row.len().saturating_sub(span) {
                    let gram: Vec<i64> = row[start..=start + span].iter().step_by(step).copied().collect();
                    let column = self.columns.get(&gram).and_then(|&column| counts.get_mut(column));
                    column.into_iter().for_each(|count| *count += 1.0);
                }
            }
        }
    }
}

fn count_grams(cx: &mut NodeContext<'_>) -> Lowered {
    let grams = Grams::of(cx)?;
    let mode = cx.text_or("mode", "TF")?;
    let (is_counted, is_weighted) = match mode {
        "TF" => (true, false),
        "IDF" => (false, true),
        "TFIDF" => (true, true),
        _ => return Err(OnnxError::attribute("mode", "TF, IDF or TFIDF")),
    };
    let weights = cx.floats("weights")?.filter(|weights| is_weighted && weights.len() >= grams.width);
    let x = cx.value(0)?;
    let (rows, shape) = match x.shape() {
        &[_] | &[] => (1, vec![grams.width]),
        &[rows, _] => (rows, vec![rows, grams.width]),
        _ => return Err(OnnxError::operand(0, "expected one or two axes")),
    };
    cx.reserve(DType::F64, &[rows, grams.width, 2])?;
    cx.on_host(&[x], move |arrays| {
        let array: &HostArray = arrays.first().ok_or_else(|| OnnxError::operand(0, "it is missing"))?;
        let values: Vec<i64> = scalars(array).into_iter().map(Scalar::as_i64).collect();
        let mut counts = vec![0.0; rows * grams.width];
        let length = values.len() / rows.max(1);
        for (row, counts) in values.chunks(length.max(1)).zip(counts.chunks_mut(grams.width.max(1))) {
            grams.count(row, counts);
        }
        for (at, count) in counts.iter_mut().enumerate() {
            let weight = weights.as_ref().and_then(|weights| weights.get(at % grams.width)).copied();
            let number = if is_counted { *count } else { f64::from(*count > 0.0) };
            *count = number * weight.map_or(1.0, f64::from);
        }
        Ok(vec![floats_of(DType::F32, &shape, &counts)?])
    })
}
