//! Runs assignment text over small arrays by the interpreter.

use assignment_text::parse;
use assignments::Assignments;
use assignments::lower::{LowerOptions, LoweredAssignments, lower};
use lowered_ir::Lowered;
use lowered_ir::interp::{self, Memory};
use lowered_ir::verify::verify;
use tnode::{DType, Scalar, TensorNode};

/// A node with this label, type and dimensions.
pub(crate) fn node(label: &str, dtype: DType, dims: &[usize]) -> TensorNode {
    TensorNode::builder(label).dims(dims.iter().copied()).dtype(dtype).build().expect("small")
}

/// A node of `f32`.
pub(crate) fn f32s(label: &str, dims: &[usize]) -> TensorNode {
    node(label, DType::F32, dims)
}

/// Values of alternating sign that are exact in every float type from f16 up.
pub(crate) fn values(count: usize, seed: u64) -> Vec<f64> {
    let step = |i: usize| (i as u64 * 7 + seed * 13) % 17;
    (0..count).map(|i| (step(i) as f64 - 8.0) / 4.0).collect()
}

/// Assignments whose text is valid.
pub(crate) fn read(text: &str, nodes: &[&TensorNode]) -> Assignments {
    let nodes: Vec<TensorNode> = nodes.iter().map(|&node| node.clone()).collect();
    parse(text, &nodes).unwrap_or_else(|error| panic!("{error}"))
}

/// The verified result of lowering.
pub(crate) fn lowered(assignments: &Assignments) -> LoweredAssignments {
    let lowered = lower(assignments, &LowerOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    verify(&lowered.lowered.routine).unwrap_or_else(|error| panic!("{error}"));
    lowered
}

/// The symbols, nodes and loops of the lowered routine, without comments.
pub(crate) fn body(assignments: &Assignments) -> String {
    let text = lowered_ir::text::print(&lowered(assignments).lowered.routine);
    let body = text.lines().filter(|line| line.starts_with("  ") && !line.starts_with("  comment"));
    body.map(|line| line[2..].to_owned() + "\n").collect()
}

/// A lowered program with its memory.
pub(crate) struct Machine {
    pub(crate) lowered: Lowered,
    pub(crate) merge: Option<TensorNode>,
    pub(crate) memory: Memory,
}

impl Machine {
    /// Lowers, and sets all memory to zero.
    pub(crate) fn new(assignments: &Assignments) -> Machine {
        let lowered = lower(assignments, &LowerOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        let LoweredAssignments { lowered, merge, .. } = lowered;
        let memory = Memory::zeroed(&lowered.routine);
        Machine { lowered, merge, memory }
    }

    /// Sets all memory to zero again.
    pub(crate) fn clear(&mut self) {
        self.memory = Memory::zeroed(&self.lowered.routine);
    }

    fn at(&self, node: &TensorNode) -> usize {
        self.lowered.nodes.iter().position(|n| n == node).expect("the node occurs")
    }

    /// Stores the elements of a node, padding included.
    pub(crate) fn set(&mut self, node: &TensorNode, values: &[f64]) {
        let at = self.at(node);
        self.memory.nodes[at] = bytes(node.dtype(), values);
    }

    /// Stores the elements of the merge buffer.
    pub(crate) fn set_merge(&mut self, dtype: DType, values: &[f64]) {
        self.memory.merge = Some(bytes(dtype, values));
    }

    pub(crate) fn run(&mut self, bindings: &[i64]) {
        interp::run(&self.lowered.routine, &mut self.memory, bindings)
            .unwrap_or_else(|error| panic!("{error}"));
    }

    /// The elements of a node, padding included.
    pub(crate) fn get(&self, node: &TensorNode) -> Vec<f64> {
        let dtype = node.dtype();
        let chunks = self.memory.nodes[self.at(node)].chunks_exact(dtype.size_bytes());
        chunks.map(|bytes| Scalar::read(dtype, bytes).expect("a whole element").as_f64()).collect()
    }
}

pub(crate) fn bytes(dtype: DType, values: &[f64]) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * dtype.size_bytes()];
    for (value, place) in values.iter().zip(bytes.chunks_exact_mut(dtype.size_bytes())) {
        Scalar::from_f64(dtype, *value).write(place).expect("a whole element");
    }
    bytes
}
