//! Samples of images at computed positions.
//!
//! Each axis of an image has two arrays for all samples: `p` has the offsets, in the flat image, of the
//! elements that a sample is made of, and `w` has their weights. A sample is a sum over the elements of all
//! axes, so that each access of the image has one computed index, the sum of the offsets.

use arrayjit_tensor::low_level::{numbered, ranges_of};
use tnode::DType;

use super::{
    context::{Lowered, NodeContext},
    operator::{Operator, op},
    reduce::wide,
    shape::sizes,
    window,
};
use crate::{
    error::{OnnxError, Result},
    host::float,
    shape::{access, dims, elements},
    value::Value,
};

pub(super) static OPERATORS: &[Operator] = &[
    op("AffineGrid", 20, affine_grid),
    op("DeformConv", 19, deformable),
    op("GridSample", 16, grid_sample),
    op("RoiAlign", 10, align),
];

/// How an element is found between those of an image.
#[derive(Clone, Copy, PartialEq)]
enum Interpolation {
    Nearest,
    Linear,
    Cubic,
}

impl Interpolation {
    fn of(mode: &str) -> Option<Interpolation> {
        Some(match mode {
            "nearest" => Interpolation::Nearest,
            "linear" | "bilinear" => Interpolation::Linear,
            "cubic" | "bicubic" => Interpolation::Cubic,
            _ => return None,
        })
    }

    /// The number of elements of an axis that a sample is made of.
    fn taps(self) -> usize {
        match self {
            Interpolation::Nearest => 1,
            Interpolation::Linear => 2,
            Interpolation::Cubic => 4,
        }
    }

    /// The distance of the first element to the one below the coordinate.
    fn first(self) -> i64 {
        if self == Interpolation::Cubic { -1 } else { 0 }
    }

    /// The weight of element `k`, where `f` is the fraction of the coordinate.
    fn weight(self, k: &str, f: &str) -> String {
        match self {
            Interpolation::Nearest => "1.0".into(),
            Interpolation::Linear => format!("where({k} == 0, 1.0 - {f}, {f})"),
            Interpolation::Cubic => {
                let d = format!("abs({f} + 1.0 - {k})");
                let near = format!("(1.25 * {d} - 2.25) * {d} * {d} + 1.0");
                let far = format!("((-0.75 * {d} + 3.75) * {d} - 6.0) * {d} + 3.0");
                format!("where({d} <= 1.0, {near}, {far})")
            }
        }
    }
}

/// The elements of an image outside of it.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Zero,
    Border,
    /// The image is reflected at the centers of its last elements, or at their edges.
    Reflected {
        at_centers: bool,
    },
}

/// Text that reflects `x` between the ends of an axis.
fn reflected(x: &str, size: usize, at_centers: bool) -> String {
    let (low, length) = match at_centers {
        true => (0.0, size as f64 - 1.0),
        false => (-0.5, size as f64),
    };
    if length == 0.0 {
        return format!("min(max({x}, 0.0), 0.0)");
    }
    let [low, period, length] = [low, 2.0 * length, length].map(|number| float(DType::F32, number));
    let distance = format!("abs({x} - {low})");
    let rest = format!("({distance} - floor({distance} / {period}) * {period})");
    format!("{low} + where({rest} > {length}, {period} - {rest}, {rest})")
}

/// The samples along one axis of an image.
struct AxisSamples<'a> {
    axis: usize,
    size: usize,
    /// The distance in the flat image of elements that follow each other on the axis.
    stride: usize,
    /// The letters and sizes of the samples.
    letters: &'a [String],
    shape: &'a [usize],
}

