//! Resampling: `Resize` and `Upsample`.

use tnode::{DType, HostArray, SizeSum};

use super::{
    context::{Lowered, NodeContext},
    operator::{Operator, op},
    shape::sizes,
};
use crate::{
    error::{OnnxError, Result},
    extents::extent,
    host::{HostValue, float},
    shape::{access, axis, letter, letters},
    value::Value,
};

pub(super) static OPERATORS: &[Operator] =
    &[op("Resize", 10, resize).sized(), op("Upsample", 7, resize).sized()];

/// The resampling of one axis.
struct AxisScale {
    axis: usize,
    size: usize,
    result: usize,
    scale: f64,
    /// The region of interest, as fractions of the axis.
    region: (f64, f64),
    /// Whether aligned corners are those of the size before it is rounded down.
    has_exact_corners: bool,
}

/// For each element of a resampled axis, the elements that it is a sum of, with their weights.
struct Taps {
    positions: Vec<Vec<usize>>,
    weights: Vec<Vec<f64>>,
    /// Whether the element lies outside of the axis and has the extrapolation value.
    is_outside: Vec<bool>,
}

/// The operands of a version: the positions of region, scales and sizes.
fn operands(cx: &NodeContext<'_>) -> (Option<usize>, usize, usize) {
    match (cx.operator(), cx.opset()) {
        ("Upsample", _) | (_, ..=10) => (None, 1, usize::MAX),
        _ => (Some(1), 2, 3),
    }
}

fn given_floats(cx: &mut NodeContext<'_>, at: usize) -> Result<Option<Vec<f64>>> {
    match cx.optional(at) {
        Some(value) if value.num_elements() > 0 => Ok(Some(cx.host(at)?.floats())),
        _ => Ok(None),
    }
}

fn scales(cx: &mut NodeContext<'_>) -> Result<Vec<AxisScale>> {
    let (region_at, scales_at, sizes_at) = operands(cx);
    let region = match region_at {
        Some(at) => given_floats(cx, at)?,
        None => None,
    };
    let scales = match (cx.operator(), cx.opset()) {
        ("Upsample", ..=8) => cx.floats("scales")?.map(|scales| scales.into_iter().map(f64::from).collect()),
        _ => given_floats(cx, scales_at)?,
    };
    let wanted = match cx.optional(sizes_at).is_some_and(|value| value.num_elements() > 0) {
        true => Some(sizes(&cx.host_ints(sizes_at)?)?),
        false => None,
    };
    let x = cx.value(0)?;
    if wanted.is_some() && x.has_sizes() {
        return Err(cx.needs_extents("the result has a number of elements that no size decides"));
    }
    let axes = match cx.ints("axes")? {
        Some(given) => given.iter().map(|&at| axis(at, x.rank())).collect::<Result<Vec<_>, _>>()?,
        None => (0..x.rank()).collect(),
    };
    let policy = cx.text_or("keep_aspect_ratio_policy", "stretch")?;
    let wrong =
        || OnnxError::operand(scales_at, format!("expected a number for each of {} axes", axes.len()));
    let region_of = |at: usize| match &region {
        Some(region) if region.len() == 2 * axes.len() => (region[at], region[at + axes.len()]),
        _ => (0.0, 1.0),
    };
    // The standard's examples of a smaller image divide by the exact size, which torch and onnxruntime do
    // not; their files say nothing but the two modes, and have one image of one channel.
    let is_standard_example = cx.attributes() == 2 && x.shape().starts_with(&[1, 1]);
    let mut results = Vec::new();
    match (scales, wanted) {
        (Some(scales), _) if scales.len() == axes.len() => {
            for (at, (&axis, scale)) in axes.iter().zip(scales).enumerate() {
                let size = x.shape()[axis];
                // In f32, as in onnxruntime, and of the whole axis even if only a region of it is resampled.
                let result = (size as f32 * scale as f32).floor();
                if !(0.0..1e9).contains(&result) {
                    return Err(wrong());
                }
                let (result, region) = (result as usize, region_of(at));
                let has_exact_corners = is_standard_example && scale < 1.0;
                results.push(AxisScale { axis, size, result, scale, region, has_exact_corners });
            }
        }
        (None, Some(wanted)) if wanted.len() == axes.len() => {
            let ratio = |(&axis, &result): (&usize, &usize)| result as f64 / x.shape()[axis] as f64;
            let ratios = axes.iter().zip(&wanted).map(ratio);
            let common = match policy {
                "not_larger" => ratios.reduce(f64::min),
                "not_smaller" => ratios.reduce(f64::max),
                _ => None,
            };
            for (at, (&axis, &result)) in axes.iter().zip(&wanted).enumerate() {
                let size = x.shape()[axis];
                let scale = common.unwrap_or(result as f64 / size as f64);
                let result = common.map_or(result, |common| (common * size as f64).round() as usize);
                let region = region_of(at);
                results.push(AxisScale { axis, size, result, scale, region, has_exact_corners: false });
            }
        }
        _ => return Err(wrong()),
    }
    Ok(results)
}

