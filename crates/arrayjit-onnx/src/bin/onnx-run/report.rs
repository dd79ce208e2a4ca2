//! Text about the interface of a model and about its outputs.

use arrayjit_onnx::{Dim, HostArray, InferenceSession, Model, ValueInfo};

/// The most elements that a summary shows.
const SHOWN: usize = 8;

/// The inputs and outputs of a model, a line each.
pub(crate) fn interface(model: &Model) -> String {
    let labels = |info: &ValueInfo| match model.labels(&info.name) {
        Some(labels) => format!(" of the labels {}", labels.join(", ")),
        None => String::new(),
    };
    let lines = |values: Vec<ValueInfo>| {
        values.iter().map(|info| format!("  {}{}\n", value(info), labels(info))).collect()
    };
    let (inputs, outputs): (String, String) = (lines(model.inputs()), lines(model.outputs()));
    format!("inputs:\n{inputs}outputs:\n{outputs}").trim_end().to_owned()
}

/// An input or output with its type and shape, such as `x f32[batch, 3, ?, ?]`.
pub(crate) fn value(info: &ValueInfo) -> String {
    let dtype = info.dtype.map_or_else(|| "of unknown type".to_owned(), |dtype| dtype.to_string());
    let size = |dim: &Dim| match dim {
        Dim::Known(size) => size.to_string(),
        Dim::Named(name) => name.clone(),
        Dim::Unknown => "?".into(),
    };
    let dims = info.dims.as_ref().map(|dims| dims.iter().map(size).collect::<Vec<_>>().join(", "));
    format!("{} {dtype}[{}]", info.name, dims.unwrap_or_else(|| "..".into()))
}

/// The dimensions that the model leaves open, a line each: whether one compilation serves all values, or what
/// forces a compilation for each of them.
pub(crate) fn dimensions(session: &InferenceSession) -> String {
    let (all, exact) = (session.dimensions(), session.exact_dimensions());
    let steps = session.dimension_steps();
    let line = |name: &String| match &exact {
        Ok(exact) => match exact.get(name) {
            Some(reason) => format!("  {name}: compiled for each value: {reason}\n"),
            None => match steps.get(name) {
                Some(step) => format!("  {name}: one compilation for all multiples of {step}\n"),
                None => format!("  {name}: one compilation for all values\n"),
            },
        },
        Err(error) => format!("  {name}: {error}\n"),
    };
    let lines: String = all.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("dimensions:\n{lines}") }
}

/// An output with its least and largest element, their mean, and its first elements.
pub(crate) fn summary(name: &str, array: &HostArray) -> String {
    let values = array.values();
    let dims: Vec<String> = array.dims().iter().map(usize::to_string).collect();
    let head = format!("{name} {}[{}]", array.dtype(), dims.join(", "));
    if values.is_empty() {
        return format!("{head}: no elements");
    }
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let first: Vec<String> = values.iter().take(SHOWN).map(|value| short(*value)).collect();
    let more = if values.len() > SHOWN { ", ..." } else { "" };
    let (least, largest, mean) = (short(least), short(largest), short(mean));
    format!("{head}: min {least}, max {largest}, mean {mean}; {}{more}", first.join(", "))
}

/// A number in at most six digits.
fn short(value: f64) -> String {
    let text = format!("{value:.6}");
    match value == 0.0 || (1e-3..1e6).contains(&value.abs()) {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => format!("{value:.4e}"),
    }
}