impl AxisSamples<'_> {
    fn at(&self, name: &str) -> String {
        access(&format!("{name}{}", self.axis), self.letters)
    }

    /// An access of the positions or weights, which have an axis of elements behind those of the samples.
    fn tap(&self, name: &str) -> String {
        let letter = format!("t{}", self.axis);
        access(&format!("{name}{}", self.axis), [self.letters, &[letter]].concat())
    }

    /// The statements that fill the positions and weights for the coordinates `c`, which are in elements.
    fn statements(&self, mode: Interpolation, outside: Outside) -> String {
        let AxisSamples { axis, size, stride, shape, .. } = self;
        let k = format!("t{axis}");
        let (coordinate, base) = (self.at("c"), self.at("b"));
        let (last, taps) = (size - 1, mode.taps());
        let round = if mode == Interpolation::Nearest { "round_even" } else { "floor" };
        let position = format!("i32({base}) + {k} + {}", mode.first()).replace("+ -", "- ");
        let weight = mode.weight(&k, &format!("({coordinate} - {base})"));
        let inside = format!("and({position} >= 0, {position} <= {last})");
        let (element, weight) = match outside {
            Outside::Zero => {
                (format!("min(max({position}, 0), {last})"), format!("where({inside}, {weight}, 0.0)"))
            }
            Outside::Border => (format!("min(max({position}, 0), {last})"), weight),
            Outside::Reflected { at_centers } => {
                let found = reflected(&format!("f32({position})"), *size, at_centers);
                (format!("min(max(i32({found}), 0), {last})"), weight)
            }
        };
        let full = dims(&[shape, [taps].as_slice()].concat());
        let (p, w) = (self.tap("p"), self.tap("w"));
        format!(
            "node b{axis} f32[{}], p{axis} i32[{full}], w{axis} f32[{full}]\n\
             {base} := {round}({coordinate})\n\
             {p} := ({element}) * {stride} where {k} < {taps}\n\
             {w} := {weight} where {k} < {taps}\n",
            dims(shape)
        )
    }
}

/// The sum of the positions and the product of the weights of all axes.
fn position_and_weight(axes: &[AxisSamples<'_>]) -> (String, String) {
    let all = |name: &str| axes.iter().map(|axis| axis.tap(name)).collect::<Vec<_>>();
    (all("p").join(" + "), all("w").join(" * "))
}

/// The distances in a flat image of the elements that follow each other on each axis.
fn strides(space: &[usize]) -> Vec<usize> {
    (0..space.len()).map(|at| space[at + 1..].iter().product()).collect()
}

/// An image with one axis for all axes of space.
fn flat(cx: &mut NodeContext<'_>, x: &Value) -> Result<Value> {
    let shape = [&x.shape()[..2], &[x.shape()[2..].iter().product()]].concat();
    if shape.contains(&0) || shape[2] > i32::MAX as usize {
        return Err(OnnxError::operand(0, format!("an image {:?} has no samples", x.shape())));
    }
    cx.reshaped(x, &shape)
}

fn grid_sample(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, grid) = (cx.value(0)?, cx.value(1)?);
    let rank = x.rank().saturating_sub(2);
    let fits = rank > 0
        && grid.rank() == x.rank()
        && grid.shape()[0] == x.shape()[0]
        && grid.shape().last() == Some(&rank);
    if !fits {
        return Err(OnnxError::operand(1, format!("{:?} does not fit {:?}", grid.shape(), x.shape())));
    }
    let at_centers = cx.int_or("align_corners", 0)? != 0;
    let mode = Interpolation::of(cx.text_or("mode", "linear")?);
    let mode = mode.ok_or_else(|| OnnxError::attribute("mode", "nearest, linear or cubic"))?;
    let outside = match cx.text_or("padding_mode", "zeros")? {
        "zeros" => Outside::Zero,
        "border" => Outside::Border,
        "reflection" => Outside::Reflected { at_centers },
        _ => return Err(OnnxError::attribute("padding_mode", "zeros, border or reflection")),
    };
    let result = [&x.shape()[..2], &grid.shape()[1..=rank]].concat();
    if result.contains(&0) {
        return Ok(vec![cx.empty(x.dtype(), &result)?]);
    }
    let (space, image) = (x.shape()[2..].to_vec(), flat(cx, &x)?);
    let source = cx.bind_array(&image)?;
    let points = cx.bind_array(&grid)?;
    let letters = [vec!["n".to_owned()], numbered("o", rank)].concat();
    let shape = [&x.shape()[..1], &grid.shape()[1..=rank]].concat();
    let strides = strides(&space);
    let (mut text, mut axes) = (String::new(), Vec::new());
    for (axis, &size) in space.iter().enumerate() {
        let own = AxisSamples { axis, size, stride: strides[axis], letters: &letters, shape: &shape };
        // The last axis of the image is the first coordinate.
        let point = points.at(&[letters.clone(), vec![(rank - 1 - axis).to_string()]].concat());
        let place = match at_centers {
            true => format!("(f32({point}) + 1.0) / 2.0 * {:?}", size as f64 - 1.0),
            false => format!("((f32({point}) + 1.0) * {:?} - 1.0) / 2.0", size as f64),
        };
        let given = own.at("a");
        text.push_str(&format!("node a{axis} f32[{shape}], c{axis} f32[{shape}]\n", shape = dims(&shape)));
        // The nearest element is found before the coordinate is moved into the image.
        let place = if mode == Interpolation::Nearest { format!("round_even({place})") } else { place };
        text.push_str(&format!(
            "{given} := {place}\n{} := {}\n",
            own.at("c"),
            // A cubic function moves each of its elements instead.
            if mode == Interpolation::Cubic {
                given.clone()
            } else {
                moved(&given, size, outside, at_centers)
            }
        ));
        text.push_str(&own.statements(mode, outside));
        axes.push(own);
    }
    let (position, weight) = position_and_weight(&axes);
    let (dtype, wide) = (x.dtype(), if x.dtype().is_float() { wide(x.dtype()) } else { DType::F32 });
    let element = source.at(&["n".into(), "c".into(), position]);
    let target = [vec!["n".to_owned(), "c".into()], numbered("o", rank)].concat();
    text.push_str(&format!(
        "node s {wide}[{}]\n{sum} :+= {weight} * {wide}({element})\n{} := {dtype}({sum})",
        dims(&result),
        access("y", &target),
        sum = access("s", &target)
    ));
    Ok(vec![cx.emit(dtype, &result, &text)?])
}

