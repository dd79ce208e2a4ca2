//! Fourier transforms, and the windows and filters around them.
//!
//! A transform is a product with a table of sines and cosines, which is computed once in f64.

use tnode::{DType, HostArray};

use super::{
    context::{Lowered, NodeContext},
    contract::product,
    operator::{Operator, op},
};
use crate::{
    error::{OnnxError, Result},
    host::floats_of,
    shape::axis,
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("BlackmanWindow", 17, |cx| signal_window(cx, &[0.42, -0.5, 0.08])),
    op("DFT", 17, transform),
    op("HammingWindow", 17, |cx| signal_window(cx, &[25.0 / 46.0, -21.0 / 46.0])),
    op("HannWindow", 17, |cx| signal_window(cx, &[0.5, -0.5])),
    op("MelWeightMatrix", 17, mel_weights),
    op("STFT", 17, short_time_transform),
];

/// The most numbers of a table.
const MOST_IN_TABLE: usize = 1 << 26;

/// A Fourier transform of one axis.
#[derive(Clone, Copy, Debug)]
struct Transform {
    /// The number of points.
    length: usize,
    is_inverse: bool,
    /// Whether one half stands for both: of the result, or of the operand of an inverse transform.
    is_onesided: bool,
    /// Whether the operand has an imaginary part.
    is_complex: bool,
}

impl Transform {
    /// The number of points that the operand and the result have.
    fn points(&self) -> (usize, usize) {
        let half = self.length / 2 + 1;
        match (self.is_onesided, self.is_inverse) {
            (false, _) => (self.length, self.length),
            (true, false) => (self.length, half),
            (true, true) => (half, self.length),
        }
    }

    /// The parts of a number in the operand and in the result: 1 if it is real, 2 if it is complex.
    fn parts(&self) -> (usize, usize) {
        (if self.is_complex { 2 } else { 1 }, if self.is_onesided && self.is_inverse { 1 } else { 2 })
    }

    /// The table `[points and parts of the operand, points and parts of the result]` for as many points as
    /// the operand has.
    fn table(&self, present: usize, dtype: DType) -> Result<HostArray> {
        let ((taken, made), (from, to)) = (self.points(), self.parts());
        let rows = taken.min(present);
        let size = rows.checked_mul(made).and_then(|size| size.checked_mul(from * to));
        if size.is_none_or(|size| size > MOST_IN_TABLE) {
            return Err(OnnxError::Case(format!("a Fourier transform of {} points", self.length)));
        }
        let mut table = Vec::new();
        for k in 0..rows {
            for part in 0..from {
                for n in 0..made {
                    let [cos, sin] = self.factors(k, n);
                    // (a + bi) · (cos + sin·i), of which a table has the rows of a and of b.
                    let row = if part == 0 { [cos, sin] } else { [-sin, cos] };
                    table.extend_from_slice(row.get(..to).unwrap_or(&row));
                }
            }
        }
        floats_of(dtype, &[rows * from, made * to], &table)
    }

    /// The real and imaginary part of the factor of point `k` of the operand in point `n` of the result.
    fn factors(&self, k: usize, n: usize) -> [f64; 2] {
        let turns = (k as u128 * n as u128 % self.length.max(1) as u128) as f64 / self.length as f64;
        let (sin, cos) = (turns * std::f64::consts::TAU).sin_cos();
        if !self.is_inverse {
            return [cos, -sin];
        }
        // A point that stands for its mirror image too counts twice.
        let is_mirrored = self.is_onesided && k != 0 && 2 * k != self.length;
        let scale = if is_mirrored { 2.0 } else { 1.0 } / self.length as f64;
        [cos * scale, sin * scale]
    }
}

