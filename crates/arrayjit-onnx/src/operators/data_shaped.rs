//! Operators whose data decide the shape of the result. The host computes them at each run, and what follows
//! is compiled for each shape that occurs.

use std::sync::Arc;

use tnode::{DType, HostArray, Scalar};

use super::{
    context::{Lowered, NodeContext},
    operator::{Operator, op},
};
use crate::{
    error::{OnnxError, Result},
    host::{indices, scalars, taken},
    shape::axis,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("Compress", 9, compress),
    op("NonMaxSuppression", 10, non_max_suppression),
    op("NonZero", 9, non_zero),
    op("Unique", 11, unique),
];

fn array(arrays: &[Arc<HostArray>], at: usize) -> Result<&HostArray> {
    arrays.get(at).map(|array| &**array).ok_or_else(|| OnnxError::operand(at, "it is missing"))
}

fn non_zero(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    // The positions of each element, and twice those of the result.
    cx.reserve(DType::I64, &[x.num_elements(), 3 * x.rank() + 4])?;
    cx.on_host(&[x], |arrays| {
        let x = array(arrays, 0)?;
        let found: Vec<Vec<usize>> = indices(x.dims())
            .zip(scalars(x))
            .filter(|(_, value)| value.as_bool())
            .map(|(index, _)| index)
            .collect();
        let rank = x.dims().len();
        let positions: Vec<i64> =
            (0..rank).flat_map(|at| found.iter().map(move |index| index[at] as i64)).collect();
        Ok(vec![HostArray::from_slice(&positions, [rank, found.len()])?])
    })
}

/// The array, with one axis if the operator names none, and the position of the axis.
fn along(x: &HostArray, named: Option<i64>) -> Result<(HostArray, usize)> {
    match named {
        Some(named) => Ok((x.try_clone()?, axis(named, x.dims().len())?)),
        None => Ok((HostArray::from_bytes(x.dtype(), [x.num_values()], x.bytes())?, 0)),
    }
}

fn compress(cx: &mut NodeContext<'_>) -> Lowered {
    let named = cx.int("axis")?;
    let (x, condition) = (cx.value(0)?, cx.value(1)?);
    cx.on_host(&[x, condition], move |arrays| {
        let (x, at) = along(array(arrays, 0)?, named)?;
        let condition = scalars(array(arrays, 1)?);
        let chosen = condition.iter().take(x.dims()[at]).enumerate().filter(|(_, value)| value.as_bool());
        let positions: Vec<usize> = chosen.map(|(position, _)| position).collect();
        Ok(vec![taken(&x, at, &positions)?])
    })
}

/// The elements as integers with the same order. Both zeros are the same, and all NaNs are the same and the
/// largest.
fn ordered(x: &HostArray) -> Vec<i128> {
    let order = |value: Scalar| match value.dtype() {
        DType::U64 => value.bits() as i128,
        dtype if dtype.is_float() => {
            let value = value.as_f64();
            let bits = if value.is_nan() { i64::MAX } else { (value + 0.0).to_bits() as i64 };
            i128::from(if bits < 0 { i64::MIN ^ !bits } else { bits })
        }
        _ => value.as_i64().into(),
    };
    scalars(x).into_iter().map(order).collect()
}

/// The parts of an array along an axis, each as its elements in row-major order.
fn parts(x: &HostArray, at: usize) -> Vec<Vec<i128>> {
    let (front, rest) = x.dims().split_at(at);
    let size = rest.first().copied().unwrap_or(1);
    let [outer, inner] =
        [front, rest.get(1..).unwrap_or_default()].map(|dims| dims.iter().product::<usize>());
    let values = ordered(x);
    let part = |position: usize| {
        let rows = (0..outer).flat_map(|row| {
            let start = (row * size + position) * inner;
            values.get(start..start + inner).unwrap_or_default().iter().copied()
        });
        rows.collect()
    };
    (0..size).map(part).collect()
}