/// The coordinate within the image, if it is outside of the edges and elements there are not zero.
fn moved(given: &str, size: usize, outside: Outside, at_centers: bool) -> String {
    let [low, high] = match at_centers {
        true => [0.0, size as f64 - 1.0],
        false => [-0.5, size as f64 - 0.5],
    };
    let inside = match outside {
        Outside::Zero => return given.into(),
        Outside::Border => format!("min(max({given}, 0.0), {:?})", size as f64 - 1.0),
        Outside::Reflected { at_centers } => reflected(given, size, at_centers),
    };
    format!("where(and({given} >= {low:?}, {given} <= {high:?}), {given}, {inside})")
}

/// The positions of the elements of an image before an affine function, in -1 to 1 for each axis.
fn affine_grid(cx: &mut NodeContext<'_>) -> Lowered {
    let theta = cx.value(0)?;
    let size = sizes(&cx.host_ints(1)?)?;
    let space = size.get(2..).unwrap_or_default().to_vec();
    let rank = space.len();
    if !matches!(rank, 2 | 3) || theta.shape() != [size[0], rank, rank + 1] {
        return Err(OnnxError::operand(0, format!("{:?} does not fit the size {size:?}", theta.shape())));
    }
    let at_centers = cx.int_or("align_corners", 0)? != 0;
    let shape = [&size[..1], &space, &[rank]].concat();
    elements(&shape)?;
    let operand = cx.bind_array(&theta)?;
    let factor = |column: usize| operand.at(&["n".into(), "r".into(), column.to_string()]);
    // The first coordinate is along the last axis.
    let coordinate = |column: usize| {
        let (letter, length) = (format!("o{}", rank - 1 - column), space[rank - 1 - column] as f64);
        match at_centers {
            true if length == 1.0 => "0.0".to_owned(),
            true => format!("({letter} * {:?} - 1.0)", 2.0 / (length - 1.0)),
            false => format!("((2 * {letter} + 1) * {:?} - 1.0)", 1.0 / length),
        }
    };
    let terms: Vec<String> =
        (0..rank).map(|column| format!("{} * {}", factor(column), coordinate(column))).collect();
    let target = [vec!["n".to_owned()], numbered("o", rank), vec!["r".into()]].concat();
    let text = format!(
        "{} := {} + {} where {}",
        access("y", &target),
        terms.join(" + "),
        factor(rank),
        ranges_of(&numbered("o", rank), space)
    );
    Ok(vec![cx.emit(theta.dtype(), &shape, &text)?])
}