/// The transform of the second axis from the end; the last one has the parts.
fn transformed(cx: &mut NodeContext<'_>, x: &Value, by: &Transform) -> Result<Value> {
    let [outer @ .., present, parts] = x.shape() else {
        return Err(OnnxError::operand(0, "expected two axes or more"));
    };
    let (outer, present, parts) = (outer.to_vec(), *present, *parts);
    let dtype = x.dtype();
    let ((taken, made), (from, to)) = (by.points(), by.parts());
    cx.reserve(DType::F64, &[taken.min(present), made, from, to])?;
    let table = cx.table(format!("{by:?} {present} {dtype}"), || by.table(present, dtype))?;
    let rows = table.shape()[0] / parts.max(1);
    let cropped = match rows < present {
        true => cx.taken(x, outer.len(), &(0..rows).collect::<Vec<_>>())?,
        false => x.clone(),
    };
    let flat = cx.reshaped(&cropped, &[outer.iter().product(), rows * parts])?;
    let result = product(cx, &flat, &table, x.dtype())?;
    let ((_, made), (_, to)) = (by.points(), by.parts());
    cx.reshaped(&result, &[outer.as_slice(), &[made, to]].concat())
}

fn is_complex(x: &Value) -> Result<bool> {
    match x.shape().last() {
        Some(1) => Ok(false),
        Some(2) if x.dtype().is_float() => Ok(true),
        _ => Err(OnnxError::operand(0, format!("expected 1 or 2 parts of a number, found {:?}", x.shape()))),
    }
}

fn transform(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let along = match cx.opset() < 20 {
        true => cx.int_or("axis", 1)?,
        false => cx.optional_ints(2)?.and_then(|values| values.first().copied()).unwrap_or(-2),
    };
    let at = axis(along, x.rank())?;
    let last = x.rank() - 1;
    if at == last || x.shape().contains(&0) {
        return Err(OnnxError::operand(0, format!("axis {at} of {:?} cannot be transformed", x.shape())));
    }
    let (is_inverse, is_onesided) = (cx.int_or("inverse", 0)? != 0, cx.int_or("onesided", 0)? != 0);
    let present = x.shape()[at];
    let length = match cx.optional_ints(1)? {
        Some(given) => given.first().and_then(|&length| usize::try_from(length).ok()),
        None if is_inverse && is_onesided => Some(2 * (present - 1)),
        None => Some(present),
    };
    let length = length.filter(|&length| length > 0);
    let length = length.ok_or_else(|| OnnxError::operand(1, "expected a positive length"))?;
    let by = Transform { length, is_inverse, is_onesided, is_complex: is_complex(&x)? };
    let mut order: Vec<usize> = (0..x.rank()).collect();
    order.swap(at, last - 1);
    let turned = cx.permuted(&x, &order)?;
    let result = transformed(cx, &turned, &by)?;
    Ok(vec![cx.permuted(&result, &order)?])
}

/// Transforms of frames that start at multiples of a step.
fn short_time_transform(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    // The axis of parts may be missing.
    let x = match x.shape() {
        &[batch, length] => cx.reshaped(&x, &[batch, length, 1])?,
        _ => x,
    };
    let &[batch, length, parts] = x.shape() else {
        return Err(OnnxError::operand(0, "expected a signal [batch, length, parts]"));
    };
    let positive = |values: Option<Vec<i64>>| {
        values.and_then(|values| usize::try_from(*values.first()?).ok()).filter(|&value| value > 0)
    };
    let step = positive(cx.optional_ints(1)?);
    let step = step.ok_or_else(|| OnnxError::operand(1, "expected a positive step"))?;
    let window = cx.optional(2);
    let frame = match (positive(cx.optional_ints(3)?), &window) {
        (Some(frame), _) => frame,
        (None, Some(window)) => window.num_elements(),
        (None, None) => length,
    };
    if frame == 0 || frame > length || window.as_ref().is_some_and(|window| window.shape() != [frame]) {
        return Err(OnnxError::operand(3, format!("a frame of {frame} elements does not fit {length}")));
    }
    let frames = (length - frame) / step + 1;
    let source = cx.bind_array(&x)?;
    let element = source.at(&["b".into(), format!("{step}*f + n"), "q".into()]);
    let weight = match &window {
        Some(window) => format!(" * {}", cx.bind_array(window)?.at(&["n".into()])),
        None => String::new(),
    };
    let text =
        format!("y[b,f,n,q] := {element}{weight} where b < {batch}, f < {frames}, n < {frame}, q < {parts}");
    let framed = cx.emit(x.dtype(), &[batch, frames, frame, parts], &text)?;
    let is_complex = is_complex(&x)?;
    let is_onesided = cx.int_or("onesided", 1)? != 0 && !is_complex;
    let by = Transform { length: frame, is_inverse: false, is_onesided, is_complex };
    Ok(vec![transformed(cx, &framed, &by)?])
}

