//! Programs with input values, and the comparison of their gradients with differences.

use assignment_text::Program;
use assignments::Assignments;
use autodiff::{CheckError, CheckOptions, WorstElement, check, gradient};
use tnode::{DType, HostArray, TensorNode};

use crate::compiled::{compare_optimized, compare_tangent, results};
use crate::recompute::compare_recomputed;

/// A node that a program reads.
#[derive(Clone)]
pub(crate) struct Input {
    pub(crate) node: TensorNode,
    pub(crate) values: Vec<f64>,
}

/// A sequence of numbers from 0 to 1 that looks random.
pub(crate) fn noise(seed: usize, count: usize) -> Vec<f64> {
    let mut state = seed as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (state ^ (state >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        ((mixed ^ (mixed >> 29)) >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..count).map(|_| next()).collect()
}

fn seed_of(name: &str) -> usize {
    name.bytes().fold(7, |seed, byte| seed * 31 + usize::from(byte))
}

/// Floats between `low` and `high`.
pub(crate) fn between(name: &str, dims: &[usize], low: f64, high: f64) -> Input {
    let node = TensorNode::builder(name).dims(dims.iter().copied()).dtype(DType::F32).build().expect("small");
    let values = noise(seed_of(name), dims.iter().product()).into_iter();
    Input { node, values: values.map(|x| low + (high - low) * x).collect() }
}

/// Floats between -2 and 2.
pub(crate) fn floats(name: &str, dims: &[usize]) -> Input {
    between(name, dims, -2.0, 2.0)
}

/// Integers with these values.
pub(crate) fn integers(name: &str, dims: &[usize], values: &[i32]) -> Input {
    let node = TensorNode::builder(name).dims(dims.iter().copied()).dtype(DType::I32).build().expect("small");
    Input { node, values: values.iter().map(|&x| f64::from(x)).collect() }
}

/// Floats with these values.
pub(crate) fn values(name: &str, dims: &[usize], values: &[f64]) -> Input {
    let node = TensorNode::builder(name).dims(dims.iter().copied()).dtype(DType::F32).build().expect("small");
    Input { node, values: values.to_vec() }
}

impl Input {
    /// The values in memory, with margins.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.array().with_margins_of(&self.node).expect("the same dimensions").bytes().to_vec()
    }

    pub(crate) fn array(&self) -> HostArray {
        let dims = self.node.dims_without_padding().expect("given");
        let mut array = HostArray::zeros(self.node.dtype(), dims).expect("small");
        array.set_values(&self.values).expect("as many as elements");
        array
    }
}

/// Reads a program with a node `loss`.
pub(crate) fn program(text: &str, inputs: &[Input]) -> (Assignments, TensorNode) {
    let nodes: Vec<TensorNode> = inputs.iter().map(|input| input.node.clone()).collect();
    let parsed = Program::parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let parsed = parsed.keep("loss").assignments(&nodes).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let loss = parsed.kept.iter().find(|node| node.name() == "loss").expect("it is kept").clone();
    (parsed, loss)
}

/// The gradient of the node `loss` of a program by its only input.
pub(crate) fn gradient_at(text: &str, input: &Input) -> Vec<f64> {
    let (program, loss) = program(text, std::slice::from_ref(input));
    let found = gradient(&program, &loss, &[&input.node]).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let found = results(&found.program, std::slice::from_ref(input), &found.gradients, &[]);
    found.unwrap_or_else(|error| panic!("{text}\n{error}")).swap_remove(0)
}

/// Compares the gradient by all inputs of floats with differences.
fn compare(text: &str, inputs: &[Input], bindings: &[i64]) -> Result<Vec<WorstElement>, CheckError> {
    let (program, loss) = program(text, inputs);
    let parameters: Vec<&TensorNode> =
        inputs.iter().map(|input| &input.node).filter(|node| node.dtype().is_float()).collect();
    let arrays: Vec<(&TensorNode, HostArray)> =
        inputs.iter().map(|input| (&input.node, input.array())).collect();
    let options = CheckOptions { bindings: bindings.to_vec(), ..CheckOptions::default() };
    check(&program, &loss, &parameters, &arrays, &options)
}

/// Asserts that gradients are close to differences and not all 0, and that the optimizer keeps their bits.
pub(crate) fn assert_close(text: &str, inputs: &[Input]) {
    assert_bound_close(text, inputs, &[]);
}

pub(crate) fn assert_bound_close(text: &str, inputs: &[Input], bindings: &[i64]) {
    let (program, loss) = program(text, inputs);
    let floats: Vec<&TensorNode> =
        inputs.iter().map(|input| &input.node).filter(|node| node.dtype().is_float()).collect();
    let found =
        autodiff::gradient(&program, &loss, &floats).unwrap_or_else(|error| panic!("{text}\n{error}"));
    match compare(text, inputs, bindings) {
        Ok(worst) => {
            assert!(worst.iter().any(|worst| worst.difference != 0.0), "all gradients are 0: {text}");
        }
        Err(error) => panic!("{text}\n{error}\n{}", found.program),
    }
    if let Err(error) = compare_optimized(&found.program, inputs, &found.gradients, bindings) {
        panic!("{text}\n{error}\n{}", found.program);
    }
    // A gradient of a gradient adds the contributions of the copies in another order.
    let is_first = !program.has_gradients();
    if let (true, Err(error)) =
        (is_first, compare_recomputed(&program, &loss, &found, inputs, &floats, bindings))
    {
        panic!("{text}\n{error}");
    }
    let inputs = inputs.to_vec();
    if let Err(error) = compare_tangent(&program, &loss, &found, inputs, &floats, bindings, 1e-4) {
        panic!("{text}\n{error}\n{}", found.program);
    }
}