/// The grids of samples in each part of a region, which the regions decide if there is no ratio.
fn region_samples(cx: &mut NodeContext<'_>, regions: &Value, counts: [usize; 2]) -> Result<[usize; 2]> {
    /// More samples than these for each part are an error.
    const MOST: f64 = 4096.0;
    let ratio = cx.int_or("sampling_ratio", 0)?;
    if ratio > 0 {
        let ratio = usize::try_from(ratio).unwrap_or(usize::MAX).min(MOST as usize);
        return Ok([ratio; 2]);
    }
    let scale = f64::from(cx.float_or("spatial_scale", 1.0)?);
    let least = if is_half_pixel(cx)? { 0.0 } else { 1.0 };
    // Only the shape of the result counts: what follows depends on the largest region.
    let shape = cx.on_host(std::slice::from_ref(regions), move |arrays| {
        let values = arrays.first().map(|array| array.values()).unwrap_or_default();
        let most = |start: usize, end: usize, parts: usize| {
            let length = |region: &[f64]| ((region[end] - region[start]) * scale).max(least) / parts as f64;
            values.chunks_exact(4).map(length).fold(0.0, f64::max).ceil().clamp(1.0, MOST) as usize
        };
        let grid = [most(1, 3, counts[0]), most(0, 2, counts[1])];
        Ok(vec![tnode::HostArray::zeros(DType::Bool, grid)?])
    })?;
    match shape.first().map(Value::shape) {
        Some(&[rows, columns]) => Ok([rows, columns]),
        _ => Err(OnnxError::operand(1, "the regions are not known")),
    }
}

fn is_half_pixel(cx: &NodeContext<'_>) -> Result<bool> {
    let default = if cx.opset() < 16 { "output_half_pixel" } else { "half_pixel" };
    Ok(cx.text_or("coordinate_transformation_mode", default)? == "half_pixel")
}

/// One axis of the samples of regions. For axis 0, statements define for the region `r` the length `l0` and
/// the count of samples `g0` of a part, and for each sample its place `a0`, which `c0` brings into the image,
/// the pixel `b0` in front of it, and the positions `p0` and weights `w0` of its two pixels.
struct RegionAxis<'a> {
    samples: AxisSamples<'a>,
    /// The first and last edge of the region, in pixels.
    edges: [String; 2],
    /// The parts of a region, and the most samples of a part.
    counts: [usize; 2],
    /// The samples of each part, or 0 for one in each pixel.
    ratio: i64,
    is_half_pixel: bool,
}

impl RegionAxis<'_> {
    fn statements(&self) -> String {
        let RegionAxis { samples: own, edges: [start, end], counts: [parts, count], ratio, .. } = self;
        let (axis, shape, stride) = (own.axis, own.shape, own.stride);
        let (full, dims, regions) = (dims(&[shape, &[2]].concat()), dims(shape), shape[0]);
        let (size, last) = (own.size as f64, own.size as f64 - 1.0);
        let (length, offset) = match self.is_half_pixel {
            true => (format!("{end} - {start}"), " - 0.5"),
            false => (format!("max({end} - {start}, 1.0)"), ""),
        };
        let grid = match ratio {
            1.. => format!("{ratio}.0"),
            _ => format!("max(0.0 - floor(-(l{axis}[r] / {parts}.0)), 0.0)"),
        };
        let [_, part, sample] = own.letters else { return String::new() };
        let [raw, low, c] = ["a", "b", "c"].map(|name| own.at(name));
        let (step, tap) = (format!("l{axis}[r] / {parts}.0"), format!("t{axis}"));
        format!(
            "node l{axis} f32[{regions}], g{axis} f32[{regions}], a{axis} f32[{dims}], c{axis} f32[{dims}], \
             b{axis} f32[{dims}], p{axis} i32[{full}], w{axis} f32[{full}]\n\
             l{axis}[r] := {length}\ng{axis}[r] := {grid}\n\
             {raw} := {start}{offset} + {part} * {step} + ({sample} + 0.5) * {step} / g{axis}[r] where {part} < {parts}, {sample} < {count}\n\
             {c} := min(max({raw}, 0.0), {last:?})\n{low} := floor({c})\n\
             {} := i32(min({low} + {tap}, {last:?})) * {stride} where {tap} < 2\n\
             {} := where(and({raw} >= -1.0, {raw} <= {size:?}), where({tap} == 0, 1.0 - ({c} - {low}), {c} - {low}), 0.0) where {tap} < 2\n",
            own.tap("p"),
            own.tap("w"),
        )
    }
}