/// Distinct parts in ascending order or by their first occurrence.
fn unique(cx: &mut NodeContext<'_>) -> Lowered {
    let (named, is_sorted) = (cx.int("axis")?, cx.int_or("sorted", 1)? != 0);
    let x = cx.value(0)?;
    // Each element in order, each part as a group, and the results.
    cx.reserve(DType::I64, &[x.num_elements(), 12])?;
    cx.on_host(&[x], move |arrays| {
        let (x, at) = along(array(arrays, 0)?, named)?;
        let parts = parts(&x, at);
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|&at| (&parts[at], at));
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for position in order {
            match groups.last_mut() {
                Some(group) if parts[group[0]] == parts[position] => group.push(position),
                _ => groups.push(vec![position]),
            }
        }
        if !is_sorted {
            groups.sort_by_key(|group| group[0]);
        }
        let first: Vec<usize> = groups.iter().map(|group| group[0]).collect();
        let mut group_of = vec![0i64; parts.len()];
        for (number, group) in groups.iter().enumerate() {
            group.iter().for_each(|&position| group_of[position] = number as i64);
        }
        let positions: Vec<i64> = first.iter().map(|&position| position as i64).collect();
        let counts: Vec<i64> = groups.iter().map(|group| group.len() as i64).collect();
        Ok(vec![
            taken(&x, at, &first)?,
            HostArray::from_slice(&positions, [positions.len()])?,
            HostArray::from_slice(&group_of, [group_of.len()])?,
            HostArray::from_slice(&counts, [counts.len()])?,
        ])
    })
}

/// A box by its lowest and highest corner.
struct Corners {
    low: [f32; 2],
    high: [f32; 2],
}

impl Corners {
    /// From two opposite corners, or from the center and the size.
    fn of(numbers: &[f32], has_center: bool) -> Corners {
        let [a, b, c, d] = [0, 1, 2, 3].map(|at| numbers.get(at).copied().unwrap_or_default());
        match has_center {
            true => Corners { low: [b - d / 2.0, a - c / 2.0], high: [b + d / 2.0, a + c / 2.0] },
            false => Corners { low: [a.min(c), b.min(d)], high: [a.max(c), b.max(d)] },
        }
    }

    fn area(&self) -> f32 {
        (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])
    }

    /// Whether the common area is more than this share of the covered one.
    fn overlaps(&self, other: &Corners, share: f32) -> bool {
        let side = |at: usize| (self.high[at].min(other.high[at]) - self.low[at].max(other.low[at])).max(0.0);
        let common = side(0) * side(1);
        let covered = self.area() + other.area() - common;
        covered > 0.0 && common / covered > share
    }
}

/// The boxes that are chosen by descending score: none overlaps a chosen one.
fn chosen(boxes: &[Corners], scores: &[f32], most: usize, share: f32, least: Option<f32>) -> Vec<usize> {
    let is_scored = |at: &usize| least.is_none_or(|least| scores[*at] > least);
    let mut order: Vec<usize> = (0..boxes.len().min(scores.len())).filter(is_scored).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    let mut chosen: Vec<usize> = Vec::new();
    for candidate in order {
        if chosen.len() == most {
            break;
        }
        if !chosen.iter().any(|&other| boxes[candidate].overlaps(&boxes[other], share)) {
            chosen.push(candidate);
        }
    }
    chosen
}

fn non_max_suppression(cx: &mut NodeContext<'_>) -> Lowered {
    let has_center = cx.int_or("center_point_box", 0)? != 0;
    let most = cx.optional_ints(2)?.and_then(|values| values.first().copied()).unwrap_or(0);
    let most = usize::try_from(most).unwrap_or(0);
    let share = if cx.optional(3).is_some() { cx.host_float(3)? as f32 } else { 0.0 };
    let least = if cx.optional(4).is_some() { Some(cx.host_float(4)? as f32) } else { None };
    let (boxes, scores) = (cx.value(0)?, cx.value(1)?);
    let (&[batches, count, 4], &[others, classes, scored]) = (boxes.shape(), scores.shape()) else {
        return Err(OnnxError::operand(0, "expected boxes [batches, boxes, 4] and scores of three axes"));
    };
    if batches != others || count != scored {
        let problem = format!("{:?} does not fit {:?}", scores.shape(), boxes.shape());
        return Err(OnnxError::operand(1, problem));
    }
    cx.on_host(&[boxes, scores], move |arrays| {
        let (boxes, scores) = (array(arrays, 0)?.as_slice::<f32>()?, array(arrays, 1)?.as_slice::<f32>()?);
        let mut rows: Vec<i64> = Vec::new();
        for batch in 0..batches {
            let numbers = boxes.get(batch * count * 4..(batch + 1) * count * 4).unwrap_or_default();
            let corners: Vec<Corners> = numbers.chunks(4).map(|own| Corners::of(own, has_center)).collect();
            for class in 0..classes {
                let start = (batch * classes + class) * count;
                let own = scores.get(start..start + count).unwrap_or_default();
                for found in chosen(&corners, own, most, share, least) {
                    rows.extend([batch as i64, class as i64, found as i64]);
                }
            }
        }
        Ok(vec![HostArray::from_slice(&rows, [rows.len() / 3, 3])?])
    })
}
