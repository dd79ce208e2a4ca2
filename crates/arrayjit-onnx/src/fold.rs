//! Folds functions of channels into the convolutions before them.
//!
//! A batch normalization, a product or a sum with constants that are the same for all elements of a channel
//! multiplies each channel by a factor and adds a shift. If it is the only reader of a convolution with
//! constant filters, the factor goes into the filters and the shift into the bias, which are computed in f64
//! and rounded once. Only f32 is folded: narrower filters would be rounded twice.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use tnode::{DType, HostArray};

use crate::{
    budget::Budget,
    error::{OnnxError, Result},
    host::HostValue,
    ir::{Attribute, ModelNode},
};

pub(crate) type Constants = HashMap<String, Arc<HostValue>>;

/// The nodes and constants of a graph while functions are folded.
pub(crate) struct Folding<'a> {
    pub(crate) nodes: &'a mut Vec<ModelNode>,
    pub(crate) constants: &'a mut Constants,
    /// Names whose values a run may give, although the file has defaults.
    pub(crate) inputs: &'a HashSet<&'a str>,
    /// How often each name is read.
    pub(crate) uses: HashMap<String, usize>,
    /// What the load took so far.
    pub(crate) budget: &'a mut Budget,
}

/// A factor and a shift for each channel.
struct Affine {
    factor: Vec<f64>,
    shift: Vec<f64>,
}