fn is_cropped(cx: &NodeContext<'_>) -> Result<bool> {
    Ok(cx.text_or("coordinate_transformation_mode", "half_pixel")? == "tf_crop_and_resize")
}

fn resize(cx: &mut NodeContext<'_>) -> Lowered {
    let scales = scales(cx)?;
    let mut x = cx.value(0)?;
    let (dtype, mode) = (x.dtype(), cx.text_or("mode", "nearest")?);
    // Sums are rounded once, not after each axis.
    let wide = match dtype {
        DType::F32 | DType::F64 => dtype,
        _ => DType::F32,
    };
    if mode != "nearest" {
        x = cx.cast(&x, wide)?;
    }
    for scale in scales {
        let is_same = scale.size == scale.result && scale.scale == 1.0 && !is_cropped(cx)?;
        if is_same {
            continue;
        }
        if scale.size == 0 {
            return Err(OnnxError::operand(0, "it has no elements"));
        }
        let mut shape = x.shape().to_vec();
        shape[scale.axis] = scale.result;
        cx.reserve(wide, &shape)?;
        let is_sized = x.extents().0[scale.axis].size.is_some();
        if x.has_sizes() && (mode != "nearest" || (is_sized && !is_repeated(&scale))) {
            return Err(cx.needs_extents("positions or weights depend on the size of an axis"));
        }
        // Positions and weights of all taps.
        let reach = if scale.scale < 1.0 { (8.0 / scale.scale).min(1e6) as usize } else { 8 };
        cx.reserve(DType::F64, &[scale.result, 2, reach])?;
        let taps = taps(cx, mode, &scale)?;
        let is_inside = !taps.is_outside.contains(&true);
        x = match (mode, is_inside) {
            ("nearest", true) => nearest(cx, &x, &scale, &taps, &shape)?,
            _ => weighted(cx, &x, scale.axis, &taps, &shape)?,
        };
    }
    // Integers are truncated, as in onnxruntime, but for smoothed ones.
    if x.dtype() != dtype && !dtype.is_float() && cx.int_or("antialias", 0)? != 0 {
        return Ok(vec![cx.mapped(&x, dtype, &format!("{dtype}(round_even({{}}))"))?]);
    }
    Ok(vec![cx.cast(&x, dtype)?])
}

/// Whether the scale is an integer above 1, by whatever number of elements the axis has.
fn is_repeated(scale: &AxisScale) -> bool {
    let factor = scale.result / scale.size.max(1);
    factor > 1 && scale.result == factor * scale.size && scale.scale == factor as f64
}

/// Repeats elements, or selects them where the scale is no integer.
fn nearest(
    cx: &mut NodeContext<'_>,
    x: &Value,
    scale: &AxisScale,
    taps: &Taps,
    shape: &[usize],
) -> Result<Value> {
    let positions: Vec<usize> =
        taps.positions.iter().filter_map(|positions| positions.first().copied()).collect();
    let factor = scale.result / scale.size.max(1);
    let is_repeated =
        factor > 1 && positions.iter().enumerate().all(|(at, &position)| position == at / factor);
    if !is_repeated || scale.result != factor * scale.size || x.known().is_some() {
        return cx.taken(x, scale.axis, &positions);
    }
    let read = cx.bind_array(x)?.whole();
    let mut target = letters(shape.len());
    target[scale.axis] = format!("{factor}*{} + k", letter(scale.axis));
    let text = format!("{} := {read} where k < {factor}", access("y", &target));
    let mut extents = x.extents();
    let repeated = SizeSum::from(&extents.0[scale.axis]).times(&(factor as i64).into());
    extents.0[scale.axis] = extent(&repeated.ok_or_else(OnnxError::overflow)?)?;
    // No index of one letter covers an axis of a size that is a multiple.
    let start = match extents.0[scale.axis].size {
        Some(_) => format!("{} := 0\n", access("y", letters(shape.len()))),
        None => String::new(),
    };
    cx.emit(x.dtype(), &extents, &(start + &text))
}