/// Letters: `r` the region, `c` the channel, `h` and `v` the part, `i` and `j` the sample in it.
fn align(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, regions, batch) = (cx.value(0)?, cx.value(1)?, cx.value(2)?);
    let (&[images, channels, height, width], &[count, 4]) = (x.shape(), regions.shape()) else {
        return Err(OnnxError::operand(1, "expected images of four axes and regions [count, 4]"));
    };
    if batch.shape() != [count] {
        return Err(OnnxError::operand(2, format!("expected the shape [{count}]")));
    }
    let parts = [cx.count("output_height", 1)?, cx.count("output_width", 1)?];
    let shape = [count, channels, parts[0], parts[1]];
    if shape.contains(&0) {
        return Ok(vec![cx.empty(x.dtype(), &shape)?]);
    }
    let samples = region_samples(cx, &regions, parts)?;
    let is_mean = match cx.text_or("mode", "avg")? {
        "avg" => true,
        "max" => false,
        _ => return Err(OnnxError::attribute("mode", "avg or max")),
    };
    let all = elements(&[images, channels, height, width])?;
    let image = cx.reshaped(&x, &[all])?;
    let source = cx.bind_array(&image)?;
    let region = cx.bind_array(&regions)?;
    let image_of = cx.bind_array(&batch)?.at(&["r".into()]);
    let is_half_pixel = is_half_pixel(cx)?;
    let scale = float(DType::F32, f64::from(cx.float_or("spatial_scale", 1.0)?));
    let ratio = cx.int_or("sampling_ratio", 0)?;
    let edge = |at: usize| format!("f32({}) * {scale}", region.at(&["r".into(), at.to_string()]));
    let letters = [["r", "h", "i"], ["r", "v", "j"]].map(|names| names.map(str::to_owned));
    let shapes = [0, 1].map(|axis| [count, parts[axis], samples[axis]]);
    let axes = [(1, 3, height, width), (0, 2, width, 1)];
    let axes = [0, 1].map(|axis| {
        let (start, end, size, stride) = axes[axis];
        RegionAxis {
            samples: AxisSamples { axis, size, stride, letters: &letters[axis], shape: &shapes[axis] },
            edges: [edge(start), edge(end)],
            counts: [parts[axis], samples[axis]],
            ratio,
            is_half_pixel,
        }
    });
    let mut text: String = axes.iter().map(RegionAxis::statements).collect();
    let (position, weight) = position_and_weight(&axes.map(|axis| axis.samples));
    let (dtype, wide) = (x.dtype(), wide(x.dtype()));
    let element =
        source.at(&[format!("(i32({image_of}) * {channels} + c) * {} + {position}", height * width)]);
    let is_used = "and(i < g0[r], j < g1[r])";
    let value = format!("{weight} * {wide}({element})");
    let ranges = format!("where c < {channels}");
    // A region without samples has zeros.
    text.push_str(&match is_mean {
        true => format!(
            "s[r,c,h,v] :+= where({is_used}, {value}, 0.0) {ranges}\n\
             y[r,c,h,v] := {dtype}(s[r,c,h,v] / max(g0[r] * g1[r], 1.0))"
        ),
        false => format!(
            "s[r,c,h,v] :max= where({is_used}, {value}, -inf) {ranges}\n\
             y[r,c,h,v] := {dtype}(where(g0[r] * g1[r] == 0, 0, s[r,c,h,v]))"
        ),
    });
    Ok(vec![cx.emit(dtype, &shape, &text)?])
}