/// The element type that a node asks for.
fn output_type(cx: &NodeContext<'_>) -> Result<DType> {
    Ok(cx.dtype_attribute("output_datatype")?.unwrap_or(DType::F32))
}

/// A sum of cosines with these coefficients over one period.
fn signal_window(cx: &mut NodeContext<'_>, coefficients: &[f64]) -> Lowered {
    let size = cx.host_ints(0)?.first().and_then(|&size| usize::try_from(size).ok());
    let size = size.filter(|&size| size < MOST_IN_TABLE);
    let size = size.ok_or_else(|| OnnxError::operand(0, "expected a size"))?;
    let is_periodic = cx.int_or("periodic", 1)? != 0;
    let period = if is_periodic { size } else { size.saturating_sub(1).max(1) };
    let value = |at: usize| {
        let angle = std::f64::consts::TAU * at as f64 / period as f64;
        coefficients.iter().enumerate().map(|(k, factor)| factor * (angle * k as f64).cos()).sum()
    };
    cx.reserve(DType::F64, &[size])?;
    let values: Vec<f64> = (0..size).map(value).collect();
    Ok(vec![cx.known(floats_of(output_type(cx)?, &[size], &values)?)])
}

/// Triangular filters whose centers are evenly spaced on the mel scale, as columns.
fn mel_weights(cx: &mut NodeContext<'_>) -> Lowered {
    let mut sizes = Vec::new();
    for at in 0..3 {
        let value = cx.host_ints(at)?.first().and_then(|&value| usize::try_from(value).ok());
        let value = value.filter(|value| (1..MOST_IN_TABLE).contains(value));
        sizes.push(value.ok_or_else(|| OnnxError::operand(at, "expected a positive integer"))?);
    }
    let &[filters, length, rate] = sizes.as_slice() else {
        return Err(OnnxError::operand(0, "it is missing"));
    };
    let [low, high] = [cx.host_float(3)?, cx.host_float(4)?];
    let mel = |hertz: f64| 2595.0 * (hertz / 700.0).ln_1p() / std::f64::consts::LN_10;
    let step = (mel(high) - mel(low)) / (filters + 2) as f64;
    let rows = length / 2 + 1;
    if rows.checked_mul(filters).is_none_or(|size| size > MOST_IN_TABLE) {
        return Err(OnnxError::overflow());
    }
    let bin = |at: usize| {
        let hertz = 700.0 * ((mel(low) + step * at as f64) / 2595.0 * std::f64::consts::LN_10).exp_m1();
        ((length + 1) as f64 * hertz / rate as f64).floor().clamp(0.0, rows as f64) as usize
    };
    cx.reserve(DType::F64, &[rows, filters])?;
    let mut weights = vec![0.0; rows * filters];
    for filter in 0..filters {
        let [left, center, right] = [bin(filter), bin(filter + 1), bin(filter + 2)];
        let mut set = |row: usize, value: f64| {
            if let Some(weight) = weights.get_mut(row * filters + filter) {
                *weight = value;
            }
        };
        match center - left {
            0 => set(center, 1.0),
            width => (left..=center).for_each(|row| set(row, (row - left) as f64 / width as f64)),
        }
        (center..right).for_each(|row| set(row, (right - row) as f64 / (right - center) as f64));
    }
    Ok(vec![cx.known(floats_of(output_type(cx)?, &[rows, filters], &weights)?)])
}