/// Sums of weighted elements of an axis.
fn weighted(cx: &mut NodeContext<'_>, x: &Value, at: usize, taps: &Taps, shape: &[usize]) -> Result<Value> {
    /// More taps are a loop.
    const MOST_TERMS: usize = 4;
    let count = taps.positions.first().map_or(0, Vec::len);
    if count > MOST_TERMS && !taps.is_outside.contains(&true) {
        return weighted_by_loop(cx, x, at, taps, shape);
    }
    let dtype = x.dtype();
    let source = cx.bind_array(x)?;
    let here = [letter(at)];
    let mut terms = Vec::new();
    for tap in 0..count {
        let positions: Vec<i32> = taps.positions.iter().map(|positions| positions[tap] as i32).collect();
        let weights: Vec<f32> = taps.weights.iter().map(|weights| weights[tap] as f32).collect();
        let positions = constant(HostArray::from_slice(&positions, [positions.len()])?);
        let weights = constant(HostArray::from_slice(&weights, [weights.len()])?);
        let position = cx.bind_array(&positions)?.at(&here);
        let weight = cx.bind_array(&weights)?.at(&here);
        let mut index = letters(shape.len());
        index[at] = position;
        terms.push(format!("{weight} * {}", source.at(&index)));
    }
    let mut sum = terms.join(" + ");
    if taps.is_outside.contains(&true) {
        let outside: Vec<i32> = taps.is_outside.iter().map(|&outside| outside.into()).collect();
        let outside = constant(HostArray::from_slice(&outside, [outside.len()])?);
        let outside = cx.bind_array(&outside)?.at(&here);
        let value = float(DType::F32, f64::from(cx.float_or("extrapolation_value", 0.0)?));
        sum = format!("where({outside} > 0, {value}, {sum})");
    }
    cx.emit(dtype, shape, &format!("{} := {sum}", access("y", letters(shape.len()))))
}

/// As `weighted`, with a loop over the taps.
fn weighted_by_loop(
    cx: &mut NodeContext<'_>,
    x: &Value,
    at: usize,
    taps: &Taps,
    shape: &[usize],
) -> Result<Value> {
    let (rows, count) = (taps.positions.len(), taps.positions.first().map_or(0, Vec::len));
    let positions: Vec<i32> = taps.positions.iter().flatten().map(|&position| position as i32).collect();
    let weights: Vec<f32> = taps.weights.iter().flatten().map(|&weight| weight as f32).collect();
    let dtype = x.dtype();
    let source = cx.bind_array(x)?;
    let tap = [letter(at), "k".into()];
    let positions = constant(HostArray::from_slice(&positions, [rows, count])?);
    let weights = constant(HostArray::from_slice(&weights, [rows, count])?);
    let mut index = letters(shape.len());
    index[at] = cx.bind_array(&positions)?.at(&tap);
    let weight = cx.bind_array(&weights)?.at(&tap);
    let all = letters(shape.len());
    let text = format!("{} :+= {weight} * {}", access("y", &all), source.at(&index));
    cx.emit(dtype, shape, &text)
}

fn constant(array: HostArray) -> Value {
    Value::Known(HostValue::new(array, false))
}

/// The coordinate of element `at` of the result in the operand. It is computed in f32, as in onnxruntime and
/// torch: in f64, quotients such as 17 / 1.7 would be just below the integer that they are in f32.
fn coordinate(mode: &str, at: usize, scale: &AxisScale) -> Option<f64> {
    let (position, size, result) = (at as f32, scale.size as f32, scale.result as f32);
    let factor = scale.scale as f32;
    let half = (position + 0.5) / factor - 0.5;
    Some(f64::from(match mode {
        "half_pixel" => half,
        "half_pixel_symmetric" => {
            let adjustment = result / (size * factor);
            size / 2.0 * (1.0 - adjustment) + half
        }
        "pytorch_half_pixel" => {
            if result > 1.0 {
                half
            } else {
                0.0
            }
        }
        "align_corners" => {
            let last = if scale.has_exact_corners { size * factor - 1.0 } else { result - 1.0 };
            if result > 1.0 { position * (size - 1.0) / last } else { 0.0 }
        }
        "asymmetric" => position / factor,
        "tf_half_pixel_for_nn" => (position + 0.5) / factor,
        "tf_crop_and_resize" => {
            let [start, end] = [scale.region.0, scale.region.1].map(|at| at as f32);
            match result > 1.0 {
                true => start * (size - 1.0) + position * (end - start) * (size - 1.0) / (result - 1.0),
                false => 0.5 * (start + end) * (size - 1.0),
            }
        }
        _ => return None,
    }))
}