impl Folding<'_> {
    /// Folds what can be folded, in the order of the nodes.
    pub(crate) fn run(mut self) -> Result<()> {
        let mut convolutions: HashMap<String, usize> = HashMap::new();
        let mut is_folded = vec![false; self.nodes.len()];
        for (at, is_folded) in is_folded.iter_mut().enumerate() {
            let Some(node) = self.nodes.get(at) else { break };
            if matches!(node.operator.name, "Conv" | "ConvTranspose") {
                convolutions.extend(node.outputs.first().map(|name| (name.clone(), at)));
                continue;
            }
            let Some((conv, affine)) = self.folded(node, &convolutions) else { continue };
            let Some(output) = node.outputs.first().cloned() else { continue };
            self.apply(conv, &affine, output.clone())?;
            convolutions.insert(output, conv);
            *is_folded = true;
        }
        let mut folded = is_folded.into_iter();
        self.nodes.retain(|_| !folded.next().unwrap_or(false));
        Ok(())
    }

    /// The convolution that a node reads alone, and its function of channels.
    fn folded(&self, node: &ModelNode, convolutions: &HashMap<String, usize>) -> Option<(usize, Affine)> {
        let read = match node.operator.name {
            "BatchNormalization" => 0,
            "Add" | "Mul" => node.inputs.iter().position(|name| convolutions.contains_key(name))?,
            _ => return None,
        };
        let name = node.inputs.get(read)?;
        let at = *convolutions.get(name)?;
        let conv = self.nodes.get(at)?;
        let is_only_reader =
            self.uses.get(name) == Some(&1) && node.outputs.iter().skip(1).all(String::is_empty);
        let filters = self.floats(conv.inputs.get(1)?)?;
        let has_bias = conv.inputs.get(2).is_some_and(|name| !name.is_empty());
        if !is_only_reader || has_bias && self.floats(conv.inputs.get(2)?).is_none() {
            return None;
        }
        let channels = channels(conv, filters.shape())?;
        let affine = match node.operator.name {
            "BatchNormalization" => self.normalization(node, channels)?,
            _ => {
                let operand = self.floats(node.inputs.get(1 - read)?)?;
                let values = per_channel(operand, channels, filters.shape().len())?;
                match node.operator.name {
                    "Mul" => Affine { factor: values, shift: vec![0.0; channels] },
                    _ => Affine { factor: vec![1.0; channels], shift: values },
                }
            }
        };
        Some((at, affine))
    }

    /// The constant of that name, if it is an array of f32 that no run can change.
    fn floats(&self, name: &str) -> Option<&HostValue> {
        let value = self.constants.get(name).filter(|_| !self.inputs.contains(name))?;
        (value.dtype() == DType::F32).then_some(&**value)
    }

    fn normalization(&self, node: &ModelNode, channels: usize) -> Option<Affine> {
        if matches!(node.attributes.get("training_mode"), Some(Attribute::Int(1))) {
            return None;
        }
        let epsilon = match node.attributes.get("epsilon") {
            Some(Attribute::Float(value)) if *value >= 0.0 => f64::from(*value),
            None => f64::from(1e-5f32),
            // The operator rejects it.
            Some(_) => return None,
        };
        let mut values = Vec::new();
        for at in 1..5 {
            let value = self.floats(node.inputs.get(at)?)?;
            values.push((value.shape() == [channels]).then(|| value.floats())?);
        }
        let [gain, bias, mean, variance] = values.as_slice() else { return None };
        let factor: Vec<f64> =
            gain.iter().zip(variance).map(|(gain, variance)| gain / (variance + epsilon).sqrt()).collect();
        let shift = bias.iter().zip(mean).zip(&factor).map(|((bias, mean), factor)| bias - mean * factor);
        let shift = shift.collect();
        Some(Affine { factor, shift })
    }

    /// Changes the filters and the bias of a convolution, whose result is `output` then.
    fn apply(&mut self, at: usize, affine: &Affine, output: String) -> Result<()> {
        let Some(conv) = self.nodes.get(at) else { return Ok(()) };
        let Some(name) = conv.inputs.get(1).cloned() else { return Ok(()) };
        let outer_axes = if conv.operator.name == "Conv" { 1 } else { 2 };
        let Some(mut scaled) = self.taken(&name)? else { return Ok(()) };
        let Some(conv) = self.nodes.get(at) else { return Ok(()) };
        let inner: usize = scaled.dims().iter().skip(outer_axes).product();
        let channels = affine.factor.len();
        let runs = scaled.as_mut_slice::<f32>()?.chunks_mut(inner.max(1));
        for (run, &factor) in runs.zip(affine.factor.iter().cycle()) {
            run.iter_mut().for_each(|value| *value = (f64::from(*value) * factor) as f32);
        }
        let old = conv.inputs.get(2).and_then(|name| self.floats(name)).map(HostValue::floats);
        let old = old.unwrap_or_else(|| vec![0.0; channels]);
        let pairs = old.iter().zip(&affine.factor).zip(&affine.shift);
        let bias: Vec<f32> = pairs.map(|((old, factor), shift)| (old * factor + shift) as f32).collect();
        let names = [format!("{output}#filters"), format!("{output}#bias")];
        let arrays = [scaled, HostArray::from_slice(&bias, [channels])?];
        for (name, array) in names.iter().zip(arrays) {
            self.constants.insert(name.clone(), HostValue::new(array, true));
        }
        let [filters, bias] = names;
        if let Some(conv) = self.nodes.get_mut(at) {
            let x = conv.inputs.first().cloned().unwrap_or_default();
            conv.inputs = vec![x, filters, bias];
            conv.narrow = vec![None; 3];
            conv.outputs = vec![output];
        }
        Ok(())
    }

    /// A constant, copied if another node reads it too.
    fn taken(&mut self, name: &str) -> Result<Option<HostArray>> {
        let is_last = self.uses.get(name).is_none_or(|&count| count <= 1);
        let value = match is_last {
            true => self.constants.remove(name),
            false => self.constants.get(name).cloned(),
        };
        let Some(value) = value else { return Ok(None) };
        if !is_last {
            let bytes = value.array.bytes().len() as u64;
            self.budget.take(bytes).map_err(OnnxError::at(format!("value `{name}`")))?;
        }
        let array = Arc::try_unwrap(value).map_or_else(|value| value.array.clone(), |value| value.array);
        Ok(Some(Arc::try_unwrap(array).or_else(|array| array.try_clone())?))
    }
}

/// The number of channels of the result of a convolution; none if its filters do not hold them on one axis.
fn channels(conv: &ModelNode, filters: &[usize]) -> Option<usize> {
    match (conv.operator.name, conv.attributes.get("group")) {
        ("Conv", _) => filters.first().copied(),
        (_, None | Some(Attribute::Int(1))) => filters.get(1).copied(),
        _ => None,
    }
}

/// The values of an operand for each channel, if it is the same for all elements of a channel of a result of
/// that rank.
fn per_channel(operand: &HostValue, channels: usize, rank: usize) -> Option<Vec<f64>> {
    let shape = operand.shape();
    let missing = rank.checked_sub(shape.len())?;
    let is_plain =
        shape.iter().enumerate().all(|(at, &size)| size == 1 || at + missing == 1 && size == channels);
    if !is_plain {
        return None;
    }
    let values = operand.floats();
    match values.as_slice() {
        [value] => Some(vec![*value; channels]),
        all => (all.len() == channels).then_some(values),
    }
}
