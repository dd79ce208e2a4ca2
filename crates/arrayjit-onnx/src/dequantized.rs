//! Products of dequantized operands, which become products of integers.
//!
//! Quantized models in QDQ form multiply the results of two `DequantizeLinear`. The product of the integers,
//! scaled afterwards, rounds each result three times, while the written product rounds each factor and each
//! sum. A `MatMul`, `Gemm` or `Conv` whose operands have constant scales and zero points reads the integers
//! instead; nodes that nobody reads any more are dropped.

use std::collections::{HashMap, HashSet};

use tnode::DType;

use crate::{
    fold::Constants,
    ir::{Attribute, ModelNode, NodeOperator},
    operators,
};

/// The nodes and constants of a graph while products are replaced.
pub(crate) struct Replacing<'a> {
    pub(crate) nodes: &'a mut Vec<ModelNode>,
    pub(crate) constants: &'a Constants,
    /// Names whose values a run may give, although the file has defaults.
    pub(crate) inputs: &'a HashSet<&'a str>,
    /// The names of the graph's outputs.
    pub(crate) outputs: HashSet<&'a str>,
}

impl Replacing<'_> {
    pub(crate) fn run(self) {
        let is_made_here = |node: &&ModelNode| node.operator.name == "DequantizeLinear";
        let made: HashMap<&str, &ModelNode> = (self.nodes.iter().filter(is_made_here))
            .filter_map(|node| Some((node.outputs.first()?.as_str(), node)))
            .collect();
        if made.is_empty() {
            return;
        }
        let replaced: Vec<_> = self.nodes.iter().map(|node| self.replaced(node, &made)).collect();
        for (node, replaced) in self.nodes.iter_mut().zip(replaced) {
            if let Some((operator, inputs)) = replaced {
                node.narrow = vec![None; inputs.len()];
                (node.operator, node.inputs) = (operator, inputs);
            }
        }
        let read: HashSet<String> = self.nodes.iter().flat_map(ModelNode::reads).cloned().collect();
        let is_read = |name: &String| read.contains(name) || self.outputs.contains(name.as_str());
        self.nodes
            .retain(|node| node.operator.name != "DequantizeLinear" || node.outputs.iter().any(is_read));
    }

    /// The operator that takes the place of a node's, and its operands: those of both `DequantizeLinear`, and
    /// the others of the node.
    fn replaced(
        &self,
        node: &ModelNode,
        made: &HashMap<&str, &ModelNode>,
    ) -> Option<(NodeOperator, Vec<String>)> {
        let int = |name: &str| match node.attributes.get(name) {
            Some(&Attribute::Int(value)) => value,
            _ => 0,
        };
        let has_factors = ["alpha", "beta"].iter().any(|name| {
            node.attributes.get(*name).is_some_and(|value| !matches!(value, Attribute::Float(1.0)))
        });
        // The axis of the right operand that becomes an axis of the result.
        let axis = match node.operator.name {
            "MatMul" => 1,
            "Gemm" if has_factors || int("transA") != 0 => return None,
            "Gemm" => 1 - int("transB").clamp(0, 1),
            "Conv" => 0,
            _ => return None,
        };
        let [left, right, others @ ..] = node.inputs.as_slice() else { return None };
        let (left, right) = (made.get(left.as_str())?, made.get(right.as_str())?);
        let has_one_scale = self.constant_sizes(left)? == [1, 1];
        let operator = operators::of_dequantized(node.operator.name)?;
        (has_one_scale && self.scales_axis(right, axis))
            .then(|| (operator, [left.inputs.as_slice(), right.inputs.as_slice(), others].concat()))
    }

    /// Whether a node has an 8-bit operand, and one scale for all of it or one for each element of an axis of
    /// a constant.
    fn scales_axis(&self, node: &ModelNode, axis: i64) -> bool {
        let Some(sizes) = self.constant_sizes(node) else { return false };
        let own = match node.attributes.get("axis") {
            Some(&Attribute::Int(axis)) => axis,
            _ => 1,
        };
        let values = node.inputs.first().and_then(|name| self.constants.get(name));
        let scales = |shape: &[usize]| {
            let own = if own < 0 { own + shape.len() as i64 } else { own };
            own == axis && shape.get(axis as usize).is_some_and(|&size| sizes == [size; 2])
        };
        sizes == [1, 1] || values.is_some_and(|values| scales(values.shape()))
    }

    /// The sizes of the scale and the zero point of a node, if both are constants, the scale in f32 and the
    /// zero point in 8 bits.
    fn constant_sizes(&self, node: &ModelNode) -> Option<[usize; 2]> {
        let [_, scale, zero] = node.inputs.as_slice() else { return None };
        let has_only_axis = node.attributes.keys().all(|name| name == "axis");
        let constant =
            |name: &String| self.constants.get(name).filter(|_| !self.inputs.contains(name.as_str()));
        let (scale, zero) = (constant(scale)?, constant(zero)?);
        let fits = scale.dtype() == DType::F32 && matches!(zero.dtype(), DType::U8 | DType::I8);
        let is_plain = has_only_axis && node.narrow.iter().all(Option::is_none);
        (is_plain && fits).then(|| [scale, zero].map(|value| value.shape().iter().product()))
    }
}
