//! Compares the gradient of a program with differences of its loss.

use assignments::Assignments;
use assignments::lower::{LowerError, LowerOptions, lower};
use lowered_ir::interp::{Buffer, InterpError, Memory, PreparedRoutine};
use lowered_ir::verify;
use tnode::{DType, HostArray, TensorNode};

use crate::error::GradientError;
use crate::retype::Twins;
use crate::{expand, gradient};

/// How to compare a gradient with differences.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// The distance to the two points of a central difference, relative to the parameter where that is
    /// greater than 1.
    pub step: f64,
    /// The greatest accepted error of an element, relative to the difference where that is greater than 1.
    pub tolerance: f64,
    /// The values of static symbols, in the order of the program's symbols.
    pub bindings: Vec<i64>,
}

impl Default for CheckOptions {
    fn default() -> CheckOptions {
        CheckOptions { step: 1e-5, tolerance: 1e-6, bindings: Vec::new() }
    }
}

/// The element of a gradient that is farthest from the difference of the loss.
#[derive(Clone, Debug, PartialEq)]
pub struct WorstElement {
    /// The name of the parameter.
    pub parameter: String,
    /// The indices of the element.
    pub index: Vec<usize>,
    /// The central difference of the loss by the element.
    pub difference: f64,
    /// The element of the gradient.
    pub gradient: f64,
    /// The distance of the two, relative to the difference where that is greater than 1; infinite for NaN.
    pub error: f64,
}