fn taps(cx: &NodeContext<'_>, mode: &str, scale: &AxisScale) -> Result<Taps> {
    let is_old = cx.opset() < 11 || cx.operator() == "Upsample";
    let default = if is_old { "asymmetric" } else { "half_pixel" };
    let transformation = cx.text_or("coordinate_transformation_mode", default)?;
    let rounding = match is_old {
        // As in onnxruntime and in the examples of these versions.
        true if scale.scale < 1.0 => "ceil",
        true => "floor",
        false => cx.text_or("nearest_mode", "round_prefer_floor")?,
    };
    let cubic = f64::from(cx.float_or("cubic_coeff_a", -0.75)?);
    let is_smoothed = cx.int_or("antialias", 0)? != 0 && scale.scale < 1.0;
    let excludes = cx.int_or("exclude_outside", 0)? != 0 && (mode == "cubic" || is_smoothed);
    if is_smoothed && scale.scale < 1e-4 {
        return Err(OnnxError::Case(format!("antialiasing at the scale {}", scale.scale)));
    }
    let last = scale.size as f64 - 1.0;
    let mut taps = Taps { positions: Vec::new(), weights: Vec::new(), is_outside: Vec::new() };
    for at in 0..scale.result {
        let found = coordinate(transformation, at, scale)
            .ok_or_else(|| OnnxError::attribute("coordinate_transformation_mode", "a known mode"))?;
        taps.is_outside.push(transformation == "tf_crop_and_resize" && !(0.0..=last).contains(&found));
        let base = found.floor();
        let fraction = found - base;
        let weights: Vec<(f64, f64)> = match mode {
            "linear" if is_smoothed => smoothed(found, scale.scale, 1.0, |d| (1.0 - d.abs()).max(0.0)),
            "cubic" if is_smoothed => smoothed(found, scale.scale, 2.0, |d| cubic_weight(d, cubic)),
            "nearest" => vec![(rounded(rounding, found)?, 1.0)],
            "linear" => vec![(base, 1.0 - fraction), (base + 1.0, fraction)],
            "cubic" => (-1..=2)
                .map(|tap| (base + f64::from(tap), cubic_weight(fraction - f64::from(tap), cubic)))
                .collect(),
            _ => return Err(OnnxError::attribute("mode", "nearest, linear or cubic")),
        };
        let is_inside = |position: f64| (0.0..=last).contains(&position);
        let weight =
            |&(position, weight): &(f64, f64)| if excludes && !is_inside(position) { 0.0 } else { weight };
        let sum: f64 = weights.iter().map(weight).sum();
        let scale = if excludes && sum != 0.0 { 1.0 / sum } else { 1.0 };
        taps.weights.push(weights.iter().map(|tap| weight(tap) * scale).collect());
        taps.positions
            .push(weights.iter().map(|&(position, _)| position.clamp(0.0, last) as usize).collect());
    }
    Ok(taps)
}

/// The elements within `radius` in the smaller image of a coordinate in the larger one, and their weights.
/// The filter is as wide as the elements of the smaller image, so that no element of the larger one is left
/// out.
fn smoothed(coordinate: f64, scale: f64, radius: f64, weight: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    let reach = (radius / scale).ceil();
    let base = coordinate.floor();
    // All elements of an axis have as many taps.
    let positions = (0..2 * reach as usize + 2).map(|tap| base - reach + tap as f64);
    let taps: Vec<(f64, f64)> =
        positions.map(|position| (position, weight((position - coordinate) * scale))).collect();
    let sum: f64 = taps.iter().map(|tap| tap.1).sum();
    taps.into_iter().map(|(position, weight)| (position, weight / sum)).collect()
}

/// The weight of an element at that distance in cubic interpolation with coefficient `a`.
fn cubic_weight(distance: f64, a: f64) -> f64 {
    let d = distance.abs();
    match d {
        d if d <= 1.0 => ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0,
        d if d < 2.0 => ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a,
        _ => 0.0,
    }
}

fn rounded(mode: &str, value: f64) -> Result<f64> {
    Ok(match mode {
        "round_prefer_floor" => (value - 0.5).ceil(),
        "round_prefer_ceil" => (value + 0.5).floor(),
        "floor" => value.floor(),
        "ceil" => value.ceil(),
        _ => return Err(OnnxError::attribute("nearest_mode", "a known mode")),
    })
}