/// A convolution whose samples are moved. Letters: `n` the element of the batch, `q` the group of offsets,
/// `e` the channel in it, `k` the element of the window, `o` the window.
fn deformable(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, filters, offsets) = (cx.value(0)?, cx.value(1)?, cx.value(2)?);
    let windows = window::windows_of(cx, &x, &filters)?;
    let rank = windows.len();
    let (space, kernel) = (x.shape()[2..].to_vec(), filters.shape()[2..].to_vec());
    let count = |name: &str| usize::try_from(cx.int_or(name, 1).unwrap_or(0)).unwrap_or(0);
    let (groups, moved) = (count("group"), count("offset_group"));
    let (batch, channels, outputs) = (x.shape()[0], x.shape()[1], filters.shape()[0]);
    let taps: usize = kernel.iter().product();
    let result: Vec<usize> = windows.iter().map(|window| window.count).collect();
    let expected = [&[batch, moved * taps * rank], result.as_slice()].concat();
    let fits = groups > 0
        && moved > 0
        && filters.shape()[1] * groups == channels
        && outputs.is_multiple_of(groups)
        && channels.is_multiple_of(moved);
    if !fits || offsets.shape() != expected {
        let problem = format!("filters {:?} and offsets {:?} do not fit", filters.shape(), offsets.shape());
        return Err(OnnxError::operand(2, problem));
    }
    let outer = [vec![batch, moved], kernel.clone()].concat();
    let offsets = cx.reshaped(&offsets, &[outer.as_slice(), &[rank], &result].concat())?;
    let shape = [outer.as_slice(), &result].concat();
    let mask = match cx.optional(4) {
        Some(mask) if mask.num_elements() == shape.iter().product::<usize>() => {
            Some(cx.reshaped(&mask, &shape)?)
        }
        Some(mask) => return Err(OnnxError::operand(4, format!("{:?} does not fit", mask.shape()))),
        None => None,
    };
    let image = flat(cx, &x)?;
    let source = cx.bind_array(&image)?;
    let distance = cx.bind_array(&offsets)?;
    let (front, back) =
        ([vec!["n".to_owned(), "q".into()], numbered("k", rank)].concat(), numbered("o", rank));
    let letters = [front.clone(), back.clone()].concat();
    let strides = strides(&space);
    let (mut text, mut axes) = (String::new(), Vec::new());
    for (axis, window) in windows.iter().enumerate() {
        let own =
            AxisSamples { axis, size: space[axis], stride: strides[axis], letters: &letters, shape: &shape };
        let moved = distance.at(&[front.as_slice(), &[axis.to_string()], &back].concat());
        text.push_str(&format!(
            "node c{axis} f32[{}]\n{} := f32({moved}) + ({})\n",
            dims(&shape),
            own.at("c"),
            window.index(axis)
        ));
        text.push_str(&own.statements(Interpolation::Linear, Outside::Zero));
        axes.push(own);
    }
    let (position, mut weight) = position_and_weight(&axes);
    if let Some(mask) = &mask {
        weight = format!("f32({}) * {weight}", cx.bind_array(mask)?.at(&letters));
    }
    let (dtype, wide) = (x.dtype(), wide(x.dtype()));
    let own = channels / moved;
    let element = source.at(&["n".into(), format!("{own}*q + e"), position]);
    let sampled = [vec!["n".to_owned(), format!("{own}*q + e")], numbered("k", rank), back.clone()].concat();
    let read =
        |channel: &str| [vec!["n".to_owned(), channel.into()], numbered("k", rank), back.clone()].concat();
    let (inner, outer) = (channels / groups, outputs / groups);
    let filter =
        cx.bind_array(&filters)?
            .at(&[vec![format!("{outer}*g + f"), "c".into()], numbered("k", rank)].concat());
    let bias = match cx.optional(3) {
        Some(bias) => format!(" + {wide}({})", cx.bind_array(&bias)?.at(&["f".into()])),
        None => String::new(),
    };
    let shape = [&[batch, outputs], result.as_slice()].concat();
    let plain = [vec!["n".to_owned(), "f".into()], back.clone()].concat();
    let target = [vec!["n".to_owned(), format!("{outer}*g + f")], back.clone()].concat();
    text.push_str(&format!(
        "node v {wide}[{}], s {wide}[{}]\n{} :+= {weight} * {wide}({element}) where q < {moved}, e < {own}\n\
         {} :+= {} * {wide}({filter}) where g < {groups}, f < {outer}, c < {inner}\n{} := {dtype}({}{bias})",
        dims(&[&[batch, channels], kernel.as_slice(), &result].concat()),
        dims(&shape),
        access("v", &sampled),
        access("s", &target),
        access("v", read(&format!("{inner}*g + c"))),
        access("y", &plain),
        access("s", &plain),
    ));
    Ok(vec![cx.emit(dtype, &shape, &text)?])
}