/// A reason why a gradient cannot be compared with differences, or is not close to them.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum CheckError {
    /// The program has no gradient.
    #[error(transparent)]
    Gradient(#[from] GradientError),
    /// The program cannot be lowered.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The lowered program is invalid, which is a bug of this library.
    #[error("the program with its gradient is no valid routine, which is a bug of autodiff: {0}")]
    Verify(#[from] verify::VerifyError),
    /// The program cannot be run.
    #[error(transparent)]
    Interpret(#[from] InterpError),
    /// An error about a node or an array.
    #[error(transparent)]
    Node(#[from] tnode::TensorNodeError),
    /// A node that the program reads has no values; `expected` are all nodes that need some.
    #[error("node {node} has no values; the program reads {}", expected.join(", "))]
    MissingInput { node: String, expected: Vec<String> },
    /// The program overwrites a parameter, so its values cannot be changed from outside.
    #[error("the program writes the parameter {parameter}; differences need a node that it only reads")]
    WrittenParameter { parameter: String },
    /// An element of a gradient is far from the difference.
    #[error(
        "the gradient by {} is {} at {:?}, and the difference of the loss is {}; expected an error of at most \
         {tolerance:e}, found {:e}", worst.parameter, worst.gradient, worst.index, worst.difference, worst.error
    )]
    Differs { worst: WorstElement, tolerance: f64 },
}

/// Compares the gradient of `loss` with central differences, for every element of every parameter, on the
/// interpreter and in f64 whatever the types of the nodes are. Returns the worst element of each parameter.
///
/// `inputs` are the values of all nodes that the program only reads, and of others that it reads before it
/// writes them; those without values start from 0.
///
/// ```
/// use assignment_text::parse;
/// use autodiff::{CheckOptions, check};
/// use tnode::{DType, HostArray, TensorNode};
///
/// let w = TensorNode::builder("w").dims([3]).dtype(DType::F32).build()?;
/// let loss = TensorNode::builder("loss").dims([]).dtype(DType::F32).build()?;
/// let program = parse("loss :+= exp(w[i])", &[w.clone(), loss.clone()])?;
/// let values = HostArray::from_slice(&[0.5f32, -1.0, 2.0], [3])?;
/// let worst = check(&program, &loss, &[&w], &[(&w, values)], &CheckOptions::default())?;
/// assert!(worst[0].error < 1e-8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the program cannot be differentiated or run, inputs are missing, or the worst element of a parameter
/// has a greater error than the tolerance.
pub fn check(
    program: &Assignments,
    loss: &TensorNode,
    parameters: &[&TensorNode],
    inputs: &[(&TensorNode, HostArray)],
    options: &CheckOptions,
) -> Result<Vec<WorstElement>, CheckError> {
    let mut twins = Twins::default();
    let mut program = program.clone();
    expand(&mut program)?;
    let written = program.written_nodes();
    if let Some(parameter) = parameters.iter().find(|&&node| written.contains(node)) {
        return Err(CheckError::WrittenParameter { parameter: parameter.name() });
    }
    let needed: Vec<TensorNode> =
        program.context_nodes().into_iter().filter(|node| !written.contains(node)).collect();
    if let Some(missing) = needed.iter().find(|&node| inputs.iter().all(|(input, _)| *input != node)) {
        let expected = needed.iter().map(TensorNode::name).collect();
        return Err(CheckError::MissingInput { node: missing.name(), expected });
    }
    let forward = twins.program(&program)?;
    let loss = twins.of(loss)?;
    let nodes = parameters.iter().map(|&node| twins.of(node)).collect::<Result<Vec<_>, _>>()?;
    let nodes: Vec<&TensorNode> = nodes.iter().collect();
    let mut values = Vec::new();
    for (node, array) in inputs {
        let twin = twins.of(node)?;
        let mut converted = HostArray::zeros(twin.dtype(), array.dims_without_padding())?;
        converted.set_values(&array.values())?;
        values.push((twin, converted));
    }
    let gradient = gradient(&forward, &loss, &nodes)?;
    let backward = PreparedProgram::new(&gradient.program, &values, options)?.nodes(&gradient.gradients)?;
    let mut run = PreparedProgram::new(&forward, &values, options)?;
    let mut all = Vec::new();
    for (parameter, gradient) in nodes.iter().zip(&backward) {
        let worst = run.worst(parameter, gradient, &loss, options)?;
        if worst.error > options.tolerance {
            return Err(CheckError::Differs { worst, tolerance: options.tolerance });
        }
        all.push(worst);
    }
    Ok(all)
}

/// A program ready to be run on the interpreter.
struct PreparedProgram {
    routine: PreparedRoutine,
    nodes: Vec<TensorNode>,
    memory: Memory,
    bindings: Vec<i64>,
}

impl PreparedProgram {
    fn new(
        program: &Assignments,
        values: &[(TensorNode, HostArray)],
        options: &CheckOptions,
    ) -> Result<PreparedProgram, CheckError> {
        let symbols = program.symbols.iter().cloned().collect();
        let lowered = lower(program, &LowerOptions { symbols, ..LowerOptions::default() })?.lowered;
        verify::verify(&lowered.routine)?;
        let mut memory = Memory::zeroed(&lowered.routine);
        for (node, bytes) in lowered.nodes.iter().zip(&mut memory.nodes) {
            if let Some((_, array)) = values.iter().find(|(input, _)| input == node) {
                *bytes = array.with_margins_of(node)?.bytes().to_vec();
            }
        }
        let routine = PreparedRoutine::new(&lowered.routine)?;
        Ok(PreparedProgram { routine, nodes: lowered.nodes, memory, bindings: options.bindings.clone() })
    }

    /// Runs the program on a copy of its memory, and returns the values of some nodes.
    fn nodes(&self, nodes: &[TensorNode]) -> Result<Vec<Vec<f64>>, CheckError> {
        let mut memory = self.memory.clone();
        let mut buffers: Vec<Buffer<'_>> =
            memory.nodes.iter_mut().map(|bytes| Buffer::Write(bytes)).collect();
        self.routine.run(&mut buffers, None, &self.bindings)?;
        nodes.iter().map(|node| self.values(node, &memory)).collect()
    }

    fn values(&self, node: &TensorNode, memory: &Memory) -> Result<Vec<f64>, CheckError> {
        let dims = node.dims()?;
        let Some(at) = self.position(node) else {
            return Ok(vec![0.0; node.num_elems()?]);
        };
        let array = HostArray::from_bytes(node.dtype(), dims, &memory.nodes[at])?;
        let array = match node.padding() {
            Some(padding) => HostArray::from_padded(array, padding.clone())?,
            None => array,
        };
        Ok(array.values())
    }

    fn position(&self, node: &TensorNode) -> Option<usize> {
        self.nodes.iter().position(|known| known == node)
    }

    /// The loss after one element of a parameter has been moved.
    fn loss_at(&mut self, element: (usize, usize), value: f64, loss: &TensorNode) -> Result<f64, CheckError> {
        let (node, offset) = element;
        let range = offset..offset + DType::F64.size_bytes();
        let before = self.memory.nodes[node][range.clone()].to_vec();
        self.memory.nodes[node][range.clone()].copy_from_slice(&value.to_le_bytes());
        let found = self.nodes(std::slice::from_ref(loss));
        self.memory.nodes[node][range].copy_from_slice(&before);
        Ok(found?.into_iter().flatten().next().unwrap_or(0.0))
    }

    /// The element of a gradient that is farthest from the difference.
    fn worst(
        &mut self,
        parameter: &TensorNode,
        gradient: &[f64],
        loss: &TensorNode,
        options: &CheckOptions,
    ) -> Result<WorstElement, CheckError> {
        let mut worst = WorstElement {
            parameter: parameter.name(),
            index: Vec::new(),
            difference: 0.0,
            gradient: 0.0,
            error: 0.0,
        };
        let Some(node) = self.position(parameter) else { return Ok(worst) };
        let dims = parameter.dims_without_padding()?;
        for (element, &found) in gradient.iter().enumerate() {
            let index = indices(element, &dims);
            let offset = padded_offset(parameter, &index)? * DType::F64.size_bytes();
            let bytes = &self.memory.nodes[node][offset..offset + DType::F64.size_bytes()];
            let x = tnode::Scalar::read(DType::F64, bytes).map_or(0.0, tnode::Scalar::as_f64);
            let step = options.step * x.abs().max(1.0);
            let above = self.loss_at((node, offset), x + step, loss)?;
            let below = self.loss_at((node, offset), x - step, loss)?;
            let difference = (above - below) / ((x + step) - (x - step));
            let error = (found - difference).abs() / difference.abs().max(1.0);
            let error = if error.is_nan() { f64::INFINITY } else { error };
            let is_worse = error > worst.error;
            if is_worse || (error == worst.error && difference.abs() >= worst.difference.abs()) {
                worst = WorstElement { index, difference, gradient: found, error, ..worst };
            }
        }
        Ok(worst)
    }
}

/// The indices of the element at a row-major position.
fn indices(mut element: usize, dims: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = dims
        .iter()
        .rev()
        .map(|&dim| {
            let at = element % dim.max(1);
            element /= dim.max(1);
            at
        })
        .collect();
    index.reverse();
    index
}

/// The position of an element in the memory of a node with margins.
fn padded_offset(node: &TensorNode, index: &[usize]) -> Result<usize, tnode::TensorNodeError> {
    let left = |axis: usize| node.padding().map_or(0, |padding| padding.axes[axis].left);
    let dims = node.dims()?;
    Ok(index
        .iter()
        .zip(&dims)
        .enumerate()
        .fold(0, |offset, (axis, (at, dim))| offset * dim + at + left(axis)))
}
