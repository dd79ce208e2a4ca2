//! Quantizations that give back the integers of a `DequantizeLinear`.
//!
//! Models in QDQ form quantize around every operator, those that only move elements included. If
//! `QuantizeLinear` has the scale and the zero point of the `DequantizeLinear` whose elements it reads, its
//! quotients differ from integers of 8 bits by less than 1e-4, so it rounds them to these integers. The
//! operators in between then move the integers. No bit changes.

use std::collections::{HashMap, HashSet};

use tnode::DType;

use crate::{fold::Constants, ir::ModelNode, operators};

/// Operators that move elements of their first operand.
const MOVES: [&str; 6] = ["Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"];

/// The nodes and constants of a graph while quantizations are removed.
pub(crate) struct Rejoining<'a> {
    pub(crate) nodes: &'a mut Vec<ModelNode>,
    pub(crate) constants: &'a Constants,
    /// Names whose values a run may give, although the file has defaults.
    pub(crate) inputs: &'a HashSet<&'a str>,
    /// How often each name is read.
    pub(crate) uses: &'a HashMap<String, usize>,
}

impl Rejoining<'_> {
    pub(crate) fn run(self) {
        let mut made: HashMap<String, usize> = HashMap::new();
        for at in 0..self.nodes.len() {
            if let Some((integers, moves)) = self.integers(at, &made) {
                let mut source = integers;
                if let [last, .., first] | [first @ last] = moves.as_slice() {
                    self.nodes[*first].inputs[0] = source;
                    source = self.nodes[*last].outputs[0].clone();
                }
                let node = &mut self.nodes[at];
                if let Ok(identity) = operators::find("", "Identity", node.opset) {
                    (node.operator, node.inputs, node.narrow) = (identity, vec![source], vec![None]);
                    node.attributes.clear();
                }
            }
            made.extend(self.nodes[at].outputs.iter().map(|name| (name.clone(), at)));
        }
    }

    /// The integers that a quantization gives back, and the nodes that move them, from the last one.
    fn integers(&self, at: usize, made: &HashMap<String, usize>) -> Option<(String, Vec<usize>)> {
        let node = &self.nodes[at];
        let own = self.quantization(node).filter(|_| node.operator.name == "QuantizeLinear")?;
        let (mut name, mut moves) = (node.inputs.first()?, Vec::new());
        loop {
            let at = *made.get(name)?;
            let maker = &self.nodes[at];
            match maker.operator.name {
                "DequantizeLinear" => {
                    let is_same = self.quantization(maker) == Some(own);
                    return is_same.then(|| (maker.inputs[0].clone(), moves));
                }
                other if MOVES.contains(&other) && self.uses.get(name) == Some(&1) => moves.push(at),
                _ => return None,
            }
            name = maker.inputs.first()?;
        }
    }

    /// The bits of the scale, the zero point and its type, if both are constants for all elements, of f32 and
    /// of 8 bits. No quotient by such a scale is subnormal or overflows.
    fn quantization(&self, node: &ModelNode) -> Option<(u32, i64, DType)> {
        let [_, scale, zero] = node.inputs.as_slice() else { return None };
        let constant = |name: &String| {
            let value = self.constants.get(name).filter(|_| !self.inputs.contains(name.as_str()))?;
            (value.shape().iter().product::<usize>() == 1).then_some(value)
        };
        let (scale, zero) = (constant(scale)?, constant(zero)?);
        let is_plain =
            node.attributes.keys().all(|name| name == "axis") && node.narrow.iter().all(Option::is_none);
        let fits = scale.dtype() == DType::F32 && matches!(zero.dtype(), DType::U8 | DType::I8);
        let number = *scale.floats().first()? as f32;
        let is_exact = number.is_normal() && (255.0 * number).is_finite();
        (is_plain && fits && is_exact).then_some((number.to_bits(), *zero.ints().first()?, zero.dtype()))
    }
}
